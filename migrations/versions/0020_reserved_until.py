"""Until when jobs may run that got the rest of a reservation as their limit: it stands after a restart."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Jobs that run keep what follows from their reservation as it is now."""
    op.add_column("job_run", sa.Column("reserved_until", sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    """Remove it."""
    with op.batch_alter_table("job_run") as table:
        table.drop_column("reserved_until")
