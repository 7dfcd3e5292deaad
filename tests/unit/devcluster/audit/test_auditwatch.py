"""The auditor on a living cluster."""

import asyncio

from t9ksched.kube.resources import NODES, PODGROUPS, PODS
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import World, pod, world

GROUP = {"scheduler.tensorstack.dev/group-name": "g"}


async def make_group(w: World, minimum: int) -> None:
    group = {
        "apiVersion": PODGROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": minimum},
    }
    await w.create(PODGROUPS, group)


@on_virtual_time
async def test_what_was_wrong_for_a_moment_is_remembered() -> None:
    async with world() as w:
        await w.run(pod("a", gpu=1), "gpu-a", main="0")
        await w.run(pod("b", gpu=1), "gpu-a", main="0")
        assert await w.phase("b") == "Failed"
        for name in "ab":
            await w.port.delete(PODS, name, "default", grace=0)
        await asyncio.sleep(1)
        report = w.agents.audit()
        assert report.cards_given_twice == 1
        assert report.findings[0].pods == ("default/a", "default/b")


@on_virtual_time
async def test_cards_that_pass_from_pod_to_pod_are_fine() -> None:
    async with world() as w:
        for number in range(5):
            await w.run(pod(f"p{number}", gpu=4), "gpu-a", main="0,1,2,3")
            await w.port.delete(PODS, f"p{number}", "default")
            await asyncio.sleep(1)
        assert w.agents.audit().ok
        assert w.agents.refusals == []


@on_virtual_time
async def test_a_gang_is_partial_until_it_is_whole_and_may_shrink_later() -> None:
    async with world() as w:
        await make_group(w, 2)
        await w.run(pod("a", labels=GROUP), "gpu-a")
        await w.run(pod("b", labels=GROUP))
        (gang,) = w.agents.audit().partial_gangs
        assert (gang.group, gang.placed, gang.minimum) == ("default/g", 1, 2)
        await w.bind(await w.get("b"), "gpu-b")
        await asyncio.sleep(1)
        await w.port.delete(PODS, "b", "default", grace=0)
        await asyncio.sleep(1)
        assert w.agents.audit().ok, "it was whole although no audit was asked for then"


@on_virtual_time
async def test_pods_on_nodes_that_do_not_exist() -> None:
    async with world() as w:
        await w.run(pod("a"), "nowhere")
        assert [finding.kind for finding in w.agents.audit().findings] == ["NodeMissing"]
        await w.port.delete(PODS, "a", "default", grace=0)
        await asyncio.sleep(1)
        assert w.agents.audit().ok


@on_virtual_time
async def test_a_node_that_is_deleted_is_missed_only_while_pods_are_left() -> None:
    async with world() as w:
        await w.run(pod("a"), "gpu-a")
        await w.port.delete(NODES, "gpu-a")
        await asyncio.sleep(1)
        assert w.agents.audit().ok
