"""Sends requests on asyncio, by httpx, over connections that are kept."""

from collections.abc import AsyncGenerator
from typing import Final

import httpx

from t9ksched.client.calls import Answer, Call, is_local, problem
from t9ksched.client.errors import Unreachable
from t9ksched.client.sending import SILENCE_SECONDS

_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"


class AsyncTransport:
    """Sends to one server, as the owner of a token."""

    def __init__(self, server: str, token: str, timeout: float) -> None:
        self.server = server
        self._token = token
        # A proxy of the environment cannot reach this machine; redirections would show the token to others.
        self._client = httpx.AsyncClient(timeout=timeout, trust_env=not is_local(server), follow_redirects=False)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def send(self, call: Call) -> Answer:
        """The answer, whatever its status.

        Raises:
            Unreachable: none came.
        """
        try:
            answer = await self._client.request(
                call.method, call.url(self.server), content=call.body, headers=call.all_headers(self._token)
            )
        except httpx.HTTPError as error:
            raise self._unreachable(error, len(call.body or b"")) from None
        return _answer(answer)

    async def stream(self, call: Call) -> AsyncGenerator[bytes, None]:
        """The parts of an answer without an end, as they come.

        Raises:
            Refused: it is no success.
            Unreachable: none came, or it broke off.
        """
        headers = call.all_headers(self._token)
        try:
            async with self._client.stream(
                call.method, call.url(self.server), headers=headers, timeout=SILENCE_SECONDS
            ) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise problem(_answer(answer))
                async for part in answer.aiter_bytes():
                    yield part
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: httpx.HTTPError, size: int = 0) -> Unreachable:
        text = str(error) or type(error).__name__
        if _UNTRUSTED in text:
            return Unreachable(self.server, text, trusted=False)
        return Unreachable(self.server, text, sent=size if isinstance(error, httpx.WriteError | httpx.ReadError) else 0)


def _answer(answer: httpx.Response) -> Answer:
    return Answer(answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content)
