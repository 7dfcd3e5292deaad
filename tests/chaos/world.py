"""A whole cluster with scheduler and controllers in this process, on virtual time, for one history."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import yaml

from t9ksched import packaged
from t9ksched.controller.service import Controllers
from t9ksched.devcluster.agents import Agents
from t9ksched.devcluster.api import Api
from t9ksched.devcluster.crd import DEFINITIONS, Definitions
from t9ksched.devcluster.faults import Faults, FaultyPort, told_unreachable
from t9ksched.devcluster.gc import GarbageCollector
from t9ksched.devcluster.inprocess import InProcessPort
from t9ksched.devcluster.kinds import Registry
from t9ksched.devcluster.storage import Storage
from t9ksched.engine.policy import Policy
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.resources import NAMESPACES, NODES, PODGROUPS, PODS, PYTORCHTRAININGJOBS, Resource
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store import schema
from t9ksched.store.store import Store
from tests.chaos.lives import Life, MortalDatabase
from tests.chaos.witness import ENDED, GPU, GROUP, OURS, QUEUE, QueueFacts, Witness

Object = dict[str, Any]
START = 1_790_000_000.0
BIND_TIMEOUT = 20
RECOVERY_TIMEOUT = 60
RUN = "devcluster.tensorstack.dev/run-seconds"
PREEMPT = os.environ.get("T9KSCHED_CHAOS_PREEMPT", "1") != "0"
"""Whether a third of the histories preempt."""
_CRDS = ("podgroups.", "queues.", "pytorchtrainingjobs.", "mpijobs.", "notebooks.")


@cache
def _crds() -> tuple[bytes, ...]:
    files = (file for file in packaged.folder("crds").glob("*.yaml") if file.name.startswith(_CRDS))
    return tuple(msgspec.json.encode(yaml.safe_load(file.read_text())) for file in sorted(files))


@cache
def _empty_database() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="t9ksched-chaos-"))
    schema.upgrade(f"sqlite:///{folder}/empty.db")
    return folder / "empty.db"


class Gang:
    """A group by hand, with somebody who makes its members again when they are gone, as controllers do."""

    def __init__(self, name: str, size: int, minimum: int, cards: int, queue: str, seconds: float | None) -> None:
        self.name, self.size, self.minimum, self.cards = name, size, minimum, cards
        self.queue, self.seconds = queue, seconds


class World:
    """`port` is the cluster without faults; lives act through `faults`. `log` is the history for people."""

    def __init__(self, api: Api, witness: Witness, seed: int, folder: Path) -> None:
        self.port = InProcessPort(api)
        self.api = api
        self.witness = witness
        self.random = Random(seed)
        self.faults = Faults(seed)
        self.log: list[str] = []
        self.database_away = False
        self.gangs: dict[str, Gang] = {}
        self.singles: dict[str, Object] = {}
        self.jobs: dict[str, tuple[str, int, int]] = {}
        self.agents = Agents(self.port, clock=self.now, faults=self.faults)
        self.scheduler: Life | None = None
        self.controllers: Life | None = None
        self.service: SchedulerService | None = None
        self.lives = 0
        self.policy = Policy(("allocate", "preempt")) if PREEMPT and seed % 3 == 0 else Policy()
        self.calm = False
        self._address = f"sqlite:///{folder}/store.db"
        self._past: list[Life] = []
        self._tasks: list[asyncio.Task[None]] = []

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()

    def also(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the history, until its end."""
        self._tasks.append(asyncio.create_task(work))

    def note(self, text: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():8.1f}  {text}")

    # Lives

    def store(self) -> Store:
        return Store(MortalDatabase(self._address, lambda: self.database_away))

    def begin(self) -> None:
        """Set everything to work; whoever dies is born again a while later."""
        self._tasks = [
            asyncio.create_task(self._again(self._new_scheduler)),
            asyncio.create_task(self._again(self._new_controllers)),
            asyncio.create_task(self._refill()),
            asyncio.create_task(self._collect_orphans()),
        ]

    async def _again(self, new: Callable[[], Life]) -> None:
        while True:
            life = new()
            self._past.append(life)
            self.lives += 1
            await life.ended.wait()
            if life.failed is not None:
                self.note(f"a service ended by itself: {life.failed!r}")
                if not self.database_away:
                    self.witness.say(f"a service ended by itself: {_causes(life.failed)}")
            await asyncio.sleep(1.0 if self.calm else self.random.choice((0.1, 1.0, 5.0, 25.0)))

    def _new_scheduler(self) -> Life:
        store = self.store()
        assert isinstance(store.database, MortalDatabase)
        life = Life(self.port, lambda port: FaultyPort(port, self.faults), store.database)
        self.service = SchedulerService(
            life.port,  # type: ignore[arg-type]
            store,
            internal_secret="s" * 20,
            gang_bind_timeout=BIND_TIMEOUT,
            gang_recovery_timeout=RECOVERY_TIMEOUT,
            policy=self.policy,
            clock=lambda: int(self.now() * 1e9),
        )
        self.scheduler = life
        life.begin(self._until_closed(self.service.run(), store))
        return life

    async def _until_closed(self, run: Any, store: Store) -> None:
        try:
            await run
        finally:
            await store.close()

    def _new_controllers(self) -> Life:
        life = Life(self.port, lambda port: FaultyPort(port, self.faults))
        clock = lambda: datetime.fromtimestamp(self.now(), UTC)  # noqa: E731
        self.controllers = life
        life.begin(Controllers(life.port, clock=clock).run())  # type: ignore[arg-type]
        return life

    # What every cluster has

    async def _refill(self) -> None:
        """Make missing members of groups, and drop those that their node refused."""
        while True:
            for gang in list(self.gangs.values()):
                for index in range(gang.size):
                    key = f"default/{gang.name}-{index}"
                    pod = self.witness.pods.get(key)
                    if pod is None and f"default/{gang.name}" in self.witness.groups:
                        await self.member(gang, index)
                    elif pod is not None and pod["status"].get("phase") == "Failed":
                        await self.delete(PODS, f"{gang.name}-{index}")
            for name, pod in list(self.singles.items()):
                found = self.witness.pods.get(f"default/{name}")
                if found is None:
                    await self.create(PODS, pod)
                elif found["status"].get("phase") == "Failed":
                    await self.delete(PODS, name)
            await asyncio.sleep(2)

    async def _collect_orphans(self) -> None:
        """Pods bound to nodes that are no more are taken away, as the pod garbage collector does."""
        while True:
            await asyncio.sleep(20)
            for pod in list(self.witness.pods.values()):
                node = pod["spec"].get("nodeName")
                if node and node not in self.witness.nodes:
                    with contextlib.suppress(NotFound):
                        await self.port.delete(PODS, pod["metadata"]["name"], "default", grace=0)

    # What users and administrators do

    async def create(self, res: Resource, obj: Object) -> None:
        with contextlib.suppress(ApiError):
            await self.port.create(res, msgspec.json.decode(msgspec.json.encode(obj)), "default")

    async def delete(self, res: Resource, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self.port.delete(res, name, None if res is NODES else "default")

    def pod(self, name: str, cards: int, seconds: float | None, scheduler: str = OURS, **labels: str) -> Object:
        amounts = {"cpu": "1", "memory": "1Gi"} | ({GPU: str(cards)} if cards else {})
        annotations = {} if seconds is None else {RUN: str(seconds)}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations},
            "spec": {
                "schedulerName": scheduler,
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "x", "resources": {"limits": amounts, "requests": amounts}}],
            },
        }

    async def gang(self, gang: Gang) -> None:
        await self.create(
            PODGROUPS,
            {
                "apiVersion": "scheduler.tensorstack.dev/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": gang.name},
                "spec": {"minMember": gang.minimum, "queue": gang.queue},
            },
        )
        self.gangs[gang.name] = gang
        for index in range(gang.size):
            await self.member(gang, index)

    async def member(self, gang: Gang, index: int) -> None:
        await self.create(PODS, self.pod(f"{gang.name}-{index}", gang.cards, gang.seconds, **{GROUP: gang.name}))

    async def single(self, name: str, cards: int, queue: str, seconds: float | None) -> None:
        self.singles[name] = self.pod(name, cards, seconds, **{QUEUE: queue})
        await self.create(PODS, self.singles[name])

    async def job(self, name: str, replicas: int, cards: int, queue: str, seconds: float | None) -> None:
        template = self.pod("x", cards, seconds)
        spec = {"containers": template["spec"]["containers"]}
        spec["containers"][0]["name"] = "pytorch"
        worker = {
            "type": "worker",
            "replicas": replicas,
            "restartPolicy": "Always" if seconds is None else "OnFailure",
            "template": {"metadata": {"annotations": template["metadata"]["annotations"]}, "spec": spec},
        }
        self.jobs[name] = (queue, replicas, cards)
        await self.create(
            PYTORCHTRAININGJOBS,
            {
                "apiVersion": "batch.tensorstack.dev/v1beta1",
                "kind": "PyTorchTrainingJob",
                "metadata": {"name": name},
                "spec": {
                    "scheduler": {"t9kScheduler": {"queue": queue}},
                    "runPolicy": {"backoffLimit": 1000},
                    "replicaSpecs": [worker],
                },
            },
        )

    async def forget(self, name: str) -> None:
        """A user deletes a job with everything that belongs to it."""
        if name in self.gangs:
            gang = self.gangs.pop(name)
            await self.delete(PODGROUPS, name)
            for index in range(gang.size):
                await self.delete(PODS, f"{name}-{index}")
        elif name in self.jobs:
            del self.jobs[name]
            await self.delete(PYTORCHTRAININGJOBS, name)
        elif name in self.singles:
            del self.singles[name]
            await self.delete(PODS, name)

    async def queue(self, name: str, quota: int | None, zone: str = "", priority: int = 0) -> None:
        """Make or edit a queue, in SQL as the REST service does."""
        store = self.store()
        spec: Object = {"quota": {"requests": {GPU: str(quota)}}} if quota is not None else {}
        spec |= {"nodeSelector": {"matchLabels": {"zone": zone}}} if zone else {}
        spec["priority"] = priority
        facts = self.witness.queues.setdefault(name, QueueFacts(zone))
        facts.quotas.append((self.now(), quota))
        away, self.database_away = self.database_away, False
        try:
            if await store.queues.get(name) is None:
                await store.queues.create(name, {}, spec, {"everyone": True})
            else:
                await store.queues.edit(name, lambda _: ({}, spec))
        finally:
            self.database_away = away
            await store.close()

    async def node(self, name: str, cards: int, zone: str) -> None:
        amounts = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: str(cards)}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"zone": zone, "kubernetes.io/hostname": name},
                "annotations": {"scheduler.tensorstack.dev/card-mode": "honours-index"},
            },
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        with contextlib.suppress(ApiError):
            await self.port.create(NODES, node)

    async def silence(self, name: str, silent: bool) -> None:
        """A node's kubelet falls silent, or is heard again."""
        (self.faults.silent.add if silent else self.faults.silent.discard)(name)
        with contextlib.suppress(ApiError):
            node = told_unreachable(await self.port.get(NODES, name), silent)
            made = await self.port.replace(NODES, node)
            await self.port.replace_status(NODES, made | {"status": node["status"]})

    async def cordon(self, name: str, cordoned: bool) -> None:
        with contextlib.suppress(ApiError):
            await self.port.patch(NODES, name, None, {"spec": {"unschedulable": cordoned or None}})

    # The end

    async def calm_down(self) -> bool:
        """No more faults; whether the cluster came to rest within an hour."""
        self.calm = True
        self.faults.clear()
        self.database_away = False
        for life in (self.scheduler, self.controllers):
            if life is not None:
                life.port.last = 0
        for name in list(self.witness.nodes):
            await self.silence(name, False)
            await self.cordon(name, False)
        still, before = 0, ""
        for _ in range(72):
            await asyncio.sleep(50)
            seen = self._picture()
            still, before = (still + 1 if seen == before else 0), seen
            if still == 2:
                return True
        return False

    def _picture(self) -> str:
        pods = [
            (key, pod["metadata"]["uid"], pod["spec"].get("nodeName"), pod["status"].get("phase"))
            for key, pod in sorted(self.witness.pods.items())
        ]
        return repr((pods, self.lives))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for life in self._past:
            life.end()
        await self.agents.stop()
        await asyncio.sleep(20)  # the dead have their last words, which nobody hears
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _causes(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_causes, error.exceptions))
    return repr(error)


@contextlib.asynccontextmanager
async def new_world(seed: int, folder: Path) -> AsyncIterator[World]:
    """An empty cluster with its agents at work; services begin by `World.begin`."""
    clock = asyncio.get_running_loop().time
    witness = Witness(lambda: START + clock())
    storage = Storage(witness)
    api = Api(storage, Registry())
    Definitions(api)
    collector = asyncio.create_task(GarbageCollector(api).run())
    for crd in _crds():
        api.create(DEFINITIONS, None, msgspec.json.decode(crd))
    shutil.copy(_empty_database(), folder / "store.db")
    world = World(api, witness, seed, folder)
    for name in ("default", SYSTEM_NAMESPACE):
        await world.port.create(NAMESPACES, {"metadata": {"name": name}})
    store = world.store()
    await store.queues.ensure_default()
    await store.close()
    witness.queues["default"] = QueueFacts(quotas=[(START, None)])
    world.agents.begin()
    await world.agents.synced()
    try:
        yield world
    finally:
        await world.stop()
        collector.cancel()
        await asyncio.gather(collector, return_exceptions=True)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


__all__ = ["ENDED", "Gang", "World", "new_world"]
