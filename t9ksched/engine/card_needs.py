"""What pods need of divided cards, by card resource: as much of each of some cards (`PartNeed`), or parts for several
containers (`SlotNeed`).
"""

from collections.abc import Iterable, Mapping, Sequence

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.card_parts import DividedCards, PartNeed
from t9ksched.engine.card_slots import SlotNeed
from t9ksched.engine.cards import Share, granted
from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, CardRequest

CardNeed = PartNeed | SlotNeed
CardNeeds = Sequence[CardNeed | None]
"""What the pods of a class need of divided cards, by card resource: as `part_needs` gives it."""


def divided_cards(tables: Sequence[CardTable], rows: Mapping[str, int], allocatable: Int64s) -> dict[str, DividedCards]:
    """The resources of which some node divides cards. `rows` has the counters' rows of `allocatable`."""
    resources = sorted({resource for table in tables for resource in table.divided})
    return {resource: DividedCards(resource, tables, rows, allocatable) for resource in resources}


def part_needs(
    divided: Mapping[str, DividedCards],
    counts: Mapping[str, int],
    requests: Sequence[CardRequest],
    only: CardFilter | None = None,
) -> tuple[CardNeed | None, ...]:
    """What a class needs of divided cards, one for each card resource in `counts`; None where no node divides it."""
    asked: dict[str, list[CardRequest]] = {}
    for request in requests:
        asked.setdefault(request.resource, []).append(request)
    return tuple(_need(divided[name], tuple(asked[name]), only) if name in divided else None for name in counts)


def _need(of: DividedCards, requests: tuple[CardRequest, ...], only: CardFilter | None) -> CardNeed:
    if len(requests) == 1:
        return of.need(requests[0].count, requests[0], only and only.of_container(requests[0].container))
    return of.slots(requests, only, lambda: SlotNeed(of, requests, only))


def take_parts(needs: CardNeeds, left: Int64s, row: int, pods: int) -> list[Share]:
    """Take parts of divided cards for pods on a node, from its column, a view that is written to; returns the share of
    each pod, without cards that are not divided. A share has too few where they do not fit.
    """
    by_resource = [
        list(need.take(left, row, pods)) if need is not None and need.on(row) else [0] * pods for need in needs
    ]
    return list(zip(*by_resource, strict=True))


def complete(needs: CardNeeds, row: int, share: Share) -> bool:
    """Whether a share has as many divided cards of a node as these needs, one a card resource, are of."""
    return all(need is None or not need.on(row) or need.complete(mask) for need, mask in zip(needs, share, strict=True))


def grant_of(needs: CardNeeds, names: Sequence[str], row: int, share: Share) -> CardGrant:
    """The cards of a pod with this share of a node that divides some; `names` are the card resources of its class."""
    mine = [(need, one) for need, one in zip(needs, share, strict=True) if need is not None and need.on(row)]
    parts = [part for need, one in mine for part in need.parts(row, one)]
    slotted = [(need, one) for need, one in mine if isinstance(need, SlotNeed)]
    if not slotted:
        return granted(names, share).with_parts(parts)
    masks = {need.of.resource: need.mask(one) for need, one in slotted}
    own = tuple(masks.get(name, one) for name, one in zip(names, share, strict=True))
    return granted(names, own).with_parts(parts, [which for need, one in slotted for which in need.given(one)])


def move_parts(
    needs: CardNeeds, left: Int64s, row: int, shares: Iterable[Share], sign: int, held: bool = False
) -> None:
    """Take the divided cards of these shares of a node from its column (sign 1), or give them back (-1)."""
    for share in shares:
        for need, mask in zip(needs, share, strict=True):
            if need is not None and need.on(row):
                need.move(left, row, mask, sign, held)
