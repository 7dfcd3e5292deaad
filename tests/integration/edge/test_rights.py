"""The services as users who have exactly the rights of `deploy/rbac.yaml`: all of them are needed, and no other.

The cluster writes down every right that a service used, and every one that was refused. Scenarios that use them all run
together on one cluster; then what was used is compared with what was granted.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.cli.leading import CONTROLLER_LEASE, SCHEDULER_LEASE, leading
from t9ksched.controller.service import Controllers
from t9ksched.devcluster.agents import Agents
from t9ksched.devcluster.apiserver.auth import Attributes, Authorizer, User
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.resources import (
    ALL,
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODGROUPS,
    PODS,
    PVCS,
    QUEUES,
    SERVICES,
    STORAGECLASSES,
    of,
)
from t9ksched.kube.setup.rbac import API, CONTROLLER, ROLES, SCHEDULER, Right, manifest, rights
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model import names
from t9ksched.model.queue import parse_queue_spec
from t9ksched.model.volumes import SELECTED_NODE
from t9ksched.packaged import folder
from t9ksched.scheduler.keep.queue_sync import PROJECTED_ANNOTATION, fingerprint
from t9ksched.scheduler.options import SchedulerOptions
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.store import Store
from t9ksched.workloads.addons import ADDONS
from t9ksched.workloads.podgroups import GROUP_OBJECTS
from t9ksched.workloads.registry import CONTROLLED, KINDS, ROWS, STOPS
from t9ksched.workloads.tuning.trials import RESULTS_ANNOTATION
from tests.integration.accounts import documents, policies
from tests.integration.edge.test_volumes import claim, local_volume, storage_class, using
from tests.integration.scheduler.koordinator import serve
from tests.integration.world import GPU, RUN_LABEL, TIMEOUT, World
from tests.unit.api.world import Client as Rest
from tests.unit.api.world import ScriptedLeader, config_map, mounting
from tests.unit.api.world import documents as stream
from tests.unit.api.world import pod as plain_pod
from tests.unit.workloads.builders import (
    beam,
    colossal_v1,
    container,
    deepspeed,
    experiment,
    explorer,
    generic,
    ml_service,
    mpi_v1,
    notebook,
    pytorch,
    release,
    simple_ml,
    template,
    tensorboard,
    tensorflow,
    xgboost,
)

ANNOUNCED = {Right(row.resource.group, f"{row.resource.plural}/finalizers", "update") for row in CONTROLLED}
"""Asked for by the admission plugin OwnerReferencesPermissionEnforcement of a real server, never by a request."""
FOREIGN = {row.resource.group for row in ROWS if row.foreign is not None}
FOREIGN |= {kind.group for addon in ADDONS for kind in addon.between}
FOREIGN |= {one.resource.group for one in GROUP_OBJECTS if one.resource is not None} | {"scheduling.k8s.io"}
"""Of other projects: followed where they are installed, with rights of their own."""

Object = dict[str, Any]


def test_the_manifest_grants_what_the_list_says() -> None:
    roles = {item["metadata"]["name"]: item["rules"] for item in documents() if item["kind"] == "ClusterRole"}
    assert roles == {role: manifest(role) for role in (SCHEDULER, CONTROLLER, API)}
    local = {item["metadata"]["name"]: item["rules"] for item in documents() if item["kind"] == "Role"}
    bound = [item for item in documents() if item["kind"] == "RoleBinding"]
    for role in (SCHEDULER, CONTROLLER):
        mine = [item["roleRef"]["name"] for item in bound if role in {one["name"] for one in item["subjects"]}]
        assert [rule.to_dict() for rule in ROLES[role] if rule.namespace] == [
            rule for name in mine for rule in local[name]
        ]


def test_nothing_is_granted_wholesale() -> None:
    """No wildcard, nothing that reads or changes Secrets, nothing that gives rights, or runs in a pod or as another."""
    for role in ROLES:
        for right, _ in rights(role):
            assert "*" not in (right.group, right.resource, right.verb), right
            assert right.resource != "secrets" or right.verb == "create", right
            assert right.group != "rbac.authorization.k8s.io", right
            assert right.verb not in ("impersonate", "escalate", "bind", "deletecollection", "approve"), right
            assert right.resource not in ("pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token"), (
                right
            )
            if right.group == "apps" and "/scale" not in right.resource:
                made = role == CONTROLLER and right.resource == "deployments"
                assert right.verb in ("get", "list", "watch", *(("create", "update", "delete") if made else ())), right


@dataclass
class Book(Authorizer):
    """Decides as the cluster does, and writes it down."""

    inner: Authorizer
    used: dict[str, set[Right]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    """What policies said of requests that the roles allow."""

    def allows(self, user: User, wanted: Attributes) -> bool:
        allowed = self.inner.allows(user, wanted)
        role = user.name.rpartition(":")[2]
        if role in ROLES and wanted.resource and wanted.group not in FOREIGN:
            used = Right(wanted.group, wanted.full_resource, wanted.verb, wanted.namespace)
            granted = {right for right, _ in rights(role)}
            # A right in one namespace counts there only; one in all namespaces counts in any.
            self.used.setdefault(role, set()).add(used if used in granted else replace(used, namespace=""))
            if not allowed:
                self.refused.append(f"{role}: {wanted.verb} {wanted.full_resource}.{wanted.group}")
        return allowed


@dataclass
class Stage:
    """A cluster with its administrator's world, the services' clients, and the book of rights."""

    world: World
    book: Book
    scheduler: Client
    controller: Client
    store: Store
    cluster: DevCluster


async def _older(request: web.BaseRequest, answer: Callable[..., Any]) -> web.StreamResponse:
    """A server that knows no initial events of a watch, where lists are read: what needs more rights is tested."""
    if "sendInitialEvents" in request.query:
        text = (
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature is on"
        )
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}
        return web.json_response({**status, "message": text}, status=422)
    return await answer(request)


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    groups = ("system:serviceaccounts",)
    users = {role: User(f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{role}", groups) for role in ROLES}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
    node = {"name": "n", "labels": {RUN_LABEL: "t"}, "allocatable": allocatable}
    cluster = DevCluster(None, nodes_from({"nodes": [node]}), users=users)
    await cluster.start()
    book = Book(cluster.frontend._authorizer)
    cluster.frontend._authorizer = book
    cluster.frontend.middleware = _older
    check = cluster.frontend.api.policies.check

    def written_down(*asked: Any) -> None:
        try:
            check(*asked)
        except StatusError as error:
            book.denied.append(error.message)
            raise

    monkeypatch.setattr(cluster.frontend.api.policies, "check", written_down)
    cluster.write_kubeconfig(tmp_path / "admin")
    as_user(cluster, API, tmp_path)
    async with (
        connect(tmp_path / "admin") as admin,
        connect(as_user(cluster, SCHEDULER, tmp_path)) as scheduler,
        connect(as_user(cluster, CONTROLLER, tmp_path)) as controller,
        await Store.open(f"sqlite:///{tmp_path}/store.db") as store,
    ):
        for item in (*documents(), *policies()):
            await admin.create(of(item), item)
        world = World(admin, tmp_path / "admin", "t", cluster=cluster, folder=tmp_path)
        world.nodes, world.namespace = ["n"], "default"
        agents = Agents(cluster.port_api)
        task = asyncio.create_task(agents.run())
        await agents.synced()
        yield Stage(world, book, scheduler, controller, store, cluster)
        task.cancel()
        await asyncio.wait([task])
    await cluster.stop()


def as_user(cluster: DevCluster, role: str, folder: Path) -> Path:
    """A kubeconfig of a service account; its name is its token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
        "users": [{"name": "u", "user": {"token": role}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (folder / role).write_text(json.dumps(config))
    return folder / role


async def gangs(stage: Stage, queue: str) -> None:
    """A gang runs; one stuck half-way is taken back."""
    await stage.world.gang("whole", 2, 1, queue)
    await stage.world.running("whole-0", "whole-1")
    await stage.world.create(stage.world.group("half", 2, queue))
    await stage.world.create(stage.world.pod("half-0", 1, group="half"))
    await stage.world.bind("half-0", "n")
    await stage.world.create(stage.world.pod("half-1", 99, group="half"))
    await stage.world.event(names.EVENT_GANG_TAKEN_BACK, "half")
    await stage.world.gone(PODS, "half-0")


async def volumes(stage: Stage, queue: str) -> None:
    """One volume is made, one found, one never comes."""
    world = stage.world
    made = await storage_class(world)
    found = await storage_class(world, provisioner="kubernetes.io/no-provisioner")
    never = await storage_class(world, provisioner="example.com/asleep")
    await local_volume(world, "disk", found, "n")
    for kind, name in ((made, "made"), (found, "found"), (never, "never")):
        await claim(world, name, kind)
        await world.create(using(world, f"with-{name}", name, queue=queue, gpus=0))
    await world.running("with-made", "with-found")
    await world.until(PVCS, "never", _told)
    await world.until(PVCS, "never", lambda item: not _told(item))
    await world.client.delete(PVCS, "never", "default")
    await world.client.delete(STORAGECLASSES, never)


def _told(item: Object) -> bool:
    return SELECTED_NODE in (item["metadata"].get("annotations") or {})


async def queues(stage: Stage, queue: str) -> None:
    """A queue is made, edited from outside twice, and deleted."""
    world, where = stage.world, names.SYSTEM_NAMESPACE
    await stage.store.queues.create("brief", {}, {"priority": 1}, {"everyone": True})
    await world.until(QUEUES, "brief", lambda item: item.get("status"), where)
    for priority in (2, 3):
        await world.client.patch(QUEUES, "brief", where, {"spec": {"priority": priority}})
        await world.until(QUEUES, "brief", lambda item, wanted=priority: _projected(item, wanted), where)
    await stage.store.queues.delete("brief")

    async def gone() -> bool:
        return "brief" not in await queue_names(world)

    await until(gone)


async def queue_names(world: World) -> list[str]:
    return [item["metadata"]["name"] for item in (await world.client.list(QUEUES, names.SYSTEM_NAMESPACE)).items]


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Look until it is so."""
    async with asyncio.timeout(TIMEOUT):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def _projected(item: Object, priority: int) -> bool:
    spec = parse_queue_spec(item["spec"])
    return spec.priority == priority and item["metadata"]["annotations"][PROJECTED_ANNOTATION] == fingerprint(spec)


async def cordons(stage: Stage, queue: str) -> None:
    """A card is cordoned, and takes work again."""
    world = stage.world

    def says(wanted: str | None) -> Callable[[Object], bool]:
        key = names.CORDONED_CARDS_ANNOTATION
        return lambda item: (item["metadata"].get("annotations") or {}).get(key) == wanted

    await stage.store.card_cordons.cordon("n", 7, "fan", "root")
    await world.until(NODES, "n", says("7"))
    await stage.store.card_cordons.uncordon("n", 7, "root")
    await world.until(NODES, "n", says(None))


async def durations(stage: Stage, queue: str) -> None:
    """One of every kind that can be told to stop runs too long, and a plain pod."""
    world, client = stage.world, stage.world.client
    spec = {"maxDuration": "1s", "maxDurationFrom": "Creation"}
    await stage.store.queues.create("short", {}, spec, {"everyone": True})
    await world.create(world.pod("overdue", 0, queue="short"))
    installed = [(group, kind) for group, kind in STOPS if group not in FOREIGN]
    for group, kind in installed:
        res = next(row for row in ALL if (row.group, row.kind) == (group, kind))
        name = f"long-{kind.lower()}"
        pod = world.pod(name, 0, queue="short")
        labels = pod["metadata"]["labels"] | {"app": name}
        template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
        body: Object = {"apiVersion": res.api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}}
        if group == "apps":
            body["spec"] = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
            body["spec"] |= {"serviceName": name} if kind == "StatefulSet" else {}
        elif group == "batch":
            template["spec"]["restartPolicy"] = "Never"
            body["spec"] = {"template": template}
        else:
            role = "master" if kind == "XGBoostTrainingJob" else "worker"
            entry = {"type": role, "replicas": 1, "template": {"spec": pod["spec"]}}
            body["spec"] = {"replicaSpecs": [entry]} if kind.endswith(("TrainingJob", "GenericJob")) else {}
            if kind == "DeepSpeedJob":
                body["spec"] = {"worker": {"template": {"spec": pod["spec"]}}, "config": {"run": {"exec": ["x"]}}}
            if kind == "ColossalAIJob":
                body["spec"] = {"worker": {"template": {"spec": pod["spec"]}, "command": ["x"]}}
            body["spec"] |= {"template": {"spec": pod["spec"]}} if kind == "Notebook" else {}
            body["spec"] |= {"storageName": "x"} if kind == "Explorer" else {}
            body["spec"] |= {"custom": {"spec": pod["spec"]}} if kind == "SimpleMLService" else {}
            body["spec"] |= ml_service(release("one", 0))["spec"] if kind == "MLService" else {}
        made = await client.create(res, body)
        if group not in ("apps", "batch"):
            owner = {"apiVersion": res.api_version, "kind": kind, "name": name, "uid": made["metadata"]["uid"]}
            pod["metadata"]["ownerReferences"] = [owner | {"controller": True}]
            await client.create(PODS, pod)
    told = [f"long-{kind.lower()}" for _, kind in installed] + ["overdue"]
    await asyncio.gather(*(world.event(names.EVENT_MAX_DURATION_EXCEEDED, name) for name in told))


async def jobs(stage: Stage, queue: str) -> None:
    """Jobs of each kind run, end, and meet names that are taken."""
    world = stage.world
    quick = {"devcluster.tensorstack.dev/run-seconds": "0.2"}
    made = []
    others = (generic(), tensorflow(worker=1), xgboost(master=1), deepspeed(gpu=0), colossal_v1(1), beam(1), explorer())
    for job in (mpi_v1(replicas=1), pytorch(replicas=1), notebook(), *others):
        job["metadata"] = {"name": job["metadata"]["name"], "namespace": "default"}
        job["spec"]["scheduler"]["t9kScheduler"]["queue"] = queue
        made.append(job)
    made[1]["spec"]["replicaSpecs"][0]["template"]["metadata"] = {"annotations": quick}
    await world.create(*made)
    await world.until(of(made[0]), "walk", lambda job: (job.get("status") or {}).get("phase") == "Running")
    await world.until(of(made[1]), "net", lambda job: (job.get("status") or {}).get("phase") == "Succeeded")
    for job in made[2:]:
        await world.until(of(job), job["metadata"]["name"], lambda job: job.get("status"))
    owned = {
        kind: [
            item["metadata"]["name"]
            for item in (await world.client.list(kind, "default")).items
            if any(owner["name"] == "walk" for owner in item["metadata"].get("ownerReferences") or ())
        ]
        for kind in (PODGROUPS, PODS, SERVICES, CONFIGMAPS)
    }
    for kind, found in owned.items():
        name = f"w-{kind.kind.lower()}"
        taken: Object = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": min(found).replace("walk", name), "namespace": "default"},
        }
        if kind is PODS:
            taken |= {"spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "nowhere"}}
        elif kind is PODGROUPS:
            taken |= {"spec": {"minMember": 1}}
        elif kind is SERVICES:
            taken |= {"spec": {"ports": [{"port": 1}]}}
        await world.client.create(kind, taken)
        await world.create({**made[0], "metadata": {"name": name, "namespace": "default"}})
        await world.event("NameTaken", name)

    async def counted_up() -> bool:  # an event that is told a second time
        events = (await world.client.list(EVENTS, "default")).items
        return any(item["reason"] == "NameTaken" and item.get("count", 1) > 1 for item in events)

    await until(counted_up)


async def trials(stage: Stage, queue: str) -> None:
    """Trials of each kind of job are made, paused, resumed and stopped; a name that one needs is taken."""
    world = stage.world
    domain = "devcluster.tensorstack.dev"
    note = {f"{domain}/run-seconds": "$(parameter.s)", f"{domain}/termination-message": "9"}
    for framework, kind, role in (
        ("pytorch", "PyTorchTrainingJob", "worker"),
        ("tensorflow", "TensorFlowTrainingJob", "worker"),
        ("xgboost", "XGBoostTrainingJob", "master"),
    ):
        name, jobs = f"search-{framework}", KINDS[kind].resource
        main = {"type": role, "template": template(container(), metadata={"annotations": note})}
        config = {"type": framework, "tasks": [main], "scheduler": {"t9kScheduler": {"queue": queue}}}
        space = {"s": {"_type": "choice", "_value": ["0.2", "9999"]}}
        asked = experiment("GridSearch", space, trainingConfig=config, assessor={"builtinAssessorName": "Medianstop"})
        meta = {"name": name, "namespace": "default"}
        taken = {"apiVersion": jobs.api_version, "kind": kind, "metadata": {**meta, "name": f"{name}-1"}}
        await world.create({**taken, "spec": {"replicaSpecs": [main]}}, {**asked, "metadata": meta})
        await world.event("NameTaken", name)
        await world.client.delete(jobs, f"{name}-1", "default")
        await world.until(jobs, f"{name}-1", lambda job: job["metadata"].get("ownerReferences"))
        for wanted in (True, False):
            edit = {"spec": {"runMode": {"pause": {"enabled": wanted}}}}
            await world.client.patch(of(asked), name, "default", edit)
            await world.until(
                jobs, f"{name}-1", lambda job, edit=edit: job["spec"].get("runMode") == edit["spec"]["runMode"]
            )
        for number, value in ((0, 9), (1, 1)):
            sent = {"metadata": {"annotations": {RESULTS_ANNOTATION: f'{{"steps": [[1, {value}]]}}'}}}
            await world.client.patch(jobs, f"{name}-{number}", "default", sent)
        await world.gone(jobs, f"{name}-1")


async def edits(stage: Stage, queue: str) -> None:
    """What a job owns follows its spec, and goes when it is needed no more."""
    world, ssh = stage.world, {"enabled": True, "serviceType": "NodePort", "authorized_keys": ["a", "b"]}
    job, book = pytorch(replicas=1), notebook(ssh=ssh)
    for each in (job, book):
        each["metadata"] = {"name": f"edited-{each['kind'].lower()}", "namespace": "default"}
        each["spec"]["scheduler"]["t9kScheduler"]["queue"] = queue
    await world.create(job, book)
    group, door = "edited-pytorchtrainingjob", "managed-notebook-edited-notebook-ssh"
    await world.create({**tensorboard(), "metadata": {"name": f"{group}-tensorboard", "namespace": "default"}})
    boards, logs = of(tensorboard()), {"image": "i", "trainingLogFilesets": ["t9k://pvc/runs"]}
    await world.client.patch(of(job), group, "default", {"spec": {"tensorboardSpec": logs}})
    await world.event("NameTaken", group)
    await world.client.delete(boards, f"{group}-tensorboard", "default")
    await world.until(boards, f"{group}-tensorboard", lambda each: each["spec"].get("image") == "i")
    await world.client.patch(of(job), group, "default", {"spec": {"tensorboardSpec": {"image": "j"}}})
    await world.until(boards, f"{group}-tensorboard", lambda each: each["spec"].get("image") == "j")
    await world.client.patch(of(job), group, "default", {"spec": {"tensorboardSpec": None}})
    await world.gone(boards, f"{group}-tensorboard")
    await world.until(PODGROUPS, group, lambda each: each["spec"]["minMember"] == 1)
    types = [{**job["spec"]["replicaSpecs"][0], "replicas": 2}]
    await world.client.patch(
        of(job), group, "default", {"spec": {"replicaSpecs": types, "runMode": {"pause": {"enabled": True}}}}
    )
    await world.until(PODGROUPS, group, lambda each: each["spec"]["minMember"] == 2)
    await world.until(SERVICES, door, lambda each: each)
    changed = {"serviceType": "ClusterIP", "authorized_keys": ["a"]}
    await world.client.patch(of(book), "edited-notebook", "default", {"spec": {"ssh": changed}})
    await world.until(SERVICES, door, lambda each: each["spec"]["type"] == "ClusterIP")
    await world.until(CONFIGMAPS, door, lambda each: each["data"]["authorized_keys"] == "a\n")
    await world.client.patch(of(book), "edited-notebook", "default", {"spec": {"ssh": {"enabled": False}}})
    await world.gone(SERVICES, door)
    await world.gone(CONFIGMAPS, door)


async def moves(stage: Stage, queue: str) -> None:
    """A service moves to another queue, and one meets a Deployment of its name."""
    world, name = stage.world, "served"
    await stage.store.queues.create("elsewhere", {}, world.queue_spec, {"everyone": True})
    labels = {"app": "other"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec: Object = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    head = {"name": "taken", "namespace": "default"}
    await world.client.create(
        DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": head, "spec": spec}
    )
    one, two = simple_ml(storage=None, replicas=1), simple_ml(storage=None, replicas=1)
    for each, called in ((one, name), (two, "taken")):
        each["metadata"] = {"name": called, "namespace": "default"}
        each["spec"]["scheduler"]["t9kScheduler"]["queue"] = queue
    several = ml_service(release("one", 0), release("two", 0))
    several["metadata"] = {"name": "several", "namespace": "default"}
    await world.create(one, two, several)
    await world.event("NameTaken", "taken")
    await world.until(DEPLOYMENTS, "several-predict-two", bool)
    await world.client.patch(of(several), "several", "default", {"spec": {"releases": [release("one", 0)]}})
    await world.gone(DEPLOYMENTS, "several-predict-two")
    await world.until(of(one), name, lambda each: (each.get("status") or {}).get("phase") == "Running")
    block = {"scheduler": {"t9kScheduler": {"queue": "elsewhere"}}}
    await world.client.patch(of(one), name, "default", {"spec": block})
    await world.until(PODGROUPS, name, lambda each: each["spec"]["queue"] == "elsewhere")
    await world.until(of(one), name, lambda each: each["status"]["phase"] == "Running")


async def test_every_right_is_used_and_none_is_missing(stage: Stage) -> None:
    queue = "t-q"
    await serve(stage.world)
    await stage.store.queues.create(queue, {}, stage.world.queue_spec, {"everyone": True})
    async with (
        leading(stage.scheduler, SCHEDULER_LEASE) as scheduler,
        leading(stage.controller, CONTROLLER_LEASE) as controller,
        running(
            SchedulerService(
                scheduler, stage.store, internal_secret="s" * 20, options=SchedulerOptions(gang_bind_timeout=2)
            )
        ),
        asyncio.TaskGroup() as tasks,
    ):
        service = Controllers(controller)
        task = tasks.create_task(service.run())
        await service.ready.wait()
        await asyncio.gather(
            *(play(stage, queue) for play in (gangs, volumes, queues, cordons, durations, jobs, trials, edits, moves))
        )
        task.cancel()
    assert stage.book.refused == stage.book.denied == []
    for role in (SCHEDULER, CONTROLLER):
        granted = {right for right, _ in rights(role)} - ANNOUNCED
        unused = sorted(map(str, granted - stage.book.used[role]))
        assert not unused, f"granted to {role} and never needed: {unused}"
        assert sorted(map(str, stage.book.used[role] - granted)) == [], "used and not granted"


@pytest.mark.parametrize("role", [SCHEDULER, CONTROLLER, API])
async def test_without_a_right_its_request_is_refused(stage: Stage, role: str) -> None:
    """No right is granted twice: taking one away refuses exactly what it was for."""
    admin, book = stage.world.client, stage.book.inner
    user = User(f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{role}", ())
    granted = [right for right, _ in rights(role)]
    assert len(set(granted)) == len(granted)
    whole = await admin.get(CLUSTERROLES, role)
    for right in granted:
        resource, _, subresource = right.resource.partition("/")
        wanted = Attributes(right.verb, right.group, resource, subresource, right.namespace or "default")
        assert book.allows(user, wanted), right
        if right.namespace:
            continue
        rules = [
            {**rule, "verbs": [verb for verb in rule["verbs"] if verb != right.verb]}
            if right.group in rule["apiGroups"] and right.resource in rule["resources"]
            else rule
            for rule in whole["rules"]
        ]
        await admin.patch(CLUSTERROLES, role, None, {"rules": rules})
        assert not book.allows(user, wanted), right
        await admin.patch(CLUSTERROLES, role, None, {"rules": whole["rules"]})


async def read_a_log(stage: Stage, admin: Rest) -> None:
    """Submit a pod to the default scheduler, and read what it writes, as a user whom the cluster lets read it."""
    client, api_group = stage.world.client, "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]
    await client.create(CLUSTERROLES, {"metadata": {"name": "reader"}, "rules": rules})
    role = {"apiGroup": api_group, "kind": "ClusterRole", "name": "reader"}
    subjects = [{"apiGroup": api_group, "kind": "User", "name": "admin"}]
    binding = {"metadata": {"name": "reader"}, "roleRef": role, "subjects": subjects}
    await client.create(CLUSTERROLEBINDINGS, binding)
    assert (await admin("POST", "/apis/v1/workloads", plain_pod("talks", ours=False, gpus=0))).status == 201
    async with asyncio.timeout(TIMEOUT):
        while True:
            found = await admin("GET", "/apis/v1/workloads/default/pod/talks/log")
            if found.status != 409:
                break
            await asyncio.sleep(0.05)
    assert (found.status, b"simulated" in found.body) == (200, True)


async def test_every_right_of_the_rest_service_is_used(stage: Stage, tmp_path: Path) -> None:
    texts = [
        path.read_text()
        for path in sorted(folder("examples").glob("*.yaml"))
        if path.stem not in ("queue", "reservation")
    ]
    for name in ("a100", "a40"):
        await stage.store.queues.create(name, {}, {}, {"everyone": True})
    async with connect(tmp_path / API) as kube, aiohttp.ClientSession() as session:
        app = create_app(Services(stage.store, kube, ScriptedLeader()))  # type: ignore[arg-type]
        async with Server(app, listen("127.0.0.1", 0)) as server:
            admin = Rest(server.url, session, await stage.store.tokens.ensure_admin() or "")
            ann = Rest(server.url, session, await stage.store.tokens.create("ann", "user", owner="ann"))
            for text in texts:
                made = await admin("POST", "/apis/v1/workloads", text)
                assert made.status == 201, made.body
                for job in made.body["items"]:
                    address = f"/apis/v1/workloads/{job['namespace']}/{job['kind']}/{job['name']}"
                    assert (await admin("GET", address)).status == 200, address
                    if job["kind"] == "SimpleMLService":
                        assert (await admin("POST", f"{address}/actions/scale", {"replicas": 0})).status == 200, address
                    elif job["kind"] not in ("Pod", "PodGroup", "WorkflowRun"):
                        assert (await admin("POST", f"{address}/actions/pause")).status == 200, address
                        assert (await admin("POST", f"{address}/actions/resume")).status == 200, address
                    assert (await admin("DELETE", address)).status == 200, address
            for name, status in (("one", 201), ("two", 409)):
                pod = mounting(plain_pod(name, ours=False, gpus=0), "files")
                made = await admin("POST", "/apis/v1/workloads", stream(config_map("files"), pod))
                assert made.status == status, made.body
            await read_a_log(stage, admin)
            assert (await ann("POST", "/apis/v1/workloads", texts[0])).status == 403
            assert (await ann("GET", "/apis/v1/queues")).status == 200
            assert (await admin("GET", "/readyz")).body is not None
    granted = {right for right, _ in rights(API)}
    used = stage.book.used[API]
    assert stage.book.refused == stage.book.denied == []
    assert sorted(map(str, granted - used)) == [], "granted and never needed"
    assert sorted(map(str, used - granted)) == [], "used and not granted"
