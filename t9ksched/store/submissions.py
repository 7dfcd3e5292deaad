"""What one request created, written in one go: on SQLite in one step aside, on PostgreSQL in one round trip.

The statements do what the repositories do one by one: new jobs are put down unless the leader was faster, events
are appended and GPU-hours get their user, acceptances stay as first written, except for a submitter that was unknown.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, String, bindparam, insert, select, text, update

from t9ksched.store import acceptances, history_rows, jobs
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.bulk import Prepared, Speaker, Statement
from t9ksched.store.changes import NOTIFY
from t9ksched.store.database import Database
from t9ksched.store.history import Event
from t9ksched.store.jobs import JobRecord
from t9ksched.store.moment import Moment
from t9ksched.store.spans import UNKNOWN, submitter_of
from t9ksched.store.tables import change_log, revision_counter, usage_job, usage_open


class Submissions:
    """Writes submissions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self,
        accepted: Sequence[Acceptance],
        new: Sequence[JobRecord],
        events: Sequence[Event],
        answer: Sequence[Prepared] = (),
        closing: Sequence[Prepared] = (),
    ) -> None:
        """Write all of it or nothing. `answer` stores the response for requests that may be repeated. `closing` are
        statements of the outbox, which make all fail if another replica has taken the submission over.

        Raises:
            StoreError: nothing was written, unless the connection was lost with the database's answer.
        """
        named = [{"of": event.uid, "by": by} for event in events if event.uid and (by := submitter_of(event))]
        steps = [
            *closing,
            _NAME_JOB.prepared(self._database, named),
            _NAME_SPANS.prepared(self._database, named),
            jobs.MISSING.prepared(self._database, new),
            history_rows.APPEND.prepared(self._database, events),
            *answer,
        ]
        if accepted:
            # Last, because it takes the lock of the order of changes, for which all others wait.
            steps += self._announced([one.uid for one in accepted])
            steps.append(acceptances.FIRST.prepared(self._database, accepted))
        await self._database.write_all([step for step in steps if step.parameters])

    def _announced(self, uids: Sequence[str]) -> list[Prepared]:
        """The same as `changes.append`: revisions are counted on and each is given to a UID."""
        at = datetime.now(UTC)
        rows: list[dict[str, Any]] = [
            {"behind": behind, "uid": uid, "now": at} for behind, uid in enumerate(reversed(uids))
        ]
        steps = [_COUNT.prepared(self._database, [{"more": len(uids)}]), _LOG.prepared(self._database, rows)]
        return steps if self._database.is_sqlite else [*steps, Prepared(NOTIFY, [{}])]


def _name_job(_: Speaker) -> Any:
    return update(usage_job).where(usage_job.c.uid == bindparam("of")).values(submitter=bindparam("by"))


def _name_spans(_: Speaker) -> Any:
    unknown = (usage_open.c.uid == bindparam("of")) & (usage_open.c.submitter == text(f"'{UNKNOWN}'"))
    return update(usage_open).where(unknown).values(submitter=bindparam("by"))


def _count(_: Speaker) -> Any:
    return update(revision_counter).values(value=revision_counter.c.value + bindparam("more", type_=BigInteger))


def _log(_: Speaker) -> Any:
    values = (
        revision_counter.c.value - bindparam("behind", type_=BigInteger),
        text("'acceptance'"),
        bindparam("uid", type_=String),
        bindparam("now", type_=Moment),
    )
    columns = ("revision", "table_name", "key", "at")
    return insert(change_log).from_select(columns, select(*values).select_from(revision_counter))


_NAMING = {"of": usage_job.c.uid.type, "by": usage_job.c.submitter.type}
_NAME_JOB = Statement(_NAMING, _name_job)
_NAME_SPANS = Statement(_NAMING, _name_spans)
_COUNT = Statement({"more": BigInteger()}, _count)
_LOG = Statement({"behind": BigInteger(), "uid": String(), "now": change_log.c.at.type}, _log)
