"""Which device a card of a node is, beside its index there: the UUID, where the node says it.

An index is the name of a card on its node, and another card may have it later: a device plugin counts anew, or a card
is exchanged. The record of what a pod was given has the UUIDs too, so that this is seen.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, CardPart, ContainerGrant
from t9ksched.model.node import NodeFacts

NAMED_BY_UUID: Final = frozenset({"HAMi"})
"""Layouts in which bindings name cards to the node by UUID: a pod has that device, whatever its index is now. In the
others they name an index, so that after a change a pod may have the device of before or the one of now.
"""


class CardIdentity(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A card as it was given: `index` on its node, and the UUID that this index had then."""

    resource: str
    index: int
    uuid: str


Identities = tuple[CardIdentity, ...]
"""Those of a pod's cards, in order; cards without a UUID are left out."""


def identities(table: CardTable, grant: CardGrant) -> Identities:
    """Which devices these cards are, as far as the node says it of its cards."""
    if not grant.parts:
        return ()
    known = ((part, _uuid(table, part.resource, part.index)) for part in grant.parts)
    return tuple(CardIdentity(part.resource, part.index, uuid) for part, uuid in known if uuid)


def strayed(facts: NodeFacts, devices: Identities) -> Iterator[CardIdentity]:
    """Those of the devices whose index another device has now, and that have none to be followed to."""
    for one in devices:
        if _uuid(facts.cards, one.resource, one.index) not in ("", one.uuid) and _place(facts, one) is None:
            yield one


def renumbered(facts: NodeFacts, grant: CardGrant, devices: Identities) -> tuple[CardGrant, Identities] | None:
    """The same devices under the indices that they have now; None where they have the same ones, or where one of them
    is not there or not known.
    """
    if all(_uuid(facts.cards, one.resource, one.index) == one.uuid for one in devices):
        return None
    places = {(one.resource, one.index): _place(facts, one) for one in devices}
    parts = []
    for part in grant.parts:
        place = places.get((part.resource, part.index))
        if place is None:
            return None
        parts.append(CardPart(part.resource, place, part.cores, part.memory, part.places))
    moved = CardGrant.of_parts(parts, (_moved(one, places) for one in grant.divided.given))
    return (moved | grant.undivided, identities(facts.cards, moved)) if len(moved.parts) == len(parts) else None


def _moved(given: ContainerGrant, places: Mapping[tuple[str, int], int | None]) -> ContainerGrant:
    container, resource, indices = given
    return (
        container,
        resource,
        tuple(sorted(place for at in indices if (place := places.get((resource, at))) is not None)),
    )


def _place(facts: NodeFacts, device: CardIdentity) -> int | None:
    """The index of a device now, where the node gives cards by UUID."""
    if facts.layout not in NAMED_BY_UUID:
        return None
    return _places(facts.cards.divided.get(device.resource, ())).get(device.uuid)


def _uuid(table: CardTable, resource: str, index: int) -> str:
    sizes = table.divided.get(resource, ())
    return sizes[index].uuid if index < len(sizes) else ""


@lru_cache(maxsize=1 << 14)
def _places(sizes: tuple[CardSize, ...]) -> dict[str, int]:
    return {size.uuid: index for index, size in enumerate(sizes) if size.uuid}
