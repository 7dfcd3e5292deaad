"""How much of cards of which model a pod has that has cards of several, for GPU-hours by model."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

TABLES = ("usage_open", "usage_span")


def upgrade() -> None:
    """Add the column, null in all rows: what earlier releases wrote goes on counting under all its models together."""
    for table in TABLES:
        op.add_column(table, sa.Column("models", sa.JSON, nullable=True))


def downgrade() -> None:
    """Remove it; an earlier release counts such spans under all their models together, and the sums stay."""
    for table in TABLES:
        with op.batch_alter_table(table) as changed:
            changed.drop_column("models")
