"""Reservations that administrators make of nodes or cards, for some jobs or for maintenance."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "reservation",
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("nodes", sa.JSON, nullable=False),
        sa.Column("ended", sa.JSON),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String(253)),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_reservation"),
        sa.UniqueConstraint("uid", name="uq_reservation_uid"),
    )


def downgrade() -> None:
    """Remove it: what was reserved is anybody's."""
    op.drop_table("reservation")
