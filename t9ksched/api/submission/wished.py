"""The query parameters that wish something for all jobs of a request, read alike wherever jobs are submitted or asked
about.
"""

from typing import Annotated

from fastapi import Depends, Query

from t9ksched.api.http.parameters import (
    After,
    AfterCancel,
    JobPriority,
    QueueName,
    ReservationName,
    StartAfter,
    TimeLimit,
    after_text,
    limit_text,
    moment_text,
)
from t9ksched.api.submission.submission import Wish


async def _wish(
    namespace: Annotated[str | None, Query(description="For objects that name none", max_length=63)] = None,
    queue: QueueName = None,
    priority: JobPriority = None,
    time_limit: TimeLimit = None,
    start_after: StartAfter = None,
    reservation: ReservationName = None,
    after: After = None,
    after_cancel: AfterCancel = None,
) -> Wish:
    limit, moment = limit_text(time_limit), moment_text(start_after, "startAfter")
    return Wish(namespace, queue, priority, limit, moment, reservation, after_text(after), after_cancel)


Wished = Annotated[Wish, Depends(_wish)]
"""The parameter by which an endpoint gets what the query wishes for the jobs in the body."""
