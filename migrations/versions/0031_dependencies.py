"""Jobs that wait for other jobs: which job each name meant, and since when what was waited for is over."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, empty: no release before made a job wait for another."""
    op.create_table(
        "job_dependency",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("target", sa.String(320), nullable=False),
        sa.Column("target_uid", sa.String(36), nullable=False),
        sa.Column("met_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("uid", "target", name="pk_job_dependency"),
    )


def downgrade() -> None:
    """Remove it: releases before start such jobs at once."""
    op.drop_table("job_dependency")
