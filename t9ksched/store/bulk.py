"""Many rows by one statement: compiled once, each column's values made ready without the cost of a general executor.

What reaches the database is what SQLAlchemy would send: the same statement, the same types' own conversions. Rows
written together share times, so a value that was converted once is not converted again. SQLite takes many rows at a
step, for between two steps its driver lets other threads go on, and has to wait for its turn again.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import structs
from sqlalchemy import JSON, Connection, Table
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.expression import ClauseElement
from sqlalchemy.types import TypeEngine

from t9ksched.store.moment import Moment

_encoder = msgspec.json.Encoder()
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_BLOCK = 250
"""Rows a step."""
_MOST_PARAMETERS = 32_766 if sqlite3.sqlite_version_info >= (3, 32) else 999
"""Of one statement, as SQLite is built by default."""
_Column = Sequence[Any]
_Convert = Callable[[_Column], _Column]
Row = TypeVar("Row", contravariant=True)


class Speaker(Protocol):
    """A connection, or a database."""

    @property
    def dialect(self) -> Dialect: ...


class Prepared(NamedTuple):
    """What a driver takes: a text, and parameters for each time that it is to be executed."""

    text: str
    parameters: list[Any]


class _Statement(Generic[Row]):
    """A statement with the parameters that `types` names, as `make` gives it for a dialect, executed once a row."""

    def __init__(self, types: Mapping[str, TypeEngine[Any]], make: Callable[[Speaker], ClauseElement]) -> None:
        self._types = dict(types)
        self._make = make
        self._ready: dict[str, _Ready] = {}

    def prepared(self, speaker: Speaker, rows: Sequence[Row]) -> Prepared:
        """Its text, and what to send with it for each row."""
        ready = self._for(speaker)
        return Prepared(ready.text, ready.lines(self._converted(ready, rows)))

    def write(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Execute it."""
        for text, parameters in self.steps(connection, rows) if rows else ():
            connection.exec_driver_sql(text, parameters)

    def steps(self, speaker: Speaker, rows: Sequence[Row]) -> Iterator[Prepared]:
        """The same in as few steps as its database takes; none without rows."""
        ready = self._for(speaker)
        columns, whole = self._converted(ready, rows), 0
        if (blocks := ready.blocks) is not None and (whole := len(rows) - len(rows) % blocks.size):
            yield blocks.of([column[:whole] for column in columns])
        if whole < len(rows):
            yield Prepared(ready.text, ready.lines([column[whole:] for column in columns]))

    def _converted(self, ready: "_Ready", rows: Sequence[Row]) -> list[_Column]:
        """What the driver takes, column by column."""
        columns = self._columns(ready.names, rows) if rows else ((),) * len(ready.names)
        pairs = zip(ready.converters, columns, strict=True)
        return [column if convert is None else convert(column) for convert, column in pairs]

    def _columns(self, names: Sequence[str], rows: Sequence[Row]) -> list[_Column]:
        raise NotImplementedError

    def _for(self, speaker: Speaker) -> "_Ready":
        dialect = speaker.dialect
        if (ready := self._ready.get(dialect.name)) is not None:
            return ready
        compiled: Any = self._make(speaker).compile(dialect=dialect, column_keys=list(self._types))
        names = tuple(compiled.positiontup) if compiled.positional else tuple(self._types)
        converters = tuple(_converter(self._types[name], dialect) for name in names)
        text = str(compiled)
        blocks = _blocks(text, len(names)) if dialect.name == "sqlite" else None
        ready = self._ready[dialect.name] = _Ready(text, compiled.positional, names, converters, blocks)
        return ready


