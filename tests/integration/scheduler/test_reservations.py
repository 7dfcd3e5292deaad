"""Reservations by administrators from outside: others leave the room, those it is for get it, and it ends by itself."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.engine.policy import Planning, Policy
from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import moment_at, written_moment
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store import history
from t9ksched.store.advance_reservations import ReservationRecord, ReservationsChanged
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_failures import happened
from tests.integration.scheduler.test_planned_starts import job_of
from tests.integration.world import TIMEOUT, Object, World

POLICIES = pytest.mark.parametrize("policy", [Policy(), Policy(planning=Planning(per_user=100))], ids=["", "planning"])


def at(seconds: float) -> str:
    """So many seconds from now."""
    return written_moment(moment_at(time.time_ns() + round(seconds * 1e9)))


def asking(name: str = "r", begin: float = -1, end: float = 3600, **fields: Any) -> Object:
    """A reservation by these seconds from now."""
    raw = {"name": name, "from": at(begin), "to": at(end), "for": "maintenance"} | fields
    return parse_reservation({key.rstrip("_"): value for key, value in raw.items()}).to_dict()


async def reserve(store: Store, spec: Object, *nodes: str) -> ReservationRecord:
    return await store.reservations.create(spec, nodes, await store.changes.head(), by="root")


async def edit(store: Store, spec: Object, nodes: Iterable[str], expected: int | None = None) -> ReservationRecord:
    """The leader may write what becomes of reservations in between: then it is tried again, as REST does."""
    while True:
        with suppress(ReservationsChanged):
            head = await store.changes.head()
            return await store.reservations.edit(spec["name"], spec, tuple(nodes), head, expected, by="root")


async def follows(service: SchedulerService, store: Store, name: str) -> None:
    """The leader knows the reservation as it is stored, or that there is none."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            known, record = service.state.advance.known.get(name), await store.reservations.get(name)
            if (known.record if known is not None else None) == record:
                return
            await asyncio.sleep(0.02)


async def judged(service: SchedulerService, spec: Object) -> Object:
    return await service._internal._judge(spec)


def pod(world: World, name: str, gpus: int, queue: str, **annotations: str) -> Object:
    written = {f"scheduler.tensorstack.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return world.pod(name, gpus, queue=queue, annotations=written, terminationGracePeriodSeconds=1)


async def waits_for(world: World, name: str) -> str:
    return str((await world.event(names.EVENT_WAITING, name))["message"])


async def stored(store: Store, name: str, **expected: Any) -> ReservationRecord:
    """The reservation, once SQL has these values of it."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            record = await store.reservations.get(name)
            assert record is not None
            if all(getattr(record, key) == value for key, value in expected.items()):
                return record
            await asyncio.sleep(0.1)


async def limit_of(service: SchedulerService, world: World, name: str) -> Object:
    """The time limit of a pod, once it has one."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            limit = (await job_of(service, "pod", name, world.namespace))["job"]["timeLimit"]
            if limit["enforced"]:
                return dict(limit)
            await asyncio.sleep(0.1)


@POLICIES
async def test_nothing_starts_on_a_node_in_maintenance(
    world: World, start: Start, queue: str, store: Store, policy: Policy
) -> None:
    await world.play(2, 2)
    async with start(policy=policy) as service:
        await reserve(store, asking("firmware", nodes={"names": world.nodes[:1]}), world.nodes[0])
        await follows(service, store, "firmware")
        await world.create(pod(world, "first", 2, queue))
        (running,) = await world.running("first")
        assert running["spec"]["nodeName"] == world.nodes[1]
        await world.create(pod(world, "second", 2, queue))
        told = await waits_for(world, "second")
        assert "planned to start at" in told or "reservation 'firmware' keeps the room" in told
        await store.reservations.delete("firmware")
        await world.running("second")


@POLICIES
async def test_who_names_a_reservation_starts_when_it_begins_and_ends_with_it(
    world: World, start: Start, queue: str, store: Store, policy: Policy
) -> None:
    await world.play(2, 2)
    async with start(policy=policy) as service:
        spec = asking("eval", 3, 19, nodes={"names": world.nodes[:1]}, for_={"queues": [queue]})
        await reserve(store, spec, world.nodes[0])
        await follows(service, store, "eval")
        await world.create(
            pod(world, "mine", 2, queue, reservation="eval"), pod(world, "no", 1, queue, reservation="x")
        )
        assert "eval" in await waits_for(world, "mine") or "planned to start at" in await waits_for(world, "mine")
        assert "does not exist" in (await world.event(names.EVENT_REFUSED, "no"))["message"]
        (running,) = await world.running("mine")
        assert running["spec"]["nodeName"] == world.nodes[0]
        assert at(0) >= spec["from"]
        limit = await limit_of(service, world, "mine")
        assert limit["source"] == "reservation"
        assert limit["seconds"] <= 6
        await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "mine")
        async with asyncio.timeout(TIMEOUT):
            while "mine" in await world.bound():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert at(0) <= spec["to"]


