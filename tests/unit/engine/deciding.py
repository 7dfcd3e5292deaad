"""Short words for tables about plans: decide, and look at one side of the plan."""

from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.taints import Taint
from tests.builders import node

NOW = 1_000
FOUR = [node(f"n{at}", gpu=8) for at in range(4)]
A100 = {"nvidia.com/gpu.product": "A100"}
POOL = [
    node("a0", gpu=4, labels={**A100, "rank": "7"}),
    node("a1", gpu=4, labels=A100, taints=[Taint("team", "red")]),
    node("a2", gpu=4, labels=A100, unschedulable=True),
    node("a3", gpu=4, labels=A100, ready=False),
    node("a4", gpu=4, labels=A100, deleting=True),
    node("b0", gpu=4, labels={"rank": "3"}),
]


def decide(given: View, policy: Policy | None = None) -> Plan:
    return plan(given, policy or Policy(), NOW)


def starts(found: Plan) -> list[str]:
    """Gangs in the order in which they were given places."""
    return list(dict.fromkeys(one.gang for one in found.assignments))


def where(found: Plan) -> dict[str, str]:
    return {one.pod: one.node for one in found.assignments}


def indices(found: Plan) -> dict[str, tuple[int, ...]]:
    return {one.pod: one.cards[0][2] for one in found.assignments}


def codes(found: Plan) -> dict[str, list[str]]:
    return {entry.gang: [reason.code.value for reason in entry.reasons] for entry in found.waiting}
