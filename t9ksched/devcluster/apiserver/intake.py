"""What a request of the dev cluster may use of the process: time for its body, and a connection of the reserve."""

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
    """The reserve is for questions after health and for administrators, as all parts of our own are.

    Raises:
        StatusError: somebody else's request came on a connection of the reserve.
    """
    if request.get(RESERVED) and path not in EXEMPT_PATHS and MASTERS not in user.groups:
        text = "too many connections: the server has none left for this request"
        raise StatusError(429, "TooManyRequests", text, {"retryAfterSeconds": 1}, retry_after=1)
