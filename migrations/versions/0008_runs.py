"""Since when jobs run, for time limits that are kept across restarts; and limits and releases decided later."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, and what may be decided about a job besides. What runs already is timed from its first sight."""
    op.create_table(
        "job_run",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("bound_at", sa.BigInteger, nullable=False),
        sa.Column("ran_at", sa.BigInteger, nullable=False),
        sa.Column("near", sa.Boolean, nullable=False),
        sa.Column("missed", sa.Integer, nullable=False),
        sa.Column("missed_at", sa.BigInteger, nullable=False),
        sa.Column("retry_at", sa.BigInteger, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("ended_code", sa.String(40), nullable=False),
        sa.Column("ended_limit", sa.BigInteger),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("limit", sa.BigInteger),
        sa.Column("limit_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_job_run"),
    )
    op.add_column("job_control", sa.Column("time_limit_seconds", sa.BigInteger))
    op.add_column("job_control", sa.Column("released_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Remove them: limits that were changed since submission count as submitted again."""
    op.drop_column("job_control", "released_at")
    op.drop_column("job_control", "time_limit_seconds")
    op.drop_table("job_run")
