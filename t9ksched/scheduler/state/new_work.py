"""Makes the request for the admission rules from a group that was not created through REST."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from t9ksched.admission import Request
from t9ksched.admission.access import Access
from t9ksched.admission.identity import UNKNOWN, Identity
from t9ksched.model.names import QUEUE_LABEL
from t9ksched.model.queue import Queue
from t9ksched.scheduler.state.owner_records import NO_TEMPLATE, least_requests, moment
from t9ksched.scheduler.state.owners import Root
from t9ksched.scheduler.state.records import GangRecord, PodRecord


class NewWork(msgspec.Struct, frozen=True):
    """An owner that was never accepted, or one pod beyond what was accepted with its owner.

    Attributes:
        needs: what the owner needs in all, in units by resource.
        fresh: the part of it that is not charged to the queue yet; None if that is all.
        of: the UID of the pod that is judged, empty for the whole owner.
        access: whether the submitter may use the queue; None where that was judged before.
    """

    gang: GangRecord
    root: Root
    queue: Queue
    needs: Mapping[str, int]
    fresh: Mapping[str, int] | None = None
    of: str = ""
    access: Access | None = None

    def request(self, pods: Iterable[PodRecord], used: Mapping[str, int], submitter: str | None, now: int) -> Request:
        """The request that the rules judge; `used` is what the queue holds, `now` is in nanoseconds since the epoch.

        It has no priority and no annotations: what is too high is reduced when the owner is accepted, and annotations
        that cannot be read are ignored with a warning.
        """
        templates = {id(pod.template): (pod.name, pod.template or NO_TEMPLATE) for pod in pods if pod.waiting}
        return Request(
            what=self.root.title,
            namespace=self.gang.namespace,
            submitter=UNKNOWN if submitter is None else Identity(submitter),
            access=self.access,
            queue_name=self.queue.name,
            queue_path=f"metadata.labels[{QUEUE_LABEL}]" if self.gang.virtual else "spec.queue",
            queue=self.queue,
            templates=[replace(template, path=f"pod {name}: spec") for name, template in templates.values()],
            needs=self.needs,
            fresh=self.fresh,
            allocated=used,
            judged_at=f"{moment(now):%H:%M:%S} UTC",
        )


def needs_of(gang: GangRecord, root: Root) -> Mapping[str, int]:
    """What an owner needs in all: as it says itself, else what the cheapest members of the minimum ask for."""
    wanted = root.owner.wanted if root.owner is not None else None
    return wanted.needs if wanted is not None else least_requests(gang)


def decides(gang: GangRecord, root: Root, queue: Queue, access: Access | None) -> tuple[object, ...] | None:
    """All that decides about a whole owner that may use the queue; None where free room does, too. A single pod needs
    what its template says.
    """
    if access is None or not access.allowed or queue.spec.over_quota == "Reject":
        return None
    templates = frozenset([id(pod.template) for pod in gang.members.values() if pod.waiting])
    single = gang.virtual and (root.owner is None or root.owner.wanted is None)
    return id(queue), gang.namespace, templates, None if single else tuple(sorted(needs_of(gang, root).items()))


def gathers(gang: GangRecord, root: Root) -> bool:
    """Whether members of the minimum are still missing, and only the pods show what the group needs. Such a group is
    not accepted in a queue with a quota: that would be checked for a part of it, and the accepted part would wait for
    ever.
    """
    told = root.owner is not None and root.owner.wanted is not None
    return not (told or gang.placed_count() or gang.gathered())


def taking(queue: Queue, gang: GangRecord, count: int) -> Queue:
    """The queue as it takes another pod of a group of which so many are accepted: the group's minimum was submitted
    together, although its pods are seen one by one.
    """
    if gang.virtual or count >= gang.spec.min_member:
        return queue
    return replace(queue, spec=replace(queue.spec, closed=False), draining=False)
