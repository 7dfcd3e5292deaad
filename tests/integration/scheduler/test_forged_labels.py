"""A pod that is bound stays in its group, its role and its queue, whatever its labels say when a scheduler starts."""

import asyncio
from typing import Any

import pytest

from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import GPU, TIMEOUT, World

pytestmark = pytest.mark.cluster
FORGED = {
    "another queue": {names.GROUP_LABEL: None, names.QUEUE_LABEL: "{other}"},
    "another group": {names.GROUP_LABEL: "h"},
    "another role": {names.ROLE_LABEL: "lead"},
}


async def on_record(store: Store, *pods: str) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not set(pods) <= {row.name for row in await store.bindings.all()}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def relabel(world: World, pod: str, labels: dict[str, Any]) -> None:
    await world.client.patch(PODS, pod, world.namespace, {"metadata": {"labels": labels}})


def place(world: World, service: SchedulerService, pod: str) -> tuple[str, str, str]:
    """Group, role and queue that pays of a pod."""
    record = service.state.pod_named(world.namespace, pod)
    assert isinstance(record, PodRecord)
    assert record.gang is not None
    charge = service.state.charges.get(record.uid)
    assert charge is not None
    return ("" if record.gang.virtual else record.gang.name, record.role, charge.queue)


@pytest.mark.parametrize("gpus", [1, 0], ids=["with cards", "without cards"])
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
async def test_a_member_stays_in_its_group(
    world: World, start: Start, queue: str, store: Store, forged: dict[str, str | None], gpus: int
) -> None:
    await world.play(1, 8)
    other = f"{world.run}-other"
    await store.queues.create(other, {}, world.queue_spec, {"everyone": True})
    async with start() as service:
        await world.gang("h", 1, gpus, other)
        await world.gang("g", 2, gpus, queue)
        await world.running("g-0", "g-1", "h-0")
        await on_record(store, "g-0", "g-1")
        before = place(world, service, "g-1")
        assert before == ("g", "", queue)
    await relabel(world, "g-1", {key: value and value.format(other=other) for key, value in forged.items()})
    async with start() as service:
        assert place(world, service, "g-1") == before
        event = await world.event(names.EVENT_EDIT_IGNORED, "g")
        assert "of pod g-1 says" in event["message"]
        if gpus:
            assert service.state.charges.queue_used[queue][GPU] == 2
        await relabel(world, "g-1", {names.GROUP_LABEL: "g", names.QUEUE_LABEL: None, names.ROLE_LABEL: None})


async def test_a_pod_that_came_alone_joins_no_group(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 8)
    async with start():
        await world.gang("g", 1, 1, queue)
        await world.create(world.pod("p", 1, queue=queue))
        await world.running("g-0", "p")
        await on_record(store, "p")
    await relabel(world, "p", {names.GROUP_LABEL: "g", names.QUEUE_LABEL: "default"})
    async with store.database.write() as connection:  # as lost in a crash before it was written
        await connection.exec_driver_sql("DELETE FROM acceptance")
    async with start() as service:
        assert place(world, service, "p") == ("", "", queue)


