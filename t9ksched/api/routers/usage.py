"""`/apis/v1/usage`: GPU-hours by queue, user, namespace, model, month and more, as JSON or CSV."""

import csv
import io
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from starlette.responses import Response

from t9ksched.api.auth import User, guarded
from t9ksched.api.authorization import JobAccess
from t9ksched.api.http.parameters import span
from t9ksched.api.http.problems import invalid
from t9ksched.api.http.responses import answer, at, documented
from t9ksched.api.schemas.reports import UsageReport
from t9ksched.api.services import Given
from t9ksched.model.errors import FieldError
from t9ksched.store.spans import rows

router = guarded("/apis/v1/usage", "usage")

Grouping = Literal["queue", "user", "namespace", "model", "resource", "month", "job", "node", "card"]
_MONTH: Final = re.compile(r"20\d\d-(0[1-9]|1[0-2])")
_Month = Annotated[
    str | None, Query(json_schema_extra={"pattern": f"^{_MONTH.pattern}$"}, description="Such as 2031-05; UTC")
]
_OK: dict[int | str, dict[str, Any]] = {
    200: {"model": UsageReport, "content": {"text/csv": {"schema": {"type": "string"}}}}
}


@router.get(
    "",
    operation_id="getUsage",
    summary="GPU-hours",
    description="Of your own jobs; a manager also of the queues managed, an administrator of all. A part of a card, a"
    " MIG slice and a time slice count as the part of a card that they are. `heldHours` passed while cards were held"
    " before the job ran; they are part of `gpuHours`. `idleHours`, part of them too, passed unused before a workload"
    " was suspended for that; `freeHours` of its cards followed until it had cards again or was deleted. A job counts"
    " once in each month that it held cards in. Hours by queue, user, namespace, model, resource and month are kept for"
    " good; by job, node and card, for parts of a day, and idle and free ones, as long as history is.",
    responses=documented({}, 422) | _OK,
)
async def report(
    services: Given,
    caller: User,
    by: Annotated[list[Grouping] | None, Query(description="May be given repeatedly; default queue")] = None,
    since: Annotated[datetime | None, Query(description="UTC unless it says otherwise")] = None,
    until: Annotated[datetime | None, Query(description="Default now")] = None,
    month: _Month = None,
    format: Literal["json", "csv"] = "json",
) -> Response:
    groups: list[str] = list(dict.fromkeys(by or ["queue"]))
    now = datetime.now(UTC)
    begin, end = _window(since, until, month, now)
    job_access = await JobAccess.of(services, caller)
    found = await services.store.usage.report(groups, since=begin, until=end, now=now, seen_by=job_access.visibility)
    lines = rows(found, groups)
    if format == "csv":
        return Response(_csv(groups, lines), media_type="text/csv")
    total = {name: sum(row[name] for row in lines) for name in ("gpuHours", "heldHours", "idleHours", "freeHours")}
    return answer({"since": at(begin), "until": at(end), "by": groups, "items": lines, "total": total})


def _window(
    since: datetime | None, until: datetime | None, month: str | None, now: datetime
) -> tuple[datetime | None, datetime]:
    begin, given = span(since, until)
    end = given or now
    if month is not None:
        if since or until:
            raise invalid([FieldError("query.month", "goes without since and until")])
        if not _MONTH.fullmatch(month):
            raise invalid([FieldError("query.month", f"{month!r} is no month: write it such as 2031-05")])
        begin = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        following = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        end = min(now, following)
    if begin is not None and begin > end and month is None:
        raise invalid([FieldError("query.since", "is after until")])
    return begin, end


def _csv(groups: list[str], rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(
        out, [*groups, "gpuHours", "heldHours", "jobs", "idleHours", "freeHours"], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows({key: _harmless(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _harmless(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
