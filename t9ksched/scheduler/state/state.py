"""The scheduler's state: what is observed, what is assumed, and what is promised.

The loop takes frozen views and reports decisions (`assume`); the executor reports refused bindings (`refuse`).
Decisions are charged here before they are carried out, and taken back on refusal.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

from t9ksched.admission.access import Members
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.usual_pods import UsualPods
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Running
from t9ksched.model.node import Node, NodeFacts
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import Reservation
from t9ksched.scheduler.state.admission_gate import AdmissionGate
from t9ksched.scheduler.state.admission_pass import AdmissionPass
from t9ksched.scheduler.state.advance_book import AdvanceBook
from t9ksched.scheduler.state.agreements import Agreements
from t9ksched.scheduler.state.announced import Announced
from t9ksched.scheduler.state.arrays import Arrays
from t9ksched.scheduler.state.assumptions import Assumptions
from t9ksched.scheduler.state.budgets import Budgets
from t9ksched.scheduler.state.card_audit import CardAudit
from t9ksched.scheduler.state.cardbook import CardBook
from t9ksched.scheduler.state.change_feed import ChangeFeed
from t9ksched.scheduler.state.changes import Changes
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.clocks import Clocks
from t9ksched.scheduler.state.counts import Counts
from t9ksched.scheduler.state.dependencies import Dependencies
from t9ksched.scheduler.state.dra_devices import DraDevices
from t9ksched.scheduler.state.enforced_ends import EnforcedEnds
from t9ksched.scheduler.state.first_moments import first_moment
from t9ksched.scheduler.state.forecasts import ForecastBook
from t9ksched.scheduler.state.foreign_gangs import ForeignGangs
from t9ksched.scheduler.state.group_events import GroupEvents
from t9ksched.scheduler.state.job_events import JobEvents
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.joining import Joining
from t9ksched.scheduler.state.lastgate import LastGate
from t9ksched.scheduler.state.membership import Membership
from t9ksched.scheduler.state.meters import Meters
from t9ksched.scheduler.state.named_groups import NamedGroups
from t9ksched.scheduler.state.namespaces import Namespaces
from t9ksched.scheduler.state.node_backoff import NodeBackoff
from t9ksched.scheduler.state.node_events import NodeEvents
from t9ksched.scheduler.state.notified import Notified
from t9ksched.scheduler.state.outage import Outage
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.places import Places
from t9ksched.scheduler.state.pod_affinity_index import PodAffinityIndex
from t9ksched.scheduler.state.pod_events import PodEvents
from t9ksched.scheduler.state.preemption_backoff import PreemptionBackoff
from t9ksched.scheduler.state.progress import Progress
from t9ksched.scheduler.state.queue_attribution import QueueAttribution
from t9ksched.scheduler.state.records import DEFAULT_GRACE, GangRecord, PodRecord
from t9ksched.scheduler.state.refill import Refills
from t9ksched.scheduler.state.replacement import Replacement
from t9ksched.scheduler.state.reported_cards import ReportedCards
from t9ksched.scheduler.state.reservations import Move, ReservationBook, waiting_for_victims
from t9ksched.scheduler.state.sharing import Sharing
from t9ksched.scheduler.state.snapshot import snapshot
from t9ksched.scheduler.state.volumes.storage import Storage
from t9ksched.scheduler.state.waiting_gangs import WaitingGangs
from t9ksched.scheduler.state.waitinglimits import WaitingJobs
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import SCHEDULING, JobControl, Stop


class ClusterState:
    """Observed and assumed. All times are nanoseconds since the epoch, passed in.

    Its parts take in events and decisions, and share these tables. The commands for other packages are here, too.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.node_events = NodeEvents(self)
        self.pod_events = PodEvents(self)
        self.group_events = GroupEvents(self)
        self.joining = Joining(self)
        self.foreign = ForeignGangs(self)
        self.named_groups = NamedGroups(self)
        self.job_events = JobEvents(self)
        self.changes = Changes(self)
        self.assumptions = Assumptions(self)
        self.agreements = Agreements(self)
        self.nodes = NodeTable()
        self.node_objects: dict[str, tuple[Node, NodeFacts]] = {}
        self.card_cordons: dict[str, Mapping[int, str]] = {}
        """Why which cards take no new work, by node and index, as administrators decided; the node may be away."""
        self.charges = Charges(self.nodes)
        self.node_backoff = NodeBackoff()
        self.budgets = Budgets()
        self.storage = Storage(
            self.node_events.look_again,
            self.node_events.limits_changed,
            lambda name: name in self.nodes,
            lambda: self.node_objects,
            lambda: self.wake(),
        )
        self.dra = DraDevices(self.node_events.look_at, self.node_events.labelled)
        self.reported_cards = ReportedCards(self.node_events.look_at)
        self.pods: dict[str, PodRecord] = {}
        self.namespaces = Namespaces(self.node_events.namespace_changed)
        self.affinity_index = PodAffinityIndex(self.pods, self.namespaces)
        self.gangs: dict[tuple[str, str], GangRecord] = {}
        """By namespace and name; of a single pod by nothing and its UID."""
        self.gangs_by_uid: dict[str, GangRecord] = {}
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.job_names: dict[tuple[str, str, str], str] = {}
        """UIDs of jobs by namespace, kind and name."""
        self.deleted: set[str] = set()
        """UIDs of objects that are being deleted, or gone while pods of theirs are still there."""
        self.acceptances: dict[str, Acceptance] = {}
        self.announced = Announced()
        self.owners = Owners(self.job_events.owner_changed)
        self.owners.owner_of_pod = lambda uid: self.pods[uid].owner if uid in self.pods else None
        self.permissions = AdmissionGate(self.namespaces, self.acceptances, self.owners)
        self.membership = Membership(self)
        self.waiting_jobs = WaitingJobs(self.permissions, self.acceptances, self.owners)
        self.feed = ChangeFeed()
        refused: dict[str, Reservation] = {}
        self.refills = Refills(
            self.nodes,
            self.node_objects,
            self.charges,
            Replacement(self.jobs, self.owners, self.deleted, self.groups_of),
            refused,
            self.owners,
            self.feed,
            self.changes.gang_changed,
        )
        self.reservations = ReservationBook(self.refills, refused, on_change)
        self.advance = AdvanceBook(self)
        self.dependencies = Dependencies(self)
        self.forecasts = ForecastBook(self.reservations, lambda gang, now: first_moment(self, gang, now))
        self.counts = Counts()
        self.notified = Notified()
        self.usual = UsualPods()
        """The pods of this scheduler that were seen, since it started, by class."""
        self.clocks = Clocks(self.changes.timed)
        self.meters = Meters()
        self.arrays = Arrays(self)
        self.put_there: dict[str, dict[str, str]] = {}
        """The nodes of such pods by UID, by UID of their owner."""
        self.departures: dict[str, int] = {}
        """How many pods have gone of owners that ask for more than was accepted, by UID of the root."""
        self.unknown_queues: set[str] = set()
        """Unknown queues that groups named, until the database was asked for them."""
        self._pods_by_name: dict[tuple[str, str], str] = {}
        self._pending: dict[GangRecord, int] = {}
        """The groups that wait, each with a number that grows with their order."""
        self.waiting_gangs = WaitingGangs(self._pending)
        self.progress = Progress(self.feed, self.waiting_gangs, self.meters)
        self._partial: dict[GangRecord, None] = {}
        self._unsettled: dict[GangRecord, None] = {}
        self.begun: OrderedSet[GangRecord] = OrderedSet()
        """Groups that began to run, or lost their whole place: this must be recorded."""
        self._unaccepted: OrderedSet[GangRecord] = OrderedSet()
        """Groups that hold places, and either nothing was agreed with them or their owner is not known as started."""
        self._by_owner: defaultdict[str, dict[GangRecord, None]] = defaultdict(dict)
        self._resting: OrderedSet[PodRecord] = OrderedSet()
        self._sharing = Sharing()
        self.cards = CardBook(self.pods, self.node_objects, self.charges, self._sharing.cards, self.node_events.upsert)
        self.card_audit = CardAudit(self.pods, self.node_objects, self.charges, self.cards.moves)
        self.charges.moved = self.card_audit.note
        self.places = Places(self)
        self._queue_attribution = QueueAttribution(self.acceptances)
        self.wake = on_change
        """Called after a change that could let a gang start."""
        self.preemption_backoff = PreemptionBackoff()
        self.outage = Outage(on_change)
        self.membership.unread = lambda: self.outage.unread
        self.enforced_ends: EnforcedEnds | None = None
        """Kept while starts are planned."""
        self.longest_grace = DEFAULT_GRACE
        """The longest time, in seconds, that any pod seen so far gets to end."""
        self.resolution = 0
        """To which the times of planned starts are rounded up where they are shown, in nanoseconds."""
        self.stops: tuple[Stop, ...] = ()
        """The administrators' stops in force."""
        self.controls: dict[str, JobControl] = {}
        """What managers decided, by UID of the job."""
        self.gate = LastGate(self)
        self.admission_pass = AdmissionPass(self)
        self.clock_jumps = 0
        """How often the wall clock was set."""
        # Commands, by the parts that carry them out.
        self.upsert_node = self.node_events.upsert
        self.remove_node = self.node_events.remove
        self.upsert_pod = self.pod_events.upsert
        self.take_role = self.pod_events.take_role
        self.remove_pod = self.pod_events.remove
        self.upsert_group = self.group_events.upsert
        self.remove_group = self.group_events.remove
        self.settle_bill = self.group_events.settle_bill
        self.give_up_kept_queue = self.group_events.give_up_kept_queue
        self.put_back = self.joining.put_back
        self.join_none = self.joining.join_none
        self.leave_none = self.joining.leave_none
        self.member_changed = self.joining.member_changed
        self.set_queues = self.job_events.set_queues
        self.upsert_job = self.job_events.upsert
        self.remove_job = self.job_events.remove
        self.remove_owner = self.job_events.remove_owner
        self.deletion = self.job_events.deletion
        self.judge_again = self.job_events.judge_again
        self.settle = self.changes.settle
        self.assume = self.assumptions.assume
        self.refuse = self.assumptions.refuse
        self.withdraw = self.assumptions.withdraw
        self.resting = self.assumptions.resting
        self.turned_away = self.assumptions.turned_away
        self.accept = self.agreements.accept
        self.accept_running = self.agreements.accept_running
        self.accepted_anew = self.agreements.accepted_anew
        self.start_again = self.agreements.start_again
        self.note_end = self.agreements.note_end
        self.forfeit = self.agreements.forfeit

    def view(self, now: int, running: Sequence[Running] = ()) -> View:
        """Judge waiting groups, without a pause between the steps, and take the view for a plan. `running` are possible
        victims, for a policy that preempts.
        """
        steps = self.judge(now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return snapshot(self, end.value, running)

    def expect_ends(self, start_timeout: int, most_grace: int) -> EnforcedEnds:
        """Keep the expected ends of groups, by these rules in seconds: starts are planned."""
        if self.enforced_ends is not None and self.enforced_ends.rules != (start_timeout, most_grace):
            self.expect_no_ends()
        if self.enforced_ends is None:
            self.enforced_ends = EnforcedEnds(self, start_timeout, most_grace)
        return self.enforced_ends

    def expect_no_ends(self) -> None:
        """No starts are planned."""
        if self.enforced_ends is not None:
            self.enforced_ends.close()
            self.enforced_ends = None

    def plan_starts(self, planned: Iterable[Reservation], resolution: int) -> dict[str, Move]:
        """The planned starts as the latest cycle made them; shown times are rounded up to `resolution`, nanoseconds.

        Returns:
            What is new, moved or planned no longer, by UID of the group.
        """
        self.resolution = resolution
        gangs = self.gangs_by_uid
        moves = self.reservations.plan(planned, lambda owner: owner not in gangs or gangs[owner].complete(), resolution)
        for uid in moves:
            if (gang := gangs.get(uid)) is not None:
                self.feed.gangs.note(gang)
                self.changes.job_changed(gang)
        return moves

    def judge(self, now: int) -> Generator[None, None, tuple[Gang, ...]]:
        """Accept or refuse waiting groups, in steps; returns the gangs for `snapshot`."""
        return self.admission_pass.run(now)

    def refused(self, gang: GangRecord, reason: Reason) -> None:
        """Why no plan judges a group."""
        if gang.reasons != (reason,):
            gang.reasons, gang.position = (reason,), None
            self.feed.told_otherwise(gang)
            self.waiting_gangs.note(gang)
            self.feed.said.add(gang)
            self.feed.gangs.note(gang)
            self.changes.job_changed(gang)

    def obey(self, stops: tuple[Stop, ...]) -> None:
        """What administrators stopped for now, all of it."""
        self.stops = stops
        stopped = any(stop.what == SCHEDULING for stop in stops)
        if stopped != self.reservations.stopped:
            self.reservations.stopped = stopped
            for uid in self.reservations.planned:
                if (gang := self.gangs_by_uid.get(uid)) is not None:
                    self.feed.gangs.note(gang)
                    self.changes.job_changed(gang)

    def clock_changed(self, job: str) -> None:
        """Since when the job of that UID is bound or runs became known: it ends sooner than was planned with."""
        if self.enforced_ends is not None:
            self.feed.clocks.note(job)
            self.wake()

    def clock_set(self) -> None:
        """The wall clock was set."""
        self.clock_jumps += 1

    def permit(self, members: dict[str, Members]) -> None:
        """Take over the members of all queues."""
        if self.permissions.set_members(members):
            self.wake()

    def group(self, groups: dict[str, frozenset[str]]) -> None:
        """The groups of users, all of them."""
        if self.permissions.set_groups(groups):
            self.wake()

    def direct(self, controls: dict[str, JobControl]) -> None:
        """What managers decided about jobs, all of it."""
        self.redirect({uid: controls.get(uid) for uid in self.controls.keys() | controls.keys()})

    def redirect(self, decided: Mapping[str, JobControl | None]) -> None:
        """What managers decided about the jobs of these UIDs; None where nothing is decided any more."""
        changed = {uid: control for uid, control in decided.items() if control != self.controls.get(uid)}
        for uid, control in changed.items():
            if control is None:
                del self.controls[uid]
            else:
                self.controls[uid] = control
            for below in self.owners.controllers(uid):
                for gang in self.groups_of(below):
                    self.changes.gang_changed(gang)
        if changed:
            self.wake()

    def end_idle_promises(self, now: int, *, evicting: bool) -> None:
        """Give up promised room that no pod is leaving any more; while victims are being evicted, none is."""
        book = self.reservations
        book.end_promises(now)
        leaving = book.promised_to
        if leaving and not evicting:
            leaving = waiting_for_victims(book, self.pods, self.charges, self.gangs.values(), self.gangs_by_uid)
        book.end_idle(now, leaving)

    def groups_of(self, job: str) -> list[GangRecord]:
        """The groups of the job of that UID: those it owns, or the group itself."""
        if gangs := self.gangs_of_owner(job):
            return gangs
        gang = self.gangs_by_uid.get(job)
        return [gang] if gang is not None and gang.owner is None else []

    def follow_losses(self, now: int) -> None:
        """Bring the reservations for lost members up to date; called before each view."""
        for _ in self.following_losses(now):
            pass

    def following_losses(self, now: int) -> Iterator[None]:
        """The same in steps of a few milliseconds, between which other events may come."""
        self.changes.settle()
        end_of = self.enforced_ends.end_of if self.enforced_ends is not None else lambda _: None
        for _ in self.refills.following(now, self.queues, self.reservations.promised_to, end_of):
            yield
            self.changes.settle()

    def next_retry(self, *, planning: bool = True) -> int | None:
        """When time alone makes a difference to a look, or, without `planning`, to one that plans nothing."""
        rests = [pod.retry_at for pod in self._resting if pod.waiting]
        ends = self.enforced_ends.next_change() if self.enforced_ends is not None else None
        room = (self.reservations if planning else self.refills).next_end()
        later = self.node_backoff.next_end(), room, ends, self.advance.next_change()
        return min((*rests, *self.admission_pass.ends, *(at for at in later if at is not None)), default=None)

    @property
    def pending(self) -> dict[GangRecord, int]:
        """Groups with members that wait for a place, as of now."""
        self.changes.settle()
        return self._pending

    @property
    def partial(self) -> list[GangRecord]:
        """Groups of which some members hold places, but not the minimum, as of now."""
        self.changes.settle()
        return list(self._partial)

    def pod_named(self, namespace: str, name: str) -> PodRecord | None:
        """The pod of that name, None when there is none."""
        return self.pods.get(self._pods_by_name.get((namespace, name), ""))

    def holds_a_place(self, namespace: str, name: str) -> bool:
        """Whether the pod of that name is somewhere and has not ended."""
        pod = self.pod_named(namespace, name)
        return pod is not None and bool(pod.node and not pod.finished)

    def knows(self, uid: str) -> bool:
        """Whether a job or group of this UID is there, or a group that it owns."""
        known = (self.gangs_by_uid, self.jobs, self.pods, self._by_owner, self.owners)
        return any(uid in one for one in known)

    def gangs_of_owner(self, uid: str) -> list[GangRecord]:
        """The groups whose controlling owner has this UID."""
        return list(self._by_owner.get(uid, ()))

    def owns_gangs(self, uid: str) -> bool:
        """Whether there are any."""
        return uid in self._by_owner
