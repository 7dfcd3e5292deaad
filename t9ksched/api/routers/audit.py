"""`/apis/v1/admin/audit`: administrative changes, each with its user, its time, and the values before and after.
Append-only, newest first.
"""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from t9ksched.api.auth import Manager, guarded
from t9ksched.api.http.paging import EventLimit, Paged
from t9ksched.api.http.parameters import one_of, span
from t9ksched.api.http.responses import answer, documented
from t9ksched.api.job_from_object import from_event
from t9ksched.api.schemas.reports import AuditPage
from t9ksched.api.services import Given
from t9ksched.store.history import AUDITED, OUTCOMES

router = guarded("/apis/v1/admin/audit", "audit")
_TOLD = sorted(AUDITED | OUTCOMES)


@router.get(
    "",
    operation_id="listAdministrativeChanges",
    summary="List administrative changes, newest first",
    description="A manager sees those of the queues managed. `continue` of an answer leads to the next page. With"
    " `event` also what became of reservations: reservation-over, reservation-missed and reservation-released.",
    responses=documented({200: AuditPage}, 403, 422),
)
async def list_changes(
    services: Given,
    caller: Manager,
    paging: Paged,
    event: Annotated[str | None, Query(description="Such as queue-changed", max_length=40)] = None,
    queue: str | None = None,
    actor: Annotated[str | None, Query(description="Who did it")] = None,
    name: Annotated[str | None, Query(description="Of the token, the job or what was stopped")] = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: Annotated[int, Query(ge=0, lt=2**63, description="`next` of the page before")] = 0,
    limit: EventLimit = 100,
) -> Response:
    begin, end = span(since, until)
    found = await services.store.history.list(
        events=AUDITED if event is None else {one_of(_TOLD, event, "query.event", "event of the audit")},
        queue=queue,
        queues=None if caller.is_admin else caller.ruled,
        actor=actor,
        name=name,
        since=begin,
        until=end,
        after=paging.place(after),
        limit=limit,
        newest_first=True,
    )
    items = [from_event(one) for one in found]
    more = paging.behind([one.id for one in found], limit)
    return answer({"items": items, "next": found[-1].id if more else None, "continue": more})
