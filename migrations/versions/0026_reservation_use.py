"""Until when the present occurrence of a reservation was in use: how long it is unused is known after a restart."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Occurrences that are unused at that time count as never used."""
    op.add_column("reservation", sa.Column("used_until", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Remove it."""
    with op.batch_alter_table("reservation") as table:
        table.drop_column("used_until")
