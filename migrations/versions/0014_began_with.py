"""With which minimum each group began to run: one that is raised meanwhile does not count, after a restart either."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Rows that are there say nothing: of those groups as many members count as were accepted."""
    op.add_column("acceptance", sa.Column("began_with", sa.Integer))
    op.add_column("acceptance", sa.Column("began_roles", sa.JSON))


def downgrade() -> None:
    """Remove them."""
    with op.batch_alter_table("acceptance") as table:
        table.drop_column("began_with")
        table.drop_column("began_roles")
