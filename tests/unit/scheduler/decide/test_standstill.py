"""While scheduling is stopped: what time alone changes is noticed, and nothing keeps the loop awake."""

import asyncio
from typing import Any
from unittest.mock import Mock

from t9ksched.engine.policy import Policy
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.assumptions import RETRY_AFTER_REFUSAL_NS
from t9ksched.scheduler.state.node_backoff import TurnedAway
from t9ksched.scheduler.state.objects import nanoseconds
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_admission_gate import Members, cluster
from tests.unit.scheduler.state.test_start_times import SOON, asking
from tests.unit.scheduler.state.test_state import NOW, node, pod, state_with

_SECOND = 1_000_000_000


class Stopped:
    """A loop whose scheduling is stopped, at a time that is set by hand."""

    def __init__(self, state: ClusterState) -> None:
        self.now = NOW
        self.recorder = Mock()
        self.loop = Loop(state, Mock(), self.recorder, Policy(actions=("allocate",)), lambda: self.now)
        self.loop.paused = True

    async def look(self) -> float | None:
        """A look; the seconds until the next one if nothing comes."""
        await self.loop._stand_still()
        return self.loop._pause()

    def told(self) -> dict[str, Code]:
        """The last reason of each gang that was told one."""
        return {call.args[0]: call.args[1][0].code for call in self.recorder.waits.call_args_list}


async def test_a_submitter_that_is_never_known_is_told_after_a_moment() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    state.upsert_pod(pod("a", queue="q"))
    stopped = Stopped(state)
    assert await stopped.look() == NAMING_NS / _SECOND
    assert stopped.told() == {}
    stopped.now += NAMING_NS
    assert await stopped.look() is None
    assert stopped.told() == {"pod-a": Code.SUBMITTER_UNKNOWN}


async def test_of_a_job_whose_start_time_has_come_the_stop_is_the_reason() -> None:
    state = state_with()
    state.upsert_pod(asking(pod("a", queue="q"), SOON))
    stopped = Stopped(state)
    assert await stopped.look() == (nanoseconds(SOON) - NOW) / _SECOND
    assert stopped.told() == {"pod-a": Code.START_TIME_NOT_REACHED}
    stopped.now = nanoseconds(SOON)
    assert await stopped.look() is None
    assert stopped.told() == {"pod-a": Code.SCHEDULING_STOPPED}


async def test_of_one_whose_binding_was_refused_too_once_it_may_be_tried_again() -> None:
    state = state_with(node("n1"))
    state.upsert_pod(pod("a", queue="q"))
    stopped = Stopped(state)
    stopped.loop.paused = False
    await stopped.loop.cycle()
    stopped.loop.paused = True
    state.refuse("pod-a", Reason(Code.BIND_REFUSED, "the node is gone"), NOW, keep_place=False)
    assert await stopped.look() == RETRY_AFTER_REFUSAL_NS / _SECOND
    assert stopped.told() == {}
    stopped.now += RETRY_AFTER_REFUSAL_NS
    await stopped.look()
    assert stopped.told() == {"pod-a": Code.SCHEDULING_STOPPED}


async def test_a_pod_that_its_node_did_not_admit_is_told() -> None:
    state = state_with(node("n1"))
    state.upsert_pod(pod("a", queue="q"))
    state.view(NOW)
    (gang,) = state.gangs.values()
    state.node_backoff.avoid(refused := TurnedAway(gang, "a", "n1", "OutOfcpu"))
    stopped = Stopped(state)
    await stopped.look()
    stopped.recorder.turned_away.assert_called_once_with(refused, NOW)


async def test_what_only_a_plan_brings_up_to_date_does_not_keep_it_awake() -> None:
    """A planned start, or the end of a promise, may have passed since."""
    state = state_with(node("n1"))
    state.upsert_pod(pod("a", queue="q"))
    state.view(NOW)

    def reserved(kind: ReservationKind, **more: Any) -> Reservation:
        return Reservation("pod-a", "n1", PodClass((("cpu", 1000),)), kind, **more)

    book = state.reservations
    book.planned = {"pod-a": (reserved(ReservationKind.PLANNED, since=NOW - 1, until=NOW + _SECOND),)}
    book.promised = {"pod-a": (reserved(ReservationKind.VICTIMS, until=NOW - 1),)}
    stopped = Stopped(state)
    stopped.loop.plan_moves = Mock(due=None)
    assert await stopped.look() is None
    stopped.loop.paused = False
    assert stopped.loop._pause() == 0


async def test_what_the_cycle_before_left_to_be_told_does_not_keep_it_awake() -> None:
    state = state_with(node("n1", gpus=1))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, queue="q"))
    stopped = Stopped(state)
    stopped.loop.paused = False
    await stopped.loop.cycle()
    assert stopped.loop._pause() is not None, "b may be told something else a second later"
    stopped.loop._telling.due = asyncio.get_running_loop().time()
    stopped.loop.paused = True
    assert await stopped.look() is None


async def test_it_looks_again_by_itself() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    state.upsert_pod(pod("a", queue="q"))
    stopped = Stopped(state)
    await stopped.look()
    stopped.now += NAMING_NS - _SECOND // 10
    running = asyncio.create_task(stopped.loop.run())
    try:
        await asyncio.sleep(0)
        stopped.now += _SECOND
        async with asyncio.timeout(20):
            while not stopped.told():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
    assert stopped.told() == {"pod-a": Code.SUBMITTER_UNKNOWN}
