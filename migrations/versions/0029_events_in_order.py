"""An event of history gets its number when its transaction has one, so that readers can tell which numbers are to come.

Numbers are given in the order of asking, and seen in the order of commits. A reader that misses a number looks whether
any transaction is at work that was when it noticed; that is sound only if a transaction is known to the server before
it takes a number. On SQLite one transaction writes at a time.
"""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

NEXT = "nextval('history_id_seq'::regclass)"


def upgrade() -> None:
    """Ask for the transaction's own number first."""
    if op.get_bind().dialect.name == "postgresql":
        known = f"CASE WHEN pg_current_xact_id() IS NOT NULL THEN {NEXT} END"
        op.execute(f"ALTER TABLE history ALTER COLUMN id SET DEFAULT {known}")


def downgrade() -> None:
    """Take numbers as before."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE history ALTER COLUMN id SET DEFAULT {NEXT}")
