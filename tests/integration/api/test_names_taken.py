"""Another owner's object has the name of one that a job needs: the job says which, and goes on when it is gone."""

import asyncio
from typing import Any

import pytest

from t9ksched.kube.resources import CONFIGMAPS, PODGROUPS, PODS, SERVICES, of
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import SUBMITTED_BY_ANNOTATION
from t9ksched.store.store import Store
from tests.integration.api.test_cancelling import JOBS, rest, shown
from tests.integration.api.test_cancelling import of as objects_of
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_endings import controllers
from tests.integration.world import World
from tests.unit.api.world import Client

__all__ = ["controllers", "rest"]
pytestmark = pytest.mark.cluster
Object = dict[str, Any]


def squatting(kind: Resource, name: str, world: World) -> Object:
    meta = {"name": name, "namespace": world.namespace, "annotations": {SUBMITTED_BY_ANNOTATION: "bob"}}
    if kind is PODS:
        return {**world.pod(name, 0), "metadata": meta}
    spec: Object = {"spec": {"minMember": 9}} if kind is PODGROUPS else {"spec": {"ports": [{"port": 1}]}}
    spec = {"data": {}} if kind is CONFIGMAPS else spec
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **spec}


@pytest.mark.parametrize("job", ["PyTorchTrainingJob", "Notebook"])
async def test_a_job_made_by_kubectl_says_why_its_pods_are_refused(
    world: World, start: Start, queue: str, store: Store, controllers: None, rest: Client, job: str
) -> None:
    """The schema of the kind leaves the pod's spec open: the API server refuses only the pods."""
    await world.play(1, 8)
    address = f"{JOBS}/{world.namespace}/{job}/net"
    async with start():
        made = objects_of(job, world, queue)[0]
        place = made["spec"]["template"] if job == "Notebook" else made["spec"]["replicaSpecs"][0]["template"]
        place["spec"]["terminationGracePeriodSeconds"] = "soon"
        await world.create(made)
        told = await shown(rest, address, lambda one: (one["reason"] or {}).get("code") == "InvalidPod")
        assert "refuses what it needs: Pod " in told["reason"]["message"]
        assert "terminationGracePeriodSeconds" in told["reason"]["message"]
        explained = await shown(rest, f"{address}/explanation", lambda one: one["reasons"])
        assert (explained["verdict"], explained["reasons"][0]["code"]) == ("Waiting", "InvalidPod")
        assert explained["reasons"][0]["message"] == told["reason"]["message"]
        if job == "PyTorchTrainingJob":
            return  # its template may not change
        there = await world.client.get(of(made), "net", world.namespace)
        there["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
        await world.client.replace(of(made), there)
        await shown(rest, address, lambda one: one["phase"] == "Running" and one["reason"] is None)
        status = (await world.client.get(of(made), "net", world.namespace))["status"]
        assert "FailedCreate" not in [each["reason"] for each in status["conditions"]]


@pytest.mark.parametrize(
    ("job", "kind", "name"),
    [
        ("PyTorchTrainingJob", PODGROUPS, "net"),
        ("PyTorchTrainingJob", PODS, "net-worker-1"),
        ("Notebook", SERVICES, "managed-notebook-net"),
        ("Notebook", CONFIGMAPS, "managed-notebook-net-ssh"),
    ],
)
async def test_the_job_says_which_name_is_taken_and_goes_on_when_it_is_free(
    world: World,
    start: Start,
    queue: str,
    store: Store,
    controllers: None,
    rest: Client,
    job: str,
    kind: Resource,
    name: str,
) -> None:
    await world.play(1, 8)
    address = f"{JOBS}/{world.namespace}/{job}/net"
    async with start():
        await world.create(squatting(kind, name, world))
        made = objects_of(job, world, queue)[0]
        if job == "Notebook":
            made["spec"]["ssh"] = {"enabled": True, "serviceType": "ClusterIP", "authorized_keys": ["ssh-ed25519 AAAA"]}
        await world.create(made)
        told = await shown(rest, address, lambda one: (one["reason"] or {}).get("code") == "NameTaken")
        assert f"{kind.kind}/{name} exists already" in told["reason"]["message"]
        assert "ask 'bob'" in told["reason"]["message"]
        explained = await shown(rest, f"{address}/explanation", lambda one: one["reasons"])
        assert (explained["verdict"], explained["reasons"][0]["code"]) == ("Waiting", "NameTaken")
        assert explained["reasons"][0]["message"] == told["reason"]["message"]
        status = (await world.client.get(of(made), "net", world.namespace))["status"]
        assert ("Initialized", "False", "NameTaken") in [
            (each["type"], each["status"], each["reason"]) for each in status["conditions"]
        ]
        await world.client.delete(kind, name, world.namespace)
        await shown(rest, address, lambda one: one["members"]["running"] and not one["reason"])

    async def forgotten() -> bool:
        status = (await world.client.get(of(made), "net", world.namespace))["status"]
        return "NameTaken" not in [each["reason"] for each in status["conditions"]]

    async with asyncio.timeout(60):
        while not await forgotten():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
