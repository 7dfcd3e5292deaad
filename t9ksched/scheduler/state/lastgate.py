"""The last gate: the admission rules of REST, applied to everything that reached the scheduler in another way.

What is accepted is the root owner of pods (a Job, a Deployment, a PodGroup made by hand), by its UID: so many pods,
with so many resources in total. Its replacement pods are accepted even if new work is refused; pods beyond that are
judged as new work, and count from then on if they are accepted. A refusal lasts until its queue, the queue's members or
the pods change: so with `overQuota: Reject` an owner is judged once, whatever room comes free, and pods of an accepted
one wait. It is not on record: a scheduler that starts judges what was refused anew.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import structs

from t9ksched.admission import judge
from t9ksched.admission.access import Access
from t9ksched.admission.verdict import OVER_QUOTA, Verdict
from t9ksched.model.quantity import CARDS
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.state.asks import asks_nothing
from t9ksched.scheduler.state.held import HeldByOwners
from t9ksched.scheduler.state.limits import limit_agreed
from t9ksched.scheduler.state.new_work import NewWork, decides, gathers, needs_of, taking
from t9ksched.scheduler.state.objects import natural
from t9ksched.scheduler.state.owner_records import (
    NO_TEMPLATE,
    Held,
    began,
    covers,
    group_record,
    inside,
    moment,
    own_amounts,
    owner_record,
    requested,
)
from t9ksched.scheduler.state.owners import Root
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.refusals import refused, unknown, withdrawn
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.registry import ENDLESS_KINDS

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_A_JUDGEMENT: Final = 20
_A_LOOK: Final = 4
_AN_ACCEPTANCE: Final = 5
"""Units of work of asking the rules, or of looking at a group with members or owners; of finding that a single pod is
as one that was allowed; and of accepting it."""
_ALLOWED: Final = 256
"""So many judgements are kept; each keeps its template alive."""


class LastGate:
    """Applies the admission rules to waiting groups, and keeps what was accepted of each root owner."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._held = HeldByOwners(state)
        self._allowed: dict[tuple[object, ...], tuple[object, ...]] = {}
        """What was judged and allowed lately, as far as that decides: jobs that are alike are judged once. Queues and
        templates are part of the keys by identity, and kept.
        """
        self._found: tuple[GangRecord, tuple[int, int], Queue, Root, Access] | None = None
        """Root and access of the group without an owner that was judged last, of its queue and as of then."""
        self._unrefused: set[str] = set()
        """Roots that grew and of which nothing is refused, by UID; emptied by each refusal."""
        self.work = 0
        """Work done so far, in units of a check of a group with an earlier verdict."""

    def begin(self) -> None:
        """Start a new step of a pass over all waiting groups."""
        self._held.follow()

    def _settle_queue(self, gang: GangRecord) -> None:
        """A group of an owner that was accepted is in that owner's queue, unless its kind may move to another."""
        if gang.owner is None and gang.acceptance is None and not (gang.agreed or gang.kept):
            return  # nothing was agreed yet, as with each new pod
        self._state.give_up_kept_queue(gang)
        record = self.agreed(gang)
        agreed = record.queue or "" if record is not None and record.kind not in ENDLESS_KINDS else ""
        if gang.agreed != agreed:
            gang.agreed, gang.stale = agreed, True
            self._state.feed.held_otherwise(gang)
            self._state.settle_bill(gang)
            self._state.membership.sort(gang)

    def agreed(self, gang: GangRecord) -> Acceptance | None:
        """The acceptance of the group's root owner; of a PodGroup without one, its own."""
        if gang.owner is None and gang.acceptance is None:
            return None
        record = self._state.acceptances.get(self._state.owners.root(gang).uid)
        if record is None or not record.queue or record.namespace != gang.namespace:
            return None
        return record

    def started(self, gang: GangRecord) -> bool:
        """Whether the group or another one of its owner has had a place: a draining queue still places it."""
        if gang.ran or gang.placed_count():
            return True
        if gang.owner is None:
            return False
        record = self.agreed(gang)
        if record is not None and record.started_at is not None:
            return True
        return any(pod.node for pod in self._pods(self._state.owners.root(gang).uid, gang))

    def refusal(self, gang: GangRecord, now: int) -> Reason | None:
        """Why nothing of the group may start; None when it may. Single members that may not are marked."""
        departures = self._state.departures
        gone = departures.get(self._state.owners.root_uid(gang.owner), 0) if departures and gang.owner else 0
        key = (self._state.permissions.version, gang.changes + gone)
        if gang.judged == key:
            return gang.unpermitted
        self._settle_queue(gang)
        queue = self._state.queues.get(gang.queue)
        if queue is None:
            gang.unpermitted = None  # a verdict of another queue does not apply to this one
            return None
        gang.judged = key
        self.work += _A_LOOK if gang.virtual and gang.owner is None else _A_JUDGEMENT
        gang.unpermitted = self._look(gang, queue, now)
        if gang.unpermitted is not None:
            self._unrefused.clear()
        return gang.unpermitted

    def _look(self, gang: GangRecord, queue: Queue, now: int) -> Reason | None:
        state = self._state
        root, record = state.owners.root(gang), self.agreed(gang)
        access = state.permissions.access(gang, queue)
        if gang.owner is None:
            self._found = gang, gang.judged, queue, root, access
        runs = gang.owner is not None and access.allowed
        if record is None and (gang.acceptance is not None or (runs and self._held.any(root.uid))):
            record = self._adopt(gang, root, queue, now)
        moves = record is not None and record.queue != queue.name
        if record is None or moves:
            if gang.placed_count() or gang.ran:
                return unknown(access) or withdrawn(access)
            return self._new(gang, root, queue, access, now)
        if record.replicas is None:
            record = self._adopt(gang, root, queue, now) or record
        starting = gang.placed_count() and not (gang.ran or gang.displaced)
        if not starting and (reason := withdrawn(access)) is not None:
            return reason
        return self._members(gang, root, queue, record, now)

    def _members(self, gang: GangRecord, root: Root, queue: Queue, record: Acceptance, now: int) -> Reason | None:
        """Accept the members that were accepted with the owner, judge the others, and record the reason of each refused
        one.
        """
        waiting = [pod for pod in gang.members.values() if pod.waiting]
        fresh = sorted((pod for pod in waiting if not inside(pod)), key=lambda pod: natural(pod.name))
        reasons: dict[str, Reason] = {}
        held: Held | None = None
        together: bool | None = None
        grown = False
        for pod in fresh:
            reason: Reason | None = None
            held = held or self._held_by(root, gang, queue.name)
            if not covers(record, root, held, pod):
                if together is None:
                    together = self._together(gang, root, queue, held, fresh, now)
                by_itself = pod.uid in self._state.acceptances  # submitted into the group, and judged then
                reason = None if by_itself or together else self._more(gang, root, queue, held, pod, now)
                grown = grown or reason is None
            if reason is not None:
                reasons[pod.uid] = reason
                continue
            pod.accepted = True
            if gang.owner is None:
                held.add(pod.template or NO_TEMPLATE)
            else:
                self._held.add(gang, pod)
        for pod in waiting:
            reason = reasons.get(pod.uid)
            marked = () if reason is None or gang.virtual else (reason,)
            if pod.unpermitted != marked:
                pod.unpermitted, gang.stale = marked, True
        if grown:
            self._record(gang, root, queue.name, now, held)
            self._judge_again(root)
        first = next(iter(reasons.values()), None)
        if first is not None:
            self._unrefused.clear()
            self._state.departures.setdefault(root.uid, 0)
        return first if gang.virtual or all(pod.unpermitted for pod in waiting) else None

    def _judge_again(self, root: Root) -> None:
        """More was accepted with the root: what was refused of it is judged again. Of thousands of pods that come, each
        beyond what was accepted, the others are looked at once.
        """
        if root.uid not in self._unrefused and not self._state.judge_again(root.uid):
            self._unrefused.add(root.uid)

    def _new(self, gang: GangRecord, root: Root, queue: Queue, access: Access, now: int) -> Reason | None:
        """The whole judge about an owner that was never accepted."""
        if not gang.turned_away and decides(gang, root, queue, access) in self._allowed:
            return None
        asked = NewWork(gang, root, queue, needs_of(gang, root), access=access)
        return self._judged(asked, gang.members.values(), now)

    def _more(self, gang: GangRecord, root: Root, queue: Queue, held: Held, pod: PodRecord, now: int) -> Reason | None:
        """The whole judge about one pod beyond what was accepted with its owner, which may use the queue."""
        total = held.amounts + Counter(requested(pod))
        queue = taking(queue, gang, held.count)
        return self._judged(NewWork(gang, root, queue, total, requested(pod), pod.uid), (pod,), now)

    def _together(
        self, gang: GangRecord, root: Root, queue: Queue, held: Held, pods: list[PodRecord], now: int
    ) -> bool:
        """Whether the rules allow all these pods at once, and so each of them behind the others. Of pods that are not
        alike, or of a group of which any was turned away, that is asked of each alone.
        """
        if len(pods) < 2 or gang.turned_away or len({id(pod.template) for pod in pods}) > 1:
            return False
        added = Counter({name: amount * len(pods) for name, amount in requested(pods[0]).items()})
        queue = taking(queue, gang, held.count + len(pods) - 1)
        return self._verdict(NewWork(gang, root, queue, held.amounts + added, added), pods, now).allowed

    def _judged(self, asked: NewWork, pods: Iterable[PodRecord], now: int) -> Reason | None:
        """The verdict of the admission rules.

        A group refused for lack of room in a queue that rejects stays refused while the queue, its members, the group
        and its needs are the same: changes of other queues and free room do not cause a new judgement.
        """
        pods, gang, queue = list(pods), asked.gang, asked.queue
        members = self._state.permissions.members(queue.name)

        def judged() -> tuple[object, ...]:
            needs, uids = sorted(asked.needs.items()), sorted(pod.uid for pod in pods)
            return queue, members, asked.access, gang.terms(), needs, uids

        standing = gang.turned_away.get(asked.of) if gang.turned_away else None
        if standing is not None and standing[0] == judged():
            return standing[1]
        key = decides(gang, asked.root, queue, asked.access) if not asked.of else None
        if key is not None and key in self._allowed:
            return None
        verdict = self._verdict(asked, pods, now)
        if verdict.allowed:
            if key is not None:
                if len(self._allowed) >= _ALLOWED:
                    self._allowed.clear()
                self._allowed[key] = queue, [pod.template for pod in pods]
            return None
        reason = refused(verdict)
        if verdict.code == OVER_QUOTA:
            gang.turned_away = {**(gang.turned_away or {}), asked.of: (judged(), reason)}
        return reason

    def _verdict(self, asked: NewWork, pods: Iterable[PodRecord], now: int) -> Verdict:
        self.work += _A_JUDGEMENT
        used = self._state.charges.used(asked.queue.name, cards=CARDS in asked.queue.spec.quota)
        return judge(asked.request(pods, used, self._state.permissions.submitter(asked.gang), now))

    def accept(self, gang: GangRecord, now: int, *, runs: bool = False) -> None:
        """Accept the group: it and its owner are recorded by their UIDs. With `runs` it is accepted as it is."""
        state = self._state
        if gang.spec_faults or state.outage.unread or gang.acceptance is not None:
            return
        alone = gang.owner is None
        self.work += _AN_ACCEPTANCE if gang.virtual and alone else _A_JUDGEMENT
        found, self._found = self._found, None
        if found is None or found[0] is not gang or found[1] != (state.permissions.version, gang.changes):
            self._settle_queue(gang)
            queue = state.queues.get(gang.queue)
            if queue is None:
                return
            root, access = state.owners.root(gang), state.permissions.access(gang, queue)
        else:  # it was judged a moment ago, as each new group is
            _, _, queue, root, access = found
        if runs and not access.allowed:
            return  # it runs on, and pods that would join it are judged one by one
        record = None if alone else self.agreed(gang)
        if not runs and record is None and (queue.spec.closed or (queue.spec.quota and gathers(gang, root))):
            return
        asked = gang.spec.priority
        if record is not None and record.queue == queue.name and not alone:
            asked = record.priority
        source = state.acceptances.get(gang.uid) if alone else None
        # Of most single pods nothing is on record yet.
        submitted = (None, []) if alone and source is None else state.permissions.submitted_by(gang)
        for pod in gang.members.values():
            pod.accepted = pod.accepted or not pod.unpermitted
        acceptance = group_record(
            gang,
            source,
            access,
            submitted,
            queue=queue.name,
            priority=access.reduced(asked),
            time_limit=limit_agreed(state, gang, queue),
            accepted_at=moment(now),
            **(own_amounts(gang) if alone else {}),
        )
        self._agree(gang, acceptance)
        gang.stale = True
        if alone:
            state.feed.owners.note(gang.uid)
            if not (runs and gang.virtual and asks_nothing(gang)):
                state.feed.jobs.note(gang.uid)  # else users see of it what they saw before
        elif record is None or record.queue != queue.name:
            self._record(gang, root, queue.name, now)
        state.accepted_anew(state.acceptances[gang.uid])

    def _agree(self, gang: GangRecord, acceptance: Acceptance) -> None:
        """Take over what was agreed with the group itself."""
        state = self._state
        minimum = gang.minimum if gang.ran else None  # of others it is what their spec says
        gang.acceptance = state.acceptances[gang.uid] = acceptance
        state.feed.held_otherwise(gang)
        if gang.ran and gang.minimum != minimum:
            state.changes.gang_changed(gang)
        if not gang.virtual:
            state.feed.gangs.note(gang)  # its status tells how many members count

    def note_start(self, gang: GangRecord, now: int) -> None:
        """A member of the group has a place: its owner is on record, and as started when the place was chosen.

        That is no later than a start that a kubelet tells: the job's start stays what it was when its pods are gone.
        """
        gang.noted = True
        if gang.acceptance is None or (gang.virtual and gang.owner is None):
            return
        root, record = self._state.owners.root(gang), self.agreed(gang)
        if record is None or record.replicas is None:
            record = self._record(gang, root, gang.queue, now)
        if record is not None and record.started_at is None:
            starts = [pod.started for pod in gang.members.values() if pod.started]
            self._keep(structs.replace(record, started_at=moment(min(gang.first_bound or now, now, *starts))))
            for uid in self._state.owners.controllers(root.uid):
                self._state.waiting_jobs.started(self._state.gangs_of_owner(uid))

    def note_run(self, gang: GangRecord, since: int) -> None:
        """The minimum of the group's job runs since then, by the clock of its limit: that is when its present run
        began.
        """
        record = self.agreed(gang)
        if record is not None:
            self._keep(structs.replace(record, started_at=moment(since)))

    def note_beginning(self, gang: GangRecord) -> None:
        """The group began to run, or lost its whole place: record the minimum with which it runs."""
        if gang.acceptance is None or gang.virtual:
            return
        if gang.ran:
            self._keep(structs.replace(gang.acceptance, **began(gang)))
        elif gang.acceptance.began_with is not None:
            self._keep(structs.replace(gang.acceptance, began_with=0, began_roles={}))

    def _adopt(self, gang: GangRecord, root: Root, queue: Queue, now: int) -> Acceptance | None:
        """Record an owner that was accepted before owners were recorded, as it is now."""
        for pod in self._pods(root.uid, gang):
            pod.accepted = pod.accepted or not pod.finished
            self._held.note(pod.gang or gang)
        return self._record(gang, root, queue.name, now)

    def _record(
        self, gang: GangRecord, root: Root, queue: str, now: int, held: Held | None = None
    ) -> Acceptance | None:
        """Record how much of the owner is accepted: what it requests, and what its accepted pods hold."""
        if not root.certain and root.kind == "ReplicaSet":
            return None  # its owner is not known yet
        state = self._state
        held = held or self._held_by(root, gang, queue)
        known = state.acceptances.get(root.uid)
        return self._keep(owner_record(known, gang, root, held, queue, now))

    def _keep(self, record: Acceptance) -> Acceptance:
        state = self._state
        known = state.acceptances.get(record.uid)
        if known != record:
            state.acceptances[record.uid] = record
            if known is None or known.queue != record.queue:
                state.job_events.agreed(record)
            state.feed.owners.note(record.uid)
            state.feed.jobs.note(record.uid)
            gang = state.gangs_by_uid.get(record.uid)
            if gang is not None and gang.acceptance is not None:
                self._agree(gang, record)
        return record

    def _held_by(self, root: Root, gang: GangRecord, queue: str) -> Held:
        """What the accepted pods of the root hold in the queue."""
        if gang.owner is not None:
            return self._held.of(root.uid, queue)
        return Held.by(gang.members.values())

    def _pods(self, root: str, gang: GangRecord) -> Iterator[PodRecord]:
        """Pods of the root that have not ended and are not about to."""
        gangs = [gang]
        if gang.owner is not None:
            state = self._state
            gangs = [one for uid in state.owners.controllers(root) for one in state.gangs_of_owner(uid)]
        return (pod for one in gangs for pod in one.members.values() if not (pod.finished or pod.deleting))
