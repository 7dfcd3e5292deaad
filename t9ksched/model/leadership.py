"""The times of a leadership: how long a lease lasts, and every limit that must end before it does.

All of them follow from the duration of the lease, so that a shorter lease shortens them too. Clocks of different
machines are never compared; `SKEW` is for clocks that run at different speeds and for what a timer is late.
"""

from __future__ import annotations

from typing import Final

import msgspec

DURATION: Final = 6
"""Seconds of a lease, if nothing else is configured."""
LEAST: Final = 4
SKEW: Final = 0.5


class Timing(msgspec.Struct, frozen=True):
    """Seconds: a standby may take over `duration` after the last renewal it saw; the leader stops `renew_deadline`
    after it sent its last successful renewal; `retry` lies between attempts. duration > renew_deadline > retry.
    """

    duration: int = DURATION
    renew_deadline: float = DURATION * 3 / 4
    retry: float = DURATION / 6

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry > 0:
            raise ValueError("a lease needs duration > renew deadline > retry > 0")

    @classmethod
    def of(cls, duration: int) -> Timing:
        """The usual times of a lease of so many seconds, at least `LEAST`."""
        return cls(duration, duration * 3 / 4, duration / 6)

    @property
    def write_seconds(self) -> float:
        """The longest time that a write may take which begins at the last moment of holding the lease."""
        return max(SKEW, self.duration - self.renew_deadline - SKEW)


class SessionLimits(msgspec.Struct, frozen=True):
    """Milliseconds after which a PostgreSQL server ends, in one session: a statement, a wait for a lock, and a
    transaction whose client is silent. 0 is no limit.
    """

    statement: int
    lock: int
    silent: int

    @classmethod
    def usual(cls, timing: Timing) -> SessionLimits:
        """For any session: a statement is no longer waited for than five leases, a lock or a client than one."""
        return cls(5000 * timing.duration, 1000 * timing.duration, 1000 * timing.duration)

    @classmethod
    def leading(cls, timing: Timing) -> SessionLimits:
        """For a write of a leader. Its last statement and the silence after it end before the lease can pass on:
        `statement + silent` is less than the duration without `SKEW`.
        """
        return cls(500 * timing.duration, 500 * timing.duration, 1000 * timing.duration // 3)

    @classmethod
    def migrating(cls) -> SessionLimits:
        """For changes of the tables: a statement may rewrite millions of rows, and processes that start together wait
        for the first of them.
        """
        return cls(0, 300_000, 60_000)


class Keepalive(msgspec.Struct, frozen=True):
    """How a dead peer is noticed on a TCP connection: seconds of silence before the first probe, between probes, how
    many may stay unanswered; milliseconds that data sent may stay unacknowledged.
    """

    idle: int
    interval: int
    count: int
    unacknowledged: int

    @classmethod
    def of(cls, timing: Timing) -> Keepalive:
        """Within a lease: a third of it in silence, then three probes."""
        third = max(1, timing.duration // 3)
        return cls(third, max(1, third // 2), 3, 1000 * timing.duration)
