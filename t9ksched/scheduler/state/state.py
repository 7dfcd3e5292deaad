"""The scheduler's state: what is observed, what is assumed, and what is promised.

The loop takes frozen views and tells what was decided (`assume`); the executor tells what was refused (`refuse`).
Decisions are charged here before they are carried out, and taken back on refusal.
"""

from collections.abc import Callable, Generator, Iterable
from itertools import islice

from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.engine.planner import Assignment
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Running
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.admission_pass import AdmissionPass
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.cluster_cache import ClusterCache
from t9ksched.scheduler.state.lastgate import LastGate
from t9ksched.scheduler.state.node_backoff import TurnedAway
from t9ksched.scheduler.state.outage import Outage
from t9ksched.scheduler.state.preemption_backoff import PreemptionBackoff
from t9ksched.scheduler.state.records import GangRecord, Minimum, PodRecord, job_of
from t9ksched.scheduler.state.reservations import waiting_for_victims
from t9ksched.scheduler.state.snapshot import snapshot
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl, Stop
from t9ksched.store.runs import Run

RETRY_AFTER_REFUSAL_NS = 1_000_000_000
"""How long a refused pod rests before it is tried again; doubled with each refusal, up to a minute."""
_LONGEST_REST_DOUBLINGS = 6
_ACCEPTED_AT_ONCE = 200


