"""What a scheduler did and did not live to write is told by the next one, in order."""

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.scheduler.keep.database_sync import DatabaseSync
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.history import PREEMPTED, RELEASED, Event
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import PREEMPT, until
from tests.integration.scheduler.test_endings import RUN
from tests.integration.scheduler.test_failures import BINDING, faults
from tests.integration.scheduler.test_preemption import queues
from tests.integration.world import World

WHOLE = ["accepted", "admitted", "bound", "started", "released", "finished"]


async def lost(*_: Any) -> None:
    """Writes nothing, as when the process is killed before it writes."""


async def told(store: Store, name: str) -> list[Event]:
    events = await store.history.list(name=name)
    assert [event.at for event in events] == sorted(event.at for event in events)
    return events


async def until_told(service: SchedulerService, store: Store, name: str, *wanted: str) -> None:
    async with asyncio.timeout(30):
        while not Counter(wanted) <= Counter(event.event for event in await store.history.list(name=name)):
            await service.sql_writer.flushed()
            await asyncio.sleep(0.05)


@pytest.mark.cluster
async def test_a_pod_that_ended_before_any_of_it_was_written_has_its_whole_history(
    world: World, start: Start, store: Store, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.play(1, 8)

    def short(name: str) -> dict[str, Any]:
        pod = world.pod(name, 1, queue=queue, restartPolicy="Never")
        pod["metadata"].setdefault("annotations", {})[RUN] = "0.2"
        return pod

    async def over(name: str) -> None:
        await world.create(short(name))
        await world.until(PODS, name, lambda pod: pod["status"].get("phase") == "Succeeded")

    async with start() as service:
        await over("early")
        await service.sql_writer.flushed()
        monkeypatch.setattr(service.sql_writer._store, "tell", lost)
        await over("late")
    assert not [event for event in await store.history.list() if event.name == "late"]
    async with start() as service:
        await until(lambda: service.state.pod_named(world.namespace, "late") is not None)
        await until_told(service, store, "late", "finished")
    assert [event.event for event in await told(store, "late")] == WHOLE


@pytest.mark.cluster
async def test_a_start_without_the_database_tells_nothing_twice_when_it_is_back(
    world: World, start: Start, store: Store, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.play(1, 8)
    async with start() as service:
        for name in ("over", "runs"):
            pod = world.pod(name, 1, queue=queue, restartPolicy="Never")
            pod["metadata"].setdefault("annotations", {})[RUN] = "0.2" if name == "over" else "3600"
            await world.create(pod)
        await until_told(service, store, "over", "finished")
        await until_told(service, store, "runs", "started")
        await service.sql_writer.flushed()
        before = {name: await told(store, name) for name in ("over", "runs")}
        monkeypatch.setattr(service.sql_writer._store, "tell", lost)
        late = world.pod("late", 1, queue=queue, restartPolicy="Never")
        await world.create(late)
        await world.until(PODS, "late", lambda pod: pod["status"].get("phase") == "Running")
    restore, tries = DatabaseSync.restore, 0

    async def away_at_first(self: DatabaseSync) -> int | None:
        nonlocal tries
        tries += 1
        if tries < 3:
            self._state.outage.unread = True
            return None
        return await restore(self)

    monkeypatch.setattr(DatabaseSync, "restore", away_at_first)
    async with start() as service:
        await until_told(service, store, "late", "started")
        await service.sql_writer.flushed()
    assert {name: await told(store, name) for name in ("over", "runs")} == before
    assert [event.event for event in await told(store, "late")] == ["accepted", "admitted", "bound", "started"]


async def ends_well(world: World, name: str) -> None:
    ended = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    states = [{"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": ended}}}]
    status = {"phase": "Succeeded", "containerStatuses": states}
    await world.client.patch(PODS, name, world.namespace, {"status": status}, subresource="status")


@pytest.mark.cluster
@pytest.mark.parametrize("gpus", [2, 0], ids=["with cards", "without cards"])
@pytest.mark.parametrize("seen", [True, False], ids=["before the scheduler stops", "while none is there"])
async def test_no_room_is_kept_for_a_member_that_succeeded_and_is_gone(
    world: World, start: Start, store: Store, queue: str, gpus: int, *, seen: bool
) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.gang("old", 2, gpus, queue)
        await until_told(service, store, "old", "bound", "bound", "started")
        if seen:
            await ends_well(world, "old-1")
            await until_told(service, store, "old", RELEASED)
    if not seen:
        await ends_well(world, "old-1")
    async with start() as service:
        await until_told(service, store, "old", RELEASED)
    await world.client.delete(PODS, "old-1", world.namespace, grace=0)
    await world.gone(PODS, "old-1")
    async with start() as service:
        await world.create(world.pod("new", 8 - gpus, queue=queue))
        await world.running("new")
        (gang,) = (gang for gang in service.state.gangs.values() if gang.name == "old")
        assert (gang.placed_count(), gang.lost) == (1, False)
    (event,) = [event for event in await told(store, "old") if event.event == RELEASED]
    assert event.detail == {"pod": "old-1", "succeeded": True}


