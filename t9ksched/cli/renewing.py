"""A lease renewed by a thread of its own, which also checks that the leader's work makes progress."""

import asyncio
import contextlib
import threading
from collections.abc import Callable

import structlog

from t9ksched.kube.errors import ApiError
from t9ksched.kube.transport.client import Client
from t9ksched.kube.write.clock import boot_time
from t9ksched.kube.write.lease import LeaderElection
from t9ksched.kube.write.standby import StandbyMonitor
from t9ksched.model.leadership import Timing

log = structlog.get_logger(__name__)

_TICK_SECONDS = 0.25
LEAST_LEADERSHIP_SECONDS = 60.0
"""A leader gives its lease back no sooner, so that the lease changes hands for that reason at most once a minute."""


class Work:
    """What the event loop that works reports: that it runs, and how many times the database has answered.

    `answers` gives that count and how many seconds lie between two answers as a rule; None without a database.
    """

    def __init__(self) -> None:
        self.ticks = 0
        self.answers: Callable[[], tuple[int, float]] | None = None
        self.why = ""
        """Why the lease was given back, as a part of a sentence."""

    async def tick(self) -> None:
        """Count ticks, until cancelled."""
        while True:
            self.ticks += 1
            await asyncio.sleep(_TICK_SECONDS)


class Overseer:
    """Gives the lease back if the work is blocked for a lease's duration while a standby could do it. Without a
    standby's report no process would do better, as in an outage for all: then the lease is kept. Counts are compared,
    each with how long this thread has seen it unchanged.
    """

    def __init__(
        self,
        election: LeaderElection,
        standby: StandbyMonitor,
        work: Work,
        timing: Timing,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._election, self._standby, self._work, self._timing, self._clock = election, standby, work, timing, clock
        self._since: float | None = None
        self._seen: dict[str, tuple[int, float]] = {}

    async def run(self) -> None:
        """Check until the lease was given back, or until cancelled."""
        given_back = False
        while not given_back:
            await asyncio.sleep(self._timing.retry)
            given_back = await self.look()

    async def look(self) -> bool:
        """Check once; whether the lease was given back."""
        now = self._clock()
        if not self._election.holds():
            self._since = None
            self._seen.clear()
            return False
        self._since = now if self._since is None else self._since
        why = self._stands_still(now)
        if not why:
            self._standby.forget()
            return False
        if now - self._since < LEAST_LEADERSHIP_SECONDS:
            return False
        try:
            if not await self._standby.fresh():
                return False
        except ApiError as error:
            log.info("the reports of standbys cannot be read", error=str(error))
            return False
        log.error("the lease is given back, a standby could do better", why=why)
        self._work.why = f" ({why})"
        await self._election.give_back()
        return True

    def _stands_still(self, now: float) -> str:
        """Which part of the work has been blocked for a lease's duration; empty for none."""
        counts = {"its event loop stood still": (self._work.ticks, _TICK_SECONDS)}
        if self._work.answers is not None:
            counts["the database did not answer it"] = self._work.answers()
        stopped = ""
        for why, (count, usual) in counts.items():
            before, at = self._seen.get(why, (-1, now))
            if before != count:
                at = now
            self._seen[why] = (count, at)
            if not stopped and now - at >= self._timing.duration + usual:
                stopped = why
        return stopped


async def renewing(election: LeaderElection, client: Client, overseer: Overseer) -> None:
    """Run the election, and `overseer`, in a thread until cancelled; then the lease is given back if it is ours.

    Raises:
        Exception: what ended the thread before.
    """
    here = asyncio.get_running_loop()
    ended: asyncio.Future[None] = here.create_future()
    stop = threading.Event()

    def work() -> None:
        failure: BaseException | None = None
        try:
            asyncio.run(_strive(election, client, overseer, stop))
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # no task waits for it any more
            here.call_soon_threadsafe(tell, failure)

    def tell(failure: BaseException | None) -> None:
        if ended.done():
            return
        if failure is None:
            ended.set_result(None)
        else:
            ended.set_exception(failure)

    threading.Thread(target=work, name="lease", daemon=True).start()
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({ended})
        if not ended.cancelled():
            ended.exception()
        raise


async def _strive(election: LeaderElection, client: Client, overseer: Overseer, stop: threading.Event) -> None:
    async with client:
        striving = asyncio.create_task(election.run())
        overseeing = asyncio.create_task(overseer.run())
        try:
            while not stop.is_set() and not striving.done():
                await asyncio.wait({striving}, timeout=_STOP_POLL_SECONDS)
            if striving.done():
                striving.result()
        finally:
            for task in (overseeing, striving):
                task.cancel()
            await asyncio.wait({overseeing, striving})


_STOP_POLL_SECONDS = 0.1