class Statement(_Statement[Mapping[str, Any]]):
    """Any statement; a row is a mapping with a value for every parameter."""

    def _columns(self, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[_Column]:
        return [[row[name] for row in rows] for name in names]


class Bulk(_Statement[Row]):
    """Writes objects, which have the columns `names` of `table` as attributes, some by another name.

    Texts in the columns that `cut` names are cut to so many characters. Rows are written in the order of the attribute
    `in_order_of`: those whose key is random then change each page of its index once, and two writers lock rows in the
    same order.
    """

    def __init__(
        self,
        table: Table,
        names: Sequence[str],
        make: Callable[[Speaker], ClauseElement],
        *,
        attributes: Mapping[str, str] = _NOTHING,
        cut: Mapping[str, int] = _NOTHING,
        in_order_of: str | None = None,
    ) -> None:
        super().__init__({name: table.c[name].type for name in names}, make)
        self._in_order_of = in_order_of
        self._attributes = attributes
        self._cut = cut

    def _columns(self, names: Sequence[str], rows: Sequence[Row]) -> list[_Column]:
        if self._in_order_of is not None:
            rows = sorted(rows, key=attrgetter(self._in_order_of))
        columns = _attributes(rows, [self._attributes.get(name, name) for name in names])
        return [
            fitting(column, self._cut[name]) if name in self._cut else column
            for name, column in zip(names, columns, strict=True)
        ]


class _Blocks(NamedTuple):
    """An insertion of `size` rows: what is in its text before and behind their values."""

    size: int
    head: str
    tail: str

    def of(self, columns: Sequence[_Column]) -> Prepared:
        """So many rows at each step. Where no row has a value, NULL is in the text: to bind it would take longer."""
        there = tuple(not _is_nothing(column) for column in columns)
        columns = [column for column, is_there in zip(columns, there, strict=True) if is_there]
        width = len(columns)
        values: list[Any] = [None] * (width * len(columns[0]))
        for place, column in enumerate(columns):
            values[place::width] = column
        step = width * self.size
        return Prepared(_text(self, there), [tuple(values[at : at + step]) for at in range(0, len(values), step)])


@lru_cache
def _text(blocks: _Blocks, there: tuple[bool, ...]) -> str:
    row = f"({', '.join('?' if one else 'NULL' for one in there)})"
    return f"{blocks.head} VALUES {', '.join([row] * blocks.size)}{blocks.tail}"


def _blocks(text: str, columns: int) -> _Blocks | None:
    """An insertion of many rows in place of one; none of any other statement."""
    size = min(_BLOCK, _MOST_PARAMETERS // max(columns, 1))
    head, found, tail = text.partition(f" VALUES ({', '.join('?' * columns)})")
    return _Blocks(size, head, tail) if size > 1 and found and "?" not in head + tail else None


class _Ready(NamedTuple):
    """A statement in a dialect: its text, its parameters' names in order, and how their values become the driver's.

    `blocks` is how many rows become one step.
    """

    text: str
    positional: bool
    names: tuple[str, ...]
    converters: tuple[_Convert | None, ...]
    blocks: _Blocks | None

    def lines(self, columns: Sequence[_Column]) -> list[Any]:
        """The values row by row: positional parameters are tuples in the statement's order, named ones dicts."""
        rows = zip(*columns, strict=True)
        return list(rows) if self.positional else [dict(zip(self.names, row, strict=True)) for row in rows]


def _attributes(rows: Sequence[Any], names: Sequence[str]) -> list[_Column]:
    """Each of these attributes, of all rows. Of structs all fields are taken at once, at a tenth of the cost."""
    fields: dict[str, _Column] = {}
    if isinstance(rows[0], msgspec.Struct) and len({*map(type, rows)}) == 1:
        every = zip(*map(structs.astuple, rows), strict=True)
        fields = dict(zip(rows[0].__struct_fields__, every, strict=True))
    return [fields[name] if name in fields else list(map(attrgetter(name), rows)) for name in names]


def _converter(kind: TypeEngine[Any], dialect: Dialect) -> _Convert | None:
    convert: Callable[[Any], Any] | None
    if dialect.name == "sqlite" and isinstance(kind, JSON):
        return _sqlite_json_or_null if kind.none_as_null else _sqlite_json
    if dialect.name == "sqlite" and isinstance(kind, Moment):
        convert = _sqlite_moment
    else:
        convert = kind.dialect_impl(dialect).bind_processor(dialect)
    if convert is None:
        return None
    each: Callable[[Any], Any] = convert
    if isinstance(kind, JSON):
        return lambda column: [each(value) for value in column]

    def once(column: _Column) -> _Column:
        known = {value: each(value) for value in set(column)}
        return [known[value] for value in column]

    return once


def _sqlite_moment(value: datetime | None) -> str | None:
    """As the type writes it, at a fifth of the cost."""
    if value is None:
        return None
    if value.tzinfo is not UTC:
        value = Moment.in_utc(value)
    return value.isoformat(" ", "microseconds")[:26]


def _sqlite_json(column: _Column) -> _Column:
    """As the type writes them, by the encoder that the database is opened with."""
    if {*map(type, column)} == {msgspec.Raw}:
        return [str(text, "utf-8") for text in column]
    texts = str(_encoder.encode_lines(column), "utf-8").split("\n")
    del texts[-1]  # each line has an end
    return texts if len(texts) == len(column) else [str(_encoder.encode(value), "utf-8") for value in column]


def _sqlite_json_or_null(column: _Column) -> _Column:
    if _is_nothing(column):
        return column
    return [None if value is None else text for value, text in zip(column, _sqlite_json(column), strict=True)]


def _is_nothing(column: _Column) -> bool:
    """Whether no row has a value there."""
    return not column or (column[0] is None and column.count(None) == len(column))


def fitting(texts: Sequence[str | None], length: int) -> Sequence[str | None]:
    """Texts that their column takes: what people write into objects may be longer, or hold a NUL."""
    distinct = set(texts)
    distinct.discard(None)
    if not distinct or (max(map(len, distinct)) <= length and "\x00" not in "".join(distinct)):  # type: ignore[arg-type]
        return texts
    return [text and text.replace("\x00", "\ufffd")[:length] for text in texts]
