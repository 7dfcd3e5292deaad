"""What a view must hold of a `World`: who is in it, who is not and why, what is promised, and when to look again."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from t9ksched.engine.explain import queue_closed
from t9ksched.engine.planner import Assignment
from t9ksched.engine.view import View
from t9ksched.model.names import START_AFTER_ANNOTATION
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.limits import control_of, limit_agreed, limit_asked
from t9ksched.scheduler.state.objects import nanoseconds, timestamp
from t9ksched.scheduler.state.preemption_backoff import PreemptionBackoff
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.arrays import read_element
from t9ksched.workloads.registry import ENDLESS_KINDS
from tests.property.stateobjects import REFUSED, SECOND

NAMING = 3 * SECOND


class Views:
    """Follows the views of one scheduler: `before` and `after` each.

    Attributes:
        rests: until when a refused pod rests and how often it was refused, by UID.
        backoff: until when a job may not preempt; it is told what the state's own is told.
        avoided: until when a job avoids a node.
        turned: pods that their nodes turned away, not taken up yet.
    """

    def __init__(self, world: Any) -> None:
        self.world = world
        self.state = world.state
        feed = self.state.feed
        self._new_said, self._new_gangs, self._new_agreed = (
            feed.said.follow(),
            feed.gangs.follow(),
            feed.acceptances.follow(),
        )
        self._ever_agreed: set[str] = set()
        self.rests: dict[str, tuple[int, int]] = {}
        self.backoff = PreemptionBackoff()
        self.avoided: dict[tuple[str, str], int] = {}
        self.turned: list[tuple[GangRecord, str, str, str]] = []
        self.holds: dict[str, Reservation] = {}
        """Places that are kept for members whose binding was refused, by UID."""
        self._nodes: dict[str, str] = {}
        self._acceptances: dict[str, Acceptance] = {}
        self._since: dict[tuple[GangRecord, str], int] = {}
        """Since when it has not been known whose a group is."""
        self._strangers: dict[str, int] = {}
        self._fresh: set[GangRecord] = set()
        self._reasons: dict[GangRecord, Any] = {}
        self._ends: list[int] = []
        self._present: set[str] = set()
        """UIDs of the gangs in the view."""

    # What happens

    def refused(self, record: PodRecord, now: int) -> None:
        count = self.rests.get(record.uid, (0, 0))[1]
        self.rests[record.uid] = now + SECOND * 2 ** min(count, 6), count + 1
        assert record.gang is not None
        self.backoff.refused(record.gang, now)

    def kept(self, one: Assignment, charge: Charge | None, now: int, *, keep: bool) -> None:
        """Whether the place of a refused member is kept: for a minute, while others of its group have theirs."""
        record = self.state.pods[one.pod]
        gang = record.gang
        assert gang is not None
        assert charge is not None
        assert gang.reasons == (REFUSED,)
        assert gang.placed_count() or not gang.first_bound
        if keep and gang.placed_count():
            cards = charge.cards
            until = now + 60 * SECOND
            self.holds[one.pod] = Reservation(
                gang.uid, one.node, charge.pod_class, ReservationKind.BINDING, cards, since=now, until=until
            )

    def swept(self, now: int) -> int:
        """How many of the kept places are over."""
        over = [uid for uid, hold in self.holds.items() if hold.until <= now]
        for uid in over:
            del self.holds[uid]
        return len(over)

    def places(self) -> None:
        """A kept place ends with its use, its pod, its group and its node."""
        world, state = self.world, self.state
        nodes = {name: raw["metadata"]["uid"] for name, raw in world.nodes.items()}
        for uid, hold in list(self.holds.items()):
            pod = state.pods.get(uid)
            used = pod is None or not pod.waiting or pod.gang is None or pod.gang.uid != hold.owner
            lost = nodes.get(hold.node) != self._nodes.get(hold.node, nodes.get(hold.node))
            if used or lost or hold.node not in nodes or hold.owner in world.back:
                del self.holds[uid]
        self._nodes = nodes
        assert state.reservations.refused == self.holds

    def taken(self, now: int, told: Any) -> None:
        """Pods that their nodes turned away were taken up."""
        assert [(one.gang, one.pod, one.node, one.why) for one in told] == self.turned
        for gang, _, node, _ in self.turned:
            self.avoided[job_of(gang), node] = now + 120 * SECOND
            self.backoff.refused(gang, now)
        self.turned = []

    def before(self, now: int) -> None:
        state = self.state
        state.settle()
        self._new_said.take()
        self._new_gangs.take()
        self._acceptances = dict(state.acceptances)
        # What has places is accepted first, as it runs.
        self._fresh = {gang for gang in state._pending if gang.acceptance is None and not gang.placed_count()}
        self._reasons = {gang: gang.reasons for gang in state._pending}
        self._shown(now)

    def _shown(self, now: int) -> None:
        """Pods that may not join the groups they name become jobs of their own, those without a submitter after a
        while."""
        self._ends = []
        known = {}
        for gang in self.state.gangs.values():
            for pod in self.state.membership.strangers(gang):
                if pod.gang is None and pod.waiting and pod.unpermitted[0].code == Code.SUBMITTER_UNKNOWN:
                    since = self._strangers.get(pod.uid, now)
                    if now < since + NAMING:
                        known[pod.uid] = since
                        self._ends.append(since + NAMING)
        self._strangers = known

    # What must be

    def after(self, view: View, now: int) -> None:
        state = self.state
        for gang in state.gangs.values():
            for pod in state.membership.strangers(gang):
                assert (pod.gang is None) == (pod.uid in self._strangers) or not pod.waiting
        self.avoided = {key: end for key, end in self.avoided.items() if end > now}
        self._ends += [end for uid, (end, _) in self.rests.items() if self._rests(uid, now)]
        self._ends += self.avoided.values()
        present = {gang.uid: gang for gang in view.gangs}
        assert len(present) == len(view.gangs)
        self._present = set(present)
        said, self._news = self._new_said.take(), self._new_gangs.take()
        self._ever_agreed |= {one.uid for one in self._new_agreed.take()}
        pending = list(state._pending)
        for gang in pending:
            made = present.pop(gang.uid, None) if gang.uid else None
            self._one(gang, made, now, said)
        assert present.keys() == {
            gang.uid for gang in state.refills.keeping() if gang not in state._pending and gang.lost
        }, "who does not wait is shown only while room is kept for it"
        assert set(said) <= set(pending)
        self._rest_of(view, {gang.uid for gang in pending})
        self._ends += [end for end in (state.refills.next_end(),) if end is not None]
        self._ends += [end for _, end in self.world.promises.values()]
        self._ends += [since + 5 * SECOND for since in self.world.idle.values()]
        assert state.next_retry() == min(self._ends, default=None)

    def _rests(self, uid: str, now: int) -> bool:
        record = self.state.pods.get(uid)
        return record is not None and record.waiting and now < self.rests.get(uid, (0, 0))[0]

    def _one(self, gang: GangRecord, made: Any, now: int, said: list[GangRecord]) -> None:
        state = self.state
        if any(self._rests(uid, now) for uid in gang.members):
            assert made is None, "a refused member rests"
            return
        assert gang.control == control_of(state, gang)
        why = self._why_not(gang, now)
        if why == "later":
            assert made is None
            assert gang.reasons == self._reasons.get(gang, ())
            return
        if isinstance(why, Reason):
            assert made is None, why
            assert gang.reasons == (why,)
            news = self._reasons.get(gang, ()) != (why,)
            assert (gang in said) == news
            assert not news or (gang.position is None and (gang.virtual or gang in self._news))
            return
        assert gang not in said or gang.asked.array, "its turn may come in the pass in which it was refused"
        mine = {node for (job, node), end in self.avoided.items() if job == job_of(gang) and end > now}
        assert gang.avoid == mine
        evicts_from = self.backoff.until(gang, now)
        assert gang.evicts_from == evicts_from
        if evicts_from:
            self._ends.append(evicts_from)
        outage = state.outage
        assert gang.unrecorded == (outage.unread or (outage.since is not None and not gang.in_part()))
        assert made is not None
        assert made.evicts_from == evicts_from
        assert made.created == max(gang.created, self._asked(gang))

    def _why_not(self, gang: GangRecord, now: int) -> Reason | str | None:
        """Why a group is not in the view; `later` when that is not said yet."""
        state = self.state
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
        if state.outage.unread and (reason := state.outage.refusal(gang)) is not None:
            return reason
        if (gang in self._fresh or gang.acceptance is None) and (over := self._too_many(gang)) is not None:
            return over
        if (verdict := self._permitted(gang, now)) is not None:
            return verdict
        late = state.clocks.refusal(gang, limit_asked(state, gang), gang.control, now)
        if late is not None:
            clock = state.clocks.of(gang)
            if clock is not None and clock.run.retry_at > now:
                self._ends.append(clock.run.retry_at)
            return late
        queue = state.queues.get(gang.queue)
        if queue is not None and queue.draining and not self._started(gang):
            return queue_closed(queue.name, draining=True)
        if queue is not None:
            self._accepted(gang, queue, now)
        if gang.acceptance is None:  # a group before it in this view may have been the first of its owner
            assert gang.agreed in {self._agreed(gang, known) for known in (self._acceptances, state.acceptances)}
        at = self._asked(gang)
        begun = [gang, *(state.gangs_of_owner(gang.owner.uid) if gang.owner else ())]
        if at > now and not gang.lost and not any(one.placed_count() for one in begun):
            self._ends.append(at)
            message = f"it is not to start before {timestamp(at)}"
            unblocks = ("that time comes", f"its annotation {START_AFTER_ANNOTATION} is changed")
            return Reason(Code.START_TIME_NOT_REACHED, message, unblocks=unblocks)
        return state.outage.refusal(gang) or self._among_elements(gang)

    def _among_elements(self, gang: GangRecord) -> Reason | None:
        """Its array is full if so many others of it and of its submitter run or are in the view."""
        element = read_element(gang.asked.array) if gang.asked.array else None
        if element is None or element.most is None:
            return None
        state, runs, comes = self.state, set[str](), set[str]()
        whose = state.permissions.submitter(gang)
        for one in state.gangs.values():
            array = state.arrays.known.get(job_of(one))
            if array == (gang.namespace, element.array) and state.permissions.submitter(one) == whose:
                if one.lost or any(pod.assumed or (pod.node and not pod.finished) for pod in one.members.values()):
                    runs.add(job_of(one))
                elif one.uid in self._present:
                    comes.add(job_of(one))
        mine = job_of(gang)
        if gang.uid in self._present:
            assert mine in runs or len(runs) < element.most
            return None
        assert mine not in runs | comes
        assert len(runs | comes) >= element.most
        assert gang.reasons[0].code == Code.ARRAY_LIMIT
        return gang.reasons[0]

    def _asked(self, gang: GangRecord) -> int:
        """The latest moment that is asked for and can be read; a job of ours has its own."""
        job, root = self.state.jobs.get(job_of(gang)), self.state.owners.root(gang).owner
        others = [one.asks.start for one in (job, root, gang, *gang.members.values()) if one is not None]
        texts = [job.asks.start] if job is not None and job.kind != "Job" else others
        return max((nanoseconds(text) for text in texts if text.startswith("2")), default=0)

    def _too_many(self, gang: GangRecord) -> Reason | None:
        """Beyond the limits on jobs that wait, which are not looked at here."""
        reasons = gang.reasons
        return reasons[0] if reasons and reasons[0].code == Code.RATE_LIMITED else None

    def _permitted(self, gang: GangRecord, now: int) -> Reason | str | None:
        reason, owners = gang.unpermitted, self.state.owners
        key = (gang, gang.uid)
        if reason is None:
            fresh = gang in self._fresh or gang.acceptance is None
            unknown = fresh and gang.owner is not None and owners.awaited(gang)
        else:
            certain = owners.root(gang).certain
            unknown = reason.code == Code.SUBMITTER_UNKNOWN or (reason.refused and not certain)
        if unknown:
            since = self._since.setdefault(key, now)
            if now < since + NAMING:
                self._ends.append(since + NAMING)
                return "later"
        if reason is None:
            self._since.pop(key, None)
        return reason

    def _agreed(self, gang: GangRecord, acceptances: Mapping[str, Acceptance]) -> str:
        """The queue of its root owner, unless that is of a kind that may move to another."""
        record = acceptances.get(self.state.owners.root(gang).uid)
        if record is None or record.namespace != gang.namespace or record.kind in ENDLESS_KINDS:
            return ""
        return record.queue or ""

    def _accepted(self, gang: GangRecord, queue: Queue, now: int) -> None:
        """Who comes so far is accepted with what it asks for, unless the queue is closed or others are awaited."""
        state, own = self.state, gang.acceptance
        if gang not in self._fresh or state.outage.unread:
            return
        root = state.owners.root(gang)
        record = self._acceptances.get(root.uid)
        agreed = record if record is not None and record.queue and record.namespace == gang.namespace else None
        if own is None:
            wanted = root.owner is not None and root.owner.wanted is not None
            awaited = queue.spec.quota and not (wanted or gang.placed_count() or gang.gathered())
            assert agreed is None, "what was agreed with its owner lets it in"
            assert queue.spec.closed or awaited
            return
        if gang.uid in self._acceptances:
            return  # it was recorded elsewhere
        assert gang.uid in self._ever_agreed, "what is accepted is written"
        access = state.permissions.access(gang, queue)
        theirs = agreed is not None and agreed.queue == queue.name and gang.owner is not None
        asked = {agreed.priority if agreed is not None and theirs else gang.spec.priority}
        if agreed is None and gang.owner is not None:  # the first group of an owner is accepted for the others, too
            asked |= {other.priority for other in self._accepted_with(gang)}
        kind = ("Pod", None, None) if gang.virtual else ("PodGroup", gang.uid, gang.name)
        assert (own.kind, own.group_uid, own.group_name) == kind
        assert (own.uid, own.namespace, own.name) == (gang.uid, gang.namespace, gang.name)
        assert (own.queue, own.permitted_by) == (queue.name, access.rule)
        assert own.priority in {min(one, access.max_priority) for one in asked}
        named = self._named(gang)
        assert own.submitter == (named.submitter if named else None)
        assert own.groups == (list(named.groups) if named else [])
        assert own.time_limit == limit_agreed(state, gang, queue)
        assert own.accepted_at.timestamp() * 1e9 == now
        assert all(pod.accepted for pod in gang.members.values() if pod.waiting and not pod.unpermitted)
        if root.certain or root.kind != "ReplicaSet":
            now_on_record = state.acceptances.get(root.uid)
            assert now_on_record is not None
            assert now_on_record.replicas is not None

    def _accepted_with(self, gang: GangRecord) -> list[Acceptance]:
        """What was agreed with other groups of the same root and queue, in this view or before the root was known."""
        root_uid = self.state.owners.root_uid
        return [
            own
            for one in self.state.gangs.values()
            if one.owner is not None and gang.owner is not None and root_uid(one.owner) == root_uid(gang.owner)
            if one is not gang and (own := one.acceptance) is not None and own.queue == gang.queue
            if own.uid not in self._acceptances or root_uid(gang.owner) not in self._acceptances
        ]

    def _named(self, gang: GangRecord) -> Acceptance | None:
        """The record that says who submitted a group, as it stood before the view."""
        owner = gang.owner
        those = [gang.uid] if owner is None else [self.state.owners.root_uid(owner), owner.uid, gang.uid]
        found = [self._acceptances[one] for one in those if one in self._acceptances]
        named = next((one for one in found if one.submitter), None)
        return named if named is not None and named.namespace == gang.namespace else None

    def _started(self, gang: GangRecord) -> bool:
        """Whether it or another group of its root owner has had a place."""
        state = self.state
        if gang.ran or gang.placed_count():
            return True
        if gang.owner is None:
            return False
        root = state.owners.root_uid(gang.owner)
        record = state.acceptances.get(root)
        if record is not None and record.queue and record.namespace == gang.namespace and record.started_at is not None:
            return True
        others = [one for one in state.gangs.values() if one.owner and state.owners.root_uid(one.owner) == root]
        return any(pod.node and not pod.finished and not pod.deleting for one in others for pod in one.members.values())

    def _rest_of(self, view: View, waiting: set[str]) -> None:
        """Queues, holds, neighbours."""
        state, world = self.state, self.world
        assert view.queues.keys() == state.queues.keys()
        for name, shown in view.queues.items():
            queue = state.queues[name]
            assert (shown.spec, shown.draining) == (queue.spec, queue.draining)
            assert shown.used == state.charges.queue_used.get(name, {})
        world.promises = {owner: those for owner, those in world.promises.items() if owner in waiting}
        assert state.reservations.promised_to == world.promises.keys()
        promised = Counter((owner, node) for owner, (nodes, _) in world.promises.items() for node in nodes)
        assert Counter((hold.owner, hold.node) for hold in view.reservations if hold.kind == "victims") == promised
        others = [hold for hold in view.reservations if hold.kind != "victims"]
        assert others == [*state.reservations.refused.values(), *state.refills.reservations]
        assert bool(view.neighbours) <= bool(state.affinity_index)
        if state.affinity_index:
            assert view.neighbours == state.affinity_index.present()
            assert view.namespaces == state.namespaces.labels
        for gang in view.gangs:
            for one in gang.waiting:
                labels = tuple(sorted(state.pods[one.uid].labels.items())) if state.affinity_index else ()
                assert one.labels == labels
