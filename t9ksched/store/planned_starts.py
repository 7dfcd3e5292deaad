"""When and where waiting gangs are to start, by UID of the gang: one row each, written over whenever it changes.

A scheduler that starts keeps these moments, so that no gang starts later because of a restart. Only the leader writes.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.engine import RowMapping

from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.store import room
from t9ksched.store.database import Database
from t9ksched.store.rows import among, batches, upsert
from t9ksched.store.tables import planned_start

Plan = tuple[Reservation, ...]
"""The reservations of one gang: one a pod, with the same beginning and end."""


class PlannedStarts:
    """The repository of planned starts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, plans: Mapping[str, Plan]) -> None:
        """Write the planned starts of these gangs, each in place of the former one."""
        rows = [_row(owner, plan) for owner, plan in plans.items()]
        for batch in batches(rows):
            async with self._database.write() as connection:
                await upsert(connection, planned_start, batch)

    async def all(self) -> dict[str, Plan]:
        """Every planned start, by UID of the gang: what a scheduler reads when it starts."""
        query = select(planned_start).order_by(planned_start.c.owner)
        async with self._database.read() as connection:
            rows: Sequence[RowMapping] = (await connection.execute(query)).mappings().all()
        return {row["owner"]: _plan(row) for row in rows}

    async def forget(self, owners: Collection[str]) -> None:
        """Remove the planned starts of these gangs."""
        for batch in batches(sorted(owners)):
            async with self._database.write() as connection:
                await connection.execute(delete(planned_start).where(among(connection, planned_start.c.owner, batch)))


def _row(owner: str, plan: Plan) -> dict[str, Any]:
    first = plan[0]
    places = Counter((one.node, one.pod_class, one.cards) for one in plan)
    return {
        "owner": owner,
        "queue": first.queue,
        "rank": first.rank,
        "begins": first.since,
        "ends": first.until,
        "places": [
            {"node": node, "pods": pods, "takes": room.written(pod_class, cards)}
            for (node, pod_class, cards), pods in places.items()
        ],
    }


def _plan(row: RowMapping) -> Plan:
    found: list[Reservation] = []
    for place in row["places"]:
        pod_class, cards = room.read(place["takes"])
        one = Reservation(
            owner=row["owner"],
            node=place["node"],
            pod_class=pod_class,
            cards=cards,
            kind=ReservationKind.PLANNED,
            rank=row["rank"],
            since=row["begins"],
            until=row["ends"],
            firm=True,
            queue=row["queue"],
        )
        found += [one] * place["pods"]
    return tuple(found)
