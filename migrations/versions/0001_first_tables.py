"""The first tables: queues, tokens, acceptances, history, jobs, and the log of changes.

Types are written out here, not taken from the program: a migration must not change when the program does.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create everything; the counter of revisions starts with its one row."""
    op.create_table(
        "queue",
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_queue"),
        sa.UniqueConstraint("uid", name="uq_queue_uid"),
    )
    op.create_table(
        "api_token",
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(253), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("last_used_at", MOMENT),
        sa.PrimaryKeyConstraint("name", name="pk_api_token"),
        sa.UniqueConstraint("sha256", name="uq_api_token_sha256"),
    )
    op.create_table(
        "acceptance",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(63), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("group_uid", sa.String(36)),
        sa.Column("group_name", sa.String(253)),
        sa.Column("submitter", sa.String(253)),
        sa.Column("queue", sa.String(63)),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("time_limit_seconds", sa.BigInteger),
        sa.Column("cards", sa.JSON, nullable=False),
        sa.Column("requests", sa.JSON, nullable=False),
        sa.Column("accepted_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_acceptance"),
    )
    op.create_index("ix_acceptance_accepted_at", "acceptance", ["accepted_at"])
    op.create_index("ix_acceptance_namespace_name", "acceptance", ["namespace", "name"])
    op.create_table(
        "history",
        sa.Column("id", SERIAL, nullable=False, autoincrement=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(63)),
        sa.Column("namespace", sa.String(63)),
        sa.Column("name", sa.String(253)),
        sa.Column("uid", sa.String(36)),
        sa.Column("queue", sa.String(63)),
        sa.Column("actor", sa.String(253)),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_history"),
    )
    op.create_index("ix_history_at", "history", ["at"])
    op.create_index("ix_history_uid", "history", ["uid"])
    op.create_index("ix_history_queue_id", "history", ["queue", "id"])
    op.create_index("ix_history_namespace_name_id", "history", ["namespace", "name", "id"])
    op.create_table(
        "job",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(63), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("queue", sa.String(63)),
        sa.Column("phase", sa.String(20), nullable=False),
        sa.Column("submitted_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("deleted_at", MOMENT),
        sa.Column("shape", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_job"),
    )
    op.create_index("ix_job_namespace_kind_name", "job", ["namespace", "kind", "name"])
    op.create_index("ix_job_queue_phase", "job", ["queue", "phase"])
    op.create_index("ix_job_submitted_at_uid", "job", ["submitted_at", "uid"])
    op.create_table(
        "change_log",
        sa.Column("revision", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("table_name", sa.String(40), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_change_log"),
    )
    op.create_index("ix_change_log_at", "change_log", ["at"])
    counter = op.create_table(
        "revision_counter",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_revision_counter"),
    )
    op.bulk_insert(counter, [{"id": 1, "value": 0}])
    op.create_table(
        "scheduler_instance",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("address", sa.String(253), nullable=False),
        sa.Column("identity", sa.String(253), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("heartbeat_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_scheduler_instance"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(63), nullable=False),
        sa.Column("value", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )


def downgrade() -> None:
    """Remove everything."""
    for table in (
        "meta",
        "scheduler_instance",
        "revision_counter",
        "change_log",
        "job",
        "history",
        "acceptance",
        "api_token",
        "queue",
    ):
        op.drop_table(table)
