"""What did not fit is not tried again until something it waits for changes; the counters prove it."""

from dataclasses import replace

import pytest

from t9ksched.engine.masks import Memo
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.plan import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.hold import Hold
from tests.builders import gang, node, pod_class, queue, running, table, view

NODES = [node(f"{pool}{at}", cpu=8, labels={"pool": pool}) for pool in "ab" for at in range(3)]


@pytest.fixture
def full() -> NodeTable:
    found = table(NODES)
    for name in found.names:
        found.charge(found.row(name), pod_class(cpu=8), {})
    return found


def waiting(count: int = 20) -> list[Gang]:
    """All unlike, half of them for each pool."""
    return [
        gang(f"g{at}", cpu=1 + at % 7, memory=f"{at + 1}Mi", selector={"pool": "ab"[at % 2]}) for at in range(count)
    ]


def cycle(live: NodeTable, gangs: list[Gang], memo: Memo, holds: tuple[Hold, ...] = ()) -> tuple[int, int]:
    """Attempts made and spared by one cycle; its plan is the one that a fresh memo gives."""
    before = memo.failures.tried, memo.failures.spared
    given = view(live, gangs, {"q": queue()}, holds)
    assert plan(given, Policy(), 0, memo).to_bytes() == plan(given, Policy(), 0).to_bytes()
    return memo.failures.tried - before[0], memo.failures.spared - before[1]


def test_nothing_is_tried_twice_while_nothing_changes(full: NodeTable) -> None:
    memo, gangs = Memo(), waiting()
    assert cycle(full, gangs, memo) == (20, 0)
    assert cycle(full, gangs, memo) == (0, 20)
    assert cycle(full, [*gangs, gang("new", cpu=3, memory="3Gi")], memo) == (1, 20)


def test_only_those_who_wait_for_the_changed_nodes_are_tried(full: NodeTable) -> None:
    memo, gangs = Memo(), waiting()
    cycle(full, gangs, memo)
    full.discharge(full.row("a1"), pod_class(cpu=8), {})
    full.charge(full.row("a1"), pod_class(cpu="7500m"), {})
    assert cycle(full, gangs, memo) == (10, 10)
    full.upsert(node("a2", cpu=9, labels={"pool": "a"}))
    assert cycle(full, gangs, memo)[1] == 0, "a changed node makes a new picture"


def test_room_that_is_held_is_remembered_with_its_owner(full: NodeTable) -> None:
    memo, gangs = Memo(), waiting()
    cycle(full, gangs, memo)
    hold = Hold("elsewhere", "a0", pod_class(cpu=1))
    assert cycle(full, gangs, memo, (hold,)) == (10, 10), "only those of its pool may have lost room"
    assert cycle(full, gangs, memo, (hold,)) == (0, 20)
    assert cycle(full, gangs, memo, (replace(hold, owner="another"),)) == (10, 10)
    assert cycle(full, gangs, memo, (replace(hold, why="refill"),)) == (10, 10)
    assert cycle(full, gangs, memo, (replace(hold, node="b0"),)) == (20, 0)
    assert cycle(full, gangs, memo) == (10, 10)


def test_who_gives_up_held_room_wakes_those_who_wait_for_it(full: NodeTable) -> None:
    """The owner goes to a better node; what it held is room for others in the same cycle."""
    memo = Memo()
    full.discharge(full.row("a1"), pod_class(cpu=8), {})
    full.charge(full.row("a1"), pod_class(cpu="100m"), {})
    full.discharge(full.row("a0"), pod_class(cpu=8), {})
    holds = (Hold("owner", "a0", pod_class(cpu=8)),)
    owner = gang("owner", cpu=4, selector={"pool": "a"})
    other = gang("other", cpu=8, selector={"kubernetes.io/hostname": "a0"})
    assert cycle(full, [other], memo, holds) == (1, 0)
    assert cycle(full, [other], memo, holds) == (0, 1)
    assert cycle(full, [owner, other], memo, holds)[0] == 2


def test_victims_are_not_looked_for_twice_while_nothing_changes() -> None:
    nodes = [node(f"n{at}", cpu=8) for at in range(4)]
    policy = Policy(actions=("allocate", "preempt"))
    queues = {"low": queue(), "mid": queue(priority=1), "top": queue(priority=2)}
    stays = [running(f"s{at}", "mid", [f"n{at}"], cpu=5) for at in range(4)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=3) for at in range(4)]
    asked = [gang(f"g{at}", "mid", cpu=4 + at, memory=f"{at + 1}Mi") for at in range(3)]
    given = view(nodes, asked, queues, running=[*stays, *lows])
    memo = Memo()

    def searches(of: View) -> int:
        before = memo.failures.searched
        assert plan(of, policy, 0, memo).to_bytes() == plan(of, policy, 0).to_bytes()
        return memo.failures.searched - before

    assert (searches(given), searches(given)) == (3, 0)
    assert searches(replace(given, running=given.running[:-1])) == 3, "others run"
    raised = {**given.queues, "mid": queue(priority=1, preemptible=False)}
    assert searches(replace(given, running=given.running[:-1], queues=raised)) == 3, "a queue was edited"
    above = {**given.queues, "mid": replace(given.queues["mid"], spec=replace(given.queues["mid"].spec, priority=2))}
    assert searches(replace(given, queues=above)) == 3, "another priority"
    assert plan(replace(given, gangs=(gang("h", "top", cpu=8),)), policy, 0, memo).evictions
