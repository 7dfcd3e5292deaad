"""What a question about a change names must be there."""

from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.scheduler.whatif.newcomers import Submitted
from t9ksched.scheduler.whatif.question import AskedChange, Question, read_change
from tests.unit.scheduler.state.test_state import node, pod, state_with


def faults(question: Question) -> list[tuple[str, str]]:
    state = state_with(node("n1"), queues={"a100": {}})
    state.upsert_pod(pod("waits", queue="soon"))
    try:
        read_change(question, state, dict)
    except Invalid as error:
        return [(one.path, one.message) for one in error.errors]
    return []


def asked(*submitted: str, **change: Any) -> Question:
    return Question("root", items=[Submitted({}, queue=name) for name in submitted], change=AskedChange(**change))


@pytest.mark.parametrize(
    ("change", "path", "text"),
    [
        (
            {"queues": {"a100": {}, "a10": {"priority": 3}}},
            "change.queues[1].name",
            "there is no queue 'a10', and no job asks for one of that name; did you mean 'a100'?",
        ),
        (
            {"queues": {"nowhere": {}}},
            "change.queues[0].name",
            "there is no queue 'nowhere', and no job asks for one of that name",
        ),
        ({"nodesGone": ["n1", "n2"]}, "change.nodesGone[1]", "there is no node 'n2'"),
        ({"nodesGone": [{}]}, "change.nodesGone[0]", "there is no node {}"),
        ({"nodesAdded": [{"name": "n3", "like": "n2"}]}, "change.nodesAdded[0].like", "there is no node 'n2'"),
        ({"nodesAdded": [{"name": "n1", "like": "n1"}]}, "change.nodesAdded[0].name", "the node 'n1' exists already"),
        ({"policy": "actionss: [allocate]"}, "change.policy", "actionss"),
        ({"policy": "actions: [fly]"}, "change.policy", "fly"),
    ],
)
def test_what_is_not_there_is_a_fault(change: Any, path: str, text: str) -> None:
    found = faults(asked(**change))
    assert {where for where, _ in found} == {path}
    assert any(text in message for _, message in found)


def test_a_new_queue_is_for_a_job_that_asks_for_it() -> None:
    assert faults(asked("fresh", queues={"fresh": {"priority": 3}})) == []
    assert faults(asked(queues={"soon": {}})) == [], "a job waits for it"


def test_a_node_like_one_that_is_away_has_only_the_taints_that_stay() -> None:
    kept = {"key": "team", "value": "red", "effect": "NoSchedule"}
    passing = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    state = state_with(node("n1", unschedulable=True, taints=[kept, *passing]))
    (made,) = read_change(asked(nodesAdded=[{"name": "n2", "like": "n1"}]), state, dict).added
    assert not made.unschedulable
    assert [taint.key for taint in made.taints] == ["team"]
