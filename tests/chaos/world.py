"""A whole cluster with scheduler and controllers in this process, on virtual time, for one history."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from t9ksched.cli.failure import Failure
from t9ksched.cli.leading import SCHEDULER_LEASE, standing
from t9ksched.controller.service import Controllers
from t9ksched.controller.sshkeys import KeyPair, SecretMaker
from t9ksched.devcluster.agents import Agents
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.inprocess import InProcessPort
from t9ksched.devcluster.faults.faults import Faults, FaultyPort, told_unreachable
from t9ksched.engine.policy import Planning, Policy
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.resources import NODES, PODS, QUEUES
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.store import Store
from tests.chaos.asked import Asked
from tests.chaos.invariant_checker import GPU, LAG, InvariantChecker
from tests.chaos.plans import PlanAuditor
from tests.chaos.precedence import RECOVERY
from tests.chaos.process_faults import ProcessDatabase, SimulatedProcess, Stalling
from tests.chaos.repeat import SQL, START, seconds
from tests.chaos.restart_checks import RestartChecks
from tests.chaos.written import has_all_rows, read_queues, read_row

Object = dict[str, Any]
Turn = Callable[[], Awaitable[None]]
BIND_TIMEOUT = 20
_EVERYBODY = {"everyone": True}


class World:
    """`port` is the cluster without faults; processes act through `faults`. `log` is the history for people."""

    def __init__(self, api: Api, checker: InvariantChecker, seed: int, folder: Path) -> None:
        self.port = InProcessPort(api)
        self.api = api
        self.checker = checker
        self.seed = seed
        self.random = Random(seed)
        self.faults = Faults(seed)
        self.stalled: dict[str, float] = {}
        """By kind of resource, until when its watches are silent."""
        self.log: list[str] = []
        self._database_away = False
        self._database_failed = -LAG
        self.asked: dict[str, Asked] = {}
        self.lowered: dict[str, int] = {}
        """By name, the least number of members that was ever forged of a group which was whole at the end."""
        self.closed: set[str] = set()
        """Queues that stay closed, whatever else of them is edited."""
        self.agents = Agents(self.port, clock=self.now, faults=self.faults)
        self.plans = PlanAuditor(checker.say, seed)
        self.scheduler: SimulatedProcess | None = None
        """The one that leads, or leads soon."""
        self.service: SchedulerService | None = None
        self.restart_checks = RestartChecks(self)
        self.controllers: SimulatedProcess | None = None
        self.starts = 0
        self.elected = seed % 4 == 1
        """Two schedulers stand for election."""
        self.policy = _policy(seed)
        self.calm = False
        self.database = folder / "store.db"
        self._writing = asyncio.Lock()
        self._past: list[SimulatedProcess] = []
        self._tasks: list[asyncio.Task[None]] = []
        SQL.changed = lambda: read_queues(self.database, self.checker.queues, self.now())
        self.plans.looked = self.restart_checks.look
        self.plans.untrue = checker.precedence.faults
        checker.ledger.row = self.read_row = partial(read_row, self.database)
        checker.ledger.trouble = self._database_trouble
        checker.ledger.complete = partial(has_all_rows, self.database)

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()

    @property
    def database_away(self) -> bool:
        """Whether the database is out of reach for everybody."""
        return self._database_away

    @database_away.setter
    def database_away(self, away: bool) -> None:
        if away or self._database_away:
            self._database_failed = seconds()
        self._database_away = away

    def _database_trouble(self) -> bool:
        """Whether it failed so lately that what was decided then may still be carried out."""
        return self._database_away or seconds() - max(self._database_failed, SQL.broke) < LAG

    def also(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the history, until its end."""
        self._tasks.append(asyncio.create_task(work))

    def note(self, text: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():8.1f}  {text}")

    def after_bindings(self, count: int, act: Callable[[str], Awaitable[None]]) -> None:
        """Once so many more pods are bound, at that very moment: `act(node)` of the last one."""
        self.checker.on_bound.append((self.checker.bindings + count, lambda node: self.also(_wait_for(act(node)))))

    # Lives

    def store(self) -> Store:
        return Store(ProcessDatabase(f"sqlite:///{self.database}", lambda: self.database_away, self._writing, SQL.meet))

    def begin(self) -> None:
        """Start everything; a process that dies is started again a while later."""
        works = [self._again(self._new_scheduler) for _ in range(2 if self.elected else 1)]
        works += [self._again(self._new_controllers), self._tend(), self._collect_orphans()]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def _again(self, new: Callable[[], SimulatedProcess]) -> None:
        while True:
            process = new()
            self._past.append(process)
            self.starts += 1
            await process.ended.wait()
            if process.failed is not None:
                self.note(f"a service ended by itself: {_causes(process.failed)}")
                if not (self.database_away or _lost_leadership(process.failed)):
                    self.checker.say(f"a service ended by itself: {_causes(process.failed)}")
            await asyncio.sleep(1.0 if self.calm else self.random.choice((0.1, 1.0, 5.0, 25.0)))

    async def another_scheduler(self) -> None:
        """One more scheduler that is born again whenever it dies, to stand for election beside the others."""
        await self._again(self._new_scheduler)

    def _way(self, port: Any) -> Any:
        return Stalling(FaultyPort(port, self.faults), self.stalled)

    def _new_scheduler(self) -> SimulatedProcess:
        store = self.store()
        assert isinstance(store.database, ProcessDatabase)
        process = SimulatedProcess(self.port, self._way, store.database, self._on_write)
        slow = 0.0 if self.calm else self.random.choice((0.0, 0.0, -30.0, 20.0))  # clocks of machines differ
        process.begin(self._schedule(process, store, slow))
        if not self.elected or self.scheduler is None or not self.scheduler.alive:
            self.scheduler = process
        return process

    async def _schedule(self, process: SimulatedProcess, store: Store, skew: float) -> None:
        try:
            if not self.elected:
                await self._serve(process, process.port, store, skew)
                return
            async with standing(process.port, SCHEDULER_LEASE) as candidate:  # type: ignore[arg-type]
                await self._serve(process, candidate.port, store, skew, candidate.won)
        finally:
            await store.close()

    async def _serve(
        self, process: SimulatedProcess, port: Any, store: Store, skew: float, won: Turn | None = None
    ) -> None:
        service = SchedulerService(
            port,
            store,
            internal_secret="s" * 20,
            options=SchedulerOptions(
                policy=self.policy, gang_bind_timeout=BIND_TIMEOUT, gang_recovery_timeout=int(RECOVERY)
            ),
            clock=lambda: int((self.now() + skew) * 1e9),
            steady=asyncio.get_running_loop().time,
        )

        async def turn() -> None:
            if won is not None:
                await won()
                self.scheduler = process
            if process.alive:
                self.service = service
            self.restart_checks.serve(process, service)

        await service.run(turn)

    def _on_write(self, process: SimulatedProcess, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """A scheduler writes: may it?"""
        if method == "delete" and args[0] is PODS:
            self.checker.deleted_by_us(f"{args[2]}/{args[1]}", options.get("uid"))
        if method == "bind":
            self.checker.ledger.binders[args[2]["metadata"].get("uid", "")] = process
        if self.elected and method not in ("create", "replace", "patch"):
            self._check_leader(process, method)

    def _check_leader(self, process: SimulatedProcess, method: str) -> None:
        entry = self.api.storage.collection("leases.coordination.k8s.io").entries.get(
            f"{SYSTEM_NAMESPACE}/{SCHEDULER_LEASE}"
        )
        holder = str((entry.object["spec"] if entry else {}).get("holderIdentity", ""))
        if not holder.endswith(process.identity):
            self.checker.say(f"{method} by a scheduler that does not lead: {process.identity}, the lease is {holder}'s")

    def _new_controllers(self) -> SimulatedProcess:
        process = SimulatedProcess(self.port, self._way)
        self.controllers = process
        clock = lambda: datetime.fromtimestamp(self.now(), UTC)  # noqa: E731
        process.begin(Controllers(process.port, clock=clock, make=SecretMaker(keys_of)).run())  # type: ignore[arg-type]
        return process

    # What every cluster has

    async def _tend(self) -> None:
        """Make missing pods of what was made by hand, and drop those that their node refused."""
        while True:
            for asked in list(self.asked.values()):
                await asked.tend(self)
            await asyncio.sleep(2)

    async def _collect_orphans(self) -> None:
        """Pods bound to nodes that are no more are taken away, as the pod garbage collector does."""
        while True:
            await asyncio.sleep(20)
            for pod in list(self.checker.pods.values()):
                node = pod["spec"].get("nodeName")
                if node and node not in self.checker.nodes:
                    with contextlib.suppress(NotFound):
                        await self.port.delete(PODS, pod["metadata"]["name"], "default", grace=0)

    # What users and administrators do

    async def create(self, res: Resource, obj: Object) -> None:
        with contextlib.suppress(ApiError):
            await self.port.create(res, msgspec.json.decode(msgspec.json.encode(obj)), "default")

    async def delete(self, res: Resource, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self.port.delete(res, name, None if res is NODES else "default")

    async def submit(self, asked: Asked) -> None:
        self.asked[asked.name] = asked
        await asked.submit(self)

    async def forget(self, name: str) -> None:
        """A user deletes a job with everything that belongs to it."""
        asked = self.asked.pop(name, None)
        if asked is not None:
            await asked.forget(self)

    async def queue(self, name: str, quota: int | None, **fields: Any) -> None:
        """Make or edit a queue in SQL as the REST service does, once the database answers. `zone` labels nodes."""
        store = self.store()
        spec = _queue_spec(quota, fields)
        try:
            while True:
                with contextlib.suppress(StoreError):
                    if await store.queues.get(name) is None:
                        await store.queues.create(name, {}, spec, _EVERYBODY)
                    else:
                        await store.queues.edit(name, lambda _: ({}, spec | self._closed(name)))
                    return
                await asyncio.sleep(1)
        finally:
            await store.close()

    async def close_queue(self, name: str) -> None:
        """Close a queue as the REST service does, once the database answers; it stays closed."""
        self.closed.add(name)
        store = self.store()
        try:
            while True:
                with contextlib.suppress(StoreError):
                    await store.queues.edit(name, lambda record: (record.labels, record.spec | self._closed(name)))
                    return
                await asyncio.sleep(1)
        finally:
            await store.close()

    def _closed(self, name: str) -> Object:
        return {"closed": True} if name in self.closed else {}

    async def edit_queue_object(self, name: str, quota: int | None) -> None:
        """Edit a queue as `kubectl edit` does."""
        requests = {GPU: None if quota is None else str(quota)}
        with contextlib.suppress(ApiError):
            body = {"spec": {"quota": {"requests": requests}}}
            await self.port.patch(QUEUES, name, SYSTEM_NAMESPACE, body)

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

    async def label(self, pod: str, app: str) -> None:
        """A user changes the label `app` of a pod."""
        with contextlib.suppress(ApiError):
            await self.port.patch(PODS, pod, "default", {"metadata": {"labels": {"app": app}}})

    # The end

    async def calm_down(self) -> bool:
        """No more faults; whether the cluster came to rest within an hour."""
        self.calm = True
        self.faults.clear()
        self.stalled.clear()
        self.database_away, SQL.breaks_in = False, 0
        self.checker.on_bound.clear()
        for process in self._past:
            process.port.last = process.steps_left = 0
            process.resume()
        for name in list(self.checker.nodes):
            await self.silence(name, False)
            await self.cordon(name, False)
        return await self.rest()

    async def rest(self) -> bool:
        """Whether the cluster comes to rest within an hour; gangs in part are noticed on the way."""
        still, before, halves = 0, "", set[str]()
        for _ in range(72):
            await asyncio.sleep(50)
            now_half = self.checker.half_bound()
            for text in sorted(halves & now_half):
                self.checker.say(f"still in part long after the bind timeout: {text}")
            halves, seen = now_half, self._picture()
            still, before = (still + 1 if seen == before else 0), seen
            if still == 2:
                return True
        return False

    def _picture(self) -> str:
        pods = [
            (key, pod["metadata"]["uid"], pod["spec"].get("nodeName"), pod["status"].get("phase"))
            for key, pod in sorted(self.checker.pods.items())
        ]
        return repr((pods, self.starts))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for process in self._past:
            process.end()
        await self.agents.stop()
        await asyncio.sleep(20)  # the dead processes' last requests, which no server answers
        await asyncio.gather(*self._tasks, return_exceptions=True)


def keys_of(comment: str) -> KeyPair:
    """In place of keys made by chance."""
    return KeyPair(f"private key of {comment}", f"public key of {comment}")


def _policy(seed: int) -> Policy:
    """A third of the histories preempt, a fifth plan starts."""
    planning = Planning(mode="EASY" if seed % 2 else "Conservative", resolution_seconds=1, per_user=100)
    actions = ("allocate", "preempt") if seed % 3 == 0 else ("allocate",)
    return Policy(actions, planning=planning if seed % 5 == 0 else None)


def _queue_spec(quota: int | None, fields: dict[str, Any]) -> Object:
    spec: Object = {"quota": {"requests": {GPU: str(quota)}}} if quota is not None else {}
    zone = fields.pop("zone", "")
    return spec | ({"nodeSelector": {"matchLabels": {"zone": zone}}} if zone else {}) | fields


async def _wait_for(work: Awaitable[None]) -> None:
    await work


def _causes(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_causes, error.exceptions))
    return repr(error)


def _lost_leadership(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_lost_leadership, error.exceptions))
    return isinstance(error, LeadershipLost) or (isinstance(error, Failure) and "was lost" in str(error))


__all__ = ["World"]
