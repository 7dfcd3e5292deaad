"""Rows of history: most are one event; that a single pod was accepted, admitted and bound is one row.

Such pods are most of what is written down. Where these events are told in one transaction, the row is that of the last
event, and its detail has those before it under `BEFORE`. Each event keeps an id of its own: the ids of a row follow
each other, and its own is the largest. Readers get events, never rows.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import structs
from sqlalchemy import Connection, func, insert, select, text

from t9ksched.store.bulk import Bulk
from t9ksched.store.rows import lengths
from t9ksched.store.tables import history

ACCEPTED: Final = "accepted"
ADMITTED: Final = "admitted"
BOUND: Final = "bound"
CLOCK_SET: Final = "clock-set"
"""The leader's wall clock was set forward by the detail `seconds` (back if negative); about no job."""
EARLIER: Final = frozenset({ACCEPTED, ADMITTED})
"""Events that may be in the row of a later one."""
BEFORE: Final = "before"
"""Key in the detail of a row: the events before the row's own, each as its name, time and detail."""
LONGEST: Final = timedelta(seconds=60)
"""From the first event of a row to its own."""
MOST: Final = 3
"""Events of a row."""
_POD: Final = "Pod"
_NEXT: Final = text(
    "SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('history_id_seq'::regclass) END"
    " FROM generate_series(1, :count)"
)
"""As migration 0029 has it for a row that names no id."""


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event: the job and queue that it concerns, and the user or service that caused it. `id` is 0 until it is
    stored.
    """

    event: str
    at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    queue: str | None = None
    actor: str | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)
    id: int = 0


_READ: Final = tuple(Event.__struct_fields__)
_WRITTEN: Final = tuple(name for name in _READ if name != "id")
_CUT: Final = lengths(history, "kind", "namespace", "name", "queue", "actor")
COLUMNS: Final = tuple(history.c[name] for name in _READ)
"""What to select for `events_of`."""
APPEND: Final[Bulk[Event]] = Bulk(
    history,
    _WRITTEN,
    lambda _: insert(history).inline(),  # without the ids, which PostgreSQL would return one by one
    cut=_CUT,
)
_APPEND_NUMBERED: Final[Bulk[Event]] = Bulk(history, _READ, lambda _: insert(history).inline(), cut=_CUT)


def write(connection: Connection, events: Sequence[Event]) -> None:
    """Write events, in their order but for those that share a row, within the caller's transaction."""
    rows = joined(events)
    if len(rows) < len(events):
        _APPEND_NUMBERED.write(connection, list(_numbered(rows, _ids(connection, len(events)))))
    else:
        APPEND.write(connection, events)


def joined(events: Sequence[Event]) -> list[Event]:
    """The rows of events: one each, but for those of single pods up to the one that says where they are bound."""
    rows: list[Event | None] = list(events)
    begun: dict[str | None, list[int]] = {}
    for number, event in enumerate(events):
        name = event.event
        if name == ACCEPTED and event.kind == _POD:
            begun[event.uid] = [number]
        elif name == ADMITTED and event.kind == _POD:
            begun.setdefault(event.uid, []).append(number)
        elif name == CLOCK_SET:
            return list(events)  # what was before it and what was after it are told apart by their order
        elif event.uid in begun:
            earlier = begun.pop(event.uid)
            if name == BOUND and _one_row([events[one] for one in earlier], event):
                before = [(events[one].event, events[one].at, events[one].detail) for one in earlier]
                rows[number] = structs.replace(event, detail=event.detail | {BEFORE: before})
                for one in earlier:
                    rows[one] = None
    return [row for row in rows if row is not None]


def _one_row(earlier: Sequence[Event], event: Event) -> bool:
    """Whether readers can tell the earlier events from the row of the last one."""
    if len(earlier) >= MOST or event.uid is None or BEFORE in event.detail:
        return False
    at, about = event.at, (event.kind, event.namespace, event.name, event.queue, event.actor)
    for one in reversed(earlier):
        if one.at > at or one.at.tzinfo is not UTC:
            return False
        at = one.at
        if (one.kind, one.namespace, one.name, one.queue, one.actor) != about:
            return False
    return event.at - at <= LONGEST


def _numbered(rows: Sequence[Event], ids: Sequence[int]) -> Iterator[Event]:
    """The rows with their ids. Those of a row that another process took an id amid are taken apart again."""
    at = 0
    for row in rows:
        before = row.detail.get(BEFORE) if row.event == BOUND else None
        last = at + len(before) if before else at
        if ids[last] - ids[at] == last - at:
            yield structs.replace(row, id=ids[last])
        else:
            for one, event in enumerate(apart(row)):
                yield structs.replace(event, id=ids[at + one])
        at = last + 1


def _ids(connection: Connection, count: int) -> Sequence[int]:
    """So many ids, of which no other row has or gets one."""
    if connection.dialect.name == "sqlite":  # the transaction has the lock of writing
        last = connection.execute(select(func.max(history.c.id))).scalar() or 0
        return range(last + 1, last + 1 + count)
    return list(connection.execute(_NEXT, {"count": count}).scalars())


def apart(row: Event) -> list[Event]:
    """The events of a row, in their order."""
    if row.event != BOUND or BEFORE not in row.detail:
        return [row]
    detail = dict(row.detail)
    before = detail.pop(BEFORE)
    first = row.id - len(before)
    earlier = (
        structs.replace(row, event=event, at=_moment(at), detail=dict(of), id=max(0, first + number))
        for number, (event, at, of) in enumerate(before)
    )
    return [*earlier, structs.replace(row, detail=detail)]


def _moment(at: Any) -> datetime:
    return at if isinstance(at, datetime) else datetime.fromisoformat(at)


def events_of(row: Sequence[Any]) -> list[Event]:
    """The events of a row that was read, in their order."""
    return apart(Event(**dict(zip(_READ, row, strict=True))))


class Wanted(msgspec.Struct, frozen=True):
    """Which events are asked for, as far as the events of a row differ: their names (None for all), times and ids.
    `newest_first` says which way `after` counts; 0 is no limit.
    """

    names: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: int = 0
    newest_first: bool = False

    def rows(self) -> list[Any]:
        """As SQL: rows that may have such events, and few others."""
        column, found = history.c, []
        if self.names is not None:
            names = self.names | {BOUND} if self.names & EARLIER else self.names
            found.append(column.event == next(iter(names)) if len(names) == 1 else column.event.in_(sorted(names)))
        if self.since is not None:
            found.append(column.at >= self.since)
        if self.until is not None:
            found.append(column.at < self.until + LONGEST)
        if self.after:
            found.append(column.id < self.after + MOST - 1 if self.newest_first else column.id > self.after)
        return found

    def of(self, rows: Sequence[Sequence[Any]]) -> list[Event]:
        """The events of these rows that are asked for."""
        order: Callable[[list[Event]], Any] = reversed if self.newest_first else iter
        return [event for row in rows for event in order(events_of(row)) if self._has(event)]

    def _has(self, event: Event) -> bool:
        if self.names is not None and event.event not in self.names:
            return False
        if (self.since is not None and event.at < self.since) or (self.until is not None and event.at >= self.until):
            return False
        return not self.after or (event.id < self.after if self.newest_first else event.id > self.after)
