"""Which pods are members of the groups that they name, and what happens to those that may not join. A label alone makes
no pod a member. A pod is a member of the group that it names if it belongs to the job that owns the group, if it and
the group were submitted by the same user, or, of a group made by hand, if its own submitter may use the group's queue
(`AdmissionGate.stranger`). Any other pod is a stranger: it counts nowhere in the group, and waits as a job of its own
with a reason that says so, until it may join. A pod that has a place stays a member: a running pod is never judged
again.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from t9ksched.model.ordered import OrderedSet
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.records import GangRecord, PodRecord

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class Membership:
    """Sorts pods into members and strangers. Times are nanoseconds since the epoch."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._doubtful: OrderedSet[GangRecord] = OrderedSet()
        self._strangers: dict[GangRecord, dict[str, PodRecord]] = {}
        """Pods that name a group and may not join it, by UID; groups without any are left out."""
        self._guests: OrderedSet[GangRecord] = OrderedSet()
        """Groups that pods may have joined because they may use the queue, or before their submitters were known."""
        self._owned: defaultdict[str, dict[str, PodRecord]] = defaultdict(dict)
        """Pods that name a group and have a controller, which may not be the group's, by its UID and theirs."""
        self._as_of = (0, False)
        self._nameless: dict[str, int] = {}
        """Since when the submitter of a stranger has been unknown, by UID, while that is not reported yet."""
        self.unread: Callable[[], bool] = lambda: False
        """Whether the database has not been read, so that no submitter is known: every pod counts as a member."""

    def join(self, pod: PodRecord, gang: GangRecord, *, placed: bool) -> None:
        """A pod that names the group is seen for the first time; `placed` if it is on a node."""
        if pod.owner is not None:
            self._owned[pod.owner.uid][pod.uid] = pod
        reason = None if placed else self._refusal(pod, gang)
        if reason is None:
            self._take_in(pod, gang)
        else:
            self._keep_out(pod, gang, reason)

    def left(self, pod: PodRecord) -> None:
        """A pod is gone."""
        self._no_stranger(pod)
        if pod.owner is not None:
            self._owned[pod.owner.uid].pop(pod.uid, None)
            if not self._owned[pod.owner.uid]:
                del self._owned[pod.owner.uid]

    def _no_stranger(self, pod: PodRecord) -> None:
        gang, pod.outside = pod.outside, None
        self._nameless.pop(pod.uid, None)
        if gang is not None:
            del self._strangers[gang][pod.uid]
            if not self._strangers[gang]:
                del self._strangers[gang]

    def strangers(self, gang: GangRecord) -> list[PodRecord]:
        """The pods that name the group and may not join it."""
        return list(self._strangers.get(gang, {}).values())

    def doubt(self, gang: GangRecord) -> None:
        """Something changed that decides which pods may join the group."""
        self._doubtful.add(gang)

    def owner_changed(self, owner: str) -> None:
        """An owner appeared, changed or is gone, or has another record: the jobs and the submitters of its pods and
        groups may have changed.
        """
        for uid in self._state.owners.controllers(owner):
            for gang in self._state.gangs_of_owner(uid):
                if not gang.virtual:
                    self.doubt(gang)
            for pod in self._owned.get(uid, {}).values():
                named = pod.outside or pod.gang
                if named is not None and not named.virtual:
                    self.doubt(named)
                if pod.gang is not None and (pod.gang.owner is None or pod.gang.owner.uid != uid):
                    self._state.changes.job_changed(pod.gang)

    def doubt_strangers(self) -> None:
        """Something changed that may let a stranger join."""
        self._doubtful.update(self._strangers)

    def settle(self) -> None:
        """Judge again the groups for which something changed."""
        as_of = (self._state.permissions.version, self.unread())
        if as_of != self._as_of:
            self._as_of = as_of
            self.doubt_strangers()
            self._guests = OrderedSet(gang for gang in self._guests if gang.members)
            self._doubtful.update(self._guests)
        doubtful, self._doubtful = self._doubtful, OrderedSet()
        for gang in doubtful:
            self.sort(gang)

    def sort(self, gang: GangRecord) -> None:
        """Judge every pod that names the group and has no place; those whose labels name another one join that."""
        for pod in [*gang.members.values(), *self.strangers(gang)]:
            self._state.joining.follow(pod)
        for pod in list(gang.members.values()):
            if pod.waiting and (reason := self._refusal(pod, gang)) is not None:
                self._keep_out(pod, gang, reason)
        for pod in self.strangers(gang):
            reason = None if pod.node else self._refusal(pod, gang)
            if reason is None:
                self._take_in(pod, gang)
            elif pod.unpermitted != (reason,):
                self._keep_out(pod, gang, reason)

    def show(self, now: int) -> list[int]:
        """Make strangers jobs of their own, so that they have a reason; returns when to judge again.

        The submitter of a pod may be recorded a moment after the pod is seen: that it is unknown is not reported at
        once.
        """
        again = []
        for those in self._strangers.values():
            for pod in those.values():
                if pod.gang is not None or not pod.waiting:
                    continue
                (reason,) = pod.unpermitted
                if reason.code == Code.SUBMITTER_UNKNOWN:
                    until = self._nameless.setdefault(pod.uid, now) + NAMING_NS
                    if now < until:
                        again.append(until)
                        continue
                self._nameless.pop(pod.uid, None)
                self._state.join_none(pod).kept_out = reason
        return again

    def _refusal(self, pod: PodRecord, gang: GangRecord) -> Reason | None:
        """Why the pod may not join the group; None when it may, or when that is not known yet."""
        if not gang.uid:
            return None
        if self.unread():
            self._guests.add(gang)
            return None
        if self._state.permissions.came_with(pod, gang):
            return None
        self._guests.add(gang)
        return self._state.permissions.stranger(pod, gang, self._state.queues.get(gang.queue))

    def _take_in(self, pod: PodRecord, gang: GangRecord) -> None:
        if pod.gang is not None:
            self._state.leave_none(pod)
        self._no_stranger(pod)
        pod.gang, pod.unpermitted = gang, ()
        gang.members[pod.uid] = pod
        self._state.member_changed(pod, gang)

    def _keep_out(self, pod: PodRecord, gang: GangRecord, reason: Reason) -> None:
        if gang.members.pop(pod.uid, None) is not None:
            pod.gang = None
        pod.outside, pod.unpermitted = gang, (reason,)
        self._strangers.setdefault(gang, {})[pod.uid] = pod
        if pod.gang is not None:
            pod.gang.kept_out = reason
            self._state.changes.gang_changed(pod.gang)
        self._state.member_changed(pod, gang)