async def test_what_nobody_uses_is_released(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 2)
    async with start() as service:
        spec = asking("idle", nodes={"names": world.nodes}, for_={"queues": ["other"]}, releaseUnusedAfter="4s")
        await reserve(store, spec, *world.nodes)
        await follows(service, store, "idle")
        await world.create(pod(world, "waits", 2, queue))
        assert "reservation 'idle' keeps the room" in await waits_for(world, "waits")
        released = await happened(store, history.RESERVATION_RELEASED, "idle")
        assert "was not used for 4s" in released.detail["message"]
        await world.running("waits")
        record = await store.reservations.get("idle")
        assert record is not None
        assert record.ended is not None
        assert record.ended.why == "Released"
        assert service.state.advance.counts["Released"] == 1


async def test_what_nobody_uses_is_released_by_a_service_that_restarts_more_often(
    world: World, start: Start, store: Store
) -> None:
    await world.play(1, 2)
    spec = asking("idle", nodes={"names": world.nodes}, for_={"queues": ["other"]}, releaseUnusedAfter="6s")
    await reserve(store, spec, *world.nodes)
    ran = 0.0
    while not await store.history.list(events=[history.RESERVATION_RELEASED], name="idle"):
        assert ran < TIMEOUT
        async with start():
            await asyncio.sleep(2)
        ran += 2


