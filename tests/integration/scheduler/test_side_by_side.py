"""Another scheduler beside ours on the same nodes: its pods are counted and never touched, and ours are bound by us."""

from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import RUN_LABEL, World

OTHER = "volcano"
GATE = "kueue.x-k8s.io/admission"


async def test_each_places_its_own_pods_and_sees_those_of_the_other(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    theirs, waits = world.pod("theirs", 6), world.pod("theirs-waits", 1)
    for pod in (theirs, waits):
        pod["spec"]["schedulerName"] = OTHER
    async with start():
        await world.create(theirs, waits)
        await world.bind("theirs", world.nodes[0])
        await world.running("theirs")
        await world.gang("large", 2, 2, queue)
        told = (await world.condition("large", "GroupScheduled", "False", "InsufficientResources"))["message"]
        assert "nvidia.com/gpu" in told
        await world.gang("small", 2, 1, queue)
        await world.running("small-0", "small-1")
        assert set(await world.bound()) == {"theirs", "small-0", "small-1"}
        await world.client.delete(PODS, "theirs", world.namespace, grace=0)
        await world.running("large-0", "large-1")
        assert "theirs-waits" not in await world.bound(), "a pod of the other scheduler was bound by us"


async def test_what_kueue_has_not_admitted_holds_nothing(world: World, start: Start, queue: str) -> None:
    """Pods of the default scheduler that Kueue holds back by a gate, on the nodes of our queue."""
    await world.play(1, 8)
    held = [
        world.pod(f"kueue-{index}", 4, schedulingGates=[{"name": GATE}], nodeSelector={RUN_LABEL: world.run})
        for index in range(2)
    ]
    for pod in held:
        pod["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    async with start():
        await world.create(*held)
        await world.gang("first", 2, 4, queue)
        await world.running("first-0", "first-1")
        for pod in held:
            await world.client.patch(PODS, pod["metadata"]["name"], world.namespace, {"spec": {"schedulingGates": []}})
        await world.client.delete(PODGROUPS, "first", world.namespace)
        for index in range(2):
            await world.client.delete(PODS, f"first-{index}", world.namespace, grace=0)
        await world.running("kueue-0", "kueue-1")
        await world.gang("second", 1, 1, queue)
        await world.condition("second", "GroupScheduled", "False", "InsufficientResources")
        assert set(await world.bound()) == {"kueue-0", "kueue-1"}
        await world.client.delete(PODS, "kueue-1", world.namespace, grace=0)
        await world.running("second-0")


async def test_on_disjoint_nodes_neither_takes_from_the_other(world: World, start: Start, store: Store) -> None:
    """The other scheduler's nodes have room that our queue does not select."""
    await world.play(2, 8)
    theirs, ours = world.nodes
    name = f"{world.run}-own"
    selector = {"matchLabels": {"kubernetes.io/hostname": ours}}
    await store.queues.create(name, {}, {"nodeSelector": selector}, {"everyone": True})
    pod = world.pod("theirs", 2)
    pod["spec"]["schedulerName"] = OTHER
    async with start():
        await world.create(pod)
        await world.bind("theirs", theirs)
        await world.gang("whole", 2, 4, name)
        await world.running("theirs", "whole-0", "whole-1")
        await world.gang("more", 1, 1, name)
        await world.condition("more", "GroupScheduled", "False", "InsufficientResources")
        assert await world.bound() == {"theirs": theirs, "whole-0": ours, "whole-1": ours}
