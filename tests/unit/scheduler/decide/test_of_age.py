"""On a cluster where nothing happens the loop wakes when time alone may let something start."""

from unittest.mock import Mock

import pytest

from t9ksched.engine.policy import Policy, Preemption
from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.decide.loop import AGAIN_SECONDS, Loop
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with

SECOND = 1_000_000_000
DAY = 86_400 * SECOND


class Quiet:
    """One pod of the queue `low` has the only card since `NOW`, as nobody has told but the decision itself; two seconds
    later one of `high` waits for it.
    """

    def __init__(self, rules: Preemption) -> None:
        self.now = NOW + 2 * SECOND
        self.state = state_with(node(gpus=1), queues={"low": {"priority": 1}, "high": {"priority": 9}})
        self.state.upsert_pod(pod("runs", queue="low"))
        decide(self.state)
        self.state.upsert_pod(pod("runs", queue="low", node="n1", cards="0"))
        self.state.upsert_pod(pod("waits", queue="high"))
        self.evictor = Mock()
        self.evictor.evictable = EvictableGangs(self.state, set())
        policy = Policy(actions=("allocate", "preempt"), preemption=rules)
        self.loop = Loop(self.state, Mock(), Mock(), policy, lambda: self.now, evictor=self.evictor)

    @property
    def pause(self) -> float | None:
        return self.loop._pause()


async def test_when_a_victim_is_old_enough() -> None:
    quiet = Quiet(Preemption(minimum_run_seconds=60))
    assert not (await quiet.loop.cycle()).evictions
    assert quiet.pause == 58.0
    quiet.loop.paused = True
    assert quiet.pause is None
    quiet.loop.paused = False
    quiet.now += 58 * SECOND
    assert [one.pod for one in (await quiet.loop.cycle()).evictions] == ["pod-runs"]
    assert quiet.pause is None


async def test_while_preemption_is_stopped_nobody_grows_old() -> None:
    quiet = Quiet(Preemption(minimum_run_seconds=60, most_evictions_a_day=1))
    quiet.evictor.evictable.note("pod-runs", "somebody", NOW)
    quiet.loop.may_evict = False
    await quiet.loop.cycle()
    assert quiet.pause is None


async def test_when_an_eviction_counts_no_more() -> None:
    quiet = Quiet(Preemption(most_evictions_a_day=1))
    quiet.evictor.evictable.note("pod-runs", "somebody", NOW)
    assert not (await quiet.loop.cycle()).evictions
    assert quiet.pause == (DAY - 2 * SECOND + 1) / 1e9
    quiet.now = NOW + DAY + 1
    assert [one.pod for one in (await quiet.loop.cycle()).evictions] == ["pod-runs"]
    assert quiet.pause is None


async def test_those_who_were_told_of_room_that_a_lost_member_was_given_later_are_judged_again() -> None:
    """A queue with a larger priority has its turn first; nothing happens after that."""
    state, recorder = state_with(node("n1"), node("n2"), queues={"low": {}, "high": {"priority": 9}}), Mock()
    state.upsert_group(group("runs", 2, queue="low"))
    for number in range(2):
        state.upsert_pod(pod(f"runs-{number}", 4, group="runs", node="n1", phase="Running"))
    state.settle()
    state.upsert_group(group("waits", 2, queue="high"))
    for number in range(2):
        state.upsert_pod(pod(f"waits-{number}", 5, group="waits"))
    loop = Loop(state, Mock(), recorder, Policy(), lambda: NOW)
    await loop.cycle()
    state.upsert_node(node("n1", unschedulable=True))
    state.remove_pod("pod-runs-0")

    async def numbers() -> str:
        (waits,) = (one for one in (await loop.cycle()).waiting if one.gang == "group-waits")
        return waits.reasons[0].message

    assert "now with room for 1" in await numbers()
    assert loop._pause() == pytest.approx(AGAIN_SECONDS, abs=0.5)
    assert "best has 4 free" in await numbers()
    assert loop._outdated is None
