"""Forecasts of waiting jobs that have no planned start: a worker process walks from the present on virtual time, with
every job running until its enforced end. What it finds holds no room and binds nothing.

Jobs without an enforced end run for ever in that walk, so each start that it finds relies on enforced ends alone. For
the other jobs it walks twice more, with every job running as long as jobs like it ran before, at the least and at the
most. A job that has a limit, and like which too few ran before, may at the least end at once, and at the most at its
limit.
"""

import asyncio
import sys
from typing import Final

import msgspec
import structlog

from t9ksched.model.gang import Gang
from t9ksched.model.run_times import Likeness, RunTimes
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.capture import NoCycle, capture
from t9ksched.scheduler.whatif.forecast_worker import Interval, Starts, task
from t9ksched.scheduler.whatif.process import WorkerFailed, answer
from t9ksched.simulation.present import Present
from t9ksched.store.errors import StoreError
from t9ksched.store.jobs import Jobs

log = structlog.get_logger(__name__)

REFRESH_SECONDS: Final = 30.0
"""Between two walks while jobs wait that have no plan."""
NEW_SECONDS: Final = 10.0
"""The same, where one came since the last walk."""
_LOOK_SECONDS: Final = 1.0
_WALK_SECONDS: Final = 6.0
"""How long each of the walks may take; what it has found until then counts."""
_LONGEST_SECONDS: Final = 45.0
_REST: Final = 4
"""So many times as long as a walk took nothing is asked afterwards."""
_SECOND: Final = 1_000_000_000
_WORKER: Final = (sys.executable, "-I", "-m", "t9ksched.scheduler.whatif.forecast_worker")
_A_SLICE: Final = 200
_LEARN_SECONDS: Final = 300.0
"""Between two looks at what earlier jobs ran."""
_ANSWER_SECONDS: Final = 10.0
_MOST_RUNS: Final = 2000


class Forecaster:
    """Keeps the walked forecasts of a state, for policies that plan starts.

    Attributes:
        pauses: the least seconds between two walks, and those where a job came since.
    """

    def __init__(self, state: ClusterState, loop: Loop, jobs: Jobs) -> None:
        self._state = state
        self._loop = loop
        self.pauses = (REFRESH_SECONDS, NEW_SECONDS)
        self._jobs = jobs
        self._learned: float | None = None
        self._walked = 0.0
        """When the last walk ended, by the event loop's clock."""
        self._rests = 0.0

    async def run(self) -> None:
        """Walk from time to time, until cancelled."""
        self._state.forecasts.walks = self._loop.policy.planning is not None
        await self._learn()  # the first time takes longest, and others wait now anyway
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, *self.pauses))
            await self.look()

    async def look(self) -> None:
        """Walk if that is due."""
        book, planning = self._state.forecasts, self._loop.policy.planning
        book.walks = planning is not None
        await self._learn()
        if planning is None:
            book.forget_walks()
            return
        latest = await self._latest()
        if not latest:
            book.forget_walks()
            return
        always, for_new = self.pauses
        clock = asyncio.get_running_loop().time
        pause = max(for_new if latest > book.walked_at else always, self._rests)
        if clock() < self._walked + pause and self._walked:
            return
        began = clock()
        try:
            present = await capture(self._state, self._loop, rules=False)
            ends, lengths = await self._expected(present, await self._learn())
            until = present.at + planning.horizon_seconds * _SECOND
            out = await answer(_WORKER, task(present, until, _WALK_SECONDS, ends, lengths), _LONGEST_SECONDS)
            found = msgspec.json.decode(out, type=Starts)
            book.walk_found(found.enforced, found.learned, present.at, found.rooms)
        except (NoCycle, WorkerFailed, msgspec.DecodeError) as error:
            log.warning("no forecasts beyond the planned starts", error=str(error))
        except Exception:  # no forecast is worth the scheduler
            log.exception("no forecasts beyond the planned starts")
        self._walked = clock()
        self._rests = _REST * (self._walked - began)

    async def _learn(self) -> RunTimes:
        """The run times of jobs that have ended, as of the last minutes."""
        now = asyncio.get_running_loop().time()
        if not self._state.outage.unread and (self._learned is None or now > self._learned + _LEARN_SECONDS):
            self._learned = now
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    runs = await self._jobs.run_times(_MOST_RUNS)
            except (StoreError, TimeoutError) as error:
                log.warning("run times of earlier jobs wait for the database", error=str(error) or "no answer")
            else:
                self._state.forecasts.times = await asyncio.to_thread(RunTimes, runs)
        return self._state.forecasts.times

    async def _expected(self, present: Present, times: RunTimes) -> tuple[dict[str, Interval], dict[str, Interval]]:
        """Between which moments running groups are expected to end, and between which lengths waiting ones to run. At
        the least none is expected to run longer than its limit: its pods may start and end in no time.
        """
        policy = present.policy
        rules = EndRules(self._state, policy.start_timeout_seconds, policy.preemption.max_grace_seconds)
        ends: dict[str, Interval] = {}
        lengths: dict[str, Interval] = {}
        for count, one in enumerate(present.occupants, start=1):
            age = (present.at - one.started) / _SECOND
            if (found := times.interval(self._likeness(one.gang), max(age, 0.0))) is not None:
                low, high = (round(seconds * _SECOND) for seconds in found)
                ends[one.gang.uid] = (one.started + self._limited(one.gang, low, rules), one.started + high)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        for count, gang in enumerate(present.view.gangs, start=1):
            if (found := times.interval(self._likeness(gang))) is not None:
                low, high = (max(1, round(seconds * _SECOND)) for seconds in found)
                lengths[gang.uid] = (self._limited(gang, low, rules), high)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        return ends, lengths

    def _limited(self, gang: Gang, length: int, rules: EndRules) -> int:
        """That length, or the limit of the group if that is shorter; nanoseconds."""
        record = self._state.gangs_by_uid.get(gang.uid)
        limit = rules.shortest(record) if record is not None else 0
        return min(length, limit or length)

    def _likeness(self, gang: Gang) -> Likeness:
        record = self._state.gangs_by_uid.get(gang.uid)
        kind = identity(record)[1] if record is not None else ""
        cards = sum(sum(member.pod_class.card_counts.values()) for member in gang.waiting)
        return Likeness(gang.user, gang.queue, kind, (max(gang.total, len(gang.waiting)), cards))

    async def _latest(self) -> int:
        """When the latest group came that waits without a plan, nanoseconds since the epoch; 0 if there is none."""
        planned, latest = self._state.reservations.planned, 0
        for count, gang in enumerate(list(self._state.pending), start=1):
            if gang.uid and gang.uid not in planned and gang.reasons:
                latest = max(latest, gang.created)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        return latest
