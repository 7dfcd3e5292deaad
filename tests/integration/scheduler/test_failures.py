"""What server, network and nodes may answer to a binding, once each, seen at the cluster's objects.

The faults come from the dev cluster's fault lab over HTTP; before a real server they meet the scheduler's client.
"""

import asyncio
from typing import Any

import pytest

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.store import history
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import TIMEOUT, World

pytestmark = pytest.mark.cluster
BINDING = {"verb": "create", "resource": "pods/binding"}


def faults(world: World, *rules: dict[str, Any]) -> None:
    world.faults.rules = [Rule(**rule) for rule in rules]


async def cordon(world: World, node: str, cordoned: bool) -> None:
    await world.client.patch(NODES, node, None, {"spec": {"unschedulable": cordoned or None}})


async def check(world: World) -> None:
    assert world.agents is not None
    assert not world.agents.refusals
    report = await world.audit()
    assert report.ok, str(report)


async def happened(store: Store, event: str, name: str) -> history.Event:
    """The last row of that event in a job's history, once it is written."""
    async with asyncio.timeout(TIMEOUT):
        while not (found := [row for row in await store.history.list(name=name) if row.event == event]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found[0]


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ({"status": 404}, True),
        ({"status": 409, "reason": "Conflict", "message": "already assigned to node"}, True),
        ({"status": 409, "reason": "Conflict", "message": "Precondition failed: UID in precondition"}, True),
        ({"status": 422}, True),
        ({"status": 400}, True),
        ({"status": 403, "reason": "Forbidden"}, True),
        ({"status": 429, "retry_after": 1.0}, False),
        ({"status": 500}, False),
        ({"status": 503}, False),
        ({"status": 504}, False),
        ({"drop": "before"}, False),
        ({"drop": "after"}, False),
    ],
    ids=["404", "409-bound", "409-uid", "422", "400", "403", "429", "500", "503", "504", "lost", "answer-lost"],
)
async def test_one_bad_answer_and_the_gang_runs_all_the_same(
    world: World, start: Start, queue: str, rule: dict[str, Any], refused: bool
) -> None:
    await world.play(1, 4)
    faults(world, {**BINDING, "count": 1, **rule})
    async with start() as service:
        await world.gang("g", 2, 2, queue)
        await world.running("g-0", "g-1")
        assert service.executor.stats.refused == int(refused)
        cards = [
            pod["metadata"]["annotations"][f"{names.GPU_INDEX_PREFIX}main"] for pod in await world.running("g-0", "g-1")
        ]
        assert sorted(",".join(cards).split(",")) == ["0", "1", "2", "3"]
    await check(world)


async def test_nothing_goes_wrong_and_each_pod_is_bound_once(world: World, start: Start, queue: str) -> None:
    await world.play(2, 4)
    async with start() as service:
        await world.gang("g", 4, 2, queue)
        await world.running(*(f"g-{index}" for index in range(4)))
        assert (service.executor.stats.bound, service.executor.stats.refused) == (4, 0)
    await check(world)


async def test_an_unknown_binding_stays_charged_until_it_is_known(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    async with start():
        unread = {"verb": "get", "resource": "pods", "status": 503, "count": 3}
        faults(world, {**BINDING, "drop": "after", "count": 1}, unread)
        await world.create(world.pod("open", 3, queue=queue))
        await world.create(world.pod("other", 3, queue=queue))
        await world.running("open")
        assert "nvidia.com/gpu" in (await world.event(names.EVENT_WAITING, "other"))["message"]
        assert set(await world.bound()) == {"open"}
    await check(world)


async def test_a_pod_its_node_does_not_admit_goes_elsewhere_with_its_gang(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(2, 4)
    bad, good = world.nodes
    world.faults.broken.add(bad)
    world.refusals_expected = True
    await cordon(world, good, True)
    async with start():
        await world.create(world.group("g", 1, queue))
        await world.create(world.pod("g-0", 4, group="g"))
        seen = await world.until(PODS, "g-0", lambda pod: pod["status"].get("phase") == "Failed")
        assert (seen["spec"]["nodeName"], seen["status"]["reason"]) == (bad, "UnexpectedAdmissionError")
        row = await happened(store, history.TURNED_AWAY, "g")
        assert (row.detail["node"], row.detail["pod"]) == (bad, "g-0")
        await world.client.delete(PODS, "g-0", world.namespace)
        await world.gone(PODS, "g-0")
        await world.create(world.pod("g-0", 4, group="g"))  # as its controller would
        await world.event(names.EVENT_WAITING, "g")
        await cordon(world, good, False)
        assert [pod["spec"]["nodeName"] for pod in await world.running("g-0")] == [good]
    assert (await world.audit()).ok


async def test_a_gang_that_cannot_be_finished_is_taken_back_with_the_reason_on_its_pods(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 4)
    await world.create(world.group("half", 2, queue))
    await world.create(world.pod("half-0", 2, group="half"))
    await world.bind("half-0", world.nodes[0])
    await world.create(world.pod("half-1", 4, group="half"))
    before = (await world.running("half-0"))[0]
    faults(world, {"verb": "delete", "resource": "pods", "status": 503, "count": 1})
    async with start(gang_bind_timeout=1):
        marked = await world.until(
            PODS,
            "half-0",
            lambda pod: [c for c in pod["status"].get("conditions", ()) if c["type"] == "DisruptionTarget"],
        )
        assert marked["metadata"]["uid"] == before["metadata"]["uid"]
        await world.gone(PODS, "half-0")
        assert "1 of 2" in (await happened(store, history.TAKEN_BACK, "half")).detail["message"]


async def test_a_gang_that_lost_members_is_refilled_before_anything_new_of_its_queue(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 4)
    async with start():
        await world.gang("old", 2, 2, queue)
        await world.running("old-0", "old-1")
        await world.gang("new", 1, 2, queue)
        await world.event(names.EVENT_WAITING, "new")
        await world.client.delete(PODS, "old-1", world.namespace)
        await world.gone(PODS, "old-1")
        await world.create(world.pod("old-2", 2, group="old"))
        await world.running("old-2")
        assert "new-0" not in await world.bound()
    await check(world)


async def test_a_gang_below_its_minimum_for_too_long_is_evicted_whole_and_queued_with_its_old_age(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(2, 4)
    async with start(gang_recovery_timeout=1):
        await world.gang("old", 2, 4, queue)
        await world.running("old-0", "old-1")
        await world.condition("old", "GroupScheduled", "True")
        lost = (await world.client.get(PODS, "old-1", world.namespace))["spec"]["nodeName"]
        await cordon(world, lost, True)
        await world.client.delete(PODS, "old-1", world.namespace)
        await world.gone(PODS, "old-1")
        await world.create(world.pod("old-1", 4, group="old"))
        await world.gone(PODS, "old-0")
        assert "queued again" in (await happened(store, history.TAKEN_BACK, "old")).detail["message"]
        await world.condition("old", "Evicted", "True", "GangRecoveryTimeout")
        await world.condition("old", "GroupScheduled", "True", "PodGroupScheduled")
        await world.create(world.pod("old-0", 4, group="old"))
        await world.gang("new", 2, 4, queue)  # whoever sees it whole sees the older one whole, too
        await cordon(world, lost, False)
        await world.running("old-0", "old-1")
        assert set(await world.bound()) == {"old-0", "old-1"}
        await world.condition("old", "Evicted", "False")
    await check(world)
