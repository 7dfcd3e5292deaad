"""What a pod has of each of its cards on a node that divides cards. Rows of earlier releases are about whole cards."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, null in all rows: the cards that they name are whole."""
    op.add_column("binding", sa.Column("parts", sa.JSON, nullable=True))


def downgrade() -> None:
    """Remove the column: an earlier release places no pod on a part of a card, and reads those that run as whole."""
    with op.batch_alter_table("binding") as table:
        table.drop_column("parts")
