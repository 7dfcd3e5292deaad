"""The cards of one node, and what requests for cards mean there: one resource name stands for cards with indices on one
node, for parts of cards on the next, and for a plain number on another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from t9ksched.model.card_peak import peak
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart, CardRequest, ContainerGrant, counter


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
        return CardGrant.of({resource: range(count) for resource, count in self.counts.items()})

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

    def divide(self, requests: tuple[CardRequest, ...], grant: CardGrant) -> CardGrant:
        """What these cards are for a pod with these requests: parts, of resources whose cards are divided here. Which
        container has which follows from the requests where the grant does not say it.
        """
        if not self.divided:
            return grant.bare if grant.parts or grant.given else grant
        parts: list[CardPart] = []
        given: list[ContainerGrant] = []
        shares = grant.split(requests)
        for resource in grant.resources:
            sizes = self.divided.get(resource, ())
            mine = [(request, at) for request, at in shares if request.resource == resource]
            if len(mine) > 1 and sizes:
                parts += peak([(one.kind, _parts(one, at, sizes)) for one, at in mine])
                given += [(request.container, resource, at) for request, at in mine]
            elif mine:
                ((request, _),) = mine
                parts += _parts(request, grant.indices(resource), sizes)
        return grant.with_parts(parts, given)

    def covers(self, grant: CardGrant) -> bool:
        """Whether the node has all of these cards."""
        return grant.within(self.all)

    def indexed(self, request: CardRequest) -> bool:
        """Whether the request means cards with indices here; else what it asks for is counted by number."""
        return request.resource in self.counts

    def index_any(self, requests: Iterable[CardRequest]) -> bool:
        """Whether one of the requests does."""
        counts = self.counts
        for request in requests:  # noqa: SIM110 - asked of every placed pod: `any` takes twice as long
            if request.resource in counts:
                return True
        return False


def _parts(request: CardRequest, indices: Iterable[int], sizes: Sequence[CardSize]) -> list[CardPart]:
    """What a request gets of these cards, those that are not there left out."""
    return [request.part_of(at, sizes[at]) for at in indices if at < len(sizes)]
