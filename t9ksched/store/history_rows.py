"""Rows of history: most are one event; that a single pod was accepted, admitted and bound is one row.

Such pods are most of what is written down. Where these events follow each other, the row is that of the last event, and
its detail has those before it under `BEFORE`. Each event keeps an id of its own: the ids of a row follow each other,
and its own is the largest. Readers get events, never rows.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
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
_FOLLOWS: Final = {ADMITTED: {ACCEPTED}, BOUND: EARLIER}
"""Which events each may follow in a row."""
BEFORE: Final = "before"
"""Key in the detail of a row: the events before the row's own, each as its name, time and detail."""
LONGEST: Final = timedelta(seconds=60)
"""From the first event of a row to its own."""
MOST: Final = 3
"""Events of a row."""
_POD: Final = "Pod"
_about: Final = attrgetter("uid", "kind", "namespace", "name", "queue", "actor")
"""What is the same of all events of a row."""
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
    """Write events, in their order, within the caller's transaction."""
    rows = shared(events)
    if len(rows) < len(events):
        _APPEND_NUMBERED.write(connection, list(_numbered(rows, _ids(connection, len(events)))))
    else:
        APPEND.write(connection, events)


def shared(events: Sequence[Event]) -> list[list[Event]]:
    """The events of each row: one, but those of single pods up to the one that says where they are bound."""
    rows: list[list[Event]] = []
    for event in events:
        row = [event]
        if event.event == BOUND and event.kind == _POD and event.uid is not None and BEFORE not in event.detail:
            while rows and _leads_to(before := rows[-1][-1], row[0]) and event.at - before.at <= LONGEST:
                row = rows.pop() + row
        rows.append(row)
    return rows


def _leads_to(earlier: Event, later: Event) -> bool:
    """Whether readers can tell the earlier event from the row that begins with the later one."""
    if earlier.event not in _FOLLOWS.get(later.event, ()) or _about(earlier) != _about(later):
        return False
    return earlier.at.tzinfo is UTC and earlier.at <= later.at


def _numbered(rows: Sequence[Sequence[Event]], ids: Sequence[int]) -> Iterator[Event]:
    """The rows with their ids. Events of which another process took an id amid have a row each."""
    at = 0
    for events in rows:
        last = at + len(events) - 1
        *earlier, own = events
        if not earlier:
            yield structs.replace(own, id=ids[at])
        elif ids[last] - ids[at] == len(earlier):
            before = [(one.event, one.at, one.detail) for one in earlier]
            yield structs.replace(own, detail=own.detail | {BEFORE: before}, id=ids[last])
        else:
            for number, event in enumerate(events, start=at):
                yield structs.replace(event, id=ids[number])
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
