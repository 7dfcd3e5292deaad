"""Promised room: written before any victim is evicted, held again after a restart, removed when it is over."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t9ksched.engine.planner import Eviction
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.act.preemption import Evictor
from t9ksched.scheduler.act.promises import PromiseKeeper
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import Store
from t9ksched.store.errors import DatabaseUnreachable
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

SECOND = 1_000_000_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


def waiting() -> tuple[ClusterState, Reservation]:
    """A pod that waits, a pod of a group that runs, and the room of the one for the other."""
    state = state_with(node("n1"))
    state.upsert_group(group("low", 1))
    state.upsert_pod(pod("victim", 8, group="low", node="n1", phase="Running"))
    state.upsert_pod(pod("waits", 8, queue="q"))
    record = state.pods["pod-waits"]
    assert record.pod_class is not None
    return state, Reservation(
        "pod-waits", "n1", record.pod_class, rank=10, since=NOW, until=NOW + 60 * SECOND, kind=ReservationKind.VICTIMS
    )


def held(state: ClusterState, now: int = NOW) -> list[str]:
    return [hold.owner for hold in state.view(now).reservations if hold.since <= now]


async def test_a_promise_outlives_the_scheduler_that_made_it(store: Store) -> None:
    state, hold = waiting()
    assert await PromiseKeeper(store.promises, state).write([hold])
    successor, _ = waiting()
    await PromiseKeeper(store.promises, successor).restore(NOW)
    assert held(successor) == ["pod-waits"]


@pytest.mark.parametrize(("there", "kept"), [("runs", False), ("leaves", True), ("is gone", True), ("its own", True)])
async def test_room_that_others_hold_is_promised_no_longer(store: Store, there: str, kept: bool) -> None:
    """A scheduler that is killed has not evicted all victims; another plans for their gang anew."""
    state = state_with(node("n1"))
    state.upsert_group(group("g", 2))
    for name in ("g-0", "g-1"):
        state.upsert_pod(pod(name, 4, group="g"))
    record = state.pods["pod-g-0"]
    assert record.gang is not None
    assert record.pod_class is not None
    hold = Reservation(
        record.gang.uid, "n1", record.pod_class, rank=10, until=NOW + 60 * SECOND, kind=ReservationKind.VICTIMS
    )
    keeper = PromiseKeeper(store.promises, state)
    await keeper.write([hold, hold])
    await keeper.restore(NOW)
    if there == "its own":
        state.upsert_pod(pod("g-0", 4, group="g", node="n1"))
    elif there != "is gone":
        state.upsert_pod(pod("victim", 1, queue="q", node="n1", phase="Running", deleting=there == "leaves"))
    keeper.give_up_unkept()
    assert (record.gang.uid in state.reservations.promised) is kept


async def test_it_holds_although_the_clock_that_made_it_was_ahead(store: Store) -> None:
    state, hold = waiting()
    await PromiseKeeper(store.promises, state).write([hold])
    await PromiseKeeper(store.promises, state).restore(NOW - 30 * SECOND)
    assert held(state, NOW - 30 * SECOND) == ["pod-waits"]


async def test_what_is_over_by_time_or_whose_owner_is_gone_is_dropped_and_removed(store: Store) -> None:
    state, hold = waiting()
    keeper = PromiseKeeper(store.promises, state)
    await keeper.write(
        [hold, Reservation("gone", "n1", hold.pod_class, since=NOW, until=hold.until, kind=ReservationKind.VICTIMS)]
    )
    successor, _ = waiting()
    keeper = PromiseKeeper(store.promises, successor)
    await keeper.restore(NOW)
    assert held(successor) == ["pod-waits"]
    await keeper.sweep()
    assert [one.owner for one in await store.promises.all()] == ["pod-waits"]
    late, _ = waiting()
    keeper = PromiseKeeper(store.promises, late)
    await keeper.restore(hold.until)
    assert not held(late)
    await keeper.sweep()
    assert await store.promises.all() == []


async def test_what_is_used_or_given_up_is_removed(store: Store) -> None:
    state, hold = waiting()
    keeper = PromiseKeeper(store.promises, state)
    state.reservations.promise([hold], hold.until)
    await keeper.write([hold])
    await keeper.sweep()
    assert len(await store.promises.all()) == 1
    state.reservations.give_up("pod-waits")
    await keeper.sweep()
    assert await store.promises.all() == []


async def test_a_promise_made_since_the_start_is_the_newer_one() -> None:
    state, hold = waiting()
    made = state.reservations.promise(
        [Reservation("pod-waits", "n2", hold.pod_class, since=NOW, kind=ReservationKind.VICTIMS)], hold.until
    )
    state.reservations.restore([hold])
    assert state.reservations.stands("pod-waits", made["pod-waits"])


def test_a_promise_ends_at_its_time_and_wakes_the_loop() -> None:
    state, hold = waiting()
    state.reservations.promise([hold], hold.until)
    assert state.next_retry() == hold.until
    state.end_idle_promises(hold.until - 1, evicting=True)
    assert state.reservations.promised_to == {"pod-waits"}
    state.end_idle_promises(hold.until, evicting=True)
    assert not state.reservations.promised_to


class Port:
    """Tells what is asked of the API server; the pod is there."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    async def get(self, res: Any, name: str, namespace: str | None = None) -> Any:
        return {"metadata": {"name": name, "uid": f"pod-{name}", "resourceVersion": "1"}, "spec": {}, "status": {}}

    async def patch(self, *_: Any, **__: Any) -> Any:
        return {}

    async def delete(self, res: Any, name: str, *_: Any, **__: Any) -> Any:
        self.calls.append(f"delete {name}")


