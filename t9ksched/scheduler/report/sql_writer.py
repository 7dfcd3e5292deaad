"""What the scheduler writes into SQL: acceptances, history, and each job's latest state.

Writes are collected and flushed in batches by one task. What comes during a flush waits for the next one: many rows
share the cost of a transaction, and the pages of indexes that it changes. With the database away they wait here, for
jobs only the newest state, and scheduling goes on with what is known; `behind` says since when, and the `Outage` is
marked.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import uuid4

import structlog
from msgspec import structs

from t9ksched.scheduler.report.beginnings import KEPT_SECONDS, Beginning, Beginnings
from t9ksched.scheduler.report.clockwatch import ClockWatch
from t9ksched.scheduler.state.outage import Outage
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.errors import StoreError
from t9ksched.store.history import CLOCK_SET, RELEASED, Event
from t9ksched.store.jobs import Gone, JobRow
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

MAX_WAITING = 200_000
"""Events kept while the database is away; beyond that the oldest are dropped and counted."""
_LAST_WORDS_SECONDS = 2
_SILENCE_SECONDS = 5.0
"""A database that takes longer for one batch counts as away until it answers."""
_BATCH = 2000
"""Rows of a kind in one transaction: enough to be cheap, few enough for other transactions not to wait long."""
_EVENTS = 3 * _BATCH
"""Events in one transaction: those of single pods are up to three a row."""
_SORTED = 5 * _BATCH
"""Jobs that are written in the order of their UIDs: each transaction changes another part of the index of UIDs, in
place of pages all over it that the next one changes again."""
_PAUSE = 0.5
"""Seconds between two writes: what happens within them goes into one transaction."""
_MANY = 1000
"""Rows of a kind in one write after which the pause is twice as long: the indexes of UIDs are changed all over, and two
writes would change, and write out, the same pages twice."""


class _Batch(NamedTuple):
    """Events of one transaction, and its mark."""

    events: Sequence[Event] = ()
    mark: str = ""


class SqlWriter:
    """Collects rows and writes them in the order they came."""

    def __init__(self, store: Store, outage: Outage | None = None, clocks: ClockWatch | None = None) -> None:
        self._store = store
        self._clocks = clocks
        if clocks is not None:
            clocks.on_jump.append(self._clock_set)
        self._outage = outage
        self.first: Callable[[], Awaitable[None]] | None = None
        """What must be written before anything else when the database answers again."""
        self.before_last: Callable[[], None] | None = None
        """Hands over what is still to be written when the writer is told to end."""
        self.heard: Callable[[Event], None] | None = None
        """Is told of each event of history at once, also while the database is away."""
        self._batches = 0
        """Transactions done."""
        self._seen: datetime | None = None
        """The time of the event before."""
        self._last: dict[str, datetime] = {}
        """When the last event of each job was that was told here, by UID."""
        self._beginnings = Beginnings()
        self._acceptances: deque[Acceptance] = deque()
        self._events: deque[Event] = deque(maxlen=MAX_WAITING)
        self._unsure = _Batch()
        """What may be written, although the database did not say so."""
        self._jobs: dict[str, JobRow] = {}
        self._gone: dict[str, Gone] = {}
        self._work = asyncio.Event()
        self._idle = True
        """Everything is written."""
        self._asked: list[asyncio.Event] = []
        """Set once what was collected before is written, the first of them first."""
        self.behind: datetime | None = None

    def accepted(self, acceptances: list[Acceptance]) -> None:
        """Remember what was agreed with these groups."""
        if self._beginnings:
            for one in acceptances:
                self._release(self._beginnings.release(one.uid))
        self._acceptances.extend(acceptances)
        self._wake()

    def accepted_pod(self, acceptance: Acceptance, event: Event) -> None:
        """Remember what was agreed with a single pod, and append to history that it was."""
        now = asyncio.get_running_loop().time()
        self._release(self._beginnings.keep(now, acceptance, self._told(event)))
        self._wake()

    def event(self, event: Event) -> None:
        """Append to history."""
        event = self._told(event)
        if not self._beginnings.takes(event):
            self._release(self._beginnings.release(event.uid))
            self._events.append(event)
        self._wake()

    def continues(self, times: Mapping[str, datetime]) -> None:
        """A former scheduler told of these jobs, by UID, and the last time that it told was this."""
        for uid, at in times.items():
            self._last[uid] = max(at, self._last.get(uid, at))

    def _told(self, event: Event) -> Event:
        """The event with its time by the clock of now, and no earlier than the one before it of its job, after those
        who want to hear of it did. Nodes and controllers tell in whole seconds when something was, and by clocks of
        their own.
        """
        if self._clocks is not None:
            if event.at is not self._seen:  # those of one millisecond share their time, and one look
                self._seen = event.at
                self._clocks.look()  # so that events keep their order across a change of the clock
            if (at := self._clocks.as_now(event.at)) is not event.at:
                event = structs.replace(event, at=at)
        if (uid := event.uid) is not None:
            last = self._last.get(uid)
            if last is not None and event.at < last:
                event = structs.replace(event, at=last)
            if last is not None or event.event != RELEASED:  # a pod may outlive its job
                self._last[uid] = event.at
        if self.heard is not None:
            self.heard(event)
        return event

    def _release(self, kept: Beginning | None) -> None:
        """Write what was kept back of a pod with what comes now."""
        if kept is not None:
            self._acceptances.append(kept.acceptance)
            self._events.extend(kept.events)

    def _release_until(self, latest: float) -> None:
        """The same of all pods that were accepted until then."""
        for kept in self._beginnings.release_until(latest):
            self._release(kept)

    def _clock_set(self, by: timedelta, at: datetime) -> None:
        """Move the open spans in SQL with the clock."""
        self._release_until(math.inf)
        self._last.clear()
        detail = {"seconds": by.total_seconds()}
        self._events.append(Event(event=CLOCK_SET, at=at, actor="scheduler", detail=detail))
        self._wake()

    def job(self, job: JobRow) -> None:
        """The job's latest state; an older one that is not written yet is replaced."""
        self._jobs[job.uid] = job
        self._wake()

    def tells_of(self, uid: str) -> bool:
        """Whether something of this job was told here or shortly before the start."""
        return uid in self._last

    def gone(self, uid: str, gone: Gone) -> None:
        """The job's object was deleted."""
        self._last.pop(uid, None)
        known = self._gone.get(uid)
        if known is None or (gone.told and not known.told):
            self._gone[uid] = gone
        self._wake()

    @property
    def backlog(self) -> int:
        """Rows that wait to be written."""
        return len(self._beginnings) + len(self._acceptances) + self._untold + len(self._jobs)

    @property
    def jobs_waiting(self) -> int:
        """Jobs among them."""
        return len(self._jobs)

    def lost(self) -> None:
        """The database did not answer this writer or another part: it counts as away until all that waits here is
        written.
        """
        if self.behind is None:
            self._release_until(math.inf)
            self.behind = datetime.now(UTC)
            if self._outage is not None:
                self._outage.begin(self.behind, [one.uid for one in self._acceptances])
        self._work.set()

    def _found(self) -> None:
        if self.behind is not None:
            self.behind = None
            if self._outage is not None:
                self._outage.end()

    def _wake(self) -> None:
        self._idle = False
        self._work.set()

    async def run(self) -> None:
        """Write until cancelled; what is left is written on the way out when the database answers."""
        pause = _PAUSE
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                asked, many = len(self._asked), self._most_rows() >= _MANY
                try:
                    await self._whole_flush()
                    pause = 2 * _PAUSE if many else _PAUSE
                    self._found()
                    self._idle = not self.backlog and not self._gone
                    if not self._idle:
                        self._work.set()
                    self._answer(len(self._asked) if self._idle else asked)
                except StoreError as error:
                    self.lost()
                    pause = min(5.0, pause * 2)
                    log.warning("database is away, history waits", error=str(error), since=str(self.behind))
                await asyncio.sleep(pause)
        finally:
            if self.before_last is not None:
                self.before_last()
            self._release_until(math.inf)
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    while self.backlog or self._gone:
                        await self._flush()

    async def _whole_flush(self) -> None:
        """A flush that a cancellation does not cut in the middle of a transaction: it ends first."""
        flush = asyncio.create_task(self._flush())
        try:
            while not flush.done():
                done = self._batches
                await asyncio.wait({flush}, timeout=_SILENCE_SECONDS)
                if not flush.done() and self._batches == done:
                    self.lost()
            flush.result()
        except asyncio.CancelledError:
            with contextlib.suppress(StoreError):
                await flush
            raise

    async def flushed(self) -> None:
        """Return once everything collected so far has been written."""
        if not self._idle:
            self._asked.append(written := asyncio.Event())
            await written.wait()

    def _answer(self, count: int) -> None:
        for written in self._asked[:count]:
            written.set()
        del self._asked[:count]

    def _most_rows(self) -> int:
        """Of one kind."""
        return max(len(self._acceptances), self._untold, len(self._jobs))

    @property
    def _untold(self) -> int:
        """Events that wait."""
        return len(self._unsure.events) + len(self._events)

    def _next_batch(self) -> "_Batch":
        events = [self._events.popleft() for _ in range(min(_EVENTS, len(self._events)))]
        return _Batch(events, uuid4().hex if events else "")

    def _batches_waiting(self) -> int:
        return max(
            -(-max(len(self._acceptances), len(self._jobs)) // _BATCH),
            -(-len(self._events) // _EVENTS) + bool(self._unsure.events),
        )

    async def _flush(self) -> None:
        """Write what waits now; while the database counts as away, all that comes meanwhile too. Of pods that are about
        to be bound nothing is written before that, unless somebody waits for all to be written.
        """
        hurry = self._asked or self.behind is not None
        self._release_until(math.inf if hurry else asyncio.get_running_loop().time() - KEPT_SECONDS)
        if self.behind is not None:
            await self._store.ping()
            if self.first is not None:
                await self.first()
        over = list(self._gone.items())  # the row of one that goes meanwhile may not be written by then
        left, due = self._batches_waiting(), deque[str]()
        while left:
            accepted = list(islice(self._acceptances, _BATCH))
            batch = self._unsure if self._unsure.events else self._next_batch()
            due = due or deque(sorted(islice(self._jobs, _SORTED)))
            jobs = {uid: self._jobs.pop(uid) for uid in (due.popleft() for _ in range(min(_BATCH, len(due))))}
            try:
                await self._store.tell(accepted, batch.events, list(jobs.values()), batch.mark)
            except StoreError:
                self._unsure = batch
                self._jobs = jobs | self._jobs
                raise
            self._batches += 1
            self._unsure = _Batch()
            for _ in accepted:
                self._acceptances.popleft()
            left = left - 1 if self.behind is None else self._batches_waiting()
        for start in range(0, len(over), _BATCH):
            gone = dict(over[start : start + _BATCH])
            await self._store.end(gone)
            for uid, one in gone.items():
                if self._gone.get(uid) == one:
                    del self._gone[uid]