@pytest.mark.cluster
async def test_pods_that_gave_their_cards_back_while_no_scheduler_was_there_are_told(
    world: World, start: Start, store: Store, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.play(1, 8)
    world_pods = {f"{group}-{at}": group for group in ("ends", "goes", "stays") for at in (0, 1)}
    async with start() as service:
        for group in ("ends", "goes", "stays"):
            await world.create(world.group(group, 2, queue=queue))
        for name, group in world_pods.items():
            more = {"annotations": {RUN: "1.5"}} if group == "ends" else {}
            await world.create(world.pod(name, 1, group=group, restartPolicy="Never", **more))
        for group in ("ends", "goes", "stays"):
            await until_told(service, store, group, "bound", "bound")
        monkeypatch.setattr(service.sql_writer._store, "tell", lost)
        for name in ("ends-0", "ends-1"):
            await world.until(PODS, name, lambda pod: pod["status"].get("phase") == "Succeeded")
    await world.client.delete(PODS, "stays-1", world.namespace, grace=0)
    for name in ("goes-0", "goes-1"):
        await world.client.delete(PODS, name, world.namespace, grace=0)
    await world.client.delete(PODGROUPS, "goes", world.namespace)
    async with start() as service:
        await until_told(service, store, "ends", "finished")
        await until_told(service, store, "goes", "deleted")
        await until_told(service, store, "stays", "released")
    ends = [event.event for event in await told(store, "ends")]
    assert ends[2:] == ["bound", "bound", "started", "released", "released", "finished"]
    goes = [event.event for event in await told(store, "goes")]
    assert goes[-3:] == ["released", "released", "deleted"]
    (row,) = [job for job in await store.jobs.list(deleted=True) if job.name == "goes"]
    assert (row.kind, row.deleted_at is not None, row.shape["members"]["total"]) == ("PodGroup", True, 2)
    for group, pods in {"goes": ["goes-0", "goes-1"], "stays": ["stays-1"]}.items():
        released = [event.detail["pod"] for event in await told(store, group) if event.event == "released"]
        assert sorted(released) == pods


@pytest.mark.cluster
async def test_evictions_of_a_scheduler_that_was_killed_are_told_once_and_counted(
    world: World, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The victim still ends when the next scheduler starts, and when the one after that does."""
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 1)
    low = world.pod("low", 1, queue=f"{world.run}-low")
    low["metadata"]["finalizers"] = ["t9ksched.test/held"]

    async def evictions() -> list[Event]:
        return [event for event in await store.history.list(name="low") if event.event == PREEMPTED]

    async with start(policy=PREEMPT) as service:
        await world.create(low)
        await world.running("low")
        await until_told(service, store, "low", "started")
        monkeypatch.setattr(service.sql_writer._store, "tell", lost)
        uid = (await world.create(world.pod("high", 1, queue=f"{world.run}-high")))["metadata"]["uid"]
        await world.until(PODS, "low", lambda pod: pod["metadata"].get("deletionTimestamp"))
    assert not await evictions()
    for _ in range(2):
        async with start(policy=PREEMPT) as service:
            await until_told(service, store, "low", PREEMPTED)
            await service.sql_writer.flushed()
            (told,) = await evictions()
            assert (told.detail["pod"], told.detail["byUid"], told.detail["byQueue"]) == (
                "low",
                uid,
                f"{world.run}-high",
            )
            assert told.detail["why"].startswith("evicted for a job of queue")
            (gang,) = [one for one in service.state.gangs.values() if one.name.endswith("low")]
            assert service._evictor.evictable._recent(identity(gang)[0], time.time_ns()) == 1
    await world.client.patch(PODS, "low", world.namespace, {"metadata": {"finalizers": None}})


@pytest.mark.cluster
async def test_a_gang_whose_binding_a_kill_cut_in_two_had_its_places_once(
    world: World, start: Start, store: Store, queue: str
) -> None:
    await world.play(1, 2)
    faults(world, {**BINDING, "latency": 0.01, "count": 1}, {**BINDING, "latency": 60})
    async with start() as service:
        await world.gang("g", 2, 1, queue)
        await until_told(service, store, "g", "admitted", "bound")
    assert len(await world.bound()) == 1
    faults(world)
    async with start() as service:
        await world.running("g-0", "g-1")
        await until_told(service, store, "g", "bound", "bound", "started")
        await service.sql_writer.flushed()
    assert [event.event for event in await told(store, "g")].count("admitted") == 1


@pytest.mark.cluster
async def test_victims_that_a_killed_scheduler_did_not_come_to_are_evicted_while_the_others_end(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 2)

    def evict(**more: Any) -> dict[str, Any]:
        return {"verb": "delete", "resource": "pods", **more}

    async def leaving() -> set[str]:
        pods = (await world.client.list(PODS, world.namespace)).items
        return {pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")}

    async with start(policy=PREEMPT):
        for name in ("a", "b"):
            pod = world.pod(name, 1, queue=f"{world.run}-low")
            pod["metadata"]["finalizers"] = ["t9ksched.test/held"]
            await world.create(pod)
        await world.running("a", "b")
        faults(world, evict(latency=0.01, count=1), evict(latency=60))
        await world.create(world.pod("high", 2, queue=f"{world.run}-high"))
        async with asyncio.timeout(30):
            while not await leaving():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert len(await leaving()) == 1
    faults(world)
    async with start(policy=PREEMPT):
        async with asyncio.timeout(30):
            while await leaving() != {"a", "b"}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for name in ("a", "b"):
            await world.client.delete(PODS, name, world.namespace, grace=0)
            await world.client.patch(PODS, name, world.namespace, {"metadata": {"finalizers": None}})
        await world.running("high")
