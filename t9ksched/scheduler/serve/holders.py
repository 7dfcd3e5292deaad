"""Who holds what a waiting job requests: running jobs, gangs for whose lost members room is kept, and gangs whose
planned starts need the room. Each names other jobs; REST removes the names that the caller may not see.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from t9ksched.model.card_worth import held as held_of
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARDS
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, rounded_up
from t9ksched.model.taints import untolerated
from t9ksched.scheduler.report.job_shape import Json
from t9ksched.scheduler.report.node_shape import quantities
from t9ksched.scheduler.report.observed_job import ObservedJob, identity
from t9ksched.scheduler.serve.apart import KeptApart
from t9ksched.scheduler.serve.in_the_way import in_the_way, is_planned, only_window
from t9ksched.scheduler.serve.timeline import reserved_cards
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.end_rules import pod_deadline
from t9ksched.scheduler.state.limits import own_limit
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState

_MOST_HOLDERS: Final = 20
_NODES_A_SLICE: Final = 100
_PLANS_A_SLICE: Final = 10


class _Held(msgspec.Struct):
    """What one job holds of the wanted resources, `since` a moment to come if it is to have them then; `until` is None
    if the end of one of its pods is unknown.
    """

    amounts: dict[str, int] = msgspec.field(default_factory=dict)
    cards: int = 0
    since: int = 0
    until: int | None = 0


class _Usable(msgspec.Struct, frozen=True):
    """Which nodes a job's pods may use: room on other nodes does not help it."""

    queue: Queue
    classes: frozenset[PodClass]

    @classmethod
    def of(cls, view: ObservedJob, queue: Queue) -> "_Usable":
        """By the classes of its pods that wait."""
        return cls(queue, frozenset(pod.pod_class for pod in view.pods if pod.waiting and pod.pod_class is not None))

    def takes(self, facts: NodeFacts) -> bool:
        """Whether one of the pods may run there, as far as labels and taints say."""
        selector = self.queue.spec.node_selector
        if selector is not None and not selector.matches(facts.labels):
            return False
        return not self.classes or any(self._fits(one, facts) for one in self.classes)

    @staticmethod
    def _fits(pod_class: PodClass, facts: NodeFacts) -> bool:
        affinity = pod_class.node_affinity
        named = all(facts.labels.get(key) == value for key, value in pod_class.node_selector)
        if untolerated(facts.taints, pod_class.tolerations) is not None:
            return False
        return named and (affinity is None or affinity.matches(facts.labels, facts.name))


async def holders(view: ObservedJob, state: ClusterState, reasons: list[Reason]) -> list[Json]:
    """The jobs that hold what this job requests, the largest first; then those that are to start there, the next first;
    then what administrators reserved there.

    While the quota of its queue is short these are jobs of that queue, wherever they run; else all on the nodes that
    its queue and its own pods may use. Of planned starts those count that come before its own. There are none where
    the job waits for nothing but its queue's start window. Where it has room and rules or host ports keep it from that
    these are the jobs whose pods do.
    """
    queue = state.queues.get(view.gangs[0].queue) if view.gangs else None
    if queue is None:
        return []
    quota = next((reason for reason in reasons if reason.code == Code.QUOTA_EXCEEDED), None)
    if quota is None and only_window(view.gangs, queue, state):
        return []
    wanted = frozenset(quota.needs) if quota is not None else _wanted(view, reasons)
    usable = None if quota is not None else _Usable.of(view, queue)
    apart = KeptApart.of(view, state, reasons)
    held: dict[tuple[str | None, str], _Held] = {}
    for count, (name, (_, facts)) in enumerate(list(state.node_objects.items()), start=1):
        if usable is None or usable.takes(facts):
            for charge, pod in _charges(state, name):
                if pod.gang in view.gangs or (quota is not None and charge.queue != queue.name):
                    continue
                pays = (*charge.pod_class.requests, (CARDS, charge.worth))
                amounts = [(resource, amount) for resource, amount in pays if resource in wanted]
                counts = apart.keeps_off(pod, charge.pod_class) if apart else any(amount for _, amount in amounts)
                if counts:
                    _add(held.setdefault((charge.queue or None, _job(pod)), _Held()), state, charge, pod, amounts)
        if count % _NODES_A_SLICE == 0:
            await asyncio.sleep(0)
    for reservation in state.refills.reservations if apart is None else ():
        _add_reserved(held, state, reservation, view, queue, wanted, usable)
    planned: dict[tuple[str | None, str], _Held] = {}
    for count, plan in enumerate(_plans_before(view, state) if apart is None else (), start=1):
        for reservation in plan:
            _add_reserved(planned, state, reservation, view, queue, wanted, usable)
        if count % _PLANS_A_SLICE == 0:
            await asyncio.sleep(0)
    ranked = sorted(
        held.items(), key=lambda item: (-item[1].cards, -max(item[1].amounts.values(), default=0), item[0][1])
    )
    ranked = ranked[:_MOST_HOLDERS]
    ranked += sorted(planned.items(), key=lambda item: (item[1].since, item[0][1]))[:_MOST_HOLDERS]
    return [
        {
            "queue": holder,
            "job": job,
            "gpus": one.cards,
            "holds": quantities(one.amounts.items()),
            "from": timestamp(rounded_up(one.since, state.resolution)) if one.since else None,
            "until": timestamp(one.until or 0),
        }
        for (holder, job), one in ranked
    ] + (_reservations(view, state, queue) if quota is None or is_planned(reasons) else [])


