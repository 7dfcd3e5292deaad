"""PodDisruptionBudgets: whom they guard, and how many of several."""

from typing import Any

import pytest

from t9ksched.model.gang import Running
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.budgets import Budgets, DisruptionBudget
from t9ksched.scheduler.state.records import PodRecord
from tests.builders import running

QUEUES = {name: Queue(name, parse_queue_spec({"priority": at})) for at, name in enumerate(("low", "mid"))}


def budget(allowed: int, selector: Any = None, name: str = "b", namespace: str = "test") -> DisruptionBudget:
    spec = {} if selector is None else {"selector": selector}
    item = {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": {"disruptionsAllowed": allowed}}
    return decoder(DisruptionBudget)(item)


def guarded(groups: list[Running], *budgets: DisruptionBudget, app: str = "x") -> list[str]:
    found = Budgets()
    for item in budgets:
        found.upsert(item)
    pods = {
        pod.uid: PodRecord(pod.uid, "test", pod.uid, True, pod.pod_class, labels={"app": app})
        for group in groups
        for pod in group.pods
    }
    return [group.uid for group in found.guard(groups, pods, QUEUES) if group.guarded]


X = {"matchLabels": {"app": "x"}}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (budget(0, X), ["a"]),
        (budget(1, X), []),
        (budget(0, {}), ["a"]),
        (budget(0), []),
        (budget(0, {"matchLabels": {"app": "y"}}), []),
        (budget(0, X, namespace="other"), []),
        (budget(0, {"matchExpressions": [{"key": "app", "operator": "Nonsense"}]}), []),
        (budget(-1, X), ["a"]),
    ],
    ids=["used up", "allows one", "all pods", "no pods", "others", "another namespace", "not readable", "negative"],
)
def test_whom_a_budget_guards(item: DisruptionBudget, expected: list[str]) -> None:
    assert guarded([running("a", "low", ["n0"])], item) == expected


def test_of_several_as_many_stay_open_as_it_allows() -> None:
    """Those who would go first: lowest queue, smaller priority, younger."""
    groups = [
        running("old", "low", ["n0"], created=1),
        running("young", "low", ["n0"], created=9),
        running("high", "low", ["n0"], priority=5, created=20),
        running("mid", "mid", ["n0"], created=30),
    ]
    assert guarded(groups, budget(0, X)) == ["old", "young", "high", "mid"]
    assert guarded(groups, budget(1, X)) == ["old", "high", "mid"]
    assert guarded(groups, budget(2, X)) == ["high", "mid"]
    assert guarded(groups, budget(9, X)) == []


def test_a_gang_needs_as_many_disruptions_as_pods_unless_it_has_surplus() -> None:
    gang = running("gang", "low", on="nnn")
    assert guarded([gang], budget(2, X)) == ["gang"]
    assert guarded([gang], budget(3, X)) == []
    elastic = running("elastic", "low", on="nnn", min_member=1)
    assert guarded([elastic], budget(1, X)) == []
    assert guarded([elastic], budget(0, X)) == ["elastic"]
    leaving = running("gang", "low", on="nnn", leaving=[2])
    assert guarded([leaving], budget(2, X)) == []


def test_every_budget_over_a_group_counts() -> None:
    group = running("a", "low", ["n0"])
    assert guarded([group], budget(5, X), budget(0, {}, name="all")) == ["a"]


def test_a_deleted_budget_guards_no_group() -> None:
    found = Budgets()
    found.upsert(budget(0, X))
    groups = [running("a", "low", ["n0"])]
    (pod,) = groups[0].pods
    pods = {pod.uid: PodRecord(pod.uid, "test", pod.uid, True, pod.pod_class, labels={"app": "x"})}
    assert [one.guarded for one in found.guard(groups, pods, QUEUES)] == [True]
    found.remove(budget(0, X))
    assert found.guard(groups, pods, QUEUES) == tuple(groups)