class ClusterState(ClusterCache):
    """Observed and assumed. All times are nanoseconds since the epoch, passed in."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        super().__init__(on_change)
        self.patience = PreemptionBackoff()
        self.outage = Outage(on_change)
        self.membership.unread = lambda: self.outage.unread
        self.stops: tuple[Stop, ...] = ()
        """What administrators stopped for now."""
        self.controls: dict[str, JobControl] = {}
        """What managers decided, by UID of the job."""
        self.gate = LastGate(self)
        self.admission_pass = AdmissionPass(self)
        self.clock_jumps = 0
        """How often the wall clock was set."""

    def view(self, now: int, running: tuple[Running, ...] = ()) -> View:
        """Judge what waits, without a pause between the steps, and take a view of what a plan needs.

        `running` are those that may have to yield, for a policy that preempts.
        """
        steps = self.judge(now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return snapshot(self, end.value, running)

    def judge(self, now: int) -> Generator[None, None, tuple[Gang, ...]]:
        """Accept or refuse what waits, in steps; what the engine is to see of it, for `snapshot`."""
        return self.admission_pass.run(now)

    def refused(self, gang: GangRecord, reason: Reason) -> None:
        """Why a group is not even judged by a plan."""
        if gang.reasons != (reason,):
            gang.reasons, gang.position = (reason,), None
            self.feed.said.add(gang)
            self.feed.gangs.note(gang)
            self._job_changed(gang)

    def obey(self, stops: tuple[Stop, ...]) -> None:
        """What administrators stopped for now, all of it."""
        self.stops = stops

    def clock_set(self) -> None:
        """The wall clock was set."""
        self.clock_jumps += 1

    def resting(self, now: int) -> set[GangRecord | None]:
        """Groups of which a pod was refused and is not tried again yet."""
        self._resting = OrderedSet(pod for pod in self._resting if pod.waiting and pod.retry_at > now)
        return {pod.gang for pod in self._resting}

    def permit(self, members: dict[str, Members]) -> None:
        """Who may use which queue, all of it."""
        if self.permissions.set_members(members):
            self._on_change()

    def group(self, groups: dict[str, frozenset[str]]) -> None:
        """The groups of users, all of them."""
        if self.permissions.set_groups(groups):
            self._on_change()

    def direct(self, controls: dict[str, JobControl]) -> None:
        """What managers decided about jobs, all of it."""
        if controls != self.controls:
            before, self.controls = self.controls, controls
            for uid in before.keys() | controls.keys():
                if before.get(uid) != controls.get(uid):
                    for below in self.owners.controllers(uid):
                        for gang in self.groups_of(below):
                            self._gang_changed(gang)
            self._on_change()

    def end_idle_promises(self, now: int, *, evicting: bool) -> None:
        """Give up promised room that no pod is leaving any more; while victims are being evicted, none is."""
        book = self.reservations
        book.end_promises(now)
        leaving = book.promised_to
        if leaving and not evicting:
            leaving = waiting_for_victims(book, self.pods, self.charges, self.gangs.values(), self.gangs_by_uid)
        book.end_idle(now, leaving)

    def accept(self, acceptance: Acceptance) -> None:
        """An acceptance read from SQL: at start, or because the service recorded one."""
        uid = acceptance.uid
        known = self.acceptances.get(uid)
        if known is not None and known.replicas is not None:  # what is recorded since is the newer word about amounts
            kept = {name: getattr(known, name) for name in ("queue", "priority", "replicas", "requests", "cards")}
            acceptance = structs.replace(acceptance, **kept, started_at=known.started_at or acceptance.started_at)
        if known is not None and known.began_with is not None:
            acceptance = structs.replace(acceptance, began_with=known.began_with, began_roles=known.began_roles)
        self.acceptances[uid] = acceptance
        if acceptance.by_itself:
            self._free(uid)
        self._payers.changed()
        self.feed.jobs.note(uid)
        gang, pod = self.gangs_by_uid.get(uid), self.pods.get(uid)
        if gang is not None and (gang.acceptance is None or gang.acceptance.submitter is None):
            gang.acceptance = acceptance
            began = Minimum.on_record(acceptance)
            if gang.ran and began is not None and (known is None or gang not in self.begun):
                gang.began_with = began
            elif gang.began_with is not None:
                self.begun.add(gang)
        self.membership.doubt_strangers()
        owned = (one for below in self.owners.controllers(uid) for one in self.gangs_of_owner(below))
        for concerned in dict.fromkeys((gang, pod.gang if pod else None, *owned)):
            if concerned is not None:
                if not concerned.virtual:
                    self.membership.doubt(concerned)
                self._gang_changed(concerned)
                self.settle_bill(concerned)
                self._on_change()

    def accept_running(self, now: int) -> bool:
        """What holds places is taken as it is, be its queue closed since: it ran before we looked, or the record of its
        acceptance was lost with the process that made it. Later edits change nothing of it either.

        A few groups a call, so that a start on a large cluster does not hold the loop; whether there are more.
        """
        if self.outage.unread:
            return False  # what was agreed with it stands in the database, and is not known yet
        self.settle()
        for gang in list(islice(self._unaccepted, _ACCEPTED_AT_ONCE)):
            self._unaccepted.discard(gang)
            if gang.uid and gang.placed_count():
                self.gate.accept(gang, now, runs=True)
                self.gate.note_start(gang, now)
        for gang in list(islice(self.begun, _ACCEPTED_AT_ONCE)):
            self.begun.discard(gang)
            self.gate.note_beginning(gang)
        return bool(self._unaccepted or self.begun)

    def accepted_anew(self, acceptance: Acceptance) -> None:
        """A group was accepted: that is to be written."""
        self._payers.changed()
        self.feed.acceptances.add(acceptance)
        self.outage.accepted(acceptance.uid)

    def assume(self, gang_uid: str, assignments: Iterable[Assignment], now: int) -> list[Assignment]:
        """Charge what a plan decided for one gang, if the cluster is still as the plan saw it.

        Returns:
            The assignments to carry out; none at all when one of them no longer holds.
        """
        gang = self.gangs_by_uid.get(gang_uid)
        decided = list(assignments)
        if gang is None:
            return []
        done: list[PodRecord] = []
        for assignment in decided:
            record = gang.members.get(assignment.pod)
            if record is None or not record.waiting or not self._still_fits(record, assignment):
                for earlier in done:
                    self._unassume(earlier)
                self._on_change()
                return []
            assert record.pod_class is not None
            record.assumed = assignment.node
            record.placed_in = "" if gang.virtual else job_of(gang)
            sure = self.cards.certain(record.pod_class, assignment.node)
            cards = dict(assignment.masks)
            self.charges.charge(record.uid, assignment.node, record.pod_class, gang.queue, cards, sure=sure)
            self.reservations.drop_place(record.uid)
            done.append(record)
        if gang.complete():
            self.reservations.used(gang_uid)
            gang.displaced = False
        gang.first_bound = gang.first_bound or now
        self._gang_changed(gang)
        if self.neighbourhood or self.waiting_jobs:
            self._on_change()  # where these pods stand may be what somebody waits for, or that they wait no more
        return decided

    def _still_fits(self, record: PodRecord, assignment: Assignment) -> bool:
        node = assignment.node
        if node not in self.nodes or record.pod_class is None:
            return False
        if self.nodes.generation[self.nodes.row(node)] != assignment.generation:
            return False
        return self.charges.fits(node, record.pod_class, dict(assignment.masks))

    def _unassume(self, record: PodRecord) -> None:
        record.assumed = record.placed_in = ""
        self.take_role(record)
        self.charges.release(record.uid)
        self._gang_changed(record.gang)

    def refuse(self, pod_uid: str, reason: Reason, now: int, *, keep_place: bool) -> None:
        """A binding did not happen: take the assumption back; its place may be kept for the gang."""
        record = self.pods.get(pod_uid)
        if record is None or not record.assumed:
            return
        charge = self.charges.get(pod_uid)
        self._unassume(record)
        record.retry_at = now + (RETRY_AFTER_REFUSAL_NS << min(record.refusals, _LONGEST_REST_DOUBLINGS))
        record.refusals += 1
        self._resting.add(record)
        gang = record.gang
        if gang is None:
            return
        gang.reasons = (reason,)
        self.patience.refused(gang, now)
        if keep_place and charge is not None and gang.placed_count():
            self.reservations.keep_place(record, gang, charge, now)
        if not gang.placed_count():
            gang.first_bound = 0

    def withdraw(self, pod_uids: Iterable[str], reason: Reason) -> None:
        """Decisions about members of one gang are not carried out: they wait again, as if nothing had been decided."""
        gang = None
        for uid in pod_uids:
            record = self.pods.get(uid)
            if record is not None and record.assumed:
                gang = record.gang
                self._unassume(record)
        if gang is not None:
            self.refused(gang, reason)
            if not gang.placed_count():
                gang.first_bound = 0
            self._on_change()

    def turned_away(self, now: int) -> list[TurnedAway]:
        """Bound pods that their nodes did not admit since the last call."""
        found = self.avoided.take(now)
        for each in found:
            self.patience.refused(each.gang, now)
        return found

    def start_again(self, gang: GangRecord, reason: str, message: str) -> None:
        """The group is evicted whole, for that reason: it needs its whole minimum at once, as if it had never run, with
        the age it has.
        """
        gang.ran, gang.displaced, gang.began_with = False, True, None
        self.begun.add(gang)
        self.clocks.start_anew(gang)
        if gang.scheduled:
            gang.evicted = (reason, message)
        gang.first_bound = gang.admitted = gang.fell = 0
        self._drop_reservations(gang)
        self._gang_changed(gang)

    def groups_of(self, job: str) -> list[GangRecord]:
        """The groups of the job of that UID: those it owns, or the group itself."""
        if gangs := self.gangs_of_owner(job):
            return gangs
        gang = self.gangs_by_uid.get(job)
        return [gang] if gang is not None and gang.owner is None else []

    def note_end(self, gang: GangRecord, code: Code, message: str, now: int, limit: int | None = None) -> None:
        """The job of a group was told to end, because of a limit, in seconds if it is the job's own. Its next run is
        timed anew.
        """
        gangs = self.groups_of(job_of(gang)) or [gang]
        clock = self.clocks.by_job.setdefault(job_of(gang), Clock(Run(uid=job_of(gang))))
        clock.start_anew(
            pod.uid for one in gangs for pod in one.members.values() if pod.node and not one.inherited(pod)
        )
        clock.set(ended_at=now, ended_code=str(code), ended_limit=limit, message=message)
        for one in gangs:
            self.start_again(one, str(code), message)

    def forfeit(self, gang: GangRecord) -> None:
        """The room kept for members that the group lost goes to another, and the group waits like any other."""
        self._displaced(gang)
        self._drop_reservations(gang)

    def follow_losses(self, now: int) -> None:
        """Bring up to date what is kept for members that gangs lost; called before each look."""
        self.settle()
        self.refills.follow(now, self.queues, self.reservations.promised_to)

    def next_retry(self) -> int | None:
        """When the next refused pod, or a node that refused one, may be tried again; None when none waits for that."""
        times = [pod.retry_at for pod in self._resting if pod.waiting]
        if (end := self.avoided.next_end()) is not None:
            times.append(end)
        times.extend(self.admission_pass.ends)
        if (end := self.reservations.next_end()) is not None:
            times.append(end)
        return min(times, default=None)
