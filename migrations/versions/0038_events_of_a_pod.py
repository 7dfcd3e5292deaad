"""That a single pod was accepted, admitted and bound may be one row of history, which has the earlier events in its
detail.

Nothing is changed here: rows of before are read as they are. A program of before shows the last event of such a row
alone.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

BEFORE = "before"
BATCH = 1000
TABLE = sa.table(
    "history",
    sa.column("id", sa.BigInteger),
    sa.column("at", sa.DateTime(timezone=True)),
    *(sa.column(name, sa.String) for name in ("event", "kind", "namespace", "name", "uid", "queue", "actor")),
    sa.column("detail", sa.JSON),
)


def upgrade() -> None:
    """Rows of several events are written from now on."""


def downgrade() -> None:
    """Each event has a row of its own again, with the id that it had."""
    connection, last = op.get_bind(), 0
    several = (TABLE.c.event == "bound") & sa.cast(TABLE.c.detail, sa.Text).like(f'%"{BEFORE}":%')
    while True:
        query = sa.select(TABLE).where(several, TABLE.c.id > last).order_by(TABLE.c.id).limit(BATCH)
        rows = connection.execute(query).mappings().all()
        if not rows:
            return
        last = rows[-1]["id"]
        split = [dict(row) for row in rows if isinstance(row["detail"].get(BEFORE), list)]
        if split:
            connection.execute(sa.delete(TABLE).where(TABLE.c.id.in_([row["id"] for row in split])))
            connection.execute(sa.insert(TABLE), [one for row in split for one in _apart(row)])


def _apart(row: dict[str, Any]) -> Sequence[dict[str, Any]]:
    before, zone = row["detail"].pop(BEFORE), row["at"].tzinfo
    first = row["id"] - len(before)
    earlier = [
        row | {"id": first + number, "event": event, "at": _moment(at, zone), "detail": detail}
        for number, (event, at, detail) in enumerate(before)
    ]
    return [*earlier, row]


def _moment(at: str, zone: tzinfo | None) -> datetime:
    """As its row has times: SQLite has no zones."""
    return datetime.fromisoformat(at).astimezone(UTC).replace(tzinfo=zone and UTC)
