"""An installation is taken off a cluster: jobs are told, what runs goes on, what waits runs, nothing is left."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.cli.manifests.chart import installed_names
from t9ksched.kube.port import Object
from t9ksched.kube.resources import NAMESPACES, PODS
from t9ksched.kube.setup.crds import ensure, read
from t9ksched.kube.setup.removal import steps
from t9ksched.kube.setup.removing import carry_out, cluster_uid, look
from t9ksched.kube.setup.save_file import SaveFile
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model.api_resource import Resource
from t9ksched.packaged import folder
from tests.acceptance.conftest import EXAMPLES, Cluster, Up, queue, run, until
from tests.kinds import NOTEBOOKS

Json = dict[str, Any]
AMOUNTS = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
POD = {
    "schedulerName": "t9k-scheduler",
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "i", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}],
}
LABELS = {"scheduler.tensorstack.dev/queue": "a100", "app": "x"}
THEIRS: list[tuple[str, str, Json]] = [
    ("/api/v1/namespaces/t9k-system/secrets", "t9ksched-mine", {}),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "t9ksched-teamtools", {"rules": []}),
]
"""Objects of other people with names like ours: path, name and content."""
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
CRONJOBS = "/apis/batch/v1/namespaces/default/cronjobs"


def waiting(maker: Json) -> Iterator[tuple[str, Json]]:
    """A pod, a Job and a Deployment that wait because the quota is used up, a pod that another object's operator
    made, and a Deployment and a Job that have no pods yet.
    """
    yield "/api/v1/namespaces/default/pods", {"metadata": {"name": "single", "labels": LABELS}, "spec": POD}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "t", "uid": maker["metadata"]["uid"], "controller": True}
    foreign = {"name": "foreign", "labels": LABELS, "ownerReferences": [owner]}
    yield "/api/v1/namespaces/default/pods", {"metadata": foreign, "spec": POD}
    job = {"metadata": {"name": "batch"}, "spec": {"template": TEMPLATE}}
    yield "/apis/batch/v1/namespaces/default/jobs", job
    deployment = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    deployment["template"] = TEMPLATE | {"spec": POD | {"restartPolicy": "Always"}}
    yield "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": deployment}
    zero = deployment | {"replicas": 0, "selector": {"matchLabels": {"app": "zero"}}}
    zero["template"] = deployment["template"] | {"metadata": {"labels": {"app": "zero"}}}
    yield "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "zero"}, "spec": zero}
    yield (
        "/apis/batch/v1/namespaces/default/jobs",
        {"metadata": {"name": "susp"}, "spec": job["spec"] | {"suspend": True}},
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_nothing_is_lost_and_nothing_is_left(tmp_path: Path, cluster: Cluster) -> None:
    admin = cluster.kubeconfigs["admin"]
    up = Up(tmp_path / "data", "--kubeconfig", str(admin), admin=admin)
    uninstall = ("uninstall", "--kubeconfig", str(admin), "--save", str(tmp_path / "saved.yaml"), "--yes")
    try:
        assert up.rest("POST", "/apis/v1/admin/queues", queue("a100", 16, "NVIDIA-A100-PCIE-80GB"))[0] == 201
        up.must("submit", "-f", str(EXAMPLES / "pytorch.yaml"))
        up.must("wait", "pj/resnet", "--for", "running", "--timeout", "150s")
        maker = up.kube("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "t"}})[1]
        for path, body in waiting(maker):
            assert up.kube("POST", path, body)[0] == 201, path
        for one in yaml.safe_load_all((EXAMPLES.parent / "deploy" / "rbac.yaml").read_text()):
            if one["kind"].startswith("ClusterRole"):
                path = f"/apis/rbac.authorization.k8s.io/v1/{one['kind'].lower()}s"
                assert up.kube("POST", path, one)[0] in (201, 409)
        cron = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
        made = {"metadata": {"name": "nightly"}, "spec": cron}
        assert up.kube("POST", CRONJOBS, made)[0] == 201
        for one in THEIRS:
            assert up.kube("POST", one[0], {"metadata": {"name": one[1]}} | one[2])[0] == 201, one
        until(lambda: len(up.pods()) >= 8, "all pods")
        until(
            lambda: "batch" in up.must("jobs") and "QuotaExceeded" in up.must("explain", "pod/single"), "their reasons"
        )
        queues = "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/t9k-system/queues/a100"
        until(lambda: up.kube("GET", queues)[0] == 200, "the queue's object")
        refused = run(*uninstall, "--wait", "0")
        assert (refused.code, "is still at work: t9k-scheduler" in " ".join(refused.err.split())) == (1, True)
    finally:
        up.stop()

    def running() -> dict[str, tuple[str, str]]:
        pods = [pod for pod in up.pods() if pod["spec"].get("nodeName")]
        return {pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"]["nodeName"]) for pod in pods}

    before, there = running(), {pod["metadata"]["name"] for pod in up.pods()}
    assert len(before) == 4
    tried = run(*uninstall, "--kinds", "--dry-run", "-o", "json").json
    assert {pod["metadata"]["name"] for pod in up.pods()} == there
    steps = {(one["step"], one["kind"], one["name"]) for one in tried["steps"]}
    assert {
        ("hand back", "Pod", "single"),
        ("leave", "Pod", "foreign"),
        ("hand back", "Job", "batch"),
        ("change", "Deployment", "web"),
        ("change", "Deployment", "zero"),
        ("hand back", "Job", "susp"),
        ("change", "CronJob", "nightly"),
        ("tell", "Event", "PyTorchTrainingJob/resnet"),
        ("tell", "Event", "Deployment/web"),
        ("release", "PyTorchTrainingJob", "resnet"),
        ("release", "Queue", "a100"),
        ("delete", "CustomResourceDefinition", "queues.scheduler.tensorstack.dev"),
        ("delete", "ClusterRole", "t9k-scheduler"),
        ("delete", "Lease", "t9k-scheduler"),
    } <= steps

    done = run(*uninstall, "--kinds")
    said = " ".join(done.err.split())
    assert (done.code, "t9ksched is uninstalled" in done.out) == (1, True), done.err
    assert "until you change it: 1" in said
    assert "Pod default foreign: ConfigMap/t makes it" in said
    assert [one["kind"] for one in yaml.safe_load_all((tmp_path / "saved.yaml").read_text())] == ["Pod", "Job", "Job"]
    for kind in ("apps/v1/namespaces/default/deployments/zero", "batch/v1/namespaces/default/jobs/susp"):
        assert up.kube("GET", f"/apis/{kind}")[1]["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler", (
            kind
        )

    def placed(prefix: str) -> bool:
        return any(
            pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == "default-scheduler"
            for pod in up.pods()
            if pod["metadata"]["name"].startswith(prefix)
        )

    for prefix in ("single", "batch-", "web-"):
        until(lambda prefix=prefix: placed(prefix), f"{prefix} on a node")  # type: ignore[misc]
    after = running()
    assert {name: after.get(name) for name in before} == before, "what ran goes on where it was"
    kept = [pod for pod in up.pods() if pod["metadata"]["name"] in before]
    assert not any(pod["metadata"].get("ownerReferences") for pod in kept)
    assert not any(pod["metadata"].get("finalizers") for pod in kept)
    events = up.kube("GET", "/api/v1/namespaces/default/events")[1]["items"]
    told = {one["involvedObject"]["name"] for one in events if one["reason"] == "SchedulerRemoved"}
    assert told == {"resnet", "single", "t", "batch", "web"}
    definitions = up.kube("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")[1]["items"]
    assert not [one["metadata"]["name"] for one in definitions if "tensorstack.dev" in one["metadata"]["name"]]
    template = up.kube("GET", f"{CRONJOBS}/nightly")[1]["spec"]["jobTemplate"]["spec"]["template"]
    assert template["spec"]["schedulerName"] == "default-scheduler"
    roles = up.kube("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles")[1]["items"]
    named = installed_names()
    assert not [name for one in roles if ("ClusterRole", name := one["metadata"]["name"]) in named]
    for path, name, _ in THEIRS:
        assert up.kube("GET", f"{path}/{name}")[0] == 200, name
    again = run(*uninstall, "--dry-run", "-o", "json").json["steps"]
    assert [one["name"] for one in again if one["step"] != "keep"] == ["foreign"]
    assert {name for _, name, _ in THEIRS} <= {one["name"] for one in again if one["step"] == "keep"}


HOLD = "example.com/mine"


def single(name: str, *finalizers: str) -> Object:
    """A pod that waits, for no node has its label."""
    spec = POD | {"nodeSelector": {"is": "nowhere"}}
    return {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": spec}


async def pods_of(client: Client) -> dict[str, tuple[str, str]]:
    found = (await client.list(PODS, "default")).items
    return {pod["metadata"]["name"]: (pod["spec"]["schedulerName"], pod["metadata"]["uid"]) for pod in found}


async def free(client: Client, resource: Resource, name: str) -> None:
    await client.patch(resource, name, "default", {"metadata": {"finalizers": None}})


async def broken_off(client: Client, save: Path) -> None:
    """A run that is killed after it deleted the pod `w1`, before it made it again."""

    async def killed(resource: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False) -> Object:
        if obj["metadata"].get("name") == "w1":
            raise asyncio.CancelledError
        return await create(resource, obj, namespace, dry_run=dry_run)

    create, client.create = client.create, killed  # type: ignore[method-assign, assignment]
    those = steps(await look(client, (), ()), kinds=False, now=datetime.now(UTC))
    with pytest.raises(asyncio.CancelledError):
        await carry_out(client, those, SaveFile(save, await cluster_uid(client)), 5)
    client.create = create  # type: ignore[method-assign]


async def test_a_run_that_was_broken_off_is_continued_and_loses_nothing(tmp_path: Path, cluster: Cluster) -> None:
    admin, save = cluster.kubeconfigs["admin"], tmp_path / "saved.yaml"
    uninstall = ("uninstall", "--kubeconfig", str(admin), "--yes", "--wait", "1", "--save")
    async with connect(admin) as client:
        for name in ("w0", "w1", "w2", "w3"):
            await client.create(PODS, single(name), "default")
        await broken_off(client, save)
        await client.delete(PODS, "w0", "default", grace=0)  # it was made, and is nobody's business any more
        assert (await pods_of(client)).keys() == {"w2", "w3"}
        other = await asyncio.to_thread(run, *uninstall, str(tmp_path / "other.yaml"))
        assert (other.code, f"--save {save}" in " ".join(other.err.split())) == (1, True), other.err

        await client.patch(PODS, "w3", "default", {"metadata": {"finalizers": [HOLD]}})
        held = await asyncio.to_thread(run, *uninstall, str(save))
        assert (held.code, f"held by {HOLD}" in held.err) == (1, True), held.err
        made = await pods_of(client)
        assert {name: scheduler for name, (scheduler, _) in made.items()} == {
            "w1": "default-scheduler",
            "w2": "default-scheduler",
            "w3": "t9k-scheduler",
        }
        assert save.stat().st_mode & 0o777 == 0o600
        await free(client, PODS, "w3")
        assert (await asyncio.to_thread(run, *uninstall, str(save))).code == 0
        again = await pods_of(client)
        assert again.pop("w3")[0] == "default-scheduler"
        assert again.items() <= made.items(), "nothing is made twice"
        assert not (await client.get(NAMESPACES, "t9k-system"))["metadata"].get("annotations")
        ended = await asyncio.to_thread(run, *uninstall, str(save), "--dry-run")
        assert "Nothing is left to uninstall" in ended.out
        save.write_text("kind: Pod\n")
        foreign = await asyncio.to_thread(run, *uninstall, str(save))
        assert (foreign.code, "was not written by t9ksched uninstall" in foreign.err) == (2, True)


async def test_a_kind_that_something_holds_is_named(tmp_path: Path, cluster: Cluster) -> None:
    admin = cluster.kubeconfigs["admin"]
    uninstall = ("uninstall", "--kubeconfig", str(admin), "--yes", "--kinds", "--save", str(tmp_path / "saved.yaml"))
    async with connect(admin) as client:
        await ensure(client, read(folder("crds")))
        notebook: Json = {"apiVersion": NOTEBOOKS.api_version, "kind": NOTEBOOKS.kind}
        notebook |= {"metadata": {"name": "n", "finalizers": [HOLD]}, "spec": {"template": {"spec": POD}}}
        await client.create(NOTEBOOKS, notebook, "default")
        done = await asyncio.to_thread(run, *uninstall, "--wait", "1")
        said = " ".join(done.err.split())
        assert (done.code, "uninstalled" in done.out) == (1, False)
        assert f"release Notebook default n: still there, held by {HOLD}" in said
        assert "delete CustomResourceDefinition notebooks" in said
        await free(client, NOTEBOOKS, "n")
        assert (await asyncio.to_thread(run, *uninstall)).code == 0
