"""How many jobs may wait at the same time, in a queue and of a user, however they were created.

REST refuses jobs beyond these limits; jobs that were not created through REST are not accepted until others have
started or are deleted. Meanwhile it is charged to no queue and has no place in its queue's order. A job is the root
owner of its groups. It counts from its admission until its first group has a place. Its user is the submitter
on record, or its namespace. Each count is kept as groups change, so that a cycle asks for two numbers.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from t9ksched.admission import Request
from t9ksched.admission.entry import jobs_may_wait
from t9ksched.admission.request import WaitCount, no_room
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.state.admission_gate import AdmissionGate
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.refusals import waiting
from t9ksched.store.acceptances import Acceptance


class WaitingLimits(msgspec.Struct, frozen=True):
    """Jobs that may wait; None is no limit."""

    per_user: int | None = None
    per_queue: int | None = None


NO_LIMITS: Final = WaitingLimits()


class _Job(NamedTuple):
    """A job as it is counted: UID of its root owner, its queue, and its user for messages."""

    uid: str
    queue: str
    user: str


class _Standing(NamedTuple):
    """What a refusal depends on besides the counts: changes of the group, and the version of permissions."""

    as_of: tuple[int, int]
    job: _Job


class WaitingJobs:
    """Counts the jobs that wait. `limits` may be replaced at any time."""

    def __init__(self, permissions: AdmissionGate, acceptances: Mapping[str, Acceptance], owners: Owners) -> None:
        self._permissions = permissions
        self._acceptances = acceptances
        self._owners = owners
        self.limits = NO_LIMITS
        self._counted: dict[GangRecord, _Job] = {}
        """Groups that wait and were admitted."""
        self._groups: dict[_Job, int] = {}
        """How many of them each job has."""
        self._queues: defaultdict[str, int] = defaultdict(int)
        """Jobs by queue."""
        self._users: defaultdict[str, int] = defaultdict(int)
        """Jobs by user."""
        self._let_in: set[GangRecord] = set()
        """Groups that were admitted and not accepted yet, because some of their members are still missing."""
        self.refused: dict[GangRecord, _Standing] = {}
        """Groups that are refused for now."""

    def jobs(self, queue: str) -> int:
        """Jobs that count as waiting in a queue."""
        return self._queues.get(queue, 0)

    def update(self, gang: GangRecord, *, waits: bool) -> None:
        """A group changed; `waits` says whether a member of it waits for a place."""
        known, job = self._counted.get(gang), None
        if not waits:
            if self.refused:
                self.refused.pop(gang, None)
            if self._let_in:
                self._let_in.discard(gang)
        elif (gang.acceptance is not None or gang in self._let_in) and not self._has_started(gang):
            job = self._job(gang)
        if known == job:
            return
        if known is not None:
            del self._counted[gang]
            self._count(known, -1)
        if job is not None:
            self._counted[gang] = job
            self._count(job, 1)

    def started(self, gangs: Iterable[GangRecord]) -> None:
        """The job of these groups has had its first place."""
        for gang in gangs:
            if gang in self._counted:
                self.update(gang, waits=True)

    def forget(self, gang: GangRecord) -> None:
        """The group was deleted."""
        self.update(gang, waits=False)

    def refusal(self, gang: GangRecord) -> Reason | None:
        """Why a group that is not accepted may not even wait in its queue; None when it may. Cheaper than all other
        rules.
        """
        if gang in self._let_in or (self.limits == NO_LIMITS and not self.refused):
            return None
        job = self._job(gang)
        if not self._is_full(job) or job in self._groups or self._has_started(gang):
            self.refused.pop(gang, None)
            return None
        self.refused[gang] = _Standing(self._as_of(gang), job)
        return self._reason(job)

    def let_in(self, gang: GangRecord) -> None:
        """The group may wait, and counts from now on; it is accepted now, or not yet."""
        if gang.acceptance is None:
            if gang in self._let_in:
                return
            self._let_in.add(gang)
        if gang in self._counted or self._has_started(gang):
            self.update(gang, waits=True)
        else:
            job = self._counted[gang] = self._job(gang)
            self._count(job, 1)

    def stands(self, gang: GangRecord) -> bool:
        """Whether the group was refused, and nothing has changed on which this depends. Called for each group in each
        cycle.
        """
        known = self.refused.get(gang)
        return known is not None and known.as_of == self._as_of(gang) and self._is_full(known.job)

    def _as_of(self, gang: GangRecord) -> tuple[int, int]:
        return gang.changes, self._permissions.version

    def _has_started(self, gang: GangRecord) -> bool:
        """Whether the job of a group that waits has had a place: then it does not count, and goes on."""
        if not gang.virtual and gang.placed_count():  # a single pod that waits has none
            return True
        record = None if gang.owner is None else self._acceptances.get(self._owners.root_uid(gang.owner))
        return record is not None and record.started_at is not None and record.namespace == gang.namespace

    def _job(self, gang: GangRecord) -> _Job:
        owner = gang.owner
        root = gang.uid if owner is None else self._owners.root_uid(owner)
        submitter = self._permissions.submitter(gang)
        return _Job(root, gang.queue, _nobody_of(gang.namespace) if submitter is None else repr(submitter))

    def _count(self, job: _Job, more: int) -> None:
        """One group more or less of a job counts; the job itself with its first and its last."""
        groups = self._groups.get(job, 0) + more
        if groups:
            self._groups[job] = groups
        else:
            del self._groups[job]
        if not groups or groups == more:
            for jobs, key in ((self._queues, job.queue), (self._users, job.user)):
                jobs[key] += more
                if not jobs[key]:
                    del jobs[key]

    def _is_full(self, job: _Job) -> bool:
        """Whether one job more may not wait beside those that count."""
        limits = self.limits
        of_user = self._users.get(job.user, 0)
        return no_room(self.jobs(job.queue), limits.per_queue) or no_room(of_user, limits.per_user)

    def any_full(self) -> bool:
        """Whether in some queue, or of some user, one job more may not wait."""
        most = (self._queues, self.limits.per_queue), (self._users, self.limits.per_user)
        return any(no_room(max(jobs.values(), default=0), limit) for jobs, limit in most if limit is not None)

    def _reason(self, job: _Job) -> Reason:
        counts = (
            WaitCount(f"of {job.user}", self._users.get(job.user, 0), self.limits.per_user),
            WaitCount(f"in the queue {job.queue!r}", self.jobs(job.queue), self.limits.per_queue),
        )
        return waiting(jobs_may_wait(Request("", waiting=counts)))


@lru_cache(maxsize=1024)
def _nobody_of(namespace: str) -> str:
    return f"namespace {namespace!r}"
