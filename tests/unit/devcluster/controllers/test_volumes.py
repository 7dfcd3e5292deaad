"""The PersistentVolume controller, both binding modes."""

import asyncio
from typing import Any

import pytest

from t9ksched.devcluster.controllers.volumes import PROVISIONER, SELECTED_NODE
from t9ksched.kube.resources import PODS, PVCS, PVS, STORAGECLASSES
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import RUN, World, pod, world

Object = dict[str, Any]


def claim(name: str = "c", size: str = "5Gi", storage_class: str | None = "", **spec: Any) -> Object:
    body: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        body["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": body,
    }


def volume(name: str, size: str = "10Gi", node: str = "", policy: str = "Retain", **spec: Any) -> Object:
    body: Object = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": policy,
        "hostPath": {"path": "/data"},
        **spec,
    }
    if node:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def storage_class(mode: str, provisioner: str = PROVISIONER, **more: Any) -> Object:
    return {
        "apiVersion": STORAGECLASSES.api_version,
        "kind": "StorageClass",
        "metadata": {"name": "local", **more},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


async def bound_to(w: World, name: str = "c") -> str:
    found = await w.get(name, PVCS)
    if (found.get("status") or {}).get("phase") != "Bound":
        return ""
    return str(found["spec"]["volumeName"])


async def phase_of(w: World, name: str) -> str:
    return str((await w.get(name, PVS))["status"]["phase"])


@pytest.mark.parametrize(
    ("volumes", "wanted", "chosen"),
    [
        ([volume("a", "20Gi"), volume("b", "10Gi")], claim(), "b"),
        ([volume("a", "1Gi")], claim(), ""),
        ([volume("a", accessModes=["ReadOnlyMany"])], claim(), ""),
        ([volume("a", storageClassName="fast")], claim(), ""),
        ([volume("a", storageClassName="fast")], claim(storage_class="fast"), "a"),
        ([volume("a"), volume("b")], claim(volumeName="b"), "b"),
        ([volume("a", claimRef={"namespace": "default", "name": "other"})], claim(), ""),
        ([volume("a"), volume("b", "90Gi", claimRef={"namespace": "default", "name": "c"})], claim(), "b"),
        ([volume("a")], claim(selector={"matchLabels": {"x": "y"}}), ""),
    ],
)
def test_which_volume_a_claim_gets(volumes: list[Object], wanted: Object, chosen: str) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            for obj in volumes:
                await w.create(PVS, obj)
            await w.create(PVCS, wanted)
            await asyncio.sleep(2)
            assert await bound_to(w) == chosen
            if chosen:
                assert await phase_of(w, chosen) == "Bound"

    scenario()


@on_virtual_time
async def test_a_claim_waits_for_its_volume() -> None:
    async with world() as w:
        await w.create(PVCS, claim())
        await asyncio.sleep(2)
        assert await bound_to(w) == ""
        await w.create(PVS, volume("late"))
        await asyncio.sleep(2)
        assert await bound_to(w) == "late"


@on_virtual_time
async def test_two_claims_never_share_a_volume() -> None:
    async with world() as w:
        for name in ("c", "d"):
            await w.create(PVCS, claim(name))
        await w.create(PVS, volume("only"))
        await asyncio.sleep(2)
        assert sorted([await bound_to(w, "c"), await bound_to(w, "d")]) == ["", "only"]


@on_virtual_time
async def test_a_claim_whose_volume_is_deleted_is_lost_until_it_is_back() -> None:
    async with world() as w:
        await w.create(PVS, volume("a"))
        await w.create(PVCS, claim())
        await asyncio.sleep(2)
        await w.port.delete(PVS, "a")
        await asyncio.sleep(2)
        assert await bound_to(w) == "a", "it stays as long as the claim has it"
        await w.port.patch(PVS, "a", None, {"metadata": {"finalizers": None}})
        await asyncio.sleep(2)
        assert (await w.get("c", PVCS))["status"]["phase"] == "Lost"
        await w.create(PVS, volume("a", claimRef={"namespace": "default", "name": "other"}))
        await asyncio.sleep(2)
        assert (await w.get("c", PVCS))["status"]["phase"] == "Lost", "it is kept for another one"
        await w.port.delete(PVS, "a")
        await asyncio.sleep(2)
        await w.create(PVS, volume("a"))
        await asyncio.sleep(2)
        assert await bound_to(w) == "a"


@pytest.mark.parametrize(("policy", "left"), [("Retain", True), ("Delete", False)])
def test_what_becomes_of_the_volume_afterwards(policy: str, left: bool) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            await w.create(PVS, volume("a", policy=policy))
            await w.create(PVCS, claim())
            await asyncio.sleep(2)
            await w.port.delete(PVCS, "c", "default")
            await asyncio.sleep(2)
            assert await w.gone("a", PVS) is not left
            if left:
                assert await phase_of(w, "a") == "Released"

    scenario()


@on_virtual_time
async def test_a_volume_that_is_deleted_goes_with_its_claim_or_at_once_without_one() -> None:
    async with world() as w:
        await w.create(PVS, volume("a"))
        await w.create(PVCS, claim())
        await asyncio.sleep(2)
        await w.create(PVS, volume("free"))
        await asyncio.sleep(2)
        for name in ("a", "free"):
            await w.port.delete(PVS, name)
        await asyncio.sleep(2)
        assert await w.gone("free", PVS)
        assert await phase_of(w, "a") == "Bound"
        await w.port.delete(PVCS, "c", "default")
        await asyncio.sleep(2)
        assert await w.gone("a", PVS)


USING = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]


