"""The cluster as the watches show it, kept event by event.

It is fed by reflectors (`upsert_*`, `remove_*`) and by SQL (`set_queues`). Each event may come twice or late without
harm. Whatever could let something start calls `on_change`: an idle cluster costs nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from sys import intern

import structlog

from t9ksched.engine.nodes import NodeTable
from t9ksched.kube.write.eviction import OTHERS
from t9ksched.model import names
from t9ksched.model.errors import Invalid
from t9ksched.model.node import Node, NodeFacts, node_facts
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.pod import Metadata, OwnerReference, Pod
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.quantity import QuantityError
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation
from t9ksched.scheduler.state.admission_gate import AdmissionGate
from t9ksched.scheduler.state.budgets import Budgets
from t9ksched.scheduler.state.cardbook import CardBook
from t9ksched.scheduler.state.change_feed import ChangeFeed
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.clocks import Clocks
from t9ksched.scheduler.state.counts import Counts
from t9ksched.scheduler.state.membership import Membership
from t9ksched.scheduler.state.namespaces import Namespaces
from t9ksched.scheduler.state.node_backoff import NodeBackoff
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.places import Place, Places
from t9ksched.scheduler.state.pod_affinity_index import PodAffinityIndex
from t9ksched.scheduler.state.pod_blockers import gates
from t9ksched.scheduler.state.progress import Progress
from t9ksched.scheduler.state.queue_attribution import QueueAttribution
from t9ksched.scheduler.state.records import (
    FINISHED,
    GangRecord,
    JobRecord,
    Minimum,
    PodGroupObject,
    PodRecord,
    is_true,
    job_of,
    levels,
    nanoseconds,
    true_condition,
)
from t9ksched.scheduler.state.refill import Refills
from t9ksched.scheduler.state.reservations import ReservationBook
from t9ksched.scheduler.state.sharing import NOTHING, Sharing, alone
from t9ksched.scheduler.state.volumes.claims import claim_names
from t9ksched.scheduler.state.volumes.storage import Storage
from t9ksched.scheduler.state.waitinglimits import WaitingJobs
from t9ksched.store.acceptances import Acceptance

log = structlog.get_logger(__name__)

SYSTEM_PRIORITY = 2_000_000_000
"""Value of the class system-cluster-critical; such pods are exempt from limits on how long they run."""


class ClusterCache:
    """Nodes, pods, groups, queues, jobs and who holds what. Times are nanoseconds since the epoch."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.nodes = NodeTable()
        self.node_objects: dict[str, tuple[Node, NodeFacts]] = {}
        self.charges = Charges(self.nodes)
        self.avoided = NodeBackoff()
        self.budgets = Budgets()
        self.storage = Storage(self._look_again, self._limits_changed)
        self.pods: dict[str, PodRecord] = {}
        self.namespaces = Namespaces(self._namespace_changed)
        self.neighbourhood = PodAffinityIndex(self.pods, self.namespaces)
        self.gangs: dict[tuple[str, str], GangRecord] = {}
        """By namespace and name; of a single pod by nothing and its UID."""
        self.gangs_by_uid: dict[str, GangRecord] = {}
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.deleted: set[str] = set()
        """UIDs of objects that are being deleted, or gone while pods of theirs are still there."""
        self.acceptances: dict[str, Acceptance] = {}
        self.owners = Owners(self._owner_changed)
        self.permissions = AdmissionGate(self.namespaces, self.acceptances, self.owners)
        self.membership = Membership(self)
        self.waiting_jobs = WaitingJobs(self.permissions, self.acceptances, self.owners)
        refused: dict[str, Reservation] = {}
        self.refills = Refills(
            self.nodes, self.node_objects, self.charges, self.jobs, refused, self.owners, self._gang_changed
        )
        self.reservations = ReservationBook(self.refills, refused, on_change)
        self.counts = Counts()
        self.clocks = Clocks()
        self.feed = ChangeFeed()
        self.progress = Progress(self.feed)
        self.put_there: dict[str, dict[str, str]] = {}
        """The nodes of such pods by UID, by UID of their owner."""
        self.departures: dict[str, int] = {}
        """How many pods have gone of owners that ask for more than was accepted, by UID of the root."""
        self.unknown_queues: set[str] = set()
        """Queues that a group named and that were not known, until somebody looked for them in the database."""
        self._pods_by_name: dict[tuple[str, str], str] = {}
        self._pending: dict[GangRecord, None] = {}
        self._partial: dict[GangRecord, None] = {}
        self._unsettled: OrderedSet[GangRecord] = OrderedSet()
        self.begun: OrderedSet[GangRecord] = OrderedSet()
        """Groups that began to run, or lost their whole place: that is to be put on record."""
        self._unaccepted: OrderedSet[GangRecord] = OrderedSet()
        """Groups that hold places, and either nothing was agreed with them or their owner is not known as started."""
        self._by_owner: defaultdict[str, dict[GangRecord, None]] = defaultdict(dict)
        self._resting: OrderedSet[PodRecord] = OrderedSet()
        self._sharing = Sharing()
        self.cards = CardBook(self.pods, self.node_objects, self.charges, self._sharing.cards, self.upsert_node)
        self.places = Places(self)
        self._payers = QueueAttribution(self.acceptances)
        self._on_change = on_change

    # Nodes

    def upsert_node(self, node: Node) -> None:
        """A node appeared or changed."""
        facts = self.storage.limit(node_facts(node))
        name = facts.name
        if self.cards.unsure(facts):
            facts = replace(facts, unsure=True)
        known = self.node_objects.get(name)
        self.node_objects[name] = (node, facts)
        if known is not None and known[1] == facts:
            return
        if known is not None and known[1].uid != facts.uid:
            self._drop_node(name)
        self.nodes.upsert(facts)
        self.charges.node_appeared(name)
        self.cards.node_changed(facts)
        if known is None:
            self._look_again(self.storage.claimants.placeless())
        self._on_change()

    def remove_node(self, name: str) -> None:
        """A node is gone, its columns with it; the pods on it are charged until they go too."""
        if self.node_objects.pop(name, None) is not None:
            self._drop_node(name)
            self._look_again(self.storage.claimants.placeless())
            self._on_change()

    def _drop_node(self, name: str) -> None:
        self.charges.node_gone(name)
        self.nodes.remove(name)
        self.reservations.node_gone(name)

    # Namespaces

    def _namespace_changed(self, name: str) -> None:
        """Labels or annotations of a namespace changed, which queues and rules about pods select by."""
        self.neighbourhood.namespace_changed(name)
        self.permissions.changed()
        self._on_change()

    def _owner_changed(self, uid: str) -> None:
        """An object that makes pods appeared, or asks for something else."""
        gangs = [gang for below in self.owners.controllers(uid) for gang in self.gangs_of_owner(below)]
        if uid in self.clocks.by_job:
            self.feed.jobs.note(uid)
        for gang in gangs:
            gang.changes += 1
            self.feed.gangs.note(gang)
        self.membership.doubt_strangers()
        if gangs:
            self._on_change()

    def _departed(self, record: PodRecord) -> None:
        """A pod ended, or is about to: another of its owner may take its place."""
        if record.owner is None or not self.departures:
            return
        root = self.owners.root_uid(record.owner)
        if root in self.departures:
            self.departures[root] += 1
            self._on_change()

    def judge_again(self, root: str) -> None:
        """More was accepted with the root owner of that UID: pods of it that were refused may be covered by that."""
        for uid in self.owners.controllers(root):
            for gang in self.gangs_of_owner(uid):
                if gang.unpermitted is not None or any(pod.unpermitted for pod in gang.members.values()):
                    gang.judged = (0, 0)
                    self._on_change()

    # Volumes

    def _limits_changed(self, name: str | None) -> None:
        """What storage drivers can attach changed on this node, or on all of them."""
        for concerned in list(self.node_objects) if name is None else [name]:
            if concerned in self.node_objects:
                self.upsert_node(self.node_objects[concerned][0])

    def _look_again(self, records: Iterable[PodRecord]) -> None:
        """What the claims of these pods mean may have changed."""
        for record in records:
            if record.assumed or record.pod_class is None:
                continue
            meaning = self.storage.claimants.meaning(record, self.nodes.__contains__)
            pod_class = self._sharing.intern(meaning.on(record.pod_class))
            if (pod_class, meaning.reasons, meaning.unbound) != (record.pod_class, record.unbound, record.to_bind):
                record.pod_class, record.unbound, record.to_bind = pod_class, meaning.reasons, meaning.unbound
                self._gang_changed(record.gang)
                self._on_change()

    # Pods

    def upsert_pod(self, pod: Pod) -> None:
        """A pod appeared or changed. Where it is bound is what the API server says, whoever bound it."""
        uid = pod.metadata.uid
        known = self.pods.get(uid)
        record = known or self._new_pod(pod)
        was = (record.phase, record.node, record.deleting)
        opened = record.gates
        expected = bool(record.assumed)
        relabelled = known is not None and self._relabel(record, pod.metadata.labels)
        record.phase = intern(pod.status.phase or "Pending")
        record.deleting = pod.metadata.deletion_timestamp is not None
        record.orphaned = record.owner is not None and pod.metadata.controller is None
        self._claim(record, pod.metadata.controller)
        record.started = nanoseconds(pod.status.start_time or "")
        limit_text = (pod.metadata.annotations or NOTHING).get(names.TIME_LIMIT_ANNOTATION, "")
        if limit_text != record.limit_text:
            record.limit_text = intern(limit_text)
            self._gang_changed(record.gang)
        record.active_deadline = pod.spec.active_deadline_seconds
        record.evicted = record.evicted or pod.disruption not in OTHERS
        if pod.spec.node_name and not record.node:
            record.node = intern(pod.spec.node_name)
            if record.assumed and record.assumed != record.node:
                log.warning("bound elsewhere", pod=record.key, assumed=record.assumed, bound=record.node)
            record.assumed = ""
            self.reservations.drop_place(uid)
            if record.outside is not None:
                self.membership.doubt(record.outside)
            if known is not None and record.ours and not expected:
                place = self.places.seen_bound(record, record.node)
                if place is not None:
                    self.put_back(record, place)
        if record.finished and record.ours:
            record.ended = nanoseconds(pod.status.ended_at)
        if record.phase == "Failed" and was[0] != "Failed" and record.ours:
            ending = pod.status.ending
            record.ending = ending.how + ending.last_words
        if record.phase == "Failed" and was[0] != "Failed" and known is not None and record.ours:
            self.avoided.note(record, pod.status.reason, pod.status.message)
        if was[1] and was[0] not in FINISHED and not was[2] and not record.holds and record.phase != "Succeeded":
            self.refills.lost(record)
        if record.evicted and record.deleting and record.gang is not None:
            self._displaced(record.gang)
        record.gates = gates(pod) if record.ours and not record.node else ()
        if record.node and record.gang is not None and not record.gang.uid:
            self._recall_queue(record.gang, self.places.on(uid, record.node))
        freed = self._recharge(record, pod.metadata.annotations or NOTHING)
        if record.claims and (known is None or was != (record.phase, record.node, record.deleting)):
            self._look_again(self.storage.claimants.sharing(record))
        self.neighbourhood.seen(record)
        self.counts.pod(record)
        if known is None or was != (record.phase, record.node, record.deleting) or opened != record.gates:
            self._gang_changed(record.gang)
            if record.finished or record.deleting:
                self._departed(record)
        elif relabelled and record.gang is not None:
            self._job_changed(record.gang)  # what was edited may not count, and that is told
        # That a decision came true, or that a pod runs, lets nothing start: the loop sleeps on.
        # That one is leaving may: it does not count any more where pods are spread evenly. So may another label.
        moves = (relabelled or (record.deleting and not was[2])) and bool(self.neighbourhood)
        if freed or moves or opened != record.gates or (record.node and not was[1] and not expected):
            self._on_change()

    def _relabel(self, record: PodRecord, labels: dict[str, str] | None) -> bool:
        """Take the labels that a pod has now, which rules about pods select by; whether they changed.

        What was recorded at first sight stays: its group, its queue, and the terms of its own rules, into which the API
        server writes labels (`matchLabelKeys`) when it creates a pod.
        """
        if (labels or NOTHING) == record.labels:
            return False
        record.labels = self._sharing.labels(labels)
        self.take_role(record)
        return True

    def take_role(self, record: PodRecord) -> None:
        """The role of a pod without a place is what its label says now, as a scheduler that starts finds it; one that
        has a place, or for which one was chosen, keeps the role in which it got it (`places.py`).
        """
        role = record.labels.get(names.ROLE_LABEL, "")
        if record.node or record.assumed or record.role == role:
            return
        record.role = role
        if record.gang is not None:
            self._gang_changed(record.gang)
            self._on_change()

    def remove_pod(self, uid: str) -> None:
        """A pod is gone and holds nothing any more."""
        record = self.pods.pop(uid, None)
        if record is None:
            return
        if self._pods_by_name.get((record.namespace, record.name)) == uid:
            del self._pods_by_name[record.namespace, record.name]
        self.neighbourhood.gone(uid)
        self.counts.pod_gone(record)
        if record.holds:
            self.refills.lost(record)
        self._release(record)
        self.cards.gone(record)
        self.reservations.drop_place(uid)
        gang = record.gang
        self._resting.discard(record)
        self._departed(record)
        self.membership.left(record)
        if record.owner is not None and (there := self.put_there.get(record.owner.uid)) is not None:
            there.pop(uid, None)
            if not there:
                del self.put_there[record.owner.uid]
        if gang is not None:
            del gang.members[uid]
            self._gang_changed(gang)
            if not gang.members and (gang.virtual or not gang.uid):
                self._forget_gang(gang)
        if record.claims:
            self.storage.claimants.remove(record)
            self._look_again(self.storage.claimants.sharing(record))
        self._on_change()

    def _new_pod(self, pod: Pod) -> PodRecord:
        meta = pod.metadata
        stale = self._pods_by_name.get((meta.namespace, meta.name))
        if stale is not None:  # its deletion was missed: the name is in use by another pod now
            self.remove_pod(stale)
        labels = self._sharing.labels(meta.labels)
        ours = pod.spec.scheduler_name == names.SCHEDULER_NAME
        if ours and pod.put_there:
            ours = False  # it bypasses us: it takes room like any other scheduler's, and is no member of its group
            if pod.status.phase not in FINISHED:
                self.feed.bypassing.add((meta.namespace, meta.name, meta.uid, pod.spec.node_name))
            if meta.controller is not None:
                self.put_there.setdefault(meta.controller.uid, {})[meta.uid] = pod.spec.node_name
        record = PodRecord(
            uid=meta.uid,
            namespace=intern(meta.namespace),
            name=meta.name,
            ours=ours,
            pod_class=None,
            role=labels.get(names.ROLE_LABEL, ""),
            created=nanoseconds(meta.creation_timestamp),
            owner=self._owner(meta) if ours else meta.controller,
            claims=claim_names(meta.name, pod.spec),
            system=(pod.spec.priority or 0) >= SYSTEM_PRIORITY,
            labels=labels,
        )
        self.pods[meta.uid] = record
        self._pods_by_name[record.namespace, meta.name] = meta.uid
        meaning = None
        if record.claims:
            self.storage.claimants.add(record)
            meaning = self.storage.claimants.meaning(record, self.nodes.__contains__)
            record.unbound, record.to_bind = meaning.reasons, meaning.unbound
        try:
            own, record.template = self._sharing.meaning_of(pod.spec, meta.namespace, labels)
            record.pod_class = self._sharing.intern(meaning.on(own)) if meaning else own
        except (QuantityError, Invalid) as error:
            record.unbound += (Reason(Code.INVALID_POD, f"pod {record.key} cannot be read: {error}"),)
        if ours:
            self._join(record, pod.spec.node_name or "")
        return record

    def _owner(self, meta: Metadata) -> OwnerReference | None:
        """The controller of a pod or a group. One that was accepted as a job of its own has none, whatever was written
        into it since: else its job would be gone, and it would count as a part of another.
        """
        agreed = self.acceptances.get(meta.uid)
        return None if agreed is not None and agreed.by_itself else meta.controller

    def _claim(self, record: PodRecord, controller: OwnerReference | None) -> None:
        """A controller is written into a pod that has none, or no longer."""
        claimed_by = controller.title if controller is not None and record.owner is None else ""
        if record.claimed_by != claimed_by:
            record.claimed_by = claimed_by
            self._gang_changed(record.gang)

    def _free(self, uid: str) -> None:
        """A pod or a group turns out to have been accepted as a job of its own: it has no controller."""
        gang, record = self.gangs_by_uid.get(uid), self.pods.get(uid)
        if gang is not None and gang.owner is not None:
            self._job_changed(gang)  # the job that it seemed to be a part of
            self._disown(gang)
            if not gang.virtual:
                gang.claimed_by = gang.owner.title
            gang.owner = None
            self._gang_changed(gang)
        if record is not None and record.ours and record.owner is not None:
            claimed_by = None if record.orphaned else record.owner
            record.owner, record.orphaned = None, False
            self._claim(record, claimed_by)

    def _recharge(self, record: PodRecord, annotations: Mapping[str, str]) -> bool:
        """Bring the pod's charge in line with where it is; whether room may have become free."""
        if record.pod_class is None:
            return False
        if record.finished or (record.deleting and not record.node):
            record.assumed = ""
            self.take_role(record)
            waited = record in self._resting
            waited |= self.reservations.drop_place(record.uid)  # its gang waited for it
            self._resting.discard(record)
            return self._release(record) or waited
        if record.node:
            known, queue = self.charges.get(record.uid), record.gang.queue if record.gang else ""
            if not record.ours:
                cards = self.cards.told(record, annotations)
                if known is not None and known.node == record.node and not cards:
                    return False
                self.charges.charge(record.uid, record.node, record.pod_class, queue, cards)
                return known is not None
            new = known is None or known.node != record.node
            if new:
                self.cards.charge(record, annotations, queue)
                if record.gang is not None:
                    self.feed.queues.note(record.gang.queue)
            self.cards.look(record, annotations)
            return new and known is not None
        return False

    def _release(self, record: PodRecord) -> bool:
        """Take the pod's charge back; whether it had one. Cards that were in use are told to history."""
        charge = self.charges.release(record.uid)
        if charge is None:
            return False
        self.cards.released(record, charge)
        if (charge.cards or charge.pod_class.cards) and record.node and record.gang is not None:
            self.feed.ended.add((record.gang, record))
        return True

    # Groups

    def upsert_group(self, group: PodGroupObject) -> None:
        """A PodGroup appeared or changed. What was accepted by its UID stays as it was accepted."""
        meta = group.metadata
        key = (meta.namespace, meta.name)
        gang = self.gangs.get(key)
        if gang is None:
            gang = self.gangs[key] = GangRecord(meta.namespace, meta.name)
        before = gang.terms()
        if gang.uid != meta.uid:
            self._job_changed(gang)  # the job it was before: of another object, or of none yet
            if gang.uid:
                _note_places(gang)
                gang.kept = self._paying(gang)
                self._drop_reservations(gang)
            self.gangs_by_uid.pop(gang.uid, None)
            self.deleted.discard(gang.uid)
            gang.uid, gang.acceptance = meta.uid, self.acceptances.get(meta.uid)
            # Later on this status is our own word: it must not bring back what we took back since.
            gang.scheduled = is_true(group.status, "GroupScheduled")
            evicted = true_condition(group.status, "Evicted")
            gang.evicted = (str(evicted.get("reason")), str(evicted.get("message"))) if evicted else None
            gang.ran = gang.scheduled and evicted is None
            gang.first_bound = gang.admitted = gang.fell = gang.nameless = 0
            gang.began_with = Minimum.on_record(gang.acceptance) if gang.ran else None
            gang.displaced = gang.noted = False
            gang.agreed, gang.judged, gang.turned_away, gang.unpermitted = "", (0, 0), None, None
            self.gangs_by_uid[meta.uid] = gang
        if meta.deletion_timestamp:
            self.deletion(meta.uid)
        gang.created = nanoseconds(meta.creation_timestamp)
        gang.levels = levels((meta.annotations or {}).get(names.TOPOLOGY_KEY_ANNOTATION, ""))
        gang.limit_text = (meta.annotations or {}).get(names.TIME_LIMIT_ANNOTATION, "")
        owner = self._owner(meta)
        claimed_by = meta.controller.title if meta.controller is not None and owner is None else ""
        if gang.claimed_by != claimed_by:
            gang.claimed_by = claimed_by
            self._gang_changed(gang)
        if gang.owner != owner:
            self._job_changed(gang)  # the job that it was, or was a part of
            self._disown(gang)
            gang.owner = owner
        if gang.owner is not None:
            self._by_owner[gang.owner.uid][gang] = None
        gang.status = group.status
        try:
            gang.spec, gang.spec_faults = PodGroupSpec.parse(group.spec), ""
        except Invalid as error:
            gang.spec_faults = str(error)
        if gang.terms() != before:  # else it is our own word about it, which lets nothing start
            self.membership.doubt(gang)
            self._gang_changed(gang)
            self.settle_bill(gang)
            self._on_change()

    def remove_group(self, group: PodGroupObject) -> None:
        """A PodGroup is gone; members that are left wait for it to appear again."""
        gang = self.gangs.get((group.metadata.namespace, group.metadata.name))
        if gang is None or gang.uid != group.metadata.uid:
            return
        self.gangs_by_uid.pop(gang.uid, None)
        self.deleted.discard(gang.uid)
        self._drop_reservations(gang)
        self._job_changed(gang)
        _note_places(gang)
        gang.kept = self._paying(gang)
        gang.uid, gang.acceptance = "", None
        self._gang_changed(gang)
        self.membership.sort(gang)  # nobody is a stranger to a group that is not there
        if not gang.members:
            self._forget_gang(gang)

    def settle_bill(self, gang: GangRecord) -> None:
        """What members hold is paid by the group's queue, which may be known later than they are."""
        for uid in gang.members:
            self.charges.pay(uid, gang.queue)
        self._count(gang)
        self.feed.queues.note(gang.queue)
        self._job_changed(gang)

    def _paying(self, gang: GangRecord) -> str:
        """The queue that pays for what members hold; empty if they hold nothing."""
        return next((charge.queue for uid in gang.members if (charge := self.charges.get(uid))), "")

    def _keep_queue(self, gang: GangRecord, queue: str) -> None:
        """The row of a placed member names the queue that pays, and nothing was agreed with the PodGroup itself."""
        if gang.uid and gang.acceptance is None and gang.kept != queue:
            gang.kept = queue
            self._gang_changed(gang)
            self.settle_bill(gang)

    def give_up_kept_queue(self, gang: GangRecord) -> None:
        """A PodGroup without members that were placed before it was made is in its own queue."""
        if gang.kept and gang.acceptance is None and not self._paying(gang):
            gang.kept, gang.stale = "", True
            self.settle_bill(gang)

    def _recall_queue(self, gang: GangRecord, place: Place | None) -> None:
        """A member holds a place, and the PodGroup is gone or not seen yet."""
        queue = place.queue if place is not None else self._payers.of(gang)
        if queue is not None and queue != gang.kept:
            gang.kept = queue
            self.settle_bill(gang)

    def _join(self, record: PodRecord, node: str) -> None:
        """A pod, bound to the node if there is one, becomes a member of its group, or the only one of its own."""
        group = record.labels.get(names.GROUP_LABEL, "")
        agreed = self.acceptances.get(record.uid)
        place = self.places.seen_bound(record, node) if node else None
        if place is not None:
            group, record.role = place.group, intern(place.role)  # its labels may have been edited since
        elif agreed is not None and agreed.kind == "Pod":
            group = agreed.group_name or ""
        if group:
            key = (record.namespace, group)
            gang = self.gangs.get(key)
            if gang is None:
                gang = self.gangs[key] = GangRecord(record.namespace, group)
            self.membership.join(record, gang, placed=bool(node))
            if place is not None:
                self._keep_queue(gang, place.queue)
        else:
            self.join_none(record, place.queue if place is not None else "")
        self._on_change()

    def put_back(self, record: PodRecord, place: Place) -> None:
        """A bound pod that was sorted by its labels goes to the group, the role and the queue that are on record."""
        gang = record.gang
        if gang is None:
            return
        at_home = gang.virtual and not (place.group or (gang.acceptance is None and gang.queue != place.queue))
        if (at_home if gang.virtual else gang.name == place.group) and record.role == place.role:
            if not gang.virtual and gang.uid:
                self._keep_queue(gang, place.queue)
            elif not gang.virtual:
                self._recall_queue(gang, place)
            return
        if gang.virtual:
            self.leave_none(record)
        else:
            record.gang = None
            del gang.members[record.uid]
            self._gang_changed(gang)
            if not gang.members and not gang.uid:
                self._forget_gang(gang)
        self._join(record, record.node)
        if record.gang is not None and not record.gang.uid:
            self._recall_queue(record.gang, place)

    def join_none(self, record: PodRecord, queue: str = "") -> GangRecord:
        """The virtual group of a pod that names no PodGroup, or one that it may not join; of its label's queue, or of
        that which is on record.
        """
        job = self.jobs.get(record.owner.uid) if record.owner else None
        spec = alone(queue or record.labels.get(names.QUEUE_LABEL, ""), job.priority if job else 0)
        gang = GangRecord(
            record.namespace, record.name, record.uid, True, spec, created=record.created, owner=record.owner
        )
        gang.acceptance = self.acceptances.get(record.uid)
        self.gangs["", record.uid] = gang
        self.gangs_by_uid[record.uid] = gang
        gang.members[record.uid] = record
        record.gang = gang
        if gang.owner is not None:
            self._by_owner[gang.owner.uid][gang] = None
        self.member_changed(record, gang)
        return gang

    def leave_none(self, record: PodRecord) -> None:
        """The pod joins the group that it names: its virtual group is no more."""
        gang, record.gang = record.gang, None
        if gang is not None:
            gang.members.clear()
            self._forget_gang(gang)

    def member_changed(self, record: PodRecord, gang: GangRecord) -> None:
        """The pod joined the group, or left it without having gone."""
        if record.gang is None:
            self.counts.pod_gone(record)
            self.reservations.drop_place(record.uid)
        else:
            self.counts.pod(record)
            self.charges.pay(record.uid, record.gang.queue)
        self._gang_changed(gang)
        self._on_change()

    def _forget_gang(self, gang: GangRecord) -> None:
        self.gangs.pop(("", gang.uid) if gang.virtual else (gang.namespace, gang.name), None)
        self.gangs_by_uid.pop(gang.uid, None)
        self._pending.pop(gang, None)
        self._partial.pop(gang, None)
        self._unsettled.discard(gang)
        self.begun.discard(gang)
        self.counts.group_gone(gang)
        self.waiting_jobs.forget(gang)
        self._disown(gang)
        self._drop_reservations(gang)
        self.feed.queues.note(gang.queue)
        self._job_changed(gang)

    def _disown(self, gang: GangRecord) -> None:
        """The group is not of its owner any more, or is no more itself."""
        if gang.owner is None:
            return
        self._by_owner[gang.owner.uid].pop(gang, None)
        if not self._by_owner[gang.owner.uid]:
            del self._by_owner[gang.owner.uid]
            if gang.owner.uid not in self.jobs:
                self.deleted.discard(gang.owner.uid)

    def _drop_reservations(self, gang: GangRecord) -> None:
        """No room is kept for this group any more."""
        self.reservations.gang_gone(gang.uid)
        if gang.lost:
            self.refills.forget(gang)
            self._on_change()

    def _displaced(self, gang: GangRecord) -> None:
        """A member's place was taken away on purpose; `settle` sees whether that leaves the group whole."""
        if not gang.displaced:
            gang.displaced = True
            self._gang_changed(gang)

    def _gang_changed(self, gang: GangRecord | None) -> None:
        if gang is None:
            return
        gang.stale = True
        gang.changes += 1
        self._unsettled.add(gang)
        self._count(gang)
        self.feed.gangs.note(gang)
        self.feed.queues.note(gang.queue)
        self._job_changed(gang)

    def _count(self, gang: GangRecord) -> None:
        """Count the group in its queue; where it left one, that one's status changes too."""
        if (left := self.counts.group(gang)) is not None:
            self.feed.queues.note(left)
        if gang.queue not in self.queues:
            self.unknown_queues.add(gang.queue)

    def _job_changed(self, gang: GangRecord) -> None:
        if uid := gang.owner.uid if gang.owner else gang.uid:
            self.feed.jobs.note(uid)
        else:
            self.feed.nameless.note(gang.key)

    def settle(self) -> None:
        """Look once at every group that changed: does it run, does it wait. A thousand events cost one look."""
        self.membership.settle()
        changed, self._unsettled = self._unsettled, OrderedSet()
        for gang in changed:
            if gang.virtual:
                self._settle_single(gang)
                continue
            if not gang.ran and gang.uid and gang.complete(bound=True) and not self.clocks.leaving(gang):
                gang.ran = gang.scheduled = True
                least = max(gang.spec.min_member, sum(least for _, least in gang.spec.roles))
                gang.began_with = Minimum(least, gang.spec.roles)
                self.begun.add(gang)
                gang.evicted = None
            elif not gang.ran and gang.uid and (running := _inherited_running(gang)):
                gang.ran, gang.began_with = True, running
                self.begun.add(gang)
            if gang.uid and gang.unnoted and gang.placed_count():
                self._unaccepted.add(gang)
            whole = gang.complete()
            if whole:
                gang.fell, gang.displaced = 0, False
            if not whole and gang.uid and any(pod.holds for pod in gang.members.values()):
                self._partial[gang] = None
            else:
                self._partial.pop(gang, None)
            if not gang.placed_count():
                gang.first_bound = 0  # what it gets next is another start
            self._settle_waiting(gang, waits=any(pod.waiting for pod in gang.members.values()))

    def _settle_single(self, gang: GangRecord) -> None:
        pod = next(iter(gang.members.values()), None)
        if pod is not None and pod.placed and not pod.deleting:
            gang.ran = gang.ran or not pod.assumed
            gang.fell = 0
            if gang.unnoted:
                self._unaccepted.add(gang)
        self._settle_waiting(gang, waits=pod is not None and pod.waiting)

    def _settle_waiting(self, gang: GangRecord, *, waits: bool) -> None:
        """Whether a member of the group waits for a place."""
        self.waiting_jobs.update(gang, waits=waits)
        if waits:
            self._pending[gang] = None
        else:
            self._pending.pop(gang, None)
            gang.reasons, gang.position = (), None

    @property
    def pending(self) -> dict[GangRecord, None]:
        """Groups with members that wait for a place, as of now."""
        self.settle()
        return self._pending

    @property
    def partial(self) -> list[GangRecord]:
        """Groups of which some members hold places, but not the minimum, as of now."""
        self.settle()
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

    # Queues and jobs

    def set_queues(self, queues: Iterable[Queue]) -> None:
        """The queues as SQL has them now."""
        fresh = {queue.name: queue for queue in queues}
        if fresh == self.queues:
            return
        for name in (name for name in {**self.queues, **fresh} if fresh.get(name) != self.queues.get(name)):
            self.feed.queues.note(name)
        self.queues = fresh
        self.permissions.changed()
        self._on_change()

    def upsert_job(self, job: JobRecord) -> None:
        """A job's object appeared or changed; its groups are found by their owner."""
        known = self.jobs.get(job.uid)
        self.jobs[job.uid] = job
        if not job.wants_pods and self.refills.of_job(job.uid):
            self._on_change()
        if known is None:
            for gang in self.gangs_of_owner(job.uid):
                if gang.virtual and gang.spec.priority != job.priority:
                    gang.spec = replace(gang.spec, priority=job.priority)
                    self._gang_changed(gang)
        elif (known.limit_text, known.phase) != (job.limit_text, job.phase):
            for gang in self.gangs_of_owner(job.uid):
                self._gang_changed(gang)  # it may be paused, or resume with another time limit
            self._on_change()
        self.feed.jobs.note(job.uid)

    def remove_job(self, uid: str) -> None:
        """A job's object is gone."""
        self.remove_owner(uid)
        known = self.jobs.pop(uid, None)
        if known is not None:
            if self.refills.of_job(uid):
                self._on_change()
            if known.phase in FINISHED:
                self.deleted.discard(uid)  # it ended before: its pods say how
            self.feed.jobs.note(uid)

    def remove_owner(self, uid: str) -> None:
        """An object that made pods is gone; its pods, if any are left, end."""
        if uid in self.clocks.by_job:
            self.feed.jobs.note(uid)  # it may be a job without pods, which a limit stopped
        self.owners.remove(uid)
        self.deleted.discard(uid)
        if uid in self._by_owner:
            self.deletion(uid)

    def deletion(self, uid: str) -> None:
        """The object of that UID is being deleted, or its pods outlive it."""
        if uid not in self.deleted:
            self.deleted.add(uid)
            self.feed.jobs.note(uid)


def _note_places(gang: GangRecord) -> None:
    """The PodGroup goes: members that have places got them in it, so far as nothing else is known."""
    for pod in gang.members.values():
        if (pod.node or pod.assumed) and not pod.placed_in:
            pod.placed_in = job_of(gang)


def _inherited_running(gang: GangRecord) -> Minimum | None:
    """The members that run, or have succeeded, and got their places in an earlier group of the name; none that counts
    once places of the group were taken away on purpose.
    """
    if gang.displaced and not gang.complete():
        return None
    run = [pod for pod in gang.members.values() if pod.phase in ("Running", "Succeeded")]
    roles = Counter(pod.role for pod in run if gang.inherited(pod) and not (pod.evicted or pod.deleting))
    return Minimum(roles.total(), tuple(sorted(roles.items()))) if roles else None
