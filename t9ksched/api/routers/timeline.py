"""`/apis/v1/timeline`: what runs until when, and what is planned and reserved, as the leader expects it. Every user
sees when room is taken and comes free; the names of other users' jobs are shown to their managers alone.
"""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from t9ksched.api.auth import User, guarded
from t9ksched.api.authorization import JobAccess
from t9ksched.api.http.responses import Json, answer, at, documented
from t9ksched.api.redaction import Redaction
from t9ksched.api.schemas.timeline import Timeline
from t9ksched.api.services import Given
from t9ksched.api.slices import slices

router = guarded("/apis/v1/timeline", "timeline")


@router.get(
    "",
    operation_id="getTimeline",
    summary="What runs, is planned and reserved",
    responses=documented({200: Timeline}, 422, 503),
)
async def timeline(
    services: Given,
    caller: User,
    hours: Annotated[int, Query(ge=1, le=8760, description="How far ahead to look")] = 24,
) -> Response:
    found = await services.leader.timeline(hours)
    to = at(datetime.fromisoformat(found["at"]) + timedelta(hours=hours)) or ""
    redaction = await Redaction.of(services, await JobAccess.of(services, caller))
    shown: list[Json] = []
    async for some in slices(found["items"]):
        # Moments of one form in one zone: the texts are in the order of time.
        shown += [redaction.holder(item) for item in some if (item["from"] or "") < to]
    return answer({"at": found["at"], "to": to, "nodes": found["nodes"], "items": shown})
