"""When a job was given its limit by an update: an annotation edited later counts, whatever else was decided."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

CONTROL = sa.table(
    "job_control",
    sa.column("at", sa.DateTime(timezone=True)),
    sa.column("limited_at", sa.DateTime(timezone=True)),
    sa.column("time_limit_seconds", sa.BigInteger),
)


def upgrade() -> None:
    """Add the column. Limits that are there were given, as far as is known, with the last decision about their job."""
    op.add_column("job_control", sa.Column("limited_at", sa.DateTime(timezone=True)))
    op.execute(sa.update(CONTROL).where(CONTROL.c.time_limit_seconds.is_not(None)).values(limited_at=CONTROL.c.at))


def downgrade() -> None:
    """Remove it."""
    with op.batch_alter_table("job_control") as table:
        table.drop_column("limited_at")
