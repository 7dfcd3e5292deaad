"""Limits of a request to the dev cluster: the time for its body, and who may use a reserved connection."""

from typing import Final

from aiohttp import web

from t9ksched.devcluster.apiserver.auth import MASTERS, User
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.serving import EXEMPT_PATHS, aiohttp_site

RESERVED: Final = web.RequestKey("reserved", bool)
"""Set in a request whose connection was accepted beyond the limit."""


async def body_of(request: web.BaseRequest) -> bytes:
    """The whole body.

    Raises:
        StatusError: it is too large, or did not arrive in time.
    """
    try:
        return await aiohttp_site.read_body(request)
    except web.HTTPRequestEntityTooLarge as error:
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity is too large: {error.text}", {}) from None
    except web.HTTPRequestTimeout as error:
        raise StatusError(408, "Timeout", f"Timeout: {error.text}", {}) from None


def check_reserve(request: web.BaseRequest, path: str, user: User) -> None:
    """Check that only health checks and administrators, such as all parts of t9ksched, use the reserve.

    Raises:
        StatusError: another user's request came on a reserved connection.
    """
    if request.get(RESERVED) and path not in EXEMPT_PATHS and MASTERS not in user.groups:
        text = "too many connections: the server has none left for this request"
        raise StatusError(429, "TooManyRequests", text, {"retryAfterSeconds": 1}, retry_after=1)
