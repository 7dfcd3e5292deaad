"""Notebooks that nobody uses are suspended by the policy, their users told before, and what is used again is not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.controller.activity import Asking
from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import AlreadyExists
from t9ksched.kube.resources import CONFIGMAPS, EVENTS, NAMESPACES, PODS, of
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.model.idle_policy import CONFIG_MAP, KEY
from t9ksched.model.names import KEEP_UNTIL_ANNOTATION, SYSTEM_NAMESPACE
from t9ksched.model.notification import SUSPENDED, Address
from t9ksched.scheduler.keep.idle_keeper import IdleKeeper
from t9ksched.store.notifications import new_target
from t9ksched.store.store import Store
from t9ksched.workloads.answers import Activity, Question
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World
from tests.unit.workloads.builders import notebook

Object = dict[str, Any]


class Time:
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> int:
        return int(self.now.timestamp() * 1_000_000_000)


async def made(world: World, name: str, idle_for: timedelta, at: datetime, **annotations: str) -> Object:
    """A Notebook of which its controller says that it was idle for so long at that time."""
    book = notebook()
    book["metadata"] = {"name": name, "namespace": world.namespace, "annotations": annotations}
    there = await world.client.create(of(book), book)
    return await tell(world, there, idle_for, at)


async def tell(world: World, book: Object, idle_for: timedelta, at: datetime) -> Object:
    there = await world.client.get(of(book), book["metadata"]["name"], world.namespace)
    idle = {"type": "Idle", "status": "True" if idle_for else "False", "reason": "NoActivity", "message": ""}
    activity = {"lastActivity": (at - idle_for).isoformat(), "checkedAt": at.isoformat()}
    status = {"phase": "Running", "conditions": [idle], "activity": activity}
    return await world.client.replace_status(of(book), there | {"status": status})


@pytest.fixture
async def policy(world: World) -> AsyncIterator[None]:
    """Notebooks are suspended after a day; the warning comes an hour before."""
    if world.real:
        pytest.skip("the policy of a shared server is not changed")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    with suppress(AlreadyExists):
        await world.client.create(NAMESPACES, space)
    meta = {"name": CONFIG_MAP, "namespace": SYSTEM_NAMESPACE}
    data = {KEY: "policy: {notebook: {scanInterval: 10, idleTimeout: 86400}}"}
    await world.client.create(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    yield
    await world.client.delete(CONFIGMAPS, CONFIG_MAP, SYSTEM_NAMESPACE)


async def until(holds: Callable[[], Any], time: Time | None = None) -> Any:
    """With `time` it goes on now and then by more than a scan interval: the look before may have come too early."""
    for turn in range(1, 1201):
        if found := await holds():
            return found
        if time is not None and turn % 40 == 0:
            time.now += timedelta(seconds=11)
        await asyncio.sleep(0.05)
    raise AssertionError("it never came")


async def said(world: World, reason: str) -> dict[str, str]:
    events = (await world.client.list(EVENTS, world.namespace)).items
    return {each["involvedObject"]["name"]: each["message"] for each in events if each["reason"] == reason}


async def suspended(world: World) -> set[str]:
    books = (await world.client.list(of(notebook()), world.namespace)).items
    return {each["metadata"]["name"] for each in books if each["spec"].get("suspend")}


@pytest.mark.cluster
async def test_the_idle_are_warned_and_then_suspended(world: World, start: Start, store: Store, policy: None) -> None:
    time = Time()
    begin = time.now
    day, hour = timedelta(hours=24), timedelta(hours=1)
    for name, idle_for in (("gone", day), ("back", day), ("fresh", hour)):
        await made(world, name, idle_for, time.now)
    await made(world, "kept", day, time.now, **{KEEP_UNTIL_ANNOTATION: (time.now + 9 * day).isoformat()})
    await made(world, "typo", day, time.now, **{KEEP_UNTIL_ANNOTATION: "soon"})
    async with start(clock=time):
        near = await until(lambda: said(world, "SuspensionNear"), time)
        near = await until(lambda: _all(world, {"gone", "back", "typo"}), time)
        assert "nobody used it since" in near["gone"]
        assert "keep-until is ignored" in (await until(lambda: said(world, "Refused")))["typo"]
        assert await suspended(world) == set(), "nobody is suspended at once"

        time.now += hour
        for book, idle_for in (("gone", day + hour), ("back", timedelta()), ("typo", day + hour), ("kept", 2 * day)):
            await tell(world, notebook() | {"metadata": {"name": book}}, idle_for, begin + hour)
        assert await until(lambda: _suspended(world, {"gone", "typo"}), time)
        assert "resume it" in (await until(lambda: said(world, "SuspendedIdle")))["gone"]
    events = await store.history.list(namespace=world.namespace)
    told = {each.name: each for each in events if each.event == "suspended-idle"}
    assert told.keys() == {"gone", "typo"}
    assert datetime.fromisoformat(told["gone"].detail["idleSince"]) == begin - day


async def _all(world: World, wanted: set[str]) -> dict[str, str]:
    found = await said(world, "SuspensionNear")
    return found if wanted <= found.keys() else {}


async def _suspended(world: World, wanted: set[str]) -> bool:
    return await suspended(world) == wanted


class Jupyter:
    """What is asked whether anybody uses it, and by which clock."""

    def __init__(self, time: Time) -> None:
        self.time, self.used, self.busy = time, time.now, ""

    async def __call__(self, question: Question) -> Activity:
        return Activity(self.used, self.busy)


async def is_idle(world: World, name: str, idle: str) -> bool:
    conditions = (await world.client.get(of(notebook()), name, world.namespace)).get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Idle", idle) for each in conditions)


async def count(store: Store, event: str) -> int:
    return len(await store.history.list(event=event))


@pytest.mark.cluster
async def test_from_the_last_use_to_the_cards_that_came_free_and_back(
    world: World, start: Start, store: Store, queue: str, policy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything together: controllers that ask, a scheduler, another that takes over between warning and end and dies
    between the suspension and its record, and a third one that tells of it once.
    """
    time, hour = Time(), timedelta(hours=1)
    address = Address("webhook", "http://127.0.0.1:9/", "http://127.0.0.1:9/…")
    await store.notifications.add(new_target(address, "eve", {SUSPENDED}, queue=queue), 10, by="eve")
    jupyter = Jupyter(time)
    await world.play(1, 2)
    account = await world.account(CONTROLLER)
    controllers = Controllers(account, clock=lambda: time.now, asking=Asking(jupyter, 0.1))
    running = asyncio.create_task(controllers.run())
    book = notebook(scheduler={"t9kScheduler": {"queue": queue}})
    book["metadata"] = {"name": "book", "namespace": world.namespace}
    pod = "managed-notebook-book-0"
    try:
        async with start(clock=time):
            await world.client.create(of(book), book)
            await world.running(pod)
            assert await until(lambda: is_idle(world, "book", "False"))
            time.now += 23 * hour + timedelta(minutes=2)
            assert await until(lambda: is_idle(world, "book", "True"))
            assert await until(lambda: count(store, "suspension-near"), time)
        async with start(clock=time):
            assert await until(lambda: _is(store, "suspension-near", 2), time), "the next leader tells once more"
            assert await suspended(world) == set()
            tells = IdleKeeper._suspended
            monkeypatch.setattr(IdleKeeper, "_suspended", lambda *_: None)
            time.now += hour
            assert await until(lambda: _suspended(world, {"book"}), time)
            assert await until(lambda: _gone(world, pod))
        assert await count(store, "suspended-idle") == 0
        monkeypatch.setattr(IdleKeeper, "_suspended", tells)
        async with start(clock=time):
            assert await until(lambda: _is(store, "suspended-idle", 1))
            time.now += 2 * hour
            jupyter.busy = "1 of its kernels works"
            await world.client.patch(of(book), "book", world.namespace, {"spec": {"suspend": False}})
            await world.running(pod)
            assert await until(lambda: is_idle(world, "book", "False"))
            assert await until(lambda: _is(store, "bound", 2))
            until_now = time.now + hour
            (found,) = (await store.usage.report(["job"], since=None, until=until_now, now=until_now)).values()
            assert [round(each / 3_600_000_000) for each in (found.idle, found.free)] == [24, 2]
            assert await count(store, "suspended-idle") == 1
            assert await store.notifications.waiting() == 1
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _is(store: Store, event: str, wanted: int) -> bool:
    return await count(store, event) == wanted


async def _gone(world: World, pod: str) -> bool:
    return pod not in {each["metadata"]["name"] for each in (await world.client.list(PODS, world.namespace)).items}
