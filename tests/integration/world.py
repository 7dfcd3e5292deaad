"""A Kubernetes cluster as a test sees it: a namespace and nodes of its own, and waiting with a timeout.

Without anything set this is a dev cluster on loopback, new for each test. With `T9KSCHED_TEST_KUBECONFIG` it is the
real API server of that file: the test plays its nodes and kubelets there as the user of that file, plays the usual
controllers too where the cluster has none, and takes away what it made, but for our kinds and roles. What is tested
speaks to either server as a service account with the rights of deploy/rbac.yaml (`World.account`).
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from t9ksched.devcluster.agents import Agents, register
from t9ksched.devcluster.audit.auditor import AuditReport, audit
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.faults.faults import Faults, FaultyPort
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, TooManyRequests
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import (
    CONFIGMAPS,
    CRDS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODGROUPS,
    PODS,
    PVS,
    QUEUES,
    SERVICEACCOUNTS,
    of,
)
from t9ksched.kube.setup.crds import ensure, read
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model import names
from t9ksched.model.api_resource import Resource
from t9ksched.packaged import folder
from tests.integration.accounts import install, token_file
from tests.integration.collector import collect
from tests.integration.leaving import delete_all, leave

Object = dict[str, Any]
TIMEOUT: Final = 90.0
KUBECONFIG: Final = "T9KSCHED_TEST_KUBECONFIG"
RUN_LABEL: Final = "t9ksched.test/run"
GPU: Final = "nvidia.com/gpu"


class World:
    """One test's part of a cluster. `run` is unique; nodes are named and labelled by it.

    Attributes:
        client: the test's own, with every right.
        real: whether the API server is a real one.
        controllers: whether the cluster has controllers of its own, the collector of garbage among them.
        faults: what goes wrong; on the dev cluster behind its API, else before the clients of what is tested.
    """

    def __init__(self, client: Client, kubeconfig: Path, run: str, *, cluster: DevCluster | None, folder: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.run = run
        self.namespace = run
        self.real = cluster is None
        self.controllers = False
        self.faults = cluster.faults if cluster else Faults()
        self._old_events: set[str] = set()
        self._made: list[tuple[Resource, str, str | None]] = []
        self._collector: asyncio.Task[None] | None = None
        self._folder = folder
        self._clients: dict[str, Client] = {}
        self._open = AsyncExitStack()
        self.nodes: list[str] = []
        self.agents: Agents | None = None
        self.refusals_expected = False

    async def prepare(self) -> None:
        """Our kinds and roles, and this test's namespace with what pods in it need."""
        with suppress(Forbidden):
            await ensure(self.client, read(folder("crds")))
        for name in (names.SYSTEM_NAMESPACE, self.run):
            with suppress(AlreadyExists, Forbidden):
                await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        await install(self.client)
        if self.real:
            self.controllers = await self._has_controllers()
            listed = await self.client.list(EVENTS, names.SYSTEM_NAMESPACE)
            self._old_events = {event["metadata"]["uid"] for event in listed.items}
            with suppress(AlreadyExists, Forbidden):
                await self.client.create(SERVICEACCOUNTS, {"metadata": {"name": "default"}}, self.run)

    async def _has_controllers(self) -> bool:
        """Whether a controller manager has been here: it puts this into each namespace."""
        try:
            await self.client.get(CONFIGMAPS, "kube-root-ca.crt", "default")
        except ApiError:
            return False
        return True

    async def account(self, name: str) -> Client:
        """A client with the rights of one service account of deploy/rbac.yaml; open as long as the world is."""
        if name not in self._clients:
            self._clients[name] = await self._open.enter_async_context(connect(await self.account_file(name)))
        return self._clients[name]

    async def account_file(self, name: str) -> Path:
        """A kubeconfig of that account."""
        return await token_file(self.client, self.kubeconfig, name, self._folder / f"{name}.kubeconfig")

    async def play(self, count: int = 2, gpus: int = 8, **more: Any) -> None:
        """Make nodes and play their kubelets (and, on the dev cluster, the controllers every cluster has)."""
        entry = {
            "name": f"{self.run}-n",
            "count": count,
            "labels": {RUN_LABEL: self.run},
            "allocatable": {"cpu": "64", "memory": "256Gi", GPU: str(gpus)},
            **more,
        }
        for node in nodes_from({"nodes": [entry]}):
            self.nodes.append((await register(self.client, node))["metadata"]["name"])
        self.agents = Agents(self.client, nodes=self.nodes, controllers=not self.controllers, faults=self.faults)
        self.agents.begin()
        await self.agents.synced()
        if self.real and not self.controllers:
            self._collector = asyncio.create_task(collect(self.client, self.namespace))

    @property
    def queue_spec(self) -> Object:
        """The spec of a queue that may use this test's nodes only."""
        return {"nodeSelector": {"matchLabels": {RUN_LABEL: self.run}}}

    def pod(self, name: str, gpus: int = 1, *, group: str = "", queue: str = "", **spec: Any) -> Object:
        """A pod of one container; of our scheduler when it has a group or a queue."""
        amounts = {"cpu": "1", "memory": "1Gi"} | ({GPU: str(gpus)} if gpus else {})
        labels = ({names.GROUP_LABEL: group} if group else {}) | ({names.QUEUE_LABEL: queue} if queue else {})
        if labels:
            spec["schedulerName"] = names.SCHEDULER_NAME
        container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
        metadata: Object = {"name": name, "namespace": self.namespace, "labels": labels}
        if "annotations" in spec:
            metadata["annotations"] = spec.pop("annotations")
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}

    def group(self, name: str, minimum: int, queue: str, **spec: Any) -> Object:
        """A PodGroup by hand."""
        return {
            "apiVersion": names.SCHEDULER_API,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"minMember": minimum, "queue": queue, **spec},
        }

    async def create(self, *objects: Object) -> Object:
        """Create objects in order; the last one as the server has it."""
        made: Object = {}
        for obj in objects:
            made = await self.client.create(of(obj), obj)
        return made

    async def bind(self, name: str, node: str) -> None:
        """Bind a pod as a scheduler does; one made with its node's name is placed by its creator."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.client.bind(self.namespace, name, binding)

    async def create_shared(self, res: Resource, obj: Object) -> Object:
        """Create an object outside of the test's namespace, which goes with the test."""
        self.goes_with_it(res, obj["metadata"]["name"], obj["metadata"].get("namespace"))
        return await self.client.create(res, obj)

    async def define(self, definition: Object) -> None:
        """Create a definition, which goes with the test, and return once the server serves its kind: a real one takes
        a moment, and a moment more to list its objects.
        """
        spec = definition["spec"]
        await self.create_shared(CRDS, definition)
        await self.until(CRDS, definition["metadata"]["name"], established)
        for version in spec["versions"]:
            served = Resource(spec["group"], version["name"], spec["names"]["plural"], spec["names"]["kind"], False)
            async with asyncio.timeout(TIMEOUT):
                while version["served"]:
                    with suppress(NotFound, TooManyRequests):
                        await self.client.list(served)
                        break
                    await asyncio.sleep(0.05)

    def goes_with_it(self, res: Resource, name: str, namespace: str | None = None) -> None:
        """Delete that object at the end of the test."""
        self._made.append((res, name, namespace))

    def faulty(self, client: Client) -> ClusterPort:
        """The client, or one that meets the faults of this test before a server that has none."""
        return FaultyPort(client, self.faults) if self.real else client

    async def gang(self, name: str, pods: int, gpus: int, queue: str, **spec: Any) -> None:
        """A PodGroup with all its members."""
        await self.create(self.group(name, pods, queue, **spec))
        await self.create(*(self.pod(f"{name}-{index}", gpus, group=name) for index in range(pods)))

    async def until(self, res: Resource, name: str, holds: Callable[[Object], Any], namespace: str = "") -> Object:
        """Follow one object until something holds of it."""
        where = namespace or (self.namespace if res.namespaced else None)
        seen: Object = {}
        try:
            async with asyncio.timeout(TIMEOUT):
                while True:
                    listed = await self.client.list(res, where, field_selector=f"metadata.name={name}")
                    for seen in listed.items:
                        if holds(seen):
                            return seen
                    async for event in self.client.watch(
                        res,
                        where,
                        resource_version=listed.resource_version,
                        timeout=2,
                        field_selector=f"metadata.name={name}",
                    ):
                        if event.type in ("ADDED", "MODIFIED"):
                            seen = event.object
                            if holds(seen):
                                return seen
        except TimeoutError:
            raise AssertionError(f"{res.kind} {name} did not get there in {TIMEOUT:.0f} s; last seen: {seen}") from None

    async def running(self, *pods: str) -> list[Object]:
        """These pods once they run."""
        return [await self.until(PODS, name, lambda pod: pod["status"].get("phase") == "Running") for name in pods]

    async def node_or_reason(self, pod: str) -> str:
        """The pod's node once it has one, or why it waits as soon as that was said."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                listed = await self.client.list(EVENTS, self.namespace)
                if node := (await self.client.get(PODS, pod, self.namespace))["spec"].get("nodeName"):
                    return str(node)
                for event in listed.items:
                    if (event["reason"], event["involvedObject"]["name"]) == (names.EVENT_WAITING, pod):
                        return str(event["message"])
                async for _ in self.client.watch(
                    EVENTS, self.namespace, resource_version=listed.resource_version, timeout=1
                ):
                    break

    async def condition(self, group: str, kind: str, status: str, reason: str = "") -> Object:
        """That condition of a PodGroup once it has that status, and that reason if one is given."""

        def find(obj: Object) -> Object | None:
            conditions = (obj.get("status") or {}).get("conditions") or []
            found = (c for c in conditions if (c["type"], c["status"]) == (kind, status))
            return next((c for c in found if reason in ("", c["reason"])), None)

        return find(await self.until(PODGROUPS, group, find)) or {}

    async def event(self, reason: str, about: str, namespace: str = "") -> Object:
        """An event of that reason about the object of that name."""
        where = namespace or self.namespace
        async with asyncio.timeout(TIMEOUT):
            while True:
                listed = await self.client.list(EVENTS, where)
                for event in listed.items:
                    if event["metadata"]["uid"] in self._old_events:
                        continue  # of an earlier test
                    if event["reason"] == reason and event["involvedObject"]["name"] == about:
                        return event
                async for _ in self.client.watch(EVENTS, where, resource_version=listed.resource_version, timeout=2):
                    break

    async def gone(self, res: Resource, name: str) -> None:
        """Return once the object is no more."""
        async with asyncio.timeout(TIMEOUT):
            while (listed := await self.client.list(res, self.namespace, field_selector=f"metadata.name={name}")).items:
                async for _ in self.client.watch(
                    res, self.namespace, resource_version=listed.resource_version, timeout=2
                ):
                    break

    async def bound(self) -> dict[str, str]:
        """Which pods of the namespace are on which node."""
        pods = (await self.client.list(PODS, self.namespace)).items
        return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}

    async def audit(self) -> AuditReport:
        """What the auditor says of this test's nodes, pods and groups now."""
        nodes = (await self.client.list(NODES, label_selector=f"{RUN_LABEL}={self.run}")).items
        pods = (await self.client.list(PODS, self.namespace)).items
        return audit(nodes, pods, (await self.client.list(PODGROUPS, self.namespace)).items)

    async def check(self) -> None:
        """What every test must leave true: no card given twice, no node over, no pod refused by its node."""
        if self.agents is None:
            return  # no nodes: what was bound was bound to names
        report = await self.audit()
        assert report.ok, str(report)
        assert not self.agents.refusals or self.refusals_expected, self.agents.refusals

    async def clean(self) -> None:
        """Leave nothing behind on a real server."""
        await self._open.aclose()
        if self._collector is not None:
            self._collector.cancel()
            await asyncio.wait([self._collector])
        if self.agents is not None:
            await self.agents.stop()
        if not self.real:
            return
        await delete_all(self.client, PODS, self.namespace)
        for queue in (await self.client.list(QUEUES, names.SYSTEM_NAMESPACE)).items:
            name = queue["metadata"]["name"]
            if name.startswith(self.run) or name == "default":  # each scheduler makes that anew
                await self.client.delete(QUEUES, name, names.SYSTEM_NAMESPACE)
        for volume in (await self.client.list(PVS)).items:
            if (volume["spec"].get("claimRef") or {}).get("namespace") == self.namespace:
                self.goes_with_it(PVS, volume["metadata"]["name"])
        for node in self.nodes:
            self.goes_with_it(NODES, node)
        for res, name, namespace in self._made:
            with suppress(NotFound):
                await self.client.delete(res, name, namespace, grace=0)
                if res is not CRDS:  # objects of a definition that goes before them are there again with the next one
                    await self.client.patch(res, name, namespace, {"metadata": {"finalizers": None}})
        for res, name, _ in self._made:
            if res is CRDS:
                await self.gone(CRDS, name)
        async with asyncio.timeout(4 * TIMEOUT):
            await leave(self.client, self.namespace, controllers=self.controllers)


def established(definition: Object) -> bool:
    """Whether the server has taken in a definition."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)


@asynccontextmanager
async def new_world(folder_: Path) -> AsyncIterator[World]:
    """A world of its own, on the dev cluster or on the server of `T9KSCHED_TEST_KUBECONFIG`."""
    run = f"t-{secrets.token_hex(4)}"
    given = os.environ.get(KUBECONFIG)
    cluster = None if given else DevCluster(None, [])
    kubeconfig = Path(given) if given else folder_ / "kubeconfig"
    if cluster is not None:
        await cluster.start()
        cluster.write_kubeconfig(kubeconfig)
    try:
        async with connect(kubeconfig) as client:
            world = World(client, kubeconfig, run, cluster=cluster, folder=folder_)
            await world.prepare()
            try:
                yield world
                await world.check()
            finally:
                with suppress(ApiError):
                    await world.clean()
    finally:
        if cluster is not None:
            await cluster.stop()
