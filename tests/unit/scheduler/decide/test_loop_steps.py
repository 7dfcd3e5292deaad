"""No step of the event loop takes what grows with the cluster: work is counted between two turns of another task."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock, patch

import pytest

from t9ksched.engine.planner import Planner
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.act import cardkeeper
from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.keep import housekeeping
from t9ksched.scheduler.keep.housekeeping import Housekeeping
from t9ksched.scheduler.state import agreements, cardbook
from t9ksched.scheduler.state.lastgate import LastGate
from t9ksched.scheduler.state.pod_affinity_index import PodAffinityIndex
from t9ksched.scheduler.state.reservations import Move
from t9ksched.scheduler.state.snapshot import snapshot
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import Store
from t9ksched.store.acceptances import Acceptance
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

MANY = 600
LOOKS_A_STEP = 50
"""At 0.2 to 0.4 ms each, under 20 ms."""


async def most_between_turns(work: Callable[[], int], doing: Awaitable[Any]) -> int:
    """The most that `work` grew between two turns of another task."""
    counts = [work()]

    async def watch() -> None:
        while True:
            counts.append(work())
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await doing
    counts.append(work())
    watching.cancel()
    return max(later - earlier for earlier, later in pairwise(counts))


def looks(monkeypatch: pytest.MonkeyPatch, of: type, *names: str) -> list[str]:
    """The calls of these methods from now on."""
    calls: list[str] = []
    for name in names:
        plain = getattr(of, name)

        def counted(*args: Any, plain: Any = plain, name: str = name, **kwargs: Any) -> Any:
            calls.append(name)
            return plain(*args, **kwargs)

        monkeypatch.setattr(of, name, counted)
    return calls


def loop_over(state: ClusterState, recorder: Any, evictor: Any = None) -> Loop:
    return Loop(state, Mock(), recorder, Policy(actions=("allocate", "preempt")), lambda: NOW, evictor=evictor)


def many_waiting(count: int = MANY) -> ClusterState:
    state = state_with(node(), queues={"q": {"quota": {"requests": {"nvidia.com/gpu": "800"}}}})
    for number in range(count):
        state.upsert_pod(pod(f"p{number}", queue="q"))
    return state


def finished(state: ClusterState, steps: Generator[None, None, tuple[Gang, ...]]) -> View:
    """The view, once its remaining steps were taken."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return snapshot(state, end.value)


@pytest.mark.parametrize("stopped", [False, True])
async def test_jobs_that_come_at_once_are_judged_in_steps(monkeypatch: pytest.MonkeyPatch, stopped: bool) -> None:
    state, recorder = many_waiting(), Mock()
    calls = looks(monkeypatch, LastGate, "_look")
    loop = loop_over(state, recorder)
    most = await most_between_turns(lambda: len(calls), loop._stand_still() if stopped else loop.cycle())
    assert len(calls) == MANY
    assert most <= LOOKS_A_STEP
    assert recorder.accepted.called
    assert len(taken(state, "acceptances")) == MANY, "and each is written down once"


async def test_labels_of_jobs_that_come_at_once_are_told_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    state = many_waiting()
    selects = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [selects]}
    state.upsert_pod(pod("ruled", queue="q", affinity={"podAntiAffinity": required}))
    calls, loop = looks(monkeypatch, PodAffinityIndex, "_with_labels"), loop_over(state, Mock())
    most = await most_between_turns(lambda: len(calls), loop.cycle())
    assert len(calls) == MANY + 1, "and each is told once"
    assert most <= 100
    state.upsert_pod(pod("late", queue="q"))
    await loop.cycle()
    assert MANY + 1 < len(calls) <= MANY + 20, "those that started left, and one came"


async def test_what_waits_is_told_so_in_steps() -> None:
    recorder = Mock()
    loop = loop_over(many_waiting(), recorder)
    most = await most_between_turns(lambda: int(recorder.waits.call_count), loop.cycle())
    assert recorder.waits.call_count == MANY - 8
    assert most <= 200


async def test_the_last_decisions_and_what_is_told_are_pieces_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, told = looks(monkeypatch, Planner, "close"), looks(monkeypatch, Loop, "_plan_ahead")
    most = await most_between_turns(lambda: len(closed) + len(told), loop_over(many_waiting(3), Mock()).cycle())
    assert (len(closed), len(told), most) == (1, 1, 1)


