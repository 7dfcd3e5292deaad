"""What did not fit is not tried again until something it waits for changes; the counters prove it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Neighbours
from t9ksched.model.podrules import parse_rules
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import gang, node, pod_class, queue, running, table, view

NODES = [node(f"{pool}{at}", cpu=8, labels={"pool": pool}) for pool in "ab" for at in range(3)]


@pytest.fixture
def full() -> NodeTable:
    found = table(NODES)
    for name in found.names:
        found.charge(found.row(name), pod_class(cpu=8))
    return found


def waiting(count: int = 20) -> list[Gang]:
    """All unlike, half of them for each pool."""
    return [
        gang(f"g{at}", cpu=1 + at % 7, memory=f"{at + 1}Mi", selector={"pool": "ab"[at % 2]}) for at in range(count)
    ]


def cycle(
    live: NodeTable,
    gangs: list[Gang],
    memory: Memory,
    holds: tuple[Reservation, ...] = (),
    near: tuple[Neighbours, ...] = (),
) -> tuple[int, int]:
    """Attempts made and spared by one cycle; its plan is the one that a fresh memory gives."""
    before = memory.failures.tried, memory.failures.spared
    given = replace(view(live, gangs, {"q": queue()}, holds), neighbours=near)
    assert plan(given, Policy(), 0, memory).to_bytes() == plan(given, Policy(), 0).to_bytes()
    return memory.failures.tried - before[0], memory.failures.spared - before[1]


def test_nothing_is_tried_twice_while_nothing_changes(full: NodeTable) -> None:
    memory, gangs = Memory(), waiting()
    assert cycle(full, gangs, memory) == (20, 0)
    assert cycle(full, gangs, memory) == (0, 20)
    assert cycle(full, [*gangs, gang("new", cpu=3, memory="3Gi")], memory) == (1, 20)


def test_only_gangs_that_wait_for_the_changed_nodes_are_tried(full: NodeTable) -> None:
    memory, gangs = Memory(), waiting()
    cycle(full, gangs, memory)
    full.discharge(full.row("a1"), pod_class(cpu=8))
    full.charge(full.row("a1"), pod_class(cpu="7500m"))
    assert cycle(full, gangs, memory) == (0, 20), "what is free there now is enough for none of them"
    full.discharge(full.row("a1"), pod_class(cpu="7500m"))
    assert cycle(full, gangs, memory) == (4, 16), "those that fit, until that room is gone, too"
    full.upsert(node("a2", cpu=9, labels={"pool": "a"}))
    assert cycle(full, gangs, memory)[1] == 0, "a changed node makes a new picture"


def test_room_that_is_held_is_remembered_with_its_owner(full: NodeTable) -> None:
    memory, gangs = Memory(), waiting()
    cycle(full, gangs, memory)
    hold = Reservation("elsewhere", "a0", pod_class(cpu=1), ReservationKind.BINDING)
    for holds in (hold,), (hold,), (replace(hold, owner="another"),), (replace(hold, kind=ReservationKind.REFILL),):
        assert cycle(full, gangs, memory, holds) == (0, 20), "numbers say whether it would be room for any"
    assert cycle(full, gangs, memory, (replace(hold, node="b0"),)) == (0, 20), "what came free is enough for none"
    assert cycle(full, gangs, memory) == (0, 20)


def test_room_that_is_held_is_told_of_from_numbers(full: NodeTable) -> None:
    memory, gangs = Memory(), waiting()
    full.discharge(full.row("a0"), pod_class(cpu=8))
    hold = Reservation("elsewhere", "a0", pod_class(cpu=8), ReservationKind.BINDING)
    cycle(full, gangs, memory, (hold,))
    assert cycle(full, gangs, memory, (hold, replace(hold, owner="one more", node="b0"))) == (0, 20)
    assert cycle(full, gangs, memory, (replace(hold, kind=ReservationKind.REFILL),)) == (0, 20)


def test_a_gang_that_gives_up_held_room_wakes_gangs_that_wait_for_it(full: NodeTable) -> None:
    """What the owner held and did not use is room for others in the same cycle, as far as it is enough for them."""
    memory = Memory()
    full.discharge(full.row("a1"), pod_class(cpu=8))
    full.charge(full.row("a1"), pod_class(cpu="100m"))
    full.discharge(full.row("a0"), pod_class(cpu=8))
    holds = (Reservation("owner", "a0", pod_class(cpu=8), ReservationKind.BINDING),)
    owner = gang("owner", cpu=4, selector={"pool": "a"})
    other = gang("other", cpu=8, selector={"kubernetes.io/hostname": "a0"})
    assert cycle(full, [other], memory, holds) == (1, 0)
    assert cycle(full, [other], memory, holds) == (0, 1)
    assert cycle(full, [owner, other], memory, holds) == (1, 1), "what is left is too little"
    small = gang("small", cpu=2, selector={"kubernetes.io/hostname": "a0"})
    assert cycle(full, [owner, other, small], memory, holds)[0] == 2


def test_no_victims_are_looked_for_where_all_that_may_go_are_too_little() -> None:
    nodes = [node(f"n{at}", cpu=8) for at in range(4)]
    policy = Policy(actions=("allocate", "preempt"))
    queues = {"low": queue(), "mid": queue(priority=1), "top": queue(priority=2)}
    stays = [running(f"s{at}", "mid", [f"n{at}"], cpu=5) for at in range(4)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=3) for at in range(4)]
    asked = [gang(f"g{at}", "mid", cpu=4 + at, memory=f"{at + 1}Mi") for at in range(3)]
    memory, searched = Memory(), []
    for gone in (0, 0, 1, 2):
        given = view(nodes, asked, queues, running=[*stays, *lows[gone:]])
        assert plan(given, policy, 0, memory).to_bytes() == plan(given, policy, 0).to_bytes()
        searched.append(memory.failures.searched)
    assert searched == [3, 3, 3, 3]
    given = view(nodes, [*asked, gang("h", "top", cpu=8)], queues, running=[*stays, *lows])
    assert plan(given, policy, 0, memory).evictions


def test_victims_are_not_looked_for_twice_while_nothing_changes() -> None:
    """All that may go would be enough, but not within one pool."""
    nodes = [node(f"n{at}", cpu=8, labels={"pool": str(at)}) for at in range(4)]
    policy = Policy(actions=("allocate", "preempt"))
    queues = {"low": queue(), "mid": queue(priority=1), "top": queue(priority=2)}
    stays = [running(f"s{at}", "mid", [f"n{at}"], cpu=5) for at in range(4)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=3) for at in range(4)]
    asked = [
        structs.replace(gang(f"g{at}", "mid", 2, cpu=2, memory=f"{at + 1}Mi"), topology="Required", levels=("pool",))
        for at in range(3)
    ]
    given = view(nodes, asked, queues, running=[*stays, *lows])
    memory = Memory()

    def searches(of: View) -> int:
        before = memory.failures.searched
        assert plan(of, policy, 0, memory).to_bytes() == plan(of, policy, 0).to_bytes()
        return memory.failures.searched - before

    assert (searches(given), searches(given)) == (3, 0)
    assert searches(replace(given, running=given.running[:-1])) == 3, "others run"
    raised = {**given.queues, "mid": queue(priority=1, preemptible=False)}
    assert searches(replace(given, running=given.running[:-1], queues=raised)) == 3, "a queue was edited"
    above = {**given.queues, "mid": replace(given.queues["mid"], spec=replace(given.queues["mid"].spec, priority=2))}
    assert searches(replace(given, queues=above)) == 3, "another priority"
    assert plan(replace(given, gangs=(gang("h", "top", cpu=8),)), policy, 0, memory).evictions


def beside(app: str, *names: str) -> Neighbours:
    """Pods of an app, one on each node named."""
    return Neighbours("test", (("app", app),), tuple((name, 1) for name in names))


def ruled(name: str, spec: Mapping[str, Any], key: str = "pool") -> Gang:
    """A gang of one with a rule about pods of the app `spec` names, over pools of nodes."""
    term = {"labelSelector": {"matchLabels": {"app": spec["app"]}}, "topologyKey": key}
    rules = parse_rules(
        {spec["kind"]: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}, None, "test", {"app": name}
    )
    return gang(name, of=replace(pod_class(cpu=1), rules=rules))


def test_rules_about_pods_are_tried_again_when_those_they_speak_of_come_or_go() -> None:
    live, memory = table(NODES), Memory()
    waits = [
        ruled("near", {"kind": "podAffinity", "app": "db"}),
        ruled("far", {"kind": "podAntiAffinity", "app": "web"}),
    ]
    webs = beside("web", "a0", "b0")
    assert cycle(live, waits, memory, near=(webs,)) == (2, 0)
    assert cycle(live, waits, memory, near=(webs,)) == (0, 2)
    assert cycle(live, waits, memory, near=(beside("web", "a0", "b1"),)) == (1, 1), "a web server moved to another node"
    assert cycle(live, waits, memory, near=(beside("web", "a0", "b1"), beside("log", "a1"))) == (0, 2), (
        "no gang asks for it"
    )
    leaving = (structs.replace(webs, leaving=True),)
    assert cycle(live, waits, memory, near=leaving) == (1, 1)
    assert cycle(live, waits, memory, near=(webs, beside("db", "b1"))) == (2, 0), "a database came: one of them starts"


def test_gangs_that_must_be_together_are_tried_again_when_their_nodes_change(full: NodeTable) -> None:
    memory = Memory()
    pooled = [
        structs.replace(
            gang(f"t{at}", pods=2, cpu=1, selector={"pool": "ab"[at]}), topology="Required", levels=("pool",)
        )
        for at in range(2)
    ]
    assert cycle(full, pooled, memory) == (2, 0)
    assert cycle(full, pooled, memory) == (0, 2)
    full.discharge(full.row("a0"), pod_class(cpu=8))
    full.charge(full.row("a0"), pod_class(cpu=7))
    assert cycle(full, pooled, memory) == (1, 1)
    wider = [structs.replace(one, levels=("pool", "kubernetes.io/hostname")) for one in pooled]
    assert cycle(full, wider, memory) == (2, 0), "they may be in other domains now"
    assert cycle(full, [structs.replace(one, nodes=("a1",)) for one in wider], memory) == (2, 0), (
        "a member is somewhere"
    )


def test_victims_for_gangs_with_rules_are_not_looked_for_twice_either() -> None:
    nodes = [node(f"n{at}", cpu=8, labels={"pool": "ab"[at % 2]}) for at in range(4)]
    policy = Policy(actions=("allocate", "preempt"))
    queues = {"low": queue(), "mid": queue(priority=1)}
    stays = [running(f"s{at}", "mid", [f"n{at}"], cpu=5) for at in range(4)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=3) for at in range(4)]
    together = structs.replace(gang("together", "mid", pods=3, cpu=2), topology="Required", levels=("pool",))
    away = structs.replace(gang("away", "mid"), waiting=ruled("far", {"kind": "podAntiAffinity", "app": "web"}).waiting)
    given = replace(
        view(nodes, [together, away], queues, running=[*stays, *lows]), neighbours=(beside("web", "n0", "n1"),)
    )
    memory = Memory()

    def searches(of: View) -> int:
        before = memory.failures.searched
        assert plan(of, policy, 0, memory).to_bytes() == plan(of, policy, 0).to_bytes()
        return memory.failures.searched - before

    assert (searches(given), searches(given)) == (2, 0)
    assert searches(replace(given, neighbours=(beside("web", "n0", "n3"),))) == 1
    assert searches(replace(given, running=given.running[:-1])) == 2


def test_a_search_in_vain_after_others_were_told_to_go_is_not_remembered() -> None:
    """The evictions may not be carried out: the next gang finds the same victims."""
    nodes = [node(f"n{at}", cpu=8, labels={"pool": str(at)}) for at in range(2)]
    policy = Policy(actions=("allocate", "preempt"))
    queues = {"low": queue(), "mid": queue(priority=1)}
    gangs = [gang(name, "mid", cpu=8, selector={"pool": str(at)}) for at, name in enumerate(["first", "second"])]
    both = view(nodes, gangs, queues, running=[running("l", "low", ["n0", "n1"], cpu=8)])
    memory = Memory()
    assert {one.by for one in plan(both, policy, 0, memory).evictions} == {"first"}
    assert {one.by for one in plan(replace(both, gangs=tuple(gangs[1:])), policy, 0, memory).evictions} == {"second"}
