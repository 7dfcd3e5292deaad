"""Pods that name a group they may not join, and pods that name their node: what users are told, by REST."""

import pytest

from t9ksched.kube.resources import PODGROUPS
from t9ksched.model.names import SCHEDULER_NAME
from t9ksched.store.store import Store
from tests.integration.api.test_cancelling import JOBS, of, rest, shown
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_endings import controllers
from tests.integration.world import World
from tests.unit.api.world import Client

__all__ = ["controllers", "rest"]
pytestmark = pytest.mark.cluster


async def test_a_strangers_pod_is_no_member_and_says_so(world: World, start: Start, store: Store, rest: Client) -> None:
    await world.play(1, 8)
    queue = f"{world.run}-q"
    await store.queues.create(queue, {}, world.queue_spec, {"users": ["ann"]})
    ann = Client(rest.url, rest.session, await store.tokens.create("boss", "manager", owner="ann", queues=[queue]))
    address = f"{JOBS}/{world.namespace}/PodGroup/net"
    stranger = f"{JOBS}/{world.namespace}/Pod/net-stranger"
    async with start():
        group, first, second = of("PodGroup", world, queue)
        for obj in (group, first):
            assert (await rest("POST", JOBS, obj)).status == 201  # an administrator's, whose submitter is known
        await world.create(world.pod("net-stranger", 1, group="net"))
        # At first it is only told that its submitter and its owner are waited for.
        may_not = f"names the PodGroup {world.namespace}/net and may not join it"
        told = await shown(rest, f"{stranger}/explanation", lambda one: may_not in one["reasons"][0]["message"])
        assert (told["verdict"], told["reasons"][0]["code"]) == ("Waiting", "SubmitterUnknown")
        assert (await ann("GET", stranger)).status == 404, "it is in none of the user's queues"
        job = (await ann("GET", address)).body
        assert (job["members"]["total"], job["submitter"], job["reason"]["code"]) == (1, "admin", "GangIncomplete")
        await world.condition("net", "SufficientGroupMember", "False")
        assert (await world.client.get(PODGROUPS, "net", world.namespace))["status"]["pending"] == 1
        assert (await rest("POST", JOBS, second)).status == 201
        await shown(rest, address, lambda one: one["members"]["running"] == 2)
        assert (await rest("GET", stranger)).body["members"]["bound"] == 0


async def test_a_pod_that_names_its_node_is_reported_as_not_scheduled(
    world: World, start: Start, queue: str, controllers: None, rest: Client
) -> None:
    """By kubectl: REST refuses it. The pod counts as another scheduler's."""
    await world.play(1, 8)
    (node,) = world.nodes
    async with start():
        await world.create(world.pod("alone", 1, queue=queue, nodeName=node))
        made = of("Job", world, queue)[0]
        made["spec"]["template"]["spec"] |= {"nodeName": node, "schedulerName": SCHEDULER_NAME}
        await world.create(made)
        for address, path in (("Pod/alone", "spec.nodeName"), ("Job/net", "spec")):
            told = await shown(rest, f"{JOBS}/{world.namespace}/{address}/explanation", lambda one: one.get("warnings"))
            assert told["warnings"][0]["path"] == path
            assert "the scheduler was not asked, and counts" in told["warnings"][0]["message"]
        event = await world.event("SchedulerBypassed", "alone")
        assert node in event["message"]
