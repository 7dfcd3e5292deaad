"""A scheduler on a cluster that never stands still, with everything at once that makes clusters untidy.

    uv run python -m tests.benchmarks.untidy [--nodes 5000] [--rate 50] [--seconds 60] [--held 15]

The cluster (`untidycluster.py`) is in a child process with less priority; this process is the scheduler alone, with
preemption. First it starts on what is there; when all of that is written down, events come. Told of that time: the
share of a core that it took; the first decision about each pod that came, from its creation and from the moment in
which the scheduler read of it, and its place, which may come when victims have left; and the time from the moment in
which the scheduler learned of a change to the end of the cycle that took it in. Each in milliseconds on the clock, and
(`own`) without the time in which the event loop was ready to run and had no processor, as far as that was after the
scheduler had read of it. Then, for as long again, the longest block of its event loop, in CPU time of its thread: to
watch that costs itself. `--held` tells where the loop was meanwhile. Prints one JSON object.
"""

import argparse
import asyncio
import multiprocessing
import resource
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.kube.transport.config import connect
from t9ksched.model.pod import Pod
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.scheduler.state.pod_events import PodEvents
from t9ksched.store.store import Store
from tests.benchmarks.heldloop import HeldLoop, waited
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


class Delay(NamedTuple):
    """Seconds on the clock, and those of them in which the event loop's thread was ready and had no processor."""

    clock: float
    waited: float


class Arrival(NamedTuple):
    """A pod that came: when it was created, when the scheduler read of it, and how long its loop had waited by then."""

    created: float
    read: float
    waited: float


class Delays:
    """From events to decisions, in seconds; what a scheduler does is watched from inside, without a change to it.

    The first decision about a pod is its place, the choice of victims for it, or why it waits. It may get its place
    later, when its victims have left.
    """

    def __init__(self) -> None:
        self.clear()
        self._first = self._in_cycle = Delay(0.0, 0.0)
        self._new: dict[str, Arrival] = {}
        self._undecided: dict[str, float] = {}
        """By UID of pods that have no place yet: when they were created."""
        self._upsert = PodEvents.upsert
        PodEvents.upsert = lambda events, pod: self._read(events, pod)  # type: ignore[method-assign, assignment]

    def watch(self, service: SchedulerService) -> None:
        """Watch a service that was made after this."""
        state, loop = service.state, service.loop
        self._assume, self._submit = state.assume, service._evictor.submit
        self._waits, self._wake, self._show, self._told = service._recorder.waits, loop.wake, loop._show, loop.told
        inside: list[tuple[Any, str, Any]] = [
            (state, "assume", self._assumed),
            (service._evictor, "submit", self._evicted),
            (service._recorder, "waits", self._waiting),
            (loop, "wake", self._woken),
            (loop, "_show", self._began),
            (loop, "told", self._ended),
        ]
        for part, name, watched in inside:
            setattr(part, name, watched)

    def clear(self) -> None:
        self.first: Counter[str] = Counter()
        """What the first decisions about pods were."""
        self.read: list[Delay] = []
        self.decided: list[Delay] = []
        self.since_read: list[Delay] = []
        self.placed: list[Delay] = []
        self.taken_in: list[Delay] = []

    def _read(self, events: PodEvents, pod: Pod) -> None:
        if pod.metadata.name.startswith(COMES) and pod.metadata.uid not in events._state.pods:
            created, now = int(pod.metadata.name.rpartition("-")[2]) / 1e6, time.monotonic()
            self._new[pod.metadata.uid] = Arrival(created, now, waited())
            self._undecided[pod.metadata.uid] = created
            self.read.append(Delay(now - created, 0.0))
        self._upsert(events, pod)

    def _decide(self, uid: str, what: str) -> None:
        arrival = self._new.pop(uid, None)
        if arrival is not None:
            now, lost = time.monotonic(), waited() - arrival.waited
            self.first[what] += 1
            self.decided.append(Delay(now - arrival.created, lost))
            self.since_read.append(Delay(now - arrival.read, lost))

    def _assumed(self, uid: str, decided: Any, now: int) -> Any:
        accepted = self._assume(uid, decided, now)
        for one in decided:
            self._decide(one.pod, "place")
            if (created := self._undecided.pop(one.pod, None)) is not None:
                self.placed.append(Delay(time.monotonic() - created, 0.0))
        return accepted

    def _evicted(self, plan: Any, most_grace: int) -> None:
        for eviction in plan.evictions:
            self._decide(eviction.by, "victims")
        self._submit(plan, most_grace)

    def _waiting(self, uid: str, *given: Any) -> None:
        if self._new:
            self._decide(uid, "wait")
        self._waits(uid, *given)

    def _woken(self) -> None:
        if not self._first.clock:
            self._first = Delay(time.monotonic(), waited())
        self._wake()

    def _began(self, *given: Any) -> None:
        self._in_cycle, self._first = self._first, Delay(0.0, 0.0)
        self._show(*given)

    def _ended(self) -> None:
        if self._in_cycle.clock:
            self.taken_in.append(Delay(time.monotonic() - self._in_cycle.clock, waited() - self._in_cycle.waited))
            self._in_cycle = Delay(0.0, 0.0)
        self._told()


