"""Which cards each bound pod holds, to which group it belongs and which queue pays for it, by the pod's UID: the state
of record, which no user can edit.

A row is written before the pod is bound, and removed when the pod is gone: a pod that has ended still counts in its
group. A row whose pod was never bound is harmless: it concerns that UID on that node alone.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, select
from sqlalchemy.engine import RowMapping

from t9ksched.model.card_identity import CardIdentity
from t9ksched.model.cards import CardGrant, CardPart, ContainerGrant
from t9ksched.store.database import Database
from t9ksched.store.rows import BATCH, among, batches, upserting
from t9ksched.store.tables import binding, meta

COMPLETE: Final = "bindings"
"""Key in `meta`: every bound pod with cards has a row, but for those that were bound while the database was away."""
WHOLE: Final = 100
"""Percent of a card."""

Cards = list[ContainerGrant]
"""Init containers may use again what the others hold."""


class CardBinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The cards of one pod, which may be none. `honoured` when its node gave containers the cards that are named to it;
    else the indices are what was intended. `parts` has what the pod has of each card where its node divides cards; None
    elsewhere, and in rows of earlier releases: all are whole there. `devices` has the UUIDs of its cards, as far as its
    node said them when they were given; None in rows of earlier releases too. `units` has what one of each of its
    accelerators was on its node (`model.card_units`), and `worth` how much of physical cards it has, in parts of
    `quantity.CARD`: a node may be laid out anew. None where that was not known, and in rows of earlier releases.

    `group_name` is the PodGroup in its namespace of which it is a member (empty: it came without one), `role` its role
    there, `queue` the queue that pays, `job_uid` the UID of the job that it was placed in
    (of the PodGroup's owner, else of the PodGroup). None in rows of earlier releases: the pod's labels say it.
    """

    pod_uid: str
    namespace: str
    name: str
    node: str
    cards: Cards
    share: int = WHOLE
    """What earlier releases wrote of each card, in percent: always all."""
    parts: list[CardPart] | None = None
    devices: list[CardIdentity] | None = None
    units: list[tuple[str, str]] | None = None
    worth: int | None = None
    honoured: bool
    at: datetime
    group_name: str | None = None
    role: str | None = None
    queue: str | None = None
    job_uid: str | None = None

    @property
    def grant(self) -> CardGrant:
        """All cards of the pod."""
        found = CardGrant.of_containers(self.cards)
        return found.with_parts(self.parts) if self.parts else found.bare


class Bindings:
    """The repository of bindings."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, rows: Iterable[CardBinding]) -> None:
        """Write rows, all or none of a thousand; a pod's earlier row is replaced."""
        for batch in batches(list(rows)):
            await self.write(batch, ())

    async def write(self, rows: Sequence[CardBinding], over: Collection[str], *, complete: bool = False) -> None:
        """Write rows and remove those of the pods `over`, in one transaction. With `complete` note there that all bound
        pods have their row.

        Raises:
            StoreError: nothing was written, or the answer was lost.
        """

        def act(connection: Connection) -> None:
            _PUT.write(connection, rows)
            if over:
                connection.execute(delete(binding).where(among(connection, binding.c.pod_uid, over)))
            if complete:
                _MARK.write(connection, [_Mark(COMPLETE, True)])

        await self._database.transact(act)

    async def complete(self) -> bool:
        """Whether a bound pod without a row is one that was bound while the database was away."""
        async with self._database.read() as connection:
            query = select(meta.c.value).where(meta.c.key == COMPLETE)
            return bool((await connection.execute(query)).scalar_one_or_none())

    async def pieces(self) -> AsyncIterator[list[CardBinding]]:
        """Every row, a thousand at a time, in the order of UIDs: what a scheduler reads when it starts."""
        last = ""
        while True:
            query = select(binding).where(binding.c.pod_uid > last).order_by(binding.c.pod_uid).limit(BATCH)
            async with self._database.read() as connection:
                piece = [_card_binding(row) for row in (await connection.execute(query)).mappings()]
            if not piece:
                return
            yield piece
            last = piece[-1].pod_uid

    async def all(self) -> list[CardBinding]:
        """Every row, in the order of UIDs."""
        return [one async for piece in self.pieces() for one in piece]

    async def uids(self) -> AsyncIterator[list[str]]:
        """The UIDs of all pods that have a row, a thousand at a time and in their order."""
        last = ""
        while True:
            query = select(binding.c.pod_uid).where(binding.c.pod_uid > last).order_by(binding.c.pod_uid).limit(BATCH)
            async with self._database.read() as connection:
                piece = list((await connection.execute(query)).scalars())
            if not piece:
                return
            yield piece
            last = piece[-1]


class _Mark(msgspec.Struct, frozen=True):
    key: str
    value: Any


_PUT: Final = upserting(binding, [column.name for column in binding.columns], in_order_of="pod_uid")
_MARK: Final = upserting(meta, ["key", "value"])


def _card_binding(row: RowMapping) -> CardBinding:
    values = dict(row)
    parts = values["parts"] and msgspec.convert(values["parts"], list[CardPart])
    devices = values["devices"] and msgspec.convert(values["devices"], list[CardIdentity])
    cards = msgspec.convert(values["cards"], Cards)
    units = values["units"] and msgspec.convert(values["units"], list[tuple[str, str]])
    return CardBinding(**values | {"cards": cards, "parts": parts, "devices": devices, "units": units})