async def test_what_was_bound_before_labels_were_recorded_is_recorded_as_it_is(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """An upgrade: the labels are believed once, and count no more from then on."""
    await world.play(1, 8)
    async with start():
        await world.gang("g", 2, 1, queue)
        await world.running("g-0", "g-1")
        await on_record(store, "g-0", "g-1")
    async with store.database.write() as connection:
        await connection.exec_driver_sql("UPDATE binding SET group_name = NULL, role = NULL, queue = NULL")
    async with start() as service:
        assert place(world, service, "g-1") == ("g", "", queue)
        rows = await store.bindings.all()
        assert [(row.group_name, row.role, row.queue) for row in rows] == [("g", "", queue)] * 2
    await relabel(world, "g-1", {names.GROUP_LABEL: None})
    async with start() as service:
        assert place(world, service, "g-1") == ("g", "", queue)
        assert "of pod g-1 says" in (await world.event(names.EVENT_EDIT_IGNORED, "g"))["message"]
        await relabel(world, "g-1", {names.GROUP_LABEL: "g"})


@pytest.mark.parametrize("meanwhile", [False, True], ids=["while it leads", "before a start"])
async def test_a_group_made_anew_takes_its_members_to_no_other_queue(
    world: World, start: Start, queue: str, store: Store, meanwhile: bool
) -> None:
    await world.play(1, 8)
    other = f"{world.run}-other"
    await store.queues.create(other, {}, world.queue_spec, {"everyone": True})

    async def remake() -> None:
        found = await world.client.get(PODGROUPS, "g", world.namespace)
        await world.client.delete(PODGROUPS, "g", world.namespace)
        await world.gone(PODGROUPS, "g")
        anew = {"apiVersion": found["apiVersion"], "kind": "PodGroup", "spec": {**found["spec"], "queue": other}}
        await world.create({**anew, "metadata": {"name": "g", "namespace": world.namespace}})

    async with start() as service:
        await world.gang("g", 2, 1, queue)
        await world.running("g-0", "g-1")
        await on_record(store, "g-0", "g-1")
        if not meanwhile:
            await remake()
            await world.event(names.EVENT_EDIT_IGNORED, "g")
            assert place(world, service, "g-1") == ("g", "", queue)
    if meanwhile:
        await remake()
    async with start() as service:
        await world.event(names.EVENT_EDIT_IGNORED, "g")
        assert [place(world, service, pod) for pod in ("g-0", "g-1")] == [("g", "", queue)] * 2
        assert service.state.charges.queue_used[queue][GPU] == 2
        assert not service.state.charges.queue_used.get(other, {}).get(GPU)


async def test_the_role_of_a_pod_that_waits_follows_its_label(world: World, start: Start, queue: str) -> None:
    """A role put right lets the group start at once; it took two starts of the scheduler."""
    await world.play(1, 8)
    minima = [{"name": "lead", "minMember": 1}, {"name": "worker", "minMember": 1}]
    async with start():
        await world.create(world.group("g", 2, queue, roles=minima))
        for name in ("g-0", "g-1"):
            one = world.pod(name, 1, group="g")
            one["metadata"]["labels"][names.ROLE_LABEL] = "worker"
            await world.create(one)
        await world.until(PODGROUPS, "g", lambda found: "role lead: 0 of 1" in str(found.get("status")))
        await relabel(world, "g-0", {names.ROLE_LABEL: "lead"})
        await world.running("g-0", "g-1")


@pytest.mark.parametrize("again", [False, True], ids=["bound once", "recorded by a start"])
async def test_a_member_that_has_ended_stays_in_its_group(
    world: World, start: Start, queue: str, store: Store, again: bool
) -> None:
    """It counts towards the minimum. Its row goes when the pod does."""
    await world.play(1, 8)
    async with start():
        ends = world.pod("g-0", 1, group="g", restartPolicy="Never")
        ends["metadata"]["annotations"] = {"devcluster.tensorstack.dev/run-seconds": "0.1"}
        ends["metadata"]["labels"][names.ROLE_LABEL] = "lead"
        await world.create(world.group("g", 2, queue), ends, world.pod("g-1", 1, group="g"))
        await world.until(PODS, "g-0", lambda found: found["status"].get("phase") == "Succeeded")
        await world.running("g-1")
        await on_record(store, "g-0", "g-1")
    if again:  # as a release that removed the rows of pods that have ended left it
        await store.bindings.write([], {row.pod_uid for row in await store.bindings.all() if row.name == "g-0"})
        async with start():
            await on_record(store, "g-0", "g-1")
    await relabel(world, "g-0", {names.GROUP_LABEL: "h", names.ROLE_LABEL: "other"})
    async with start() as service:
        record = service.state.pod_named(world.namespace, "g-0")
        assert record is not None
        assert record.gang is not None
        assert (record.gang.name, record.role) == ("g", "lead")
        assert record.gang.complete()
        await world.client.delete(PODS, "g-0", world.namespace)
        async with asyncio.timeout(TIMEOUT):
            while "g-0" in {row.name for row in await store.bindings.all()}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
