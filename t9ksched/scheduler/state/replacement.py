"""Whether members that a gang lost may be replaced, as far as the scheduler knows.

A controller replaces what its job loses until that is paused, over or being deleted. Pods may also be without a
controller, or made by an object of a kind that is not followed: then nobody says that their job is over, and it is
when all its pods have ended.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from t9ksched.model.pod import OwnerReference
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.losses import Loss
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, job_of

Kinds = Collection[tuple[str, str]]
"""API versions and kinds."""


class Replacement:
    """Answers for gangs by the jobs and owners that are known; `deleted` are the UIDs of objects that are being
    deleted, and `groups_of` gives the groups of a job by its UID.
    """

    def __init__(
        self,
        jobs: Mapping[str, JobRecord],
        owners: Owners,
        deleted: Collection[str],
        groups_of: Callable[[str], Iterable[GangRecord]],
    ) -> None:
        self._jobs = jobs
        self._owners = owners
        self._deleted = deleted
        self._groups_of = groups_of

    def expected(self, gang: GangRecord, losses: Iterable[Loss], followed: Kinds) -> bool:
        """Whether members like the lost ones may come; an object of a `followed` kind that is not known is gone."""
        job = job_of(gang)
        if job in self._deleted or gang.uid in self._deleted:
            return False
        makers = {owner.uid: owner for owner in (gang.owner, *(loss.owner for loss in losses)) if owner is not None}
        for uid, owner in makers.items():
            record = self._jobs.get(uid)
            if record is None and (owner.api_version, owner.kind) in followed:
                return False
            if record is not None and not record.wants_pods:
                return False
        return any(map(self._replaces, makers.values())) or not self._all_ended(job)

    def _replaces(self, owner: OwnerReference) -> bool:
        """Whether the owner is known to want pods, if it has none."""
        return owner.uid in self._jobs or (owner.uid in self._owners and self._owners.wants(owner, 0))

    def _all_ended(self, job: str) -> bool:
        """Whether there are pods of the job, and all of them have ended."""
        found = False
        for gang in self._groups_of(job):
            for pod in gang.members.values():
                if not pod.finished:
                    return False
                found = True
        return found
