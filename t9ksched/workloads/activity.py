"""Whether anybody uses a workload of one pod: its condition Idle.

Activity is what its pod answers (`answers.py`), and what somebody who sees more writes into the annotation
`last-activity`: a proxy before it of requests, a hook of sshd of sessions. What cannot be known is `Unknown`, and
nothing follows from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from t9ksched.model.names import LAST_ACTIVITY_ANNOTATION
from t9ksched.workloads.answers import Activity, moment
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.phase import format_time, parse_time

IDLE: Final = "Idle"
"""The condition."""
STATUS_FIELD: Final = "activity"
"""Where the status keeps `{lastActivity, checkedAt}`."""
IDLE_AFTER: Final = timedelta(hours=1)
"""Without activity for so long a workload is idle."""
WRITTEN_EVERY: Final = timedelta(minutes=15)
"""The status says anew when it was checked, so that a reader can tell what is known from what was."""


@dataclass(frozen=True, slots=True)
class Use:
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


def idle_times(status: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Since when nobody used what has this status, and when that was found out; None unless it is idle."""
    kept = status.get(STATUS_FIELD)
    if not isinstance(kept, Mapping) or not is_idle({"status": status}):
        return None
    last, checked = moment(kept.get("lastActivity")), moment(kept.get("checkedAt"))
    return None if last is None or checked is None else (last, checked)


def tell(
    obj: Mapping[str, Any],
    use: Use,
    activity: Activity | None,
    conditions: Conditions,
    ready_since: datetime | None,
    now: datetime,
) -> dict[str, str] | None:
    """Set the condition Idle of a workload that is not suspended; returns what its status keeps of its activity.

    `ready_since` is None while its pod is not ready. Times in the future count as now.
    """
    kept = (obj.get("status") or {}).get(STATUS_FIELD)
    if ready_since is None:
        conditions.set(IDLE, None, "NotRunning", "its pod is not ready")
        return None
    if use.always:
        conditions.set(IDLE, False, "AlwaysActive", use.always)
        return None
    if activity is None and kept and conditions.reason(IDLE) in ("Active", "NoActivity"):
        return dict(kept)  # this process has not asked yet: what was known stays, and grows old
    annotation = (obj["metadata"].get("annotations") or {}).get(LAST_ACTIVITY_ANNOTATION)
    reported = moment(annotation)
    known = [time for time in (activity.last if activity else None, reported) if time is not None]
    busy = activity.busy if activity is not None else ""
    last = now if busy else min(now, max((*known, ready_since)))
    if busy or (known and now - last < IDLE_AFTER):
        conditions.set(IDLE, False, "Active", busy or f"it was used within {_words(IDLE_AFTER)}")
    elif annotation is not None and reported is None:
        text = f"the annotation {LAST_ACTIVITY_ANNOTATION} is no time such as 2026-03-01T12:00:00Z"
        conditions.set(IDLE, None, "ReportUnreadable", text)
        return None
    elif not known:
        reason, message = (activity.reason, activity.message) if activity is not None else ("", "")
        conditions.set(IDLE, None, reason or "NotMeasured", message or use.unmeasured)
        return None
    elif use.unseen and reported is None:
        conditions.set(IDLE, None, "NotSeen", use.unseen)
        return None
    else:
        conditions.set(IDLE, True, "NoActivity", f"nothing was used since {format_time(last)}")
    return _written(kept, last, now, conditions, obj)


def _written(
    kept: Any, last: datetime, now: datetime, conditions: Conditions, obj: Mapping[str, Any]
) -> dict[str, str]:
    """What the status keeps: written when the condition changes, when an idle workload was used, and now and then."""
    fresh = {"lastActivity": format_time(last), "checkedAt": format_time(now)}
    before = Conditions(obj.get("status") or {}, now)
    if not kept or before.reason(IDLE) != conditions.reason(IDLE):
        return fresh
    moved = conditions.is_true(IDLE) and kept["lastActivity"] != fresh["lastActivity"]
    return fresh if moved or now - parse_time(kept["checkedAt"]) >= WRITTEN_EVERY else dict(kept)


def _words(time: timedelta) -> str:
    return f"{int(time.total_seconds()) // 60} minutes"
