"""Links between cards from outside: the best-linked cards are given and told; what cannot be read is told too."""

import json

from t9ksched.kube.resources import NODES
from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import told
from tests.integration.scheduler.test_endings import ask
from tests.integration.world import World

INDICES = f"{names.GPU_INDEX_PREFIX}main"


def halves(cards: int) -> str:
    """Two halves with NVLink inside."""
    half = cards // 2
    return json.dumps(
        [["X" if a == b else "NV12" if a // half == b // half else "SYS" for b in range(cards)] for a in range(cards)]
    )


async def test_pods_get_linked_cards_and_are_told(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8, annotations={names.GPU_LINKS_ANNOTATION: halves(8)})
    async with start() as service:
        for name, cards in (("first", 1), ("wide", 4), ("mixed", 2), ("last", 1)):
            await world.create(world.pod(name, cards, queue=queue))
            await world.running(name)
        pods = await world.running("first", "wide", "mixed", "last")
        assert [pod["metadata"]["annotations"][INDICES] for pod in pods] == ["0", "4,5,6,7", "1,2", "3"]
        explained = await ask(service, world, "Pod/wide/explanation")
        expected = {"pod": "wide", "node": world.nodes[0], "cards": [4, 5, 6, 7], "linked": "NV12"}
        assert explained["links"] == [expected]
        assert (await ask(service, world, "Pod/first/explanation"))["links"] == []
        assert (await told(service, world.nodes[0]))["linksIgnored"] is None


async def test_an_annotation_that_cannot_be_followed_is_told_and_its_cards_are_given(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 4, annotations={names.GPU_LINKS_ANNOTATION: halves(8)})
    (node,) = world.nodes
    async with start() as service:
        event = await world.event(names.EVENT_LINKS_IGNORED, node, "default")
        assert event["involvedObject"]["kind"] == "Node"
        assert node in event["message"]
        assert f"{names.GPU_LINKS_ANNOTATION} has 8 rows: the node has 4 of nvidia.com/gpu" in event["message"]
        assert (await told(service, node))["linksIgnored"] in event["message"]
        await world.create(world.pod("one", 2, queue=queue))
        (pod,) = await world.running("one")
        assert pod["metadata"]["annotations"][INDICES] == "0,1"
        # Corrected, it counts from that moment on.
        right = {"metadata": {"annotations": {names.GPU_LINKS_ANNOTATION: halves(4)}}}
        await world.client.patch(NODES, node, None, right)
        await world.create(world.pod("two", 2, queue=queue))
        await world.running("two")
        explained = await ask(service, world, "Pod/two/explanation")
        assert [one["linked"] for one in explained["links"]] == ["NV12"]
        assert (await told(service, node))["linksIgnored"] is None
