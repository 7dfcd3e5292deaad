"""What one pod of an owner costs does not depend on how many others the owner has."""

from typing import Any
from unittest.mock import patch

import pytest

from t9ksched.engine.work import finish
from t9ksched.kube.resources import REPLICASETS
from t9ksched.scheduler.state import lastgate
from t9ksched.scheduler.state.state import ClusterState
from tests.counting import Lines
from tests.unit.scheduler.state.test_lastgate import owned, replicated, waits, with_deployment
from tests.unit.scheduler.state.test_state import GPU, NOW, group, node, pod, state_with

RS = "ReplicaSet"


def judged(state: ClusterState) -> int:
    """The lines that a pass takes."""
    with Lines() as lines:
        finish(state.judge(NOW))
    return lines.count


def with_pods(pods: int, *, known: bool = True) -> ClusterState:
    """As many waiting pods of a Deployment that wants them, or of a thing that is not followed."""
    state = state_with(node(gpus=8))
    if known:
        with_deployment(state, pods + 1)
    for at in range(pods):
        comes(state, f"p{at}", known=known)
    return state


def comes(state: ClusterState, name: str, *, known: bool) -> None:
    if known:
        waits(state, name)
    else:
        state.upsert_pod(owned(pod(name, queue="q"), "Thing", "thing"))


@pytest.mark.parametrize("known", [True, False], ids=["wanted", "beyond what was accepted"])
def test_pods_that_come_cost_the_same_each(known: bool) -> None:
    few, many = (judged(with_pods(pods, known=known)) / pods for pods in (100, 400))
    assert many < few * 1.1


@pytest.mark.parametrize("known", [True, False], ids=["wanted", "beyond what was accepted"])
def test_one_pod_more_is_counted_alone(known: bool) -> None:
    def work(pods: int) -> int:
        state = with_pods(pods, known=known)
        for _ in range(3):
            finish(state.judge(NOW))
        comes(state, "more", known=known)
        gang = state.pods["pod-more"].gang
        assert gang is not None
        state.gate.begin()
        with Lines() as lines:
            assert state.gate.refusal(gang, NOW) is None
        return lines.count

    assert work(400) <= work(20) + 10


def test_what_wants_something_else_does_not_count_its_pods_for_each() -> None:
    def work(pods: int) -> float:
        state = with_pods(pods)
        for _ in range(3):
            finish(state.judge(NOW))
        with_deployment(state, pods + 5)
        return judged(state) / pods

    assert work(400) < work(100) * 1.1


def test_totals_follow_what_becomes_of_pods() -> None:
    state = with_pods(3)
    finish(state.judge(NOW))

    def held(owner: str = "web") -> tuple[int, dict[str, Any]]:
        found = state.gate._held.of(owner, "q")
        return found.count, dict(found.amounts)

    _, amounts = held()
    each = {name: amount // 3 for name, amount in amounts.items()}
    assert held()[0] == 3
    state.upsert_pod(owned(pod("p0", queue="q", phase="Failed"), RS, "web-1"))
    assert held() == (2, {name: 2 * amount for name, amount in each.items()})
    state.remove_pod("pod-p1")
    assert held()[0] == 1
    # Its ReplicaSet belongs to another Deployment now.
    state.owners.upsert_replicated(replicated(RS, "web-1", 3, "other"), REPLICASETS)
    assert (held()[0], held("other")[0], held("web-1")[0]) == (0, 1, 1)
    state.remove_pod("pod-p2")
    assert held("other") == (0, {})


@pytest.mark.parametrize("quota", ["", "1000", "150"], ids=["no quota", "within the quota", "beyond the quota"])
def test_alike_pods_of_a_group_that_come_at_once_are_judged_together(quota: str) -> None:
    """As long as all of them may: else it is told of each why it may not."""
    spec = {"quota": {"requests": {GPU: quota}}} if quota else {}

    def work(pods: int) -> int:
        state = state_with(node(gpus=8), queues={"q": spec})
        state.upsert_group(group("g", 50, queue="q"))
        for at in range(100 + pods):
            if at == 100:
                finish(state.judge(NOW))
            state.upsert_pod(pod(f"p{at}", group="g"))
        judged: list[Any] = []
        ask = lastgate.judge
        with patch.object(lastgate, "judge", lambda asked: judged.append(asked) or ask(asked)):
            finish(state.judge(NOW))
        refused = [one.name for one in state.pods.values() if one.unpermitted]
        assert len(refused) == (max(0, pods - 50) if quota == "150" else 0)
        assert set(refused) == {f"p{at}" for at in range(150, 150 + len(refused))}
        return len(judged)

    few, many = work(20), work(200)
    assert few == 1
    assert many == (201 if quota == "150" else 1)
