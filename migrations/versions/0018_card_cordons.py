"""Cards that administrators took out of work."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, empty: cards that annotations of nodes name are taken over when the scheduler sees them."""
    op.create_table(
        "card_cordon",
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("card", sa.Integer, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("by", sa.String(253), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("node", "card", name="pk_card_cordon"),
    )


def downgrade() -> None:
    """Remove it: releases before read the annotations of nodes, which stay."""
    op.drop_table("card_cordon")
