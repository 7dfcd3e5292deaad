"""Which cards of which node each bound pod holds, as the scheduler decided: annotations on pods can be edited."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the table. It is empty: the next start fills it with what annotations of bound pods say."""
    op.create_table(
        "binding",
        sa.Column("pod_uid", sa.String(36), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("cards", sa.JSON, nullable=False),
        sa.Column("share", sa.Integer, nullable=False),
        sa.Column("honoured", sa.Boolean, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("pod_uid", name="pk_binding"),
    )


def downgrade() -> None:
    """Remove it, and the word that it is complete: after another upgrade annotations are read once more."""
    op.drop_table("binding")
    op.execute("DELETE FROM meta WHERE key = 'bindings'")
