"""The argument of the rules: one gang that asks to enter one queue, and the facts that they need.

REST makes a request of a submitted object (`t9ksched/api/submission/submission.py`), the scheduler one of a group
that was created past REST (`t9ksched/scheduler/state/lastgate.py`). A fact that a door does not have, or that it
enforces in another way, is left out: rules that need it allow the request.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from t9ksched.admission.access import Access
from t9ksched.admission.identity import UNKNOWN, Identity
from t9ksched.model.queue import Queue
from t9ksched.workloads.shape import Template


class JoinedGroup(msgspec.Struct, frozen=True):
    """The existing PodGroup that a pod names.

    Attributes:
        key: `namespace/name`, for sentences; `path` is where the pod names it.
        owner: `Kind/name` of the job whose controller made the group, empty if users did.
        together: the pod and the group come from one job, or one user submitted both.
    """

    key: str
    path: str
    owner: str = ""
    together: bool = False


def no_room(count: int, most: int | None, more: int = 1) -> bool:
    """Whether `more` jobs may not wait beside `count` that do, where `most` may; None is no limit."""
    return most is not None and count + more > most


class WaitCount(msgspec.Struct, frozen=True):
    """How many jobs wait of a user or in a queue, and how many more ask to.

    Attributes:
        whose: for sentences, such as `of 'ann'` or `in the queue 'q'`.
        count: jobs that wait now, `more` those that this request adds.
        most: how many may wait; None is no limit.
    """

    whose: str
    count: int
    most: int | None
    more: int = 1

    @property
    def full(self) -> bool:
        """Whether those that this request adds may not wait beside those that do."""
        return no_room(self.count, self.most, self.more)


@dataclass(frozen=True, slots=True)
class Request:
    """A gang that is to be admitted.

    Attributes:
        what: `Kind/name`, for sentences.
        namespace: where it would be; `submitter` is who asks.
        queue_name: the queue asked for, and `queue_path` where it is asked for.
        queue: that queue, None if there is none.
        queue_names: queues that may be named to the submitter, to suggest one of a similar name; None to suggest none.
        access: whether the submitter may use the queue from that namespace (`access.may_use`); None if that is not
            judged here.
        priority: the priority asked for, and `priority_path` where; None where what is too high is reduced instead.
        group: the PodGroup that it joins, if it names one that is there.
        waiting: the counts of jobs that wait and that are limited.
        templates: every pod template, with its path.
        needs: the requests of the gang's minimum, in units by resource.
        fresh: the part of `needs` that the queue is not charged with yet; None if that is all.
        annotations: of the object, with `annotations_path`.
        allocated: what the queue holds now, in units; None if unknown.
        judged_at: the time of day of this judgement, for a refusal that stands; empty where it is an answer for now.
    """

    what: str
    queue_name: str = ""
    queue_path: str = ""
    queue: Queue | None = None
    queue_names: Sequence[str] | None = None
    namespace: str = ""
    submitter: Identity = UNKNOWN
    access: Access | None = None
    priority: int | None = None
    priority_path: str = "priority"
    group: JoinedGroup | None = None
    waiting: Sequence[WaitCount] = ()
    templates: Sequence[Template] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    fresh: Mapping[str, int] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    annotations_path: str = "metadata.annotations"
    allocated: Mapping[str, int] | None = None
    judged_at: str = ""


def least_requests(members: Collection[Mapping[str, int]], minimum: int) -> dict[str, int]:
    """What the cheapest `minimum` of a gang's members ask for together, in units by resource.

    `members` are the requests of each. Each resource is summed by itself, so that the result is a lower bound of what
    any choice of members needs.
    """
    if len(members) == 1 == minimum:
        return {name: amount for one in members for name, amount in sorted(one.items())}
    names = sorted({name for requests in members for name in requests})
    return {name: sum(sorted(requests.get(name, 0) for requests in members)[:minimum]) for name in names}
