"""In which job each bound pod was placed: a PodGroup can be deleted and made anew, by another user, while it runs."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Rows that are there say nothing: the next start believes once that the job is still the same."""
    op.add_column("binding", sa.Column("job_uid", sa.String(36)))


def downgrade() -> None:
    """Remove it."""
    with op.batch_alter_table("binding") as table:
        table.drop_column("job_uid")
