"""Who goes for parts of cards, against every set there is: small worlds of nodes that divide their cards, and others.

The oracle counts what each card has left and tries every way to give cards to pods; it shares no code with the engine.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.victims import every_set
from t9ksched.engine.victims.victim_table import surplus
from t9ksched.engine.view import QueueState, View, dump, load
from t9ksched.model.card_size import CORES
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang, Member, Running, RunningPod
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec
from tests.builders import GPU, divided_node, gang, member, node, pod_class, running, shared_class
from tests.property import slots
from tests.property.cheapest import Asked, QueueUse, Unit, best_protected, better, sets, superfluous, walk
from tests.property.test_engine import NOW, RELAXED

PREEMPT = Policy(actions=("allocate", "preempt"))
MEMORY, PLACES = 1000, 3
LOW = {"low": 0, "low2": 0, "mid": 1}
SHAPES = [
    shared_class(500, 400),
    shared_class(300, 100),
    shared_class(600, 600),
    shared_class(0, 500),
    shared_class(200, 0, percent=30),
    shared_class(400, 300, cards=2),
    shared_class(100, 900, cpu=4),
    pod_class(gpu=1),
    pod_class(gpu=2),
    *slots.unequal(),
]


def held(index: int, cores: int, memory: int, places: int) -> dict[str, int]:
    """What parts take of a card, in the oracle's words."""
    return {f"{index} cores": cores, f"{index} memory": memory, f"{index} places": places}


@dataclass(frozen=True)
class AskedCards(Asked):
    """As `Asked`, for pods that need parts of the cards of nodes in `cards`, which says how many there are."""

    cards: Any = None
    of: PodClass = SHAPES[0]

    def _room(self, node: str, going: Sequence[Unit]) -> int:
        most = super()._room(node, going)
        if node not in self.cards:
            return most
        has = Counter(self.free[node])
        for unit in going:
            has.update(unit.frees.get(node, {}))
        left = [tuple(has[f"{at} {what}"] for what in ("cores", "memory", "places")) for at in range(self.cards[node])]
        return max(pods for pods in range(min(most, self.pods) + 1) if self._serves(pods, left))

    def _serves(self, pods: int, left: list[tuple[int, ...]]) -> bool:
        if not pods:
            return True
        for way in slots.ways(self.of, len(left)):
            if not slots.has_room(self.of, way, left, MEMORY):
                continue
            taken = slots.takes(self.of, way, MEMORY)
            rest = [
                tuple(has - used for has, used in zip(card, taken.get(at, (0, 0, 0)), strict=True))
                for at, card in enumerate(left)
            ]
            if self._serves(pods - 1, rest):
                return True
        return False


@dataclass
class Case:
    """A world, and the same in the oracle's words."""

    view: View
    table: NodeTable
    units: list[Unit]
    queue_uses: dict[str, QueueUse]
    asked: AskedCards

    def going(self, found: Plan) -> list[Unit]:
        """The units of a plan's victims."""
        pods = Counter(one.gang for one in found.evictions)
        chosen = []
        for name, left in pods.items():
            for unit in sorted((one for one in self.units if one.group == name), key=lambda one: one.nth):
                if left > 0:
                    chosen.append(unit)
                    left -= unit.pods
            assert left == 0, f"{name} loses a part of what goes together"
        return chosen


def facts(rng: random.Random, at: int) -> NodeFacts:
    cpu = rng.choice([6, 12, 24])
    if rng.random() < 0.25:
        return node(f"n{at}", cpu=cpu, gpu=rng.randint(1, 3), labels={"nvidia.com/gpu.memory": str(MEMORY)})
    return divided_node(f"n{at}", rng.randint(1, 3), memory=MEMORY, places=PLACES, cpu=cpu)