def told(delays: list[Delay]) -> dict[str, Any]:
    """The number of delays and some of their percentiles, in milliseconds: on the clock, and without the time in which
    the event loop had no processor.
    """
    if not delays:
        return {"count": 0}
    found: dict[str, Any] = {"count": len(delays)}
    own = [delay.clock - delay.waited for delay in delays]
    for name, those in (("", [delay.clock for delay in delays]), ("own_", own)):
        for which, figure in zip(("median", "p99", "longest"), np.percentile(those, (50, 99, 100)), strict=True):
            found[f"{name}{which}_ms"] = round(1e3 * figure, 1)
    return found


async def measure(kubeconfig: Path, folder: str, seconds: float, go: Any, held_ms: float) -> dict[str, Any]:
    async with connect(kubeconfig) as client, await Store.open(f"sqlite:///{folder}/store.db") as store:
        for name, priority in [*((f"b{at}", 0) for at in range(QUEUES)), ("quick", 5)]:
            await store.queues.create(name, {}, {"priority": priority, "preemptible": True}, {"everyone": True})
        delays = Delays()
        service = SchedulerService(
            client, store, internal_secret=secrets.token_hex(), options=SchedulerOptions(policy=parse_conf(CONF))
        )
        delays.watch(service)
        watch = LoopWatch()
        watch.start()
        held = HeldLoop(held_ms / 1e3) if held_ms else None
        if held is not None:
            held.start()
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
            first["longest_block_settling_ms"] = round(1e3 * watch.longest, 1)
            if held is not None:
                print("From the start until all is written down:", *held.stop(), sep="\n", file=sys.stderr)
            go.set()
            await asyncio.sleep(WARM_SECONDS)
            watch.stop()
            delays.clear()
            cycles = service.loop.stats.cycles
            spent, since, lost = cpu(), time.perf_counter(), waited()
            await asyncio.sleep(seconds)
            took = time.perf_counter() - since
            figures = {
                "start": first,
                "core_percent": round(100 * (cpu() - spent) / took, 1),
                "without_processor_percent": round(100 * (waited() - lost) / took, 1),
                "cycles": service.loop.stats.cycles - cycles,
                "first_decisions": dict(delays.first),
                "created_to_read": told(delays.read),
                "created_to_decision": told(delays.decided),
                "read_to_decision": told(delays.since_read),
                "created_to_place": told(delays.placed),
                "change_to_end_of_cycle": told(delays.taken_in),
            }
            held = HeldLoop(held_ms / 1e3) if held_ms else None
            if held is not None:
                held.start()
            watch.start()
            await asyncio.sleep(seconds)
            figures["longest_block_ms"] = round(1e3 * watch.stop(), 1)
            if held is not None:
                print("\n".join(held.stop()), file=sys.stderr)
            return figures | {
                "bound": service.executor.stats.bound,
                "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=50, help="events a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--held", type=float, default=0, help="tell where the loop is when held for so many CPU ms")
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
            figures = asyncio.run(measure(kubeconfig, folder, given.seconds, go, given.held))
            if not child.is_alive():
                raise SystemExit("the cluster ended before the figures were taken")
        finally:
            go.set()
            done.set()
            child.join(30)
            child.kill()
    report("untidy", given.record, nodes=given.nodes, rate=given.rate, figures=figures)


if __name__ == "__main__":
    main()
