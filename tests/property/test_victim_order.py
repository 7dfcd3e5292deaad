"""Who goes, against every set there is: small crowded worlds of pods, nodes and gangs of unequal sizes."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.engine.ledger import dominant
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.victims import contest, every_set
from t9ksched.engine.victims import price as pricing
from t9ksched.engine.victims.price import Contender, price
from t9ksched.engine.victims.victim_table import surplus
from t9ksched.engine.view import QueueState, View
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec
from tests.builders import GPU, gang, node, pod_class, running
from tests.property.cheapest import Asked, QueueUse, Unit, best_protected, better, sets, superfluous, walk
from tests.property.test_engine import NOW, RELAXED

PREEMPT = Policy(actions=("allocate", "preempt"))
GIB = 1 << 30
SIZES = [(1, 1, 0), (2, 4, 0), (4, 1, 0), (1, 8, 0), (1, 1, 1), (2, 2, 2), (1, 4, 4), (3, 2, 3)]
"""cpu, memory in GiB, cards."""
QUEUES = {"low": 0, "low2": 0, "mid": 1, "mid2": 1}


def shape(size: tuple[int, int, int]) -> PodClass:
    cpu, memory, gpu = size
    return pod_class(cpu=cpu, memory=memory * GIB, gpu=gpu)


@dataclass
class Case:
    """A world, and the same in the oracle's words."""

    view: View
    units: list[Unit]
    queue_uses: dict[str, QueueUse]
    asked: Asked

    def going(self, found: Plan) -> list[Unit]:
        """The units of a plan's victims."""
        pods = Counter(one.gang for one in found.evictions)
        chosen = []
        for name, count in pods.items():
            left = count
            for unit in sorted((one for one in self.units if one.group == name), key=lambda one: one.nth):
                if left > 0:
                    chosen.append(unit)
                    left -= unit.pods
            assert left == 0, f"{name} loses a part of what goes together"
        return chosen


def case(rng: random.Random, most: int) -> Case:
    """Nodes of unequal sizes, full of gangs of unequal pods; one gang of a higher queue waits."""
    table = NodeTable()
    for at in range(rng.choice([1, 1, 2, 3, 4])):
        table.upsert(
            node(f"n{at}", cpu=rng.choice([4, 8, 12]), memory=rng.choice([8, 16, 32]) * GIB, gpu=rng.choice([0, 4, 8]))
        )
    groups: list[Running] = []
    count = 0
    for at in range(40):
        one = _group(rng, at, table)
        if one is None:
            continue
        units = 1 + len(surplus(one))
        if count + units > most:
            break
        for pod in one.pods:
            table.charge(table.row(pod.node), pod.pod_class, pod.cards)
        count += units
        groups.append(one)
    used: dict[str, Counter[str]] = {name: Counter() for name in QUEUES}
    for one in groups:
        for pod in one.pods:
            used[one.queue].update(dict(pod.pod_class.requests))
    total: Counter[str] = Counter()
    for name in table.names:
        total.update(table.facts(name).allocatable)
    queues: dict[str, QueueState] = {"high": QueueState(QueueSpec(priority=5))}
    queue_uses = {}
    for name, priority in QUEUES.items():
        quota = {"cpu": rng.choice([8, 16, 20]) * 1000} if rng.random() < 0.6 else {}
        queues[name] = QueueState(QueueSpec(priority=priority, quota=quota), used[name])
        queue_uses[name] = QueueUse(priority, used[name], quota or total)
    size = rng.choice(SIZES)
    wants = gang("p", "high", rng.choice([1, 1, 1, 2, 3]), of=shape(size))
    free = {}
    for name in table.names:
        free[name] = Counter(table.facts(name).allocatable)
        free[name].subtract(table.used(name))
    asked = Asked(len(wants.waiting), dict(shape(size).requests), free)
    parts = [unit for one in groups for unit in _units(one)]
    return Case(View(table.freeze(), queues, (wants,), running=tuple(groups)), parts, queue_uses, asked)


def _group(rng: random.Random, at: int, table: NodeTable) -> Running | None:
    of = shape(rng.choice(SIZES))
    free: dict[str, Counter[str]] = {}
    for name in table.names:
        free[name] = Counter(table.facts(name).allocatable)
        free[name].subtract(table.used(name))
    cards = {name: dict(table.cards_used(name).masks).get(GPU, 0) for name in table.names}
    pods: list[RunningPod] = []
    for nth in range(rng.choice([1, 1, 1, 2, 3])):
        roomy = [name for name in table.names if all(free[name][what] >= units for what, units in of.requests)]
        if not roomy:
            break
        name = rng.choice(roomy)
        free[name].subtract(dict(of.requests))
        mask = 0
        for index in range(64):
            if mask.bit_count() < of.card_counts.get(GPU, 0) and not cards[name] >> index & 1:
                mask |= 1 << index
        cards[name] |= mask
        pods.append(RunningPod(f"r{at}-{nth}", f"test/r{at}-{nth}", "", of, name, CardGrant.packed({GPU: mask})))
    if not pods:
        return None
    return structs.replace(
        running(f"r{at:02}", rng.choice(list(QUEUES)), of=of),
        pods=tuple(pods),
        min_member=rng.randint(1, len(pods)),
        priority=rng.choice([0, 0, 0, 5, 90]),
        created=rng.randrange(5),
        guarded=rng.random() < 0.1,
    )


