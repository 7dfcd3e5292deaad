"""Forecasts of when waiting jobs start, and when they did."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, empty: nothing was forecast before."""
    op.create_table(
        "forecast",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("queue", sa.String(63), nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("first_earliest", sa.BigInteger, nullable=False),
        sa.Column("first_latest", sa.BigInteger, nullable=False),
        sa.Column("first_basis", sa.String(10), nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("last_earliest", sa.BigInteger, nullable=False),
        sa.Column("last_latest", sa.BigInteger, nullable=False),
        sa.Column("last_basis", sa.String(10), nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("settled_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_forecast"),
    )
    op.create_index("ix_forecast_settled_at", "forecast", ["settled_at"])


def downgrade() -> None:
    """Remove it: no release before judges forecasts."""
    op.drop_index("ix_forecast_settled_at", table_name="forecast")
    op.drop_table("forecast")
