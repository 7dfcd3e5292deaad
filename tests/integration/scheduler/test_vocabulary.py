"""The names that the leader knows, and who is warned by them."""

import aiohttp

from t9ksched.kube.resources import CONFIGMAPS, QUEUES
from t9ksched.model import names
from t9ksched.scheduler.report.vocabulary import SHAPES
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_metrics import SECRET
from tests.integration.world import GPU, RUN_LABEL, World

PROFILES = "profiles:\n- name: large\n  rules: []\n- nonsense\n"


async def test_resources_labels_and_profiles(world: World, start: Start) -> None:
    await world.play(2, 4)
    system = names.SYSTEM_NAMESPACE
    shapes = {"metadata": {"name": SHAPES, "namespace": system}, "data": {"config.yaml": PROFILES}}
    await world.create_shared(CONFIGMAPS, shapes)
    async with (
        start() as service,
        aiohttp.ClientSession(headers=SECRET) as session,
        session.get(f"{service.address}/internal/v1/names") as answer,
    ):
        known = await answer.json()
    assert {"cpu", "memory", "pods", GPU} <= set(known["resources"])
    assert world.run in known["labels"][RUN_LABEL]
    assert set(world.nodes) <= set(known["labels"]["kubernetes.io/hostname"])
    assert known["profiles"] == ["large"]


async def test_an_edit_by_kubectl_is_taken_over_with_a_warning(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    async with start():
        system = names.SYSTEM_NAMESPACE
        await world.until(QUEUES, queue, lambda obj: obj.get("status"), system)
        spec = {"quota": {"requests": {"nvidia.com/gpus": "4"}}}
        await world.client.patch(QUEUES, queue, system, {"spec": spec})
        event = await world.event(names.EVENT_QUEUE_EDITED_OUTSIDE, queue, system)
        assert (event["type"], f"did you mean '{GPU}'?" in event["message"]) == ("Warning", True), event["message"]
