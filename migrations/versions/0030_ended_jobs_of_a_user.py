"""Jobs that are gone are found by who submitted them. Nothing is added to what a job costs when it starts."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

NAME = "ix_job_gone_submitter"
GONE = "deleted_at IS NOT NULL"


def upgrade() -> None:
    """An index of those alone, in the order of lists."""
    where = sa.text(GONE)
    op.create_index(NAME, "job", ["submitter", "submitted_at", "uid"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Without it."""
    op.drop_index(NAME, table_name="job")
