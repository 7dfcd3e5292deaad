"""How many requests are worked on at the same time, and of which callers: a pure decision, with time passed in.

As many run as can be answered in time; few wait, and only for a moment; the rest is refused at once, because an answer
that comes too late is useless. The limit follows the answers: it falls by a fifth when they become slow (more than
three times the quickest of their kind, and more than a quarter of a second) and rises by about one a round while they
are not. A request may wait if its turn will come in time: those before it, at the pace at which answers ended lately,
and the time since the last one. So a lower limit costs no throughput, and a short burst is served after it.

A stall is no overload: a process that could not run for a second, because another one started beside it, has a queue
and will be through with it soon. So for a moment after requests began to wait, having not waited for a while, they
may wait longer. Only a queue that lasts is kept short.

Callers are served in turn. The next to run is the first waiting request of the caller who has the fewest running; a
tenth of a second that it waited counts as one that runs less, so that no turn is put off for long. One caller runs
three quarters of the limit at most. When the queue is full, a newcomer takes the place of the newest request of
the caller with the longest queue, if that is more than twice the newcomer's own: a flood displaces only requests of its
own caller.

A request whose body does not arrive does not count until it does, and one caller may have few of them: a slow sender
delays no other caller.
"""

from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from math import ceil
from typing import Final

import msgspec

TARGET_SECONDS: Final = 0.25
"""Answers quicker than this are never slow."""
QUEUE_SECONDS: Final = 0.2
"""A request waits if its turn is expected within this time."""
FIRST_SECONDS: Final = 0.3
"""The same for a caller who has no other request that waits."""
WAIT_SECONDS: Final = 0.6
"""How long a request waits for its turn if that comes later than expected."""
STALL_SECONDS: Final = 2.0
"""How long after requests began to wait their queue is kept short: before, as many wait as may run at most."""
CALM_SECONDS: Final = 5.0
"""So long none has waited before a queue counts as one that begins: under a lasting overload it is empty only for
moments."""
MOST_SENDING: Final = 4
"""Requests of one caller whose bodies are awaited and that do not count meanwhile."""
_SLOWER: Final = 3.0
_FALL: Final = 0.8
_DOUBLES_SECONDS: Final = 15.0
"""The remembered quickest time of a kind doubles in this time, so that a lasting slowdown is not taken for overload."""
_SMOOTH: Final = 1 / 16
_FIRST: Final = 0.25
_SHARE: Final = 0.75
_AGE_SECONDS: Final = 0.1
"""Having waited so long counts as much as having one less that runs."""
_QUIET_SECONDS: Final = 60.0
_MOST_KINDS: Final = 200
"""Kinds remembered at most: paths that no endpoint serves are kinds too, and callers can invent them."""


class State(Enum):
    """Of a request; the last three are refusals."""

    RUNNING = "running"
    WAITING = "waiting"
    SHARE = "share"
    """Its caller has more in work than its part."""
    FULL = "full"
    LATE = "late"
    """Its turn did not come in time."""


class Ticket(msgspec.Struct, eq=False):
    """A request; `changed` is called when it does not wait any longer."""

    caller: str
    kind: str
    changed: Callable[[], None]
    arrived: float
    state: State = State.WAITING
    begun: float = 0.0
    patience: float = WAIT_SECONDS
    """How long it waits for its turn at most."""


class _Caller(msgspec.Struct):
    running: int = 0
    sending: int = 0
    waiting: deque[Ticket] = msgspec.field(default_factory=deque)

    def rank(self, now: float) -> float:
        """The caller with the smallest value is next: the number that run, less what its oldest waiting request has
        waited.
        """
        return self.running - (now - self.waiting[0].arrived) / _AGE_SECONDS


