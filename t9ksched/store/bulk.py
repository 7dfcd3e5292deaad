"""Many rows by one statement: compiled once, each row's values made ready without the cost of a general executor.

What reaches the database is what SQLAlchemy would send: the same statement, the same types' own conversions. Rows
written together share times, so a value that was converted once is not converted again.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec
from sqlalchemy import JSON, Connection, Table
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.expression import ClauseElement
from sqlalchemy.types import TypeEngine

from t9ksched.store.tables import Moment

_encode = msgspec.json.Encoder().encode
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_Convert = Callable[[Any], Any] | None


class Speaker(Protocol):
    """A connection, or a database."""

    @property
    def dialect(self) -> Dialect: ...


class Statement:
    """A statement with the parameters that `types` names, as `make` gives it for a dialect."""

    def __init__(self, types: Mapping[str, TypeEngine[Any]], make: Callable[[Speaker], ClauseElement]) -> None:
        self._types = dict(types)
        self._make = make
        self._ready: dict[str, _Ready] = {}

    def prepared(self, speaker: Speaker, rows: Sequence[Mapping[str, Any]]) -> "Prepared":
        """Its text, and what to send with it for each row; a row has a value for every parameter."""
        ready = self._known(speaker)
        return self._made(ready, [[row[name] for row in rows] for name, _ in ready[2]])

    def write(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write them."""
        if rows:
            connection.exec_driver_sql(*self.prepared(connection, rows))

    def write_objects(
        self,
        connection: Connection,
        objects: Sequence[object],
        cut: Mapping[str, int] = _NOTHING,
        attributes: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Write objects that have the parameters as attributes, some by another name; texts are cut to so many
        characters.
        """
        if not objects:
            return
        ready = self._known(connection)
        names = [name for name, _ in ready[2]]
        read = attrgetter(*(attributes.get(name, name) for name in names))
        columns = [list(column) for column in zip(*map(read, objects), strict=True)]
        for at, name in enumerate(names):
            if name in cut:
                columns[at] = [fitting(text, cut[name]) for text in columns[at]]
        connection.exec_driver_sql(*self._made(ready, columns))

    def _known(self, speaker: Speaker) -> "_Ready":
        ready = self._ready.get(speaker.dialect.name)
        if ready is None:
            ready = self._ready[speaker.dialect.name] = self._prepare(speaker)
        return ready

    def _made(self, ready: "_Ready", columns: Sequence[list[Any]]) -> "Prepared":
        text, order, converters = ready
        converted = [
            values if convert is None else _all(values, convert)
            for (_, convert), values in zip(converters, columns, strict=True)
        ]
        lines = zip(*converted, strict=True)
        # Positional parameters are tuples in the statement's order, named ones dicts.
        if order is not None:
            return Prepared(text, list(lines))
        return Prepared(text, [dict(zip(self._types, line, strict=True)) for line in lines])

    def _prepare(self, speaker: Speaker) -> "_Ready":
        dialect = speaker.dialect
        compiled: Any = self._make(speaker).compile(dialect=dialect, column_keys=list(self._types))
        order = tuple(compiled.positiontup) if compiled.positional else None
        columns = tuple((name, _converter(self._types[name], dialect)) for name in order or self._types)
        return str(compiled), order, columns


class Bulk(Statement):
    """Writes rows with the columns `names` of `table`."""

    def __init__(self, table: Table, names: Sequence[str], make: Callable[[Speaker], ClauseElement]) -> None:
        super().__init__({name: table.c[name].type for name in names}, make)


class Prepared(NamedTuple):
    """What a driver takes: a text, and parameters for each time that it is to be executed."""

    text: str
    parameters: list[Any]


_Ready = tuple[str, tuple[str, ...] | None, tuple[tuple[str, _Convert], ...]]


def _converter(kind: TypeEngine[Any], dialect: Dialect) -> _Convert:
    if isinstance(kind, Moment) and dialect.name == "sqlite":
        return _sqlite_moment
    if isinstance(kind, JSON) and dialect.name == "sqlite":
        return _sqlite_json
    convert: _Convert = kind.dialect_impl(dialect).bind_processor(dialect)
    return convert


def _sqlite_moment(value: datetime | None) -> str | None:
    """As the type writes it, at a fifth of the cost."""
    if value is None:
        return None
    if value.tzinfo is not UTC:
        value = Moment.in_utc(value)
    return value.isoformat(" ", "microseconds")[:26]


def _sqlite_json(value: Any) -> str:
    """As the type writes it, by the encoder that the database is opened with."""
    return _encode(value).decode()


def fitting(text: str | None, length: int) -> str | None:
    """A text that its column takes: what people write into objects may be longer, or hold a NUL."""
    if text is not None and (len(text) > length or "\x00" in text):
        return text.replace("\x00", "\ufffd")[:length]
    return text


def _all(values: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    """Each value converted, equal times once."""
    known: dict[datetime, Any] = {}
    done = []
    for value in values:
        if isinstance(value, datetime):
            if (found := known.get(value)) is None:
                found = known[value] = convert(value)
            done.append(found)
        else:
            done.append(convert(value))
    return done
