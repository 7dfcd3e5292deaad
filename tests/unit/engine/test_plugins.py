"""Plugins as tables: what each kind decides, in which order, and that one that fails stops nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, Planner, plan
from t9ksched.engine.plugins import PluginUse
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec
from tests.builders import gang, node, queue, running, view
from tests.unit.engine.deciding import codes, starts, where


class Hooks:
    """A plugin of one method."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        for name, method in methods.items():
            setattr(self, name, method)


def using(*uses: PluginUse, **more: Any) -> Policy:
    return Policy(plugins=uses, **more)


def decide(given: View, policy: Policy) -> Plan:
    """The plan, which neither slices nor a memory change."""
    found, memory = plan(given, policy, 7), Memory()
    for _ in range(2):
        planner = Planner(given, policy, 7, memory)
        while not planner.step(1):
            pass
        assert planner.result().to_bytes() == found.to_bytes()
    return found


def test_a_plugin_orders_queues_at_its_place() -> None:
    queues = {"a": queue(), "b": queue(priority=3), "c": queue()}

    def rank(name: str, spec: QueueSpec, used: Mapping[str, int]) -> int:
        return {"a": 2, "b": 2, "c": 1}[name]

    given = view([node("n0", cpu=96)], [gang(name, name, cpu=1) for name in "abc"], queues)
    use = PluginUse("mine", Hooks(queue_rank=rank))
    assert starts(decide(given, using(use, queue_order=("basic", "mine")))) == ["b", "c", "a"]
    assert starts(decide(given, using(use, queue_order=("mine", "basic")))) == ["c", "b", "a"]
    assert starts(decide(given, using(use))) == ["b", "a", "c"], "listed, but not asked"


def test_what_a_queue_uses_is_told_anew_after_each_commitment() -> None:
    def fewest(name: str, spec: QueueSpec, used: Mapping[str, int]) -> int:
        return used.get("cpu", 0)

    gangs = [gang(f"{name}{at}", name, cpu=at + 1) for name in "ab" for at in range(2)]
    given = view([node("n0", cpu=96)], gangs, {"a": queue(), "b": queue()})
    policy = using(PluginUse("mine", Hooks(queue_rank=fewest)), queue_order=("mine",))
    assert starts(decide(given, policy)) == ["a0", "b0", "a1", "b1"]


def test_a_plugin_orders_gangs_at_its_place() -> None:
    use = PluginUse("small", Hooks(gang_rank=lambda one, now: len(one.waiting)))
    gangs = [gang("large", pods=3, priority=5), gang("small", pods=1), gang("other", pods=2, priority=5)]
    given = view([node("n0", cpu=96)], gangs)
    assert starts(decide(given, Policy())) == ["large", "other", "small"]
    assert starts(decide(given, using(use, gang_order=("basic", "small")))) == ["other", "large", "small"]
    assert starts(decide(given, using(use, gang_order=("small", "basic")))) == ["small", "other", "large"]
    refilled = view([node("n0", cpu=96)], [*gangs, gang("ran", pods=4, refilling=True)])
    assert starts(decide(refilled, using(use, gang_order=("small", "basic"))))[0] == "ran"


def test_gangs_are_told_the_time() -> None:
    told: list[int] = []
    use = PluginUse("old", Hooks(gang_rank=lambda one, now: told.append(now) or 0))
    plan(view([node("n0")], [gang("a")]), using(use, gang_order=("old",)), 42)
    assert told == [42]


def even_nodes(pod: PodClass, facts: NodeFacts) -> bool:
    return int(facts.name[1:]) % 2 == 0


def test_a_plugin_drops_nodes() -> None:
    use = PluginUse("even", Hooks(allows=even_nodes))
    nodes = [node(f"n{at}", cpu=1) for at in range(4)]
    given = view(nodes, [gang("a", pods=2, cpu=1), gang("b", cpu=1)])
    found = decide(given, using(use))
    assert set(where(found).values()) == {"n0", "n2"}
    assert codes(found) == {"b": ["InsufficientResources"]}
    odd = view(nodes[1::2], [gang("a", cpu=1)])
    (entry,) = decide(odd, using(use)).waiting
    assert entry.reasons[0].nodes["plugin even"] == 2
    assert "2 are refused by the plugin 'even'" in entry.reasons[0].message


def test_a_plugin_ranks_nodes_with_its_weight() -> None:
    one = PluginUse("one", Hooks(score=lambda pod, facts: 10 * int(facts.name[1:])), weight=2)
    other = PluginUse("other", Hooks(score=lambda pod, facts: 100 if facts.name == "n1" else 0), weight=1)
    given = view([node(f"n{at}", cpu=4) for at in range(4)], [gang("a", cpu=1)])
    assert where(decide(given, using(one))) == {"a-0": "n3"}
    assert where(decide(given, using(one, other))) == {"a-0": "n1"}
    assert where(decide(given, Policy())) == {"a-0": "n0"}


