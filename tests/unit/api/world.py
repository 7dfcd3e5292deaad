"""What stands behind and before the service in tests: a cluster in memory, a scripted leader, an HTTP client."""

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import yaml

from t9ksched.admission.oddities import Vocabulary
from t9ksched.api.leader import LeaderAway
from t9ksched.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable
from t9ksched.kube.port import ObjectList
from t9ksched.kube.resources import NAMESPACES
from t9ksched.model.api_resource import Resource
from t9ksched.store import Store
from t9ksched.store.history import Visibility

Json = dict[str, Any]


class MemoryCluster:
    """As much of a cluster as the service touches, with faults on order.

    `faults(verb, resource, name)` may return an error to raise before the call, or `(error, True)` to raise after it.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str | None, str], Json] = {}
        self.namespaces = {"default", "ml"}
        self.namespace_meta: dict[str, Json] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.faults: Callable[[str, Resource, str], ApiError | tuple[ApiError, bool] | None] = lambda *_: None
        self.answers: dict[str, Json] = {}
        self.reviews: list[Json] = []
        """What was asked of the answers, without those of namespaces."""
        self.logs: dict[str, list[bytes] | ApiError] = {}
        """Of pods, by name: the parts that come, or the refusal."""
        self.commands: list[tuple[str, list[tuple[str, str]]]] = []
        self.running = Command()
        self.log_queries: list[tuple[str, dict[str, str]]] = []

    async def log(self, namespace: str, name: str, query: Mapping[str, str]) -> "Parts":
        self.log_queries.append((f"{namespace}/{name}", dict(query)))
        found = self.logs[name]
        if isinstance(found, ApiError):
            raise found
        return Parts(found, endless=query.get("follow") == "true")

    async def exec(self, namespace: str, name: str, query: Sequence[tuple[str, str]]) -> "Command":
        self.commands.append((f"{namespace}/{name}", list(query)))
        return self.running

    def names(self) -> set[str]:
        return {f"{obj['kind']}/{obj['metadata']['name']}" for obj in self.objects.values()}

    def _fault(self, verb: str, res: Resource, name: str) -> ApiError | None:
        self.calls.append((verb, res.kind, name))
        fault = self.faults(verb, res, name)
        if isinstance(fault, ApiError):
            raise fault
        return fault[0] if fault else None

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Json:
        late = self._fault("get", res, name)
        if late:
            raise late
        if res == NAMESPACES and name in self.namespaces:
            return self._namespace(name)
        return copy.deepcopy(self._find(res, name, namespace))

    async def list(
        self, res: Resource, namespace: str | None = None, *, label_selector: str = "", **_: Any
    ) -> ObjectList:
        if res == NAMESPACES:
            self._fault("list", res, "")
            return ObjectList([self._namespace(name) for name in sorted(self.namespaces)], "1")
        key, _, value = label_selector.partition("=")
        found = [
            obj
            for (plural, space, _), obj in self.objects.items()
            if plural == str(res) and space == namespace and (obj["metadata"].get("labels") or {}).get(key) == value
        ]
        return ObjectList(copy.deepcopy(found), "1")

    async def create(self, res: Resource, obj: Json, namespace: str | None = None, *, dry_run: bool = False) -> Json:
        if res.kind in self.answers:
            self.reviews.append(obj)
            return obj | self.answers[res.kind]
        name = obj["metadata"].get("name", "")
        late = self._fault("dry-run" if dry_run else "create", res, name)
        if not res.namespaced:
            raise NotFound(404, "NotFound", "no such kind")
        if namespace not in self.namespaces:
            details = {"kind": "namespaces", "name": namespace}
            raise NotFound(404, "NotFound", f'namespaces "{namespace}" not found', details)
        key = (str(res), namespace, name)
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{name} already exists")
        made = copy.deepcopy(obj)
        made["metadata"] |= {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if not dry_run:
            self.objects[key] = made
        if late:
            raise late
        return copy.deepcopy(made)

    async def patch(self, res: Resource, name: str, namespace: str | None, body: Json, **_: Any) -> Json:
        late = self._fault("patch", res, name)
        obj = self._find(res, name, namespace)
        if body.get("metadata", {}).get("uid") not in (None, obj["metadata"]["uid"]):
            raise Conflict(409, "Conflict", "another object of that name")
        merge(obj, body)
        if late:
            raise late
        return copy.deepcopy(obj)

    async def delete(
        self, res: Resource, name: str, namespace: str | None = None, *, uid: str | None = None, **_: Any
    ) -> Json:
        late = self._fault("delete", res, name)
        found = self._find(res, name, namespace)
        if uid not in (None, found["metadata"]["uid"]):
            raise Conflict(409, "Conflict", "another object of that name")
        del self.objects[str(res), namespace, name]
        self._collect(found["metadata"]["uid"])
        if late:
            raise late
        return found

    def _collect(self, owner: str) -> None:
        """Delete what an object that is gone owned."""
        for key, obj in list(self.objects.items()):
            if any(one.get("uid") == owner for one in obj["metadata"].get("ownerReferences") or ()):
                del self.objects[key]

    def _namespace(self, name: str) -> Json:
        return {"metadata": {"name": name} | self.namespace_meta.get(name, {})}

    def _find(self, res: Resource, name: str, namespace: str | None) -> Json:
        try:
            return self.objects[str(res), namespace, name]
        except KeyError:
            raise NotFound(404, "NotFound", f'{res} "{name}" not found', {"name": name, "kind": res.plural}) from None


class Command:
    """A command that writes what the test says, and ends, or goes on until it is closed."""

    def __init__(self, output: Sequence[tuple[int, bytes]] = (), exit_code: int = 0, *, endless: bool = False) -> None:
        self.output, self.exit_code, self.endless = output, exit_code, endless
        self.typed = b""
        self.closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        await asyncio.sleep(0.02)  # it reads first
        for part in self.output:
            yield part
        if self.endless:
            await self.closed.wait()
            raise Unreachable("closed", sent=True)

    async def write(self, data: bytes) -> None:
        self.typed += data

    async def resize(self, width: int, height: int) -> None:
        self.typed += f"<{width}x{height}>".encode()

    async def end_input(self) -> None:
        self.typed += b"<end>"

    async def aclose(self) -> None:
        self.closed.set()


def merge(obj: Json, patch: Json) -> None:
    """Change an object by a JSON merge patch."""
    for key, value in patch.items():
        if isinstance(value, dict):
            merge(obj.setdefault(key, {}), value)
        elif value is None:
            obj.pop(key, None)
        else:
            obj[key] = value


class Parts:
    """A log that comes in parts, and goes on without a word if it is endless, until it is closed."""

    def __init__(self, parts: list[bytes], *, endless: bool) -> None:
        self.parts = parts
        self.endless = endless
        self.closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
        if self.endless:
            await self.closed.wait()

    async def aclose(self) -> None:
        self.closed.set()


class ScriptedLeader:
    """A leader that says what the test gave it, or is away."""

    def __init__(self) -> None:
        self.away = False
        self.job_list: list[Json] = []
        self.node_list: list[Json] = []
        self.queue_status: dict[str, Json] = {}
        self.explanations: dict[str, Json] = {}
        self.vocabulary: Vocabulary | None = None
        self.denied: list[str] = []
        self.delayed_plans: list[Json] = []
        self.reserved_room: list[Json] = []
        self.timeline_hours: list[int] = []
        self.timeline_now: Json = {"at": "2031-05-01T10:00:00Z", "nodes": [], "items": []}
        self.judgement: Json = {}
        self.judged: list[Json] = []
        self.questions: list[Json] = []
        self.simulation: Json = {
            "jobs": [],
            "others": [],
            "at": "2026-01-01T00:00:00Z",
            "view": "0",
            "until": "2026-01-08T00:00:00Z",
            "complete": True,
        }

    def _here(self) -> None:
        if self.away:
            raise LeaderAway("NotLeader", "no scheduler leads now", datetime.now(UTC))

    async def jobs(self, seen_by: Visibility | None = None) -> list[Json]:
        self._here()
        return self.job_list

    async def job(self, namespace: str, kind: str, name: str) -> Json | None:
        self._here()
        wanted = (namespace, kind, name)
        return next((job for job in self.job_list if (job["namespace"], job["kind"], job["name"]) == wanted), None)

    async def delayed(self, job: Json, wish: Json) -> list[Json]:
        self._here()
        return self.delayed_plans

    async def reserved(self, namespace: str, kind: str, name: str, seconds: int) -> list[Json]:
        self._here()
        return self.reserved_room

    async def explanation(self, namespace: str, kind: str, name: str) -> Json | None:
        self._here()
        return self.explanations.get(f"{namespace}/{kind}/{name}")

    async def nodes(self) -> list[Json]:
        self._here()
        return self.node_list

    async def node(self, name: str) -> Json | None:
        self._here()
        return next((node for node in self.node_list if node["name"] == name), None)

    async def timeline(self, hours: int) -> Json:
        self._here()
        self.timeline_hours.append(hours)
        return self.timeline_now

    async def queues(self) -> dict[str, Json]:
        self._here()
        return self.queue_status

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        self._here()
        return b"# HELP nothing\n", f"text/plain; asked={accept}"

    async def snapshot(self) -> bytes:
        self._here()
        return b'{"snapshot":1,"expected":{},"present":{}}'

    async def lacking(self) -> list[str]:
        self._here()
        return self.denied

    async def judge_reservation(self, reservation: Json) -> Json:
        self._here()
        self.judged.append(reservation)
        nothing: Json = {"nodes": ["n1"], "seen": 1 << 40, "faults": [], "conflicts": [], "jobs": [], "plans": []}
        return nothing | self.judgement

    async def simulate(self, question: Json) -> Json:
        self._here()
        self.questions.append(question)
        return self.simulation

    async def names(self) -> Vocabulary | None:
        self._here()
        return self.vocabulary


@dataclass
class Answer:
    status: int
    headers: Any
    body: Any

    @property
    def paths(self) -> list[str]:
        return [error["path"] for error in self.body["errors"]]

    @property
    def job(self) -> Json:
        """The one job of a submission."""
        (job,) = self.body["items"]
        return dict(job)


@dataclass
class Client:
    """Requests with a token; a dict goes as JSON, a text as YAML."""

    url: str
    session: aiohttp.ClientSession
    token: str | None

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if self.token is not None and "Authorization" not in sent:
            sent["Authorization"] = f"Bearer {self.token}"
        is_document = body is not None and not isinstance(body, dict | list)
        kind: Json = {"data": body} if is_document else {"json": body} if body is not None else {}
        if is_document:
            sent.setdefault("Content-Type", "application/yaml")
        async with self.session.request(method, self.url + path, headers=sent, **kind) as response:
            # A stream has no end.
            raw = b"" if response.content_type == "text/event-stream" else await response.read()
            is_json = response.content_type.endswith("json")
            return Answer(
                response.status, response.headers, await response.json(content_type=None) if raw and is_json else raw
            )


@dataclass
class World:
    """Everything a test may look at behind the service."""

    store: Store
    kube: MemoryCluster
    leader: ScriptedLeader
    admin: Client
    user: Client
    nobody: Client
    app: Any
    tokens: list[str] = field(default_factory=list)


def pytorch(name: str = "resnet", *, replicas: int = 2, gpus: int = 4, queue: str | None = "a100", **meta: Any) -> Json:
    """A PyTorchTrainingJob."""
    resources = {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": gpus}}
    container = {"name": "pytorch", "image": "example/torch:1", "resources": resources}
    spec: Json = {
        "replicaSpecs": [{"type": "node", "replicas": replicas, "template": {"spec": {"containers": [container]}}}]
    }
    if queue:
        spec["scheduler"] = {"t9kScheduler": {"queue": queue}}
    kind = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "PyTorchTrainingJob"}
    return kind | {"metadata": {"name": name} | meta, "spec": spec}


def pod(name: str, *, group: str | None = None, queue: str | None = None, ours: bool = True, gpus: int = 1) -> Json:
    """A plain Pod."""
    labels = {"scheduler.tensorstack.dev/group-name": group, "scheduler.tensorstack.dev/queue": queue}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    spec = {"containers": [{"name": "main", "image": "example/app:1", "resources": resources}]}
    if ours:
        spec["schedulerName"] = "t9k-scheduler"
    meta = {"name": name, "labels": {key: value for key, value in labels.items() if value}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def pod_group(name: str, *, queue: str = "a100", minimum: int = 2) -> Json:
    """A PodGroup made by hand."""
    kind = {"apiVersion": "scheduler.tensorstack.dev/v1beta1", "kind": "PodGroup"}
    return kind | {"metadata": {"name": name}, "spec": {"queue": queue, "minMember": minimum}}


def config_map(name: str, **data: str) -> Json:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"script": "true"}}


def mounting(job: Json, name: str) -> Json:
    """The job, or pod, whose pods mount a ConfigMap."""
    spec = job["spec"]
    pod_spec = spec["replicaSpecs"][0]["template"]["spec"] if "replicaSpecs" in spec else spec
    pod_spec["volumes"] = [{"name": "files", "configMap": {"name": name}}]
    return job


def documents(*objects: Json) -> str:
    """Several objects as one YAML stream."""
    return str(yaml.dump_all(objects, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))
