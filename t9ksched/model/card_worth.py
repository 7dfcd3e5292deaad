"""What pods have of physical cards: the resource `cards` of quotas, and what usage and jobs tell.

A whole card is one, a part of a divided card the larger of its parts of the cores and of the memory, a slice or a time
slice what the node's labels say (`card_slices`). So what a request is depends on the node, and is known for certain
once a pod has one. All amounts are whole numbers, in parts of `quantity.CARD`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from t9ksched.model.card_requests import KOORDINATOR_CORE, KOORDINATOR_GPU, MGPU_CORE
from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.card_slices import CardLayout, part_worths
from t9ksched.model.cards import CardGrant, CardPart, SharedCards
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD
from t9ksched.model.resources import is_card_resource

_PERCENT: Final = 100


def worth_on(pod_class: PodClass, layout: CardLayout) -> tuple[int, int]:
    """The least and the most that a pod of the class has of the cards of such a node, whichever cards it gets there;
    nothing of resources that the node does not offer.
    """
    worths = _by_resource(pod_class, layout)
    return sum(least for _, least, _ in worths), sum(most for _, _, most in worths)


@lru_cache(maxsize=1 << 14)
def _by_resource(pod_class: PodClass, layout: CardLayout) -> tuple[tuple[str, int, int], ...]:
    return tuple(_worths(pod_class, layout))


def _worths(pod_class: PodClass, layout: CardLayout) -> Iterator[tuple[str, int, int]]:
    divided, parts = dict(layout.divided), dict(layout.parts)
    counts, asked = pod_class.card_counts, {one.resource: one for one in pod_class.cards}
    for resource, amount in pod_class.requests:
        if resource in divided and resource in counts:
            each = [_of_part(asked[resource].part_of(at, size), size) for at, size in enumerate(divided[resource])]
            yield resource, min(each) * counts[resource], max(each) * counts[resource]
        elif resource in layout.indexed and resource in counts:
            yield resource, CARD * counts[resource], CARD * counts[resource]
        elif resource in layout.offered:
            one = parts.get(resource, CARD if is_card_resource(resource) else 0)
            yield resource, amount * one, amount * one


@lru_cache(maxsize=1 << 14)
def asked(pod_class: PodClass, layouts: frozenset[CardLayout] = frozenset()) -> int:
    """What a pod that has no node asks for of cards: the most that it may have on nodes of these layouts; where none of
    them has what it asks for, what its own words say.
    """
    if not pod_class.accelerated:
        return 0
    return max((worth_on(pod_class, one)[1] for one in layouts), default=0) or sum(_said(pod_class))


def _said(pod_class: PodClass) -> Iterator[int]:
    slices = part_worths({}, dict(pod_class.requests), "MIGMixed")
    requests = {one.resource: one for one in pod_class.cards}
    for resource, count in pod_class.card_counts.items():
        one = requests[resource]
        part = CARD
        if isinstance(one, SharedCards) and (one.cores or one.memory_percent):
            part = max(one.cores * CARD // CORES, one.memory_percent * CARD // _PERCENT)
        yield count * part
    for resource, amount in pod_class.requests:
        if resource not in requests:
            yield amount * slices.get(resource, 0)


def held(pod_class: PodClass, facts: NodeFacts | None, grant: CardGrant) -> int:
    """What a pod has of the cards of its node, with these of them; on a node that is not known yet as much as if its
    cards were whole.
    """
    if not pod_class.accelerated:
        return 0
    if facts is None:
        return CARD * sum(count for name, count in pod_class.card_counts.items() if is_card_resource(name))
    if not (facts.part_worths or facts.cards.divided):  # all cards are whole, which is usual and counted quickly
        asked_for = pod_class.card_counts.items()
        return CARD * sum(count for name, count in asked_for if name in facts.cards or _offers(facts, name))
    exact: dict[str, int] = {}
    for part in grant.parts:
        sizes = facts.cards.divided.get(part.resource, ())
        if part.index < len(sizes):
            exact[part.resource] = exact.get(part.resource, 0) + _of_part(part, sizes[part.index])
    return sum(exact.get(name, most) for name, _, most in _by_resource(pod_class, facts.card_layout))


def _offers(facts: NodeFacts, resource: str) -> bool:
    """Whether the node has whole cards of a resource that have no indices."""
    return is_card_resource(resource) and bool(facts.allocatable.get(resource))


def _of_part(part: CardPart, size: CardSize) -> int:
    return min(CARD, max(part.cores * CARD // CORES, -(-part.memory * CARD // max(size.memory, 1))))


def least_cards(needs: Mapping[str, int], shared: Iterable[str]) -> int:
    """The least that pods with these requests in all can have of cards, wherever they run; of cards of the resources in
    `shared` some of them may get a part.
    """
    parts = frozenset(shared)
    whole = sum(amount for name, amount in needs.items() if is_card_resource(name) and name not in parts)
    percent = sum(needs.get(name, 0) for name in (MGPU_CORE, KOORDINATOR_CORE, KOORDINATOR_GPU))
    return whole * CARD + percent * CARD // _PERCENT
