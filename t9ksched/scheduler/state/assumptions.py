"""Decisions that are charged before they are carried out, and taken back on refusal."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from t9ksched.engine.planner import Assignment
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.node_backoff import TurnedAway
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

RETRY_AFTER_REFUSAL_NS = 1_000_000_000
"""How long a refused pod rests before it is tried again; doubled with each refusal, up to a minute."""
_LONGEST_REST_DOUBLINGS = 6


class Assumptions:
    """Assumes that decided bindings happen. Times are nanoseconds since the epoch, passed in."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state

    def assume(self, gang_uid: str, assignments: Iterable[Assignment], now: int) -> list[Assignment]:
        """Charge what a plan decided for one gang, if the cluster is still as the plan saw it.

        Returns:
            The assignments to carry out; none at all when one of them no longer holds, or when the database was found
            away meanwhile and has not taken the gang's acceptance.
        """
        state = self._state
        gang = state.gangs_by_uid.get(gang_uid)
        decided = list(assignments)
        if gang is None:
            return []
        if state.outage.away and state.outage.refusal(gang) is not None:  # found away since the view
            state.wake()
            return []
        job = "" if gang.virtual else job_of(gang)
        done: list[PodRecord] = []
        fits, queue = state.nodes.still_fits, gang.queue
        for assignment in decided:
            record = gang.members.get(assignment.pod)
            pod_class = record.pod_class if record is not None and record.waiting else None
            if (
                record is None
                or pod_class is None
                or not fits(assignment.node, assignment.generation, pod_class, assignment.grant)
            ):
                for earlier in done:
                    self._unassume(earlier)
                state.wake()
                return []
            record.assumed = assignment.node
            record.placed_in = job
            sure = state.cards.certain(pod_class, assignment.node)
            state.charges.charge(record.uid, assignment.node, pod_class, queue, assignment.grant, sure=sure)
            done.append(record)
        reservations = state.reservations
        for record in done:  # a place that is kept stays kept when the decision is dropped
            if reservations.refused:
                reservations.drop_place(record.uid)
            state.affinity_index.seen(record)
            if record.claims:
                state.node_events.look_again(state.storage.claimants.seen(record))
        if gang.virtual or gang.complete():
            if reservations.promised or reservations.planned:
                reservations.used(gang_uid)
            gang.displaced = gang.displaced and gang.leaves()
        if gang.reservation:
            state.advance.started(gang, now)
        gang.first_bound = gang.first_bound or now
        state.changes.placing(gang)
        if state.arrays.known:
            state.arrays.touch(job_of(gang))
        if state.affinity_index or state.waiting_jobs.refused or self._begins(gang, now):
            state.wake()  # other gangs may wait for these pods' places, or for the end of their wait
        return decided

    def _begins(self, gang: GangRecord, now: int) -> bool:
        """Whether the gang may be the first of its job that starts, and others in its queue wait for a start time: what
        is of a job that has begun does not.
        """
        if gang.owner is None or gang.first_bound != now:
            return False
        return (gang.queue, Code.START_TIME_NOT_REACHED) in self._state.waiting_gangs.counts

    def _unassume(self, record: PodRecord) -> None:
        record.assumed = record.placed_in = ""
        self._state.pod_events.take_role(record)
        self._state.affinity_index.seen(record)
        if record.claims:
            # What its claims mean may have changed meanwhile, and an older pod that shares one now comes first.
            self._state.node_events.look_again([*self._state.storage.claimants.seen(record), record])
        self._state.charges.release(record.uid)
        self._state.changes.gang_changed(record.gang)
        if record.gang is not None:
            self._state.membership.doubt(record.gang)  # it waits again, and may not be a member by what changed since

    def refuse(self, pod_uid: str, reason: Reason, now: int, *, keep_place: bool) -> None:
        """A binding did not happen: take the assumption back; its place may be kept for the gang."""
        record = self._state.pods.get(pod_uid)
        if record is None or not record.assumed:
            return
        charge = self._state.charges.get(pod_uid)
        self._unassume(record)
        record.retry_at = now + (RETRY_AFTER_REFUSAL_NS << min(record.refusals, _LONGEST_REST_DOUBLINGS))
        record.refusals += 1
        self._state._resting.add(record)
        gang = record.gang
        if gang is None:
            return
        gang.reasons = (reason,)
        self._state.feed.told_otherwise(gang)
        self._state.waiting_gangs.note(gang)
        self._state.preemption_backoff.refused(gang, now)
        if keep_place and charge is not None and gang.placed_count():
            self._state.reservations.keep_place(record, gang, charge, now)
        if not gang.placed_count():
            gang.first_bound = 0

    def withdraw(self, pod_uids: Iterable[str], reason: Reason, retry_at: int = 0) -> None:
        """Decisions about members of one gang are not carried out: they wait again, as if nothing had been decided, and
        nothing is decided about their gang before `retry_at`.
        """
        gang = None
        for uid in pod_uids:
            record = self._state.pods.get(uid)
            if record is not None and record.assumed:
                gang = record.gang
                self._unassume(record)
                if retry_at:
                    record.retry_at = retry_at
                    self._state._resting.add(record)
        if gang is not None:
            self._state.refused(gang, reason)
            if not gang.placed_count():
                gang.first_bound = 0
            self._state.wake()

    def resting(self, now: int) -> set[GangRecord | None]:
        """Groups of which a pod was refused and is not tried again yet."""
        self._state._resting = OrderedSet(pod for pod in self._state._resting if pod.waiting and pod.retry_at > now)
        return {pod.gang for pod in self._state._resting}

    def turned_away(self, now: int) -> list[TurnedAway]:
        """Bound pods that their nodes did not admit since the last call."""
        found = self._state.node_backoff.take(now)
        for each in found:
            self._state.preemption_backoff.refused(each.gang, now)
        return found
