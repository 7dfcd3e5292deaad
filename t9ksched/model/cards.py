"""Cards as values: what a container asks for, which cards a node has, and which of them a pod was given.

A `CardRequest` says what one container wants of the cards of a resource; each kind of request is a class. A `CardTable`
has the cards of one node and decides what a request means there: one resource name stands for cards with indices on one
node, for parts of cards on the next, and for a plain number on another. A `CardGrant` is what a pod holds. How it keeps
cards inside (bit masks) is known to this file and to the columns of the engine (`engine/cards.py`) alone.

Where cards are divided, each has *counters*: cores in thousandths, memory in MiB, and places. A pod on such a node
charges the counters of each of its cards, and a whole card is all of them, so that whole cards and parts exclude each
other without a rule of their own. Counters have names like resources (`counter`), and the engine treats them so.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, Literal

import msgspec

from t9ksched.model.card_size import CORES, CardSize

MOST_INDEXED: Final = 64
"""Cards of one resource on one node that can have indices; where a node has more, all are counted by number."""

_ALL: Final = 100
"""Percent."""
ContainerKind = Literal["main", "init", "sidecar"]
ContainerGrant = tuple[str, str, tuple[int, ...]]
"""Container, resource, indices in ascending order."""


class CardPart(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """What a pod has of one card of a node that divides its cards: all of it, or a part.

    Attributes:
        cores: in thousandths; 0 reserves none, and runs only where some are left.
        memory: in MiB.
    """

    resource: str
    index: int
    cores: int
    memory: int


def counter(resource: str, index: int, what: Literal["cores", "memory", "places"]) -> str:
    """The name of a card's counter, by which columns of amounts have it. No resource of Kubernetes has such a name."""
    return f"{resource}#{index:02}/{what}"


