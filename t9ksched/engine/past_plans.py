"""What is remembered of planned starts between cycles, so that an event remakes only what it touches.

A cycle *found nothing to improve* when no plan moved in it and no room came free after a plan had been looked at. While
all goes as it expected after that (gangs end when they were to end, others start where they were planned), no plan can
get an earlier start: each stands without another look. Anything else has all plans looked at again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.nodes import Static
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Planning
from t9ksched.engine.timeline import NEVER_ENDS, Block, Room, end_of
from t9ksched.engine.view import QueueState, View
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.reservation import Reservation


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What was to be expected at the end of a cycle that found nothing to improve.

    Attributes:
        planned: all planned starts.
        free: the columns of free room, shape (resources, nodes).
        ends: moment, gang, queue and room of everything that is to come free.
        held: what queues with a quota were charged, by queue and resource.
    """

    planning: Planning
    planned: tuple[Reservation, ...]
    free: Int64s
    ends: tuple[tuple[int, str, str, Room], ...]
    specs: Mapping[str, object]
    held: dict[str, dict[str, int]]


class PastPlans:
    """Plans and ends as room on the nodes of the latest trial, and what was expected of them."""

    def __init__(self) -> None:
        self._static: Static | None = None
        self._rooms: dict[str, tuple[ExpectedEnd, Room | None]] = {}
        self._blocks: dict[str, tuple[tuple[Reservation, ...], Block]] = {}
        self._expected: Expected | None = None

    def follow(self, trial: Trial) -> None:
        """A cycle begins on this trial."""
        if trial.nodes.static is not self._static:
            self._static = trial.nodes.static
            self._rooms.clear()
            self._blocks.clear()
            self._expected = None

    def rooms(self, expected_ends: Iterable[ExpectedEnd], trial: Trial) -> list[tuple[ExpectedEnd, Room]]:
        """The expected ends with their room on the nodes that there are; one that has none is left out."""
        before, self._rooms = self._rooms, {}
        index = trial.nodes.static.index
        found = []
        for ending in expected_ends:
            known = before.get(ending.gang)
            if known is None or (known[0] is not ending and known[0].rooms != ending.rooms):
                held = [(trial.column(None, of), index[node], pods) for node, of, pods in ending.rooms if node in index]
                known = (ending, Room(held) if held else None)
            self._rooms[ending.gang] = known
            if known[1] is not None:
                found.append((ending, known[1]))
        return found

    def blocks(
        self,
        reservations: Iterable[Reservation],
        gangs: Mapping[str, Gang],
        queues: Mapping[str, QueueState],
        trial: Trial,
        now: int,
    ) -> list[Block]:
        """The plans of these gangs, with what is true of them now. Those that lost a node are planned anew."""
        owned: dict[str, list[Reservation]] = {}
        for one in reservations:
            if one.kind.planned:
                owned.setdefault(one.owner, []).append(one)
        before, self._blocks = self._blocks, {}
        index = trial.nodes.static.index
        found = []
        for owner, those in owned.items():
            gang = gangs.get(owner)
            if gang is None or not all(one.node in index for one in those):
                continue
            reserved = tuple(those)
            known = before.get(owner)
            if known is None or known[0] != reserved:
                room = Room([(trial.column(None, one.pod_class), index[one.node], 1) for one in those])
                known = (reserved, Block(reserved, room))
            self._blocks[owner] = known
            found.append(_as_now(known[1], gang, queues[gang.queue].spec.priority, now))
        return found

    def end(self, expected: Expected | None, blocks: Iterable[Block]) -> None:
        """The cycle ends with these plans; None where it found something to improve."""
        self._expected = expected
        for block in blocks:
            self._blocks[block.owner] = (block.reserved, block)

    def as_expected(
        self, plans: Iterable[Block], view: View, trial: Trial, ledger: Ledger, planning: Planning, now: int
    ) -> bool:
        """Whether these plans and all else are as was expected, and the last cycle found nothing to improve."""
        was = self._expected
        if was is None or was.planning != planning:
            return False
        if tuple(one for block in plans for one in block.reserved) != was.planned:
            return False
        if {one.gang: one.at for one in view.expected_ends} != {gang: at for at, gang, _, _ in was.ends if at > now}:
            return False
        if {name: state.spec for name, state in view.queues.items()} != was.specs:
            return False
        free = was.free.copy()
        held = dict(was.held)
        for at, _, queue, room in was.ends:
            if at <= now:
                free[:, room.rows] += room.amounts
                if queue in held:
                    held[queue] = _less(held[queue], room.demand)
        return np.array_equal(free, trial.free) and held == charged(view, ledger)


def charged(view: View, ledger: Ledger) -> dict[str, dict[str, int]]:
    """What queues with a quota are charged, zeros left out."""
    return {
        name: {resource: amount for resource, amount in ledger.used(name).items() if amount}
        for name in view.queues
        if ledger.limited(name)
    }


def _less(held: Mapping[str, int], given_back: Mapping[str, int]) -> dict[str, int]:
    left = {resource: amount - given_back.get(resource, 0) for resource, amount in held.items()}
    return {resource: amount for resource, amount in left.items() if amount}


def _as_now(block: Block, gang: Gang, rank: int, now: int) -> Block:
    """The plan with the gang's limit and the priority of its queue as they are now; one that is due starts now."""
    at = max(block.at, now)
    until = end_of(gang, at)
    if (block.at, block.until, block.rank, block.queue) == (at, until, rank, gang.queue):
        return block
    changed = {"since": at, "until": 0 if until == NEVER_ENDS else until, "rank": rank, "queue": gang.queue}
    return Block(tuple(replace(one, **changed) for one in block.reserved), block.room)  # type: ignore[arg-type]
