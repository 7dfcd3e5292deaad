"""Whether anybody uses a workload of one pod: its condition Idle.

Activity is what its pod answers (`answers.py`), and what somebody who sees more writes into the annotation
`last-activity`: a proxy before it of requests, a hook of sshd of sessions. What cannot be known is `Unknown`, and
nothing follows from it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from t9ksched.model.names import LAST_ACTIVITY_ANNOTATION
from t9ksched.workloads.actions import Children
from t9ksched.workloads.answers import NOT_YET, moment
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.phase import format_time, parse_time

IDLE: Final = "Idle"
"""The condition."""
STATUS_FIELD: Final = "activity"
"""Where the status keeps `{lastActivity, checkedAt}`."""
WRITTEN_EVERY: Final = timedelta(minutes=15)
IDLE_WRITTEN_EVERY: Final = timedelta(minutes=5)
"""So often the status says anew when it was checked, so that a reader can tell what is known from what was."""


class Use(msgspec.Struct, frozen=True):
    """How far the use of a workload can be known.

    Attributes:
        unmeasured: why it is not, where nobody asks and nobody reports it.
        always: why it counts as used whatever is known; empty if it does not.
        unseen: uses of which no answer tells, so that without a report it is not known to be idle.
    """

    unmeasured: str
    always: str = ""
    unseen: str = ""


def is_idle(obj: Mapping[str, Any]) -> bool:
    """Whether the object's status says that it is idle."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == IDLE and each.get("status") == "True" for each in conditions)


def idle_since(obj: Mapping[str, Any]) -> datetime | None:
    """Since when nobody used it, as its status says; None unless it is idle."""
    return found[0] if (found := idle_times(obj.get("status") or {})) is not None else None


def reported_use(obj: Mapping[str, Any]) -> datetime | None:
    """When the object was used last, as its annotation reports; None if nothing that can be read does."""
    return moment((obj["metadata"].get("annotations") or {}).get(LAST_ACTIVITY_ANNOTATION))


def idle_times(status: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Since when nobody used what has this status, and when that was found out; None unless it is idle."""
    kept = status.get(STATUS_FIELD)
    if not isinstance(kept, Mapping) or not is_idle({"status": status}):
        return None
    last, checked = moment(kept.get("lastActivity")), moment(kept.get("checkedAt"))
    return None if last is None or checked is None else (last, checked)


class Seen(msgspec.Struct, frozen=True):
    """What the status keeps of a workload's activity, None for nothing; and after how long to look again."""

    kept: dict[str, str] | None = None
    again_in: timedelta | None = None


def tell(
    obj: Mapping[str, Any],
    use: Use,
    children: Children,
    conditions: Conditions,
    ready_since: datetime | None,
    now: datetime,
) -> Seen:
    """Set the condition Idle of a workload that is not suspended.

    `ready_since` is None while its pod is not ready. Times in the future count as now. An answer tells of the time
    before it was given: what was used shortly before is not idle because nobody asked since.
    """
    kept = (obj.get("status") or {}).get(STATUS_FIELD)
    if ready_since is None:
        not_running(conditions)
        return Seen()
    if use.always:
        conditions.set(IDLE, False, "AlwaysActive", use.always)
        return Seen()
    answer, after = children.activity, children.idle_after
    annotation = (obj["metadata"].get("annotations") or {}).get(LAST_ACTIVITY_ANNOTATION)
    reported = moment(annotation)
    known = [time for time in (answer.last if answer else None, reported) if time is not None]
    busy = answer.busy if answer is not None else ""
    asked = min(now, answer.at or now) if answer is not None and answer.known else now
    last = asked if busy else min(now, max((*known, ready_since)))
    if busy or (known and asked - last < after):
        conditions.set(IDLE, False, "Active", busy or f"it was used within {_words(after)}")
        idle_in = None if busy else last + after - now
    elif answer is NOT_YET and kept and conditions.reason(IDLE) in ("Active", "NoActivity"):
        return Seen(dict(kept))  # what was known stays, and grows old
    elif annotation is not None and reported is None:
        text = f"the annotation {LAST_ACTIVITY_ANNOTATION} is no time such as 2026-03-01T12:00:00Z"
        conditions.set(IDLE, None, "ReportUnreadable", text)
        return Seen()
    elif not known or (answer is not None and answer.passing):
        reason, message = (answer.reason, answer.message) if answer is not None else ("", "")
        conditions.set(IDLE, None, reason or "NotMeasured", message or use.unmeasured)
        return Seen()
    elif use.unseen and reported is None:
        conditions.set(IDLE, None, "NotSeen", use.unseen)
        return Seen()
    else:
        conditions.set(IDLE, True, "NoActivity", f"nothing was used since {format_time(last)}")
        idle_in = None
    written = _written(kept, last, asked, conditions, obj)
    soon = _written_every(conditions)
    return Seen(written, soon if idle_in is None or idle_in <= timedelta() else min(soon, idle_in))


def not_running(conditions: Conditions) -> None:
    """Set the condition Idle of a workload whose pod does not answer anybody."""
    conditions.set(IDLE, None, "NotRunning", "its pod is not ready")


def _written(
    kept: Any, last: datetime, asked: datetime, conditions: Conditions, obj: Mapping[str, Any]
) -> dict[str, str]:
    """What the status keeps: written when the condition changes, when an idle workload was used, and now and then."""
    fresh = {"lastActivity": format_time(last), "checkedAt": format_time(asked)}
    before = Conditions(obj.get("status") or {}, asked)
    if not kept or before.reason(IDLE) != conditions.reason(IDLE):
        return fresh
    moved = conditions.is_true(IDLE) and kept["lastActivity"] != fresh["lastActivity"]
    # The clock may have been set back: what is kept is then of the future.
    old = abs(asked - parse_time(kept["checkedAt"])) >= _written_every(conditions)
    return fresh if moved or old else dict(kept)


def _written_every(conditions: Conditions) -> timedelta:
    return IDLE_WRITTEN_EVERY if conditions.is_true(IDLE) else WRITTEN_EVERY


def _words(time: timedelta) -> str:
    seconds = int(time.total_seconds())
    return f"{seconds} seconds" if seconds % 60 else f"{seconds // 60} minutes"
