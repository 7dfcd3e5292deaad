"""The scheduler's state: what is observed, what is assumed, and what is promised.

The loop takes frozen views and tells what was decided (`assume`); the executor tells what was refused (`refuse`).
Decisions are charged here before they are carried out, and taken back on refusal.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.engine.explain import queue_closed
from t9ksched.engine.planner import Assignment
from t9ksched.engine.view import QueueState, View
from t9ksched.model.gang import Gang, Running
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.cluster_cache import ClusterCache
from t9ksched.scheduler.state.lastgate import LastGate
from t9ksched.scheduler.state.limits import control_of, limit_asked
from t9ksched.scheduler.state.node_backoff import TurnedAway
from t9ksched.scheduler.state.outage import Outage
from t9ksched.scheduler.state.pod_affinity_index import own_labels
from t9ksched.scheduler.state.preemption_backoff import PreemptionBackoff
from t9ksched.scheduler.state.records import GangRecord, Minimum, PodRecord, job_of
from t9ksched.scheduler.state.reservations import waiting_for_victims
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl, Stop
from t9ksched.store.runs import Run

RETRY_AFTER_REFUSAL_NS = 1_000_000_000
"""How long a refused pod rests before it is tried again; doubled with each refusal, up to a minute."""
_LONGEST_REST_DOUBLINGS = 6
_ACCEPTED_AT_ONCE = 200
_WORK_A_STEP = 400
"""How many groups that were judged before a step of a view looks at: 20 µs each."""
_JUDGEMENT = 20
"""What a judgement or an acceptance costs, compared with such a look."""


class _Seen(NamedTuple):
    """What a step of a view found of a group, and after which of its changes."""

    gang: Gang | None
    changes: int

    def changed(self, record: GangRecord) -> bool:
        """Whether the group is not as it was found any more."""
        return record.changes != self.changes or (self.gang is not None and record.stale)


class ClusterState(ClusterCache):
    """Observed and assumed. All times are nanoseconds since the epoch, passed in."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        super().__init__(on_change)
        self._naming_ends: list[int] = []
        """When groups that nobody has put a name to will have waited long enough for one."""
        self.patience = PreemptionBackoff()
        self._rest_ends: list[int] = []
        """When somebody may be evicted again for groups that wait."""
        self._start_again: list[int] = []
        """When groups that did not start in time may be placed again."""
        self.outage = Outage(on_change)
        self.membership.unread = lambda: self.outage.unread
        self.stops: tuple[Stop, ...] = ()
        """What administrators stopped for now."""
        self.controls: dict[str, JobControl] = {}
        """What managers decided, by UID of the job."""
        self.gate = LastGate(self)
        self.clock_jumps = 0
        """How often the wall clock was set."""

    def view(self, now: int, running: tuple[Running, ...] = ()) -> View:
        """A frozen view of everything a plan needs; groups in an open queue are accepted on their first view.

        `running` are those that may have to yield, for a policy that preempts.
        """
        steps = self.viewing(now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return replace(end.value, running=running) if running else end.value  # type: ignore[no-any-return]

    def viewing(self, now: int) -> Generator[None, None, View]:
        """`view` in steps, between which the event loop may do other work: each looks at so many groups as take a few
        milliseconds. What changed since its turn is looked at again in the last step, which takes the rest of the view;
        where that is too much for a step, and where a group came meanwhile, it is in the next view.

        A verdict that was made in an earlier step counts, as it does while a plan is being made.
        """
        self.gate.begin()
        self.avoided.forget(now)
        self.patience.forget(now)
        self.settle()
        self._naming_ends = self.membership.show(now)
        self._rest_ends = []
        self._start_again = []
        self.accept_running(now)
        self.follow_losses(now)
        if len(self._pending) > _WORK_A_STEP:
            yield  # to settle so many has taken milliseconds
        resting = self._rest(now)
        seen: dict[GangRecord, _Seen] = {}
        spent = 0
        for record in list(self.pending):
            if record in resting or record not in self._pending:
                continue
            spent += self._look(record, now, seen)
            if spent >= _WORK_A_STEP:
                yield
                spent = 0
                self.settle()
                self.gate.begin()
        self.follow_losses(now)
        resting = self._rest(now)
        left = _WORK_A_STEP
        gangs: list[Gang] = []
        for record in seen:
            if record in resting or record not in self._pending:
                continue
            if seen[record].changed(record):
                if left <= 0:
                    continue
                left -= self._look(record, now, seen)
            if (gang := seen[record].gang) is not None:
                gangs.append(gang)
        for record in self.refills.keeping():
            if record not in self._pending and (snapshot := record.snapshot()) is not None:
                gangs.append(snapshot)
        queues = {
            name: QueueState(queue.spec, dict(self.charges.queue_used.get(name, {})), queue.draining)
            for name, queue in self.queues.items()
        }
        self.reservations.keep_promises_to({gang.uid for gang in self.pending})
        reserved = self.reservations.in_force()
        if not self.neighbourhood:
            return View(self.nodes.freeze(), queues, tuple(gangs), reserved)
        return View(
            self.nodes.freeze(),
            queues,
            tuple(self._labelled(gang) for gang in gangs),
            reserved,
            (),
            self.neighbourhood.present(),
            self.namespaces.labels,
        )

    def obey(self, stops: tuple[Stop, ...]) -> None:
        """What administrators stopped for now, all of it."""
        self.stops = stops

    def clock_set(self) -> None:
        """The wall clock was set."""
        self.clock_jumps += 1

    def _rest(self, now: int) -> set[GangRecord | None]:
        """Groups of which a pod was refused and is not tried again yet."""
        self._resting = OrderedSet(pod for pod in self._resting if pod.waiting and pod.retry_at > now)
        return {pod.gang for pod in self._resting}

    def _look(self, record: GangRecord, now: int, seen: dict[GangRecord, _Seen]) -> int:
        """Look at a group for a view and note what the engine is to see of it; the work that this took, in units of
        what a group costs that was judged before.
        """
        before = self.gate.work
        gang = self._shown(record, now)
        seen[record] = _Seen(gang, record.changes)
        return 1 + _JUDGEMENT * (self.gate.work - before)

    def _shown(self, record: GangRecord, now: int) -> Gang | None:
        """A group that waits, as the engine is to see it; None when it may not be placed, for a reason that is said."""
        if self.waiting_jobs.stands(record):
            return None
        control = control_of(self, record) if self.controls else None
        if record.control != control:
            record.control, record.stale = control, True
        if (unfit := _unfit(record)) is not None:
            self._say(record, unfit)
            return None
        if self.outage.unread and (unknown := self.outage.refusal(record)) is not None:
            self._say(record, unknown)
            return None
        # Asked first: of thousands beyond a limit none is worth the other rules.
        if record.acceptance is None and (over := self.waiting_jobs.refusal(record)) is not None:
            self._say(record, over)
            return None
        if not self._permitted(record, now):
            return None
        if (late := self.clocks.refusal(record, limit_asked(self, record), control, now)) is not None:
            self._say(record, late)
            if (clock := self.clocks.of(record)) is not None and clock.run.retry_at > now:
                self._start_again.append(clock.run.retry_at)
            return None
        queue = self.queues.get(record.queue)
        if queue is not None and queue.draining and not self.gate.started(record):
            self._say(record, queue_closed(queue.name, draining=True))
            return None
        if record.acceptance is None:
            self.waiting_jobs.let_in(record)
            self.gate.accept(record, now)
        if self.outage.away and (unwritten := self.outage.refusal(record)) is not None:
            self._say(record, unwritten)
            return None
        # What stands in part is finished; of what runs elsewhere nothing is known before it was read.
        unrecorded = self.outage.unread or (self.outage.away and not record.in_part())
        if unrecorded != record.unrecorded:
            record.unrecorded, record.stale = unrecorded, True
        avoid = self.avoided.by(record, now)
        if avoid != record.avoid:
            record.avoid, record.stale = avoid, True
        evicts_from = self.patience.until(record, now)
        if evicts_from != record.evicts_from:
            record.evicts_from, record.stale = evicts_from, True
        if evicts_from:
            self._rest_ends.append(evicts_from)
        return record.snapshot()

    def _permitted(self, gang: GangRecord, now: int) -> bool:
        """Whether the group may start in its queue. While its submitter or its owner may just not be known yet, it is
        given a moment before that is said.
        """
        reason = self.gate.refusal(gang, now)
        new = reason is None and gang.acceptance is None and gang.owner is not None
        if (
            (new and self.owners.awaited(gang))  # what its annotations ask for is agreed with it
            or (reason is not None and reason.code == Code.SUBMITTER_UNKNOWN)
            or (reason is not None and reason.refused and not self.owners.root(gang).certain)
        ):
            gang.nameless = gang.nameless or now
            if now < gang.nameless + NAMING_NS:
                self._naming_ends.append(gang.nameless + NAMING_NS)
                return False
        if reason is None:
            gang.nameless = 0
            return True
        self._say(gang, reason)
        return False

    def permit(self, members: dict[str, Members]) -> None:
        """Who may use which queue, all of it."""
        if self.permissions.set_members(members):
            self._on_change()

    def group(self, groups: dict[str, frozenset[str]]) -> None:
        """The groups of users, all of them."""
        if self.permissions.set_groups(groups):
            self._on_change()

    def _labelled(self, gang: Gang) -> Gang:
        """The gang with its members' labels, which rules about pods read."""
        waiting = (structs.replace(one, labels=own_labels(self.pods[one.uid])) for one in gang.waiting)
        return structs.replace(gang, waiting=tuple(waiting))

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

    def _say(self, gang: GangRecord, reason: Reason) -> None:
        """Why a group is not even judged."""
        if gang.reasons != (reason,):
            gang.reasons, gang.position = (reason,), None
            self.feed.said.add(gang)
            self.feed.gangs.note(gang)
            self._job_changed(gang)

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
            self._say(gang, reason)
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
        times.extend(self._naming_ends)
        times.extend(self._rest_ends)
        times.extend(self._start_again)
        if (end := self.reservations.next_end()) is not None:
            times.append(end)
        return min(times, default=None)


def _unfit(gang: GangRecord) -> Reason | None:
    """Why a group cannot be judged at all; None when it can."""
    if gang.kept_out is not None:
        return gang.kept_out
    if not gang.uid:
        message = f"its pods name the PodGroup {gang.key}, which does not exist"
        return Reason(Code.GANG_INCOMPLETE, message, unblocks=(f"create the PodGroup {gang.key}",))
    if gang.spec_faults:
        message = f"the PodGroup {gang.key} cannot be read: {gang.spec_faults}"
        return Reason(Code.INVALID_POD, message, unblocks=("correct the PodGroup",))
    if gang.control is not None and gang.control.held:
        by = gang.control.by or "a manager"
        return Reason(Code.SCHEDULING_GATED, f"it is held by {by}", unblocks=(f"{by} releases it",))
    return None