async def goes_with_its_pod(w: World) -> None:
    """The claim is deleted, and goes once the pod does."""
    await w.port.delete(PVCS, "c", "default")
    await asyncio.sleep(2)
    assert not await w.gone("c", PVCS)
    await w.port.delete(PODS, "p", "default")
    await asyncio.sleep(2)
    assert await w.gone("c", PVCS)


@on_virtual_time
async def test_a_claim_in_use_is_not_removed() -> None:
    async with world() as w:
        await w.create(PVS, volume("a"))
        await w.create(PVCS, claim())
        await w.run(pod("p", scheduler="default-scheduler", volumes=USING))
        await asyncio.sleep(2)
        assert (await w.get("p"))["spec"]["nodeName"]
        await goes_with_its_pod(w)


@on_virtual_time
async def test_a_pod_without_a_node_keeps_no_claim() -> None:
    """A kubelet starts no pod whose claim is being deleted, so that nothing is lost with the claim."""
    async with world() as w:
        await w.create(PVS, volume("a"))
        await w.create(PVCS, claim())
        await w.run(pod("waits", volumes=USING))
        await asyncio.sleep(2)
        await w.port.delete(PVCS, "c", "default")
        await asyncio.sleep(2)
        assert await w.gone("c", PVCS)
        assert await w.phase("waits") == "Pending"


@on_virtual_time
async def test_a_pod_that_has_ended_keeps_its_claim_until_it_is_deleted() -> None:
    async with world() as w:
        await w.create(PVS, volume("a"))
        await w.create(PVCS, claim())
        await w.run(pod("p", volumes=USING, annotations={RUN: "1"}), "gpu-a")
        await asyncio.sleep(10)
        assert await w.phase("p") == "Succeeded"
        await goes_with_its_pod(w)


@on_virtual_time
async def test_immediate_provisioning_with_the_default_class() -> None:
    async with world() as w:
        default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        await w.create(STORAGECLASSES, storage_class("Immediate", **default))
        await w.create(PVCS, claim(storage_class=None))
        await asyncio.sleep(2)
        made = await w.get(await bound_to(w), PVS)
        assert made["spec"]["capacity"] == {"storage": "5Gi"}


@on_virtual_time
async def test_another_provisioners_claims_wait() -> None:
    async with world() as w:
        await w.create(STORAGECLASSES, storage_class("Immediate", "example.com/other"))
        await w.create(PVCS, claim(storage_class="local"))
        await asyncio.sleep(2)
        assert await bound_to(w) == ""


@on_virtual_time
async def test_a_claim_that_waits_for_its_consumer_is_bound_on_the_selected_node() -> None:
    async with world() as w:
        await w.create(STORAGECLASSES, storage_class("WaitForFirstConsumer"))
        await w.create(PVS, volume("elsewhere", node="gpu-a", storageClassName="local"))
        await w.create(PVCS, claim(storage_class="local"))
        await asyncio.sleep(2)
        assert await bound_to(w) == ""
        await w.port.patch(PVCS, "c", "default", {"metadata": {"annotations": {SELECTED_NODE: "gpu-b"}}})
        await asyncio.sleep(2)
        made = await w.get(await bound_to(w), PVS)
        assert made["metadata"]["name"] != "elsewhere"
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["gpu-b"]


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
def test_the_default_scheduler_follows_volumes(mode: str) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world() as w:
            await w.create(STORAGECLASSES, storage_class(mode))
            using = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
            await w.run(pod("a", scheduler="default-scheduler", volumes=using))
            assert await w.phase("a") == "Pending", "there is no claim yet"
            await w.create(PVCS, claim(storage_class="local"))
            await asyncio.sleep(2)
            assert await w.phase("a") == "Running"
            made = await w.get(await bound_to(w), PVS)
            (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert term["matchExpressions"][0]["values"] == [(await w.get("a"))["spec"]["nodeName"]]

    scenario()
