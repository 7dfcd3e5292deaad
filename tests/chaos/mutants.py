"""Ways to break the project on purpose, each against one promise: some history must turn red by each."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from msgspec import structs

from t9ksched.engine.blocks import NEVER_ENDS
from t9ksched.engine.future_charges import FutureCharges
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.placement.constraints import QueueNodes
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.possible_starts import PossibleStarts
from t9ksched.engine.reservations import Reservations
from t9ksched.engine.victims import contest
from t9ksched.kube.errors import ApiError
from t9ksched.kube.write import binding as protocol
from t9ksched.kube.write.binding import Binding, Bound, Conflicted, Refusal, Refused
from t9ksched.kube.write.eviction import evict
from t9ksched.model import names
from t9ksched.model.cards import NO_CARDS
from t9ksched.scheduler.act import gang_timeouts as integrity
from t9ksched.scheduler.act import preemption
from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.act.executor import Executor
from t9ksched.scheduler.act.gang_timeouts import GangTimeouts
from t9ksched.scheduler.act.promises import PromiseKeeper
from t9ksched.scheduler.keep.plan_keeper import PlanKeeper
from t9ksched.scheduler.keep.timekeeper import TimeKeeper
from t9ksched.scheduler.observe.informers import Informers
from t9ksched.scheduler.state import gang_snapshot, lastgate, records
from t9ksched.scheduler.state.agreements import Agreements
from t9ksched.scheduler.state.assumptions import Assumptions
from t9ksched.scheduler.state.cardbook import CardBook
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.job_events import JobEvents
from t9ksched.scheduler.state.node_backoff import NodeBackoff
from t9ksched.scheduler.state.outage import Outage
from t9ksched.scheduler.state.places import Places
from t9ksched.scheduler.state.pod_events import PodEvents
from t9ksched.scheduler.state.refill import Refills
from t9ksched.scheduler.state.reservations import ReservationBook
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.fence import Fence
from tests.property.mutants import nothing_kept, once_ran_always_first, sorted_by

_recharge, _upsert_pod = PodEvents._recharge, PodEvents.upsert
_charge, _body, _post, _view = Charges.charge, Binding.body, protocol.post, ClusterState.judge
_price = contest.price
_built = gang_snapshot.built
_in_force, _lasts = ReservationBook.in_force, EndRules.lasts
_overdue, _integrity = GangTimeouts.overdue, GangTimeouts.__init__
_note, _write, _set_queues, _start_again = (
    CardKeeper.note,
    CardKeeper.write,
    JobEvents.set_queues,
    Agreements.start_again,
)


async def _nothing(*_: Any) -> int:
    return 0


async def _said_to_be_written(*_: Any) -> bool:
    return True


async def _guess(self: Executor, binding: Any) -> None:
    """Any error counts as a refusal, whatever it leaves open."""
    try:
        await self._client.bind(binding.namespace, binding.name, binding.body())
        self._react(binding, Bound())
    except ApiError as error:
        self._react(binding, Refused(Refusal(error.status, error.reason, error.message)))


def _kept(self: PodEvents, record: Any, annotations: Any) -> bool:
    return False if record.finished else _recharge(self, record, annotations)


def _without_cards(self: Charges, uid: str, node: str, pod_class: Any, queue: str, cards: Any, **more: Any) -> None:
    _charge(self, uid, node, pod_class, queue, NO_CARDS, **more)


def _anybody(self: Binding) -> Any:
    body = _body(self)
    del body["metadata"]["uid"]
    return body


class _AnyPod:
    """A port whose deletions name no UID."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def delete(self, *args: Any, uid: str | None = None, **options: Any) -> Any:
        return await self._port.delete(*args, **options)


async def _evict_anybody(port: Any, victim: Any, **options: Any) -> Any:
    return await evict(_AnyPod(port), victim, **options)


async def _conflict_is_success(port: Any, binding: Any, **more: Any) -> Any:
    outcome = await _post(port, binding, **more)
    return Bound(found=True) if isinstance(outcome, Conflicted) else outcome


