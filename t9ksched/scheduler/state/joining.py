"""Which group a pod is a member of: the one that it names, the one on record for a bound pod, or one of its own."""

from sys import intern
from typing import TYPE_CHECKING

from t9ksched.model import names
from t9ksched.scheduler.state.places import Place
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.sharing import alone

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class Joining:
    """Makes pods members of groups, and takes them out again."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state

    def join(self, record: PodRecord, node: str) -> None:
        """A pod, bound to the node if there is one, becomes a member of its group, or the only one of its own."""
        group = self._named(record)
        place = self._state.places.seen_bound(record, node) if node else None
        if place is not None:
            group, record.role = place.group, intern(place.role)  # its labels may have been edited since
        if not record.labels.get(names.GROUP_LABEL):
            made, role = self._state.foreign.place(record)  # also of a pod whose group is on record: it must be there
            if made and not group:
                group, record.role = made, intern(role)
        if group:
            key = (record.namespace, group)
            gang = self._state.gangs.get(key)
            if gang is None:
                gang = self._state.gangs[key] = GangRecord(record.namespace, group)
            self._state.membership.join(record, gang, placed=bool(node))
            if place is not None:
                self._state.group_events.keep_queue(gang, record, place.queue)
        else:
            self.join_none(record, place.queue if place is not None else "")
        self._state.wake()

    def _named(self, record: PodRecord) -> str:
        """The group that was agreed with the pod, else the one that its label names; empty for none."""
        agreed = self._state.acceptances.get(record.uid)
        if agreed is not None and agreed.kind == "Pod":
            return agreed.group_name or ""
        return record.labels.get(names.GROUP_LABEL, "")

    def follow(self, record: PodRecord) -> None:
        """A pod without a place with which nothing was agreed is in the group, or the queue, that its labels name now,
        as a scheduler that starts finds it. One that has a place keeps both (`places.py`).
        """
        if not record.ours or record.node or record.assumed:
            return
        here = record.outside or record.gang
        if here is not None and not self._belongs(record, here):
            self._state.foreign.gone(record.uid)
            self._state.membership.left(record)
            record.accepted, record.unpermitted = False, ()  # that was about its former group
            self.join_anew(record)
            if here.foreign:
                self._state.named_groups.ended(here)
            self._state.take_role(record)
        gang = record.gang
        queue = record.labels.get(names.QUEUE_LABEL) or names.DEFAULT_QUEUE
        if gang is not None and gang.virtual and gang.spec.queue != queue:
            gang.spec = alone(queue, gang.spec.priority)
            self._state.changes.gang_changed(gang)
            self._state.settle_bill(gang)
            self._state.wake()

    def _belongs(self, record: PodRecord, gang: GangRecord) -> bool:
        """Whether this is the group that the pod names; of one that names none, whether it is none of ours."""
        if group := self._named(record):
            return not gang.virtual and gang.name == group
        return gang.virtual or bool(gang.foreign and not record.labels.get(names.GROUP_LABEL))

    def put_back(self, record: PodRecord, place: Place) -> None:
        """A bound pod that was sorted by its labels goes to the group, the role and the queue that are on record."""
        gang = record.gang
        if gang is None:
            return
        at_home = gang.virtual and not (place.group or (gang.acceptance is None and gang.queue != place.queue))
        if (at_home if gang.virtual else gang.name == place.group) and record.role == place.role:
            if not gang.virtual and gang.uid:
                self._state.group_events.keep_queue(gang, record, place.queue)
            elif not gang.virtual:
                self._state.group_events.recall_queue(gang, place)
            return
        if gang.virtual:
            self.leave_none(record)
        else:
            record.gang = None
            del gang.members[record.uid]
            self._state.changes.gang_changed(gang)
            if not gang.members and not gang.uid:
                self._state.group_events.forget(gang)
        self.join(record, record.node)
        if record.gang is not None and not record.gang.uid:
            self._state.group_events.recall_queue(record.gang, place)

    def join_anew(self, record: PodRecord) -> None:
        """A pod without a place leaves its group and joins the one that it belongs to now."""
        gang = record.gang
        if gang is not None and gang.virtual:
            self.leave_none(record)
        elif gang is not None:
            record.gang = None
            del gang.members[record.uid]
            self.member_changed(record, gang)
            if not gang.members and not gang.uid:
                self._state.group_events.forget(gang)
        self.join(record, record.node)

    def join_none(self, record: PodRecord, queue: str = "") -> GangRecord:
        """The virtual group of a pod that names no PodGroup, or one that it may not join; of its label's queue, or of
        that which is on record.
        """
        job = self._state.jobs.get(record.owner.uid) if record.owner else None
        spec = alone(queue or record.labels.get(names.QUEUE_LABEL, ""), job.priority if job else 0)
        owner = record.owner and self._state.foreign.top(record.owner)
        gang = GangRecord(record.namespace, record.name, record.uid, True, spec, created=record.created, owner=owner)
        gang.acceptance = self._state.acceptances.get(record.uid)
        self._state.gangs["", record.uid] = gang
        self._state.gangs_by_uid[record.uid] = gang
        gang.members[record.uid] = record
        record.gang = gang
        if gang.owner is not None:
            self._state._by_owner[gang.owner.uid][gang] = None
        self.member_changed(record, gang)
        return gang

    def leave_none(self, record: PodRecord) -> None:
        """The pod joins the group that it names: its virtual group is removed."""
        gang, record.gang = record.gang, None
        if gang is not None:
            gang.members.clear()
            self._state.group_events.forget(gang)

    def member_changed(self, record: PodRecord, gang: GangRecord) -> None:
        """The pod joined the group, or left it without being deleted."""
        if record.gang is None:
            self._state.counts.pod_gone(record)
            self._state.reservations.drop_place(record.uid)
        else:
            self._state.counts.pod(record)
            self._state.charges.pay(record.uid, record.gang.queue)
        self._state.changes.gang_changed(gang)
        self._state.wake()
