"""Notebooks that nobody uses are suspended by the policy, their users told before, and what is used again is not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.kube.errors import AlreadyExists
from t9ksched.kube.resources import CONFIGMAPS, EVENTS, NAMESPACES, of
from t9ksched.model.idle_policy import CONFIG_MAP, KEY
from t9ksched.model.names import KEEP_UNTIL_ANNOTATION, SYSTEM_NAMESPACE
from t9ksched.store.store import Store
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


async def until(holds: Callable[[], Any]) -> Any:
    for _ in range(1200):
        if found := await holds():
            return found
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
    day, hour = timedelta(hours=24), timedelta(hours=1)
    for name, idle_for in (("gone", day), ("back", day), ("fresh", hour)):
        await made(world, name, idle_for, time.now)
    await made(world, "kept", day, time.now, **{KEEP_UNTIL_ANNOTATION: (time.now + 9 * day).isoformat()})
    await made(world, "typo", day, time.now, **{KEEP_UNTIL_ANNOTATION: "soon"})
    async with start(clock=time):
        near = await until(lambda: said(world, "SuspensionNear"))
        near = await until(lambda: _all(world, {"gone", "back", "typo"}))
        assert "nobody used it since" in near["gone"]
        assert "keep-until is ignored" in (await until(lambda: said(world, "Refused")))["typo"]
        assert await suspended(world) == set(), "nobody is suspended at once"

        time.now += hour
        for book, idle_for in (("gone", day + hour), ("back", timedelta()), ("typo", day + hour), ("kept", 2 * day)):
            await tell(world, notebook() | {"metadata": {"name": book}}, idle_for, time.now)
        assert await until(lambda: _suspended(world, {"gone", "typo"}))
        assert "resume it" in (await until(lambda: said(world, "SuspendedIdle")))["gone"]
    events = await store.history.list(namespace=world.namespace)
    told = {each.name: each for each in events if each.event == "suspended-idle"}
    assert told.keys() == {"gone", "typo"}
    assert datetime.fromisoformat(told["gone"].detail["idleSince"]) == time.now - day - hour


async def _all(world: World, wanted: set[str]) -> dict[str, str]:
    found = await said(world, "SuspensionNear")
    return found if wanted <= found.keys() else {}


async def _suspended(world: World, wanted: set[str]) -> bool:
    return await suspended(world) == wanted
