"""Pods with volume claims: placed where their volumes are or can be made, and never before they are bound."""

import secrets
from typing import Any

from t9ksched.devcluster.controllers.volumes import PROVISIONER
from t9ksched.kube.resources import CSINODES, NODES, PODS, PVCS, PVS, STORAGECLASSES
from t9ksched.model.volumes import SELECTED_NODE
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World

ZONE = "topology.kubernetes.io/zone"


async def storage_class(world: World, **more: Any) -> str:
    name = f"{world.run}-{secrets.token_hex(2)}"
    body = {"metadata": {"name": name}, "provisioner": PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
    await world.create_shared(STORAGECLASSES, body | more)
    return name


async def claim(world: World, name: str, kind: str, **spec: Any) -> None:
    body = {
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {
            "storageClassName": kind,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }
    await world.client.create(PVCS, body)


async def csi_volume(world: World, name: str) -> None:
    """A volume that nodes attach, by a driver of this test, with the claim that has it."""
    disk = f"{world.run}-{name}"
    body = {
        "metadata": {"name": disk},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": driver(world), "volumeHandle": disk},
        },
    }
    await world.create_shared(PVS, body)
    await claim(world, name, "", volumeName=disk)
    await world.until(PVCS, name, lambda item: (item.get("status") or {}).get("phase") == "Bound")


def driver(world: World) -> str:
    return f"{world.run}.example.com"


async def attaches(world: World, count: int) -> None:
    """The nodes can attach so many volumes each."""
    for name in world.nodes:
        one = {"name": driver(world), "nodeID": name, "topologyKeys": None, "allocatable": {"count": count}}
        await world.create_shared(CSINODES, {"metadata": {"name": name}, "spec": {"drivers": [one]}})


async def local_volume(world: World, name: str, kind: str, node: str, size: str = "1Gi") -> None:
    expression = {"key": "metadata.name", "operator": "In", "values": [node]}
    body = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": kind,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [expression]}]}},
        },
    }
    await world.create_shared(PVS, body)


def using(world: World, name: str, *claims: str, queue: str = "", group: str = "", gpus: int = 1) -> Any:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": item}} for i, item in enumerate(claims)]
    return world.pod(name, gpus, queue=queue, group=group, volumes=volumes)


async def waits(world: World, pod: str, *words: str) -> None:
    reason = await world.node_or_reason(pod)
    assert all(word in reason for word in words), reason


async def test_a_claim_gets_its_node_and_its_volume_before_the_pod_is_bound(
    world: World, start: Start, queue: str
) -> None:
    await world.play(2, 4)
    kind = await storage_class(world)
    await claim(world, "data", kind)
    async with start():
        await world.create(using(world, "a", "data", queue=queue))
        (pod,) = await world.running("a")
        bound = await world.client.get(PVCS, "data", world.namespace)
    assert bound["status"]["phase"] == "Bound"
    assert bound["metadata"]["annotations"][SELECTED_NODE] == pod["spec"]["nodeName"]


async def test_a_gang_of_claims_is_placed_whole(world: World, start: Start, queue: str) -> None:
    await world.play(2, 2)
    kind = await storage_class(world)
    await world.create(world.group("g", 4, queue))
    for index in range(4):
        await claim(world, f"c{index}", kind)
        await world.create(using(world, f"g-{index}", f"c{index}", group="g"))
    async with start():
        await world.running(*(f"g-{index}" for index in range(4)))


