"""Tells users when the planned start of their job moves, and why: event `PlanMoved` on the job and in history.

Told when it moves later, or earlier by five minutes or more, at most once in five minutes a job; what happened in
between is told then, and a move that is taken back within seconds is none: when many jobs end or are cancelled, plans
move with each of them. `plan_causes.py` finds the cause.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from t9ksched.engine.plan import Plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model import names
from t9ksched.model.reservation import rounded_up
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.plan_causes import Causes, Seen
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.reservations import Move
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history

_SECOND: Final = 1_000_000_000
TELL_NS: Final = 300 * _SECOND
"""An earlier start is told if it is so much earlier, and two moves of a job are at least so far apart."""


SETTLE_NS: Final = 5 * _SECOND
"""How long a plan is elsewhere before that is told."""


class _Told(msgspec.Struct):
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
        self._seen = Seen()
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

    def follow(
        self, moves: Mapping[str, Move], view: View, plan: Plan, policy: Policy, resolution: int, now: int
    ) -> None:
        """A cycle with this policy made this plan on this view; `resolution` in nanoseconds."""
        self.due = None
        if not (moves or self._told):
            self._stopped = False
            self._seen = Seen(policy)
            return
        causes = Causes(self._seen, view, plan, policy, self._held, now)
        causes.endless = self._endless(view, now)
        if self._stopped:
            causes.known, self._stopped = "scheduling was stopped", False
        for uid, move in sorted(moves.items(), key=_moment):
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
        moved = any(move.before is not None for move in moves.values())
        self._seen = Seen.of(view, policy, causes.found or self._seen.why if moved else "")

    def _held(self, uid: str) -> bool:
        gang = self._state.gangs_by_uid.get(uid)
        return gang is not None and gang.control is not None and gang.control.held

    def _endless(self, view: View, now: int) -> str:
        """Why something is not expected to end any more that was to end later; empty where there is nothing like it."""
        missing = {uid for uid, at in self._seen.ends.items() if at > now} - {one.gang for one in view.expected_ends}
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


def _moment(move: tuple[str, Move]) -> tuple[int, str]:
    """The earliest plan first: what moved it may have moved later ones."""
    uid, (before, after) = move
    known = before or after
    return known[0].since if known else 0, uid