class World:
    """Nodes, and what is left of them in the oracle's words."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.table = NodeTable()
        self.free: dict[str, Counter[str]] = {}
        self.cards: dict[str, int] = {}
        for at in range(rng.choice([1, 1, 2, 2, 3])):
            made = facts(rng, at)
            self.table.upsert(made)
            free = self.free[made.name] = Counter(made.allocatable)
            if made.cards.divided:
                self.cards[made.name] = made.cards.counts[GPU]
                for index in range(self.cards[made.name]):
                    free.update({f"{index} cores": CORES, f"{index} memory": MEMORY, f"{index} places": PLACES})

    def takes(self, of: PodClass, name: str, way: slots.Way) -> Counter[str]:
        """What a pod takes of a node."""
        found = Counter(dict(of.requests))
        for index, amounts in slots.takes(of, way, MEMORY).items() if name in self.cards else ():
            found.update(held(index, *amounts))
        return found

    def put(self, of: PodClass) -> tuple[str, CardGrant] | None:
        """A pod somewhere at random, charged; None where nothing has room."""
        rng, table = self.rng, self.table
        for name in rng.sample(table.names, len(table.names)):
            cards = table.facts(name).cards
            ways: list[slots.Way] = list(slots.ways(of, cards.counts[GPU]))
            if name not in self.cards:
                free = [at for at in range(cards.counts[GPU]) if not table.cards_used(name).has(GPU, at)]
                ways = [[those] for those in combinations(free, of.card_counts[GPU])]
            for way in rng.sample(ways, len(ways)):
                takes = self.takes(of, name, way)
                if any(self.free[name][what] < amount for what, amount in takes.items()):
                    continue
                if name in self.cards and any(
                    self.free[name][f"{at} cores"] - takes[f"{at} cores"] < slots.least_left(of, way, at)
                    for at in {at for those in way for at in those}
                ):
                    continue
                self.free[name].subtract(takes)
                if name in self.cards:
                    named = [(one.container, GPU, those) for one, those in zip(of.cards, way, strict=True)]
                    grant = cards.divide(of.cards, CardGrant.of_containers(named))
                else:
                    grant = CardGrant.of({GPU: way[0]})
                table.charge(table.row(name), of, grant)
                return name, grant
        return None


def fill(world: World, most: int) -> tuple[list[Running], list[Unit]]:
    rng = world.rng
    groups: list[Running] = []
    units: list[Unit] = []
    for at in range(12):
        of = rng.choice(SHAPES)
        pods = []
        for nth in range(rng.choice([1, 1, 1, 1, 2, 3])):
            put = world.put(of)
            if put is not None:
                pods.append(RunningPod(f"r{at}-{nth}", f"test/r{at}-{nth}", "", of, *put))
        if not pods:
            continue
        one = structs.replace(
            running(f"r{at:02}", rng.choice(list(LOW) if rng.random() < 0.8 else ["safe"]), of=of),
            pods=tuple(pods),
            min_member=rng.randint(1, len(pods)),
            priority=rng.choice([0, 0, 0, 5, 90]),
            created=rng.randrange(5),
        )
        made = _units(world, one) if one.queue in LOW else []
        if len(units) + len(made) > most:
            one = structs.replace(one, queue="safe")
            made = []
        units += made
        groups.append(one)
    return groups, units


def _units(world: World, group: Running) -> list[Unit]:
    spare = surplus(group)
    parts = [[at] for at in spare] + [[at for at in range(len(group.pods)) if at not in spare]]
    found = []
    for nth, part in enumerate(parts):
        uses: Counter[str] = Counter()
        frees: dict[str, Counter[str]] = {}
        for at in part:
            pod = group.pods[at]
            uses.update(dict(pod.pod_class.requests))
            of = pod.pod_class
            takes = world.takes(of, pod.node, [those for _, those in pod.cards.split(of.cards)])
            frees.setdefault(pod.node, Counter()).update(takes)
        found.append(Unit(group.uid, nth, group.queue, group.priority, group.created, len(part), uses, frees))
    return found


def case(rng: random.Random, most: int, wants: Gang | None = None) -> Case:
    """Nodes full of gangs of unequal pods; one gang of a higher queue waits."""
    world = World(rng)
    groups, units = fill(world, most)
    used: dict[str, Counter[str]] = {name: Counter() for name in (*LOW, "safe")}
    for one in groups:
        for pod in one.pods:
            used[one.queue].update(dict(pod.pod_class.requests))
    total: Counter[str] = Counter()
    for name in world.table.names:
        total.update(world.table.facts(name).allocatable)
    queues = {"high": QueueState(QueueSpec(priority=5))}
    queues["safe"] = QueueState(QueueSpec(preemptible=False), used["safe"])
    queue_uses = {}
    for name, priority in LOW.items():
        quota = {"cpu": rng.choice([8, 16, 20]) * 1000} if rng.random() < 0.3 else {}
        queues[name] = QueueState(QueueSpec(priority=priority, quota=quota), used[name])
        queue_uses[name] = QueueUse(priority, used[name], quota or total)
    of = rng.choice(SHAPES)
    # Of pods with several containers one is placed after the other: the best for all is not looked for.
    wants = wants or gang("p", "high", rng.choice([1, 1, 2, 3]) if len(of.cards) == 1 else 1, of=of)
    of = wants.waiting[0].pod_class
    asked = AskedCards(len(wants.waiting), dict(of.requests), world.free, world.cards, of)
    view = View(world.table.freeze(), queues, (wants,), running=tuple(groups))
    return Case(view, world.table, units, queue_uses, asked)


def judge(one: Case, *, every: bool = True) -> None:
    """Fails if a set of victims is better than the one that the plan has, or, where not every set is looked at, if one
    could be spared or is protected better than need be.
    """
    found = plan(one.view, PREEMPT, NOW)
    if one.asked.fits([]):
        assert not found.evictions
        assert found.assignments
        return
    walked = [walk(other, one.units, one.queue_uses) for other in sets(one.asked, one.units)]
    going = one.going(found)
    assert bool(walked) == bool(going), f"victims are found where there are any: {_said(walked[0]) if walked else ''}"
    if not going:
        return
    assert one.asked.fits(going)
    assert not superfluous(one.asked, going)
    mine = walk(going, one.units, one.queue_uses)
    if every:
        for other in walked:
            assert not better(other, mine), f"{_said(other)} and not {_said(mine)}"
    else:
        # Whose turn it is among queues of one priority changes with each victim: not more than the priority.
        least = min(best_protected(other) for other in walked)[:2]
        assert best_protected(mine)[:2] <= least
    _starts(one, found)


def _starts(one: Case, found: Plan) -> None:
    """Once the victims have gone, the gang starts where it was promised room, and nothing is given twice. Until then no
    other gets the room.
    """
    greedy = replace(one.view, gangs=(gang("greedy", "high", 3, of=SHAPES[1], min_member=1, created=9),))
    waits = plan(replace(greedy, reservations=found.reservations), Policy(), NOW)
    going = {eviction.pod for eviction in found.evictions}
    left = []
    for group in one.view.running:
        for pod in group.pods:
            if pod.uid in going:
                one.table.discharge(one.table.row(pod.node), pod.pod_class, pod.cards)
        pods = tuple(pod for pod in group.pods if pod.uid not in going)
        left += [structs.replace(group, pods=pods)] if pods else []
    for each in waits.assignments:
        of = greedy.gangs[0].waiting[0].pod_class
        one.table.charge(one.table.row(each.node), of, each.grant)
    after = replace(one.view, nodes=one.table.freeze(), running=tuple(left), reservations=found.reservations)
    assert plan(load(dump(after)), PREEMPT, NOW) == plan(after, PREEMPT, NOW)
    starts = plan(after, PREEMPT, NOW)
    assert len(starts.assignments) == len(one.view.gangs[0].waiting), "the gang starts once its victims have gone"
    assert not starts.evictions
    for each in starts.assignments:
        of = next(member.pod_class for member in one.view.gangs[0].waiting if member.uid == each.pod)
        assert one.table.has_room(each.node, of, each.grant), "no card is given twice"
        one.table.charge(one.table.row(each.node), of, each.grant)


@given(st.randoms(use_true_random=True))
@settings(RELAXED, max_examples=80)
def test_no_other_set_of_victims_is_better(rng: random.Random) -> None:
    judge(case(rng, 7))


@given(st.randoms(use_true_random=True))
@settings(RELAXED, max_examples=80)
def test_a_search_that_does_not_look_at_every_set_takes_no_victim_of_a_higher_priority(rng: random.Random) -> None:
    with patch.object(every_set, "_ALL_SETS", 0):
        judge(case(rng, 7), every=False)


def test_nodes_without_anybody_to_evict_are_no_trouble_to_a_search() -> None:
    with patch.object(every_set, "_ALL_SETS", 0):
        judge(case(random.Random(6833), 7), every=False)


@given(st.randoms(use_true_random=True))
@settings(RELAXED, max_examples=60)
def test_unlike_pods_start_once_their_victims_have_gone(rng: random.Random) -> None:
    members: list[Member] = [member(f"p-{at}", rng.choice(SHAPES)) for at in range(rng.randint(2, 4))]
    one = case(rng, 9, gang("p", "high", members=members))
    found = plan(one.view, PREEMPT, NOW)
    if found.evictions:
        _starts(one, found)


def _said(walked: list[tuple[tuple[int, bool, int, int], Unit]]) -> str:
    return ", ".join(f"{unit.group}.{unit.nth} of {unit.queue} {level}" for level, unit in walked)
