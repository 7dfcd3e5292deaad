"""That gangs wait for the same with other numbers is published in turn, whatever their number; all else at once."""

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.other_numbers import A_SECOND, AT_ONCE
from t9ksched.scheduler.state.state import ClusterState
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import group, pod, state_with

MANY = AT_ONCE + 3 * A_SECOND


def lacks(free: int) -> tuple[Reason, ...]:
    return (Reason(Code.INSUFFICIENT_RESOURCES, f"best has {free} free"),)


def waiting(count: int) -> ClusterState:
    state = state_with(queues={"q": {}})
    for at in range(count):
        state.upsert_group(group(f"g{at}", 1))
        state.upsert_pod(pod(f"p{at}", group=f"g{at}"))
    tell(state, lacks(0))
    taken(state, "gangs")
    taken(state, "jobs")
    return state


def tell(state: ClusterState, reasons: tuple[Reason, ...], position: int = 1) -> None:
    for gang in state.gangs.values():
        state.progress.waits(gang, reasons, position)


def test_however_many_wait_few_are_published_a_second_each_in_its_turn() -> None:
    state = waiting(MANY)
    numbers = state.progress.other_numbers
    published = []
    for second in range(4):
        tell(state, lacks(1 + second % 2))
        assert numbers.publish(second)
        published.append(taken(state, "gangs"))
        assert len(taken(state, "jobs")) == len(published[-1])
    assert [len(gangs) for gangs in published] == [AT_ONCE, A_SECOND, A_SECOND, A_SECOND]
    assert len({gang.key for gangs in published for gang in gangs}) == MANY
    numbers.publish(60.0)
    assert not numbers.publish(120.0)
    assert all(gang.reasons == lacks(2) for gang in state.gangs.values()), "all have their numbers meanwhile"


def test_few_are_published_at_once() -> None:
    state = waiting(3)
    tell(state, lacks(1))
    assert not state.progress.other_numbers.publish(1.0)
    assert len(taken(state, "gangs")) == 3
    tell(state, lacks(1), position=2)
    assert not state.progress.other_numbers.publish(1.0)
    assert len(taken(state, "gangs")) == 3, "the place in the queue is a number, too"
    tell(state, lacks(1), position=2)
    assert not state.progress.other_numbers


def test_another_kind_of_reason_is_published_without_a_turn() -> None:
    state = waiting(2)
    tell(state, lacks(1))
    quota = (Reason(Code.QUOTA_EXCEEDED, "has 8 of 8"),)
    tell(state, quota)
    assert len(taken(state, "gangs")) == 2
    assert not state.progress.other_numbers, "and has no turn besides"
    state.progress.waits(next(iter(state.gangs.values())), (*quota, *lacks(1)), 1)
    assert len(taken(state, "gangs")) == 1
