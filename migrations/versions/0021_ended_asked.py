"""What annotations asked for when an updated limit ended a job: they are no new limit when it is resumed."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Jobs that ended before resume with what their annotations ask for, as they did."""
    op.add_column("job_run", sa.Column("ended_asked", sa.BigInteger))


def downgrade() -> None:
    """Remove it."""
    with op.batch_alter_table("job_run") as table:
        table.drop_column("ended_asked")