def _second_half_dropped(self: PodEvents, pod: Any) -> None:
    """Members that wait beside bound ones when they are first seen have no submitter."""
    group = (pod.metadata.labels or {}).get(names.GROUP_LABEL)
    gang = self._state.gangs.get((pod.metadata.namespace, group)) if group else None
    half = gang is not None and any(member.node for member in gang.members.values())
    if not (half and pod.metadata.uid not in self._state.pods and not pod.spec.node_name):
        _upsert_pod(self, pod)


def _by_annotation(self: CardBook, record: Any, pod_class: Any, annotations: Any, row: Any) -> Any:
    return self._read(pod_class, annotations, names.GPU_INDEX_PREFIX), True


def _uncertain_for_ever(self: CardBook, record: Any, charge: Any) -> None:
    if record.finished:
        self.ended(record)


async def _written_or_not(self: CardKeeper) -> bool:
    """What the database did not take is not tried again."""
    written = await _write(self)
    if not written:
        self._waiting.clear()
    return written


def _nobody_waits(self: CardKeeper, pods: Any, now: int) -> bool:
    _note(self, pods, now)
    return False


def _first_look(self: ClusterState, now: int, *args: Any) -> Any:
    """Room held for refills and preemptors is forgotten, as if by a crash, before each look."""
    self.reservations.refused.clear()
    self.reservations.promised.clear()
    return _view(self, now, *args)


def _seen_open(self: JobEvents, queues: Any) -> Any:
    return _set_queues(self, [replace(queue, spec=replace(queue.spec, closed=False)) for queue in queues])


def _refilled_for_ever(record: records.GangRecord) -> Any:
    gang = _built(record)
    return None if gang is None else structs.replace(gang, refilling=gang.refilling or gang.ran)


def _as_if_it_ran_on(self: Agreements, gang: Any, reason: str, message: str) -> None:
    ran = gang.ran
    _start_again(self, gang, reason, message)
    gang.ran = ran


def _late(self: GangTimeouts, *args: Any, timeout: int = 60, **more: Any) -> None:
    _integrity(self, *args, timeout=20 * timeout, **more)


def _all_that_ran(self: GangTimeouts) -> Any:
    return [*_overdue(self), *(gang for gang in self._state.gangs.values() if gang.ran)]


def _nothing_planned(self: ReservationBook) -> Any:
    return tuple(one for one in _in_force(self) if not one.kind.planned)


def _without_start_timeout(self: EndRules, gang: Any) -> int:
    return max(0, _lasts(self, gang) - self._start_timeout)


def _blind(part: int) -> Any:
    """The price of a set of victims, blind for one part of a level."""

    def price(victims: Any, contenders: Any) -> Any:
        levels, *rest = _price(victims, contenders)
        merged: Counter[Any] = Counter()
        for level, pods in levels:
            merged[*level[:part], 0, *level[part + 1 :]] += pods
        return (tuple(sorted(merged.items(), reverse=True)), *rest)

    return price