async def test_an_edit_of_one_that_was_released_today_is_about_the_days_to_come(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start() as service:
        mine = {"nodes": {"names": world.nodes}, "for_": {"queues": ["other"]}}
        spec = asking("idle", every="daily", releaseUnusedAfter="2s", **mine)
        made = await reserve(store, spec, *world.nodes)
        await happened(store, history.RESERVATION_RELEASED, "idle")
        await world.create(pod(world, "uses", 2, queue, time_limit="4h"))
        await world.running("uses")
        tomorrow = spec | {"drainAhead": "1h", "to": at(7200)}
        judgement = await judged(service, tomorrow)
        assert (judgement["conflicts"], judgement["faults"]) == ([], [])
        other = asking("other", 60, 3000, nodes=mine["nodes"], for_={"queues": [queue]})
        assert (await judged(service, other))["conflicts"] == [], "the room of the one that was released is free"
        edited = await edit(store, tomorrow, world.nodes, made.revision)
        await follows(service, store, "idle")
        assert edited.ended is not None
        present = service.state.advance.known["idle"].present(time.time_ns())
        assert present is not None
        assert written_moment(moment_at(present.begin)) > at(20 * 3600)
        once = await judged(service, tomorrow | {"every": ""})
        assert [one["kind"] for one in once["conflicts"]] == ["job"], "it is to begin again"


async def test_room_that_others_held_until_the_end_was_missed(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start():
        await world.create(pod(world, "stays", 2, queue))
        await world.running("stays")
        await reserve(store, asking("late", 0, 5, nodes={"names": world.nodes}, onConflict="Wait"), *world.nodes)
        missed = await happened(store, history.RESERVATION_MISSED, "late")
        assert "others held its room" in missed.detail["message"]
        assert "stays" in await world.bound(), "it goes on"


async def test_a_lost_node_is_replaced(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(3, 2)
    async with start() as service:
        labels = {"matchLabels": {"t9ksched.test/run": world.run}}
        spec = asking("two", 3600, 7200, nodes={"selector": labels, "count": 2})
        judgement = await judged(service, spec)
        assert (judgement["nodes"], judgement["faults"], judgement["conflicts"]) == (world.nodes[:2], [], [])
        await reserve(store, spec, *judgement["nodes"])
        await follows(service, store, "two")
        await world.client.delete(NODES, world.nodes[0])
        await stored(store, "two", nodes=tuple(world.nodes[1:]))
        more = asking("more", 3600, 7200, nodes={"selector": labels, "count": 1})
        assert (await judged(service, more))["faults"][0]["path"] == "nodes.count"


async def test_who_is_in_the_way_is_told(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(2, 2)
    await store.queues.create(f"{world.run}-eval", {}, world.queue_spec, {"everyone": True})
    async with start(policy=Policy(planning=Planning(per_user=100))) as service:
        await world.create(pod(world, "long", 2, queue, time_limit="4h"), pod(world, "endless", 2, queue))
        places = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in await world.running("long", "endless")}
        own = pod(world, "own", 1, queue)
        spec = asking("r", 3600, 7200, nodes={"names": world.nodes}, for_={"queues": [f"{world.run}-eval"]})
        judgement = await judged(service, spec)
        until = {one["name"].rpartition("/")[2]: one["until"] for one in judgement["conflicts"]}
        assert until["endless"] is None
        assert at(4 * 3600) <= until["long"] <= at(5 * 3600)
        assert [one["nodes"] for one in judgement["jobs"] if one["name"].endswith("/long")] == [[places["long"]]]
        assert (await judged(service, spec | {"onConflict": "Wait"}))["conflicts"] == []
        later = asking("r", 5 * 3600, 6 * 3600, nodes={"names": [places["long"]]}, for_="maintenance")
        assert (await judged(service, later))["conflicts"] == [], "it has ended by then"
        assert (await judged(service, spec | {"for": {"queues": [queue]}}))["conflicts"] == [], "its own jobs"
        await world.create(own)
        await waits_for(world, "own")
        plans = (await judged(service, later | {"from": at(3 * 3600)}))["plans"]
        assert [one["job"].rpartition("/")[2] for one in plans] == ["own"]
        unknown = asking("r", 60, 120, nodes={"names": ["nowhere"]})
        assert (await judged(service, unknown))["faults"] == [
            {"path": "nodes.names", "message": "there is no node 'nowhere'"}
        ]
        parts = asking("p", 60, 120, nodes={"names": world.nodes[:1]}, cards={"resource": "nvidia.com/gpu", "count": 3})
        assert (await judged(service, parts))["faults"][0]["path"] == "cards.count"


async def test_reservations_do_not_overlap(world: World, start: Start, store: Store) -> None:
    await world.play(2, 4)
    async with start() as service:
        first = asking("first", 3600, 7200, nodes={"names": world.nodes[:1]}, for_={"users": ["ann"]})
        await reserve(store, first, world.nodes[0])
        same = {"nodes": {"names": world.nodes}, "for_": {"users": ["bob"]}}
        (conflict,) = (await judged(service, asking("second", 7000, 9000, **same)))["conflicts"]
        assert (conflict["kind"], conflict["name"], conflict["nodes"]) == ("reservation", "first", world.nodes[:1])
        assert (await judged(service, asking("second", 7200, 9000, **same)))["conflicts"] == []
        assert (await judged(service, asking("m", 7000, 9000, nodes=same["nodes"])))["conflicts"] == [], "maintenance"
        half = {"cards": {"resource": "nvidia.com/gpu", "count": 2}, "for_": {"users": ["bob"]}}
        part = asking("part", 9000, 9900, nodes={"names": world.nodes[:1]}, **half)
        await reserve(store, part, world.nodes[0])
        for count, fits in ((2, True), (3, False)):
            other = asking("other", 9000, 9900, nodes={"names": world.nodes[:1]}, **half)
            other["cards"]["count"] = count
            assert ((await judged(service, other))["conflicts"] == []) is fits


async def test_a_restart_knows_what_is_reserved(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 2)
    await reserve(store, asking("r", nodes={"names": world.nodes}), *world.nodes)
    async with start():
        await world.create(pod(world, "waits", 1, queue))
        assert "reservation 'r' keeps the room" in await waits_for(world, "waits")
    async with start():
        await asyncio.sleep(1)
        assert (await world.client.get(PODS, "waits", world.namespace))["spec"].get("nodeName") is None


async def test_a_reservation_moves_a_plan_and_is_the_cause(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start(policy=Policy(planning=Planning(per_user=100))):
        await world.create(pod(world, "first", 2, queue, time_limit="1h"))
        await world.running("first")
        await world.create(pod(world, "second", 2, queue, time_limit="4h"))
        assert "planned to start at" in await waits_for(world, "second")
        await reserve(store, asking("firmware", 4 * 3600, 6 * 3600, nodes={"names": world.nodes}), *world.nodes)
        moved = await world.event(names.EVENT_PLAN_MOVED, "second")
        assert "reservation 'firmware' needs the room" in moved["message"]


async def test_the_rest_of_a_reservation_as_a_limit_outlives_a_restart_and_the_reservation(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start() as service:
        spec = asking("eval", -60, 3600, nodes={"names": world.nodes}, for_={"queues": [queue]})
        record = await reserve(store, spec, *world.nodes)
        await follows(service, store, "eval")
        await world.create(pod(world, "mine", 1, queue, reservation="eval"))
        (running,) = await world.running("mine")
        clocks, uid = service.state.clocks, running["metadata"]["uid"]
        # The rest is counted from then on.
        await until(lambda: (clock := clocks.by_job.get(uid)) is not None and clock.run.ran_at)
        before = await limit_of(service, world, "mine")
        assert (before["source"], 3300 < before["seconds"] < 3600) == ("reservation", True)
        longer = spec | {"to": at(7200)}
        await edit(store, longer, record.nodes)
        await follows(service, store, "eval")
        await asyncio.sleep(0.3)  # several cycles
        assert await limit_of(service, world, "mine") == before, "what it was given stands"
    async with start() as service:
        assert abs((await limit_of(service, world, "mine"))["seconds"] - before["seconds"]) <= 1
        await store.reservations.delete("eval")
        await follows(service, store, "eval")
        await asyncio.sleep(0.3)
        assert abs((await limit_of(service, world, "mine"))["seconds"] - before["seconds"]) <= 1


async def test_a_node_in_place_of_a_lost_one_moves_the_plans_on_it(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(2, 2)
    async with start(policy=Policy(planning=Planning(per_user=100))) as service:
        await world.create(pod(world, "first", 2, queue, time_limit="1h"))
        (running,) = await world.running("first")
        held = running["spec"]["nodeName"]
        (free,) = set(world.nodes) - {held}
        labels = {"matchLabels": {"t9ksched.test/run": world.run}}
        spec = asking("two", 4 * 3600, 6 * 3600, nodes={"selector": labels, "count": 1}, for_={"users": ["ann"]})
        await reserve(store, spec, free)
        await follows(service, store, "two")
        await world.create(pod(world, "second", 2, queue, time_limit="5h"))
        assert "planned to start at" in await waits_for(world, "second")
        await world.client.delete(NODES, free)
        await stored(store, "two", nodes=(held,))
        moved = await world.event(names.EVENT_PLAN_MOVED, "second")
        assert "reservation 'two' needs the room" in moved["message"]
        replaced = await happened(store, history.RESERVATION_NODES_REPLACED, "two")
        assert replaced.detail["message"] == f"reservation two: node {free} is gone, {held} takes its place"
