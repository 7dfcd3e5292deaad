"""No victims are evicted repeatedly for a job that cannot use the room."""

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.preemption_backoff import FIRST_NS, FORGIVEN_NS, LONGEST_NS, PreemptionBackoff
from t9ksched.scheduler.state.records import GangRecord
from tests.unit.scheduler.state.test_state import NOW, decide, pod, state_with

SECOND = 1_000_000_000
NO = Reason(Code.BIND_REFUSED, "no")


def test_each_try_that_fails_doubles_the_rest() -> None:
    backoff, gang = PreemptionBackoff(), GangRecord("ns", "g", uid="u")
    assert backoff.until(gang, NOW) == 0
    now, rests = NOW, []
    for _ in range(11):
        backoff.refused(gang, now)
        rests.append(backoff.until(gang, now) - now)
        now = backoff.until(gang, now)
        assert backoff.until(gang, now) == 0
    assert rests[:4] == [10 * SECOND, 20 * SECOND, 40 * SECOND, 80 * SECOND]
    assert rests[-2:] == [LONGEST_NS, LONGEST_NS]
    backoff.forget(now + FORGIVEN_NS - 1)
    backoff.refused(gang, now + FORGIVEN_NS - 1)
    assert backoff.until(gang, now + FORGIVEN_NS - 1) == now + FORGIVEN_NS - 1 + LONGEST_NS
    late = backoff.until(gang, now + FORGIVEN_NS - 1) + FORGIVEN_NS
    backoff.forget(late)
    backoff.refused(gang, late)
    assert backoff.until(gang, late) == late + FIRST_NS


def test_members_of_a_gang_that_are_refused_together_are_one_failure() -> None:
    backoff, gang = PreemptionBackoff(), GangRecord("ns", "g", uid="u")
    for at in range(8):
        backoff.refused(gang, NOW + at)
    assert backoff.until(gang, NOW + 8) == NOW + FIRST_NS
    assert backoff.until(GangRecord("ns", "h", uid="v"), NOW) == 0


def test_the_view_says_until_when_a_refused_gang_may_not_preempt_and_the_loop_wakes_then() -> None:
    state = state_with()
    state.upsert_pod(pod("a", queue="q"))
    assert state.view(NOW).gangs[0].evicts_from == 0
    decide(state)
    state.refuse("pod-a", NO, NOW, keep_place=False)
    rested = NOW + 2 * SECOND
    (gang,) = state.view(rested).gangs
    assert gang.evicts_from == NOW + FIRST_NS
    assert state.next_retry() == NOW + FIRST_NS
    (gang,) = state.view(NOW + FIRST_NS).gangs
    assert gang.evicts_from == 0
    assert state.next_retry() is None
