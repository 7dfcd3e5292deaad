"""Bars on a time axis for terminals: what has room from when to when.

Kinds of bars differ in their characters as well as in their colours (of the palette of Okabe and Ito, which people with
any colour vision tell apart), so they can be read without colour. Without colour the characters are ASCII.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from rich.text import Text

from t9ksched.cli.messages import word


class Bar(StrEnum):
    """What a bar stands for."""

    RUNNING = "running"
    PLANNED = "planned start"
    TENTATIVE = "planned start, tentative"
    RESERVED = "reserved"


# For each kind: the character on a terminal with colours, the one without, the colour.
_LOOKS: Final = {
    Bar.RUNNING: ("█", "#", "#0072b2"),
    Bar.PLANNED: ("▒", "+", "#e69f00"),
    Bar.TENTATIVE: ("░", "-", "#f0e442"),
    Bar.RESERVED: ("╱", "/", "#cc79a7"),
}
_OPEN: Final = ("▶", ">")
"""The last character of a bar for which no end is known."""
_MINUTES: Final = (1, 5, 15, 30, 60, 120, 180, 360, 720)
_DAYS: Final = (1, 2, 4, 7, 14, 28, 56)
_STEPS: Final = (*(timedelta(minutes=step) for step in _MINUTES), *(timedelta(days=step) for step in _DAYS))
_LABEL: Final = 8
"""Characters that a label of the axis needs, with the space behind it."""


class Axis:
    """`cells` characters from one moment to another, labelled with the wall-clock time of a zone.

    Args:
        zone: the zone of the labels; None for that of this machine.
    """

    def __init__(
        self, start: datetime, end: datetime, cells: int, *, coloured: bool, zone: tzinfo | None = None
    ) -> None:
        self._start, self._end, self._cells = start, end, cells
        self._cell = (end - start) / cells
        self._coloured = coloured
        self._zone = zone

    def local(self, moment: datetime) -> datetime:
        """The moment on the wall clock of the zone."""
        return moment.astimezone(self._zone)

    def labels(self) -> str:
        """The axis: a time above the cell in which it lies, as often as there is room."""
        step = next((step for step in _STEPS if step / self._cell >= _LABEL), _STEPS[-1])
        local = self.local(self._start)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        tick = midnight + step * -(-(local - midnight) // step)
        line = ""
        while (cell := int((tick.astimezone(UTC) - self._start) / self._cell)) <= self._cells - _LABEL + 2:
            line = line.ljust(cell) + self._label(self.local(tick), whole_days=step >= timedelta(days=1))
            tick += step
        return line

    @staticmethod
    def _label(tick: datetime, *, whole_days: bool) -> str:
        return f"{tick:%b} {tick.day}" if whole_days or (tick.hour, tick.minute) == (0, 0) else f"{tick:%H:%M}"

    def bar(self, kind: Bar, since: datetime | None, until: datetime | None) -> Text:
        """The bar from one moment to another, at least a character wide; `until` None is open-ended."""
        first = 0 if since is None else min(max(0, int((since - self._start) / self._cell)), self._cells - 1)
        if until is None:
            last = self._cells
        else:  # the cell in which it ends is part of it
            last = min(max(first + 1, -int((self._start - until) // self._cell)), self._cells)
        there = self._mark(kind) * (last - first)
        if until is None:
            there = there[:-1] + _OPEN[not self._coloured]
        style = _LOOKS[kind][2] if self._coloured else ""
        return Text.assemble(" " * first, (there, style))

    def bars(self, kind: Bar, spans: Iterable[tuple[datetime | None, datetime | None]]) -> Text:
        """Several bars of a kind in one line, in the order of time."""
        line = Text()
        for since, until in spans:
            text = self.bar(kind, since, until)
            line.append_text(text[len(line) :])
        return line

    def _mark(self, kind: Bar) -> str:
        return _LOOKS[kind][not self._coloured]

    def when(self, since: datetime | None, until: datetime | None, *, runs: bool) -> str:
        """From when to when, briefly: `until 18:25`, `18:25 – 20:00`, `no end`."""
        end = "no end" if until is None else self._moment(until)
        if runs:
            return end if until is None else f"until {end}"
        return f"{self._moment(since)} – {end}" if since is not None else end

    def _moment(self, moment: datetime) -> str:
        local, today = self.local(moment), self.local(self._start)
        away = (local.date() - today.date()).days
        if away == 0:
            return f"{local:%H:%M}"
        return f"{local:%a %H:%M}" if 0 < away < 7 else f"{local:%b} {local.day} {local:%H:%M}"

    def legend(self, kinds: set[Bar], *, open_ended: bool) -> Text:
        """What the characters stand for, of these kinds."""
        words = {kind: word(kind) for kind in Bar} | {Bar.RUNNING: word("running"), Bar.RESERVED: word("reserved")}
        parts = [
            Text.assemble((self._mark(kind) * 2, _LOOKS[kind][2] if self._coloured else ""), f" {words[kind]}")
            for kind in Bar
            if kind in kinds
        ]
        if open_ended:
            parts.append(Text(f"{_OPEN[not self._coloured]} no end is enforced"))
        return Text("   ").join(parts)
