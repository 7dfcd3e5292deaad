"""Events of pods: where each is, what it holds, and whether its room came free."""

from collections.abc import Mapping
from sys import intern
from typing import TYPE_CHECKING

import structlog

from t9ksched.kube.write.eviction import OTHERS
from t9ksched.model import names
from t9ksched.model.duration import LONGEST_SECONDS
from t9ksched.model.errors import Invalid
from t9ksched.model.pod import OwnerReference, Pod
from t9ksched.model.quantity import QuantityError
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.validators import OPERATOR_NAMESPACES
from t9ksched.scheduler.state.asks import asks_of
from t9ksched.scheduler.state.objects import nanoseconds
from t9ksched.scheduler.state.pod_blockers import gates
from t9ksched.scheduler.state.records import FINISHED, PodRecord, job_of
from t9ksched.scheduler.state.sharing import NOTHING
from t9ksched.scheduler.state.volumes.claims import claim_names

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

log = structlog.get_logger(__name__)

SYSTEM_PRIORITY = 2_000_000_000
"""Value of the class system-cluster-critical; such pods are exempt from limits on how long they run."""


class PodEvents:
    """Takes in what the watches bring of pods. Events may come twice or late without harm.

    Each event that could let a gang start calls `on_change` of the state: an idle cluster costs nothing.
    """

    def __init__(self, state: "ClusterState") -> None:
        self._state = state

    def upsert(self, pod: Pod) -> None:
        """A pod appeared or changed. Its node is the one that the API server shows, whichever scheduler bound it."""
        state, meta, spec, status = self._state, pod.metadata, pod.spec, pod.status
        uid = meta.uid
        known = state.pods.get(uid)
        record = known or self._new(pod)
        if meta.namespace in OPERATOR_NAMESPACES:
            state.node_events.validated(pod)
        was = (record.phase, record.node, record.deleting)
        opened = record.gates
        expected = bool(record.assumed)
        relabelled = (meta.labels or NOTHING) != record.labels
        if relabelled:
            self._relabel(record, meta.labels)
        record.phase = intern(status.phase or "Pending")
        record.deleting = meta.deletion_timestamp is not None
        controller = meta.controller
        record.orphaned = record.owner is not None and controller is None
        if controller is not None or record.controller:
            self._claim(record, controller)
        started = nanoseconds(status.start_time) if status.start_time else 0
        if started != record.started and record.gang is not None and state.enforced_ends is not None:
            state.feed.gangs.note(record.gang)  # its limits may count from then
        record.started = started
        annotations = meta.annotations or NOTHING
        if known is None and uid not in state.acceptances:
            state.announced.note(uid, annotations)
        asks = asks_of(annotations)
        if asks != record.asks:
            sooner = asks.about_starts != record.asks.about_starts
            record.asks = asks
            if asks.array:
                state.arrays.note(uid)
            state.changes.gang_changed(record.gang)
            if sooner and record.ours:
                state.wake()
        deadline = spec.active_deadline_seconds
        if deadline is not None:
            deadline = min(deadline, LONGEST_SECONDS)
        if deadline != record.active_deadline:
            record.active_deadline = deadline
            state.changes.gang_changed(record.gang)
            if known is not None:
                state.wake()  # it may end sooner than was planned with
        if (grace := spec.grace) is not None and grace != record.grace:
            record.grace = grace
            state.longest_grace = max(state.longest_grace, grace)
            if record.gang is not None:
                state.admission_pass.doubt(record.gang)
        record.evicted = record.evicted or pod.disruption not in OTHERS
        if spec.node_name and not record.node:
            record.node = intern(spec.node_name)
            if record.assumed and record.assumed != record.node:
                log.warning("bound elsewhere", pod=record.key, assumed=record.assumed, bound=record.node)
            record.assumed = ""
            state.reservations.drop_place(uid)
            if record.outside is not None:
                state.membership.doubt(record.outside)
            if known is not None and record.ours and not expected:
                place = state.places.seen_bound(record, record.node)
                if place is not None:
                    state.joining.put_back(record, place)
        record.hindrance = status.hindrance if record.node and record.ours else None
        finished = record.finished
        if finished and record.ours:
            record.ended = nanoseconds(status.ended_at)
        if record.phase == "Failed" and was[0] != "Failed" and record.ours:
            ending = status.ending
            record.ending = ending.how + ending.last_words
            if known is not None:
                state.node_backoff.note(record, status.reason, status.message)
        if was[1] and was[0] not in FINISHED and not was[2] and not record.holds and record.phase != "Succeeded":
            state.refills.lost(record)
        if record.evicted and record.deleting and record.gang is not None:
            state.changes.displaced(record.gang)
        waits = record.ours and not record.node
        record.gates = gates(pod, state._sharing.unplaceable(record.template)) if waits else ()
        if record.node and record.gang is not None and not record.gang.uid:
            state.group_events.recall_queue(record.gang, state.places.on(uid, record.node))
        freed = self._recharge(record, annotations)
        changed = was != (record.phase, record.node, record.deleting)
        if record.claims and (known is None or changed):
            state.node_events.look_again(state.storage.claimants.seen(record))
        state.affinity_index.seen(record)
        state.counts.pod(record)
        if changed or opened != record.gates:
            if known is not None:  # that a new one joined its group is told already
                state.changes.gang_changed(record.gang)
            if finished or record.deleting:
                self.departed(record)
        elif relabelled and record.gang is not None:
            state.changes.job_changed(record.gang)  # edits may have no effect, which is reported
        # That a decision was carried out, or that a pod runs, lets no gang start: the loop is not woken.
        # That one is leaving may: it does not count any more where pods are spread evenly. So may another label.
        moves = (relabelled or (record.deleting and not was[2])) and bool(state.affinity_index)
        # A member that does not count any more may, too: its gang's waiting members are planned without it.
        going = (record.deleting and not was[2]) or (finished and was[0] not in FINISHED)
        counts_not = going and record.gang in state._pending
        if freed or moves or counts_not or opened != record.gates or (record.node and not was[1] and not expected):
            state.wake()

    def _relabel(self, record: PodRecord, labels: dict[str, str] | None) -> None:
        """Take the labels that a pod has now, which rules about pods select by.

        The terms of its own rules stay those of when it was first seen: the API server writes labels into them
        (`matchLabelKeys`) when it creates a pod.
        """
        record.labels = self._state._sharing.labels(labels)
        if record.gang is not None:
            self._state.budgets.has_other_labels(record.gang.uid)
        self.take_role(record)
        self._state.joining.follow(record)

    def take_role(self, record: PodRecord) -> None:
        """The role of a pod without a place is what its label says now, as a scheduler that starts finds it; one that
        has a place, or for which one was chosen, keeps the role in which it got it (`places.py`).
        """
        role = record.labels.get(names.ROLE_LABEL, "")
        if record.node or record.assumed or record.role == role or (record.gang is not None and record.gang.foreign):
            return
        record.role = role
        if record.gang is not None:
            self._state.changes.gang_changed(record.gang)
            self._state.wake()

    def remove(self, uid: str) -> None:
        """A pod is gone and holds nothing any more."""
        record = self._state.pods.pop(uid, None)
        if record is None:
            return
        self._state.node_events.validator_gone(uid)
        self._state.dependencies.gone(uid, record.phase)
        self._state.foreign.gone(uid)
        self._state.named_groups.gone(uid)
        if self._state._pods_by_name.get((record.namespace, record.name)) == uid:
            del self._state._pods_by_name[record.namespace, record.name]
        self._state.affinity_index.gone(uid)
        self._state.counts.pod_gone(record)
        if record.holds:
            self._state.refills.lost(record)
        self._release(record)
        self._state.cards.gone(record)
        self._state.reservations.drop_place(uid)
        gang = record.gang
        self._state._resting.discard(record)
        self.departed(record)
        self._state.membership.left(record)
        if record.owner is not None and (there := self._state.put_there.get(record.owner.uid)) is not None:
            there.pop(uid, None)
            if not there:
                del self._state.put_there[record.owner.uid]
        if gang is not None:
            if self._state.feed.left.followed and (job := job_of(gang)):
                self._state.feed.left.add((job, gang, record))
            del gang.members[uid]
            self._state.changes.gang_changed(gang)
            if not gang.members and (gang.virtual or not gang.uid):
                self._state.group_events.forget(gang)
            if gang.foreign:
                self._state.named_groups.ended(gang)
        if record.claims:
            self._state.node_events.look_again(self._state.storage.claimants.remove(record))
        self._state.wake()

    def _new(self, pod: Pod) -> PodRecord:
        meta = pod.metadata
        stale = self._state._pods_by_name.get((meta.namespace, meta.name))
        if stale is not None:  # its deletion was missed: the name is in use by another pod now
            self.remove(stale)
        labels = self._state._sharing.labels(meta.labels)
        ours = pod.spec.scheduler_name == names.SCHEDULER_NAME
        if ours and pod.put_there:
            ours = False  # not scheduled here: it only takes room, and is no member of its group
            if pod.status.phase not in FINISHED:
                self._state.feed.bypassing.add((meta.namespace, meta.name, meta.uid, pod.spec.node_name))
            if meta.controller is not None:
                self._state.put_there.setdefault(meta.controller.uid, {})[meta.uid] = pod.spec.node_name
        record = PodRecord(
            uid=meta.uid,
            namespace=intern(meta.namespace),
            name=meta.name,
            ours=ours,
            pod_class=None,
            role=labels.get(names.ROLE_LABEL, ""),
            created=nanoseconds(meta.creation_timestamp),
            owner=self._state.group_events.owner_of(meta) if ours else meta.controller,
            claims=claim_names(meta.name, pod.spec),
            system=(pod.spec.priority or 0) >= SYSTEM_PRIORITY,
            labels=labels,
        )
        self._state.pods[meta.uid] = record
        self._state._pods_by_name[record.namespace, meta.name] = meta.uid
        meaning = None
        if record.claims:
            self._state.node_events.look_again(self._state.storage.claimants.seen(record))
            meaning = self._state.storage.claimants.meaning(record)
            meaning.note(record)
        try:
            own, record.template = self._state._sharing.meaning_of(
                pod.spec, meta.namespace, labels, meta.annotations or NOTHING, ours=ours
            )
            record.pod_class = self._state._sharing.intern(meaning.on(own)) if meaning else own
        except (QuantityError, Invalid) as error:
            record.unbound += (Reason(Code.INVALID_POD, f"pod {record.key} cannot be read: {error}"),)
        if ours and record.pod_class is not None:
            self._state.usual.arrived(record.pod_class)
        if ours:
            self._state.named_groups.read(pod)
            self._state.joining.join(record, pod.spec.node_name or "")
        self._state.foreign.arrived(meta.uid)
        return record

    def _claim(self, record: PodRecord, controller: OwnerReference | None) -> None:
        """A controller reference was written into a pod, or removed: an event reports it; on a pod that had none it has
        no effect.
        """
        title = intern(controller.title) if controller is not None else ""
        if record.controller != title:
            record.controller = title
            if record.owner is None:
                self._state.changes.gang_changed(record.gang)

    def _recharge(self, record: PodRecord, annotations: Mapping[str, str]) -> bool:
        """Bring the pod's charge in line with where it is; whether room may have become free."""
        if record.pod_class is None:
            return False
        if record.finished or (record.deleting and not record.node):
            record.assumed = ""
            self.take_role(record)
            self._state.joining.follow(record)
            waited = record in self._state._resting
            waited |= self._state.reservations.drop_place(record.uid)  # its gang waited for it
            self._state._resting.discard(record)
            return self._release(record) or waited
        if record.node:
            known = self._state.charges.get(record.uid)
            if not record.ours:
                queue = record.gang.queue if record.gang else ""
                cards = self._state.cards.announced(record, annotations)
                if known is not None and known.node == record.node and not cards:
                    self._state.cards.foreign(record)
                    return False
                self._state.charges.charge(record.uid, record.node, record.pod_class, queue, cards)
                self._state.cards.foreign(record)
                return known is not None
            new = known is None or known.node != record.node
            if new:
                queue = record.gang.queue if record.gang is not None else ""
                self._state.cards.charge(record, annotations, queue)
                if record.gang is not None:
                    self._state.feed.queues.note(queue)
            self._state.cards.look(record, annotations)
            return new and known is not None
        return False

    def _release(self, record: PodRecord) -> bool:
        """Take the pod's charge back; whether it had one. Cards that were in use are recorded in history, and that a
        member of a gang succeeded: once its object is gone, nothing else tells that it was not lost.
        """
        charge = self._state.charges.release(record.uid)
        if charge is None:
            return False
        self._state.cards.released(record, charge)
        record.worth = charge.worth
        told = charge.worth or charge.cards or charge.pod_class.cards or record.did_its_part
        if told and record.node and record.gang is not None:
            self._state.feed.ended.add((record.gang, record))
        return True

    def departed(self, record: PodRecord) -> None:
        """A pod ended, or is about to, or does not belong to its owner: another pod of the owner may take its place."""
        if record.gang is not None and record.gang.owner is not None:
            self._state.refills.changed(record.gang.owner.uid)  # it may have been the last pod of the job that ran
        if record.owner is None or not self._state.departures:
            return
        root = self._state.owners.root_uid(record.owner)
        if root in self._state.departures:
            self._state.departures[root] += 1
            self._state.admission_pass.doubt_owned(root)
            self._state.wake()
