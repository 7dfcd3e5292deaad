"""The load of Kueue's own performance test, through the whole service and a dev cluster.

    uv run python -m tests.benchmarks.kueue [--scale 1.0]

Kueue's test of its scheduler (`test/performance/scheduler/configs/baseline` of its repository) makes 15,000 workloads
in 30 ClusterQueues of 5 cohorts and lets a program play their runs, without pods; its published average is 351 s,
with 59 % of the quota in use and mean times to admission of 6.7, 76.8 and 215.5 s for large, medium and small ones.
Here each workload is a PodGroup of one pod that the dev cluster's kubelet runs: a cohort is a node of 120 cores, a
queue may use all of its cohort, as there with borrowing, and priorities order a queue's PodGroups. The cluster and
what creates the workloads, at Kueue's times, are in a child process; this process is the scheduler alone.

The creations alone take 60 s, and the runs fill all quota for 66 s. Prints one JSON object.
"""

import argparse
import asyncio
import multiprocessing
import resource
import secrets
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

from t9ksched.devcluster.agents import start
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.names import RUN_SECONDS_ANNOTATION
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.transport.config import connect
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store
from tests.benchmarks.restart import cpu
from tests.benchmarks.timing import report

TIMEOUT: Final = 900
COHORTS, QUEUES_EACH, CORES = 5, 6, 120
PUBLISHED: Final = {"seconds": 351.1, "admission_s": {"large": 6.7, "medium": 76.8, "small": 215.5}}


class Load(NamedTuple):
    """The workloads of one class that a queue gets: one every `every` seconds; each runs `runs` seconds."""

    name: str
    number: int
    every: float
    runs: float
    priority: int
    cores: int

    def times(self, scale: float) -> Iterator[tuple[float, "Load", int]]:
        """When each is made, from the start on."""
        for at in range(round(self.number * scale)):
            yield at * self.every, self, at


LOADS: Final = (
    Load("small", 350, 0.1, 0.2, 25, 1),
    Load("medium", 100, 0.5, 0.5, 50, 5),
    Load("large", 50, 1.2, 1.0, 100, 20),
)


def queue_names() -> list[tuple[str, int]]:
    """Each queue with its cohort."""
    return [(f"q{cohort}-{at}", cohort) for cohort in range(COHORTS) for at in range(QUEUES_EACH)]


def workload(queue: str, load: Load, at: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A PodGroup and its pod, whose name ends with the time of creation in µs."""
    name = f"{queue}-{load.name}-{at}"
    group = {
        "apiVersion": names.SCHEDULER_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 1, "queue": queue, "priority": load.priority},
    }
    amounts = {"cpu": str(load.cores), "memory": "1Mi"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {
        "name": f"{name}-{monotonic() * 1e6:.0f}",
        "namespace": "default",
        "labels": {names.QUEUE_LABEL: queue, names.GROUP_LABEL: name, "class": load.name},
        "annotations": {RUN_SECONDS_ANNOTATION: str(load.runs)},
    }
    spec = {"schedulerName": names.SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container]}
    return group, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def serve(kubeconfig: Path, scale: float, up: Any, go: Any, done: Any) -> None:
    """The child: the cluster, and from `go` the workloads at their times, until `done`."""
    entries = [
        {
            "name": f"cohort-{at}",
            "labels": {"cohort": f"c{at}"},
            "allocatable": {"cpu": str(CORES), "memory": "1Ti", "pods": "1000"},
        }
        for at in range(COHORTS)
    ]

    async def main() -> None:
        cluster = DevCluster(None, nodes_from({"nodes": entries}))
        await cluster.start()
        agents = await start(cluster.port_api, ())
        cluster.write_kubeconfig(kubeconfig)
        up.set()
        await asyncio.to_thread(go.wait)
        api = cluster.api
        api_group, _, version = names.SCHEDULER_API.partition("/")
        groups, pods = api.kind(api_group, version, "podgroups"), api.kind("", "v1", "pods")
        began = monotonic()
        for due, load, at in merge(*(load.times(scale) for load in LOADS), key=lambda one: one[0]):
            await asyncio.sleep(max(0.0, began + due - monotonic()))
            for queue, _ in queue_names():
                group, pod = workload(queue, load, at)
                api.create(groups, "default", group)
                api.create(pods, "default", pod)
        await asyncio.to_thread(done.wait)
        await agents.stop()
        await cluster.stop()

    asyncio.run(main())


def watch_decisions(service: SchedulerService) -> dict[str, list[float]]:
    """By class, the seconds from each pod's creation to the decision about its node; filled from now on."""
    waited: dict[str, list[float]] = defaultdict(list)
    assume = service.state.assume

    def assumed(uid: str, decided: Any, now: int) -> Any:
        for one in decided:
            name = service.state.pods[one.pod].name.split("-")
            waited[name[-3]].append(monotonic() - int(name[-1]) / 1e6)
        return assume(uid, decided, now)

    setattr(service.state, "assume", assumed)  # noqa: B010
    return waited


async def measure(kubeconfig: Path, folder: str, count: int, go: Any) -> dict[str, Any]:
    async with connect(kubeconfig) as client, await Store.open(f"sqlite:///{folder}/store.db") as store:
        for name, cohort in queue_names():
            spec = {
                "quota": {"requests": {"cpu": str(CORES)}},
                "nodeSelector": {"matchLabels": {"cohort": f"c{cohort}"}},
            }
            await store.queues.create(name, {}, spec, {"everyone": True})
        service = SchedulerService(client, store, internal_secret=secrets.token_hex())
        async with running(service), asyncio.timeout(TIMEOUT):
            waited = watch_decisions(service)
            go.set()
            began, spent = monotonic(), cpu()
            ended = service.state.counts
            while sum(one["Succeeded"] for one in ended.pods.values()) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            seconds, spent = monotonic() - began, cpu() - spent
            return {
                "workloads": count,
                "seconds": round(seconds, 1),
                "core_percent": round(100 * spent / seconds, 1),
                "cpu_ms_a_workload": round(1e3 * spent / count, 3),
                "admission_s": {name: round(sum(times) / len(times), 2) for name, times in sorted(waited.items())},
                "cycles": service.loop.stats.cycles,
                "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="part of the workloads; their times stay")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    count = sum(round(load.number * given.scale) for load in LOADS) * COHORTS * QUEUES_EACH
    context = multiprocessing.get_context("spawn")
    up, go, done = context.Event(), context.Event(), context.Event()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        child = context.Process(target=serve, args=(kubeconfig, given.scale, up, go, done))
        child.start()
        try:
            up.wait(TIMEOUT)
            figures = asyncio.run(measure(kubeconfig, folder, count, go))
        finally:
            go.set()
            done.set()
            child.join(30)
            child.kill()
    report("kueue", given.record, published=PUBLISHED, figures=figures)


if __name__ == "__main__":
    main()
