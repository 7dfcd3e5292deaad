"""To which group each bound pod belongs, in which role, and which queue pays for it: labels on pods can be edited."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Rows that are there say nothing: the next start believes the labels of those pods once."""
    with op.batch_alter_table("binding") as table:
        table.add_column(sa.Column("group_name", sa.String(253)))
        table.add_column(sa.Column("role", sa.String(63)))
        table.add_column(sa.Column("queue", sa.String(63)))


def downgrade() -> None:
    """Remove them, and the rows of pods without cards, which an earlier release does not write."""
    op.execute("DELETE FROM binding WHERE CAST(cards AS TEXT) = '[]' AND group_name IS NOT NULL AND group_name <> ''")
    with op.batch_alter_table("binding") as table:
        for column in ("queue", "role", "group_name"):
            table.drop_column(column)
