"""The reason of jobs that wait while an administrator has stopped scheduling.

A job that is submitted during a stop is accepted as at any other time, so that a queue that is closed before the stop
ends still owes it a start. Its reason is the stop, with its author, end and cause, and not the room that other jobs
hold.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from t9ksched.engine.view import View
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.store.job_overrides import SCHEDULING, Stop

_GANGS_A_SLICE: Final = 200


async def tell_stopped(view: View, reason: Reason, recorder: HistoryRecorder, now: int) -> None:
    """Give every gang of the view the stop as its reason; `now` is in nanoseconds."""
    reasons = (reason,)
    for count, waiting in enumerate(view.gangs, start=1):
        recorder.waits(waiting.uid, reasons, None, now)
        if count % _GANGS_A_SLICE == 0:
            await asyncio.sleep(0)
    recorder.wake()


def stopped(stops: Iterable[Stop]) -> Reason:
    """The reason of everything that waits while scheduling is stopped."""
    stop = next((one for one in stops if one.what == SCHEDULING), None)
    if stop is None:  # the loop is paused for another reason than an administrator's stop
        return Reason(Code.SCHEDULING_STOPPED, "no job is started at present")
    until = f" until {stop.until:%Y-%m-%dT%H:%M:%SZ}" if stop.until else ""
    why = f": {stop.why}" if stop.why else ""
    ends = ("the stop ends by itself",) if stop.until else ()
    return Reason(
        Code.SCHEDULING_STOPPED,
        f"scheduling is stopped by {stop.by}{until} (no job is started){why}",
        unblocks=(*ends, "an administrator resumes scheduling: t9ksched stop-scheduling --resume"),
    )
