"""What one of each accelerator of a pod was on its node when it was given: a card, a slice, a turn on a card."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, null in all rows: the scheduler adds what its nodes are when it starts."""
    op.add_column("binding", sa.Column("units", sa.JSON, nullable=True))
    op.add_column("binding", sa.Column("worth", sa.BigInteger, nullable=True))


def downgrade() -> None:
    """Remove the columns; an earlier release has no rows of single pods without cards by index."""
    op.execute("DELETE FROM binding WHERE CAST(cards AS TEXT) = '[]' AND group_name = ''")
    with op.batch_alter_table("binding") as table:
        table.drop_column("worth")
        table.drop_column("units")
