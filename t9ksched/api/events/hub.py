"""One reader of history for all who listen: what is new is read once, kept for a while, and told to those who see it.

While nobody listens, nothing is read. A listener that is further back than what is kept reads history itself.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import structlog

from t9ksched.api.events.known import Known
from t9ksched.api.http.problems import Problem
from t9ksched.store import Store
from t9ksched.store.errors import StoreError
from t9ksched.store.feed import HistoryFeed
from t9ksched.store.history import ACCEPTED, SUBMITTED, Event
from t9ksched.store.read_cache import Decided

if TYPE_CHECKING:
    from t9ksched.api.events.listener import Listener

log = structlog.get_logger(__name__)

KEPT: Final = 5000
"""Events that are kept: some seconds of a busy cluster."""
POLL_SECONDS: Final = 0.75
"""How long to wait for news that nobody announces, and after a failure of the database."""
JOIN_SECONDS: Final = 5.0
"""How long a client waits for the first look at history."""
STOP_SECONDS: Final = 5.0
MOST_OWNERS: Final = 50_000
MOST_A_USER: Final = 100
"""Streams of one user to one replica."""


class Hub:
    """Follows history while somebody listens. `close()` ends all streams."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._feed: HistoryFeed | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn = 0
        """Of the reader that is at work; any other one stops."""
        self._ending: set[asyncio.Task[Any]] = set()
        """What is not waited for any more, and may still be asking the database."""
        self._unkept: list[Event] = []
        self._kept: deque[Known] = deque(maxlen=KEPT)
        self._oldest = 0
        """Everything behind this id is in `_kept`."""
        self._owners: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._listeners: set[Listener] = set()
        self._of_users: Counter[str] = Counter()
        self._woken = asyncio.Event()
        self._begun = asyncio.Event()
        self.decided: Decided | None = None
        """What people had decided when news were read last; None until then and while the database is away."""
        self.position = 0
        """The last event that was read."""
        self.closed = False
        store.database.after_write(self._woken.set)

    @property
    def open(self) -> int:
        """Streams that are open."""
        return len(self._listeners)

    async def join(self, listener: "Listener") -> None:
        """Begin to tell it.

        Raises:
            Problem: its user has too many streams, or the service stops.
        """
        self._refuse_if_closed()
        if self._of_users[listener.user] >= MOST_A_USER:
            raise Problem(
                "RateLimited",
                f"{MOST_A_USER} streams of events of yours are open already",
                remedy="share one among your programs, or close those that nobody reads",
                headers={"Retry-After": "30"},
            )
        self._of_users[listener.user] += 1
        self._listeners.add(listener)
        try:
            if self._task is None:
                self._turn += 1
                self._task = asyncio.create_task(self._follow(self._turn), name="api-events")
            async with asyncio.timeout(JOIN_SECONDS):
                await self._begun.wait()
            self._refuse_if_closed()
        except TimeoutError:
            self.leave(listener)
            detail = "history cannot be read now"
            raise Problem(
                "Unavailable", detail, headers={"Retry-After": "2"}, remedy="wait a moment and repeat"
            ) from None
        except BaseException:
            self.leave(listener)
            raise

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise Problem("Unavailable", "the service stops", headers={"Retry-After": "5"})

    def leave(self, listener: "Listener") -> None:
        """Stop telling it; without listeners nothing is read any more."""
        if listener not in self._listeners:
            return
        self._listeners.discard(listener)
        self._of_users[listener.user] -= 1
        self._of_users += Counter()
        if not self._listeners and self._task is not None:
            # It ends by itself: a query that is cut off costs a connection.
            self._turn += 1
            self._woken.set()
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task, self._feed, self.decided = None, None, None
            self._begun.clear()
            self._kept.clear()

    async def close(self) -> None:
        """End all streams, in order."""
        self.closed = True
        self._turn += 1
        self._woken.set()
        self._begun.set()  # those that wait for the first look wait in vain
        for listener in list(self._listeners):
            listener.wake()
        tasks = {*self._ending, *([self._task] if self._task is not None else [])}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def since(self, position: int, most: int) -> Sequence[Known] | None:
        """What is kept behind that id, at most so many; None if something behind it is not kept any more."""
        if position < self._oldest:
            return None
        # From the end, where most listeners are.
        if not self._kept or self._kept[-1].event.id <= position:
            return ()
        start = bisect_right(self._kept, position, key=lambda known: known.event.id)
        return list(islice(self._kept, start, start + most))

    async def past(self, listener: "Listener", most: int) -> tuple[list[Known], int]:
        """What history has behind the listener's place, and up to which id that is."""
        # A client that goes away does not cut off the query, which would cost the connection.
        reading = asyncio.create_task(self._past(listener, most))
        self._ending.add(reading)
        reading.add_done_callback(self._ending.discard)
        return await asyncio.shield(reading)

    async def _past(self, listener: "Listener", most: int) -> tuple[list[Known], int]:
        if self._feed is None:  # the client that asked is gone, and it was the last one
            return [], listener.position
        upto = self.position
        found = await self._feed.page(listener.position, upto, most, listener.sight.visibility, listener.public)
        return await self._known(found), found[-1].id if len(found) == most else upto

    async def _follow(self, turn: int) -> None:
        """Read until another reader has its turn: a cancelled one may find an error of the database in place of it."""
        while turn == self._turn:
            try:
                await self._read(turn)
            except StoreError as error:
                log.warning("events cannot be read", error=str(error))
            except Exception:
                log.exception("events cannot be read")
            if turn == self._turn:
                self.decided = None
                await asyncio.sleep(POLL_SECONDS)

    async def _read(self, turn: int) -> None:
        """Read what is new, again and again."""
        feed = self._feed
        if feed is None:
            feed = self._store.feed()
            await feed.begin(partial(self._pause, turn))
            if turn != self._turn:
                return
            self._feed, self._unkept = feed, []
            self.position = self._oldest = feed.position
        while True:
            self._woken.clear()
            decided = await self._store.read_cache.now()
            # What was read and not kept, because the database went away, is not read again.
            found = self._unkept or await feed.news()
            if turn != self._turn:
                return
            self._unkept = found
            known = await self._known(found)
            if turn != self._turn:
                return
            self._unkept = []
            if decided is not self.decided:
                self.decided = decided
                for listener in list(self._listeners):
                    listener.rights_changed()
            self._begun.set()
            if known:
                self._keep(known, feed.position)
                await asyncio.sleep(0)
                continue
            self.position = feed.position
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()

    async def _pause(self, turn: int, seconds: float) -> bool:
        """Wait a little; whether this reader is still wanted then."""
        await asyncio.sleep(seconds)
        return turn == self._turn

    def _keep(self, news: Iterable[Known], position: int) -> None:
        fresh = list(news)
        dropped = len(self._kept) + len(fresh) - KEPT
        if dropped > 0:
            together = [*self._kept, *fresh]
            self._oldest = together[dropped - 1].event.id
        self._kept.extend(fresh)
        self.position = position
        for listener in list(self._listeners):
            listener.hear(fresh, position)

    async def _known(self, found: Sequence[Event]) -> list[Known]:
        """The events with the submitters of their jobs."""
        for event in found:
            # A submission is the first of a job; an acceptance may follow one by another, whom only history tells.
            begins = event.event == SUBMITTED or (event.event == ACCEPTED and event.uid in self._owners)
            if begins and event.uid and event.actor:
                self._owners[event.uid] = self._owners.get(event.uid, frozenset()) | {event.actor}
        unknown = list(dict.fromkeys(event.uid for event in found if event.uid and event.uid not in self._owners))
        if unknown and self._feed is not None:
            for uid, users in (await self._feed.owners(unknown)).items():
                self._owners[uid] = frozenset(users)
        while len(self._owners) > MOST_OWNERS:
            self._owners.popitem(last=False)
        return [Known(event, self._owners.get(event.uid or "", frozenset())) for event in found]