class CardGrant(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Cards of one node by resource and index: those that a pod holds, or any other set of them. False when empty.

    Attributes:
        masks: resources in order, each with bit `i` set for the card of index `i`; those without a card are left out.
            Read by the columns of the engine alone: use the methods.
        parts: of its cards those on nodes that divide them, with what it has of each, in order.
    """

    masks: tuple[tuple[str, int], ...] = ()
    parts: tuple[CardPart, ...] = ()

    @staticmethod
    def of(cards: Mapping[str, Iterable[int]]) -> "CardGrant":
        """The cards with these indices, by resource."""
        return CardGrant.packed({resource: _mask(indices) for resource, indices in cards.items()})

    @staticmethod
    def of_containers(given: Iterable[tuple[str, str, Iterable[int]]]) -> "CardGrant":
        """All cards that containers have: container, resource, indices. Init containers may name the others' again."""
        masks: dict[str, int] = {}
        for _, resource, indices in given:
            masks[resource] = masks.get(resource, 0) | _mask(indices)
        return CardGrant.packed(masks)

    @staticmethod
    def packed(masks: Mapping[str, int], parts: Iterable[CardPart] = ()) -> "CardGrant":
        """From masks by resource, as the columns of the engine have them. Of `parts` those of its cards count."""
        kept = tuple(sorted(part for part in parts if masks.get(part.resource, 0) >> part.index & 1))
        return CardGrant(tuple(sorted((resource, mask) for resource, mask in masks.items() if mask)), kept)

    @staticmethod
    def of_parts(parts: Iterable[CardPart]) -> "CardGrant":
        """These parts of cards, one a card."""
        listed = list(parts)
        masks: dict[str, int] = {}
        for part in listed:
            masks[part.resource] = masks.get(part.resource, 0) | 1 << part.index
        return CardGrant.packed(masks, listed)

    def with_parts(self, parts: Iterable[CardPart]) -> "CardGrant":
        """The same cards, of which it has these parts only."""
        return CardGrant.packed(dict(self.masks), parts)

    def __bool__(self) -> bool:
        return bool(self.masks)

    def __or__(self, other: "CardGrant") -> "CardGrant":
        mine = dict(self.masks)
        masks = mine | {name: mask | mine.get(name, 0) for name, mask in other.masks}
        known = {(part.resource, part.index) for part in self.parts}
        new = (part for part in other.parts if (part.resource, part.index) not in known)
        return CardGrant.packed(masks, (*self.parts, *new))

    def __sub__(self, other: "CardGrant") -> "CardGrant":
        theirs = dict(other.masks)
        return CardGrant.packed({name: mask & ~theirs.get(name, 0) for name, mask in self.masks}, self.parts)

    def __and__(self, other: "CardGrant") -> "CardGrant":
        theirs = dict(other.masks)
        return CardGrant.packed({name: mask & theirs.get(name, 0) for name, mask in self.masks}, self.parts)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources of which it has cards, sorted."""
        return tuple(resource for resource, _ in self.masks)

    def indices(self, resource: str) -> tuple[int, ...]:
        """The indices of its cards of a resource, ascending."""
        return _indices(self._mask(resource))

    def count(self, resource: str) -> int:
        """How many cards of a resource it has."""
        return self._mask(resource).bit_count()

    def has(self, resource: str, index: int) -> bool:
        """Whether this card is one of them."""
        return bool(self._mask(resource) >> index & 1)

    def only(self, resources: Iterable[str]) -> "CardGrant":
        """Those of its cards that are of one of these resources."""
        kept = frozenset(resources)
        return CardGrant(
            tuple(pair for pair in self.masks if pair[0] in kept),
            tuple(part for part in self.parts if part.resource in kept),
        )

    def lowest(self, resource: str, count: int) -> "CardGrant":
        """The `count` cards of a resource with the lowest indices; all of them where there are fewer."""
        return CardGrant.packed({resource: _mask(self.indices(resource)[:count])}, self.parts)

    @property
    def undivided(self) -> "CardGrant":
        """Its cards on nodes that give whole cards; `divided` has the others."""
        return self - self.divided if self.parts else self

    @property
    def divided(self) -> "CardGrant":
        return CardGrant.of_parts(self.parts)

    @property
    def counters(self) -> Iterator[tuple[str, int]]:
        """What it charges of the counters of cards, by name."""
        for part in self.parts:
            yield counter(part.resource, part.index, "cores"), part.cores
            yield counter(part.resource, part.index, "memory"), part.memory
            yield counter(part.resource, part.index, "places"), 1

    def overlaps(self, other: "CardGrant") -> bool:
        """Whether both have a card in common of which not both have a part."""
        common = self & other
        if not common:
            return False
        ours, theirs = ({(part.resource, part.index) for part in one.parts} for one in (self, other))
        return any((name, index) not in ours & theirs for name in common.resources for index in common.indices(name))

    def split(self, requests: tuple["CardRequest", ...]) -> tuple[tuple["CardRequest", tuple[int, ...]], ...]:
        """Which request gets which of these cards, by index; requests for resources without a card are left out.

        Main containers and sidecars get cards of their own in the order of the requests. An init container runs before
        the main ones and uses cards that the pod holds anyway, except those of sidecars, which run already.
        """
        return _split(self, requests)

    def by_container(self, requests: tuple["CardRequest", ...]) -> tuple[ContainerGrant, ...]:
        """The same by container, as bindings and records name it."""
        return _by_container(self, requests)

    def __str__(self) -> str:
        """For people: `0,1 of nvidia.com/gpu`."""
        parts = [f"{','.join(map(str, self.indices(name)))} of {name}" for name in self.resources]
        return " and ".join(parts) or "no cards"

    def _mask(self, resource: str) -> int:
        return next((mask for name, mask in self.masks if name == resource), 0)


NO_CARDS: Final = CardGrant()
"""No cards, or cards whose indices are unknown."""


class CardRequest(ABC):
    """What one container asks of the cards of one resource. Requests are frozen values: a pod's class has them.

    A kind of request is a class with a row in `FORMS` (`card_forms.py`).

    Attributes:
        container: its name.
        resource: what its cards are called; the table of a node says whether they have indices there.
        count: cards of the node that it has a part in, or has whole.
        kind: main containers and sidecars hold cards of their own; an init container reuses theirs.
    """

    __slots__ = ()
    container: str
    resource: str
    count: int
    kind: ContainerKind

    @abstractmethod
    def choose(self, idle: CardGrant) -> CardGrant:
        """Which of these cards the container gets."""

    @abstractmethod
    def part_of(self, index: int, size: "CardSize") -> CardPart:
        """What it means on a divided card of this size."""


@dataclass(frozen=True, slots=True)
class WholeCards(CardRequest):
    """Whole cards: nothing else uses them meanwhile. Those with the lowest indices are given first."""

    container: str
    resource: str
    count: int
    kind: ContainerKind = "main"

    def choose(self, idle: CardGrant) -> CardGrant:
        return idle.lowest(self.resource, self.count)

    def part_of(self, index: int, size: "CardSize") -> CardPart:
        return CardPart(self.resource, index, CORES, size.memory)


@dataclass(frozen=True, slots=True)
class SharedCards(CardRequest):
    """A part of each of some cards, which are different ones. On a node that does not divide its cards it gets whole
    ones, of which each must have the memory.

    Attributes:
        cores: in thousandths of each card; 0 reserves none.
        memory: in units (`CardSize`) on each card, or where that is 0,
        memory_percent: of each card's memory.
        implied: the container names no number of cards: only nodes of HAMi take that for one.
        form: says in JSON what kind of request it is, see `FORMS`.
    """

    container: str
    resource: str
    count: int
    kind: ContainerKind = "main"
    cores: int = 0
    memory: int = 0
    memory_percent: int = 0
    implied: bool = False
    form: Literal["shared"] = field(default="shared", init=False, repr=False)

    def choose(self, idle: CardGrant) -> CardGrant:
        return idle.lowest(self.resource, self.count)

    def part_of(self, index: int, size: "CardSize") -> CardPart:
        if self.cores >= CORES:
            return CardPart(self.resource, index, CORES, size.memory)
        percent = self.memory_percent or _ALL
        memory = self.memory * size.unit or -(-size.memory * percent // _ALL)
        return CardPart(self.resource, index, self.cores, memory)


@dataclass(frozen=True)
class CardTable:
    """The cards of one node that have indices. False when there are none.

    Attributes:
        counts: how many there are, by resource; indices count from 0.
        withdrawn: cards that take no work (cordoned or unhealthy).
        divided: of resources of which parts are given, the size of each card, by index.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    withdrawn: CardGrant = NO_CARDS
    divided: Mapping[str, tuple[CardSize, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __contains__(self, resource: str) -> bool:
        return resource in self.counts

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources whose cards have indices here, sorted."""
        return tuple(sorted(self.counts))

    @cached_property
    def all(self) -> CardGrant:
        """Every card that there is."""
        return CardGrant.packed({resource: (1 << count) - 1 for resource, count in self.counts.items()})

    @cached_property
    def usable(self) -> CardGrant:
        """The cards that take work."""
        return self.all - self.withdrawn

    def memory(self, resource: str, index: int) -> int | None:
        """MiB of a card, where cards of this resource are divided."""
        sizes = self.divided.get(resource, ())
        return sizes[index].memory if index < len(sizes) else None

    def model(self, resource: str, index: int) -> str:
        """The model of a card, where cards of this resource are divided; empty where it is not known."""
        sizes = self.divided.get(resource, ())
        return sizes[index].model if index < len(sizes) else ""

    @cached_property
    def counters(self) -> Mapping[str, int]:
        """What the divided cards have, by the names of their counters. Withdrawn ones have nothing."""
        found: dict[str, int] = {}
        for resource, sizes in self.divided.items():
            for index, size in enumerate(sizes):
                usable = not self.withdrawn.has(resource, index)
                found[counter(resource, index, "cores")] = size.cores if usable else 0
                found[counter(resource, index, "memory")] = size.memory if usable else 0
                found[counter(resource, index, "places")] = size.places if usable else 0
        return found

    def carries(self, grants: Iterable[CardGrant]) -> bool:
        """Whether its divided cards are large enough for all of these at once, be they withdrawn or not."""
        left = dict(CardTable(self.counts, divided=self.divided).counters)
        for grant in grants:
            for name, amount in grant.counters:
                left[name] = left.get(name, 0) - amount
        return min(left.values(), default=0) >= 0

    def divide(self, requests: Iterable[CardRequest], grant: CardGrant) -> CardGrant:
        """What these cards are for a pod with these requests: parts, of resources whose cards are divided here."""
        if not self.divided:
            return grant
        asked = {request.resource: request for request in requests}
        parts = [
            asked[resource].part_of(index, self.divided[resource][index])
            for resource in grant.resources
            if resource in self.divided and resource in asked
            for index in grant.indices(resource)
            if index < len(self.divided[resource])
        ]
        return grant.with_parts(parts)

    def covers(self, grant: CardGrant) -> bool:
        """Whether the node has all of these cards."""
        return not grant - self.all

    def indexed(self, request: CardRequest) -> bool:
        """Whether the request means cards with indices here; else what it asks for is counted by number."""
        return request.resource in self.counts


def _mask(indices: Iterable[int]) -> int:
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


@lru_cache(maxsize=1 << 14)
def _indices(mask: int) -> tuple[int, ...]:
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


@lru_cache(maxsize=1 << 16)
def _split(held: CardGrant, requests: tuple[CardRequest, ...]) -> tuple[tuple[CardRequest, tuple[int, ...]], ...]:
    given: dict[int, CardGrant] = {}
    idle, running = held, NO_CARDS
    for at, request in enumerate(requests):
        if request.kind != "init":
            given[at] = request.choose(idle)
            idle = idle - given[at]
    for at, request in enumerate(requests):
        if request.kind == "sidecar":
            running = running | given[at]
        elif request.kind == "init":
            given[at] = request.choose(held - running)
    return tuple(
        (request, given[at].indices(request.resource))
        for at, request in enumerate(requests)
        if request.resource in held.resources
    )


@lru_cache(maxsize=1 << 16)
def _by_container(held: CardGrant, requests: tuple[CardRequest, ...]) -> tuple[ContainerGrant, ...]:
    return tuple((request.container, request.resource, indices) for request, indices in held.split(requests))
