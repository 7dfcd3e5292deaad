"""The planned start of each gang that waits for one: a scheduler that starts keeps the moments that were told."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty: nothing was planned before."""
    op.create_table(
        "planned_start",
        sa.Column("owner", sa.String(36), primary_key=True),
        sa.Column("queue", sa.String(63), nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("begins", sa.BigInteger, nullable=False),
        sa.Column("ends", sa.BigInteger, nullable=False),
        sa.Column("places", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Remove the table: gangs that wait are planned for anew by a release that plans."""
    op.drop_table("planned_start")
