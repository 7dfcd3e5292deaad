"""The list of jobs: what the leader knows, and what is recorded of jobs that it does not know (yet, or any more).

Jobs are in the order of their submission, those of one second in that of their names. Both are fixed, so that pages
hold each job once. A job may be recorded some seconds after or before the time that its object tells; rows are read a
margin further than the page goes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from t9ksched.api.authorization import JobAccess
from t9ksched.api.http.paging import Key, Paging
from t9ksched.api.http.responses import Json, at
from t9ksched.api.http.selectors import Requirement, met
from t9ksched.api.leader import LeaderAway
from t9ksched.api.services import Services
from t9ksched.model.wall_clock import parse_moment
from t9ksched.store.jobs import JobRecord, Matching

_FRESH: Final = timedelta(seconds=30)
"""How long a job just accepted is listed though the leader has not seen it yet."""
_MARGIN: Final = timedelta(minutes=1)
"""By how much the time of a record may differ from that of its object."""
_ROWS: Final = 500
"""Rows that are read at a time where a page is asked for."""
_MOST_ROWS: Final = 10_000
"""Rows that are looked at for one page; a page may be short because few of them pass the filters."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list, and in which order."""

    matching: Matching
    labels: Sequence[Requirement] = ()
    deleted: bool = False
    newest_first: bool = False

    def chosen(self, jobs: Iterable[Json]) -> list[Json]:
        """Those of the jobs that pass all filters. A filter that is not given looks at none of them."""
        found, want = list(jobs), self.matching
        several = (("queue", want.queues), ("phase", want.phases), ("kind", want.kinds), ("submitter", want.users))
        namespaces = () if want.namespace is None else (want.namespace,)
        for part, values in (*several, ("namespace", namespaces)):
            if values:
                found = [job for job in found if job.get(part) in values]
        # Times of one form in one zone: the texts are in the order of time.
        if since := at(want.since and _up(want.since)):
            found = [job for job in found if (job.get("submittedAt") or "") >= since]
        if until := at(want.until and _up(want.until)):
            found = [job for job in found if (job.get("submittedAt") or "") < until]
        return [job for job in found if met(self.labels, job.get("labels"))] if self.labels else found


def job_key(job: Json) -> Key:
    """By which jobs are sorted."""
    get = job.get
    return get("submittedAt") or "", get("namespace") or "", get("name") or "", get("uid") or ""


async def listed(
    services: Services, access: JobAccess, query: JobQuery, paging: Paging
) -> tuple[list[Json], str | None, dict[str, str]]:
    """The jobs of the page that the caller may see, what continues it, and the headers of the answer."""
    headers: dict[str, str] = {}
    live: list[Json] = []
    fresh: datetime | None = None
    try:
        live = await services.leader.jobs(access.visibility)
        fresh = datetime.now(UTC) - _FRESH
    except LeaderAway as away:
        headers = away.age_header(away.age)
    known = {job["uid"] for job in live}
    reader = _Recorded(services, access, query, fresh)
    passing = query.chosen(access.those(live))
    found: list[Json] = []
    while True:
        rows = map(_shape, await reader.read(paging))
        found += query.chosen(access.those(job for job in rows if job["uid"] not in known))
        complete = reader.complete_upto
        jobs = [*passing, *found]
        if complete is not None:
            jobs = [job for job in jobs if _is_before(job_key(job)[0], complete, query.newest_first)]
        jobs.sort(key=job_key, reverse=query.newest_first)
        page, token = paging.of(jobs, job_key, newest_first=query.newest_first)
        if complete is None or token is not None:
            return page, token, headers
        if reader.rows >= _MOST_ROWS:
            return page, paging.token((complete, "")), headers


class _Recorded:
    """Reads rows in order, all at once or page by page. Up to `complete_upto` (a time as jobs tell it, None: the end)
    every job was read.
    """

    def __init__(self, services: Services, access: JobAccess, query: JobQuery, fresh: datetime | None) -> None:
        self._jobs = services.store.jobs
        self._query = query
        since, until = query.matching.since, query.matching.until
        self._matching = replace(
            query.matching, since=since and since - _MARGIN, until=until and until + _MARGIN
        )  # which of them pass is said of what is shown
        self._asked: dict[str, Any] = {
            "deleted": query.deleted,
            "live_since": fresh,
            "seen_by": access.visibility,
            "newest_first": query.newest_first,
        }
        self._after: tuple[datetime, str] | None = None
        self.rows = 0
        self.complete_upto: str | None = None

    async def read(self, paging: Paging) -> Iterable[JobRecord]:
        """The next rows."""
        newest = self._query.newest_first
        if paging.limit is None and paging.after is None:
            # All that there are; of very many the newest.
            rows = await self._jobs.page(self._matching, **self._asked | {"newest_first": True}, limit=_MOST_ROWS)
            self.rows += len(rows)
            return rows
        if self._after is None and paging.after is not None and (moment := _moment(paging.after[0])) is not None:
            self._after = (moment + _MARGIN, "~") if newest else (moment - _MARGIN, "")
        rows = await self._jobs.page(self._matching, **self._asked, limit=_ROWS, after=self._after)
        self.rows += len(rows)
        self.complete_upto = None
        if len(rows) == _ROWS:
            last = rows[-1]
            self._after = (last.submitted_at, last.uid)
            self.complete_upto = at(last.submitted_at + (_MARGIN if newest else -_MARGIN))
        return rows


def _is_before(submitted: str, bound: str, newest_first: bool) -> bool:
    return submitted > bound if newest_first else submitted < bound


def _moment(text: str) -> datetime | None:
    """That of a token; None where nobody was given such a one."""
    try:
        return parse_moment(text)
    except ValueError:
        return None


def _up(moment: datetime) -> datetime:
    """The moment in whole seconds, upwards."""
    return moment if moment.microsecond == 0 else moment.replace(microsecond=0) + timedelta(seconds=1)


def _shape(record: JobRecord) -> Json:
    shape = record.shape | {"phase": record.phase}
    if record.deleted_at is None:
        return shape
    gone = at(record.deleted_at)
    members = shape.get("members", {}) | {"bound": 0, "running": 0}
    return shape | {"deletedAt": gone, "finishedAt": shape.get("finishedAt") or gone, "members": members}
