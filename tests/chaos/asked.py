"""What users ask for, kind by kind: how it is submitted, who looks after its pods, and what there must be of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from t9ksched.devcluster.controllers.volumes import PROVISIONER
from t9ksched.kube.resources import JOBS, PODGROUPS, PODS, PVCS, PVS, STORAGECLASSES
from tests.chaos.invariant_checker import GPU, GROUP, KEPT, MADE, OURS, QUEUE
from tests.kinds import MPIJOBS, NOTEBOOKS, PYTORCHTRAININGJOBS

if TYPE_CHECKING:
    from tests.chaos.world import World

Object = dict[str, Any]
RUN = "devcluster.tensorstack.dev/run-seconds"
LIMIT = "scheduler.tensorstack.dev/time-limit"
STOP = "devcluster.tensorstack.dev/stop-seconds"


def template(cards: int, seconds: float | None, container: str = "main") -> Object:
    """A pod's metadata and spec; it runs so many seconds, for ever with None."""
    amounts = {"cpu": "1", "memory": "1Gi"} | ({GPU: str(cards)} if cards else {})
    return {
        "metadata": {"annotations": {} if seconds is None else {RUN: str(seconds)}},
        "spec": {
            "containers": [{"name": container, "image": "x", "resources": {"limits": amounts, "requests": amounts}}]
        },
    }


def pod(name: str, cards: int, seconds: float | None, scheduler: str = OURS, **labels: str) -> Object:
    """A pod by hand."""
    made = template(cards, seconds)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": made["metadata"] | {"name": name, "namespace": "default", "labels": labels},
        "spec": made["spec"] | {"schedulerName": scheduler, "restartPolicy": "Never"},
    }


