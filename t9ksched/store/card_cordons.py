"""Cards that administrators took out of work, by node name and index. The scheduler follows them by the change log.

A row belongs to the name of a node, not to one life of it: it stays when the node is deleted and comes back. What was
written into the node's annotation by hand is taken over (`take_over`), so that all cordons are here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.store import changes, history
from t9ksched.store.database import Database
from t9ksched.store.history import Event
from t9ksched.store.rows import insert_new, upsert
from t9ksched.store.tables import card_cordon

TABLE: Final = "card_cordon"


@dataclass(frozen=True, slots=True)
class CardCordon:
    """The card of that index takes no new work: why, by which user, since when."""

    node: str
    card: int
    why: str
    by: str
    at: datetime


_COLUMNS = tuple(card_cordon.c[name] for name in CardCordon.__slots__)


class CardCordons:
    """The repository of cordoned cards."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[CardCordon]:
        """Every cordoned card, by node and index."""
        query = select(*_COLUMNS).order_by(card_cordon.c.node, card_cordon.c.card)
        return [CardCordon(*row) for row in await self._database.fetch(query)]

    async def get(self, node: str, card: int) -> CardCordon | None:
        """The cordon of one card, if it is cordoned."""
        chosen = select(*_COLUMNS).where(card_cordon.c.node == node, card_cordon.c.card == card)
        rows = await self._database.fetch(chosen)
        return CardCordon(*rows[0]) if rows else None

    async def cordon(self, node: str, card: int, why: str, by: str) -> CardCordon:
        """Take a card out of work, or give another reason; nothing changes where it is cordoned for that reason."""
        async with self._database.write() as connection:
            before = await _locked(connection, node, card)
            if before is not None and before.why == why:
                await connection.rollback()
                return before
            await changes.append(connection, TABLE, node)
            after = CardCordon(node, card, why, by, datetime.now(UTC))
            await upsert(connection, card_cordon, [_row(after)])
            await _note(connection, history.CARD_CORDONED, by, before, after)
            return after

    async def uncordon(self, node: str, card: int, by: str) -> bool:
        """Let a card take work again; whether it was cordoned."""
        async with self._database.write() as connection:
            before = await _locked(connection, node, card)
            if before is None:
                await connection.rollback()
                return False
            await self._remove(connection, before, by)
            return True

    async def take_over(self, node: str, cordoned: Iterable[int], uncordoned: Iterable[int], why: str, by: str) -> None:
        """What was changed by hand on the node: cards that are already as they are wanted stay untouched."""
        async with self._database.write() as connection:
            for card in sorted(cordoned):
                made = CardCordon(node, card, why, by, datetime.now(UTC))
                if await insert_new(connection, card_cordon, _row(made)):
                    await changes.append(connection, TABLE, node)
                    await _note(connection, history.CARD_CORDONED, by, None, made)
            for card in sorted(uncordoned):
                if (before := await _locked(connection, node, card)) is not None:
                    await self._remove(connection, before, by)

    @staticmethod
    async def _remove(connection: AsyncConnection, before: CardCordon, by: str) -> None:
        await changes.append(connection, TABLE, before.node)
        chosen = delete(card_cordon).where(card_cordon.c.node == before.node, card_cordon.c.card == before.card)
        await connection.execute(chosen)
        await _note(connection, history.CARD_UNCORDONED, by, before, None)


async def _locked(connection: AsyncConnection, node: str, card: int) -> CardCordon | None:
    query = select(*_COLUMNS).where(card_cordon.c.node == node, card_cordon.c.card == card).with_for_update()
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else CardCordon(*row)


def _row(cordon: CardCordon) -> dict[str, Any]:
    return {name: getattr(cordon, name) for name in CardCordon.__slots__}


async def _note(
    connection: AsyncConnection, event: str, by: str, before: CardCordon | None, after: CardCordon | None
) -> None:
    about = after or before
    assert about is not None
    told = (("before", before), ("after", after))
    detail: dict[str, Any] = {"node": about.node, "card": about.card}
    detail |= {key: {"why": one.why, "by": one.by} for key, one in told if one is not None}
    await history.record(connection, Event(event=event, actor=by, name=about.node, detail=detail))
