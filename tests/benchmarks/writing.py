"""What it costs to write down single pods that are bound, in SQL alone, by how much the database holds.

    uv run python -m tests.benchmarks.writing [--rows 0,100000,1000000] [--pods 3000] [--rounds 3] [--keep FOLDER]

For each number of rows of history a fresh copy of the database of `filled.py`, to which the rows of single pods are
written in transactions of 500 pods, as the scheduler writes them: what was agreed, history, the job, the cards on
record; with `--apart` what was agreed comes one transaction before the rest, as of pods that had to wait. CPU of this
process in microseconds a pod, the best of the rounds, and the bytes that the file grew by. Prints
one JSON object. Filled files are made once and kept in the folder (half a GB for a million rows, some minutes).
"""

import argparse
import asyncio
import tempfile
import time
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from t9ksched.store.store import Store
from tests.benchmarks.filled import KEEP, copied, pods
from tests.benchmarks.timing import report

PIECE = 500
"""Pods of one transaction: what is bound within half a second."""


async def write(address: str, count: int, seed: int, *, apart: bool) -> float:
    """Microseconds of CPU for each pod."""
    made = list(pods(count, seed, datetime.now(UTC)))
    async with await Store.open(address) as store:
        await store.history.list(uid="none")  # connections are open, statements compiled
        before = time.process_time()
        for start in range(0, count, PIECE):
            some = made[start : start + PIECE]
            accepted, *rest = ([one.events[kind] for one in some] for kind in range(3))
            agreed, jobs = [one.acceptance for one in some], [one.job for one in some]
            if apart:
                await store.tell(agreed, accepted, [])
                agreed, accepted = [], []
            await store.tell(agreed, list(chain(accepted, *rest)), jobs)
            await store.bindings.write([one.binding for one in some], ())
        return 1e6 * (time.process_time() - before) / count


def measure(rows: int, count: int, rounds: int, keep: Path, *, apart: bool) -> dict[str, Any]:
    """The best of the rounds on a database of so many rows."""
    found = []
    with tempfile.TemporaryDirectory(dir=keep) as where:
        for turn in range(rounds):
            path = Path(where) / f"{turn}.db"
            address = copied(keep, rows, path)
            before = path.stat().st_size if rows else 0
            spent = asyncio.run(write(address, count, 1000 + turn, apart=apart))
            found.append((spent, path.stat().st_size - before))
            path.unlink()
    cpu, grown = min(found)
    return {"cpuMicrosecondsPerPod": round(cpu, 1), "bytesPerPod": grown // count}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", default="0,100000,1000000", help="of history, several by comma")
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, default=KEEP)
    parser.add_argument("--apart", action="store_true", help="acceptances in earlier transactions")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    figures = {
        rows: measure(int(rows), given.pods, given.rounds, given.keep, apart=given.apart)
        for rows in given.rows.split(",")
    }
    report("writing", given.record, pods=given.pods, rounds=given.rounds, apart=given.apart, figures=figures)


if __name__ == "__main__":
    main()