async def test_what_waits_as_before_is_told_nothing() -> None:
    """Unless somebody else told one of it another reason since."""
    state, recorder = many_waiting(), Mock()
    loop = loop_over(state, recorder)
    for _ in range(2):
        await loop.cycle()
    recorder.waits.reset_mock()
    await loop.cycle()
    assert not recorder.waits.call_count
    state.upsert_pod(pod("z-late", queue="q"))
    await loop.cycle()
    assert 1 <= recorder.waits.call_count <= 200
    gang = state.gangs_by_uid["pod-z-late"]
    recorder.waits.reset_mock()
    state.refused(gang, Reason(Code.QUEUE_CLOSED, "its queue was closed, and opened again"))
    await loop.cycle()
    assert gang.uid in {call.args[0] for call in recorder.waits.call_args_list}
    recorder.waits.reset_mock()
    await loop._stand_still()
    assert recorder.waits.call_count >= MANY - 8
    recorder.waits.reset_mock()
    await loop.cycle()
    assert recorder.waits.call_count >= MANY - 8, "all have the stop as their reason"


async def test_between_two_cycles_it_rests() -> None:
    loop = loop_over(many_waiting(1), Mock())
    within: list[bool] = []
    loop.show_next(lambda *_: within.append(loop.rests.is_set()))
    running = asyncio.create_task(loop.run())
    try:
        while not loop.stats.cycles:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await loop.rests.wait()
    finally:
        running.cancel()
    assert within == [False]


async def test_a_stop_holds_from_its_moment_on() -> None:
    """Also for what a cycle decides that is under way, which may take seconds."""
    state, recorder = many_waiting(), Mock()
    loop = loop_over(state, recorder)
    cycle = asyncio.create_task(loop.cycle())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    loop.paused = True
    await cycle
    assert not any(pod.assumed for pod in state.pods.values())
    loop.paused = False
    await loop.cycle()
    assert sum(bool(pod.assumed) for pod in state.pods.values()) == 8


@pytest.mark.parametrize("what", [{"paused": True, "may_evict": False}, {"may_evict": False}])
async def test_a_stop_of_evictions_holds_from_its_moment_on(what: dict[str, bool]) -> None:
    """Else pods would go for a gang that does not start."""
    state = state_with(
        node("n1", gpus=8), queues={"low": {"priority": 1, "preemptible": True}, "high": {"priority": 9}}
    )
    state.upsert_pod(pod("victim", 8, queue="low", node="n1", phase="Running"))
    state.upsert_pod(pod("urgent", 8, queue="high"))
    evictor = Mock(evictable=EvictableGangs(state, {}, set()), busy=False)
    loop = loop_over(state, Mock(), evictor)
    planner = Planner.result

    def stopped(self: Planner) -> Any:
        vars(loop).update(what)
        return planner(self)

    with patch.object(Planner, "result", stopped):
        await loop.cycle()
    evictor.submit.assert_not_called()
    loop.paused, loop.may_evict = False, True
    await loop.cycle()
    (plan, _), _ = evictor.submit.call_args
    assert [one.pod for one in plan.evictions] == ["pod-victim"]


