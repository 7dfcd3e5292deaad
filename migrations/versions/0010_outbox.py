"""Submissions in progress, so that what a lost process had begun to create is finished or removed."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table. Of submissions that were lost before the upgrade nothing is known."""
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(253), nullable=False),
        sa.Column("key", sa.String(64)),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("latest", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("claim", sa.String(32), nullable=False),
        sa.Column("replica", sa.String(253), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("objects", sa.JSON, nullable=False),
        sa.Column("uids", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_until", "outbox", ["until"])
    op.create_index("ix_outbox_owner_key", "outbox", ["owner", "key"])


def downgrade() -> None:
    """Remove it: what a lost process had begun to create is finished by a repeat with its `Idempotency-Key` alone."""
    op.drop_index("ix_outbox_owner_key", "outbox")
    op.drop_index("ix_outbox_until", "outbox")
    op.drop_table("outbox")
