"""Who may use queues, scoped tokens, control of waiting jobs, stops; history that nobody can rewrite.

Queues that exist already stay open to everyone: an upgrade takes access from nobody. New ones start without members.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)

_SQLITE_TRIGGER = """
CREATE TRIGGER history_append_only BEFORE UPDATE ON history
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END
"""
_POSTGRES_FUNCTION = """
CREATE FUNCTION history_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'history is append-only'; END $$
"""
_POSTGRES_TRIGGER = """
CREATE TRIGGER history_append_only BEFORE UPDATE ON history
FOR EACH STATEMENT EXECUTE FUNCTION history_append_only()
"""


def upgrade() -> None:
    """Add columns and tables; open the queues there are to everyone."""
    op.add_column("queue", sa.Column("members", sa.JSON, nullable=False, server_default="{}"))
    op.add_column("queue", sa.Column("draining", sa.Boolean, nullable=False, server_default=sa.false()))
    queue = sa.table("queue", sa.column("members", sa.JSON))
    op.execute(queue.update().values(members={"everyone": True}))
    op.add_column("api_token", sa.Column("groups", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("api_token", sa.Column("queues", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("api_token", sa.Column("expires_at", MOMENT))
    op.add_column("acceptance", sa.Column("groups", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("acceptance", sa.Column("permitted_by", sa.String(320)))
    op.create_table(
        "job_control",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("priority", sa.Integer),
        sa.Column("by", sa.String(253), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_job_control"),
    )
    op.create_table(
        "stop",
        sa.Column("what", sa.String(20), nullable=False),
        sa.Column("until", MOMENT),
        sa.Column("by", sa.String(253), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("what", name="pk_stop"),
    )
    op.create_index("ix_history_event_id", "history", ["event", "id"])
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_SQLITE_TRIGGER)
    else:
        op.execute(_POSTGRES_FUNCTION)
        op.execute(_POSTGRES_TRIGGER)


def downgrade() -> None:
    """Remove what was added; who was a member of what is forgotten.

    Tokens with narrower rights than the old program knows, or an end, would become wider: they are revoked.
    """
    op.execute("DELETE FROM api_token WHERE role NOT IN ('admin', 'user') OR expires_at IS NOT NULL")
    op.execute("DELETE FROM api_token WHERE CAST(queues AS TEXT) <> '[]'")
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER history_append_only")
    else:
        op.execute("DROP TRIGGER history_append_only ON history")
        op.execute("DROP FUNCTION history_append_only()")
    op.drop_index("ix_history_event_id", "history")
    op.drop_table("stop")
    op.drop_table("job_control")
    for table, columns in (
        ("acceptance", ("permitted_by", "groups")),
        ("api_token", ("expires_at", "queues", "groups")),
        ("queue", ("draining", "members")),
    ):
        for column in columns:
            op.drop_column(table, column)
