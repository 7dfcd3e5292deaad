"""The queue and the priority that a job was given when its PodGroup was made, and what follows from edits since.

They are recorded in the job's status before the PodGroup is made. So an edit of the job is told from an edit of its
PodGroup: the first is refused with an event and a condition, the second is undone silently.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from t9ksched.model.names import EVENT_REFUSED
from t9ksched.workloads.actions import Children, Event
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.job import Job

STATUS_FIELD: Final = "scheduling"
"""Where the status keeps them: `{queue, priority}`."""
_REFUSED: Final = "QueueChangeRefused"


class Settled(NamedTuple):
    """The queue and priority that the job's PodGroup keeps."""

    queue: str
    priority: int

    def write(self) -> dict[str, Any]:
        """As the status keeps it."""
        return {"queue": self.queue, "priority": self.priority}


def settled(old: Mapping[str, Any], job: Job, children: Children) -> Settled | None:
    """The job's queue and priority; None if the default scheduler places its pods.

    They are what the status recorded. A job of a release that recorded nothing has those of its PodGroup. One that has
    no PodGroup, no pods and never ran has what its spec says now.
    """
    wanted, group = job.around.podgroup, children.podgroup
    if wanted is None:
        return None
    asked = _of(wanted["spec"], wanted["spec"])
    known = old.get(STATUS_FIELD)
    if isinstance(known, Mapping) and (group is not None or children.pods or old.get("startTime")):
        return _of(known, wanted["spec"])
    return asked if group is None else _of(group.get("spec") or {}, wanted["spec"])


def with_settled(job: Job, fixed: Settled | None) -> Job:
    """The job with that queue and priority in the PodGroup that it wants."""
    group = job.around.podgroup
    if group is None or fixed is None:
        return job
    group = {**group, "spec": {**group["spec"], **fixed.write()}}
    return replace(job, around=replace(job.around, podgroup=group))


def tell(asked: str, fixed: Settled, conditions: Conditions) -> tuple[Event, ...]:
    """Keep the condition of a refused change: it holds while the job's spec asks for another queue than it has."""
    if fixed.queue == asked:
        conditions.drop(_REFUSED)
        return ()
    message = f"the job stays in queue {fixed.queue}: a job cannot change to {asked}; delete it and submit it again"
    if conditions.is_true(_REFUSED) and conditions.message(_REFUSED) == message:
        return ()
    conditions.set(_REFUSED, True, "QueueIsFixed", message)
    return (Event(EVENT_REFUSED, message, "Warning"),)


def _of(spec: Mapping[str, Any], default: Mapping[str, Any]) -> Settled:
    """Queue and priority of a PodGroup's spec or of the record; unreadable values count as the default."""
    queue, priority = spec.get("queue"), spec.get("priority", 0)
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    return Settled(str(queue or default["queue"]), priority if whole else default["priority"])
