"""Rules about the submitter: how many jobs may wait, which group a pod may join, which queue the submitter may use, up
to which priority. They are applied before all rules about the gang itself, so that a user who may not use a queue
learns nothing of it.
"""

from dataclasses import replace

from t9ksched.admission.request import Request
from t9ksched.admission.verdict import (
    ALLOWED,
    FORBIDDEN,
    PRIORITY_ABOVE_MAXIMUM,
    RATE_LIMITED,
    SUBMITTER_UNKNOWN,
    Verdict,
    invalid,
    refuse,
)
from t9ksched.model.errors import FieldError


def jobs_could_wait(request: Request) -> Verdict:
    """The jobs that are added are not more than may ever wait: a refusal that waiting does not lift comes first."""
    for one in request.waiting:
        if one.most is not None and one.more > one.most:
            text = f"the request has {one.more} jobs {one.whose}, and at most {one.most} of them may wait"
            return invalid([FieldError("", text)], "split it, and send each part when there is room for it")
    return ALLOWED


def jobs_may_wait(request: Request) -> Verdict:
    """Beside the jobs that wait already there is room for those that are added."""
    for one in request.waiting:
        if one.full:
            asked = f"the request has {one.more}, " if one.more > 1 else ""
            message = f"{one.count} jobs {one.whose} wait already, {asked}and at most {one.most} may wait"
            verdict = refuse(RATE_LIMITED, message, remedy="wait until some have started, or cancel some")
            return replace(verdict, needs={"jobs": one.count + one.more}, has={"jobs": one.most or 0})
    return ALLOWED


def group_joinable(request: Request) -> Verdict:
    """The pod came with the group that it names; or users made the group, and its submitter may use its queue."""
    group = request.group
    if group is None or group.together:
        return ALLOWED
    head = f"it names the PodGroup {group.key} and may not join it"
    if group.owner:
        unknown = request.submitter.user is None
        why = f"that is the group of {group.owner}, which the pod does not belong to and its submitter did not submit"
        message, remedy = f"{head}: {why}", f"the pods of {group.owner} are made by its controller: leave the label out"
        code = SUBMITTER_UNKNOWN if unknown else FORBIDDEN
        return refuse(code, message, [FieldError(group.path, message)], remedy)
    access = request.access
    if access is None or access.allowed:
        return ALLOWED
    message = f"{head}: {access.message}"
    return refuse(access.code, message, [FieldError(group.path, message)], access.remedy)


def queue_permitted(request: Request) -> Verdict:
    """The submitter may use the queue."""
    access = request.access
    if access is None or access.allowed:
        return ALLOWED
    faults = access.errors or (FieldError(request.queue_path, access.message),)
    return refuse(access.code, access.message, faults, access.remedy)


def priority_permitted(request: Request) -> Verdict:
    """The priority is not above the highest that the submitter may ask for in the queue."""
    access, priority = request.access, request.priority
    if access is None or priority is None or priority <= access.max_priority:
        return ALLOWED
    highest, queue = access.max_priority, request.queue_name
    message = f"the priority {priority} is above {highest}, the highest you may ask for in queue {queue!r}"
    fault = FieldError(request.priority_path, message)
    return refuse(PRIORITY_ABOVE_MAXIMUM, message, [fault], f"ask for {highest} or less")
