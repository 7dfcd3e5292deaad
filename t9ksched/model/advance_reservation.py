"""Reservations by administrators: nodes, or cards of nodes, that are kept for some jobs, or for maintenance, at certain
times.

`reservation_form.py` reads what users write. A reservation that repeats has one *occurrence* a day or a week, at the
same times of the wall clock.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import msgspec

from t9ksched.model.labels import LabelSelector
from t9ksched.model.wall_clock import moment_at, moment_of, nanoseconds, time_zone, written_moment

Every = Literal["", "daily", "weekly"]
OnConflict = Literal["Refuse", "Wait", "Preempt"]
MAINTENANCE: Final = "maintenance"
EVERY: Final = ("", "daily", "weekly")
ON_CONFLICT: Final = ("Refuse", "Wait", "Preempt")
_DAYS: Final = {"daily": 1, "weekly": 7}
_LAST: Final = nanoseconds(datetime(2101, 1, 1, tzinfo=UTC))
"""No occurrence begins later."""


class Occurrence(NamedTuple):
    """One time span of a reservation, in nanoseconds since the epoch; `end` is the first moment after it."""

    begin: int
    end: int


class Cards(msgspec.Struct, frozen=True):
    """So many cards of each node, with CPU and memory in proportion."""

    resource: str
    count: int


class ReservedNodes(msgspec.Struct, frozen=True):
    """Nodes by their names, or `count` of those that a selector matches."""

    names: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """A reservation.

    Attributes:
        begins, ends: of its first occurrence.
        every: how often it repeats, empty for not at all.
        until: no occurrence begins after this; None for no limit.
        time_zone: in which its times repeat.
        nodes, cards: what is reserved; without cards whole nodes.
        queues, users, groups: whose jobs may use it, if any of them says so.
        maintenance: it is for no jobs at all.
        on_conflict: what is done about jobs that may still have the room when it begins.
        force: jobs may be ended whose queues are not preemptible.
        drain_ahead: so long before it begins, no job starts on its room whose end nothing enforces.
        release_unused_after: an occurrence that nobody has used for so long ends; None for never.
        source: the selector of nodes as it was written.
    """

    name: str
    begins: datetime
    ends: datetime
    nodes: ReservedNodes
    every: Every = ""
    until: datetime | None = None
    time_zone: str = "UTC"
    cards: Cards | None = None
    queues: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    maintenance: bool = False
    on_conflict: OnConflict = "Refuse"
    force: bool = False
    drain_ahead: str = "24h"
    release_unused_after: str = "30m"
    note: str = ""
    source: Any = field(default=None, compare=False)

    def admits(self, queue: str, user: str, groups: Collection[str] = ()) -> bool:
        """Whether jobs of that queue, or of that user, who is in these groups, may use it."""
        if self.maintenance:
            return False
        return queue in self.queues or (bool(user) and user in self.users) or not self.groups.isdisjoint(groups)

    def occurrences(self, after: int, ended: int | None = None) -> Iterator[Occurrence]:
        """The occurrences that end after that moment, in order, without the one that began at `ended` and ended early;
        those of a reservation without limit never end.

        One whose times fall together on the day that clocks are set does not exist.
        """
        for turn in self._turns(after):
            found = self._occurrence(turn)
            if found is None:
                return
            if found.begin < found.end and found.end > after and found.begin != ended:
                yield found

    def current(self, now: int, ended: int | None = None) -> Occurrence | None:
        """The occurrence that is in force at that moment, else the next one; None where none is left. `ended` as in
        `occurrences`.
        """
        return next(self.occurrences(now, ended), None)

    def final(self) -> Occurrence | None:
        """The last occurrence of all; None where each of them is empty."""
        turn = 0
        if self.every:
            last = moment_at(_LAST) if self.until is None else self.until
            turn = max(0, (last - self.begins).days // _DAYS[self.every] + 1)
        for each in range(turn, -1, -1):
            found = self._occurrence(each)
            if found is not None and found.begin < found.end:
                return found
        return None

    def still_over(self, edited: "AdvanceReservation", ended: int, now: int) -> int | None:
        """Which occurrence is over after an edit, because the one that began at `ended` ended early: its beginning;
        None where none is.

        An edit of a reservation that repeats is about the occurrences to come; any other one is open again, unless only
        the note is another one.
        """
        present = self.current(now)
        if present is None or present.begin != ended:
            return None
        if replace(self, note=edited.note) == edited:
            return ended
        if not edited.every:
            return None
        then = edited.current(now)
        return then.begin if then is not None and then.begin <= now else None

    def to_dict(self) -> dict[str, Any]:
        """As REST shows it and SQL keeps it, with every field."""
        nodes: dict[str, Any] = {"names": list(self.nodes.names)}
        if self.nodes.selector is not None:
            nodes = {"selector": self.source, "count": self.nodes.count}
        whom = {"queues": sorted(self.queues), "users": sorted(self.users), "groups": sorted(self.groups)}
        return {
            "name": self.name,
            "from": written_moment(self.begins),
            "to": written_moment(self.ends),
            "every": self.every,
            "until": None if self.until is None else written_moment(self.until),
            "timeZone": self.time_zone,
            "nodes": nodes,
            "cards": None if self.cards is None else {"resource": self.cards.resource, "count": self.cards.count},
            "for": MAINTENANCE if self.maintenance else whom,
            "onConflict": self.on_conflict,
            "force": self.force,
            "drainAhead": self.drain_ahead,
            "releaseUnusedAfter": self.release_unused_after,
            "note": self.note,
        }

    def _turns(self, after: int) -> Iterator[int]:
        """Numbers of occurrences, from the first that may end after that moment."""
        if not self.every:
            yield 0
            return
        passed = (moment_at(after) - self.ends).days
        turn = max(0, passed // _DAYS[self.every] - 1)
        while True:
            yield turn
            turn += 1

    def _occurrence(self, turn: int) -> Occurrence | None:
        """The occurrence of that number, which may be empty; None if there is none of it."""
        begin, end = nanoseconds(self.begins), nanoseconds(self.ends)
        if self.every:
            if turn:
                begin, end = self._wall(self.begins, turn, last=False), self._wall(self.ends, turn, last=True)
            end = min(end, self._wall(self.begins, turn + 1, last=False))
        if begin > (_LAST if self.until is None else nanoseconds(self.until)):
            return None
        return Occurrence(begin, end)

    def _wall(self, first: datetime, turn: int, *, last: bool) -> int:
        """When clocks show the same time so many days or weeks later."""
        wall = first.astimezone(time_zone(self.time_zone)).replace(tzinfo=None, fold=0)
        return moment_of(wall + timedelta(days=turn * _DAYS[self.every]), self.time_zone, last=last)


FIELDS: Final = (
    "name",
    "from",
    "to",
    "every",
    "until",
    "timeZone",
    "nodes",
    "cards",
    "for",
    "onConflict",
    "force",
    "drainAhead",
    "releaseUnusedAfter",
    "note",
)
