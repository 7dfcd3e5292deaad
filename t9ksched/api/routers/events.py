"""`/apis/v1/events`: what happens to jobs, queues and nodes, as it happens, and again from any place in history."""

from typing import Annotated, get_args

from fastapi import Query, Request
from starlette.responses import Response

from t9ksched.api.auth import User, guarded
from t9ksched.api.events.known import About, Wanted
from t9ksched.api.events.stream import STREAM, Place, streamed
from t9ksched.api.http.parameters import among, one_of
from t9ksched.api.http.responses import documented
from t9ksched.api.services import Given
from t9ksched.api.submission.kinds import kind_named
from t9ksched.store.history import EVENTS

router = guarded("/apis/v1/events", "events")
_ABOUT = get_args(About)
_TYPES = sorted(EVENTS)


@router.get(
    "",
    operation_id="streamEvents",
    summary="Follow what happens to jobs, queues and nodes",
    description="Server-sent events, without an end. Each has an `id`, which `after` takes, and as `data` the JSON of"
    " a `StreamedEvent`. The first is of the type `ready` and tells from which id on: who then reads a"
    " list misses nothing between both. A client whose connection broke, or whom another replica answers,"
    " goes on behind the last id: no event is left out and none comes twice. It sees its own jobs, those"
    " of queues and namespaces that it manages or owns, queues that it may use, and nodes; without names"
    " of others. A comment every 15 seconds says that the stream lives; one of the type `end` says why it"
    " ends, with a `code` and a `message`. Filters that are given several times let each of their values"
    " through. What is older than the service keeps its history is not told.",
    responses=documented({}, 422, 503) | {200: {"description": "Events, without an end", "content": STREAM}},
    response_class=Response,
)
async def events(
    request: Request,
    services: Given,
    caller: User,
    place: Place,
    about: Annotated[list[str] | None, among("What they are about", _ABOUT)] = None,
    type: Annotated[
        list[str] | None, Query(description="Such as submitted, started or finished", max_length=20)
    ] = None,
    kind: Annotated[list[str] | None, Query(description="Of the job, such as pj", max_length=20)] = None,
    queue: Annotated[list[str] | None, Query(description="In which it is", max_length=20)] = None,
    user: Annotated[list[str] | None, Query(description="Who submitted the job", max_length=20)] = None,
    namespace: str | None = None,
    name: str | None = None,
) -> Response:
    for one in about or ():
        one_of(_ABOUT, one, "query.about", "thing that an event is about")
    for one in type or ():
        one_of(_TYPES, one, "query.type", "type of events")
    kinds = [kind_named(one) for one in kind or ()]
    wanted = Wanted(about or (), type or (), kinds, queue or (), user or (), namespace, name)
    return await streamed(request, services, caller, wanted, place)
