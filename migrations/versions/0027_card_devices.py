"""Which devices the cards of a pod are, by UUID, where its node says it."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, null in all rows: their cards are taken for the devices that have these indices now."""
    op.add_column("binding", sa.Column("devices", sa.JSON, nullable=True))


def downgrade() -> None:
    """Remove the column: an earlier release knows cards by index alone."""
    with op.batch_alter_table("binding") as table:
        table.drop_column("devices")
