"""Snapshots of the live cluster for `t9ksched simulate replay --format snapshot`."""

import asyncio

import msgspec

from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.limits import limit_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.capture import NoCycle, capture
from t9ksched.simulation.snapshot import Snapshot, write


async def snapshot(state: ClusterState, loop: Loop) -> tuple[int, bytes]:
    """Status as in HTTP, and the present as of a cycle that begins now, in JSON, or why there is none. A group that
    waits is expected to run for its time limit.
    """
    try:
        present = await capture(state, loop, rules=False)
    except NoCycle as error:
        return 503, msgspec.json.encode({"error": str(error)})
    expected: dict[str, float] = {}
    for gang in present.view.gangs:
        record = state.gangs_by_uid.get(gang.uid)
        limit = limit_of(state, (record,), identity(record)[0]).seconds if record is not None else None
        if limit is not None:
            expected[gang.uid] = limit
    pieces = []
    for piece in write(Snapshot(present, expected)):
        pieces.append(piece)
        await asyncio.sleep(0)
    return 200, b"".join(pieces)
