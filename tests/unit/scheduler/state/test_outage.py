"""While the database is away: who goes on, who waits and why, and how it is noticed."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.reasons import Code
from t9ksched.scheduler.act.gang_timeouts import GangTimeouts
from t9ksched.scheduler.report.metrics import MetricsPage
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.scheduler.state.outage import Outage
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import Store
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.errors import DatabaseUnreachable
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

AT = datetime(2026, 1, 1, 12, 30, 5, tzinfo=UTC)


def planned(state: ClusterState) -> list[str]:
    return [gang.name for gang in state.view(NOW).gangs]


def why(state: ClusterState, uid: str) -> list[Code]:
    return [reason.code for reason in state.gangs_by_uid[uid].reasons]


def test_what_was_written_goes_on_and_what_is_new_waits_until_it_is() -> None:
    state = state_with(node())
    state.upsert_pod(pod("known", queue="q"))
    assert planned(state) == ["ns/known"]
    state.outage.begin(AT, [])
    state.upsert_pod(pod("new", queue="q"))
    assert planned(state) == ["ns/known"]
    (reason,) = state.gangs_by_uid["pod-new"].reasons
    assert reason.code == Code.DATABASE_AWAY
    assert "12:30:05" in reason.message
    assert [gang.uid for gang in taken(state, "said")] == ["pod-new"]
    assert [one.uid for one in taken(state, "acceptances")] == ["pod-known", "pod-new"], "agreed at first sight"
    state.outage.end()
    assert planned(state) == ["ns/known", "ns/new"]


def test_what_was_on_its_way_to_the_database_when_it_went_away_waits_too() -> None:
    state = state_with(node())
    state.upsert_pod(pod("a", queue="q"))
    planned(state)
    state.outage.begin(AT, ["pod-a"])
    assert planned(state) == []


def test_a_decision_on_a_view_from_before_the_outage_is_dropped_where_the_acceptance_is_not_written() -> None:
    state = state_with(node())
    for name in ("new", "known"):
        state.upsert_pod(pod(name, queue="q"))
    decided = plan(state.view(NOW), Policy(), NOW).assignments
    state.outage.begin(AT, ["pod-new"])
    by_gang = {uid: [one for one in decided if one.gang == uid] for uid in ("pod-new", "pod-known")}
    assert all(by_gang.values())
    assert [uid for uid, mine in by_gang.items() if state.assume(uid, mine, NOW)] == ["pod-known"]
    assert planned(state) == []
    assert why(state, "pod-new") == [Code.DATABASE_AWAY]


def test_a_gang_that_has_places_is_completed() -> None:
    state = state_with(node())
    state.upsert_group(group("g", 2))
    state.upsert_pod(pod("g0", group="g", node="n1", phase="Running"))
    state.upsert_pod(pod("g1", group="g"))
    state.outage.begin(AT, ["group-g"])
    assert planned(state) == ["ns/g"]


def test_a_scheduler_that_has_read_nothing_agrees_to_nothing() -> None:
    state = state_with(node())
    state.permit({})  # who may use which queue stands in the database
    state.outage.unread = True
    state.upsert_pod(pod("runs", queue="q", node="n1", phase="Running"))
    state.upsert_pod(pod("waits", queue="q"))
    assert planned(state) == []
    assert why(state, "pod-waits") == [Code.DATABASE_AWAY]
    assert not state.accept_running(NOW)
    assert not state.acceptances
    state.accept(Acceptance(uid="pod-waits", kind="Pod", namespace="ns", name="waits", queue="default", priority=7))
    state.permit(state_with().permissions._members)
    state.outage.read()
    (gang,) = state.view(NOW).gangs
    assert (gang.queue, gang.priority) == ("default", 7)
    assert "pod-runs" in state.acceptances


def test_no_gang_is_taken_back_because_nothing_could_be_read() -> None:
    state = state_with(node())
    state.permit({})
    state.outage.unread = True
    state.upsert_group(group("g", 2))
    state.upsert_pod(pod("g0", group="g", node="n1", phase="Running"))
    state.upsert_pod(pod("g1", group="g"))
    now = [NOW]
    integrity = GangTimeouts(None, state, None, None, lambda: now[0], timeout=60)  # type: ignore[arg-type]
    for _ in range(3):
        assert integrity.overdue() == []
        now[0] += 100 * 1_000_000_000
    state.outage.read()
    assert integrity.overdue() == [], "its time begins now"
    now[0] += 61 * 1_000_000_000
    assert [gang.uid for gang in integrity.overdue()] == ["group-g"]


async def test_the_metrics_say_so() -> None:
    state = state_with(node())
    assert b"t9ksched_database_away 0" in await MetricsPage(state).exposition(False)
    state.outage.begin(AT, [])
    assert b"t9ksched_database_away 1" in await MetricsPage(state).exposition(False)


class Flaky:
    """A store that is away, or hangs, when told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.away = False
        self.hang: asyncio.Event | None = None

    async def tell(self, *told: Any) -> None:
        await self.meet()
        await self._store.tell(*told)

    async def ping(self) -> None:
        await self.meet()

    async def meet(self) -> None:
        if self.hang is not None:
            await self.hang.wait()
        if self.away:
            raise DatabaseUnreachable("away")


def new(uid: str) -> Acceptance:
    return Acceptance(uid=uid, kind="Pod", namespace="ns", name=uid, queue="q")


@pytest.mark.parametrize("noticed", ["here", "elsewhere", "by silence"])
async def test_the_journal_notices_and_tells_when_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noticed: str
) -> None:
    monkeypatch.setattr("t9ksched.scheduler.report.sql_writer._PAUSE", 0.01)
    monkeypatch.setattr("t9ksched.scheduler.report.sql_writer._SILENCE_SECONDS", 0.01)
    changed = asyncio.Event()
    outage = Outage(changed.set)
    async with await Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        flaky: Any = Flaky(store)
        sql_writer = SqlWriter(flaky, outage)
        running = asyncio.create_task(sql_writer.run())
        if noticed == "by silence":
            flaky.hang = asyncio.Event()
        else:
            flaky.away = True
        if noticed == "elsewhere":
            sql_writer.lost()
        else:
            sql_writer.accepted([new("pod-b")])
        await changed.wait()
        assert outage.away
        changed.clear()
        assert "pod-b" in outage._unwritten or noticed == "elsewhere"
        sql_writer.accepted([new("pod-c")])
        flaky.away = False
        if flaky.hang is not None:
            flaky.hang.set()
            flaky.hang = None
        await changed.wait()
        assert not outage.away
        assert "pod-c" in {one.uid for one in await store.acceptances.all()}
        assert sql_writer.behind is None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
