"""What pods have of physical cards: the resource `cards` of quotas, and what usage and jobs tell.

A whole card is one, a part of a divided card the larger of its parts of the cores and of the memory, a slice or a time
slice what the node's labels say (`card_slices`). So what a request is depends on the node, and is known for certain
once a pod has one. All amounts are whole numbers, in parts of `quantity.CARD`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from t9ksched.model.card_peak import moments
from t9ksched.model.card_requests import KOORDINATOR_CORE, KOORDINATOR_GPU, MGPU_CORE
from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.card_slices import CardLayout, part_worths
from t9ksched.model.cards import CardGrant, CardPart, CardRequest, SharedCards
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
    counts = pod_class.card_counts
    for resource, amount in pod_class.requests:
        if resource in divided and resource in counts:
            yield resource, *_of_requests(pod_class.cards_of(resource), divided[resource])
        elif resource in layout.indexed and resource in counts:
            yield resource, CARD * counts[resource], CARD * counts[resource]
        elif resource in layout.offered:
            one = parts.get(resource, CARD if is_card_resource(resource) else 0)
            yield resource, amount * one, amount * one


def _of_requests(requests: Sequence[CardRequest], sizes: Sequence[CardSize]) -> tuple[int, int]:
    """The least and the most that a pod with these requests for cards of one resource has of such cards. Parts of
    several containers may be of one card, of which the larger sum counts then, or of several.
    """
    if len(requests) == 1:
        each = [_of_part(requests[0].part_of(at, size), size) for at, size in enumerate(sizes)]
        return min(each) * requests[0].count, max(each) * requests[0].count
    parts = [[one.part_of(at, size) for at, size in enumerate(sizes)] for one in requests]
    most = [
        one.count * max(_of_part(part, size) for part, size in zip(those, sizes, strict=True))
        for one, those in zip(requests, parts, strict=True)
    ]
    least = 0
    for moment in moments(requests):
        for of in (_of_cores, _of_memory):
            sums = (
                requests[at].count * min(of(part, size) for part, size in zip(parts[at], sizes, strict=True))
                for at in moment
            )
            least = max(least, sum(sums))
    mains = [at for at, one in enumerate(requests) if one.kind == "main"]
    reused = {  # the cards of a main container that has as much of as many are used before it runs
        at
        for at, one in enumerate(requests)
        if one.kind == "init"
        and any(
            requests[main].count >= one.count
            and all(
                mine.cores <= its.cores and mine.memory <= its.memory
                for mine, its in zip(parts[at], parts[main], strict=True)
            )
            for main in mains
        )
    }
    return least, sum(worth for at, worth in enumerate(most) if at not in reused)


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
    requests = pod_class.card_counts
    for resource, count in requests.items():
        asked_for = pod_class.cards_of(resource)
        if len(asked_for) == 1:
            yield count * _as_said(asked_for[0])
        else:
            yield max(sum(asked_for[at].count * _as_said(asked_for[at]) for at in one) for one in moments(asked_for))
    for resource, amount in pod_class.requests:
        if resource not in requests:
            yield amount * slices.get(resource, 0)


def _as_said(request: CardRequest) -> int:
    """The part of each card, as far as the request says it itself."""
    if isinstance(request, SharedCards) and (request.cores or request.memory_percent):
        return max(request.cores * CARD // CORES, request.memory_percent * CARD // _PERCENT)
    return CARD


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


def by_model(facts: NodeFacts, grant: CardGrant) -> dict[str, tuple[int, tuple[int, ...]]]:
    """What a pod has of divided cards of a node whose models are known one by one, by model: how much, and of which."""
    found: dict[str, tuple[int, tuple[int, ...]]] = {}
    for part in grant.parts:
        sizes = facts.cards.divided.get(part.resource, ())
        if part.index < len(sizes):
            size = sizes[part.index]
            worth, cards = found.get(size.model, (0, ()))
            found[size.model] = worth + _of_part(part, size), (*cards, part.index)
    return found


def _offers(facts: NodeFacts, resource: str) -> bool:
    """Whether the node has whole cards of a resource that have no indices."""
    return is_card_resource(resource) and bool(facts.allocatable.get(resource))


def _of_part(part: CardPart, size: CardSize) -> int:
    return min(CARD, max(_of_cores(part, size), _of_memory(part, size)))


def _of_cores(part: CardPart, size: CardSize) -> int:
    return part.cores * CARD // CORES


def _of_memory(part: CardPart, size: CardSize) -> int:
    return -(-part.memory * CARD // max(size.memory, 1))


def least_cards(needs: Mapping[str, int], shared: Iterable[str]) -> int:
    """The least that pods with these requests in all can have of cards, wherever they run; of cards of the resources in
    `shared` some of them may get a part.
    """
    parts = frozenset(shared)
    whole = sum(amount for name, amount in needs.items() if is_card_resource(name) and name not in parts)
    percent = sum(needs.get(name, 0) for name in (MGPU_CORE, KOORDINATOR_CORE, KOORDINATOR_GPU))
    return whole * CARD + percent * CARD // _PERCENT
