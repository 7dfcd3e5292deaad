"""What became of the latest occurrence of a reservation, and whether others held room of the present one when it was
last looked at: it is known after a restart.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. What became of earlier occurrences is not known any more."""
    op.add_column("reservation", sa.Column("outcome", sa.JSON))
    op.add_column("reservation", sa.Column("blocked", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Remove them."""
    with op.batch_alter_table("reservation") as table:
        table.drop_column("blocked")
        table.drop_column("outcome")
