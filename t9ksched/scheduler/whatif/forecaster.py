"""Forecasts of waiting jobs that have no planned start: a worker process walks from the present on virtual time, with
every job running until its enforced end. What it finds holds no room and binds nothing.

Jobs without an enforced end run for ever in the walk, so each start that it finds relies on enforced ends alone.
"""

import asyncio
import sys
from typing import Final

import msgspec
import structlog

from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.capture import NoCycle, capture
from t9ksched.scheduler.whatif.forecast_worker import task
from t9ksched.scheduler.whatif.process import WorkerFailed, answer

log = structlog.get_logger(__name__)

REFRESH_SECONDS: Final = 30.0
"""Between two walks while jobs wait that have no plan."""
NEW_SECONDS: Final = 10.0
"""The same, where one came since the last walk."""
_LOOK_SECONDS: Final = 1.0
_WALK_SECONDS: Final = 8.0
"""How long a walk may take; what it has found until then counts."""
_LONGEST_SECONDS: Final = 25.0
_REST: Final = 4
"""So many times as long as a walk took nothing is asked afterwards."""
_SECOND: Final = 1_000_000_000
_WORKER: Final = (sys.executable, "-I", "-m", "t9ksched.scheduler.whatif.forecast_worker")
_A_SLICE: Final = 1000


class Forecaster:
    """Keeps the walked forecasts of a state, for policies that plan starts.

    Attributes:
        pauses: the least seconds between two walks, and those where a job came since.
    """

    def __init__(self, state: ClusterState, loop: Loop) -> None:
        self._state = state
        self._loop = loop
        self.pauses = (REFRESH_SECONDS, NEW_SECONDS)
        self._walked = 0.0
        """When the last walk ended, by the event loop's clock."""
        self._rests = 0.0

    async def run(self) -> None:
        """Walk from time to time, until cancelled."""
        self._state.forecasts.walks = self._loop.policy.planning is not None
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, *self.pauses))
            await self.look()

    async def look(self) -> None:
        """Walk if that is due."""
        book, planning = self._state.forecasts, self._loop.policy.planning
        book.walks = planning is not None
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
            until = present.at + planning.horizon_seconds * _SECOND
            out = await answer(_WORKER, task(present, until, _WALK_SECONDS), _LONGEST_SECONDS)
            book.walk_found(msgspec.json.decode(out, type=dict[str, int]), present.at)
        except (NoCycle, WorkerFailed, msgspec.DecodeError) as error:
            log.warning("no forecasts beyond the planned starts", error=str(error))
        except Exception:  # no forecast is worth the scheduler
            log.exception("no forecasts beyond the planned starts")
        self._walked = clock()
        self._rests = _REST * (self._walked - began)

    async def _latest(self) -> int:
        """When the latest group came that waits without a plan, nanoseconds since the epoch; 0 if there is none."""
        planned, latest = self._state.reservations.planned, 0
        for count, gang in enumerate(list(self._state.pending), start=1):
            if gang.uid and gang.uid not in planned and gang.reasons:
                latest = max(latest, gang.created)
            if count % _A_SLICE == 0:
                await asyncio.sleep(0)
        return latest
