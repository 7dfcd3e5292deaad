"""Every file of `examples/` is submitted to one cluster, and what it asks for runs.

Nodes of every mode of cards are there, and the claims that examples name. Each file has a namespace of its own, in
which all pods must run that its documents ask for.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.client import Client, Refused, Submitted
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.kube.resources import CRDS, KOORDINATOR_DEVICES, NAMESPACES, PVCS, PVS
from t9ksched.workloads.read import read
from t9ksched.workloads.registry import CONTROLLED
from tests.acceptance.conftest import EXAMPLES, Json, Up, until
from tests.integration.scheduler import koordinator
from tests.integration.scheduler.test_hami import REGISTER, register
from tests.integration.scheduler.test_mode_examples import (
    GPUSHARE,
    KOORDINATOR,
    MGPU,
    MIG_MIXED,
    MIG_SINGLE,
    MPS,
    SLICED,
)

PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-80GB"}
MODES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "mig-mixed": MIG_MIXED,
    "mig-single": MIG_SINGLE,
    "sliced": SLICED,
    "mps": MPS,
    "mgpu": MGPU,
    "gpushare": GPUSHARE,
    "koordinator": KOORDINATOR,
}
FILES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml"))
COMMANDS = {"queue.yaml": "queues", "reservation.yaml": "reservations"}
"""What is no object of Kubernetes, and the command that takes it."""
NOT_HERE = {
    "WorkflowRun": "the platform's own controller of workflows makes the pods of its steps",
    "VirtualServer": "KubeVirt runs it, whose definitions this cluster does not have",
}
"""Kinds of which no pod comes here, and why."""
Sent = dict[str, Submitted | Refused]


def documents(name: str) -> list[Json]:
    return [one for one in yaml.safe_load_all((EXAMPLES / name).read_text()) if one is not None]


WORKLOADS = [name for name in FILES if name not in COMMANDS]


def namespace(name: str) -> str:
    return name.removesuffix(".yaml").replace("/", "-")


def claims(value: Any) -> Iterator[str]:
    """The names of all claims that an object speaks of, in whichever of the kinds' words."""
    if isinstance(value, list):
        for each in value:
            yield from claims(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from claims(each)
            if key == "claimName" or (key == "storageName" and value.get("storageType") == "pvc"):
                yield each
            elif key == "pvc":
                yield from (one["name"] for one in (each if isinstance(each, list) else [each]) if "name" in one)


async def prepare(folder: Path) -> None:
    """What clusters have before t9ksched comes: namespaces with the claims that examples name, and Koordinator's words
    for the cards of its node.
    """
    dev = DevCluster(folder, [])
    await dev.start()
    port = dev.port_api
    try:
        await port.create(CRDS, koordinator.DEFINITION)
        device = {"apiVersion": KOORDINATOR_DEVICES.api_version, "kind": KOORDINATOR_DEVICES.kind}
        device |= {"metadata": {"name": "koordinator"}, "spec": {"devices": [koordinator.card(0), koordinator.card(1)]}}
        await port.create(KOORDINATOR_DEVICES, device)
        for name in WORKLOADS:
            place = namespace(name)
            await port.create(NAMESPACES, {"metadata": {"name": place}})
            for claim in sorted(set(claims(documents(name)))):
                wants = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
                amount = {"storage": "1Gi"}
                volume = {**wants, "capacity": amount, "nfs": {"server": "files.example", "path": "/"}}
                await port.create(PVS, {"metadata": {"name": f"{place}-{claim}"}, "spec": volume})
                spec = {**wants, "resources": {"requests": amount}}
                await port.create(PVCS, {"metadata": {"name": claim}, "spec": spec}, place)
    finally:
        await dev.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service on nodes that have room for all examples at once, with the queue that they name."""
    folder = tmp_path_factory.mktemp("examples")
    data = folder / "data"
    data.mkdir()
    asyncio.run(prepare(data / "cluster"))
    sizes = {"cpu": "256", "memory": "2Ti"}
    nodes = [{"name": "a100", "count": 10, "labels": PRODUCT, "allocatable": {**sizes, "nvidia.com/gpu": "8"}}]
    for mode, (labels, amounts) in MODES.items():
        nodes.append({"name": mode, "labels": labels, "allocatable": {**sizes, **amounts}})
    hami = {"annotations": {REGISTER: register(2)}, "allocatable": {**sizes, "nvidia.com/gpu": "20"}}
    nodes.append({"name": "hami", **hami})
    (folder / "nodes.yaml").write_text(yaml.safe_dump({"nodes": nodes}))
    service = Up(data, "--nodes", str(folder / "nodes.yaml"))
    try:
        assert service.rest("POST", "/apis/v1/admin/queues", {"name": "a100", "labels": {}, "spec": {}})[0] == 201
        yield service
        assert service.process.poll() is None, service.log
        assert service.audit().ok, str(service.audit())
    finally:
        service.stop()


@pytest.fixture(scope="module")
def sent(cluster: Up) -> Sent:
    """What became of each file: all are submitted before any is waited for."""
    client = Client(cluster.server, cluster.token)
    answers: Sent = {}
    for name in WORKLOADS:
        try:
            answers[name] = client.submit((EXAMPLES / name).read_text(), namespace=namespace(name))
        except Refused as refused:
            answers[name] = refused
    return answers


@pytest.mark.parametrize("name", WORKLOADS)
def test_all_that_it_asks_for_runs(cluster: Up, sent: Sent, name: str) -> None:
    answer = sent[name]
    assert isinstance(answer, Submitted), answer
    assert not answer.warnings
    there = [one for one in documents(name) if one["kind"] not in NOT_HERE]
    wanted = sum(read(one).replicas for one in there)
    assert wanted or not there

    def phases() -> list[str]:
        return [pod["status"].get("phase", "") for pod in cluster.pods(namespace(name))]

    def runs() -> bool:
        return phases() == ["Running"] * wanted

    until(runs, f"{wanted} running pods of {name}")
    client = Client(cluster.server, cluster.token)
    for job in answer.items:
        if job.kind not in NOT_HERE:
            until(lambda job=job: client.job(job).phase == "Running", f"the phase Running of {job}")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_object_is_taken_by_its_command(cluster: Up, name: str) -> None:
    (document,) = documents(name)
    cluster.must(COMMANDS[name], "create", "-f", str(EXAMPLES / name))
    assert document["name"] in cluster.must(COMMANDS[name], "list")


def test_each_kind_that_is_run_here_has_an_example() -> None:
    kinds = {document["kind"] for name in WORKLOADS for document in documents(name)}
    assert kinds >= {row.name for row in CONTROLLED}