async def test_volumes_are_made_in_allowed_topologies_only(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    elsewhere = [{"matchLabelExpressions": [{"key": ZONE, "values": ["far"]}]}]
    kind = await storage_class(world, allowedTopologies=elsewhere)
    await claim(world, "data", kind)
    async with start():
        await world.create(using(world, "a", "data", queue=queue))
        await waits(world, "a", "1 cannot reach its volumes")
        node = await world.client.patch(NODES, world.nodes[0], None, {"metadata": {"labels": {ZONE: "far"}}})
        assert node["metadata"]["labels"][ZONE] == "far"
        await world.running("a")


async def test_local_volumes_draw_their_pods(world: World, start: Start, queue: str) -> None:
    await world.play(3, 4)
    kind = await storage_class(world, provisioner="kubernetes.io/no-provisioner")
    await claim(world, "data", kind)
    await claim(world, "large", kind, resources={"requests": {"storage": "9Gi"}})
    async with start():
        await world.create(using(world, "a", "data", queue=queue))
        await waits(world, "a", "'data'", "no free volume")
        await local_volume(world, f"{world.run}-disk", kind, world.nodes[1])
        (pod,) = await world.running("a")
        assert pod["spec"]["nodeName"] == world.nodes[1]
        await world.create(using(world, "b", "large", queue=queue))
        await waits(world, "b", "'large'", "no free volume")


async def test_a_missing_claim_is_named_and_its_coming_noticed(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    kind = await storage_class(world)
    async with start():
        await world.create(using(world, "a", "data", queue=queue))
        await waits(world, "a", "'data' does not exist")
        await claim(world, "data", kind)
        await world.running("a")


async def test_a_claim_whose_volume_is_gone_is_told_so_until_it_is_back(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    kind, disk = await storage_class(world, provisioner="kubernetes.io/no-provisioner"), f"{world.run}-disk"
    await local_volume(world, disk, kind, world.nodes[0])
    await claim(world, "data", kind, volumeName=disk)
    await world.until(PVCS, "data", lambda item: (item.get("status") or {}).get("phase") == "Bound")
    await world.client.delete(PVS, disk)  # it stays as long as a claim has it
    assert (await world.client.get(PVS, disk))["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    await world.client.patch(PVS, disk, None, {"metadata": {"finalizers": None}})
    await world.until(PVCS, "data", lambda item: item["status"]["phase"] == "Lost")
    async with start():
        await world.create(using(world, "a", "data", queue=queue))
        await waits(world, "a", "'data' has lost its volume", f"PersistentVolume {disk!r} does not exist")
        await local_volume(world, disk, kind, world.nodes[0])
        await world.running("a")


async def test_a_volume_that_never_comes_is_given_up_and_the_claim_freed(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 4)
    kind = await storage_class(world, provisioner="example.com/asleep")
    await world.create(world.group("g", 2, queue))
    await claim(world, "data", kind)
    await world.create(using(world, "g-0", "data", group="g"), world.pod("g-1", 1, group="g"))
    async with start(gang_bind_timeout=1):
        condition = await world.condition("g", "GroupScheduled", "False", "VolumeNotBound")
        assert "'data' was not bound" in condition["message"]
        await world.until(PVCS, "data", lambda item: SELECTED_NODE not in (item["metadata"].get("annotations") or {}))
        assert await world.bound() == {}, "none of a gang is bound before all its volumes are"


async def test_an_exclusive_claim_is_used_by_one_pod(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    kind = await storage_class(world)
    await claim(world, "data", kind, accessModes=["ReadWriteOncePod"])
    async with start():
        await world.create(using(world, "a", "data", queue=queue))
        await world.running("a")
        await world.create(using(world, "b", "data", queue=queue))
        await waits(world, "b", "ReadWriteOncePod", "in use by another pod")
        await world.client.delete(PODS, "a", world.namespace)
        await world.running("b")


async def test_a_gang_that_shares_an_exclusive_claim_can_never_start(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    kind = await storage_class(world)
    await claim(world, "data", kind, accessModes=["ReadWriteOncePod"])
    await claim(world, "own", kind, accessModes=["ReadWriteOncePod"])
    await world.create(world.group("g", 2, queue))
    await world.create(using(world, "g-0", "data", group="g"), using(world, "g-1", "data", group="g"))
    async with start():
        told = await world.condition("g", "GroupScheduled", "False", "NeverFits")
        assert "needs 2 members at once, and at most 1 can run at once" in told["message"]
        assert "ReadWriteOncePod, for one pod at a time: 'data'" in told["message"]
        await world.client.delete(PODS, "g-1", world.namespace)
        await world.create(using(world, "g-1b", "own", group="g"))
        await world.running("g-0", "g-1b")


async def test_attach_limits_of_a_node_are_kept(world: World, start: Start, queue: str) -> None:
    await world.play(2, 8)
    await attaches(world, 1)
    for index in range(3):
        await csi_volume(world, f"c{index}")
    async with start():
        for index in range(3):
            await world.create(using(world, f"p{index}", f"c{index}", queue=queue))
        told = [await world.node_or_reason(f"p{index}") for index in range(3)]
        assert sorted(text for text in told if text in world.nodes) == sorted(world.nodes)
        (refused,) = [text for text in told if text not in world.nodes]
        assert f"needs 1 volume of {driver(world)}" in refused


async def test_a_volume_that_pods_share_is_attached_once(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    await attaches(world, 2)
    for name in ("used", "fresh", "third"):
        await csi_volume(world, name)
    async with start():
        await world.create(using(world, "a", "used", queue=queue))
        await world.running("a")
        await world.create(world.group("g", 2, queue))
        await world.create(using(world, "g-0", "fresh", group="g"), using(world, "g-1", "fresh", group="g"))
        await world.create(using(world, "b", "used", queue=queue))
        await world.running("g-0", "g-1", "b")
        await world.create(using(world, "c", "third", queue=queue))
        await waits(world, "c", f"needs 1 volume of {driver(world)}", "best has 0")
        await world.client.delete(PODS, "a", world.namespace)
        await world.until(PODS, "b", lambda item: item["status"]["phase"] == "Running")
        await waits(world, "c", "best has 0")
        await world.client.delete(PODS, "b", world.namespace)
        await world.running("c")
