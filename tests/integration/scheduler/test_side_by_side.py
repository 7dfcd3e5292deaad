"""Another scheduler beside ours on the same nodes: its pods are counted and never touched, and ours are bound by us."""

from t9ksched.kube.resources import PODS
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World

OTHER = "volcano"


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
