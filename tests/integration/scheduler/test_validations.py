"""Pods with which the GPU operator tries a node, from outside: while one fails, the node gets no pods with cards."""

from contextlib import suppress
from typing import Any

from t9ksched.kube.errors import AlreadyExists
from t9ksched.kube.resources import NAMESPACES, PODS
from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import told
from tests.integration.world import World

OPERATOR = "gpu-operator"
RUN, EXIT = "devcluster.tensorstack.dev/run-seconds", "devcluster.tensorstack.dev/exit-code"


async def validator(world: World, kind: str, node: str, **annotations: str) -> str:
    """A pod of that kind on a node, and its name."""
    with suppress(AlreadyExists):
        await world.client.create(NAMESPACES, {"metadata": {"name": OPERATOR}})
    pod = world.pod(f"{kind}-{world.run}", 0, nodeName=node, restartPolicy="Never", annotations=annotations)
    pod["metadata"] |= {"namespace": OPERATOR, "labels": {"app": kind}}
    await world.create_shared(PODS, pod)
    return str(pod["metadata"]["name"])


async def says(world: World, pod: str, **status: Any) -> None:
    """The pod's status is another."""
    await world.client.patch(PODS, pod, OPERATOR, {"status": status}, subresource="status")


async def test_a_failed_validation_keeps_new_pods_with_cards_away(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    node = world.nodes[0]
    async with start() as service:
        await world.create(world.pod("before", 1, queue=queue))
        await world.running("before")
        kind = "nvidia-device-plugin-validation"
        failed = await validator(world, kind, node, **{RUN: "0.1", EXIT: "1"})
        await world.until(PODS, failed, lambda pod: pod["status"]["phase"] == "Failed", OPERATOR)
        await world.create(world.pod("card", 1, queue=queue), world.pod("cpu", 0, queue=queue))
        waits = await world.event(names.EVENT_WAITING, "card")
        assert f"a validation of its GPUs failed: the pod {failed} fails (Failed)" in waits["message"]
        await world.running("before", "cpu")
        shown = await told(service, node)
        assert (shown["mode"], shown["notReady"]) == (
            "NotReady",
            f"a validation of its GPUs failed: the pod {failed} fails (Failed)",
        )
        assert [len(card["holders"]) for card in shown["gpus"]] == [1, 0, 0, 0]
        await world.client.delete(PODS, failed, OPERATOR, grace=0)
        await world.running("card")
        assert (await told(service, node))["mode"] == "Whole"


async def test_a_validation_that_crashes_again_and_again_keeps_them_away_until_it_is_done(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 4)
    node = world.nodes[0]
    lost = {"terminated": {"exitCode": 1, "reason": "Error"}}
    crashes = {
        "name": "cuda-validation",
        "image": "x",
        "imageID": "x",
        "restartCount": 7,
        "ready": False,
        "lastState": lost,
    }
    async with start() as service:
        pod = await validator(world, "nvidia-operator-validator", node)
        await world.until(PODS, pod, lambda pod: pod["status"].get("phase") == "Running", OPERATOR)
        for state in ({"waiting": {"reason": "CrashLoopBackOff"}}, {"running": {}}):
            await says(world, pod, phase="Pending", initContainerStatuses=[crashes | {"state": state}])
            name = f"card-{next(iter(state))}"
            await world.create(world.pod(name, 1, queue=queue))
            waits = await world.event(names.EVENT_WAITING, name)
            assert f"the pod {pod} fails" in waits["message"]
        done = crashes | {"ready": True, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
        await says(world, pod, phase="Running", initContainerStatuses=[done])
        await world.running("card-waiting", "card-running")
        assert (await told(service, node))["notReady"] is None


async def test_a_validation_that_is_done_keeps_nobody_away(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    async with start():
        done = await validator(world, "nvidia-cuda-validator", world.nodes[0], **{RUN: "0.1", EXIT: "0"})
        await world.until(PODS, done, lambda pod: pod["status"]["phase"] == "Succeeded", OPERATOR)
        await world.create(world.pod("card", 1, queue=queue))
        await world.running("card")
