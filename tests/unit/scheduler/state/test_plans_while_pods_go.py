"""A firm plan stays where it is, or moves earlier, while another job's pods go one by one: with their PodGroup, or
without it, so that room is kept for them.
"""

from collections.abc import Callable

import pytest

from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.end_rules import LEFT_NS
from t9ksched.scheduler.state.refill import UNCONTROLLED_NS
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.runs import Run
from tests.unit.scheduler.planning import SECOND, cycle, limited, runs, view_of
from tests.unit.scheduler.state.test_state import GPU, NOW, group, node, state_with

END = 3 * 3600 + 10
"""When the job that goes was to end, in seconds."""


def come(state: ClusterState, name: str, cards: int, limit: str) -> None:
    """A gang of pods with one card each."""
    state.upsert_group(group(name, cards))
    for at in range(cards):
        state.upsert_pod(limited(f"{name}-{at}", limit=limit, group=name))


def begin(state: ClusterState, name: str, cards: int, now: int) -> None:
    """The gang, which was placed, runs from that moment on."""
    runs(state, now, *(limited(f"{name}-{at}", limit="", group=name) for at in range(cards)))
    state.clocks.by_job[f"group-{name}"] = Clock(Run(uid=f"group-{name}", bound_at=now, ran_at=now))
    state.clock_changed(f"group-{name}")


def planned(state: ClusterState) -> dict[str, int]:
    """Seconds from the beginning until the planned start of each gang."""
    return {uid[6:]: (plan[0].since - NOW) // SECOND for uid, plan in state.reservations.planned.items()}


@pytest.fixture
def state() -> ClusterState:
    """Ten cards: `a` has six, for three hours, and `c` four, for one; `b` waits for eight, `d` for four."""
    made = state_with(*(node(f"x{at}", 1) for at in range(10)), queues={"q": {"quota": {"requests": {GPU: "10"}}}})
    come(made, "a", 6, "3h")
    cycle(made, NOW, 1)
    begin(made, "a", 6, NOW)
    come(made, "b", 8, "30m")
    cycle(made, NOW, 1)
    come(made, "d", 4, "10h")
    cycle(made, NOW, 1)
    come(made, "c", 4, "1h")
    cycle(made, NOW, 1)
    begin(made, "c", 4, NOW)
    cycle(made, NOW, 1)
    assert planned(made) == {"b": END, "d": END + 2710}
    return made


def test_a_job_whose_group_goes_before_its_pods(state: ClusterState) -> None:
    state.remove_group(group("a", 6))
    cycle(state, NOW + SECOND, 1)
    assert planned(state)["b"] == END
    for at in range(6):
        state.remove_pod(f"pod-a-{at}")
        cycle(state, NOW + SECOND, 1)
        assert planned(state)["b"] <= END
    assert planned(state) == {"b": 3610, "d": 3610 + 2710}


def test_pods_that_their_group_left_behind_end_when_they_were_to_for_a_minute(state: ClusterState) -> None:
    state.remove_group(group("a", 6))
    assert (NOW + END * SECOND) in [one.at for one in view_of(state, NOW).expected_ends]
    assert state.next_retry() == NOW + LEFT_NS
    cycle(state, NOW + LEFT_NS - SECOND, 1)
    assert planned(state)["b"] == END
    cycle(state, NOW + LEFT_NS, 1)
    assert "b" not in planned(state)


@pytest.mark.parametrize("step", [lambda at: 0, lambda at: at * SECOND], ids=["at once", "second by second"])
def test_room_that_is_kept_for_lost_members_ends_with_their_gang(
    state: ClusterState, step: Callable[[int], int]
) -> None:
    for at in range(6):
        state.remove_pod(f"pod-a-{at}")
        cycle(state, NOW + step(at), 1)
        assert planned(state)["b"] == END, at
    assert len([one for one in state.reservations.in_force() if one.owner == "group-a"]) == 6
    cycle(state, NOW + 10 * SECOND, 1)
    assert planned(state)["b"] == END
    cycle(state, NOW + step(5) + UNCONTROLLED_NS, 1)
    assert not [one for one in state.reservations.in_force() if one.owner == "group-a"]
    assert planned(state)["b"] < END


def test_room_is_kept_no_longer_than_until_the_end_of_the_gang(state: ClusterState) -> None:
    late = NOW + (END - 30) * SECOND
    for at in range(6):
        state.remove_pod(f"pod-a-{at}")
    cycle(state, late, 1)
    assert planned(state)["b"] == END
    assert [one for one in state.reservations.in_force() if one.owner == "group-a"]
    cycle(state, NOW + END * SECOND, 1)
    assert not [one for one in state.reservations.in_force() if one.owner == "group-a"]