def _reservations(view: ObservedJob, state: ClusterState, queue: Queue) -> list[Json]:
    """What administrators reserved on nodes that the job may use, with the cards there, and that is in its way."""
    usable = _Usable.of(view, queue)
    found: list[Json] = []
    there: dict[str, list[int]] = {}
    for of, held in in_the_way(view.gangs, state):
        if held.name not in there:
            nodes = (
                node for node in held.record.nodes if (known := state.node_objects.get(node)) and usable.takes(known[1])
            )
            there[held.name] = [reserved_cards(state, held, node) for node in nodes]
        if there[held.name]:
            span = {"from": timestamp(of.begin), "until": timestamp(of.end)}
            head = {"queue": None, "job": None, "reservation": held.name, "gpus": sum(there[held.name])}
            found.append({**head, "nodes": len(there[held.name]), "holds": {}, **span})
    return found[:_MOST_HOLDERS]


def _plans_before(view: ObservedJob, state: ClusterState) -> list[tuple[Reservation, ...]]:
    """The planned starts that the job has to leave room to: all, or those before its own."""
    planned = state.reservations.told
    own = [plan[0].since for gang in view.gangs if (plan := planned.get(gang.uid))]
    return [plan for plan in planned.values() if not own or plan[0].since <= min(own)]


def _wanted(view: ObservedJob, reasons: Iterable[Reason]) -> frozenset[str]:
    """The resources that the job is short of: its cards if it requests any, else what its reasons name, else cpu and
    memory.
    """
    classes = [pod.pod_class for pod in view.pods if pod.pod_class]
    asked = {resource for pod_class in classes for resource, _ in pod_class.requests} - {"pods"}
    cards = {card.resource for pod_class in classes for card in pod_class.cards}
    named = {resource for reason in reasons for resource in reason.needs} & asked
    return frozenset(cards or named or asked)


def _charges(state: ClusterState, node: str) -> Iterator[tuple[Charge, PodRecord]]:
    for charge in state.charges.on_node(node):
        pod = state.pods.get(charge.uid)
        if pod is not None:
            yield charge, pod


def _job(pod: PodRecord) -> str:
    job = "/".join(identity(pod.gang)[1::2]) if pod.gang else f"Pod/{pod.name}"
    return f"{pod.namespace}/{job}"


def _add_reserved(
    held: dict[tuple[str | None, str], _Held],
    state: ClusterState,
    reservation: Reservation,
    view: ObservedJob,
    queue: Queue,
    wanted: frozenset[str],
    usable: "_Usable | None",
) -> None:
    """Room reserved for members that a gang lost, or for a planned start: that gang counts as its holder."""
    gang, known = state.gangs_by_uid.get(reservation.owner), state.node_objects.get(reservation.node)
    if gang is None or gang in view.gangs or (usable is None and reservation.queue != queue.name):
        return
    if usable is not None and (known is None or not usable.takes(known[1])):
        return
    worth = held_of(reservation.pod_class, known[1] if known is not None else None, reservation.cards)
    pays = (*reservation.pod_class.requests, (CARDS, worth))
    amounts = [(resource, amount) for resource, amount in pays if resource in wanted]
    if any(amount for _, amount in amounts):
        _, kind, _, name = identity(gang)
        entry = held.setdefault((reservation.queue, f"{gang.namespace}/{kind}/{name}"), _Held())
        for resource, amount in amounts:
            entry.amounts[resource] = entry.amounts.get(resource, 0) + amount
        entry.cards += _cards(reservation.pod_class, amounts)
        entry.since = reservation.since if reservation.kind.planned else 0
        entry.until = None if entry.until is None or not reservation.until else max(entry.until, reservation.until)


def _cards(pod_class: PodClass, amounts: Iterable[tuple[str, int]]) -> int:
    """How many cards of these resources a pod asks for; all of them where cards are told as such."""
    named = {resource for resource, _ in amounts}
    return sum(count for name, count in pod_class.card_counts.items() if name in named or CARDS in named)


def _add(held: _Held, state: ClusterState, charge: Charge, pod: PodRecord, amounts: list[tuple[str, int]]) -> None:
    for resource, amount in amounts:
        held.amounts[resource] = held.amounts.get(resource, 0) + amount
    held.cards += _cards(charge.pod_class, amounts)
    queue = state.queues.get(charge.queue)
    ends = [pod_deadline(pod, queue.spec) if queue is not None else None]
    if pod.gang is not None:
        ends.append(state.clocks.end(pod.gang, own_limit(state, pod.gang)))
    end = min((one for one in ends if one is not None), default=None)
    held.until = None if end is None or held.until is None else max(held.until, end)
