"""Pods that have a place on a node which is busy with another's: until they are bound, nothing says that they are."""

from typing import Any

from t9ksched.kube.resources import EVENTS, NODES
from t9ksched.model import names
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.service import SchedulerService
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_hami import LOCK, ask, given, locked
from tests.integration.world import World


async def explained(service: SchedulerService, world: World, name: str) -> list[tuple[str, list[Any]]]:
    """Verdict and reasons of a pod's job, and of the pod."""
    pod = service.state.pod_named(world.namespace, name)
    assert pod is not None
    assert pod.gang is not None
    view = observed_job(service.state, pod.gang.uid)
    assert view is not None
    return [
        (found["verdict"], found["reasons"])
        for one in (None, pod)
        for found in (await explanation(view, service.state, one),)
    ]


async def test_a_pod_before_a_locked_node_says_who_has_it(world: World, start: Start, queue: str) -> None:
    node = await locked(world)
    async with start() as service:
        await world.create(ask(world, "p", queue, 4000, 25))
        said = (await world.event(names.EVENT_WAITING, "p"))["message"]
        assert said.startswith(f"a place is found, and not taken yet: node {node} is locked: {LOCK} is ")
        assert f"{world.namespace},other" in said
        await world.create(ask(world, "q", queue, 4000, 25))  # behind it
        assert (await world.event(names.EVENT_WAITING, "q"))["message"] == said
        for name in ("p", "q"):
            for verdict, reasons in await explained(service, world, name):
                assert (verdict, [one["code"] for one in reasons]) == ("Waiting", ["BindRefused"])
                assert reasons[0]["message"] == said
        listed = await world.client.list(EVENTS, world.namespace)
        assert names.EVENT_SCHEDULED not in {
            one["reason"] for one in listed.items if one["involvedObject"]["name"] in ("p", "q")
        }
        await world.client.patch(NODES, node, None, {"metadata": {"annotations": {LOCK: None}}})
        await given(world, "p", "q")
        for name in ("p", "q"):
            assert (await world.event(names.EVENT_SCHEDULED, name))["message"] == f"1 pod placed on {node}"
            assert [verdict for verdict, _ in await explained(service, world, name)] == ["Placed"] * 2
        assert not service.state.node_backoff.held_up