@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "at a start"])
async def test_what_runs_is_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch, accepted: bool) -> None:
    state = state_with(*(node(f"n{number}") for number in range(MANY // 8)), queues={"q": {}})
    for number in range(MANY):
        state.upsert_pod(pod(f"p{number}", queue="q", node=f"n{number // 8}", phase="Running"))
    while accepted and state.accept_running(NOW):
        pass
    monkeypatch.setattr(agreements, "_ACCEPTED_AT_ONCE", 20)
    calls = looks(monkeypatch, EvictableGangs, "_running")
    evictable = EvictableGangs(state, ())
    loop = loop_over(state, Mock(), Mock(evictable=evictable, busy=False))

    async def accepting() -> None:
        """As at a start, where another task accepts those that ran before."""
        while state.accept_running(NOW):  # noqa: ASYNC110
            await asyncio.sleep(0)

    most, _ = await asyncio.gather(most_between_turns(lambda: len(calls), loop.cycle()), accepting())
    assert len(calls) == MANY if accepted else MANY < len(calls) < 2 * MANY
    assert most <= 110


def test_a_view_shows_what_changed_while_it_was_made_as_it_is_at_its_end() -> None:
    state = many_waiting(60)
    steps = state.judge(NOW)
    next(steps)
    looked_at = sum(gang.acceptance is not None for gang in state.gangs.values())
    assert 0 < looked_at < 60
    state.remove_pod("pod-p0")
    state.upsert_pod(pod("p1", queue="q", node="n1", phase="Running"))
    state.upsert_pod(pod("late", queue="q"))
    state.upsert_pod(pod("p59", queue="q", deleting=True))
    names = {gang.uid for gang in finished(state, steps).gangs}
    assert names == {f"pod-p{number}" for number in range(2, 59)}, "one that was not judged is not decided on"
    assert {gang.uid for gang in state.view(NOW).gangs} == names | {"pod-late"}


def test_a_gang_that_grows_while_a_view_is_made_is_shown_whole() -> None:
    state = state_with(node(), queues={"q": {}})
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("a", group="g"))
    for number in range(60):
        state.upsert_pod(pod(f"p{number}", queue="q"))
    steps = state.judge(NOW)
    next(steps)
    state.upsert_pod(pod("b", group="g"))
    gang = next(gang for gang in finished(state, steps).gangs if gang.uid == state.gangs["ns", "g"].uid)
    assert {member.uid for member in gang.waiting} == {"pod-a", "pod-b"}


async def test_what_is_gone_is_forgotten_in_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(housekeeping, "_A_SLICE", 100, raising=False)
    later = int((datetime.now(UTC) + timedelta(hours=2)).timestamp() * 1e9)
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        state = state_with(queues={"q": {}})
        for number in range(MANY):
            state.accept(Acceptance(uid=f"gone-{number}", kind="Job", namespace="ns", name="gone"))
        calls = looks(monkeypatch, ClusterState, "knows")
        store.acceptances.forget = AsyncMock()  # type: ignore[method-assign]
        cards = CardKeeper(store.bindings, state)
        keeping: Any = Housekeeping(state, store, lambda: later, timedelta(days=90), cards=cards)
        most = await most_between_turns(lambda: len(calls), keeping._forget_what_is_gone())
    assert len(calls) == MANY
    assert most <= 100
    assert not state.acceptances


async def test_what_pods_hold_is_taken_over_in_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At the first start on a cluster in use: of pods with cards, by annotation, and of members of groups."""
    nodes = [node(f"n{number}", gpus=64) for number in range(MANY // 64 + 1)]
    state = state_with(*nodes, queues={"q": {}})
    state.upsert_group(group("g", 1))
    for number in range(MANY):
        at, card = divmod(number, 64)
        state.upsert_pod(pod(f"c{number}", 1, queue="q", node=f"n{at}", phase="Running", cards=str(card)))
        state.upsert_pod(pod(f"m{number}", 0, group="g", node="n0", phase="Running"))
    calls: list[str] = []
    for module in (cardkeeper, cardbook):

        def counted(*args: Any, plain: Any = module.row_of) -> Any:
            calls.append("row")
            return plain(*args)

        monkeypatch.setattr(module, "row_of", counted)
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        keeper = CardKeeper(store.bindings, state)
        most = await most_between_turns(lambda: len(calls), keeper.adopt(NOW))
        assert len(await store.bindings.all()) == 2 * MANY
        assert await store.bindings.complete()
    assert len(calls) >= 2 * MANY
    assert most <= 200


def test_where_plans_moved_the_next_cycle_follows_at_once_and_not_for_ever() -> None:
    """What was judged before a plan moved may start sooner; beside a new plan it is judged again a moment later."""
    loop, state = loop_over(many_waiting(1), Mock()), Mock()
    loop.policy = Policy(planning=Planning())
    loop._state, loop.plan_moves = state, Mock()
    plan = (Reservation("u", "n1", PodClass(), ReservationKind.PLANNED),)

    def follows(move: Move) -> bool:
        loop._wake.clear()
        state.plan_starts.return_value = {"u": move}
        judged_again.append(loop._plan_ahead(Mock(), Mock(), NOW))
        return loop._wake.is_set() or state.wake.called

    judged_again: list[bool] = []
    assert not follows(Move(None, plan)), "a new plan makes none earlier"
    assert judged_again == [True]
    assert follows(Move(plan, None))
    turns = [follows(Move(plan, plan)) for _ in range(100)]
    assert turns[0]
    assert not turns[-1]
    assert not judged_again[-1]
    assert not follows(Move(None, plan))
    assert follows(Move(plan, plan))
