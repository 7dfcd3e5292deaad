"""Events of PodGroups, and the queue that is charged for their members."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from t9ksched.model import names
from t9ksched.model.errors import Invalid
from t9ksched.model.pod import Metadata, OwnerReference
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.scheduler.state.asks import asks_of
from t9ksched.scheduler.state.minimum import Minimum
from t9ksched.scheduler.state.objects import PodGroupObject, check_levels, is_true, levels, nanoseconds, true_condition
from t9ksched.scheduler.state.places import Place
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class GroupEvents:
    """Takes in what the watches bring of PodGroups. Events may come twice or late without harm."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state

    def upsert(self, group: PodGroupObject) -> None:
        """A PodGroup appeared or changed. The acceptance of its UID stays as it is."""
        meta = group.metadata
        key = (meta.namespace, meta.name)
        gang = self._state.gangs.get(key)
        if gang is None:
            gang = self._state.gangs[key] = GangRecord(meta.namespace, meta.name)
        elif gang.uid == meta.uid:
            self._state.changes.note_run(gang)  # with the spec that it has had until now
        before = gang.terms()
        if gang.uid != meta.uid:
            self._state.changes.job_changed(gang)  # the job it was before: of another object, or of none yet
            if gang.uid:
                _note_places(gang)
                gang.kept = self._paying(gang)
                self.drop_reservations(gang)
            self._state.gangs_by_uid.pop(gang.uid, None)
            self._state.deleted.discard(gang.uid)
            gang.uid, gang.acceptance = meta.uid, self._state.acceptances.get(meta.uid)
            self._state.feed.held_otherwise(gang)
            # Later on the scheduler itself writes this status: it must not restore what was withdrawn since.
            gang.scheduled = is_true(group.status, "GroupScheduled")
            evicted = true_condition(group.status, "Evicted")
            gang.evicted = (str(evicted.get("reason")), str(evicted.get("message"))) if evicted else None
            gang.began_with = Minimum.on_record(gang.acceptance) if evicted is None else None
            gang.scheduled = gang.scheduled or gang.began_with is not None
            gang.ran = gang.scheduled and evicted is None
            gang.first_bound = gang.admitted = gang.fell = gang.nameless = gang.gone_since = 0
            gang.former = ("", 0)
            gang.displaced = gang.noted = False
            gang.own_status = None
            gang.agreed, gang.judged, gang.turned_away, gang.unpermitted = "", (0, 0), None, None
            self._state.gangs_by_uid[meta.uid] = gang
        if meta.deletion_timestamp:
            self._state.job_events.deletion(meta.uid)
        if meta.uid not in self._state.acceptances:
            self._state.announced.note(meta.uid, meta.annotations)
        gang.created = nanoseconds(meta.creation_timestamp)
        domains = (meta.annotations or {}).get(names.TOPOLOGY_KEY_ANNOTATION, "")
        gang.levels = levels(domains)
        gang.asks = asks_of(meta.annotations)
        if gang.asks.array:
            self._state.arrays.note(meta.uid)
        owner = self.owner_of(meta)
        claimed_by = meta.controller.title if meta.controller is not None and owner is None else ""
        if gang.claimed_by != claimed_by:
            gang.claimed_by = claimed_by
            self._state.changes.gang_changed(gang)
        if gang.owner != owner:
            self._state.changes.job_changed(gang)  # the job that it was, or was a part of
            self.disown(gang)
            gang.owner = owner
        if gang.evicted is not None:
            self._state.clocks.lost(job_of(gang))
        if gang.owner is not None:
            self._state._by_owner[gang.owner.uid][gang] = None
        gang.status = group.status
        if gang.own_status is not None and group.status != gang.own_status:
            self._state.feed.gangs.note(gang)  # written by another: it is put right
        try:
            gang.spec, gang.spec_faults = PodGroupSpec.parse(group.spec), ""
            check_levels(domains)
        except Invalid as error:
            gang.spec_faults = str(error)
        if gang.terms() != before:  # else the scheduler wrote it itself, which lets no gang start
            self.settle_agreement(gang)
            self._state.changes.gang_changed(gang)
            self.settle_bill(gang)
            self._state.wake()

    def remove(self, group: PodGroupObject) -> None:
        """A PodGroup is gone; members that are left wait for it to appear again."""
        gang = self._state.gangs.get((group.metadata.namespace, group.metadata.name))
        if gang is None or gang.uid != group.metadata.uid:
            return
        if self._state.feed.left.followed:  # as it is now: it may go on without a PodGroup
            self._state.feed.left.add((job_of(gang), replace(gang, members=dict(gang.members)), None))
        self._state.gangs_by_uid.pop(gang.uid, None)
        self._state.deleted.discard(gang.uid)
        self._state.clocks.forget(gang.uid)
        self.drop_reservations(gang)
        self._state.changes.job_changed(gang)
        _note_places(gang)
        gang.kept = self._paying(gang)
        if self._state.enforced_ends is not None and (end := self._state.enforced_ends.end_of(gang)) is not None:
            gang.former, gang.gone_since = (gang.uid, end), 0
        gang.uid, gang.acceptance = "", None
        if gang.kept:
            gang.agreed = ""  # what members hold is paid by the queue that has paid until now
        self._state.changes.gang_changed(gang)
        self._state.membership.sort(gang)  # every pod may name a group that does not exist
        if not gang.members:
            self.forget(gang)

    def settle_bill(self, gang: GangRecord) -> None:
        """Charge the members to the group's queue, which may be known later than they are; pods that may use that queue
        may join the group.
        """
        for uid in gang.members:
            self._state.charges.pay(uid, gang.queue)
        self._state.changes.count(gang)
        self._state.feed.queues.note(gang.queue)
        self._state.changes.job_changed(gang)
        self._state.admission_pass.doubt(gang)
        if not gang.virtual:
            self._state.membership.doubt(gang)

    def _paying(self, gang: GangRecord) -> str:
        """The queue that is charged for the members; empty if they hold nothing."""
        return next((charge.queue for uid in gang.members if (charge := self._state.charges.get(uid))), "")

    def keep_queue(self, gang: GangRecord, pod: PodRecord, queue: str) -> None:
        """The row of a placed member names the queue to charge: the PodGroup itself has no acceptance, or the member
        got its place in an earlier one.
        """
        if gang.uid and gang.kept != queue and (gang.acceptance is None or gang.inherited(pod)):
            gang.kept = queue
            self.settle_agreement(gang, pod)
            self._state.changes.gang_changed(gang)
            self.settle_bill(gang)

    def settle_agreement(self, gang: GangRecord, bound: PodRecord | None = None) -> bool:
        """What is on record by the UID of a PodGroup counts, unless it names another queue than the one that pays for
        members placed before the PodGroup was made: then the PodGroup is accepted anew, in the queue that pays, or is
        without an acceptance until none of these members has its place. `bound` is a member whose place its record does
        not tell yet. Whether that changed anything.
        """
        recorded = self._state.acceptances.get(gang.uid)
        if not gang.kept or gang.virtual or gang.owner is not None or recorded is None:
            return False
        counts = gang.acceptance or recorded
        if counts.queue and counts.queue != gang.kept and any(map(gang.inherited, _placed(gang, bound))):
            changed, gang.acceptance = gang.acceptance is not None or bool(gang.agreed), None
            gang.agreed = ""
        else:
            changed, gang.acceptance = gang.acceptance is None, counts
        self._state.feed.held_otherwise(gang)
        return changed

    def give_up_kept_queue(self, gang: GangRecord) -> None:
        """A PodGroup without members that were placed before it was made is in its own queue."""
        if gang.kept and gang.acceptance is None and not self._paying(gang):
            gang.kept, gang.stale = "", True
            self._state.feed.held_otherwise(gang)
            self.settle_bill(gang)

    def recall_queue(self, gang: GangRecord, place: Place | None) -> None:
        """A member holds a place, and the PodGroup is gone or not seen yet."""
        queue = place.queue if place is not None else self._state._queue_attribution.of(gang)
        if queue is not None and queue != gang.kept:
            gang.kept = queue
            self.settle_bill(gang)

    def owner_of(self, meta: Metadata) -> OwnerReference | None:
        """The controller of a pod or a group. One that was accepted as a job of its own has none, whatever was written
        into it since: else its job would be gone, and it would count as a part of another.
        """
        agreed = self._state.acceptances.get(meta.uid)
        return None if agreed is not None and agreed.by_itself else meta.controller

    def free(self, uid: str) -> None:
        """A pod or a group turns out to have been accepted as a job of its own: it has no controller."""
        gang, record = self._state.gangs_by_uid.get(uid), self._state.pods.get(uid)
        if gang is not None and gang.owner is not None:
            self._state.changes.job_changed(gang)  # the job that it seemed to be a part of
            self.disown(gang)
            if not gang.virtual:
                gang.claimed_by = gang.owner.title
            gang.owner = None
            self._state.changes.gang_changed(gang)
        if record is not None and record.ours and record.owner is not None:
            if not (record.finished or record.deleting):
                self._state.pod_events.departed(record)
            record.owner, record.orphaned = None, False
            self._state.changes.gang_changed(record.gang)

    def disown(self, gang: GangRecord) -> None:
        """The group does not belong to its owner any more, or does not exist any more."""
        if gang.owner is None:
            return
        self._state._by_owner[gang.owner.uid].pop(gang, None)
        if not self._state._by_owner[gang.owner.uid]:
            del self._state._by_owner[gang.owner.uid]
            if gang.owner.uid not in self._state.jobs:
                self._state.deleted.discard(gang.owner.uid)

    def forget(self, gang: GangRecord) -> None:
        self._state.gangs.pop(("", gang.uid) if gang.virtual else (gang.namespace, gang.name), None)
        self._state.gangs_by_uid.pop(gang.uid, None)
        self._state.changes.moved(gang)
        self._state._pending.pop(gang, None)
        self._state.waiting_gangs.note(gang)
        self._state._partial.pop(gang, None)
        self._state._unsettled.pop(gang, None)
        self._state.begun.discard(gang)
        self._state.counts.group_gone(gang)
        self._state.waiting_jobs.forget(gang)
        self.disown(gang)
        self.drop_reservations(gang)
        self._state.feed.queues.note(gang.queue)
        self._state.changes.job_changed(gang)

    def drop_reservations(self, gang: GangRecord) -> None:
        """No room is kept for this group any more."""
        self._state.reservations.gang_gone(gang.uid)
        if gang.lost:
            self._state.refills.forget(gang)
            self._state.wake()


def _note_places(gang: GangRecord) -> None:
    """The PodGroup goes: members that have places got them in it, so far as nothing else is known."""
    for pod in gang.members.values():
        if (pod.node or pod.assumed) and not pod.placed_in:
            pod.placed_in = job_of(gang)


def _placed(gang: GangRecord, bound: PodRecord | None) -> Iterator[PodRecord]:
    """Members that hold places, those that are about to leave included, and the one that is bound."""
    return (pod for pod in gang.members.values() if (pod.node or pod.assumed or pod is bound) and not pod.finished)
