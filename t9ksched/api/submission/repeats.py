"""`Idempotency-Key`: a request that is sent again is answered as the first one was, by any replica, also after a crash.

As the IETF draft "The Idempotency-Key HTTP Header Field" has it: the same key with the same request gets the stored
answer, a key with another request 422, and 409 while the first request is at work. Only answers of requests that
created something are stored. A refusal changed nothing: it frees the key, and a repeat is judged anew.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, quote

import msgspec
import structlog
from fastapi import Header, Request
from starlette.responses import Response

from t9ksched.api.auth import Caller
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.api.services import Services
from t9ksched.model.errors import FieldError
from t9ksched.store.errors import StoreError
from t9ksched.store.repeats import LEASE, MAX_STORED, Attempt, Busy, OtherRequest, Stored

log = structlog.get_logger(__name__)


class _Told(msgspec.Struct):
    """An answer to a submission, as far as it is read."""

    items: list[msgspec.Raw]


MAX_KEY: Final = 255
MAX_OBJECTS: Final = 1000
"""Objects of one request that may be repeated: its answer is stored whole."""
HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotent-Replayed"
_SOON: Final = 5
"""Seconds after which to ask again at the latest: most requests are answered by then."""
_PATH: Final = f"header.{HEADER}"

REPEATING: Final = f"""\
A request that carries an `{HEADER}` may be sent again when its answer was lost: for 24 hours the same user gets the \
same answer, with the header `{REPLAYED}: true`, from any replica, also when the jobs are gone by then, and nothing \
is created twice. What a crash left half-made is finished by the repeat, or before it by any replica. The same key \
with another body, query or content type is refused (422 `InvalidField`); while the first request is in progress, a \
repeat is told to come later (409 `Conflict` with `Retry-After`). Only successes are kept: after a refusal or an \
error a repeat is judged anew. With a key a request has at most {MAX_OBJECTS} objects. A dry run ignores the key. Of \
each user the newest answers are kept, up to {MAX_STORED // 1024**2} MiB."""
"""What the reference says of the header."""

Key = Annotated[
    str | None,
    Header(
        alias=HEADER,
        description="A text of your choice, new for each new request: a repeat with it is given the first answer",
        json_schema_extra={"minLength": 1, "maxLength": MAX_KEY, "pattern": "^[ -~]+$"},
    ),
]
"""The parameter by which an endpoint gets the header."""


def checked(request: Request) -> str | None:
    """The key of a request, None where there is none.

    Raises:
        Problem: it is empty, too long, not printable, or there are several.
    """
    keys = request.headers.getlist(HEADER)
    if not keys:
        return None
    if len(keys) > 1:
        raise invalid([FieldError(_PATH, "must be there once")])
    (key,) = keys
    if not 0 < len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise invalid([FieldError(_PATH, f"must be 1 to {MAX_KEY} printable ASCII characters")])
    return key


async def once(
    services: Services,
    caller: Caller,
    request: Request,
    key: str,
    body: bytes,
    objects: int,
    act: Callable[[Attempt], Awaitable[Response]],
) -> Response:
    """The answer that the first request of this key got, or that `act` gives, which stores it if it creates anything.

    Raises:
        Problem: the key cannot be used for this request, or not now; or what `act` raises.
    """
    if objects > MAX_OBJECTS:
        text = f"can come with at most {MAX_OBJECTS} objects, and here are {objects}"
        raise invalid([FieldError(_PATH, text)], remedy="split the request, with a key for each part")
    found = await services.store.repeats.begin(
        caller.user, _digest(*sorted(caller.limits), key), _asked(request, body), datetime.now(UTC)
    )
    match found:
        case Stored(status, text):
            headers = {REPLAYED: "true"} | place_of_submission(text)
            return Response(text.encode(), status, headers, media_type="application/json")
        case OtherRequest():
            fault = FieldError(_PATH, "was used before with another request: another body, query or content type")
            raise invalid([fault], remedy="use a new key for each new request")
        case Busy(remaining):
            seconds = str(max(1, min(round(remaining.total_seconds()), _SOON)))
            raise Problem(
                "Conflict",
                f"a request with this {HEADER} is in progress",
                remedy="repeat it after the seconds that Retry-After says",
                headers={"Retry-After": seconds},
            )
    assert isinstance(found, Attempt)
    async with _alive(services, found):
        return await _outcome(services, found, act)


async def _outcome(services: Services, attempt: Attempt, act: Callable[[Attempt], Awaitable[Response]]) -> Response:
    try:
        return await act(attempt)
    except Problem as problem:
        with suppress(StoreError):  # the lease ends by time
            if problem.status < 500 and not problem.half_done:
                await services.store.repeats.give_up(attempt)
            else:
                await services.store.repeats.renew(attempt, datetime.now(UTC))
        raise


@asynccontextmanager
async def _alive(services: Services, attempt: Attempt) -> AsyncIterator[None]:
    """Renew the lease of an attempt while it is at work."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            try:
                await services.store.repeats.renew(attempt, datetime.now(UTC) + LEASE)
            except StoreError as error:
                log.warning("the lease of a request could not be renewed", error=str(error))

    renewing = asyncio.create_task(renew(), name="idempotency-lease")
    try:
        yield
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing


def place_of_submission(told: str) -> dict[str, str]:
    """The header that says where the one job of a submission is; none where there are several."""
    items = msgspec.json.decode(told, type=_Told).items
    if len(items) != 1:
        return {}
    job = msgspec.json.decode(items[0], type=dict[str, Any])
    parts = (quote(str(job[part]), safe="") for part in ("namespace", "kind", "name"))
    return {"Location": f"/apis/v1/workloads/{'/'.join(parts)}"}


def _asked(request: Request, body: bytes) -> str:
    """What is asked: address, query in any order, and body."""
    query = msgspec.json.encode(sorted(parse_qsl(request.url.query, keep_blank_values=True)))
    media = request.headers.get("content-type", "")
    return _digest(request.method, request.url.path, query, media, body)


def _digest(*parts: str | bytes) -> str:
    """SHA-256 of parts, each by its own digest, so that no two lists of parts are alike."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return whole.hexdigest()
