"""Accepts connections for an HTTP server, within limits.

At a limit the least useful connection is closed to make room: the one that has been waiting longest for the head of a
request, else the one that has been idle longest. Connections that are being answered are never cut for that. Where all
of them are, a new one is refused: with 429 where it is one address that has too many, and beyond all by 503, except for
a reserve that is accepted and may request health pages only. When descriptors run short accepting stops for a moment;
what connects meanwhile waits in the operating system's queue.
"""

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import structlog

from t9ksched.serving import descriptors
from t9ksched.serving.connection import Connection, Pool
from t9ksched.serving.limits import ConnectionLimits

log = structlog.get_logger(__name__)

_A_TURN: Final = 32
"""Connections accepted before other tasks run."""
_PAUSE_SECONDS: Final = 0.25
_SWEEP_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 60.0
"""At most one line of the log in this time."""
_SHORT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REFUSALS: Final = {
    "address": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    "all": b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
}


class Acceptor:
    """Takes connections from a listening socket from `open` to `close`; has what libraries ask of an asyncio server.

    Args:
        listener: bound, listening and not blocking.
        protocol: makes the library's protocol of one connection.
        limits: how many, and for how long.
        name: of the server, for the log.
        ceiling: the descriptor number from which on callers get none; by default what the process may have, less a
            reserve.
    """

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        limits: ConnectionLimits,
        name: str,
        ceiling: int | None = None,
    ) -> None:
        self.limits = limits
        self.counts: Counter[str] = Counter()
        """What happened: `accepted`, `refused`, `evicted`, `paused`, and timeouts as `head`, `idle`, `unread`."""
        self.listener, self._protocol, self._name = listener, protocol, name
        self.ceiling = descriptors.ceiling() if ceiling is None else ceiling
        self._loop = asyncio.get_running_loop()
        self._all = Pool()
        self._by_address: dict[str, Pool] = {}
        self._connections: dict[Connection, str] = {}
        self._reserved = 0
        self._joining: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._told_at: float | None = None
        self._told: Counter[str] = Counter()
        self._closed = False
        self._beyond: set[Connection] = set()
        """Connections whose descriptors are beyond the ceiling."""
        self.stood_still = 0.0
        """Seconds in which the loop did not run."""
        self.clock: Callable[[], float] = self._seconds_run
        """The time that timeouts count in; tests set their own before the first connection."""
        self._due = 0.0

    @property
    def sockets(self) -> list[socket.socket]:
        """The listening socket."""
        return [] if self._closed else [self.listener]

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    @property
    def open_connections(self) -> list[Connection]:
        """The connections themselves."""
        return list(self._connections)

    def open(self) -> None:
        """Begin to accept."""
        self._loop.add_reader(self.listener.fileno(), self._accept)
        self._sweep()

    def close(self) -> None:
        """Accept no more; connections stay."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self.listener.fileno())
        for timer in (self._timer, self._resume):
            if timer is not None:
                timer.cancel()
        self.listener.close()

    async def wait_closed(self) -> None:
        """Wait for connections that are just being made."""
        if self._joining:
            await asyncio.wait(self._joining)

    # ---- accepting

    def _accept(self) -> None:
        for _ in range(_A_TURN):
            try:
                accepted, peer = self.listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _SHORT:
                    raise
                self._pause()
                return
            accepted.setblocking(False)
            short = self._is_short(accepted)
            if not self._take(accepted, peer, short=short) or short:
                return

    def _is_short(self, accepted: socket.socket) -> bool:
        """Whether another connection has to make room for this one, and no more are to be accepted in this turn of the
        loop.

        A connection that is ended has its descriptor until a later turn. As long as one is beyond the ceiling that
        could make room, each new one costs one, whatever number it got: else those in the gaps would add up.
        """
        if accepted.fileno() >= self.ceiling:
            return True
        return any(connection.state != "serving" for connection in self._beyond)

    def _take(self, accepted: socket.socket, peer: Any, *, short: bool) -> bool:
        """Take a connection or refuse it; False when accepting was paused. `short`: descriptors are."""
        address = address_of(peer)
        mine = self._by_address.get(address)
        if mine is not None and mine.total >= self.limits.per_address and self._evict(mine) is None:
            return self._refuse(accepted, "address")
        reserved = not self._room(short=short)
        if reserved and self._reserved >= self.limits.reserve:
            self._refuse(accepted, "all")
            if short:
                self._pause()
            return not short
        self.counts["accepted"] += 1
        pools = (self._all, self._by_address.setdefault(address, Pool()))
        connection = Connection(self, self._protocol(), pools, reserved=reserved, clock=self.clock)
        self._connections[connection] = address
        if accepted.fileno() >= self.ceiling:
            self._beyond.add(connection)
        self._reserved += reserved
        task = self._loop.create_task(self._join(connection, accepted))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)
        return True

    def _room(self, *, short: bool) -> bool:
        """Whether one more has a place that is not of the reserve, made by another's end if need be."""
        if short:
            victim = self._evict(self._all)
            if victim is None or victim.reserved:
                return False
        while self._all.total >= self.limits.connections:
            if self._evict(self._all) is None:
                return False
        return True

    async def _join(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except (OSError, asyncio.CancelledError):
            accepted.close()
            connection.gone()
            self.left(connection)

    def _evict(self, pool: Pool) -> Connection | None:
        """End the least useful connection of the pool; None if all of them are being answered."""
        found = pool.to_end()
        if found is None:
            return None
        found.drop()
        # Counted at once: it is gone before the next turn of the loop.
        found.gone()
        self.left(found)
        self._happened("evicted")
        return found

    def _refuse(self, accepted: socket.socket, why: str) -> bool:
        with contextlib.suppress(OSError):
            accepted.send(_REFUSALS[why])
        accepted.close()
        self._happened("refused")
        return True

    def _pause(self) -> None:
        self._happened("paused")
        self._loop.remove_reader(self.listener.fileno())
        self._resume = self._loop.call_later(_PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        if not self._closed:
            self._loop.add_reader(self.listener.fileno(), self._accept)

    def left(self, connection: Connection) -> None:
        """The connection is gone."""
        self._beyond.discard(connection)
        address = self._connections.pop(connection, None)
        if address is None:
            return
        self._reserved -= connection.reserved
        pool = self._by_address.get(address)
        if pool is not None and not pool.total:
            del self._by_address[address]

    # ---- timeouts

    def _seconds_run(self) -> float:
        """Seconds in which this process could have read what was sent: without those in which its event loop was
        blocked.
        """
        return self._loop.time() - self.stood_still

    def _sweep(self) -> None:
        if self._timer is not None:
            late = self._loop.time() - self._due
            self.stood_still += late if late > _SWEEP_SECONDS else 0.0
        self.sweep(self.clock())
        self._due = self._loop.time() + _SWEEP_SECONDS
        self._timer = self._loop.call_at(self._due, self._sweep)

    def sweep(self, now: float) -> None:
        """End the connections that are overdue at that time."""
        limits = self.limits
        for connection in list(self._connections):
            why = connection.overdue(now, limits.head_seconds, limits.idle_seconds, limits.write_seconds)
            if why:
                self.counts[why] += 1
                connection.drop(why)
        self._tell(now)

    # ---- the log

    def _happened(self, what: str) -> None:
        self.counts[what] += 1
        self._told[what] += 1
        self._tell(self.clock())

    def _tell(self, now: float) -> None:
        """At most one line a minute, with what was not logged yet."""
        if not self._told or (self._told_at is not None and now - self._told_at < _QUIET_SECONDS):
            return
        log.warning(
            "connections are short",
            server=self._name,
            open=len(self._connections),
            limit=self.limits.connections,
            files=descriptors.allowed(),
            **self._told,
        )
        self._told.clear()
        self._told_at = now


def address_of(peer: Any) -> str:
    """What counts as one address: all of IPv4, the first half of IPv6, because each network has many addresses."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped) if address.ipv4_mapped else address.packed[:8].hex()
