"""Models and kinds of cards from outside: which nodes pods get, what they are told, and edits that come too late."""

from typing import Any

from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World

PRODUCT = "nvidia.com/gpu.product"
A100, A40 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-A40"


async def as_product(world: World, node: str, product: str) -> None:
    """The node's labels say so."""
    await world.client.patch(NODES, node, None, {"metadata": {"labels": {PRODUCT: product}}})


def asks(world: World, name: str, queue: str, **annotations: str) -> dict[str, Any]:
    keys = {"model": names.GPU_MODEL_ANNOTATION, "mode": names.GPU_MODE_ANNOTATION}
    given = {keys.get(key, f"{names.GPU_MODEL_PREFIX}{key}"): text for key, text in annotations.items()}
    return world.pod(name, 1, queue=queue, annotations=given)


async def test_pods_get_the_cards_that_they_ask_for(world: World, start: Start, queue: str) -> None:
    await world.play(3, 4)
    whole, other, slices = world.nodes
    await as_product(world, whole, A100)
    await as_product(world, other, A40)
    await as_product(world, slices, f"{A100}-MIG-1g.10gb")
    async with start():
        await world.create(asks(world, "a100", queue, model="A100,H100"))
        await world.create(asks(world, "a40", queue, main="a40"))
        await world.create(asks(world, "slice", queue, mode="slice"))
        pods = await world.running("a100", "a40", "slice")
        assert [pod["spec"]["nodeName"] for pod in pods] == [whole, other, slices]
        await world.create(asks(world, "h100", queue, model="H100"))
        waits = await world.event(names.EVENT_WAITING, "h100")
        assert "CardTypeMismatch: the pod asks for H100" in waits["message"]
        # What was accepted stays: an edit changes nothing.
        late = {"metadata": {"annotations": {names.GPU_MODEL_ANNOTATION: "A100"}}}
        await world.client.patch(PODS, "h100", world.namespace, late)
        await world.create(asks(world, "bad", queue, mode="half"))
        told = await world.event(names.EVENT_REFUSED, "bad")
        assert f"metadata.annotations[{names.GPU_MODE_ANNOTATION}]: 'half' is none of" in told["message"]
        await world.create(asks(world, "later", queue, model="A40"))
        await world.running("later")
        pod = await world.client.get(PODS, "h100", world.namespace)
        assert not pod["spec"].get("nodeName")
