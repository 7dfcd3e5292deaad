"""Cards of a node that honours indices are whose the scheduler's own record says, whatever annotations say by now."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import Executable

from t9ksched.devcluster.agents import register
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.kube.resources import PODS
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.model import names
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.database import Database
from t9ksched.store.errors import StoreError
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import GPU, RUN_LABEL, TIMEOUT, World

pytestmark = pytest.mark.cluster
KEY = f"{names.GPU_INDEX_PREFIX}main"
FORGERIES = {"others": "6,7", "gone": None, "garbage": "zero", "out-of-range": "62,63", "too-few": "7"}


async def forge(world: World, pod: str, text: str | None) -> None:
    await world.client.patch(PODS, pod, world.namespace, {"metadata": {"annotations": {KEY: text}}})


async def cards_of(world: World, *pods: str) -> list[str]:
    return [pod["metadata"]["annotations"][KEY] for pod in await world.running(*pods)]


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
async def test_a_forged_annotation_gives_no_card_away_after_a_restart(
    world: World, start: Start, queue: str, text: str | None
) -> None:
    await world.play(1, 8, cardMode=names.HONOURS_INDEX)
    async with start():
        await world.create(world.pod("victim", 2, queue=queue))
        assert await cards_of(world, "victim") == ["0,1"]
    await forge(world, "victim", text)
    async with start():
        await world.create(world.pod("second", 6, queue=queue))
        assert await cards_of(world, "second") == ["2,3,4,5,6,7"]
    await forge(world, "victim", "0,1")


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def drifting(service: SchedulerService, count: int) -> None:
    async def drift() -> bool:
        return len(service.state.cards.drifting) == count

    await until(drift)


async def test_a_difference_is_told_while_running_and_after_a_restart(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8, cardMode=names.HONOURS_INDEX)
    async with start() as service:
        await world.create(world.pod("p", 2, queue=queue))
        assert await cards_of(world, "p") == ["0,1"]
        await forge(world, "p", "6,7")
        event = await world.event(names.EVENT_CARD_DRIFT, "p")
        assert "'6,7'" in event["message"]
        assert "'0,1'" in event["message"]
        shape = node_shape(service.state, f"{world.run}-n-0")
        assert shape is not None
        assert (shape["cardDrift"], shape["cardsUnknown"]) == (1, 0)
        assert [holder["drift"] for card in shape["gpus"] for holder in card["holders"]] == [True, True]
        assert [card["index"] for card in shape["gpus"] if card["holders"]] == [0, 1]
        assert b"t9ksched_card_drift_pods 1" in await service.metrics()
        await world.create(world.pod("q", 6, queue=queue))
        assert await cards_of(world, "q") == ["2,3,4,5,6,7"]
        await forge(world, "p", "0,1")
        await drifting(service, 0)
        await forge(world, "p", None)
        await drifting(service, 1)
    async with start() as service:
        assert len(service.state.cards.drifting) == 1
    await forge(world, "p", "0,1")


async def test_an_annotation_that_is_there_before_the_binding_counts_for_nothing(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    async with start():
        await world.create(world.pod("p", 1, queue=queue, annotations={KEY: "3"}))
        assert await cards_of(world, "p") == ["0"]


async def test_rows_go_with_their_pods(world: World, start: Start, queue: str, store: Store) -> None:
    """Deleted while the scheduler looks, or while none looks; what has ended keeps its row. Single pods without cards
    have none.
    """
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    short = {"annotations": {"devcluster.tensorstack.dev/run-seconds": "0.1"}}
    async with start():
        await world.create(*(world.pod(name, 1, queue=queue) for name in ("seen", "unseen", "stays")))
        await world.create(world.pod("none", 0, queue=queue))
        await world.create(world.pod("ends", 1, queue=queue, restartPolicy="Never", **short))
        await world.running("seen", "unseen", "stays", "none")
        await world.until(PODS, "ends", lambda pod: pod["status"].get("phase") == "Succeeded")
        assert {row.name for row in await store.bindings.all()} >= {"seen", "unseen", "stays"}
        await world.client.delete(PODS, "seen", world.namespace, grace=0)
        await until_rows(store, {"unseen", "stays", "ends"})
    await world.client.delete(PODS, "unseen", world.namespace, grace=0)
    async with start():
        await until_rows(store, {"stays", "ends"})
        await world.client.delete(PODS, "ends", world.namespace, grace=0)
        await until_rows(store, {"stays"})
    (row,) = await store.bindings.all()
    assert (row.node, row.share, row.honoured) == (f"{world.run}-n-0", 100, True)


async def until_rows(store: Store, pods: set[str]) -> None:
    async def there() -> bool:
        return {row.name for row in await store.bindings.all()} == pods

    await until(there)


async def test_pods_bound_before_there_were_rows_keep_their_cards(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """An upgrade: what annotations say is taken once, and is the record from then on."""
    await world.play(1, 8, cardMode=names.HONOURS_INDEX)
    async with start():
        await world.create(world.pod("old", 2, queue=queue))
        (before,) = await world.running("old")
    await as_an_earlier_release_left_it(store)
    async with start():
        assert [(row.name, dict(row.grant.masks)) for row in await store.bindings.all()] == [("old", {GPU: 0b11})]
    await forge(world, "old", "6,7")
    async with start():
        await world.create(world.pod("new", 6, queue=queue))
        assert await cards_of(world, "new") == ["2,3,4,5,6,7"]
        (after,) = await world.running("old")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
    await forge(world, "old", "0,1")


async def as_an_earlier_release_left_it(store: Store) -> None:
    await store.bindings.write([], [row.pod_uid for row in await store.bindings.all()])
    async with store.database.write() as connection:
        await connection.exec_driver_sql("DELETE FROM meta WHERE key = 'bindings'")


async def test_a_pod_without_a_record_may_hold_any_card_of_its_node(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """As after a crash before the database came back: the node gives no card until the pod is gone."""
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    async with start():
        await world.create(world.pod("half", 1, queue=queue))
        await world.running("half")
    await store.bindings.write([], [row.pod_uid for row in await store.bindings.all()])
    await forge(world, "half", "3")
    async with start() as service:
        await world.create(world.pod("next", 1, queue=queue), world.pod("plain", 0, queue=queue))
        await world.running("plain")
        assert "not on record" in await world.node_or_reason("next")
        assert "not on record" in (await world.event(names.EVENT_CARD_DRIFT, "half"))["message"]
        shape = node_shape(service.state, f"{world.run}-n-0")
        assert shape is not None
        assert (shape["cardDrift"], shape["cardsUnknown"]) == (1, 1)
        await world.client.delete(PODS, "half", world.namespace, grace=0)
        assert await cards_of(world, "next") == ["0"]


class Switch(Database):
    """A database that answers, or does not."""

    away = False

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        self._check()
        async with super().read() as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        self._check()
        async with super().write() as connection:
            yield connection

    async def fetch(self, query: Executable) -> Sequence[Any]:
        self._check()
        return await super().fetch(query)

    async def transact(self, act: Callable[[Connection], Any]) -> Any:
        self._check()
        return await super().transact(act)

    def _check(self) -> None:
        if self.away:
            raise StoreError("the database does not answer")


async def test_without_the_database_cards_by_index_wait_and_others_go_on(
    world: World, queue: str, store: Store, tmp_path: Path
) -> None:
    """Of known gangs: one without cards, and one for a node whose plugin chooses, start; a third says why not."""
    world.nodes.append(f"{world.run}-p")
    await world.play(1, 4, cardMode=names.HONOURS_INDEX, labels={RUN_LABEL: world.run, "counted": "no"})
    await plain_node(world)
    database = Switch(f"sqlite:///{tmp_path}/store.db")
    client = world.faulty(await world.account(SCHEDULER))
    pods = {"cards": (1, {"counted": "no"}), "plain": (0, {}), "chosen": (1, {"counted": "yes"})}
    late = Store(database)
    try:
        async with running(SchedulerService(client, late, internal_secret="s" * 20)) as service:
            for name, (gpus, selector) in pods.items():
                gates = [{"name": "later"}]
                await world.create(world.pod(name, gpus, queue=queue, nodeSelector=selector, schedulingGates=gates))

            async def known() -> bool:
                return len(await store.acceptances.all()) == len(pods)

            async def away() -> bool:
                return service.state.outage.away

            async def waits() -> bool:
                return any(reason.code == Code.DATABASE_AWAY for reason in reasons(service, "cards"))

            await until(known)
            await service.sql_writer.flushed()
            database.away = True
            await until(away)
            for name in pods:
                await world.client.patch(PODS, name, world.namespace, {"spec": {"schedulingGates": None}})
            await world.running("plain", "chosen")
            await until(waits)
            assert "cards" not in await world.bound()
            database.away = False
            assert await cards_of(world, "cards") == ["0"]
        assert {row.name: row.honoured for row in await store.bindings.all()} == {"cards": True, "chosen": False}
    finally:
        await late.close()


def reasons(service: SchedulerService, pod: str) -> tuple[Reason, ...]:
    return next(gang.reasons for gang in service.state.gangs.values() if gang.name == pod)


async def plain_node(world: World) -> None:
    """Another node, whose device plugin chooses."""
    labels = {RUN_LABEL: world.run, "counted": "yes"}
    entry = {"name": f"{world.run}-p", "labels": labels, "cardMode": names.PLUGIN_CHOOSES}
    (node,) = nodes_from({"nodes": [entry | {"allocatable": {"cpu": "8", "memory": "64Gi", GPU: "4"}}]})
    await register(world.client, node)


class Slow(Database):
    """A database that answers once `answers` is set."""

    answers: asyncio.Event

    async def transact(self, act: Callable[[Connection], Any]) -> Any:
        await self.answers.wait()
        return await super().transact(act)


async def test_a_member_whose_cards_cannot_be_written_down_yet_is_told_so(
    world: World, queue: str, store: Store, tmp_path: Path
) -> None:
    """It has its place, and waits: until the database is known to be away nothing else says why."""
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    database = Slow(f"sqlite:///{tmp_path}/store.db")
    database.answers = asyncio.Event()
    database.answers.set()
    slow = Store(database)
    try:
        async with running(
            SchedulerService(world.faulty(await world.account(SCHEDULER)), slow, internal_secret="s" * 20)
        ) as service:
            state = service.state
            await world.gang("g", 2, 1, queue)
            await world.running("g-0", "g-1")
            await world.condition("g", "GroupScheduled", "True")
            await service.sql_writer.flushed()
            database.answers.clear()
            await world.client.delete(PODS, "g-1", world.namespace, grace=0)
            await world.create(world.pod("g-2", 1, group="g"))
            told: list[tuple[str, list[str]]] = []

            async def explained() -> bool:
                pod = state.pod_named(world.namespace, "g-2")
                if pod is None or not pod.assumed or pod.gang is None:
                    return False
                view = observed_job(state, pod.gang.uid)
                assert view is not None
                for one in (None, pod):
                    found = await explanation(view, state, one)
                    told.append((found["verdict"], [reason["code"] for reason in found["reasons"]]))
                return True

            await until(explained)
            assert told == [("Waiting", ["DatabaseAway"])] * 2
            database.answers.set()
            await world.running("g-2")
            assert not state.cards.unwritten
    finally:
        await slow.close()
