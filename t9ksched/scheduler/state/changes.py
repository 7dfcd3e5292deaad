"""Handles changes of groups: each is published in the change feed, and the group is settled once before the next
plan.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from t9ksched.scheduler.state.limits import control_of
from t9ksched.scheduler.state.minimum import Minimum
from t9ksched.scheduler.state.records import GangRecord

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_SETTLED_AT_ONCE: Final = 1000
"""So many groups are settled in one step of `settling`."""


class Changes:
    """Notes changes of groups and jobs, and settles them. Times are nanoseconds since the epoch."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._began = 0
        """How many groups have begun to wait."""

    def gang_changed(self, gang: GangRecord | None) -> None:
        """Something of the group changed: its snapshot for the engine is renewed, and it is settled before that; None
        is no group.
        """
        if gang is not None:
            self.placing(gang)
            self.job_changed(gang)

    def placing(self, gang: GangRecord) -> None:
        """Members of the group are to be bound; of the job users see that only once they are."""
        gang.stale = True
        self.moved(gang)
        feed = self._state.feed
        self._state._unsettled[gang] = None
        feed.queues.note(self.count(gang))
        feed.gangs.note(gang)

    def moved(self, gang: GangRecord) -> None:
        """What of the group decides is not what it was: it is judged anew, and looked at as a possible victim."""
        gang.changes += 1
        self._state.feed.held_otherwise(gang)

    def count(self, gang: GangRecord) -> str:
        """Count the group in its queue, whose name is returned; the status of a queue that it left changes too."""
        queue = gang.queue
        if gang.counted != queue and (left := self._state.counts.group(gang)) is not None:
            self._state.feed.queues.note(left)
        if queue not in self._state.queues:
            self._state.unknown_queues.add(queue)
        return queue

    def job_changed(self, gang: GangRecord) -> None:
        """Something changed that users see of the job that the group belongs to."""
        if uid := gang.owner.uid if gang.owner else gang.uid:
            self._state.feed.jobs.note(uid)
            self._state.arrays.touch(uid)
        else:
            self._state.feed.nameless.note(gang.key)

    def timed(self, job: str) -> None:
        """The job has a clock from now on, which decides whether its groups may start."""
        for gang in self._state.groups_of(job):
            self._state.feed.held_otherwise(gang)

    def displaced(self, gang: GangRecord) -> None:
        """A member's place was taken away on purpose; `settle` finds out whether the group still has its minimum."""
        if not gang.displaced:
            gang.displaced = True
            self.gang_changed(gang)

    def settle(self) -> None:
        """Settle every group that changed, once: whether it runs, whether it waits. A thousand events cost one
        check.
        """
        self._state.membership.settle()
        changed, self._state._unsettled = self._state._unsettled, {}
        for gang in changed:
            self._settle(gang)

    def settling(self) -> Iterator[None]:
        """The same in steps, of which the last settles what changed meanwhile; after what changed of volumes."""
        yield from self._state.storage.settling()
        self._state.membership.settle()
        while len(self._state._unsettled) > _SETTLED_AT_ONCE:
            for gang in list(islice(self._state._unsettled, _SETTLED_AT_ONCE)):
                self._state._unsettled.pop(gang, None)
                self._settle(gang)
            yield
        self.settle()

    def take_control(self, gang: GangRecord) -> None:
        """Note what managers decided about the job of the group, whether it waits or runs: by its priority victims are
        chosen, too.
        """
        control = control_of(self._state, gang) if self._state.controls else None
        if gang.control != control:
            gang.control, gang.stale = control, True
            self._state.feed.held_otherwise(gang)
            self.job_changed(gang)

    def _settle(self, gang: GangRecord) -> None:
        self.take_control(gang)
        if gang.virtual:
            self._settle_single(gang)
            return
        if gang.kept and self._state.group_events.settle_agreement(gang):
            self._state.group_events.settle_bill(gang)
            self._state.wake()
        self.note_run(gang)
        if gang.uid and gang.unnoted and gang.placed_count():
            self._state._unaccepted.add(gang)
        whole = gang.complete()
        if whole:
            gang.fell, gang.displaced = 0, gang.displaced and gang.leaves()
        if not whole and gang.uid and any(pod.holds for pod in gang.members.values()):
            self._state._partial[gang] = None
        else:
            self._state._partial.pop(gang, None)
        if not gang.placed_count():
            gang.first_bound = 0  # its next placement is another start
            if gang.admitted and gang.ran and next(iter(gang.living()), None) is None:
                gang.admitted = 0  # it was paused, or all of it failed: history tells of its next run, too
        self._settle_waiting(gang, waits=any(pod.waiting for pod in gang.members.values()))

    def note_run(self, gang: GangRecord) -> None:
        """Record whether the PodGroup has begun to run; the minimum of its present spec is the one it began with."""
        if gang.ran or not gang.uid:
            return
        if gang.complete(bound=True) and not gang.leaves():
            gang.ran = gang.scheduled = True
            least = max(gang.spec.min_member, sum(least for _, least in gang.spec.roles))
            gang.began_with = Minimum(least, gang.spec.roles)
            self._state.begun.add(gang)
            gang.evicted = None
        elif running := _inherited_running(gang):
            gang.ran, gang.began_with = True, running
            self._state.begun.add(gang)
            self._state.wake()  # its other members need not wait for the minimum of its spec

    def _settle_single(self, gang: GangRecord) -> None:
        pod = next(iter(gang.members.values()), None)
        if pod is None or pod.deleting or not pod.placed:
            self._settle_waiting(gang, waits=pod is not None and pod.waiting)
            return
        gang.ran = gang.ran or not pod.assumed
        gang.fell = 0
        if gang.unnoted:
            self._state._unaccepted.add(gang)
        self._settle_waiting(gang, waits=False)

    def _settle_waiting(self, gang: GangRecord, *, waits: bool) -> None:
        """Whether a member of the group waits for a place."""
        self._state.waiting_jobs.update(gang, waits=waits)
        if waits:
            if gang not in self._state._pending:
                self._began += 1
                self._state._pending[gang] = self._began
        else:
            self._state._pending.pop(gang, None)
            if gang.reasons:
                self._state.feed.told_otherwise(gang)
            gang.reasons, gang.position = (), None
        self._state.waiting_gangs.note(gang)


def _inherited_running(gang: GangRecord) -> Minimum | None:
    """The members that run, or have succeeded, and got their places in an earlier group of the name; none that counts
    once places of the group were taken away on purpose.
    """
    if gang.displaced and (gang.leaves() or not gang.complete()):
        return None
    run = [pod for pod in gang.members.values() if pod.phase in ("Running", "Succeeded")]
    roles = Counter(pod.role for pod in run if gang.inherited(pod) and not (pod.evicted or pod.deleting))
    return Minimum(roles.total(), tuple(sorted(roles.items()))) if roles else None
