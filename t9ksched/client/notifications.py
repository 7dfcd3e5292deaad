"""Addresses that are told what happens to jobs: `client.notifications` of both clients.

What each method does is an operation without input or output, which the clients carry out.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from t9ksched.client.calls import Call
from t9ksched.client.models import Listed, NewNotification, Notification
from t9ksched.client.operations import Operation, Operations, asked

PATH: Final = "/apis/v1/notifications"
PATIENCE_SECONDS: Final = 60.0
"""How long a test is waited for: the scheduler looks each second, and an attempt may take half a minute."""
_PAUSE_SECONDS: Final = 0.3


def _add(
    operations: Operations, url: str, events: Sequence[str] | None, queue: str | None
) -> Operation[NewNotification]:
    asking = {"url": url, "events": None if events is None else list(events), "queue": queue}
    body = json.dumps({key: value for key, value in asking.items() if value is not None}).encode()
    answer = yield from asked(Call("POST", PATH, body=body), operations.retries)
    return operations.read(answer, NewNotification)


def _test(operations: Operations, address: Notification | str, patience: float) -> Operation[Notification]:
    path = _path(address)
    before: Notification = yield from operations.one(path, Notification)
    yield from operations.request(Call("POST", f"{path}/actions/test"))
    waited = 0.0
    while True:
        found: Notification = yield from operations.one(path, Notification)
        if found.last_attempt_at != before.last_attempt_at or waited >= patience:
            return found
        yield _PAUSE_SECONDS
        waited += _PAUSE_SECONDS


def _path(address: Notification | str) -> str:
    return f"{PATH}/{address if isinstance(address, str) else address.id}"


class Notifications:
    """Addresses that are told what happens to jobs."""

    def __init__(self, operations: Operations, do: Callable[[Operation[Any]], Any]) -> None:
        self._operations = operations
        self._do = do

    def list(self, *, queue: str | None = None) -> Listed[Notification]:
        """Yours, and those of queues that you manage; with `queue` those of that queue alone. URLs are not shown."""
        found: Listed[Notification] = self._do(self._operations.many(PATH, Notification, {"queue": queue}))
        return found

    def add(self, url: str, *, events: Sequence[str] | None = None, queue: str | None = None) -> NewNotification:
        """Have an address told of your jobs, or of those of a queue that you manage: of all `events`, or of these.

        Its `key`, by which webhooks are signed, is told this once.
        """
        made: NewNotification = self._do(_add(self._operations, url, events, queue))
        return made

    def test(self, address: Notification | str, *, patience: float = PATIENCE_SECONDS) -> Notification:
        """Send a test, wait until it was tried, and see in `last_error` how it went."""
        found: Notification = self._do(_test(self._operations, address, patience))
        return found

    def delete(self, address: Notification | str) -> None:
        """Tell it no more."""
        self._do(self._operations.request(Call("DELETE", _path(address))))


class AsyncNotifications:
    """The same, to be awaited."""

    def __init__(self, operations: Operations, do: Callable[[Operation[Any]], Awaitable[Any]]) -> None:
        self._operations = operations
        self._do = do

    async def list(self, *, queue: str | None = None) -> Listed[Notification]:
        """Yours, and those of queues that you manage; with `queue` those of that queue alone. URLs are not shown."""
        found: Listed[Notification] = await self._do(self._operations.many(PATH, Notification, {"queue": queue}))
        return found

    async def add(self, url: str, *, events: Sequence[str] | None = None, queue: str | None = None) -> NewNotification:
        """Have an address told of your jobs, or of those of a queue that you manage: of all `events`, or of these.

        Its `key`, by which webhooks are signed, is told this once.
        """
        made: NewNotification = await self._do(_add(self._operations, url, events, queue))
        return made

    async def test(self, address: Notification | str, *, patience: float = PATIENCE_SECONDS) -> Notification:
        """Send a test, wait until it was tried, and see in `last_error` how it went."""
        found: Notification = await self._do(_test(self._operations, address, patience))
        return found

    async def delete(self, address: Notification | str) -> None:
        """Tell it no more."""
        await self._do(self._operations.request(Call("DELETE", _path(address))))
