"""Jobs that ended last are found by when they ended. Nothing is added to what a job costs when it starts."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

NAME = "ix_job_finished_at"
ENDED = "finished_at IS NOT NULL"


def upgrade() -> None:
    """An index of those alone."""
    where = sa.text(ENDED)
    op.create_index(NAME, "job", ["finished_at"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Without it."""
    op.drop_index(NAME, table_name="job")
