"""Tells users when the planned start of their job moves, and why: event `PlanMoved` on the job and in history.

Told when it moves later, or earlier by five minutes or more, at most once in five minutes a job; what happened in
between is told then, and a move that is taken back within seconds is none: when many jobs end or are cancelled, plans
move with each of them. The engine says only where plans are now: the cause is found by comparing two cycles.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from t9ksched.engine.plan import Plan
from t9ksched.engine.view import View
from t9ksched.model import names
from t9ksched.model.node import NodeFacts
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reservation import Reservation, ReservationKind, rounded_up
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.reservations import Move
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history

_SECOND: Final = 1_000_000_000
TELL_NS: Final = 300 * _SECOND
"""An earlier start is told if it is so much earlier, and two moves of a job are at least so far apart."""


SETTLE_NS: Final = 5 * _SECOND
"""How long a plan is elsewhere before that is told."""


@dataclass(slots=True)
class _Told:
    """What users know of a plan: its moment, 0 for none; when they were last told of a move; since when it has been
    elsewhere, 0 if it is not; and why it moved since, to a later and to an earlier moment.
    """

    since: int
    at: int = 0
    moved_at: int = 0
    later: str = ""
    earlier: str = ""


class PlanMoves:
    """Follows the planned starts from cycle to cycle. Times are nanoseconds since the epoch."""

    def __init__(self, state: ClusterState, recorder: HistoryRecorder) -> None:
        self._state = state
        self._recorder = recorder
        self._told: dict[str, _Told] = {}
        self._specs: dict[str, QueueSpec] = {}
        self._ends: dict[str, int] = {}
        self._kept: frozenset[str] = frozenset()
        """For which gangs room was kept for lost members."""
        self._stopped = False
        """Nothing was planned since the last cycle, because scheduling was stopped."""
        self.due: int | None = None
        """When `follow` has something to tell if no plan moves until then; None for never."""

    def stand_still(self, why: str, resolution: int, now: int) -> None:
        """Scheduling is stopped, for that reason: no start is planned while that lasts."""
        self._stopped, self.due = True, None
        for uid, plan in self._state.reservations.planned.items():
            self._told.setdefault(uid, _Told(plan[0].since))
        for uid, told in list(self._told.items()):
            self._tell(uid, told, why, resolution, now)

    def follow(self, moves: Mapping[str, Move], view: View, plan: Plan, resolution: int, now: int) -> None:
        """A cycle made this plan on this view; `resolution` in nanoseconds."""
        self.due = None
        if not (moves or self._told):
            self._stopped = False
            return
        causes = _Causes(self._specs, self._ends, view, plan, resolution, now)
        causes.room_is_kept = bool(plan.kept or _kept(view) - self._kept)
        causes.endless = self._endless(view, now)
        if self._stopped:
            causes.known, self._stopped = "scheduling was stopped", False
        for uid, move in moves.items():
            if (known := move.before or move.after) is None:
                continue
            told = self._told.setdefault(uid, _Told(known[0].since))  # what an earlier scheduler planned was told
            if move.before is None or not (move.by is None or abs(move.by) > resolution):
                continue
            if move.by is None or move.by > 0:
                told.later = causes.of(move)
            else:
                told.earlier = causes.of(move)
        for uid, told in list(self._told.items()):
            self._tell(uid, told, causes.of, resolution, now)
        self._specs = {name: queue.spec for name, queue in view.queues.items()}
        self._ends = {one.gang: one.at for one in view.expected_ends}
        self._kept = _kept(view)

    def _endless(self, view: View, now: int) -> str:
        """Why something is not expected to end any more that was to end later; empty where there is nothing like it."""
        missing = {uid for uid, at in self._ends.items() if at > now} - {one.gang for one in view.expected_ends}
        if not missing:
            return ""
        known = (gang for uid in missing if (gang := self._state.gangs_by_uid.get(uid)) is not None)
        if any(gang.placed_count() for gang in known):
            return "a running job may run longer than before"
        left = (gang for gang in self._state.gangs.values() if gang.former[0] in missing)
        if any(gang.placed_count() for gang in left):
            return "a PodGroup was deleted, and its pods run on without a time limit"
        return ""

    def _tell(self, uid: str, told: _Told, cause: Callable[[Move], str] | str, resolution: int, now: int) -> None:
        """Tell of a plan that has not been where its users think for some seconds, unless they were told of a move a
        short while ago. `cause` is a text where no start is planned because of that.
        """
        gang = self._state.gangs_by_uid.get(uid)
        planned = None if isinstance(cause, str) else self._state.reservations.planned.get(uid)
        if gang is None or (planned is None and gang.complete()):
            del self._told[uid]
            return
        since, quiet = planned[0].since if planned is not None else 0, now < told.at + TELL_NS
        if not told.since:  # they know that it has no plan; a new one has not moved
            told.since = since
            if not (since or quiet or isinstance(cause, str)):
                del self._told[uid]
            return
        if since and told.since - TELL_NS < since <= told.since + resolution:
            told.moved_at = 0
            return
        told.moved_at = told.moved_at or now
        due = max(told.moved_at + SETTLE_NS, told.at + TELL_NS if told.at else 0)
        if now < due:
            self.due = due if self.due is None else min(self.due, due)
            return
        told_before = timestamp(rounded_up(told.since, resolution))
        moved = f"from {told_before} to {timestamp(rounded_up(since, resolution))}"
        text = f"its planned start moved {moved}" if since else f"it is no longer planned to start at {told_before}"
        why = told.earlier if 0 < since < told.since else told.later
        why = cause if isinstance(cause, str) else why or cause(Move(None, planned))
        text = f"{text}: {why}"
        self._recorder.ended(gang, history.PLAN_MOVED, text, now, notice=names.EVENT_PLAN_MOVED)
        self._told[uid] = _Told(since, now)


class _Causes:
    """Why plans moved in a cycle, as far as the views of two cycles show it."""

    def __init__(
        self,
        specs: Mapping[str, QueueSpec],
        ends: Mapping[str, int],
        view: View,
        plan: Plan,
        resolution: int,
        now: int,
    ) -> None:
        self._specs = specs
        self._ends = ends
        self._view = view
        self._resolution = resolution
        self._now = now
        self.known = ""
        """Why all plans moved, where that is known."""
        self.endless = ""
        """Why a running job is not expected to end any more; empty where there is none."""
        self.room_is_kept = False
        """Whether there is room that was not kept for lost members before."""
        started = {one.gang for one in plan.assignments} | {one.by for one in plan.evictions}
        served = started | {one.owner for one in plan.planned}
        self._ranks = {
            view.queues[gang.queue].spec.priority: gang.queue
            for gang in view.gangs
            if gang.uid in served and gang.queue in view.queues
        }

    def of(self, move: Move) -> str:
        """The cause of this move, as a clause."""
        before, after = move
        if before is None:
            return "what runs and what is planned changed"
        if after is not None and after[0].since <= before[0].since:
            return "room is expected sooner than before"
        if self.known:
            return self.known
        if lost := self._lost(before):
            return f"node {lost} was lost or closed"
        if reserved := self._reserved(before):
            return f"reservation {reserved!r} needs the room"
        spec = self._view.queues.get(before[0].queue)
        if spec is None or self._specs.get(before[0].queue, spec.spec) != spec.spec:
            return f"queue {before[0].queue!r} was changed"
        rank = spec.spec.priority
        if higher := max((other for other in self._ranks if other > rank), default=None):
            return f"queue {self._ranks[higher]!r} has a larger priority ({higher} against {rank})"
        if after is None and all(gang.uid != before[0].owner for gang in self._view.gangs):
            return "it may not start at present; its reasons say why"
        if not self._specs:
            return "what runs changed while no scheduler looked"
        for one in self._view.expected_ends:
            if one.at <= self._now:
                return "a job that was to end has not ended yet"
            if self._ends.get(one.gang, one.at) + self._resolution < one.at:
                return "a running job may run longer than before"
        if self.endless:
            return self.endless
        if self.room_is_kept:
            return "room is kept for members that a running job lost"
        return "room that it needs is used otherwise: by pods of other schedulers, or by an order of an administrator"

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

    def _lost(self, plan: Iterable[Reservation]) -> str:
        """A node of the plan that is gone, not ready or closed; empty where there is none."""
        static = self._view.nodes.static
        for one in plan:
            row = static.index.get(one.node)
            if row is None or not _open(static.facts[row]):
                return one.node
        return ""


def _kept(view: View) -> frozenset[str]:
    """The gangs for which room is kept for lost members."""
    return frozenset(one.owner for one in view.reservations if one.kind is ReservationKind.REFILL)


def _open(facts: NodeFacts) -> bool:
    return facts.ready and not facts.unschedulable and not facts.deleting
