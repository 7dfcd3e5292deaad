"""What was accepted is remembered by its owner: how many pods it may have, and that it has started."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Of rows that are there the scheduler fills them in when it sees the objects."""
    op.add_column("acceptance", sa.Column("replicas", sa.Integer))
    op.add_column("acceptance", sa.Column("started_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Remove them: replacement pods count as new work again."""
    op.drop_column("acceptance", "started_at")
    op.drop_column("acceptance", "replicas")
