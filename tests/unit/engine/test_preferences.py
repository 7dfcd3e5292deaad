"""What ranks nodes besides binpack: preferences of a pod, weighed together, and nodes without cards."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.engine.memory import Memory
from t9ksched.engine.placement.scores import FULL, Scores, Source, combined
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Binpack, Policy
from t9ksched.model.gang import Member, Neighbours
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import parse_rules
from t9ksched.model.taints import Taint
from tests.builders import gang, member, node, pod_class, table, view

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def ruled(of: PodClass | None = None, **affinity: Any) -> PodClass:
    return replace(of or pod_class(), rules=parse_rules(affinity, (), "test", {"app": "a"}))


def likes_node(name: str, weight: int = 100) -> dict[str, Any]:
    expression = {"key": HOST, "operator": "In", "values": [name]}
    return {PREFERRED: [{"weight": weight, "preference": {"matchExpressions": [expression]}}]}


def likes_pods(app: str, weight: int = 100) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}


def there(app: str, node: str) -> Neighbours:
    return Neighbours("test", (("app", app),), ((node, 1),))


def decide(nodes: Iterable[NodeFacts], of: PodClass, policy: Policy, *beside: Neighbours) -> Plan:
    waiting = gang("g", members=[replace_labels(member("g-0", of))])
    found = replace(view(nodes, [waiting]), neighbours=beside)
    return plan(found, policy, 0)


def replace_labels(one: Member) -> Member:
    return msgspec.structs.replace(one, labels=(("app", "a"),))


def where(found: Plan) -> str:
    (assignment,) = found.assignments
    return assignment.node


SOURCES = st.lists(st.tuples(st.integers(1, 5), st.lists(st.integers(-50, 50), min_size=4, max_size=4)), max_size=5)


@given(SOURCES, st.integers(1, 10), st.lists(st.booleans(), min_size=4, max_size=4))
def test_all_preferences_together_have_the_weight_once(
    sources: list[tuple[int, list[int]]], weight: int, usable: list[bool]
) -> None:
    among = np.array(usable, np.bool_)
    total = combined([Source(share, np.array(raw, np.int64)) for share, raw in sources], among, weight)
    if total is None:
        assert all(len({value for value, use in zip(raw, usable, strict=True) if use}) < 2 for _, raw in sources)
    else:
        assert total[among].min() >= 0
        assert total[among].max() <= FULL * weight


def test_one_that_speaks_alone_has_the_whole_weight() -> None:
    everywhere = np.ones(3, np.bool_)
    silent = Source(3, np.array([7, 7, 7], np.int64))
    total = combined([Source(2, np.array([0, 5, 10], np.int64)), silent], everywhere, 10)
    assert total is not None
    assert [round(value / FULL, 6) for value in total.tolist()] == [0, 5, 10]


def test_node_affinity_is_measured_from_nothing() -> None:
    """As kube-scheduler does: of 90 and 100 points the lesser is worth nine tenths, not nothing."""
    total = combined([Source(2, np.array([90, 100], np.int64), from_zero=True)], np.ones(2, np.bool_), 1)
    assert total is not None
    assert [round(value / FULL, 6) for value in total.tolist()] == [0.9, 1]


def test_preferences_do_not_add_up_beyond_the_weight() -> None:
    """Three sources for one node are worth no more than binpack with the same weight says for another."""
    soft = [Taint("busy", "", "PreferNoSchedule")]
    nodes = [node("full", cpu=2, taints=soft), node("liked", cpu=100)]
    live = table(nodes)
    live.charge(live.row("full"), pod_class(cpu=1))
    of = ruled(pod_class(memory=0), nodeAffinity=likes_node("liked"), podAffinity=likes_pods("db"))
    strong = Policy(affinity_weight=1, binpack=Binpack(weight=2, resources=(("cpu", 1), ("memory", 0))))
    waiting = gang("g", members=[replace_labels(member("g-0", of))])
    found = plan(replace(view(live, [waiting]), neighbours=(there("db", "liked"),)), strong, 0)
    assert where(found) == "full"


def test_sources_that_disagree_are_weighed() -> None:
    """Soft taints weigh 3, node affinity 2: what is avoided goes before what is liked, as in kube-scheduler."""
    nodes = [node("liked", taints=[Taint("busy", "", "PreferNoSchedule")]), node("other")]
    assert where(decide(nodes, ruled(nodeAffinity=likes_node("liked")), Policy())) == "other"
    assert where(decide([nodes[1], node("liked")], ruled(nodeAffinity=likes_node("liked")), Policy())) == "liked"
    both = ruled(nodeAffinity=likes_node("b"), podAffinity=likes_pods("db"))
    three = [node("a"), node("b"), node("c")]
    assert where(decide(three, both, Policy(), there("db", "c"))) in ("b", "c")
    assert where(decide(three, both, Policy(), there("db", "b"))) == "b"


# --- nodes without cards

MIXED = [node("a-gpu", gpu=8), node("b-cpu"), node("c-cpu")]


def test_pods_without_cards_leave_nodes_with_cards_alone() -> None:
    live = table(MIXED)
    live.charge(live.row("a-gpu"), pod_class(cpu=90, memory="900Gi"))  # binpack likes it best
    found = plan(view(live, [gang("g", pods=4, cpu=40)]), Policy(), 0)
    assert sorted(one.node for one in found.assignments) == ["b-cpu", "b-cpu", "c-cpu", "c-cpu"]
    assert where(plan(view(live, [gang("g", cpu=2)]), replace(Policy(), cardless_weight=0), 0)) == "a-gpu"


def test_they_go_there_when_nothing_else_has_room() -> None:
    found = plan(view(MIXED, [gang("g", pods=6, cpu=48)]), Policy(), 0)
    assert {one.node for one in found.assignments} == {"a-gpu", "b-cpu", "c-cpu"}


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_pods_that_ask_for_cards_or_parts_of_cards_are_not_kept_off(resource: str) -> None:
    both = [node("a-gpu", **{resource: 8}), node("b-gpu", **{resource: 8})]
    assert where(plan(view(both, [gang("g", **{resource: 1})]), Policy(), 0)) == "a-gpu"


def test_nodes_with_slices_are_spared_too() -> None:
    sliced = replace(node("a-sliced"), mode="MIGMixed")
    assert where(plan(view([sliced, node("b-cpu")], [gang("g")]), Policy(), 0)) == "b-cpu"


def test_what_a_pod_itself_prefers_goes_first() -> None:
    assert where(decide(MIXED, ruled(nodeAffinity=likes_node("a-gpu")), Policy())) == "a-gpu"


def test_the_memo_changes_nothing() -> None:
    memory, waiting = Memory(), view(MIXED, [gang("g", pods=4, cpu=40)])
    first = plan(waiting, Policy(), 0, memory)
    assert plan(waiting, Policy(), 0, memory).to_bytes() == first.to_bytes() == plan(waiting, Policy(), 0).to_bytes()


@pytest.mark.parametrize("strategy", ["MostAllocated", "LeastAllocated"])
@pytest.mark.parametrize("cpu", [1, 3, 5, 300])
def test_what_a_pod_adds_is_the_same_for_all_nodes_at_once_and_one_by_one(strategy: Any, cpu: int) -> None:
    """Also where it asks for more than counts on small nodes, and where nodes have none of a resource."""
    nodes = table([node("small", cpu=1), node("large", cpu=64, gpu=8), node("none", cpu=0)]).freeze()
    scores = Scores(nodes.static, Binpack(strategy=strategy))
    asked = {"cpu": cpu * 1000, "memory": 1 << 30}
    needs = np.array([asked.get(name, 0) for name in nodes.static.resources], np.int64)
    gain = scores.gain(needs)
    assert gain.tolist() == [int(scores.gain_of(needs, row)) for row in range(3)]
    assert gain.any()
    assert scores.gain(needs.copy()) is gain, "it is remembered"
    with pytest.raises(ValueError, match="read-only"):
        gain[0] = 1
