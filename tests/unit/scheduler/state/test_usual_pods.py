"""What the state tells the planner of the pods that are usual."""

from tests.unit.scheduler.state.test_state import group, node, pod, state_with


def counts(state: object) -> list[tuple[int, int]]:
    """Cards of each class in the order of arrival, and how many pods."""
    return [(sum(of.card_counts.values()), count) for of, count in state.view(0).usual]  # type: ignore[attr-defined]


def test_each_pod_of_ours_counts_once_when_it_is_first_seen() -> None:
    state = state_with(node("n", gpus=8))
    assert counts(state) == []
    state.upsert_group(group("g", 2))
    made = [pod(name, group="g") for name in ("a", "b")]
    for one in (*made, *made):
        state.upsert_pod(one)
    assert counts(state) == [(1, 2)]
    foreign = pod("other")
    foreign.spec.scheduler_name = "default-scheduler"
    state.upsert_pod(foreign)
    state.remove_pod(made[0].metadata.uid)
    assert counts(state) == [(1, 2)], "what another scheduler places is not usual here, and what has gone was"


def test_a_scheduler_that_starts_learns_from_the_pods_that_are_there() -> None:
    first = state_with(node("n", gpus=8))
    first.upsert_group(group("g", 3))
    made = [pod(name, group="g") for name in ("a", "b", "c")]
    for one in made:
        first.upsert_pod(one)
    again = state_with(node("n", gpus=8))
    again.upsert_group(group("g", 3))
    for one in reversed(made):
        again.upsert_pod(one)
    assert again.view(0).usual == first.view(0).usual