class Book:
    """In place of the table: waits for `go`, or fails."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.go = asyncio.Event()
        self.away = False

    async def put(self, holds: Any) -> None:
        await self.go.wait()
        if self.away:
            raise DatabaseUnreachable("away")
        self.calls.append("written")


class Preempting:
    """One victim is to go for the pod that waits."""

    def __init__(self) -> None:
        self.state, hold = waiting()
        self.calls: list[str] = []
        self.lost: list[str] = []
        self.book = Book(self.calls)
        keeper = PromiseKeeper(self.book, self.state, lambda: self.lost.append("lost"))  # type: ignore[arg-type]
        recorder: Any = SimpleNamespace(preempted=lambda *_: None)
        self.evictor = Evictor(Port(self.calls), self.state, recorder, lambda: NOW, keeper)  # type: ignore[arg-type]
        eviction = Eviction("group-low", "pod-victim", "pod-waits", "because")
        self.plan: Any = SimpleNamespace(reservations=(hold,), evictions=(eviction,))

    async def settle(self) -> None:
        while tasks := set(self.evictor._tasks):
            await asyncio.wait(tasks)

    @property
    def leaving(self) -> bool:
        return "pod-victim" in self.evictor._going

    @property
    def told(self) -> list[tuple[bool, bool]]:
        """What the engine is told of the victim: whether it leaves, and whether that is certain."""
        self.state.accept_running(NOW)
        running = self.evictor.evictable.running(NOW)
        return [(pod.leaving, pod.asked) for group in running for pod in group.pods if pod.uid == "pod-victim"]


async def test_no_victim_is_evicted_before_the_promise_is_written() -> None:
    world = Preempting()
    world.evictor.submit(world.plan, 30)
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.calls == []
    assert world.leaving, "no other plan may choose it meanwhile"
    assert world.told == [(True, False)], "no plan may rely on it yet"
    assert held(world.state) == ["pod-waits"]
    world.book.go.set()
    await world.settle()
    assert world.calls == ["written", "delete victim"]
    assert world.leaving, "until the watch shows it"
    assert world.told == [(True, True)]
    world.state.remove_pod("pod-victim")
    world.evictor.submit(SimpleNamespace(reservations=(), evictions=()), 30)  # type: ignore[arg-type]
    assert not world.leaving


async def test_no_victim_is_evicted_on_a_promise_that_cannot_be_written() -> None:
    world = Preempting()
    world.book.away = True
    world.book.go.set()
    world.evictor.submit(world.plan, 30)
    await world.settle()
    assert (world.calls, world.lost) == ([], ["lost"])
    assert not world.leaving
    assert not held(world.state)


async def test_a_silent_database_counts_as_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.scheduler.act.promises._ANSWER_SECONDS", 0.01)
    world = Preempting()
    world.evictor.submit(world.plan, 30)
    await world.settle()
    assert (world.calls, world.lost) == ([], ["lost"])


async def test_no_victim_is_evicted_on_a_withdrawn_promise() -> None:
    for change in ("given up", "replaced"):
        world = Preempting()
        world.evictor.submit(world.plan, 30)
        await asyncio.sleep(0)
        if change == "given up":
            world.state.reservations.give_up("pod-waits")
        else:
            world.state.reservations.promise(world.plan.reservations, NOW + SECOND)
        world.book.go.set()
        await world.settle()
        assert world.calls == ["written"], change
        assert held(world.state) == ([] if change == "given up" else ["pod-waits"])
        assert not world.leaving


async def test_a_victim_that_went_meanwhile_is_not_asked() -> None:
    world = Preempting()
    world.evictor.submit(world.plan, 30)
    world.state.remove_pod("pod-victim")
    world.book.go.set()
    await world.settle()
    assert world.calls == ["written"]


async def test_a_stop_while_the_promise_is_written_evicts_no_victim() -> None:
    world = Preempting()
    world.evictor.submit(world.plan, 30)
    await asyncio.sleep(0)
    await world.evictor.stop()
    assert world.calls == []
    assert not world.leaving