@dataclass
class Asked:
    """A pod by hand, which its owner makes anew when it is gone; other kinds derive from it."""

    name: str
    queue: str
    size: int
    cards: int
    seconds: float | None
    minimum: int = 1
    storage: str = ""
    """Storage class of a volume for each pod; empty for none."""
    stops: float = 0.0
    """Seconds that a deleted pod takes to end; 0 for a moment."""
    kind: str = field(default="Pod", init=False)
    """As the database names it."""
    app: str = field(default="", kw_only=True)
    """A label of its pods that rules of others may speak of."""
    shuns: str = field(default="", kw_only=True)
    """No pod of that app may be on the node of one of its pods."""
    priority: int = field(default=0, kw_only=True)
    """Of its PodGroup, for kinds that have one."""
    limit: str = field(default="", kw_only=True)
    """Its time limit; empty for none."""

    def __str__(self) -> str:
        what = f"{self.kind} {self.name}: {self.size} × {self.cards} cards, queue {self.queue}"
        what += f", minimum {self.minimum}" if self.minimum not in (self.size, 1) else ""
        what += f", priority {self.priority}" if self.priority else ""
        what += f", volumes {self.storage}" if self.storage else ""
        what += f", limit {self.limit}" if self.limit else ""
        what += f", stops in {self.stops:g} s" if self.stops else ""
        return what + (f", {self.seconds:g} s" if self.seconds else "")

    async def submit(self, world: "World") -> None:
        """The user submits it."""
        for index in range(self.size):
            await self._make(world, index)

    async def tend(self, world: "World") -> None:
        """Its controller makes pods that are gone and drops those that failed."""
        for index in range(self.size):
            found = world.checker.pods.get(f"default/{self.pod_name(index)}")
            if found is None:
                await self._make(world, index)
            elif found["status"].get("phase") == "Failed":
                await world.delete(PODS, self.pod_name(index))

    async def forget(self, world: "World") -> None:
        """The user deletes it with everything that belongs to it."""
        for index in range(self.size):
            await world.delete(PODS, self.pod_name(index))
            if self.storage:
                await world.delete(PVCS, self.pod_name(index))

    def pod_name(self, index: int) -> str:
        return self.name

    def pods(self, world: "World") -> list[Object]:
        """Its pods that there are."""
        names = {self.pod_name(index) for index in range(self.size)}
        return [seen for seen in world.checker.pods.values() if seen["metadata"]["name"] in names]

    def _labels(self) -> dict[str, str]:
        return {QUEUE: self.queue}

    def _limited(self, made: Object) -> Object:
        """The object with its time limit."""
        if self.limit:
            made["metadata"].setdefault("annotations", {})[LIMIT] = self.limit
        return made

    async def _make(self, world: "World", index: int) -> None:
        made = pod(self.pod_name(index), self.cards, self.seconds, **self._labels())
        if self.app:
            made["metadata"]["labels"]["app"] = self.app
        if self.shuns:
            term = {"labelSelector": {"matchLabels": {"app": self.shuns}}, "topologyKey": "kubernetes.io/hostname"}
            made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if self.stops:
            made["metadata"]["annotations"][STOP] = str(self.stops)
        if self.storage:
            claim = {
                "metadata": {"name": self.pod_name(index), "namespace": "default"},
                "spec": {
                    "storageClassName": self.storage,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
            await world.create(PVCS, claim)
            made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": self.pod_name(index)}}]
        await world.create(PODS, made)


@dataclass
class Gang(Asked):
    """A group by hand, with a controller that makes its members again when they are gone."""

    def __post_init__(self) -> None:
        self.kind = "PodGroup"

    async def submit(self, world: "World") -> None:
        body = {
            "apiVersion": "scheduler.tensorstack.dev/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": self.name},
            "spec": {"minMember": self.minimum, "queue": self.queue, "priority": self.priority},
        }
        await world.create(PODGROUPS, self._limited(body))
        await super().submit(world)

    async def tend(self, world: "World") -> None:
        if f"default/{self.name}" in world.checker.groups:
            await super().tend(world)

    async def forget(self, world: "World") -> None:
        await world.delete(PODGROUPS, self.name)
        await super().forget(world)

    def pod_name(self, index: int) -> str:
        return f"{self.name}-{index}"

    def pods(self, world: "World") -> list[Object]:
        found = world.checker.pods.values()
        return [seen for seen in found if (seen["metadata"].get("labels") or {}).get(GROUP) == self.name]

    def _labels(self) -> dict[str, str]:
        return {GROUP: self.name}


@dataclass
class Owned(Asked):
    """An object that a controller turns into pods."""

    async def submit(self, world: "World") -> None:
        await world.create(self._resource(), self._limited(self._body()))

    async def tend(self, world: "World") -> None:
        return

    async def forget(self, world: "World") -> None:
        await world.delete(self._resource(), self.name)

    def pods(self, world: "World") -> list[Object]:
        return [seen for seen in world.checker.pods.values() if self._owns(seen)]

    def _owns(self, seen: Object) -> bool:
        owners = seen["metadata"].get("ownerReferences") or ()
        return any(owner["kind"] == self.kind and owner["name"] == self.name for owner in owners)

    def _resource(self) -> Any:
        raise NotImplementedError

    def _body(self) -> Object:
        raise NotImplementedError

    def _object(self, api_version: str, spec: Object) -> Object:
        return {"apiVersion": api_version, "kind": self.kind, "metadata": {"name": self.name}, "spec": spec}

    def _scheduler(self) -> Object:
        return {"scheduler": {"t9kScheduler": {"queue": self.queue}}}


@dataclass
class PyTorch(Owned):
    """A training job."""

    def __post_init__(self) -> None:
        self.kind, self.minimum = "PyTorchTrainingJob", self.size

    def _resource(self) -> Any:
        return PYTORCHTRAININGJOBS

    def _body(self) -> Object:
        worker = {
            "type": "worker",
            "replicas": self.size,
            "restartPolicy": "Always" if self.seconds is None else "OnFailure",
            "template": template(self.cards, self.seconds, "pytorch"),
        }
        spec = self._scheduler() | {"runPolicy": {"backoffLimit": 1000}, "replicaSpecs": [worker]}
        return self._object("batch.tensorstack.dev/v1beta1", spec)


@dataclass
class Mpi(Owned):
    """A launcher without cards and workers."""

    def __post_init__(self) -> None:
        self.kind, self.minimum = "MPIJob", self.size + 1

    def _resource(self) -> Any:
        return MPIJOBS

    def _body(self) -> Object:
        launcher = {"type": "launcher", "template": template(0, self.seconds, "launcher")}
        worker = {"type": "worker", "replicas": self.size, "template": template(self.cards, None, "worker")}
        spec = self._scheduler() | {
            "ssh": {"sshdPath": "/usr/sbin/sshd"},
            "runPolicy": {"backoffLimit": 1000, "cleanUpWorkers": True},
            "mpiConfig": {"script": ["x"]},
            "replicaSpecs": [launcher, worker],
        }
        return self._object("batch.tensorstack.dev/v1beta1", spec)


@dataclass
class Notebook(Owned):
    """One pod that runs until it is deleted."""

    def __post_init__(self) -> None:
        self.kind, self.size, self.minimum = "Notebook", 1, 1

    def _resource(self) -> Any:
        return NOTEBOOKS

    def _body(self) -> Object:
        spec = self._scheduler() | {"type": "jupyter", "template": template(self.cards, None, "notebook")}
        return self._object("tensorstack.dev/v1beta1", spec)


@dataclass
class Batch(Owned):
    """A batch/v1 Job: each pod is a group of its own."""

    def __post_init__(self) -> None:
        self.kind, self.minimum = "Job", 1

    def _resource(self) -> Any:
        return JOBS

    def _body(self) -> Object:
        made = template(self.cards, self.seconds or 60.0)
        made["metadata"]["labels"] = {QUEUE: self.queue}
        made["spec"] |= {"schedulerName": OURS, "restartPolicy": "Never"}
        count = {"parallelism": self.size, "completions": self.size, "backoffLimit": 1000}
        return self._object("batch/v1", count | {"template": made})


async def storage(world: "World", nodes: list[str]) -> None:
    """The storage classes, and two volumes on each node."""
    for name, provisioner in ((MADE, PROVISIONER), (KEPT, "kubernetes.io/no-provisioner")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await world.port.create(STORAGECLASSES, body)
    for node in nodes:
        for number in range(2):
            expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            volume = {
                "metadata": {"name": f"{node}-{number}"},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": KEPT,
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": "/data"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
                },
            }
            await world.port.create(PVS, volume)
