"""The device plugins of a simulated node: which card each container really gets.

On an `honours-index` node a container with the annotation `scheduler.tensorstack.dev/gpu-index-container-<name>` gets
exactly the cards it names; containers without it (foreign pods) get free cards from the highest index down, never one
that a pod bound here has been promised. On a `plugin-chooses` node the plugin takes the lowest free cards whatever
annotations say, as the stock device plugin does. Indices count from 0 for each resource. What was given is
recorded on the pod as `devcluster.tensorstack.dev/cards-container-<name>`, unless it is just what our annotation asked
of a node that honours it. On a pod that another scheduler placed, the index annotation is written too, so that this
scheduler learns which cards are taken.
"""

from collections.abc import Iterable, Mapping

import msgspec

from t9ksched.devcluster.names import CARDS_GIVEN_PREFIX
from t9ksched.model.cards import CardRequest
from t9ksched.model.names import GPU_INDEX_PREFIX
from t9ksched.model.whole import whole_number

Given = dict[str, dict[str, tuple[int, ...]]]
"""Cards by container, then by resource."""


class CardsRefused(Exception):
    """The node cannot give the cards that a pod asks for; the text says which and why."""


class Rack(msgspec.Struct):
    """The cards of one resource of a node: how many there are, which pod holds which, and which are promised."""

    count: int = 0
    holders: dict[int, str] = msgspec.field(default_factory=dict)
    promised: dict[int, str] = msgspec.field(default_factory=dict)
    """By pods that are bound but not admitted yet."""


def parse_indices(text: str) -> tuple[int, ...]:
    """Card indices from an annotation such as `"0,3"`.

    Raises:
        CardsRefused: it cannot be read, or names a card twice.
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = [whole_number(part) for part in parts]
    indices = tuple(number for number in numbers if number is not None)
    if len(indices) != len(parts):
        raise CardsRefused(f"{text!r} is not a list of card indices such as '0,3'")
    if len(set(indices)) != len(indices):
        raise CardsRefused(f"{text!r} names a card twice")
    return indices


def _split(wanted: Iterable[CardRequest], indices: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """One container's indices by resource, resources in the order in which the container's cards are listed."""
    shares: dict[str, tuple[int, ...]] = {}
    start = 0
    for cards in wanted:
        shares[cards.resource] = indices[start : start + cards.count]
        start += cards.count
    return shares


def written(annotations: Mapping[str, str], wanted: Iterable[CardRequest], prefix: str) -> Given:
    """What annotations with that prefix say about the containers that ask for cards.

    Raises:
        CardsRefused: one cannot be read, or its number of cards is not what the container asks for.
    """
    by_container: dict[str, list[CardRequest]] = {}
    for cards in wanted:
        by_container.setdefault(cards.container, []).append(cards)
    found: Given = {}
    for container, asked in by_container.items():
        text = annotations.get(prefix + container)
        if text is None:
            continue
        indices = parse_indices(text)
        total = sum(cards.count for cards in asked)
        if len(indices) != total:
            raise CardsRefused(f"container {container} asks for {total} cards and is annotated with {text!r}")
        found[container] = _split(asked, indices)
    return found


def requested(annotations: Mapping[str, str], wanted: Iterable[CardRequest]) -> Given:
    """What the scheduler's annotations ask for; errors as in `written`."""
    return written(annotations, wanted, GPU_INDEX_PREFIX)


def recorded(annotations: Mapping[str, str], wanted: Iterable[CardRequest]) -> Given:
    """What a running pod holds: as recorded, else as requested. Unreadable texts count as absent."""
    wanted = tuple(wanted)
    found: Given = {}
    for prefix in (GPU_INDEX_PREFIX, CARDS_GIVEN_PREFIX):
        for container in dict.fromkeys(cards.container for cards in wanted):
            own = [cards for cards in wanted if cards.container == container]
            try:
                found.update(written(annotations, own, prefix))
            except CardsRefused:
                continue
    return found


def annotations_for(given: Given, request: Given, prefix: str = CARDS_GIVEN_PREFIX) -> dict[str, str]:
    """What to record on the pod: the cards of each container that differ from what was requested."""
    return {
        prefix + container: ",".join(str(index) for indices in cards.values() for index in indices)
        for container, cards in given.items()
        if request.get(container) != cards
    }


def announced(given: Given, annotations: Mapping[str, str]) -> dict[str, str]:
    """The index annotations of a pod that another scheduler placed: its cards, where no annotation names some."""
    told = annotations_for(given, {}, GPU_INDEX_PREFIX)
    return {key: text for key, text in told.items() if key not in annotations}


def give(racks: Mapping[str, Rack], uid: str, wanted: tuple[CardRequest, ...], request: Given, honours: bool) -> Given:
    """Choose the cards of a pod and mark them as held by `uid`.

    Main containers and sidecars hold cards of their own; init containers run before them and reuse the pod's, taking
    more only where they need more.

    Raises:
        CardsRefused: a requested card is not on the node or taken, or too few are free; nothing is marked then.
    """
    mine: dict[str, set[int]] = {}
    given: Given = {}
    phases = ([cards for cards in wanted if cards.kind != "init"], [cards for cards in wanted if cards.kind == "init"])
    for number, phase in enumerate(phases):
        for asked_only in (True, False):  # what is named comes first, the rest takes what is left
            for cards in phase:
                named = request.get(cards.container, {}).get(cards.resource) if honours else None
                if (named is not None) is not asked_only:
                    continue
                rack = racks.get(cards.resource, Rack())
                own = mine.setdefault(cards.resource, set())
                reusable = own if number else set()
                if named is not None:
                    _check(rack, uid, cards, named, own - reusable)
                    chosen = named
                else:
                    chosen = _choose(rack, uid, cards, own, reusable, honours)
                own.update(chosen)
                given.setdefault(cards.container, {})[cards.resource] = chosen
    for resource, own in mine.items():
        for index in own:
            racks[resource].holders[index] = uid
    return given


def _check(rack: Rack, uid: str, cards: CardRequest, named: tuple[int, ...], own: set[int]) -> None:
    for index in named:
        if index >= rack.count:
            raise CardsRefused(f"card {index} of {cards.resource} is not on this node, which has {rack.count}")
        if rack.holders.get(index, uid) != uid or index in own:
            raise CardsRefused(f"card {index} of {cards.resource} is taken already (container {cards.container})")


def _choose(
    rack: Rack, uid: str, cards: CardRequest, own: set[int], reusable: set[int], honours: bool
) -> tuple[int, ...]:
    first = sorted(reusable)
    free = [
        index
        for index in range(rack.count)
        if index not in rack.holders and index not in own and (not honours or rack.promised.get(index, uid) == uid)
    ]
    chosen = (first + (free[::-1] if honours else free))[: cards.count]
    if len(chosen) < cards.count:
        raise CardsRefused(
            f"container {cards.container} asks for {cards.count} of {cards.resource}:"
            f" {len(chosen)} of {rack.count} are free"
        )
    return tuple(sorted(chosen))


def release(racks: Mapping[str, Rack], uid: str) -> None:
    """Give back whatever a pod holds or was promised."""
    for rack in racks.values():
        for owners in (rack.holders, rack.promised):
            for index in [index for index, owner in owners.items() if owner == uid]:
                del owners[index]
