"""`/apis/v1/forecast-accuracy`: how close forecasts of starts came to what happened."""

from typing import Annotated, Final, Literal

from fastapi import Query
from starlette.responses import Response

from t9ksched.api.auth import Manager, guarded
from t9ksched.api.http.responses import answer, documented
from t9ksched.api.schemas.reports import ForecastAccuracy
from t9ksched.api.services import Given
from t9ksched.model.forecast import accuracy

router = guarded("/apis/v1/forecast-accuracy", "forecasts")

MOST: Final = 10_000
"""Jobs that a report is made of: enough for percentiles, few enough to be read at once."""


@router.get(
    "",
    operation_id="getForecastAccuracy",
    summary="How good forecasts are",
    description="Of the 10,000 jobs that started last after they had been seen waiting; a manager sees those of the"
    " queues managed. `first` forecasts are those made when a job was first seen waiting, `last` those before it"
    " started.",
    responses=documented({200: ForecastAccuracy}, 403, 422),
)
async def forecast_accuracy(
    services: Given, caller: Manager, which: Annotated[Literal["first", "last"], Query()] = "first"
) -> Response:
    queues = None if caller.is_admin else caller.ruled
    found = await services.store.forecasts.outcomes(last=which == "last", queues=queues, most=MOST)
    return answer(accuracy(found))