MUTANTS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "nodes are never charged": ((Charges, "_apply", lambda self, charge: None),),
    "cards are not charged by index": ((Charges, "charge", _without_cards),),
    "quota is not asked": ((Ledger, "can_charge", lambda self, queue, demand, **more: []),),
    "half-bound gangs are left as they are": ((GangTimeouts, "sweep", _nothing),),
    "queues may use every node": ((QueueNodes, "allows", lambda self, facts: True),),
    "open results are guessed": ((Executor, "_bind", _guess),),
    "labels are those of creation": ((PodEvents, "_relabel", lambda self, record, labels: False),),
    "ended pods keep their room": ((PodEvents, "_recharge", _kept),),
    "refusals are forgotten": ((Assumptions, "refuse", lambda self, *args, **more: None),),
    "no timer wakes a refused pod": ((ClusterState, "next_retry", lambda self, **_: None),),
    "a binding names no uid": ((Binding, "body", _anybody),),
    "an eviction names no uid": ((preemption, "evict", _evict_anybody), (integrity, "evict", _evict_anybody)),
    "a conflict counts as success": ((protocol, "post", _conflict_is_success),),
    "members that wait beside bound ones are dropped": ((PodEvents, "upsert", _second_half_dropped),),
    "held room is lost": ((ClusterState, "judge", _first_look),),
    "a node that refuses pods is not avoided": ((NodeBackoff, "note", lambda self, *args: None),),
    "cards are unknown after a restart": ((CardBook, "_held", lambda self, *args: (NO_CARDS, True)),),
    "annotations win after a restart": ((CardBook, "_held", _by_annotation),),
    "cards on no record are given to others": ((CardBook, "unsure", lambda self, facts: False),),
    "a node stays without cards when the pod of unknown ones is gone": ((CardBook, "released", _uncertain_for_ever),),
    "cards given without the database are never written": ((CardKeeper, "write", _written_or_not),),
    "a successor goes by what it has heard": ((Informers, "read_unheard", _nothing),),
    "labels of bound pods are believed": ((Places, "on", lambda self, *args: None),),
    "rows are not written before the binding": ((CardKeeper, "note", _nobody_waits),),
    "what runs is not accepted again": ((Agreements, "accept_running", lambda self, now: False),),
    "promised room is forgotten by a restart": ((PromiseKeeper, "restore", _nothing),),
    "promised room is not written": ((PromiseKeeper, "write", _said_to_be_written),),
    "what is new starts while the database is away": ((Outage, "refusal", lambda self, gang: None),),
    "an outage of the database is not noticed": ((Outage, "begin", lambda self, *args: None),),
    "what ran once goes first for ever": (
        *sorted_by(once_ran_always_first),
        (Agreements, "start_again", _as_if_it_ran_on),
    ),
    "who was evicted whole counts as one that lost members": (
        (records, "built", _refilled_for_ever),
        (Agreements, "start_again", _as_if_it_ran_on),
    ),
    "room of lost members is not kept": ((Reservations, "take", nothing_kept),),
    "lost members are not noticed": ((Refills, "lost", lambda self, record: None),),
    "victims' queue priority is not looked at": ((contest, "price", _blind(0)),),
    "victims' shares are not looked at": ((contest, "price", _blind(2)),),
    "victims' PodGroup priority is not looked at": ((contest, "price", _blind(3)),),
    "closed queues take new work": ((JobEvents, "set_queues", _seen_open),),
    "each replacement in a closed queue is new work": ((lastgate, "covers", lambda *_: False),),
    "gangs in part are taken back late": ((GangTimeouts, "__init__", _late),),
    "edits of queues count": ((records.GangRecord, "queue", property(lambda self: self.agreed or self.spec.queue)),),
    "gangs that are whole are taken back": ((GangTimeouts, "overdue", _all_that_ran),),
    "planned starts are forgotten by a restart": ((PlanKeeper, "restore", _nothing),),
    "planned starts are not written": ((PlanKeeper, "sweep", _nothing),),
    "planned starts are forgotten by each cycle": ((ReservationBook, "in_force", _nothing_planned),),
    "who starts now leaves no room to planned starts": (
        (PlannedStarts, "taken", lambda self, gang, lends=False: None),
        (PlannedStarts, "places", lambda *_: None),
        (PossibleStarts, "lacks", lambda *_: False),
    ),
    "planned starts heed no quota": (
        (FutureCharges, "payable", lambda *_: []),
        (FutureCharges, "pays_until", lambda *_: NEVER_ENDS),
    ),
    "planned starts are kept beyond the quota": ((FutureCharges, "affords", lambda self, block, laid: True),),
    "planned starts see no other ones": ((PlannedStarts, "focus", lambda self, gang: self.lift(self.blocks())),),
    "what starts is thought to run at once": ((EndRules, "lasts", _without_start_timeout),),
    "time limits are not enforced": ((TimeKeeper, "sweep", _nothing),),
    "a former leader writes to SQL": (
        (Fence, "write", lambda self: self._database.write()),
        (Fence, "transact", lambda self, act: self._database.transact(act)),
    ),
}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The project with that fault."""
    with ExitStack() as stack:
        for owner, attribute, new in MUTANTS[name]:
            stack.enter_context(patch.object(owner, attribute, new))
        yield
