"""Cards as values: what a container asks for, and which cards a pod was given.

A `CardRequest` says what one container wants of the cards of a resource; each kind of request is a class. A `CardTable`
(`card_table.py`) has the cards of one node and decides what a request means there. A `CardGrant` is what a pod holds.
How it keeps cards inside (bit masks) is known to this file and to the columns of the engine (`engine/cards.py`) alone.

Where cards are divided, each has *counters*: cores in thousandths, memory in MiB, and places. A pod on such a node
charges the counters of each of its cards, and a whole card is all of them, so that whole cards and parts exclude each
other without a rule of their own. Counters have names like resources (`counter`), and the engine treats them so.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
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
        places: containers that are there at one moment, at most.
    """

    resource: str
    index: int
    cores: int
    memory: int
    places: int = 1


def counter(resource: str, index: int, what: Literal["cores", "memory", "places"]) -> str:
    """The name of a card's counter, by which columns of amounts have it. No resource of Kubernetes has such a name."""
    return f"{resource}#{index:02}/{what}"


class CardGrant(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Cards of one node by resource and index: those that a pod holds, or any other set of them. False when empty.

    Attributes:
        masks: resources in order, each with bit `i` set for the card of index `i`; those without a card are left out.
            Read by the columns of the engine alone: use the methods.
        parts: of its cards those on nodes that divide them, with what it has of each, in order.
        given: which containers have which of its cards where that does not follow from their requests: several have
            parts of cards of a resource, maybe of the same ones. In the order of the requests.
    """

    masks: tuple[tuple[str, int], ...] = ()
    parts: tuple[CardPart, ...] = ()
    given: tuple[ContainerGrant, ...] = ()

    @staticmethod
    def of(cards: Mapping[str, Iterable[int]]) -> "CardGrant":
        """The cards with these indices, by resource."""
        return CardGrant.packed({resource: _mask(indices) for resource, indices in cards.items()})

    @staticmethod
    def of_containers(given: Iterable[tuple[str, str, Iterable[int]]]) -> "CardGrant":
        """All cards that containers have: container, resource, indices. Several may name the same card."""
        listed = [(container, resource, tuple(indices)) for container, resource, indices in given]
        masks: dict[str, int] = {}
        times: dict[str, int] = {}
        for _, resource, indices in listed:
            masks[resource] = masks.get(resource, 0) | _mask(indices)
            times[resource] = times.get(resource, 0) + 1
        return CardGrant.packed(masks, (), [one for one in listed if times[one[1]] > 1])

    @staticmethod
    def packed(
        masks: Mapping[str, int], parts: Iterable[CardPart] = (), given: Iterable[ContainerGrant] = ()
    ) -> "CardGrant":
        """From masks by resource, as the columns of the engine have them. Of `parts` those of its cards count."""
        kept = tuple(sorted(part for part in parts if masks.get(part.resource, 0) >> part.index & 1))
        whole = tuple(sorted((resource, mask) for resource, mask in masks.items() if mask))
        return CardGrant(whole, kept, tuple(one for one in given if masks.get(one[1])) if given else ())

    @staticmethod
    def of_parts(parts: Iterable[CardPart], given: Iterable[ContainerGrant] = ()) -> "CardGrant":
        """These parts of cards, one a card."""
        listed = list(parts)
        masks: dict[str, int] = {}
        for part in listed:
            masks[part.resource] = masks.get(part.resource, 0) | 1 << part.index
        return CardGrant.packed(masks, listed, given)

    def with_parts(self, parts: Iterable[CardPart], given: Iterable[ContainerGrant] | None = None) -> "CardGrant":
        """The same cards, of which it has these parts only; `given` as before where it is left out."""
        return CardGrant.packed(dict(self.masks), parts, self.given if given is None else given)

    @property
    def bare(self) -> "CardGrant":
        """The same cards, without what is known of parts and containers."""
        return CardGrant(self.masks)

    def __bool__(self) -> bool:
        return bool(self.masks)

    def __or__(self, other: "CardGrant") -> "CardGrant":
        mine = dict(self.masks)
        masks = mine | {name: mask | mine.get(name, 0) for name, mask in other.masks}
        known = {(part.resource, part.index) for part in self.parts}
        new = (part for part in other.parts if (part.resource, part.index) not in known)
        return CardGrant.packed(masks, (*self.parts, *new), dict.fromkeys((*self.given, *other.given)))

    def __sub__(self, other: "CardGrant") -> "CardGrant":
        theirs = dict(other.masks)
        return CardGrant.packed({name: mask & ~theirs.get(name, 0) for name, mask in self.masks}, self.parts)

    def __and__(self, other: "CardGrant") -> "CardGrant":
        theirs = dict(other.masks)
        return CardGrant.packed({name: mask & theirs.get(name, 0) for name, mask in self.masks}, self.parts)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources of which it has cards, sorted."""
        return tuple([resource for resource, _ in self.masks])

    def indices(self, resource: str) -> tuple[int, ...]:
        """The indices of its cards of a resource, ascending."""
        return _indices(self._mask(resource))

    def count(self, resource: str) -> int:
        """How many cards of a resource it has."""
        for name, mask in self.masks:
            if name == resource:
                return mask.bit_count()
        return 0

    def has(self, resource: str, index: int) -> bool:
        """Whether this card is one of them."""
        return bool(self._mask(resource) >> index & 1)

    def within(self, other: "CardGrant") -> bool:
        """Whether all of its cards are among these."""
        theirs = dict(other.masks)
        return not any(mask & ~theirs.get(name, 0) for name, mask in self.masks)

    def only(self, resources: Iterable[str]) -> "CardGrant":
        """Those of its cards that are of one of these resources."""
        kept = frozenset(resources)
        return CardGrant(
            tuple(pair for pair in self.masks if pair[0] in kept),
            tuple(part for part in self.parts if part.resource in kept),
            tuple(one for one in self.given if one[1] in kept),
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
        return CardGrant.of_parts(self.parts, self.given)

    @property
    def counters(self) -> Iterator[tuple[str, int]]:
        """What it charges of the counters of cards, by name."""
        for part in self.parts:
            yield counter(part.resource, part.index, "cores"), part.cores
            yield counter(part.resource, part.index, "memory"), part.memory
            yield counter(part.resource, part.index, "places"), part.places

    def overlaps(self, other: "CardGrant") -> bool:
        """Whether both have a card in common of which not both have a part."""
        common = self & other
        if not common:
            return False
        ours, theirs = ({(part.resource, part.index) for part in one.parts} for one in (self, other))
        return any((name, index) not in ours & theirs for name in common.resources for index in common.indices(name))

    def split(self, requests: tuple["CardRequest", ...]) -> tuple[tuple["CardRequest", tuple[int, ...]], ...]:
        """Which request gets which of these cards, by index; requests for resources without a card are left out.

        Where the grant does not name them (`given`), main containers and sidecars get cards of their own in the order
        of the requests. An init container runs before the main ones and uses cards that the pod holds anyway, except
        those of sidecars, which run already.
        """
        return _split(self, requests)

    def by_container(self, requests: tuple["CardRequest", ...]) -> tuple[ContainerGrant, ...]:
        """The same by container, as bindings and records name it."""
        return _by_container(self, requests)

    def __str__(self) -> str:
        """For people: `0,1 of nvidia.com/gpu`."""
        parts = [f"{','.join(map(str, self.indices(name)))} of {name}" for name in self.resources]
        return " and ".join(parts) or "no cards"

    def beyond(self, counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        """Resource and index of cards beyond so many of their resource; of a resource that is not named, none."""
        found: list[tuple[str, int]] = []
        for resource, mask in self.masks:
            count = counts.get(resource)
            if count is not None and mask >> count:
                found += [(resource, index) for index in _indices(mask) if index >= count]
        return tuple(found)

    def _mask(self, resource: str) -> int:
        for name, mask in self.masks:
            if name == resource:
                return mask
        return 0


NO_CARDS: Final = CardGrant()
"""No cards, or cards whose indices are unknown."""


def are_disjoint(grants: Iterable[CardGrant]) -> bool:
    """Whether no card is in two of these."""
    seen: dict[str, int] = {}
    for grant in grants:
        for resource, mask in grant.masks:
            before = seen.get(resource, 0)
            if before & mask:
                return False
            seen[resource] = before | mask
    return True


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
    if held.given:
        named = {(container, resource): indices for container, resource, indices in held.given}
        others = tuple(one for one in requests if (one.container, one.resource) not in named)
        found = dict(_split(CardGrant(held.masks), others))
        known = ((one, named.get((one.container, one.resource))) for one in requests)
        found |= {one: indices for one, indices in known if indices is not None}
        return tuple((one, found[one]) for one in requests if one in found)
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
