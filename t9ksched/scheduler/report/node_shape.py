"""A node with its cards and their holders, as REST and the CLI show it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
            unknown += state.cards.doubts.unknown(charge, facts)
            for resource, index, container, part in _held(charge, facts):
                holders[resource, index].append(_holder(pod, container, drifts, part))
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


def _held(charge: Charge, facts: NodeFacts) -> Iterator[tuple[str, int, str, CardPart | None]]:
    """Resource, index and container of every card that a pod is charged with, and what is held of it; None for all.
    Where several containers run on a card at one time each is named with its own part. Init containers are named for
    what is charged beyond that, also of cards on which they alone run.
    """
    parts = {(part.resource, part.index): part for part in charge.cards.parts}
    running: defaultdict[tuple[str, int], list[CardRequest]] = defaultdict(list)
    before: dict[tuple[str, int], str] = {}
    for request, indices in charge.cards.split(charge.pod_class.cards):
        for index in indices:
            if request.kind == "init":
                before.setdefault((request.resource, index), request.container)
            else:
                running[request.resource, index].append(request)
    for card, requests in running.items():
        if len(requests) == 1:
            yield *card, requests[0].container, parts.get(card)
            continue
        own = [_own_part(request, card[1], facts) for request in requests]
        for request, part in zip(requests, own, strict=True):
            yield *card, request.container, part
        if card in before and (rest := _beyond(parts.get(card), own)) is not None:
            yield *card, before[card], rest
    for card, container in before.items():
        if card not in running:
            yield *card, container, parts.get(card)
    first = next((request.container for request in charge.pod_class.cards), "")
    for card, part in parts.items():
        if card not in running and card not in before:  # under another name than that by which its containers ask
            yield *card, first, part


def _own_part(request: CardRequest, index: int, facts: NodeFacts) -> CardPart | None:
    """What a container has of a card of a node; None where that is whole."""
    sizes = facts.cards.divided.get(request.resource, ())
    return request.part_of(index, sizes[index]) if index < len(sizes) else None


def _beyond(charged: CardPart | None, own: Iterable[CardPart | None]) -> CardPart | None:
    """What is charged of a card beyond these parts of it; None where that is nothing."""
    if charged is None:
        return None
    there = [part for part in own if part is not None]
    cores = max(charged.cores - sum(part.cores for part in there), 0)
    memory = max(charged.memory - sum(part.memory for part in there), 0)
    return CardPart(charged.resource, charged.index, cores, memory) if cores or memory else None
