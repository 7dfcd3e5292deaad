"""Queues that say nothing about their ordering keep the one they have: the default of new queues is another now."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

QUEUE = sa.table("queue", sa.column("name", sa.String(63)), sa.column("spec", sa.JSON))


def upgrade() -> None:
    """Write `BestEffort` where nothing is said. Revisions stay: the meaning of no queue changes."""
    connection = op.get_bind()
    for name, spec in connection.execute(sa.select(QUEUE.c.name, QUEUE.c.spec)).all():
        if spec.get("ordering") is None:
            written = spec | {"ordering": "BestEffort"}
            connection.execute(sa.update(QUEUE).where(QUEUE.c.name == name).values(spec=written))


def downgrade() -> None:
    """Nothing: earlier releases read the field too, and mean by `BestEffort` what they mean by nothing."""
