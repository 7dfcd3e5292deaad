"""The simulated parts of a cluster, started together on one port.

`start` creates the nodes that are not there yet and then runs the kubelet of all nodes, the default scheduler, the
small controllers and the auditor, all on the same watches. It works as well on a real API server over HTTP.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from t9ksched.devcluster.audit.auditor import AuditReport
from t9ksched.devcluster.audit.auditwatch import AuditWatcher
from t9ksched.devcluster.controllers.defaultscheduler import DefaultScheduler
from t9ksched.devcluster.controllers.follow import Follower, Reconciler
from t9ksched.devcluster.controllers.jobs import JobController
from t9ksched.devcluster.controllers.nodetaints import CordonTaints
from t9ksched.devcluster.controllers.timers import Clock, Timers, system_clock
from t9ksched.devcluster.controllers.volumes import Provisioner, VolumeBinder
from t9ksched.devcluster.controllers.workloads import DeploymentController, ReplicaSetController, StatefulSetController
from t9ksched.devcluster.faults.faults import Faults
from t9ksched.devcluster.nodes.heartbeat import Heartbeat
from t9ksched.devcluster.nodes.kubelet import Kubelet
from t9ksched.devcluster.nodes.podagent import Refusal
from t9ksched.kube.errors import AlreadyExists
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES

if TYPE_CHECKING:
    from t9ksched.devcluster.local.kubelet import LocalKubelet
    from t9ksched.devcluster.local.machine import Machine

Object = dict[str, Any]


class Agents:
    """The running agents of one cluster; made by `start`, ended by `stop`.

    Attributes:
        kubelet: plays the nodes.
        auditor: checks every change; `audit()` has what it found.
    """

    kubelet: "Kubelet | LocalKubelet"

    def __init__(
        self,
        port: ClusterPort,
        nodes: Iterable[str] | None = None,
        clock: Clock = system_clock,
        controllers: bool = True,
        faults: Faults | None = None,
        machine: "Machine | None" = None,
    ) -> None:
        """`nodes` are the names the kubelet plays, None for every node. On a server that has controllers and a default
        scheduler of its own, `controllers` is false: then the nodes' leases are kept, and volumes are made but not
        bound. `faults` silences nodes and puts kubelets' clocks off. With a `machine` its processes are what runs, and
        no node is simulated.
        """
        faults = faults or Faults()
        self._follower = Follower(port)
        self._timers = Timers(clock)
        parts = (self._follower, self._timers)
        self.auditor = AuditWatcher(self._follower)
        self._node_timers = Timers(faults.clock(clock))
        names = None if nodes is None else list(nodes)
        if machine is not None:
            from t9ksched.devcluster.local.kubelet import LocalKubelet

            self.kubelet = LocalKubelet(port, self._follower, self._node_timers, machine)
        else:
            self.kubelet = Kubelet(
                port, self._follower, self._node_timers, names, silent=faults.silent, broken=faults.broken
            )
        self._reconcilers: list[Reconciler] = [self.kubelet]
        self._heartbeat: Heartbeat | None = None
        if controllers:
            self._reconcilers += [
                DefaultScheduler(port, *parts),
                JobController(port, *parts),
                DeploymentController(port, *parts),
                ReplicaSetController(port, *parts),
                StatefulSetController(port, *parts),
                VolumeBinder(port, *parts),
                CordonTaints(port, *parts),
            ]
        else:
            seen = self._follower.cache(NODES).objects
            self._reconcilers.append(Provisioner(port, *parts))
            self._heartbeat = Heartbeat(port, seen, self.kubelet.rooms, faults.silent, clock)
        self._task: asyncio.Task[None] | None = None

    @property
    def refusals(self) -> list[Refusal]:
        """The pods that a node could not take although they were bound to it."""
        return self.kubelet.refusals

    @property
    def idle(self) -> bool:
        """Whether no agent has work left at this moment."""
        return all(reconciler.idle for reconciler in self._reconcilers)

    def audit(self) -> AuditReport:
        """What the auditor has found since the cluster was started."""
        return self.auditor.report()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follower.run(), name="follow")
                await self._follower.synced()  # so that every agent knows all objects before it acts
                for reconciler in self._reconcilers:
                    group.create_task(reconciler.run(), name=type(reconciler).__name__)
                if self._heartbeat is not None:
                    group.create_task(self._heartbeat.run(), name="Heartbeat")
        finally:
            self._timers.stop()
            self._node_timers.stop()

    def begin(self) -> None:
        """Work in the background until `stop`."""
        self._task = asyncio.create_task(self.run(), name="agents")

    async def synced(self) -> None:
        """Return when every agent knows what is in the cluster."""
        await self._follower.synced()

    async def stop(self) -> None:
        """End all work; requests without an answer are left to the next start."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None


async def register(port: ClusterPort, node: Object) -> Object:
    """Make a node ready as its kubelet and the node controller do. Raises AlreadyExists.

    An API server by its own default taints every new node until its kubelet reports.
    """
    created = await port.create(NODES, node)
    taints = (node.get("spec") or {}).get("taints")
    if created["spec"].get("taints") == taints:
        return created
    return await port.patch(NODES, created["metadata"]["name"], None, {"spec": {"taints": taints}})


async def create_nodes(port: ClusterPort, nodes: Iterable[Object]) -> None:
    """Create the nodes that do not exist; those that do stay as they are."""
    for node in nodes:
        with suppress(AlreadyExists):
            await register(port, node)


async def start(port: ClusterPort, nodes: Iterable[Object], clock: Clock = system_clock) -> Agents:
    """Create the given nodes and set all agents to work."""
    await create_nodes(port, nodes)
    agents = Agents(port, clock=clock)
    agents.begin()
    await agents.synced()
    return agents
