"""How many jobs may wait at the same time, in a queue and of a user, however they were created.

REST refuses jobs beyond these limits; jobs that were not created through REST are not accepted until others have
started or are deleted. Meanwhile it is charged to no queue and has no place in its queue's order. A job is the root
owner of its groups. It counts from its admission until its first group has a place. Its user is the submitter
on record, or its namespace. Each count is kept as groups change, so that a cycle asks for two numbers.

Groups beyond the limits are refused once. They are judged again when what they were told is otherwise, and as many as
there is room for.
"""

import sys
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
from t9ksched.scheduler.state.refused_lines import RefusedLines
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


class _Place(NamedTuple):
    """Where jobs count: their queue, and their user."""

    queue: str
    user: str


class Full(NamedTuple):
    """Queues, and users, of which not one job more may wait."""

    queues: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    def beyond(self, other: "Full") -> "Full":
        """What is not in the other."""
        more = Full(self.queues - other.queues, self.users - other.users)
        return more if any(more) else NOWHERE


NOWHERE: Final = Full()


class _Standing(NamedTuple):
    """A refusal, and what it depends on besides the counts: changes of the group, and the version of permissions."""

    as_of: tuple[int, int]
    job: _Job
    reason: Reason


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
        self._lines: RefusedLines[None, _Place] = RefusedLines()
        """The same, in the order in which they began to wait."""
        self._of: defaultdict[str, dict[GangRecord, None]] = defaultdict(dict)
        """The same by UID of the root owner."""
        self._told: dict[_Place, Reason | None] = {}
        """What the groups of a line were told; None if not the same."""
        self._doubted: dict[GangRecord, None] = {}
        """Groups that were refused, and of which another one of the job may wait, or has started."""

    def jobs(self, queue: str) -> int:
        """Jobs that count as waiting in a queue."""
        return self._queues.get(queue, 0)

    def update(self, gang: GangRecord, *, waits: bool) -> None:
        """A group changed; `waits` says whether a member of it waits for a place."""
        known, job = self._counted.get(gang), None
        if not waits:
            if self.refused:
                self._forgive(gang)
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
            if gang in self.refused:
                self._doubted[gang] = None

    def forget(self, gang: GangRecord) -> None:
        """The group was deleted."""
        self.update(gang, waits=False)

    def refusal(self, gang: GangRecord, since: int) -> Reason | None:
        """Why a group that is not accepted may not even wait in its queue; None when it may. Cheaper than all other
        rules. It has waited since that number of the state.
        """
        if gang in self._let_in or (self.limits == NO_LIMITS and not self.refused):
            return None
        job = self._job(gang)
        if not self._is_full(job) or job in self._groups or self._has_started(gang):
            self._forgive(gang)
            return None
        line = _Place(job.queue, job.user)
        if (known := self.refused.get(gang)) is not None and known.job != job:
            self._forgive(gang)
        reason = self._reason(line)
        if self._told.setdefault(line, reason) != reason:
            self._told[line] = None
        self.refused[gang] = _Standing(self._as_of(gang), job, reason)
        self._of[job.uid][gang] = None
        self._lines.add(gang, None, line, since)
        return reason

    def to_judge(self) -> list[GangRecord]:
        """Groups that were refused and are to be judged again, once in a pass everything else is: if they do not take
        the room there is, others may.
        """
        found = list(self._doubted)
        for line in self._lines.keys(None):
            if room := self._room(line):
                found += self._lines.take(None, line, room)
            elif self._told[line] != (reason := self._reason(line)):
                self._told[line] = reason
                found += self._lines.all_of(None, line)
        for gang in found:
            self._forgive(gang)
        for line in self._told.keys() - self._lines.keys(None):
            del self._told[line]
        return found

    def _forgive(self, gang: GangRecord) -> None:
        """The group is not refused any more."""
        known = self.refused.pop(gang, None)
        self._lines.discard(gang)
        self._doubted.pop(gang, None)
        if known is not None and (those := self._of.get(known.job.uid)) is not None:
            those.pop(gang, None)
            if not those:
                del self._of[known.job.uid]

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
        """Whether the group was refused, and nothing has changed on which this depends."""
        known = self.refused.get(gang)
        if known is None or known.as_of != self._as_of(gang) or not self._is_full(known.job):
            return False
        return known.reason == self._reason(_Place(known.job.queue, known.job.user))

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
        if groups == more and self.refused:
            self._doubted |= self._of.get(job.uid, {})
        if not groups or groups == more:
            for jobs, key in ((self._queues, job.queue), (self._users, job.user)):
                jobs[key] += more
                if not jobs[key]:
                    del jobs[key]

    def _is_full(self, job: _Job | _Place) -> bool:
        """Whether one job more may not wait beside those that count."""
        limits = self.limits
        of_user = self._users.get(job.user, 0)
        return no_room(self.jobs(job.queue), limits.per_queue) or no_room(of_user, limits.per_user)

    def _room(self, line: _Place) -> int:
        """How many jobs more may wait; any number, if nothing limits them."""
        counts = (self.limits.per_queue, self.jobs(line.queue)), (self.limits.per_user, self._users.get(line.user, 0))
        return max(0, min((most - count for most, count in counts if most is not None), default=sys.maxsize))

    def full(self) -> Full:
        """Where one job more may not wait."""
        most = (self._queues, self.limits.per_queue), (self._users, self.limits.per_user)
        if all(limit is None for _, limit in most):
            return NOWHERE
        return Full(*(frozenset(name for name, count in jobs.items() if no_room(count, at)) for jobs, at in most))

    def concerns(self, gang: GangRecord, full: Full) -> bool:
        """Whether a group that is not accepted is of a queue, or of a user, of which no more may wait."""
        return full is not NOWHERE and (gang.queue in full.queues or self._job(gang).user in full.users)

    def _reason(self, line: _Place) -> Reason:
        return _too_many(line, self._users.get(line.user, 0), self.jobs(line.queue), self.limits)


@lru_cache(maxsize=1024)
def _too_many(line: _Place, of_user: int, in_queue: int, limits: WaitingLimits) -> Reason:
    """Why no more may wait there, where so many do."""
    counts = (
        WaitCount(f"of {line.user}", of_user, limits.per_user),
        WaitCount(f"in the queue {line.queue!r}", in_queue, limits.per_queue),
    )
    return waiting(jobs_may_wait(Request("", waiting=counts)))


@lru_cache(maxsize=1024)
def _nobody_of(namespace: str) -> str:
    return f"namespace {namespace!r}"
