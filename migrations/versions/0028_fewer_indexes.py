"""Fewer entries of indexes for each job that starts.

History is found by job; by event and by queue only what is no part of every job's life. Waiting jobs have indexes of
their own, and no query asks for acceptances by time or by name. A single pod that holds cards needs no row in
`usage_job` while its open span says the same.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

SELDOM = (
    "event NOT IN ('accepted', 'admitted', 'bound', 'deleted', 'finished', 'refused', 'released', 'started',"
    " 'submitted', 'waiting')"
)
WAITING = "phase IN ('Pending', 'Waiting') AND deleted_at IS NULL"
FEWER = (
    ("ix_history_seldom_event_id", "history", ["event", "id"], SELDOM),
    ("ix_history_seldom_queue_id", "history", ["queue", "id"], SELDOM),
    ("ix_job_waiting_submitter", "job", ["submitter"], WAITING),
)
OF_ALL = (
    ("ix_history_event_id", "history", ["event", "id"]),
    ("ix_history_queue_id", "history", ["queue", "id"]),
    ("ix_history_at", "history", ["at"]),
    ("ix_job_submitter_phase", "job", ["submitter", "phase"]),
    ("ix_acceptance_accepted_at", "acceptance", ["accepted_at"]),
    ("ix_acceptance_namespace_name", "acceptance", ["namespace", "name"]),
)

USAGE_JOB = sa.table(
    "usage_job",
    sa.column("uid", sa.String),
    sa.column("submitter", sa.String),
    sa.column("running", sa.Boolean),
    sa.column("months", sa.JSON),
)
OPEN = sa.table(
    "usage_open",
    sa.column("uid", sa.String),
    sa.column("submitter", sa.String),
    sa.column("ran_at", sa.DateTime(timezone=True)),
)


def upgrade() -> None:
    """Replace indexes of all rows by indexes of some, where any are needed."""
    for name, table, _ in OF_ALL:
        op.drop_index(name, table_name=table)
    for name, table, columns, condition in FEWER:
        where = sa.text(condition)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Bring them back, and the rows of single pods: earlier releases count no span of a job without one."""
    known = sa.select(USAGE_JOB.c.uid)
    told = (OPEN.c.uid, sa.func.max(OPEN.c.submitter), sa.func.count(OPEN.c.ran_at) > 0, sa.literal([], sa.JSON))
    missing = sa.select(*told).where(OPEN.c.uid.not_in(known)).group_by(OPEN.c.uid)
    op.execute(sa.insert(USAGE_JOB).from_select([column.name for column in USAGE_JOB.columns], missing))
    for name, table, _, _ in FEWER:
        op.drop_index(name, table_name=table)
    for name, table, columns in OF_ALL:
        op.create_index(name, table, columns)
