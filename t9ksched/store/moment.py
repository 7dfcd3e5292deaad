"""The type of columns with a time: aware and in UTC on both databases."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator


class Moment(TypeDecorator[datetime]):
    """An aware UTC time; SQLite, which has no zones, stores it as text in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To the database. A naive time is a programmer's mistake."""
        if value is None:
            return None
        value = self.in_utc(value)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    @staticmethod
    def in_utc(value: datetime) -> datetime:
        """The same time in UTC. Raises ValueError for a naive one."""
        if value.tzinfo is None:
            raise ValueError("times in the database carry a zone: use datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """From the database, always aware and in UTC."""
        if value is None:
            return None
        at: datetime = value
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
