"""Whether the database answers and can be written, asked so that many questions at once cost no more than one."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from t9ksched.store import Store

WRITE_SECONDS: Final = 5.0
"""How long a successful write counts as proof. Whether the database answers at all is checked each time."""


class Probe:
    """Reads from the database, and writes a little every `WRITE_SECONDS`. `clock` gives seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._one = asyncio.Lock()
        self._begun = 0
        self._good = 0
        """The latest probe that succeeded."""
        self._written: float | None = None

    async def look(self) -> None:
        """See that the database answers and can be written.

        Probes are numbered as they are sent to the database. A caller shares the result of a probe that was sent after
        the call began, and sends none of its own.

        Raises:
            StoreError: it does not, or cannot.
        """
        before = self._begun
        async with self._one:
            if self._good > before:
                return
            self._begun += 1
            begun = self._begun
            if self._written is None or self._clock() >= self._written + WRITE_SECONDS:
                self._written = None
                await self._store.check_writable()
                self._written = self._clock()
            else:
                await self._store.ping()
            self._good = begun