def _units(group: Running) -> list[Unit]:
    spare = surplus(group)
    parts = [[at] for at in spare] + [[at for at in range(len(group.pods)) if at not in spare]]
    found = []
    for nth, part in enumerate(parts):
        uses: Counter[str] = Counter()
        frees: dict[str, Counter[str]] = {}
        for at in part:
            pod = group.pods[at]
            uses.update(dict(pod.pod_class.requests))
            frees.setdefault(pod.node, Counter()).update(dict(pod.pod_class.requests))
        found.append(
            Unit(group.uid, nth, group.queue, group.priority, group.created, len(part), uses, frees, group.guarded)
        )
    return found


@st.composite
def cases(draw: st.DrawFn, most: int = 8) -> Case:
    return case(draw(st.randoms(use_true_random=True)), most)


def judge(one: Case) -> None:
    """Fails if a set of victims is better than the one that the plan has."""
    found = plan(one.view, PREEMPT, NOW)
    if one.asked.fits([]):
        assert not found.evictions
        return
    walked = [walk(other, one.units, one.queue_uses) for other in sets(one.asked, one.units)]
    going = one.going(found)
    assert bool(walked) == bool(going), "victims are found where there are any"
    mine = walk(going, one.units, one.queue_uses)
    for other in walked:
        assert not better(other, mine), f"{_said(other)} and not {_said(mine)}"


@given(cases())
@settings(RELAXED, max_examples=80)
def test_no_other_set_of_victims_is_better(one: Case) -> None:
    judge(one)


def _without(part: int) -> Any:
    """The price, blind for one part of a level."""

    def blind(victims: Any, contenders: Any) -> Any:
        levels, ages, names = price(victims, contenders)
        merged: Counter[tuple[int, ...]] = Counter()
        for level, pods in levels:
            merged[tuple(int(what) for at, what in enumerate(level) if at != part)] += pods
        return tuple(sorted(merged.items(), reverse=True)), ages, names

    return patch.object(contest, "price", blind)


def _priced(change: Callable[[Any], Any]) -> Any:
    return patch.object(contest, "price", lambda victims, contenders: change(price(victims, contenders)))


MUTANTS: dict[str, Callable[[], Any]] = {
    "queue priority is not looked at": lambda: _without(0),
    "disruption budgets are not looked at": lambda: _without(1),
    "shares are not looked at": lambda: _without(2),
    "PodGroup priority is not looked at": lambda: _without(3),
    "the fewest pods go, whatever their priority": lambda: _priced(lambda cost: sum(pods for _, pods in cost[0])),
    "age is not looked at": lambda: _priced(lambda cost: (cost[0], cost[2])),
    "shares stay as they were": lambda: patch.object(
        Contender, "share", lambda self, gone: dominant(self.used, self.measures, self.limited)
    ),
    "shares are equal only if they are the same": lambda: patch.object(pricing, "SAME", 0),
    "a victim goes that could be spared": lambda: patch.object(
        every_set, "_smallest", lambda groups, units, enough: iter([units] if enough[-1] else [])
    ),
}


def _judge_many() -> None:
    for seed in range(1_000):
        judge(case(random.Random(seed), 7))


@pytest.mark.soak
@pytest.mark.parametrize("fault", MUTANTS)
def test_each_fault_in_the_order_of_victims_is_found(fault: str) -> None:
    with MUTANTS[fault](), pytest.raises(AssertionError):
        _judge_many()


@given(cases(), st.booleans())
@settings(RELAXED, max_examples=80)
def test_a_search_that_does_not_look_at_every_set_takes_no_victim_of_a_higher_level(one: Case, rivals: bool) -> None:
    """What many candidates get: the best protected victim is on the lowest level that suffices, and no victim is
    superfluous."""
    if not rivals:
        one = _one_queue_a_priority(one)
    with patch.object(every_set, "_ALL_SETS", 0):
        found = plan(one.view, PREEMPT, NOW)
    going = one.going(found)
    assert not superfluous(one.asked, going) or not going
    walked = [walk(other, one.units, one.queue_uses) for other in sets(one.asked, one.units)]
    assert bool(walked) == bool(going) or one.asked.fits([])
    if not going:
        return
    mine = best_protected(walk(going, one.units, one.queue_uses))
    least = min(best_protected(other) for other in walked)
    if rivals:  # whose turn it is among queues of one priority changes with each victim: not more than the priority
        mine, least = (*mine[:2], 0, 0), (*least[:2], 0, 0)
    assert mine <= least


def _one_queue_a_priority(one: Case) -> Case:
    """The same with queues that no other shares a priority with."""
    order = {name: at for at, name in enumerate(QUEUES)}
    queues = {
        name: replace(state, spec=replace(state.spec, priority=order.get(name, 5)))
        for name, state in one.view.queues.items()
    }
    queue_uses = {
        name: QueueUse(order[name], queue_use.used, queue_use.whole) for name, queue_use in one.queue_uses.items()
    }
    view = View(one.view.nodes, queues, one.view.gangs, running=one.view.running)
    return Case(view, one.units, queue_uses, one.asked)


def _said(walked: list[tuple[tuple[int, bool, int, int], Unit]]) -> str:
    return ", ".join(f"{unit.group}.{unit.nth} of {unit.queue} {level}" for level, unit in walked)
