"""Whose each job is, in a column of its own, so that the jobs of a user that wait can be counted."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and fill it from what was written of each job."""
    op.add_column("job", sa.Column("submitter", sa.String(253)))
    if op.get_bind().dialect.name == "sqlite":
        submitter = "substr(json_extract(shape, '$.submitter'), 1, 253)"
    else:
        submitter = "substr(shape ->> 'submitter', 1, 253)"
    op.execute(f"UPDATE job SET submitter = {submitter}")
    op.create_index("ix_job_submitter_phase", "job", ["submitter", "phase"])


def downgrade() -> None:
    """Remove it; the text of each job still says whose it is."""
    op.drop_index("ix_job_submitter_phase", "job")
    op.drop_column("job", "submitter")
