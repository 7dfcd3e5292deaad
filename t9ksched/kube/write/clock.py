"""The clock of the parts that write, so that a test can run it faster or stop it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec


def _utc_now() -> datetime:
    return datetime.now(UTC)


def boot_time() -> float:
    """Seconds since the machine started, sleep included, where the system offers it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock(msgspec.Struct, frozen=True):
    """`seconds` only grow, `now` is the wall clock that people are shown, `sleep` waits."""

    seconds: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


MONOTONIC = Clock()
BOOT = Clock(seconds=boot_time)
"""Runs on while the machine sleeps."""
