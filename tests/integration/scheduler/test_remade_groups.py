"""A PodGroup that is deleted and made anew while pods of the one before run, from outside."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World

TIMEOUT = 90


async def charged(store: Store) -> dict[str, int]:
    """How many spans of pods on cards are open, by UID of the job that is charged."""
    open_spans: dict[str, int] = {}
    async for piece in store.usage.running(datetime.now(UTC)):
        for span in piece:
            open_spans[span.uid] = open_spans.get(span.uid, 0) + 1
    return open_spans


async def until_charged(store: Store, expected: dict[str, int]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while await charged(store) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_limit_of_the_new_group_ends_no_pod_of_the_old_and_each_pays_for_its_own(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 4)

    async def made(limit: str = "") -> str:
        group: Any = world.group("team", 2, queue)
        group["metadata"]["annotations"] = {names.TIME_LIMIT_ANNOTATION: limit} if limit else {}
        return str((await world.create(group))["metadata"]["uid"])

    async with start():
        first = await made()
        await world.create(*(world.pod(f"old-{index}", 1, group="team") for index in range(2)))
        await world.running("old-0", "old-1")
        await until_charged(store, {first: 2})
        await world.client.delete(PODGROUPS, "team", world.namespace)
        await world.gone(PODGROUPS, "team")
    async with start():  # what it was placed in outlives the process
        second = await made("1s")
        await world.create(world.pod("new", 1, group="team"))
        await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "team")
        await world.gone(PODS, "new")
        await world.running("old-0", "old-1")
        await until_charged(store, {first: 2})
        for name in ("old-0", "old-1"):
            await world.client.delete(PODS, name, world.namespace)
        await until_charged(store, {})
        hours = await store.usage.report(["job"], since=None, until=datetime.now(UTC), now=datetime.now(UTC))
        assert sum(amount.jobs for amount in hours.values()) == 2
        assert all(amount.held < amount.amount for amount in hours.values()), "all of them ran"
        assert second
