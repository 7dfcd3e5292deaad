"""An index of the jobs whose objects are there: lists need not walk past all those of the last months."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    there = sa.text("deleted_at IS NULL")
    op.create_index("ix_job_live", "job", ["submitted_at", "uid"], sqlite_where=there, postgresql_where=there)


def downgrade() -> None:
    """Remove it."""
    op.drop_index("ix_job_live", table_name="job")
