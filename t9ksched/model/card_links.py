"""How well the cards of a node are linked with each other, as its annotation `gpu-links` says.

The annotation is a JSON matrix with a row for each card, in order of indices. An entry is a whole number, larger for a
better link, or a name as `nvidia-smi topo -m` prints it (`WEIGHTS`). What cannot be read is a fault in words, and the
cards stay usable as without links.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from t9ksched.model.cards import MOST_INDEXED
from t9ksched.model.names import GPU_LINKS_ANNOTATION
from t9ksched.model.whole import whole_number

SELF: Final = "X"
WEIGHTS: Final[Mapping[str, int]] = {"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50}
"""What the names of paths over PCIe weigh; `NV#` weighs `NVLINK` for each of its bonded links."""
NVLINK: Final = 100
MOST_WEIGHT: Final = 1_000_000
_MOST_NVLINKS: Final = 999
_QUOTED: Final = 24
_KNOWN: Final = 256
"""Nodes of one model have the same text: so many different ones are read once."""


class CardLinks(msgspec.Struct, frozen=True, dict=True):
    """The links between the cards of a node.

    Attributes:
        entries: for each pair of cards the link as it was written, in order of indices, both ways; shape
            (cards, cards). What stands for a card and itself means nothing.
    """

    entries: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def weights(self) -> tuple[tuple[int, ...], ...]:
        """What the links weigh, 0 for a card and itself. Where both ways differ the smaller one counts."""
        found = [[_weight(entry) or 0 for entry in row] for row in self.entries]
        cards = range(len(found))
        return tuple(tuple(0 if a == b else min(found[a][b], found[b][a]) for b in cards) for a in cards)

    def told(self, cards: tuple[int, ...]) -> str:
        """How these cards are linked, for people: `NV12`, or `SYS to NV12` from the worst link to the best. Empty for
        less than two.
        """
        pairs = {(self.weights[a][b], self._entry(a, b)) for a in cards for b in cards if a < b}
        if not pairs:
            return ""
        worst, best = min(pairs)[1], max(pairs)[1]
        return worst if worst == best else f"{worst} to {best}"

    def _entry(self, a: int, b: int) -> str:
        """The worse one of both ways."""
        there, back = self.entries[a][b], self.entries[b][a]
        return back if (_weight(back) or 0) < (_weight(there) or 0) else there


def _weight(entry: str) -> int | None:
    """None where it is neither a name nor a number within bounds."""
    if entry in WEIGHTS:
        return WEIGHTS[entry]
    if entry.startswith("NV"):
        links = whole_number(entry[2:])
        return None if not links or links > _MOST_NVLINKS else NVLINK * links
    number = whole_number(entry)
    return None if number is None or number > MOST_WEIGHT else number


@lru_cache(maxsize=_KNOWN)
def parse_links(text: str) -> CardLinks:
    """The links that a text describes.

    Raises:
        ValueError: it describes none; the message has the place, `[row][column]`.
    """
    try:
        rows = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(rows, list) or not rows:
        raise ValueError("must be a matrix: a list with a row for each card")
    if len(rows) > MOST_INDEXED:
        raise ValueError(f"has {len(rows)} rows: of more than {MOST_INDEXED} cards none has an index")
    for at, row in enumerate(rows):
        if not isinstance(row, list):
            raise ValueError(f"[{at}] must be a row: a list with an entry for each card")
        if len(row) != len(rows):
            raise ValueError(f"is not square: it has {len(rows)} rows, and [{at}] has {len(row)} entries")
    return CardLinks(tuple(tuple(_entry(value, at, to) for to, value in enumerate(row)) for at, row in enumerate(rows)))


def _entry(value: Any, at: int, to: int) -> str:
    """An entry as text. Raises ValueError."""
    where, shown = f"[{at}][{to}]", msgspec.json.encode(value).decode()[:_QUOTED]
    if at == to and value == SELF:
        return SELF
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{where} is {shown}: use whole numbers from 0 to {MOST_WEIGHT}, or names of links")
    if isinstance(value, int):
        if not 0 <= value <= MOST_WEIGHT:
            raise ValueError(f"{where} is {shown}: use whole numbers from 0 to {MOST_WEIGHT}")
        return str(value)
    if value == SELF:
        raise ValueError(f"{where} is {shown}, which stands for a card and itself: these are two cards")
    if value.isdecimal() or _weight(value) is None:
        raise ValueError(
            f"{where} is {shown}: use NV1 to NV{_MOST_NVLINKS}, {', '.join(reversed(list(WEIGHTS)))}, or numbers"
        )
    return value


def links_of(annotations: Mapping[str, str], cards: Mapping[str, int]) -> tuple[CardLinks | None, str]:
    """The links that annotations of a node name for its cards, by resource how many have indices; and what is wrong
    with them, naming the annotation: then there are none.
    """
    text = annotations.get(GPU_LINKS_ANNOTATION)
    if text is None:
        return None, ""
    try:
        links = parse_links(text)
    except ValueError as error:
        return None, f"{GPU_LINKS_ANNOTATION} {error}"
    if not cards or len(links) in cards.values():
        return (links if cards else None), ""
    there = ", ".join(f"{count} of {resource}" for resource, count in sorted(cards.items()))
    return None, f"{GPU_LINKS_ANNOTATION} has {len(links)} rows: the node has {there}"
