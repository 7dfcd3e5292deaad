"""Requests with an `Idempotency-Key` and their answers, so that a repeat is answered as the first was."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table. Requests answered before the upgrade are not known: a repeat of one is a new request."""
    op.create_table(
        "idempotency_key",
        sa.Column("owner", sa.String(253), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("mark", sa.String(32), nullable=False),
        sa.Column("claim", sa.String(32), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("answer", sa.Text),
        sa.PrimaryKeyConstraint("owner", "key", name="pk_idempotency_key"),
    )
    op.create_index("ix_idempotency_key_at", "idempotency_key", ["at"])


def downgrade() -> None:
    """Remove it: a repeat is then a new request, refused where its names are taken."""
    op.drop_index("ix_idempotency_key_at", "idempotency_key")
    op.drop_table("idempotency_key")
