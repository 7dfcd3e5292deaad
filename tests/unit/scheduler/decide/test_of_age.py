"""On a cluster where nothing happens the loop wakes when time alone may let something start."""

from unittest.mock import Mock

from t9ksched.engine.policy import Policy, Preemption
from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.decide.loop import Loop
from tests.unit.scheduler.state.test_state import NOW, decide, node, pod, state_with

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
