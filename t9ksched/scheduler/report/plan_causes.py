"""Why planned starts moved: found by comparing what two cycles saw, as the engine says only where plans are.

What is known of the plan itself comes first: its nodes, its room, the policy, its queue. Where nothing is found, what
moved other plans in the same cycle is the cause, or in the cycle before, as plans follow one another.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from t9ksched.engine.nodes import Static
from t9ksched.engine.order import gang_key
from t9ksched.engine.plan import Plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reservation import PROMISE_SLACK_SECONDS, Reservation, ReservationKind
from t9ksched.scheduler.state.reservations import Move

_SECOND: Final = 1_000_000_000
POLICY_CHANGED: Final = "the scheduling policy was changed"
_SOONER: Final = "room is expected sooner than before"
_OTHERWISE: Final = (
    "room that it needs is used otherwise: by pods of other schedulers, or by an order of an administrator"
)
_LONGER: Final = "a running job may run longer than before"


class Seen(msgspec.Struct):
    """What the cycle before saw.

    Attributes:
        policy: None before the first cycle.
        specs: of the queues, by name.
        ends: when running gangs were to end, by UID.
        kept: the gangs for which room was kept for lost members, by UID.
        static: the nodes.
        why: what moved plans then; empty where none moved.
    """

    policy: Policy | None = None
    specs: Mapping[str, QueueSpec] = msgspec.field(default_factory=dict)
    ends: Mapping[str, int] = msgspec.field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    static: Static | None = None
    why: str = ""

    @classmethod
    def of(cls, view: View, policy: Policy, why: str) -> "Seen":
        """What a cycle sees, for the next one."""
        specs = {name: queue.spec for name, queue in view.queues.items()}
        return cls(policy, specs, {one.gang: one.at for one in view.expected_ends}, kept(view), view.nodes.static, why)


class Causes:
    """Why plans moved in a cycle.

    Attributes:
        known: why all plans moved later, where that is known.
        endless: why a running job is not expected to end any more; empty where there is none.
        found: the cause of the last move that was asked about, where one was found; else empty.
    """

    def __init__(
        self, before: Seen, view: View, plan: Plan, policy: Policy, held: Callable[[str], bool], now: int
    ) -> None:
        """`held` says whether a gang, by UID, is held; `now` in nanoseconds since the epoch."""
        self._before = before
        self._view = view
        self._plan = plan
        self._held = held
        self._now = now
        self._resolution = policy.planning.resolution_seconds * _SECOND if policy.planning is not None else 0
        self._changed = before.policy is not None and policy != before.policy
        self.known = ""
        self.endless = ""
        self.found = ""
        self.room_is_kept = bool(plan.kept or kept(view) - before.kept)
        """Whether there is room that was not kept for lost members before."""
        started = {one.gang for one in plan.assignments} | {one.by for one in plan.evictions}
        served = started | {one.owner for one in plan.planned}
        self._served = [gang for gang in view.gangs if gang.uid in served and gang.queue in view.queues]
        self._ranks = {view.queues[gang.queue].spec.priority: gang.queue for gang in self._served}

    def of(self, move: Move) -> str:
        """The cause of this move, as a clause."""
        if move.before is None:
            return POLICY_CHANGED if self._changed else self._before.why or "what runs and what is planned changed"
        if move.after is not None and move.after[0].since <= move.before[0].since:
            changed = self._changes(move.before)
            self.found = changed or self.found
            return changed or _SOONER
        found = self._later(move.before, gone=move.after is None)
        self.found = found or self.found
        return found or self.found or self._before.why or _OTHERWISE

    def _later(self, before: tuple[Reservation, ...], *, gone: bool) -> str:
        """Why this plan moved later, or is gone; empty where nothing is found."""
        if cause := self.known or self._room(before) or self._changes(before):
            return cause
        rank = self._view.queues[before[0].queue].spec.priority
        if higher := max((other for other in self._ranks if other > rank), default=None):
            return f"queue {self._ranks[higher]!r} has a larger priority ({higher} against {rank})"
        waits = next((one for one in self._view.gangs if one.uid == before[0].owner), None)
        if gone and waits is None:
            return "it was held" if self._held(before[0].owner) else "it may not start at present; its reasons say why"
        if not self._before.specs:
            return "what runs changed while no scheduler looked"
        return self._runs() or (self._earlier(waits) if waits is not None else "")

    def _changes(self, before: tuple[Reservation, ...]) -> str:
        """What was changed that the plan depends on: the policy, or its queue."""
        if self._changed:
            return POLICY_CHANGED
        name = before[0].queue
        state = self._view.queues.get(name)
        if state is None or self._before.specs.get(name, state.spec) != state.spec:
            return f"queue {name!r} was changed"
        return ""

    def _room(self, before: tuple[Reservation, ...]) -> str:
        """Who else has the room of the plan."""
        if cause := self._nodes(dict.fromkeys(one.node for one in before)):
            return cause
        if reserved := self._reserved(before):
            return f"reservation {reserved!r} needs the room"
        nodes = {one.node for one in before}
        for one in self._view.reservations:
            late = one.kind is ReservationKind.VICTIMS and one.until - PROMISE_SLACK_SECONDS * _SECOND < self._now
            if late and one.until and one.node in nodes:
                return "evicted pods have not left in time"
        return ""

    def _runs(self) -> str:
        """What is otherwise with what runs."""
        for one in self._view.expected_ends:
            if one.at <= self._now:
                return "a job that was to end has not ended yet"
            if self._before.ends.get(one.gang, one.at) + self._resolution < one.at:
                return _LONGER
        return self.endless or ("room is kept for members that a running job lost" if self.room_is_kept else "")

    def _earlier(self, gang: Gang) -> str:
        """Whether a gang that comes before this one in a queue with strict order had its turn."""
        if self._view.queues[gang.queue].spec.ordering != "Strict":
            return ""
        mine = gang_key(gang)
        ahead = any(one.queue == gang.queue and gang_key(one) < mine for one in self._served)
        return f"queue {gang.queue!r} keeps strict order, and a job before it takes the room" if ahead else ""

    def _nodes(self, names: Iterable[str]) -> str:
        """The first of these nodes that is of no use, or of less than before; empty where there is none."""
        static, last = self._view.nodes.static, self._before.static
        for name in names:
            row, had = static.index.get(name), last.index.get(name) if last is not None else None
            facts = static.facts[row] if row is not None else None
            old = last.facts[had] if last is not None and had is not None else None
            if facts is None or not _open(facts):
                return f"node {name} was lost or closed"
            if old is not None and _has_less(facts, old):
                return f"node {name} has less than before"
        return ""

    def _reserved(self, plan: tuple[Reservation, ...]) -> str:
        """A reservation by administrators that the gang may not use, and that lies in its plan; empty for none."""
        gang = next((one for one in self._view.gangs if one.uid == plan[0].owner), None)
        if gang is None:
            return ""
        nodes, begin, end = {one.node for one in plan}, plan[0].since, plan[0].until
        for room in self._view.reserved:
            in_time = begin < room.end and (not end or end > room.begin)
            if in_time and not nodes.isdisjoint(room.nodes) and not room.admits(gang):
                return room.name
        return ""


def kept(view: View) -> frozenset[str]:
    """The gangs, by UID, for which room is kept for lost members."""
    return frozenset(one.owner for one in view.reservations if one.kind is ReservationKind.REFILL)


def _open(facts: NodeFacts) -> bool:
    return facts.ready and not facts.unschedulable and not facts.deleting


def _has_less(facts: NodeFacts, old: NodeFacts) -> bool:
    """Whether the node has less of something, or cards that took work and do not any more."""
    if any(facts.allocatable.get(name, 0) < amount for name, amount in old.allocatable.items()):
        return True
    return bool(old.cards.usable - facts.cards.usable)
