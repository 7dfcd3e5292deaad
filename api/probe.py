"""Whether the database can be written, asked seldom enough that strangers who ask often cost nothing."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from t9ksched.store import Store

GOOD_SECONDS: Final = 5.0
"""How long an answer counts."""


class Probe:
    """Writes a little to the database, at most every `GOOD_SECONDS` while it can. `clock` gives seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._one = asyncio.Lock()
        self._good_until: float | None = None

    async def look(self) -> None:
        """See that the database answers and can be written.

        Raises:
            StoreError: it does not, or cannot.
        """
        async with self._one:
            if self._good_until is None or self._clock() >= self._good_until:
                self._good_until = None
                await self._store.check_writable()
                self._good_until = self._clock() + GOOD_SECONDS
