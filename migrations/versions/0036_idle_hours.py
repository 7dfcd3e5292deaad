"""What idle workloads held before they were suspended, and when it was taken again, for idle and free GPU-hours."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table, empty: of what was suspended before nothing is known."""
    op.create_table(
        "usage_idle",
        sa.Column("id", SERIAL, nullable=False, autoincrement=True),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("pod", sa.String(253), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("job", sa.String(320), nullable=False),
        sa.Column("queue", sa.String(63), nullable=False),
        sa.Column("submitter", sa.String(253), nullable=False),
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("cards", sa.JSON, nullable=False),
        sa.Column("worth", sa.BigInteger),
        sa.Column("resource", sa.String(253), nullable=False),
        sa.Column("model", sa.String(253), nullable=False),
        sa.Column("models", sa.JSON),
        sa.Column("bound_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ran_at", sa.DateTime(timezone=True)),
        sa.Column("idle_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("free_until", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_usage_idle"),
    )
    op.create_index("ix_usage_idle_uid", "usage_idle", ["uid"])
    op.create_index("ix_usage_idle_free_until", "usage_idle", ["free_until"])


def downgrade() -> None:
    """Remove it: GPU-hours stay as they are, how many of them were idle is forgotten."""
    op.drop_table("usage_idle")
