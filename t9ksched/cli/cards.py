"""GPU cards on a terminal: one block a card, one colour an owner, and a legend of the owners.

Works without colour too: every owner then has a letter, and a free card is a dot.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

# Told apart on dark and light backgrounds alike; neighbours differ much, so that the first jobs are easy to tell.
COLOURS = (
    "dodger_blue1",
    "dark_orange",
    "green3",
    "medium_orchid",
    "gold3",
    "deep_pink2",
    "dark_cyan",
    "indian_red",
    "yellow4",
    "slate_blue1",
    "spring_green4",
    "light_coral",
)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Palette:
    """Gives each owner a colour and a letter, in order of appearance, and keeps them."""

    def __init__(self, coloured: bool) -> None:
        self.coloured = coloured
        self._order: dict[str, int] = {}

    def _index(self, owner: str) -> int:
        return self._order.setdefault(owner, len(self._order))

    def style(self, owner: str) -> str:
        """The owner's colour, empty when there are none."""
        return COLOURS[self._index(owner) % len(COLOURS)] if self.coloured else ""

    def mark(self, owner: str) -> Text:
        """One card of the owner: a coloured block, or the owner's letter where there is no colour."""
        if self.coloured:
            return Text("■", style=self.style(owner))
        return Text(LETTERS[self._index(owner) % len(LETTERS)])

    def free(self) -> Text:
        """One free card."""
        return Text("□", style="bright_black") if self.coloured else Text(".")

    def unknown(self) -> Text:
        """One card that may be held by a pod whose cards are unknown."""
        return Text("?", style="yellow") if self.coloured else Text("?")

    def broken(self) -> Text:
        """One card that takes no work: unhealthy or cordoned."""
        return Text("×", style="red") if self.coloured else Text("x")


def coloured(console: Console) -> bool:
    """Whether the console shows colours at all."""
    return console.color_system is not None and not console.no_color


def owner_of(holder: Mapping[str, Any]) -> str:
    """The owner of a card: the job of the holder's pod if the service names it, else the pod."""
    if holder.get("namespace") is None:
        return "another user's"
    return f"{holder.get('namespace')}/{holder.get('job') or 'Pod/' + str(holder.get('pod'))}"


def number(job: Mapping[str, Any]) -> str:
    """How many cards a job has or asks for: `8`, or `0.3` of one."""
    return f"{job.get('cards', job.get('gpus')) or 0:.10g}"


def draw(gpus: Iterable[Mapping[str, Any]], palette: Palette, *, unknown: bool = False) -> Text:
    """The cards of one node, in order of their index; with `unknown`, a pod may hold any of the free ones."""
    blocks = []
    for card in sorted(gpus, key=lambda item: item["index"]):
        holders = card.get("holders") or ()
        if holders:
            blocks.append(palette.mark(owner_of(holders[0])))
        elif card.get("healthy") is False or card.get("cordoned"):
            blocks.append(palette.broken())
        elif unknown:
            blocks.append(palette.unknown())
        else:
            blocks.append(palette.free())
    return Text(" ").join(blocks)


def legend(nodes: Iterable[Mapping[str, Any]], palette: Palette) -> list[Text]:
    """One entry per owner, with the number of cards that it holds or has a part of, largest first."""
    held: dict[str, int] = {}
    for node in nodes:
        for card in node.get("gpus") or ():
            for holder in card.get("holders") or ():
                owner = owner_of(holder)
                held[owner] = held.get(owner, 0) + 1
    ordered = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    return [Text.assemble(palette.mark(owner), f" {owner} ", (f"×{count}", "dim")) for owner, count in ordered]
