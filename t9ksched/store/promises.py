"""Room that was promised to a gang when others were evicted for it, by UID of the gang.

Written before the first eviction is sent, so that a scheduler that starts keeps the room for that gang. Each row is a
`Reservation`: what it takes of a node, not which pods may go there.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import RowMapping

from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.store import room
from t9ksched.store.database import Database
from t9ksched.store.rows import BATCH
from t9ksched.store.tables import promise

_US = 1000


class Promises:
    """The repository of promised room. Times of a reservation keep whole microseconds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, reservations: Iterable[Reservation]) -> None:
        """Write promises, all or none; what their owners were promised before is replaced."""
        alike = Counter(reservations)
        numbers: Counter[str] = Counter()
        rows = []
        for reservation, pods in alike.items():
            numbers[reservation.owner] += 1
            rows.append(_row(reservation, numbers[reservation.owner], pods))
        if not rows:
            return
        async with self._database.write() as connection:
            await connection.execute(delete(promise).where(promise.c.owner.in_(numbers)))
            for start in range(0, len(rows), BATCH):
                await connection.execute(insert(promise), rows[start : start + BATCH])

    async def all(self) -> list[Reservation]:
        """All promises: what a scheduler reads when it starts. Callers look at `until`."""
        query = select(promise).order_by(promise.c.owner, promise.c.number)
        async with self._database.read() as connection:
            rows: Sequence[RowMapping] = (await connection.execute(query)).mappings().all()
        return [reservation for row in rows for reservation in [_reservation(row)] * row["pods"]]

    async def forget(self, owners: Collection[str]) -> None:
        """Remove what these owners were promised."""
        gone = sorted(owners)
        for start in range(0, len(gone), BATCH):
            async with self._database.write() as connection:
                await connection.execute(delete(promise).where(promise.c.owner.in_(gone[start : start + BATCH])))


def _row(reservation: Reservation, number: int, pods: int) -> dict[str, Any]:
    return {
        "owner": reservation.owner,
        "number": number,
        "node": reservation.node,
        "pods": pods,
        "takes": room.written(reservation.pod_class, reservation.cards),
        "rank": reservation.rank,
        "since": _moment(reservation.since),
        "until": _moment(reservation.until),
    }


def _reservation(row: RowMapping) -> Reservation:
    pod_class, cards = room.read(row["takes"])
    return Reservation(
        owner=row["owner"],
        node=row["node"],
        pod_class=pod_class,
        cards=cards,
        rank=row["rank"],
        since=_nanoseconds(row["since"]),
        until=_nanoseconds(row["until"]),
        kind=ReservationKind.VICTIMS,
    )


def _moment(ns: int) -> datetime:
    seconds, rest = divmod(ns // _US, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def _nanoseconds(at: datetime) -> int:
    return (int(at.timestamp()) * 1_000_000 + at.microsecond) * _US
