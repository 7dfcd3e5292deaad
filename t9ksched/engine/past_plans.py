"""What is remembered of planned starts between cycles, so that an event remakes only what it touches.

A cycle *found nothing to improve* when no plan moved in it and no room came free after a plan had been looked at. While
all goes as it expected after that (gangs end when they were to end, others start where they were planned), no plan can
get an earlier start: each stands without another look. Where room was lost, plans on these nodes are looked at again;
where some came free before its time, those that could start before that. Anything else has all plans looked at again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.blocks import NEVER_ENDS, Block, Room
from t9ksched.engine.card_worths import CardWorths
from t9ksched.engine.ends import Ends, KnownEnds
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.nodes import Static
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.engine.work import Work
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARDS
from t9ksched.model.reservation import Reservation
from t9ksched.model.reserved_room import ReservedRoom

_A_RESERVATION: Final = 60
_A_PLAN: Final = 4_000
"""Units of work to take in a reservation of a plan, and a plan that is not as it was."""
EndOf = Callable[[Gang, int], int]
"""When a gang ends at the latest if it starts then."""


class Expected(msgspec.Struct, frozen=True, eq=False):
    """What was to be expected at the end of a cycle that found nothing to improve.

    Attributes:
        planned: all planned starts, one tuple a gang.
        free: the columns of free room, shape (resources, nodes).
        ends: what ran when the cycle began; `known` is the same by identity.
        began: the ends of what was started in it, with the room that they give back.
        reserved: what administrators have reserved.
        held: what queues with a quota were charged, by queue and resource.
        worths: what pods have of cards, where quotas count them.
    """

    policy: Policy
    planned: tuple[tuple[Reservation, ...], ...]
    free: Int64s
    ends: Ends
    known: Mapping[int, ExpectedEnd]
    began: tuple[tuple[ExpectedEnd, Room], ...]
    specs: Mapping[str, object]
    reserved: tuple[ReservedRoom, ...]
    held: dict[str, dict[str, int]]
    worths: CardWorths | None = None

    @classmethod
    def at_end(
        cls,
        view: View,
        trial: Trial,
        ledger: Ledger,
        policy: Policy,
        now: int,
        blocks: Iterable[Block],
        ends: Ends,
        known: Mapping[int, ExpectedEnd],
        began: Iterable[tuple[ExpectedEnd, Room]],
    ) -> "Expected":
        """At the end of a cycle on this view, with these plans."""
        return cls(
            policy,
            tuple(block.reserved for block in blocks),
            trial.free.copy(),
            ends,
            known,
            tuple(began),
            {name: state.spec for name, state in view.queues.items()},
            tuple(room for room in view.reserved if room.end > now),
            charged(view, ledger),
            trial.worths,
        )

    def early(self, latest: Mapping[int, ExpectedEnd], now: int) -> list[ExpectedEnd] | None:
        """The ends that were to come after this moment, and are not among these, by identity, any more; None where
        there are some that were not expected, or that give back something else.
        """
        known = self.known
        gone = [known[key] for key in known.keys() - latest.keys()]
        left = {_name(one): one for one in (*gone, *(end for end, _ in self.began)) if one.at > now}
        for one in (latest[key] for key in latest.keys() - known.keys()):
            was = left.pop(_name(one), None)
            if was is None or _given_back(was) != _given_back(one):
                return None
        return list(left.values())

    def at(self, now: int, early: Iterable[ExpectedEnd], trial: Trial) -> tuple[Int64s, dict[str, dict[str, int]]]:
        """The columns of free room, and what queues with a quota are charged, when what was to end by then has, and
        these, too.
        """
        ends, free, held = self.ends, self.free.copy(), dict(self.held)
        due = np.flatnonzero(ends.until(now))
        np.add.at(free.T, ends.rows[due], ends.amounts[:, due].T)
        columns = (ends.end[due], ends.rows[due], ends.kinds[due], ends.pods[due])
        for end, row, kind, pods in zip(*(column.tolist() for column in columns), strict=True):
            self._give_back(held, ends.sources[end].queue, ends.classes[kind], row, pods)
        index = trial.nodes.static.index
        for one in early:
            for node, of, pods in one.rooms:
                if node in index:
                    free[:, index[node]] += trial.needs(of) * pods
                    self._give_back(held, one.queue, of, index[node], pods)
            for node, cards in one.parts:
                if node in index:
                    free[:, index[node]] += trial.counters(cards)
        for one, room in self.began:
            if one.at <= now:
                free[:, room.rows] += room.amounts
                if one.queue in held:
                    held[one.queue] = _less(held[one.queue], room.demand)
        return free, held

    def _give_back(self, held: dict[str, dict[str, int]], queue: str, of: PodClass, row: int, pods: int) -> None:
        """The queue is charged no longer for pods on a node."""
        if queue in held:
            held[queue] = _less(held[queue], dict(of.requests), pods)
            if self.worths is not None:
                held[queue] = _less(held[queue], {CARDS: int(self.worths.on(of)[0][row])}, pods)


class PastPlans:
    """Plans and ends as room on the nodes of the latest trial, and what was expected of them."""

    def __init__(self) -> None:
        self._static: Static | None = None
        self._counts_cards = False
        self.ends = KnownEnds()
        self._blocks: dict[str, tuple[tuple[Reservation, ...], Block]] = {}
        self._latest: tuple[tuple[Reservation, ...], Sequence[Block]] = (), ()
        """The plans of the last cycle, as reservations and as blocks."""
        self._expected: Expected | None = None

    def follow(self, trial: Trial) -> None:
        """A cycle begins on this trial."""
        old, new = self._static, trial.nodes.static
        counts_cards = trial.worths is not None
        if new is old and counts_cards == self._counts_cards:
            return
        self._static = new
        self._expected = None
        if counts_cards or self._counts_cards:  # what queues pay for a room depends on facts of nodes
            old = None
        self._counts_cards = counts_cards
        # Where only facts of nodes changed, such as labels or cordons, the room that is held and planned is as it was.
        if old is None or (old.names, old.resources) != (new.names, new.resources):
            self.ends = KnownEnds()
            self._blocks.clear()
            self._latest = (), ()

    def blocks(
        self,
        planned: tuple[Reservation, ...],
        gangs: Mapping[str, Gang],
        queues: Mapping[str, QueueState],
        trial: Trial,
        now: int,
        end_of: EndOf,
    ) -> Work[list[Block]]:
        """The plans of these gangs, of one reservation a pod, with what is true of them now. Those that lost a node are
        planned anew.
        """
        meter = trial.meter
        meter.spent += _A_RESERVATION * len(planned)
        yield
        if planned == self._latest[0]:
            known = [(block, gangs.get(block.owner)) for block in self._latest[1]]
            return [
                _as_now(block, of, queues[of.queue].spec.priority, now, end_of) for block, of in known if of is not None
            ]
        owned: dict[str, list[Reservation]] = {}
        for one in planned:
            owned.setdefault(one.owner, []).append(one)
        before, self._blocks = self._blocks, {}
        index = trial.nodes.static.index
        found = []
        for owner, those in owned.items():
            meter.spent += _A_PLAN
            yield
            gang = gangs.get(owner)
            if gang is None or not all(one.node in index for one in those):
                continue
            reserved = tuple(those)
            had = before.get(owner)
            if had is None or had[0] != reserved:
                parts = [(trial.column(None, one.pod_class), index[one.node], 1) for one in those]
                shares = [
                    of.share_of(row, one.cards) if one.cards else ()
                    for one, (of, row, _) in zip(those, parts, strict=True)
                ]
                had = (reserved, Block(reserved, Room(parts, shares, held=True)))
            self._blocks[owner] = had
            found.append(_as_now(had[1], gang, queues[gang.queue].spec.priority, now, end_of))
        return found

    def end(self, expected: Expected | None, planned: tuple[Reservation, ...], blocks: Sequence[Block]) -> None:
        """The cycle ends with these plans; `expected` is None where it found something to improve."""
        self._expected = expected
        self._latest = planned, blocks
        for block in blocks:
            self._blocks[block.owner] = (block.reserved, block)

    def as_expected(
        self, plans: Iterable[Block], view: View, ends: Ends, trial: Trial, ledger: Ledger, policy: Policy, now: int
    ) -> "Deviation | None":
        """How all differs from what was expected of these plans; None where too much does, or where the last cycle
        found something to improve.
        """
        was = self._expected
        if was is None or was.policy != policy:
            return None
        if tuple(block.reserved for block in plans) != was.planned:
            return None
        if (ends.at <= now).any() or (early := was.early(self.ends.latest, now)) is None:
            return None
        if tuple(room for room in view.reserved if room.end > now) != was.reserved:
            return None
        if {name: state.spec for name, state in view.queues.items()} != was.specs:
            return None
        free, held = was.at(now, early, trial)
        if (trial.free > free).any() or held != charged(view, ledger):
            return None
        lost = np.any(trial.free < free, axis=0)
        return Deviation(lost if lost.any() else None, max((one.at for one in early), default=0))


@dataclass(frozen=True, slots=True, eq=False)
class Deviation:
    """How a cycle begins otherwise than was expected.

    Attributes:
        lost: nodes with less free room, shape (nodes,); None for none. Less room helps no plan.
        until: what came free before its time was to come free by then; 0 where nothing did. From then on nothing is
            better than was expected.
    """

    lost: Mask | None
    until: int


def charged(view: View, ledger: Ledger) -> dict[str, dict[str, int]]:
    """What queues with a quota are charged, zeros left out."""
    return {
        name: {resource: amount for resource, amount in ledger.used(name).items() if amount}
        for name in view.queues
        if ledger.limited(name)
    }


def _name(end: ExpectedEnd) -> tuple[str, str, int]:
    """The gang, its queue and the moment: a gang has no two ends at one moment."""
    return end.gang, end.queue, end.at


def _given_back(end: ExpectedEnd) -> Counter[tuple[str, object]]:
    """How many pods with which requests on which node, and with which divided cards."""
    found: Counter[tuple[str, object]] = Counter(end.parts)
    for node, of, pods in end.rooms:
        found[node, of.requests] += pods
    return found


def _less(held: Mapping[str, int], given_back: Mapping[str, int], times: int = 1) -> dict[str, int]:
    left = {resource: amount - times * given_back.get(resource, 0) for resource, amount in held.items()}
    return {resource: amount for resource, amount in left.items() if amount}


def _as_now(block: Block, gang: Gang, rank: int, now: int, end_of: EndOf) -> Block:
    """The plan with the gang's limit and the priority of its queue as they are now; one that is due starts now."""
    at = max(block.at, now)
    until = end_of(gang, at)
    if (block.at, block.until, block.rank, block.queue) == (at, until, rank, gang.queue):
        return block
    changed = {"since": at, "until": 0 if until == NEVER_ENDS else until, "rank": rank, "queue": gang.queue}
    return Block(tuple(replace(one, **changed) for one in block.reserved), block.room)  # type: ignore[arg-type]
