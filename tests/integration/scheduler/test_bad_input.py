"""What can never be: through the API server, each job is told why, and the one behind it starts all the same."""

from typing import Any

import pytest

from t9ksched.kube.resources import NODES, PODS, QUEUES
from t9ksched.model.names import GROUP_LABEL, SYSTEM_NAMESPACE
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World


async def test_a_gang_that_can_never_start_has_its_reason_and_blocks_no_other(
    world: World, start: Start, queue: str
) -> None:
    await world.play(2, 4)
    contradicts = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "Exists"},
                            {"key": "kubernetes.io/hostname", "operator": "DoesNotExist"},
                        ]
                    }
                ]
            }
        }
    }
    async with start():
        await world.create(
            world.pod("torn", 1, queue=queue, affinity=contradicts),
            world.pod("nowhere", 1, queue=queue, nodeSelector={"no-such-label": "x"}),
            world.pod("huge", 9, queue=queue),
        )
        await world.gang("crowd", 3, 4, queue)
        await world.gang("apart", 2, 3, queue, topologyPolicy="Required")
        even: dict[str, Any] = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "minDomains": 3}
        even |= {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {GROUP_LABEL: "even"}}}
        pods = [world.pod(f"even-{at}", 1, group="even", topologySpreadConstraints=[even]) for at in range(3)]
        await world.create(world.group("even", 3, queue), *pods)
        await world.create(world.group("short", 2, queue), world.pod("short-0", 1, group="short"))
        await world.create(world.pod("fine", 1, queue=queue))
        await world.running("fine")
        for name, says in {"torn": "no node of", "nowhere": "no node of", "huge": "needs 9"}.items():
            assert says in (await world.event("Waiting", name))["message"], name
        await world.condition("crowd", "GroupScheduled", "False", "NeverFits")
        await world.condition("apart", "GroupScheduled", "False", "NeverFits")
        await world.condition("even", "GroupScheduled", "False", "NeverFits")
        await world.condition("short", "GroupScheduled", "False", "GangIncomplete")
        assert set(await world.bound()) == {"fine"}
        await world.client.delete(PODS, "fine", world.namespace)
        await world.create(world.pod("again", 4, queue=queue))
        await world.running("again")


@pytest.mark.parametrize("digits", ["9" * 5000, "1." + "9" * 5000])
async def test_numbers_of_thousands_of_digits_block_no_other_gang(
    world: World, start: Start, queue: str, digits: str
) -> None:
    """Python itself refuses to read them."""
    await world.play(1, 4)
    quota = {"spec": {"quota": {"requests": {"nvidia.com/gpu": digits}}}}
    marks = dict.fromkeys((f"scheduler.tensorstack.dev/{name}" for name in ("cordoned-cards", "gpu-links")), digits)
    async with start():
        await world.until(QUEUES, queue, lambda q: q["metadata"].get("annotations"), SYSTEM_NAMESPACE)
        await world.client.patch(QUEUES, queue, SYSTEM_NAMESPACE, quota)
        await world.client.patch(NODES, f"{world.run}-n-0", None, {"metadata": {"annotations": marks}})
        large = world.pod("large", 1, queue=queue)
        large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9" * 5000}}
        await world.create(large)
        await world.event("Waiting", "large")
    async with start():
        await world.client.patch(NODES, f"{world.run}-n-0", None, {"metadata": {"annotations": dict.fromkeys(marks)}})
        await world.create(world.pod("fine", 1, queue=queue))
        await world.running("fine")
