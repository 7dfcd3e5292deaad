"""History is found by namespace and name, by UID only what people did.

UIDs are random: each event of a job that starts went to another page of their index, which was the larger part of what
writing it cost in a large database.
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

BY_USERS = "actor <> 'scheduler'"


def upgrade() -> None:
    """Replace the index of all rows by one of those that no scheduler wrote."""
    where = sa.text(BY_USERS)
    op.drop_index("ix_history_uid", table_name="history")
    op.create_index("ix_history_users_uid", "history", ["uid"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Bring it back."""
    op.drop_index("ix_history_users_uid", table_name="history")
    op.create_index("ix_history_uid", "history", ["uid"])
