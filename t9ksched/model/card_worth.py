"""What pods have of physical cards: the resource `cards` of quotas, and what usage and jobs tell.

A whole card is one, a part of a divided card the larger of its parts of the cores and of the memory, a slice or a time
slice what the node's labels say (`card_slices`). So what a request is depends on the node, and is known for certain
once a pod has one. All amounts are whole numbers, in parts of `quantity.CARD`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_peak import moments
from t9ksched.model.card_requests import KOORDINATOR_CORE, KOORDINATOR_GPU, MGPU_CORE
from t9ksched.model.card_size import CORES, CardSize
from t9ksched.model.card_slices import CardLayout, part_worths
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.cards import CardGrant, CardPart, CardRequest, SharedCards
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD
from t9ksched.model.resources import is_card_resource

_PERCENT: Final = 100


def worth_on(pod_class: PodClass, layout: CardLayout) -> tuple[int, int]:
    """The least and the most that a pod of the class has of the cards of such a node, whichever of those that will do
    it gets there; nothing of resources that the node does not offer, or of which too few cards will do.
    """
    worths = _by_resource(pod_class, layout)
    return sum(one.least for one in worths), sum(one.levels[-1] for one in worths)


def levels_on(pod_class: PodClass, layout: CardLayout) -> tuple[int, ...]:
    """What a pod of the class may have at most of the cards of such a node, ascending: of single cards that are unlike
    the dearer ones may be left out.
    """
    worths = _by_resource(pod_class, layout)
    most = sum(one.levels[-1] for one in worths)
    unlike = [one.levels for one in worths if len(one.levels) > 1]
    if len(unlike) != 1:
        return (most,)
    return tuple(most - unlike[0][-1] + level for level in unlike[0])


def affordable_on(pod_class: PodClass, layout: CardLayout, most: int) -> bool:
    """Whether a pod of the class, which may have no more than `most`, has that on such a node; also where it would have
    nothing there anyway.
    """
    has = worth_on(pod_class, layout)[1]
    return has <= most if has else not worth_on(unbounded(pod_class), layout)[1]


def unbounded(pod_class: PodClass) -> PodClass:
    """The class of pods that may have any amount of cards."""
    if pod_class.choice is None or not pod_class.choice.most_cards:
        return pod_class
    choice = replace(pod_class.choice, most_cards=0)
    return replace(pod_class, choice=choice if choice != CardChoice() else None)


class _Worth(NamedTuple):
    """What a pod has of the cards of one resource on a node.

    Attributes:
        least: that it has in any case.
        levels: the most that it may have, ascending, if the dearer ones of unlike cards are left out; the last is with
            all cards.
    """

    resource: str
    least: int
    levels: tuple[int, ...]


@lru_cache(maxsize=1 << 14)
def _by_resource(pod_class: PodClass, layout: CardLayout) -> tuple[_Worth, ...]:
    return tuple(_worths(pod_class, layout))


def _worths(pod_class: PodClass, layout: CardLayout) -> Iterator[_Worth]:
    divided, parts = dict(layout.divided), dict(layout.parts)
    counts, choice = pod_class.card_counts, pod_class.choice
    only = choice.single if choice is not None else None
    for resource, amount in pod_class.requests:
        if resource in divided and resource in counts:
            requests, kinds = pod_class.cards_of(resource), divided[resource]
            if len(requests) == 1:
                yield _Worth(resource, *_of_one(requests[0], kinds, only))
            else:
                yield _Worth(resource, *_of_several(requests, [size for size, _ in kinds]))
        elif resource in layout.indexed and resource in counts:
            yield _Worth(resource, CARD * counts[resource], (CARD * counts[resource],))
        elif resource in layout.offered:
            worth = amount * parts.get(resource, CARD if is_card_resource(resource) else 0)
            yield _Worth(resource, worth, (worth,))


def _of_one(
    request: CardRequest, kinds: Iterable[tuple[CardSize, int]], only: CardFilter | None
) -> tuple[int, tuple[int, ...]]:
    """What a pod with this one request has at least of such cards, and its levels; nothing if too few cards will do."""
    mine = only and only.of_container(request.container)
    each: list[int] = []
    for size, count in kinds:
        part = request.part_of(0, size)
        if part.memory <= size.memory and (mine is None or mine.of_model(size.model)):
            each += [request.count * _of_part(part, size)] * count
    each.sort()
    if mine is not None and mine.most_cards:
        each = [one for one in each if one <= mine.most_cards]
    if len(each) < request.count:
        return 0, (0,)
    return each[0], tuple(sorted(set(each[request.count - 1 :])))


def _of_several(requests: Sequence[CardRequest], sizes: Sequence[CardSize]) -> tuple[int, tuple[int]]:
    """The least and the most that a pod with these requests for cards of one resource has of such cards. Parts of
    several containers may be of one card, of which the larger sum counts then, or of several.
    """
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
    return least, (sum(worth for at, worth in enumerate(most) if at not in reused),)


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
        cards, indexed = 0, facts.cards.counts
        for name, count in pod_class.card_counts.items():
            if name in indexed or _offers(facts, name):
                cards += count
        return CARD * cards
    exact: dict[str, int] = {}
    for part in grant.parts:
        sizes = facts.cards.divided.get(part.resource, ())
        if part.index < len(sizes):
            exact[part.resource] = exact.get(part.resource, 0) + _of_part(part, sizes[part.index])
    return sum(exact.get(one.resource, one.levels[-1]) for one in _by_resource(pod_class, facts.card_layout))


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
