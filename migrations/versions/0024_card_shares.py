"""What a pod has of physical cards, where that is a part of them. Spans of earlier releases are of whole cards."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_TABLES = ("usage_open", "usage_span")


def upgrade() -> None:
    """Add the column, null in all rows: the cards that they name are whole."""
    for table in _TABLES:
        op.add_column(table, sa.Column("worth", sa.BigInteger, nullable=True))


def downgrade() -> None:
    """Remove the column, and spans of parts of cards, which an earlier release would count as whole cards. What sums
    have of them stays.
    """
    for table in _TABLES:
        op.execute(sa.text(f"DELETE FROM {table} WHERE worth IS NOT NULL"))
        with op.batch_alter_table(table) as changed:
            changed.drop_column("worth")