def test_a_node_is_asked_about_once_until_its_facts_change() -> None:
    asked: list[str] = []
    use = PluginUse("even", Hooks(allows=lambda pod, facts: asked.append(facts.name) or True))
    nodes, memory, policy = [node(f"n{at}", cpu=4) for at in range(3)], Memory(), using(use)
    shape = gang("a", cpu=1)
    live = view(nodes, [shape])
    for _ in range(3):
        plan(live, policy, 0, memory)
    assert asked == ["n0", "n1", "n2"]
    plan(view([*nodes[:2], node("n9", cpu=4)], [shape]), policy, 0, memory)
    assert asked == ["n0", "n1", "n2", "n9"]


def fails(*_: object) -> Any:
    raise RuntimeError("no")


@pytest.mark.parametrize("hook", ["queue_rank", "gang_rank", "allows", "score"])
@pytest.mark.parametrize("answer", [fails, lambda *_: "text", lambda *_: 1 / 0], ids=["raises", "nonsense", "divides"])
def test_a_plugin_that_fails_is_off_for_the_cycle(hook: str, answer: Callable[..., Any]) -> None:
    if hook == "allows" and answer is not fails:
        answer = lambda *_: 1 / 0  # noqa: E731
    policy = Policy(
        plugins=(PluginUse("mine", Hooks(**{hook: answer})),),
        queue_order=("mine", "basic") if hook == "queue_rank" else ("basic",),
        gang_order=("mine", "basic") if hook == "gang_rank" else ("basic",),
    )
    gangs = [gang("low", "a", cpu=1), gang("high", "b", cpu=1), gang("huge", "b", cpu=999)]
    given = view([node("n0", cpu=8)], gangs, {"a": queue(), "b": queue(priority=1)})
    found = decide(given, policy)
    assert starts(found) == ["high", "low"]
    assert codes(found) == {"huge": ["NeverFits"]}
    (fault,) = found.faults
    assert (fault.plugin, fault.hook) == ("mine", hook)
    assert fault.message


def test_a_score_out_of_range_is_a_fault() -> None:
    found = decide(view([node("n0")], [gang("a")]), using(PluginUse("mine", Hooks(score=lambda pod, facts: 101))))
    assert starts(found) == ["a"]
    assert "from 0 to 100, not 101" in found.faults[0].message


def test_a_plugin_that_fails_late_does_not_mix_old_ranks_with_none() -> None:
    def rank(name: str, spec: QueueSpec, used: Mapping[str, int]) -> int:
        if used:
            raise RuntimeError("late")
        return {"a": -5, "b": 9, "c": 7}[name]

    gangs: list[Gang] = [gang(f"{name}{at}", name, cpu=1) for name in "abc" for at in range(2)]
    given = view([node("n0", cpu=96)], gangs, {"a": queue(), "b": queue(priority=2), "c": queue(priority=1)})
    found = decide(given, using(PluginUse("mine", Hooks(queue_rank=rank)), queue_order=("mine", "basic")))
    assert starts(found) == ["a0", "b0", "b1", "c0", "c1", "a1"], "after the fault priority alone decides"
    assert len(found.faults) == 1


def test_what_was_refused_in_a_cycle_with_a_fault_is_not_remembered() -> None:
    broken = [True]

    def allows(pod: PodClass, facts: NodeFacts) -> bool:
        if broken[0]:
            raise RuntimeError("down")
        return facts.name == "n1"

    memory, policy = Memory(), using(PluginUse("mine", Hooks(allows=allows)))
    full = [running(f"r{at}", on=[f"n{at}"], cpu=4) for at in range(2)]
    given = view([node(f"n{at}", cpu=4) for at in range(2)], [gang("a", cpu=2)], running=full)
    found = plan(given, policy, 0, memory)
    assert found.faults
    assert found.waiting[0].reasons[0].nodes["match"] == 2, "the filter was off"
    broken[0] = False
    found = plan(given, policy, 0, memory)
    assert (found.faults, found.waiting[0].reasons[0].nodes["match"]) == ((), 1)
    assert found.to_bytes() == plan(given, policy, 0).to_bytes()


def test_nothing_is_evicted_from_nodes_that_a_plugin_drops() -> None:
    nodes = [node(f"n{at}", cpu=4) for at in range(2)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=4, created=at) for at in range(2)]
    queues = {"low": queue(), "high": queue(priority=1)}
    given = view(nodes, [gang("p", "high", cpu=4)], queues, running=lows)
    actions = ("allocate", "preempt")
    assert [one.pod for one in decide(given, Policy(actions=actions)).evictions] == ["l1-0"]
    use = PluginUse("even", Hooks(allows=even_nodes))
    assert [one.pod for one in decide(given, using(use, actions=actions)).evictions] == ["l0-0"]