class ConcurrencyLimiter:
    """Admits requests; the server calls `arrive` for each, and `leave` in any case at its end.

    Args:
        most: the highest limit; the first one is a quarter of it.
        least: the lowest. Fewer would answer less where answers are slow because of what runs beside this process.
    """

    def __init__(self, most: int = 64, least: int = 16) -> None:
        least = min(least, most)
        self.limit = max(most * _FIRST, float(least))
        self.refused: Counter[State] = Counter()
        """Refusals by their state."""
        self._most, self._least = most, least
        self._callers: dict[str, _Caller] = {}
        """The callers that have requests here, in the order of their turns."""
        self._quickest: dict[str, tuple[float, float]] = {}
        """Seconds by kind, and when that was."""
        self._pace: float | None = None
        """Seconds from one answer to the next while requests waited; None before that was seen."""
        self._moved_at = float("-inf")
        """When the last answer ended, or the first request began to wait."""
        self._fell_at = self._told_at = float("-inf")
        self._waited_at = self._short_from = float("-inf")
        """When a request waited last, and from when on the queue is kept short."""
        self._told = 0
        self.running = self.waiting = 0

    def arrive(self, caller: str, kind: str, now: float, changed: Callable[[], None] = lambda: None) -> Ticket:
        """A request of a caller; `kind` is what answers of about the same length have in common."""
        ticket, refused = Ticket(caller, kind, changed, now), self.refusal(caller, now)
        if refused is not None:
            ticket.state = refused
            return ticket
        mine = self._callers.setdefault(caller, _Caller())
        if not mine.waiting and self._may_run(mine):
            self._run(ticket, mine, now)
            return ticket
        if not self._has_room(mine, now):
            self._displace()
        if not self.waiting:
            self._moved_at = now
            if now - self._waited_at >= CALM_SECONDS:
                self._short_from = now + STALL_SECONDS
        self._waited_at = now
        ticket.patience = max(WAIT_SECONDS, self._short_from + WAIT_SECONDS - now)
        mine.waiting.append(ticket)
        self.waiting += 1
        return ticket

    @property
    def crowded(self) -> bool:
        """Whether requests wait: otherwise none is refused."""
        return self.waiting > 0

    def refusal(self, caller: str, now: float) -> State | None:
        """How a request of this caller is refused at once, which is counted; None if it may come in."""
        mine = self._callers.setdefault(caller, _Caller())
        state = None
        if (mine.waiting or not self._may_run(mine)) and not self._has_room(mine, now) and not self._displaces(mine):
            state = State.SHARE if self._above_share(mine) else State.FULL
            self.refused[state] += 1
        self._forget(caller)
        return state

    def _has_room(self, mine: _Caller, now: float) -> bool:
        """Whether one more request of this caller may wait: its turn will come in time, and no more wait than may run
        at most.

        Turns go round the callers, so one that waits with several requests waits longer with the last of them.
        """
        if not self.waiting or self._pace is None or now < self._short_from:
            return self.waiting < self._most
        queues = sum(bool(caller.waiting) for caller in self._callers.values())
        ahead = max(self.waiting, len(mine.waiting) * queues)
        allowed = QUEUE_SECONDS if mine.waiting else FIRST_SECONDS
        return self.waiting < self._most and ahead * self._pace + now - self._moved_at < allowed

    def leave(self, ticket: Ticket, now: float, blocked: float = 0.0) -> None:
        """The request is answered, or its caller waits no longer.

        `blocked` are seconds in which the answer waited for the caller to send or to read.
        """
        mine = self._callers.get(ticket.caller)
        if ticket.state is State.WAITING and mine is not None:
            mine.waiting.remove(ticket)
            self.waiting -= 1
            self._waited_at = now
            self._refuse(ticket, State.LATE)
        elif ticket.state is State.RUNNING and mine is not None:
            mine.running -= 1
            self._learn(ticket.kind, now - ticket.begun - blocked, now)
            self._measure(now)
            self.running -= 1
            self._next(now)
        self._forget(ticket.caller)

    def pause(self, ticket: Ticket, now: float) -> bool:
        """A running request waits for its caller to send: it does not count meanwhile.

        False if so many of this caller's do so already that this one is refused; it runs until it leaves.
        """
        mine = self._callers[ticket.caller]
        if mine.sending >= MOST_SENDING:
            self.refused[State.SHARE] += 1
            return False
        mine.sending += 1
        mine.running -= 1
        self.running -= 1
        self._next(now)
        return True

    def resume(self, ticket: Ticket) -> None:
        """The caller has sent: the request counts again, even beyond the limit."""
        mine = self._callers[ticket.caller]
        mine.sending -= 1
        mine.running += 1
        self.running += 1

    def untold(self, now: float) -> int:
        """How many were refused since this last said so; 0 within a minute of that, so that a log gets few lines."""
        more = self.refused.total() - self._told
        if not more or now - self._told_at < _QUIET_SECONDS:
            return 0
        self._told, self._told_at = self._told + more, now
        return more

    # ---- turns

    def _may_run(self, caller: _Caller) -> bool:
        limit = int(self.limit)
        return self.running < limit and caller.running < ceil(limit * _SHARE)

    def _run(self, ticket: Ticket, caller: _Caller, now: float) -> None:
        ticket.state, ticket.begun = State.RUNNING, now
        caller.running += 1
        self.running += 1

    def _next(self, now: float) -> None:
        while self.waiting:
            able = [name for name, caller in self._callers.items() if caller.waiting and self._may_run(caller)]
            if not able:
                return
            name = min(able, key=lambda name: self._callers[name].rank(now))
            caller = self._callers.pop(name)
            self._callers[name] = caller  # behind the others with as many
            ticket = caller.waiting.popleft()
            self.waiting -= 1
            self._waited_at = now
            self._run(ticket, caller, now)
            ticket.changed()

    def _longest(self) -> _Caller:
        return max(self._callers.values(), key=lambda caller: len(caller.waiting))

    def _displaces(self, newcomer: _Caller) -> bool:
        """Whether the longest queue gives way to this caller."""
        return len(self._longest().waiting) > 2 * len(newcomer.waiting) + 2

    def _displace(self) -> None:
        """Make room in the queue at the cost of the longest one."""
        ticket = self._longest().waiting.pop()
        self.waiting -= 1
        self._refuse(ticket, State.SHARE)
        ticket.changed()

    def _above_share(self, caller: _Caller) -> bool:
        """Whether the caller has more in work than others have on average, or is the only one."""
        mine, all_of_them = caller.running + len(caller.waiting), self.running + self.waiting
        return len(self._callers) == 1 or mine * len(self._callers) > all_of_them

    def _refuse(self, ticket: Ticket, state: State) -> None:
        ticket.state = state
        self.refused[state] += 1

    def _forget(self, name: str) -> None:
        caller = self._callers.get(name)
        if caller is not None and not (caller.running or caller.sending or caller.waiting):
            del self._callers[name]

    # ---- the limit

    def _learn(self, kind: str, took: float, now: float) -> None:
        """Take in how long an answer took, while its request still counts as running."""
        if kind not in self._quickest and len(self._quickest) >= _MOST_KINDS:
            kind = ""
        before, at = self._quickest.get(kind, (took, now))
        quickest = min(took, before * 2 ** min(60.0, (now - at) / _DOUBLES_SECONDS))
        self._quickest[kind] = quickest, now
        if took > max(TARGET_SECONDS, _SLOWER * quickest):
            if now - self._fell_at >= TARGET_SECONDS:  # several slow answers lower the limit once
                self._fell_at = now
                self.limit = max(self.limit * _FALL, float(self._least))
        elif self.waiting or 2 * self.running >= self.limit:
            self.limit = min(self.limit + 1 / self.limit, float(self._most))

    def _measure(self, now: float) -> None:
        """Take in that an answer ended while requests wait: how long that is after the one before."""
        if self.waiting:
            took = now - self._moved_at
            self._pace = took if self._pace is None else self._pace + (took - self._pace) * _SMOOTH
            self._moved_at = now
