"""What runs and until when, what is to start and when, and what room is reserved: the bars of a Gantt chart.

The end of what runs is the moment at which it is gone by enforced limits at the latest, as planned starts expect it
(`state/end_rules.py`); None where nothing enforces one. Items name jobs; REST hides the names that the caller may not
see.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.reservation import Reservation, ReservationKind, rounded_up
from t9ksched.scheduler.report.planned_shape import job_named
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState

Json = dict[str, Any]
RUNNING: Final = "running"
"""The kind of an item that holds its room now; the others have the kind of their reservation."""
RESERVATION: Final = "reservation"
"""The kind of an item that administrators reserved."""
_A_SLICE: Final = 100
"""Groups or nodes that are looked at before other tasks run."""


async def timeline(state: ClusterState, rules: EndRules, now: int, until: int) -> Json:
    """Nodes with their numbers of cards, and items sorted by beginning, kind and name. What administrators reserved is
    told up to the moment `until`; both in nanoseconds since the epoch.
    """
    found: list[tuple[int, str, Json]] = []
    for count, gang in enumerate(list(state.gangs.values()), start=1):
        if (item := _running(state, rules, gang, now)) is not None:
            found.append(item)
        if count % _A_SLICE == 0:
            await asyncio.sleep(0)
    for count, node in enumerate(list(state.node_objects), start=1):
        found += _foreign(state, node)
        if count % _A_SLICE == 0:
            await asyncio.sleep(0)
    found += _reserved(state)
    for count, uid in enumerate(state.forecasts.relying, start=1):
        if (item := _tentative(state, uid)) is not None:
            found.append(item)
        if count % _A_SLICE == 0:
            await asyncio.sleep(0)
    for held in list(state.advance.known.values()):
        found += _by_administrators(state, held, now, until)
        await asyncio.sleep(0)
    found.sort(key=lambda one: (one[0], one[1], str(one[2]["namespace"]), str(one[2]["job"])))
    nodes = [{"name": name, "gpus": _has(facts)} for name, (_, facts) in sorted(state.node_objects.items(), key=_name)]
    return {"at": timestamp(now), "nodes": nodes, "items": [item for _, _, item in found]}


def _running(state: ClusterState, rules: EndRules, gang: GangRecord, now: int) -> tuple[int, str, Json] | None:
    """A group that holds room."""
    charges = [charge for uid in gang.members if (charge := state.charges.get(uid)) is not None]
    if not charges:
        return None
    pods = rules.holding(gang)
    # Of pods that an earlier group of its name left the end is not known.
    end = rules.end(gang, pods, now) if len(pods) == len(charges) else None
    since = gang.first_bound or min((pod.started for pod in gang.members.values() if pod.started), default=0)
    places = [(charge.node, charge.pod_class) for charge in charges]
    return since, RUNNING, _item(RUNNING, gang.namespace, job_named(gang), gang.queue, since, end or 0, places)


def _foreign(state: ClusterState, node: str) -> Iterable[tuple[int, str, Json]]:
    """Pods of other schedulers that hold cards of a node."""
    for charge in state.charges.on_node(node):
        pod = state.pods.get(charge.uid)
        if pod is not None and pod.gang is None and _cards(charge):
            places = [(node, charge.pod_class)]
            name = f"Pod/{pod.name}"
            yield pod.started, RUNNING, _item(RUNNING, pod.namespace, name, None, pod.started, 0, places)


def _reserved(state: ClusterState) -> Iterable[tuple[int, str, Json]]:
    """Reservations of every kind, one item for those of an owner that begin and end together."""
    together: dict[tuple[str, str, int, int], list[Reservation]] = {}
    for one in state.reservations.in_force():
        if one.kind.planned and state.reservations.stopped:
            continue
        together.setdefault((one.owner, str(one.kind), one.since, one.until), []).append(one)
    for (owner, kind, since, until), several in together.items():
        gang = state.gangs_by_uid.get(owner)
        if gang is None:
            continue
        shown = rounded_up(since, state.resolution) if several[0].kind.planned else since
        places = [(one.node, one.pod_class) for one in several]
        item = _item(kind, gang.namespace, job_named(gang), gang.queue, shown, until, places)
        yield shown, kind, item | {"firm": several[0].firm} if several[0].kind.planned else item


def _tentative(state: ClusterState, uid: str) -> tuple[int, str, Json] | None:
    """A start that relies on ends that nothing enforces: no room is held for it."""
    gang = state.gangs_by_uid.get(uid)
    if gang is None or not gang.reasons or uid in state.reservations.planned:
        return None
    found = state.forecasts.tentative((gang,), state.resolution)
    if found is None:
        return None
    kind, until = str(ReservationKind.PLANNED), found.at + gang.lasts if gang.lasts else 0
    item = _item(kind, gang.namespace, job_named(gang), gang.queue, found.at, until, ())
    nodes = [{"name": node, "pods": pods, "gpus": gpus} for node, pods, gpus in found.room]
    return found.at, kind, item | {"firm": False, "nodes": nodes, "gpus": sum(gpus for _, _, gpus in found.room)}


def _by_administrators(
    state: ClusterState, held: KnownReservation, now: int, until: int
) -> Iterable[tuple[int, str, Json]]:
    """What an administrator reserved, for no job yet: an item for each occurrence that begins by then."""
    cards = {name: reserved_cards(state, held, name) for name in sorted(held.record.nodes)}
    nodes = [{"name": name, "pods": 0, "gpus": gpus} for name, gpus in cards.items()]
    for of in held.reservation.occurrences(now, held.ended):
        if of.begin > until:
            return
        item = {
            "kind": RESERVATION,
            "reservation": held.name,
            "namespace": None,
            "job": None,
            "queue": None,
            "from": timestamp(of.begin),
            "until": timestamp(of.end),
            "firm": None,
            "gpus": sum(cards.values()),
            "nodes": nodes,
        }
        yield of.begin, RESERVATION, item


def reserved_cards(state: ClusterState, held: KnownReservation, node: str) -> int:
    """How many cards of a node are reserved; 0 of one that is gone."""
    if held.reservation.cards is not None:
        return held.reservation.cards.count
    return _has(state.node_objects[node][1]) if node in state.node_objects else 0


def _item(
    kind: str,
    namespace: str,
    job: str,
    queue: str | None,
    since: int,
    until: int,
    places: Iterable[tuple[str, PodClass]],
) -> Json:
    nodes: dict[str, Json] = {}
    for node, pod_class in places:
        entry = nodes.setdefault(node, {"name": node, "pods": 0, "gpus": 0})
        entry["pods"] += 1
        entry["gpus"] += sum(pod_class.card_counts.values())
    return {
        "kind": kind,
        "namespace": namespace,
        "job": job,
        "queue": queue or None,
        "from": timestamp(since),
        "until": timestamp(until),
        "firm": None,
        "gpus": sum(entry["gpus"] for entry in nodes.values()),
        "nodes": [nodes[name] for name in sorted(nodes)],
    }


def _name(item: tuple[str, object]) -> str:
    return item[0]


def _has(facts: NodeFacts) -> int:
    """How many cards a node has, those without indices included."""
    return sum(facts.cards.counts.values()) + sum(facts.counted.values())


def _cards(charge: Charge) -> int:
    return sum(charge.pod_class.card_counts.values())
