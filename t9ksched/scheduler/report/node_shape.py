"""A node with its cards and their holders, as REST and the CLI show it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from t9ksched.engine.nodes import LARGEST
from t9ksched.model.card_models import card_memory, card_model
from t9ksched.model.card_size import CORES
from t9ksched.model.cards import CardPart, CardRequest
from t9ksched.model.dra import NOT_SUPPORTED
from t9ksched.model.node import NodeFacts
from t9ksched.model.quantity import from_units
from t9ksched.model.volumes import FREE_PREFIX
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.state import ClusterState

Json = dict[str, Any]


def quantities(amounts: Iterable[tuple[str, int]]) -> Json:
    """Amounts in units as Kubernetes writes them."""
    return {name: from_units(name, amount) for name, amount in sorted(amounts)}


def node_shape(state: ClusterState, name: str, planned: Sequence[Json] = ()) -> Json | None:
    """A node with its cards, their holders, and what is planned there; None when there is no such node."""
    known = state.node_objects.get(name)
    if known is None:
        return None
    facts = known[1]
    used: defaultdict[str, int] = defaultdict(int)
    holders: defaultdict[tuple[str, int], list[Json]] = defaultdict(list)
    drift = unknown = 0
    for charge in state.charges.on_node(name):
        for resource, amount in charge.pod_class.requests:
            used[resource] += amount
        pod = state.pods.get(charge.uid)
        if pod is not None:
            drifts = charge.uid in state.cards.drifting
            drift += drifts
            unknown += state.cards.unknown(charge, facts)
            parts = {(part.resource, part.index): part for part in charge.cards.parts}
            given = container_cards(charge)
            times = Counter((request.resource, index) for request, index in given)
            for request, index in given:
                card = request.resource, index
                part = own_part(request, index, facts) if times[card] > 1 else parts.get(card)
                holders[card].append(_holder(pod, request.container, drifts, part))
            for card, part in parts.items():
                if card not in times:  # under another name than that by which its containers ask
                    first = next((request.container for request in charge.pod_class.cards), "")
                    holders[card].append(_holder(pod, first, drifts, part))
                elif times[card] > 1 and (rest := _for_init(charge, part, facts)) is not None:
                    holders[card].append(_holder(pod, rest[0], drifts, rest[1]))
    limited = {
        resource: amount
        for resource, amount in facts.allocatable.items()
        if amount < LARGEST and not resource.startswith(FREE_PREFIX)
    }
    product = card_model(facts.labels)
    memory = card_memory(facts.labels)
    return {
        "name": name,
        "ready": facts.ready,
        "schedulable": not facts.unschedulable,
        "labels": dict(facts.labels),
        "allocatable": quantities(limited.items()),
        "allocated": quantities((resource, used[resource]) for resource in limited),
        "cardMode": facts.card_mode,
        "mode": facts.mode or None,
        "notReady": not_ready(facts),
        "linksIgnored": facts.links_fault or None,
        "cardsIgnored": facts.cards_fault or None,
        "counted": [
            {
                "resource": resource,
                "model": product,
                "memoryMiB": memory,
                "has": count,
                "held": used[resource],
                "cordoned": facts.cordoned.get(resource, 0),
            }
            for resource, count in facts.counted.items()
        ],
        "cardDrift": drift,
        "cardsUnknown": unknown,
        "cardsMisheld": _misheld(state, name),
        "gpus": [
            {
                "index": index,
                "resource": resource,
                "model": facts.cards.model(resource, index) or product or resource,
                "memoryMiB": facts.cards.memory(resource, index) or memory,
                "cordoned": index in facts.why_cordoned and facts.cards.withdrawn.has(resource, index),
                "cordonedWhy": facts.why_cordoned.get(index) or None,
                "healthy": index not in facts.unhealthy,
                "unhealthyWhy": facts.unhealthy.get(index) or None,
                "holders": holders[resource, index],
            }
            for resource in facts.cards.resources
            for index in facts.cards.all.indices(resource)
        ],
        "planned": list(planned),
    }


def not_ready(facts: NodeFacts) -> str | None:
    """Why its accelerators, or some of them, get no pods."""
    if facts.unready is not None:
        return str(facts.unready)
    words = "; ".join(one.words(resource) for resource, one in facts.by_dra.items())
    return f"{NOT_SUPPORTED}: {words}" if words else None


def _misheld(state: ClusterState, name: str) -> list[Json]:
    """Pods that hold cards which are gone, or which others hold too, and what is wrong with each."""
    found = ((state.pods.get(uid), what) for uid, what in state.card_audit.of(name).items())
    told = [
        {
            "namespace": pod.namespace,
            "pod": pod.name,
            "what": what,
            "job": "/".join(identity(pod.gang)[1::2]) if pod.gang else None,
            "queue": pod.gang.queue if pod.gang else None,
        }
        for pod, what in found
        if pod is not None
    ]
    return sorted(told, key=lambda one: (one["namespace"], one["pod"]))


def _holder(pod: PodRecord, container: str, drifts: bool, part: CardPart | None) -> Json:
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "container": container,
        "whole": part is None or part.cores == CORES,
        "cores": 100 if part is None else part.cores * 100 // CORES,
        "memoryMiB": None if part is None else part.memory,
        "drift": drifts,
        "job": "/".join(identity(pod.gang)[1::2]) if pod.gang else None,
        "queue": pod.gang.queue if pod.gang else None,
    }


def own_part(request: CardRequest, index: int, facts: NodeFacts) -> CardPart | None:
    """What a container has of a card of a node; None where that is whole."""
    sizes = facts.cards.divided.get(request.resource, ())
    return request.part_of(index, sizes[index]) if index < len(sizes) else None


def _for_init(charge: Charge, part: CardPart, facts: NodeFacts) -> tuple[str, CardPart] | None:
    """What a pod is charged of a card for an init container beyond what its other containers have there together, and
    that container; None where these have as much.
    """
    resource, index = part.resource, part.index
    own = [own_part(one, at, facts) for one, at in container_cards(charge) if (one.resource, at) == (resource, index)]
    cores = part.cores - sum(one.cores for one in own if one is not None)
    memory = part.memory - sum(one.memory for one in own if one is not None)
    if max(cores, memory) <= 0:
        return None
    first = (
        one.container
        for one, indices in charge.cards.split(charge.pod_class.cards)
        if one.kind == "init" and one.resource == resource and index in indices
    )
    name = next(first, "")
    return (name, CardPart(resource, index, max(cores, 0), max(memory, 0))) if name else None


def container_cards(charge: Charge) -> list[tuple[CardRequest, int]]:
    """Request of a container and index for every card that a pod holds; main containers and sidecars first to last."""
    return [
        (request, index)
        for request, indices in charge.cards.split(charge.pod_class.cards)
        if request.kind != "init"
        for index in indices
    ]
