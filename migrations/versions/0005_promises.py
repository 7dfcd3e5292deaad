"""Room that was promised to gangs whose victims are leaving: a scheduler that starts anew gives it to nobody else."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "promise",
        sa.Column("owner", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("pods", sa.Integer, nullable=False),
        sa.Column("takes", sa.JSON, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("until", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("owner", "number", name="pk_promise"),
    )


def downgrade() -> None:
    """Remove it: room that victims are leaving is anybody's again after a restart."""
    op.drop_table("promise")
