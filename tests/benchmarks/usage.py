"""What GPU-hours cost: keeping the sums while history is written, and a report of them.

    uv run python tests/benchmarks/usage.py --rows 100000

Writes a history of jobs of eight pods with cards, in batches as the scheduler does, once with the sums, once without,
then asks for reports. CPU seconds of this process, on SQLite. Prints one JSON object.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from t9ksched.store import Store
from t9ksched.store.history import Event, History

PODS = 8
BATCH = 1000
START = datetime(2031, 1, 1, tzinfo=UTC)


def events(rows: int) -> Iterator[Event]:
    """Jobs one after the other over a year: submitted, bound pod by pod, started, released pod by pod, finished."""
    random = Random(1)
    jobs = rows // (2 * PODS + 3)
    for number in range(jobs):
        head: dict[str, Any] = {"uid": f"u{number}", "kind": "PyTorchTrainingJob", "namespace": f"ns{number % 40}"}
        head |= {"name": f"job{number}", "queue": f"q{number % 30}"}
        at = START + timedelta(minutes=number * 525_600 / jobs)
        end = at + timedelta(hours=random.uniform(0.1, 60))
        yield Event(event="submitted", at=at, actor=f"user{number % 100}", **head)
        for pod in range(PODS):
            detail = {"pod": f"p{pod}", "node": f"n{random.randrange(500)}", "cards": {"main": list(range(8))}}
            detail |= {"model": f"M{number % 3}", "resource": "nvidia.com/gpu"}
            yield Event(event="bound", at=at, actor="scheduler", detail=detail, **head)
        yield Event(event="started", at=at + timedelta(minutes=1), actor="scheduler", **head)
        for pod in range(PODS):
            yield Event(event="released", at=end, actor="scheduler", detail={"pod": f"p{pod}"}, **head)
        yield Event(event="finished", at=end, actor="scheduler", **head)


async def write(history: History, told: list[Event]) -> float:
    before = time.process_time()
    for start in range(0, len(told), BATCH):
        await history.append_many(told[start : start + BATCH])
    return time.process_time() - before


async def measure(rows: int, where: str) -> dict[str, Any]:
    """All numbers."""
    told = list(events(rows))
    async with await Store.open(f"sqlite:///{where}/bare.db") as bare:
        without = await write(History(bare.database), told)
    async with await Store.open(f"sqlite:///{where}/summed.db") as store:
        with_sums = await write(store.history, told)
        now = START + timedelta(days=366)
        reports = {}
        for by, since in (("queue", None), ("month", None), ("user", START + timedelta(days=100.3)), ("card", None)):
            before = time.process_time()
            found = await store.usage.report([by], since=since, until=now, now=now)
            spent = time.process_time() - before
            reports[f"by {by}" + (" since noon" if since else "")] = {"rows": len(found), "cpuSeconds": round(spent, 4)}
    return {
        "historyRows": len(told),
        "writeCpuMicrosecondsPerRow": {
            "without": round(without / len(told) * 1e6, 1),
            "withSums": round(with_sums / len(told) * 1e6, 1),
        },
        "reports": reports,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as where:
        print(json.dumps(asyncio.run(measure(arguments.rows, where)), indent=2))


if __name__ == "__main__":
    main()
