"""Clean-up: what was agreed with and decided about what is gone is forgotten, what is there is kept."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from t9ksched.admission.access import Members
from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.keep.housekeeping import Housekeeping, Sweep
from t9ksched.store import Store
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from tests.unit.scheduler.state.test_admission_gate import cluster, owned_group, owned_pod


async def test_what_is_gone_is_forgotten_after_an_hour(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    later: Any = lambda: int((now + timedelta(hours=2)).timestamp() * 1e9)  # noqa: E731
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        state = cluster(Members())
        state.upsert_group(owned_group(owner="job"))
        for uid in ("job", "gone"):
            await store.controls.hold(Event(event="job-held", uid=uid, actor="root"))
            state.accept(Acceptance(uid=uid, kind="MPIJob", namespace="ns", name=uid))
        await store.acceptances.put_many(list(state.acceptances.values()))
        state.direct({one.uid: one for one in await store.controls.all()})
        cards = CardKeeper(store.bindings, state)
        keeping: Any = Housekeeping(state, store, later, timedelta(days=90), cards=cards)
        keeping._clock = lambda: int(now.timestamp() * 1e9)
        await keeping.clean_up()
        assert len(await store.controls.all()) == len(await store.acceptances.all()) == 2
        keeping._clock = later
        await keeping.clean_up()
        assert [one.uid for one in await store.controls.all()] == ["job"] == list(state.controls)
        assert [one.uid for one in await store.acceptances.all()] == ["job"] == list(state.acceptances)


async def test_cards_that_came_free_while_no_scheduler_ran_are_not_counted_on(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        state = cluster(Members(everyone=True))
        state.upsert_group(owned_group())
        state.upsert_pod(owned_pod("stays", node="n1", phase="Running"))
        head: dict[str, Any] = {"uid": "job", "kind": "MPIJob", "namespace": "ns", "name": "job", "queue": "q"}
        for name, ago in (("stays", 9), ("lost", 9), ("new", 0)):
            detail = {"pod": name, "node": "n1", "cards": {"main": [0]}}
            at = now - timedelta(hours=ago)
            await store.history.append(Event(event="bound", at=at, detail=detail, actor="scheduler", **head))
        clock = lambda: int(now.timestamp() * 1e9)  # noqa: E731
        cards = CardKeeper(store.bindings, state)
        keeping: Any = Housekeeping(state, store, clock, timedelta(days=90), cards=cards)
        await keeping.clean_up()
        left = [span.pod async for spans in store.usage.running(now + timedelta(hours=1)) for span in spans]
        assert sorted(left) == ["new", "stays"]
        told = [(event.event, event.detail["pod"]) for event in await store.history.list(event="released")]
        assert told == [("released", "lost")]


async def test_a_stop_ends_what_is_under_way_and_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    began, told = asyncio.Event(), []

    async def long() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            told.append("ended")

    keeping = Housekeeping(Mock(), Mock(), lambda: 0, timedelta(days=90), [Sweep("long", 1, long)])
    keeping.start()
    for job in keeping._timers.get_jobs():
        job.modify(next_run_time=datetime.now(UTC) if job.id == "every 1 s" else None)
    async with asyncio.timeout(10):
        await began.wait()
        with caplog.at_level(logging.WARNING):
            await keeping.stop()
            await asyncio.sleep(0)
    assert told == ["ended"]
    assert caplog.records == []


async def test_a_sweep_that_is_cancelled_without_a_stop_says_so() -> None:
    keeping = Housekeeping(Mock(), Mock(), lambda: 0, timedelta(days=90))
    fails = Mock(side_effect=asyncio.CancelledError)
    with pytest.raises(asyncio.CancelledError):
        await keeping._run(fails, "fails")


async def test_a_look_is_left_out_while_the_one_before_is_under_way(caplog: pytest.LogCaptureFixture) -> None:
    """APScheduler would write a line of its own for each of them."""
    end, long_looks, short_looks = asyncio.Event(), [], []

    async def long() -> None:
        long_looks.append(1)
        await end.wait()

    async def short() -> None:
        short_looks.append(1)

    sweeps = [Sweep("long", 1, long), Sweep("short", 1, short)]
    keeping = Housekeeping(Mock(), Mock(), lambda: 0, timedelta(days=90), sweeps)
    keeping.start()
    timer = keeping._timers.get_job("every 1 s")
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(10):
            for looks in range(1, 4):
                timer.modify(next_run_time=datetime.now(UTC))
                while len(short_looks) < looks:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
    end.set()
    await keeping.stop()
    assert long_looks == [1]
    assert caplog.records == []


async def test_a_sweep_that_fails_says_so_in_the_log_of_the_service(caplog: pytest.LogCaptureFixture) -> None:
    keeping = Housekeeping(Mock(), Mock(), lambda: 0, timedelta(days=90))
    with capture_logs() as logs:
        await keeping._run(Mock(side_effect=ValueError("bad")), "fails")
    assert [(one["event"], one["sweep"]) for one in logs] == [("a sweep failed, and is tried again", "fails")]
    assert caplog.records == []


async def test_timers_wait_for_nothing_that_a_stop_would_cancel() -> None:
    """APScheduler logs that a job of its own was cancelled as an error."""
    done: list[str] = []

    async def sweep() -> None:
        done.append("swept")

    keeping = Housekeeping(Mock(), Mock(), lambda: 0, timedelta(days=90))
    begins = keeping._begin([Sweep("one", 1, sweep), Sweep("two", 1, sweep)])
    with pytest.raises(StopIteration):
        begins.send(None)
    for _ in range(5):
        await asyncio.sleep(0)
    assert done == ["swept", "swept"]
    await keeping.stop()


async def test_a_stop_at_the_moment_at_which_a_timer_is_due_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    keeping = Housekeeping(Mock(), Mock(), lambda: 0, timedelta(days=90))
    keeping.start()
    for job in keeping._timers.get_jobs():
        job.modify(next_run_time=datetime.now(UTC) if job.id == "every 5 s" else None)
    with caplog.at_level(logging.WARNING):
        keeping._timers.wakeup()
        await keeping.stop()
        for _ in range(5):
            await asyncio.sleep(0)
    assert caplog.records == []
