"""Notifications: where users and queues want to be told of what happens, and what is still to be sent."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add both tables, empty."""
    op.create_table(
        "notification_target",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(253), nullable=False),
        sa.Column("queue", sa.String(63)),
        sa.Column("within", sa.JSON, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("shown", sa.String(320), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("disabled_at", sa.DateTime(timezone=True)),
        sa.Column("last_at", sa.DateTime(timezone=True)),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification_target"),
    )
    op.create_index("ix_notification_target_owner", "notification_target", ["owner"])
    op.create_index("ix_notification_target_queue", "notification_target", ["queue"])
    op.create_table(
        "notification",
        sa.Column("id", SERIAL, nullable=False, autoincrement=True),
        sa.Column("target", sa.String(32), nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification"),
    )
    op.create_index("ix_notification_target_due_at", "notification", ["target", "due_at"])


def downgrade() -> None:
    """Remove them: what was not sent yet is not told, and what was wanted has to be named again."""
    op.drop_table("notification")
    op.drop_table("notification_target")
