"""A scheduler on a cluster that never stands still, with everything at once that makes clusters untidy.

    uv run python -m tests.benchmarks.untidy [--nodes 5000] [--rate 50] [--seconds 60]

The cluster (`untidycluster.py`) is in a child process; this process is the scheduler alone, with preemption. First it
starts on what is there; when all of that is written down, events come. Told of that time: the share of a core that it
took; from a pod's creation in the cluster to the decision about its node, and from the moment in which the scheduler
learned of a change to the end of the cycle that took it in, in milliseconds on the clock. Then, for as long again, the
longest block of its event loop, in CPU time of its thread: to watch that costs itself. Prints one JSON object.
"""

import argparse
import asyncio
import multiprocessing
import resource
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.kube.transport.config import connect
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store
from tests.benchmarks.restart import LoopWatch, cpu, settled
from tests.benchmarks.timing import report
from tests.benchmarks.untidycluster import COMES, QUEUES, serve

TIMEOUT = 900
WARM_SECONDS = 10
"""Seconds of events before figures are taken."""
CONF = """
actions: "allocate,preempt"
tiers:
- plugins:
  - name: basic
  - name: resource
  - name: affinity
  - name: predicates
  - name: binpack
  - name: cardless
preempt:
  minimumRunTime: 10m
"""


class Delays:
    """From events to decisions, in seconds; what a scheduler does is watched from inside, without a change to it."""

    def __init__(self, service: SchedulerService) -> None:
        self.decided: list[float] = []
        self.taken_in: list[float] = []
        self._service, self._first = service, 0.0
        self._assume, self._wake, self._show = service.state.assume, service.loop.wake, service.loop._show
        self._told = service.loop.told
        self._in_cycle = 0.0
        inside: list[tuple[Any, str, Any]] = [
            (service.state, "assume", self._assumed),
            (service.loop, "wake", self._woken),
            (service.loop, "_show", self._began),
            (service.loop, "told", self._ended),
        ]
        for part, name, watched in inside:
            setattr(part, name, watched)

    def clear(self) -> None:
        self.decided.clear()
        self.taken_in.clear()

    def _assumed(self, uid: str, decided: Any, now: int) -> Any:
        for one in decided:
            record = self._service.state.pods.get(one.pod)
            if record is not None and record.name.startswith(COMES):
                came = int(record.name.rpartition("-")[2]) / 1e6
                self.decided.append(time.monotonic() - came)
        return self._assume(uid, decided, now)

    def _woken(self) -> None:
        self._first = self._first or time.monotonic()
        self._wake()

    def _began(self, *given: Any) -> None:
        self._in_cycle, self._first = self._first, 0.0
        self._show(*given)

    def _ended(self) -> None:
        if self._in_cycle:
            self.taken_in.append(time.monotonic() - self._in_cycle)
            self._in_cycle = 0.0
        self._told()


def told(delays: list[float]) -> dict[str, Any]:
    """The number of delays and some of their percentiles, in milliseconds."""
    if not delays:
        return {"count": 0}
    median, late, last = np.percentile(delays, (50, 99, 100))
    return {
        "count": len(delays),
        "median_ms": round(1e3 * median, 1),
        "p99_ms": round(1e3 * late, 1),
        "longest_ms": round(1e3 * last, 1),
    }


async def measure(kubeconfig: Path, folder: str, seconds: float, go: Any) -> dict[str, Any]:
    async with connect(kubeconfig) as client, await Store.open(f"sqlite:///{folder}/store.db") as store:
        for name, priority in [*((f"b{at}", 0) for at in range(QUEUES)), ("quick", 5)]:
            await store.queues.create(name, {}, {"priority": priority, "preemptible": True}, {"everyone": True})
        service = SchedulerService(
            client, store, internal_secret=secrets.token_hex(), options=SchedulerOptions(policy=parse_conf(CONF))
        )
        watch, delays = LoopWatch(), Delays(service)
        watch.start()
        began, spent = time.perf_counter(), cpu()
        async with running(service), asyncio.timeout(TIMEOUT):
            while not delays.taken_in:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            first = {
                "wall_ms": round(1e3 * (time.perf_counter() - began)),
                "cpu_ms": round(1e3 * (cpu() - spent)),
                "longest_block_ms": round(1e3 * watch.longest, 1),
            }
            await settled(service, watch)
            go.set()
            await asyncio.sleep(WARM_SECONDS)
            watch.stop()
            delays.clear()
            cycles = service.loop.stats.cycles
            spent, since = cpu(), time.perf_counter()
            await asyncio.sleep(seconds)
            share = (cpu() - spent) / (time.perf_counter() - since)
            cycles = service.loop.stats.cycles - cycles
            decided, taken_in = told(delays.decided), told(delays.taken_in)
            watch.start()
            await asyncio.sleep(seconds)
            return {
                "start": first,
                "core_percent": round(100 * share, 1),
                "longest_block_ms": round(1e3 * watch.stop(), 1),
                "cycles": cycles,
                "pod_to_decision": decided,
                "event_to_end_of_cycle": taken_in,
                "bound": service.executor.stats.bound,
                "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=50, help="events a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    up, go, done = context.Event(), context.Event(), context.Event()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        child = context.Process(target=serve, args=(kubeconfig, given.nodes, given.rate, up, go, done))
        child.start()
        try:
            up.wait(TIMEOUT)
            figures = asyncio.run(measure(kubeconfig, folder, given.seconds, go))
        finally:
            go.set()
            done.set()
            child.join(30)
            child.kill()
    report("untidy", given.record, nodes=given.nodes, rate=given.rate, figures=figures)


if __name__ == "__main__":
    main()
