"""What is edited after acceptance does not count: an event says so once, and the explanation as long as it is so."""

import asyncio
from typing import Any

import pytest

from t9ksched.kube.resources import EVENTS, PODGROUPS, PODS
from t9ksched.model import names
from t9ksched.scheduler.report import history_recorder
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_endings import ask
from tests.integration.world import TIMEOUT, World


async def ignored(world: World, about: str) -> list[Any]:
    """The events that say so of one object."""
    events = (await world.client.list(EVENTS, world.namespace)).items
    return [
        event
        for event in events
        if event["reason"] == names.EVENT_EDIT_IGNORED and event["involvedObject"]["name"] == about
    ]


async def test_an_edit_that_does_not_count_is_told_once(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 8)
    other = f"{world.run}-other"
    await store.queues.create(other, {}, world.queue_spec, {"everyone": True})
    async with start() as service:
        await world.gang("g", 2, 1, queue)
        await world.create(world.pod("alone", 1, queue=queue))
        await world.running("g-0", "g-1", "alone")

        async def edit(about: str) -> list[str]:
            """What is told of the job after its queue was edited, and something else of it twice."""
            res, body = (
                (PODGROUPS, {"spec": {"queue": other}})
                if about == "g"
                else (PODS, {"metadata": {"labels": {names.QUEUE_LABEL: other}}})
            )
            await world.client.patch(res, about, world.namespace, body)
            for value in ("1", "2"):
                note = {"metadata": {"labels": {"note": value}, "annotations": {"note": value}}}
                await world.client.patch(res, about, world.namespace, note)
            event = await world.event(names.EVENT_EDIT_IGNORED, about)
            assert event["type"] == "Warning"
            assert f"accepted in {queue!r} and stays there" in event["message"]
            explained = await ask(service, world, f"{res.kind}/{about}/explanation")
            return [warning["message"] for warning in explained["warnings"]]

        for about in ("g", "alone"):
            (told,) = await edit(about)
            assert f"accepted in {queue!r} and stays there" in told
        # The events of another object that was edited later are written: nothing of the first is under way.
        await world.create(world.pod("last", 1, queue=queue))
        await world.running("last")
        await edit("last")
        for about in ("g", "alone"):
            (event,) = await ignored(world, about)
            assert event.get("count", 1) == 1, event


@pytest.mark.parametrize("meanwhile", [False, True], ids=["while it leads", "before a start"])
async def test_a_pod_that_was_never_accepted_is_followed_to_another_queue(
    world: World, start: Start, queue: str, store: Store, meanwhile: bool
) -> None:
    await world.play(1, 8)
    await store.queues.create(f"{world.run}-shut", {}, {**world.queue_spec, "closed": True}, {"everyone": True})
    label = {"metadata": {"labels": {names.QUEUE_LABEL: queue}}}
    async with start() as service:
        for name, where in (("unknown", f"{world.run}-nix"), ("closed", f"{world.run}-shut")):
            await world.create(world.pod(name, 1, queue=where))
            async with asyncio.timeout(TIMEOUT):
                while not any(gang.name == name and gang.reasons for gang in service.state.pending):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            if not meanwhile:
                await world.client.patch(PODS, name, world.namespace, label)
        if not meanwhile:
            await world.running("unknown", "closed")
    for name in ("unknown", "closed") if meanwhile else ():
        await world.client.patch(PODS, name, world.namespace, label)
    async with start():
        await world.running("unknown", "closed")
        assert await ignored(world, "unknown") == await ignored(world, "closed") == []


async def test_a_minimum_raised_while_a_group_runs(world: World, start: Start, queue: str) -> None:
    """The job goes on as it is: list, explanation, PodGroup and event say what counts, before and after a restart."""
    await world.play(1, 8)
    for runs in (1, 2):
        async with start() as service:
            if runs == 1:
                await world.gang("g", 2, 1, queue)
                await world.running("g-0", "g-1")
                await world.until(PODGROUPS, "g", lambda group: "running" in (group.get("status") or {}))
                await world.client.patch(PODGROUPS, "g", world.namespace, {"spec": {"minMember": 7}})
                event = await world.event(names.EVENT_EDIT_IGNORED, "g")
                assert "asks for 7 members" in event["message"]
            explained = await ask(service, world, "PodGroup/g/explanation")
            job = explained["job"]
            assert (job["phase"], job["members"]["min"], job["members"]["running"]) == ("Running", 2, 2)
            assert explained["verdict"] == "Placed"
            (warning,) = explained["warnings"]
            assert "2 count until it starts again" in warning["message"]

            def tells(group: Any, text: str = warning["message"]) -> bool:
                condition = group["status"]["conditions"][0]
                return bool(condition["message"] == f"2 members exist. {text}" and condition["status"] == "True")

            await world.until(PODGROUPS, "g", tells)


async def test_a_group_that_began_just_before_an_orderly_stop_keeps_the_minimum_that_it_began_with(
    world: World, start: Start, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_recorder, "JOB_PERIOD", 60)  # it stops before it looks at jobs again
    await world.play(1, 8)
    async with start() as service:
        await world.create(world.pod("alone", 1, queue=queue))
        await world.running("alone")
        await service.sql_writer.flushed()
        await world.create(world.group("g", 2, queue))
        for name in ("g-0", "g-1", "g-2"):
            await world.create(world.pod(name, 1, group="g"))
        await world.running("g-0", "g-1", "g-2")
    await world.client.patch(PODGROUPS, "g", world.namespace, {"spec": {"minMember": 3}})
    await world.client.delete(PODS, "g-2", world.namespace, grace=0)
    async with start() as service:
        await world.event(names.EVENT_EDIT_IGNORED, "g")
        job = (await ask(service, world, "PodGroup/g/explanation"))["job"]
        assert (job["phase"], job["members"]["min"], job["members"]["running"]) == ("Running", 2, 2)


async def test_a_minimum_raised_to_all_that_was_accepted_does_not_count_after_a_restart(
    world: World, start: Start, queue: str
) -> None:
    """A group that began with one of its three members, and lost one since, is not below the minimum it began with."""
    await world.play(1, 8)
    minima = [{"name": "lead", "minMember": 1}]
    async with start():
        await world.create(world.group("g", 1, queue, roles=minima))
        for name, role in (("g-0", "lead"), ("g-1", "worker"), ("g-2", "worker")):
            one = world.pod(name, 1, group="g")
            one["metadata"]["labels"][names.ROLE_LABEL] = role
            await world.create(one)
        await world.running("g-0", "g-1", "g-2")
        await world.until(PODGROUPS, "g", lambda group: (group.get("status") or {}).get("running") == 3)
    minima = [*minima, {"name": "worker", "minMember": 2}]
    await world.client.patch(PODGROUPS, "g", world.namespace, {"spec": {"minMember": 3, "roles": minima}})
    await world.client.delete(PODS, "g-2", world.namespace, grace=0)
    async with start() as service:
        await world.event(names.EVENT_EDIT_IGNORED, "g")
        explained = await ask(service, world, "PodGroup/g/explanation")
        job = explained["job"]
        assert (job["phase"], job["members"]["min"], job["members"]["running"]) == ("Running", 1, 2)
        assert [one["message"].split(": ")[1] for one in explained["warnings"]] == [
            "it runs since it had 1, and 1 count until it starts again",
            "it runs since it had 1 of role lead, and 1 of role lead count until it starts again",
        ]
