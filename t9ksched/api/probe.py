"""Whether the database answers and can be written, asked so that many questions at once cost no more than one."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from t9ksched.store import Store
from t9ksched.store.errors import DatabaseSlow

WRITE_SECONDS: Final = 5.0
"""How long a successful write counts as proof, unless another write of this process has failed since. Whether the
database answers at all is checked each time.
"""
PATIENCE_SECONDS: Final = 2.5
"""How long a write may take; less than the caller's own patience, so that the answer names the cause."""


class Probe:
    """Reads from the database, and writes every `WRITE_SECONDS` and after each failed write of this process. `clock`
    gives seconds.
    """

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
            if self._store.write_fault is not None or self._due():
                self._written = None
                await self._write()
                self._written = self._clock()
            else:
                await self._store.ping()
            self._good = begun

    def _due(self) -> bool:
        return self._written is None or self._clock() >= self._written + WRITE_SECONDS

    async def _write(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._store.check_writable()
        except TimeoutError:
            raise self._store.write_fault or DatabaseSlow(
                f"the database did not take a write within {PATIENCE_SECONDS:g} s: see what holds its lock"
            ) from None
