"""Waiting for something to change: the service's events wake a command up, and it looks again now and then besides.

Events tell that a job was accepted, waits for another reason, started or ended; that its place in the queue moved, or a
planned start, no event tells. Where events cannot be listened to the command looks again alone.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from t9ksched.client.errors import ClientError
from t9ksched.client.following import Following
from t9ksched.client.sending import Transport

FIRST_SECONDS: Final = 0.25
LONGEST_SECONDS: Final = 5.0
_GROWTH: Final = 1.5
_READY_SECONDS: Final = 2.0
_TOGETHER_SECONDS: Final = 0.05
"""Events that come so soon after the first are looked at with it."""


class Changes:
    """Listens in a thread of its own, which ends with the process, to the events that pass the filters."""

    def __init__(self, server: str, token: str, filters: Mapping[str, Any]) -> None:
        self._following = Following(None, filters, patience=float("inf"))
        self._transport = Transport(server, token)
        self._ready, self._changed = threading.Event(), threading.Event()
        self._pause = FIRST_SECONDS
        threading.Thread(target=self._listen, daemon=True, name="events").start()
        # What is read from now on is not older than the stream.
        self._ready.wait(_READY_SECONDS)

    def wait(self, most: float = float("inf")) -> None:
        """Come back when something happened, when it is time to look again, or after so many seconds."""
        if self._changed.wait(max(0.0, min(self._pause, most))):
            time.sleep(_TOGETHER_SECONDS)
            self._changed.clear()
            self._pause = FIRST_SECONDS
        else:
            self._pause = min(LONGEST_SECONDS, self._pause * _GROWTH)

    def _listen(self) -> None:
        while True:
            broken: ClientError | None = None
            try:
                for part in self._transport.stream(self._following.call()):
                    self._ready.set()
                    if self._following.heard(part):
                        self._changed.set()
            except ClientError as error:
                broken = error
            self._ready.set()
            try:
                pause = self._following.broken(broken)
            except ClientError:
                return  # whoever asks for a job is told why
            time.sleep(pause)
            self._changed.set()
