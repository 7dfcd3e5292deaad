"""Gangs that start without a turn start as they would at their turns: equal plans, to the byte, with each kernel."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.engine.kernel.reference import Reference
from t9ksched.engine.kernel.tables import ABSENT, TURN, Comparator, Queues, Run, Tables
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, Planner, plan
from t9ksched.engine.policy import Binpack, Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.gang import Member
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import Ordering, QueueSpec
from tests.builders import GPU, gang, pod_class
from tests.kernels import KERNELS, kernel_named, running, scoring
from tests.property.crowded import Crowded
from tests.property.scenes import HOST, NOW, RACK, Scene, facts

POLICIES = (
    Policy(),
    Policy(),
    Policy(binpack=None),
    Policy(binpack=Binpack(strategy="LeastAllocated", weight=3)),
    Policy(queue_order=("resource", "basic"), affinity_weight=0, cardless_weight=0),
    Policy(queue_order=("basic",), model_weight=1),
    Policy(queue_order=(), binpack=Binpack(weight=0)),
)
CYCLES = 4


class Filling(Scene):
    """A cluster that fills with gangs, most of which start one after the other."""

    def __init__(self, seed: object) -> None:
        super().__init__(f"filling {seed}")
        rng = self.rng
        self.policy = rng.choice(POLICIES)
        for at in range(rng.choice([2, 6, 70])):
            self.names.append(f"f{at}")
            self.table.upsert(facts(rng, self.names[-1], plain=True))
        for name in self.names[:5]:
            self.table.upsert(replace(facts(rng, name, plain=True), mode=""))
        small = [
            pod_class(cpu=rng.choice([0, 1, 2]), memory=0, gpu=rng.choice([0, 1, 1, 2]))
            for _ in range(rng.choice([1, 2, 4]))
        ]
        if rng.random() < 0.3:
            small.append(replace(small[0], node_selector=(("zone", "b"),)))
        self.gangs += [self._simple(at, small) for at in range(rng.choice([5, 20, 60]))]
        self._specs()

    def _simple(self, at: int, shapes: list[PodClass]):  # type: ignore[no-untyped-def]
        rng = self.rng
        kinds = rng.choice([shapes[:1], shapes[:1], shapes, [rng.choice(shapes)]])
        size = rng.choice([1, 1, 1, 2, 3, 8, 20])
        roles = rng.choice([{}, {}, {}, {"master": 1}])
        members = [
            Member(f"s{at}-{nth}", f"test/s{at}-{nth}", "master" if roles and not nth else "", rng.choice(kinds))
            for nth in range(size)
        ]
        least = size if rng.random() < 0.9 else 1
        queue = rng.choice(["low", "low2", "high", "strict"])
        found = gang(f"s{at}", queue, members=members, min_member=least, roles=roles, created=rng.randrange(50))
        topology = rng.choice(["None", "None", "Preferred", "Required"])
        levels = rng.choice([(HOST,), ("zone",), (HOST, "zone"), (RACK, "zone"), ("nowhere",)])
        return structs.replace(found, topology=topology, levels=levels)

    def _specs(self) -> None:
        rng = self.rng

        def one(priority: int, ordering: Ordering = "BestEffort") -> QueueState:
            memory = rng.choice([9 << 30, 9 << 30, (1 << 63) - 1])
            quota = {GPU: rng.choice([0, 4, 30, 200]), "cpu": 1000 * rng.choice([3, 20, 500]), "memory": memory}
            named = {name: units for name, units in quota.items() if rng.random() < 0.4}
            used = {GPU: rng.randrange(3)} if rng.random() < 0.3 else {}
            return QueueState(QueueSpec(quota=named, priority=priority, ordering=ordering), used)

        self.queues |= {"low": one(0), "low2": one(0, "Backfill"), "high": one(5), "strict": one(0, "Strict")}


class Mixed(Filling):
    """A cluster in which a unit of cards is a whole card on some nodes, a slice or a share of one on others."""

    def __init__(self, seed: object) -> None:
        super().__init__(f"mixed {seed}")
        rng = self.rng
        for name in self.names:
            self.table.upsert(replace(self.table.facts(name), mode=rng.choice(["", "MIGSingle", "TimeSliced"])))
        shapes = {pod.pod_class for one in self.gangs for pod in one.waiting}
        choices = {of: rng.choice(["", "", "whole", "slice", "any"]) for of in sorted(shapes, key=repr)}

        def choose(pod: Member) -> Member:
            mode = choices[pod.pod_class]
            return structs.replace(
                pod, pod_class=replace(pod.pod_class, choice=CardChoice(mode=mode) if mode else None)
            )

        self.gangs = [structs.replace(one, waiting=tuple(map(choose, one.waiting))) for one in self.gangs]


SCENES: dict[str, tuple[Callable[[int], Scene], int]] = {
    "filling": (Filling, 50),
    "mixed cards": (Mixed, 20),
    "plain": (Scene, 40),
    "rules about pods": (lambda seed: Scene(seed, ruled=True), 20),
    "lost members": (lambda seed: Scene(seed, kept=True), 80),
    "victims": (Crowded, 40),
    "many pods": (lambda seed: Scene(seed, many=True), 10),
}


def in_slices(view: View, policy: Policy, memory: Memory) -> Plan:
    planner = Planner(view, policy, NOW, memory)
    while not planner.step(1):
        pass
    return planner.result()


def compare(kernel: str, scenes: str, first: int, end: int) -> int:
    """Compare scenes, each over some cycles with a memory for each way; how many gangs the kernel started."""
    watched, make = _Counting(kernel_named(kernel)), SCENES[scenes][0]
    for seed in range(first, end):
        scene, turns, runs = make(seed), Memory(), Memory()
        for cycle in range(CYCLES):
            view = scene.view()
            with scoring(kernel_named("reference")), running(None):
                expected = plan(view, scene.policy, NOW, turns)
            with scoring(kernel_named(kernel)), running(watched, after=cycle % 2):
                found = in_slices(view, scene.policy, runs)
            assert found.to_bytes() == expected.to_bytes(), f"scene {seed} of {scenes}, cycle {cycle}"
            # Room that came and went between two turns makes gangs be tried that are told again after a run.
            assert runs.failures.tried <= turns.failures.tried
            scene.carry_out(found)
            scene.step()
    return watched.started


class _Counting:
    """A kernel that counts what it starts."""

    def __init__(self, kernel: object) -> None:
        self._kernel, self.started, self.a_start = kernel, 0, 0

    def run(self, tables: Tables) -> Run:
        found: Run = self._kernel.run(tables)  # type: ignore[attr-defined]
        self.started += len(found.queues)
        return found


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scenes", SCENES)
def test_plans_are_those_of_turns(kernel: str, scenes: str) -> None:
    started = compare(kernel, scenes, 0, SCENES[scenes][1])
    assert started > {"filling": 500, "mixed cards": 50, "plain": 7}.get(scenes, 0), "the kernel was used"


@pytest.mark.soak
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scenes", SCENES)
def test_many_plans_are_those_of_turns(kernel: str, scenes: str) -> None:
    compare(kernel, scenes, 1000, 1000 + 20 * SCENES[scenes][1])


# ---- the kernels against each other, on tables that no trial need have made


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    """Any tables; sizes are drawn, so that a failure shrinks."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    nodes, resources = draw(st.sampled_from([1, 3, 32, 33, 200])), rng.randint(1, 4)
    queues, accounts, kinds = draw(st.integers(1, 4)), rng.randint(0, 3), draw(st.integers(1, 4))

    def numbers(low: int, high: int, *shape: int):  # type: ignore[no-untyped-def]
        return np.array([rng.randint(low, high) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)

    named = np.array([rng.random() < 0.6 for _ in range(queues * accounts)], np.bool_).reshape(queues, accounts)
    lengths = numbers(0, draw(st.sampled_from([3, 12])), queues)
    table = Queues(
        priorities=numbers(0, 1, queues),
        limited=numbers(0, 1, queues),
        caps=np.where(named, numbers(0, 60, queues, accounts), ABSENT),
        held=numbers(-1, 9, queues, accounts),
        measures=np.where(named, numbers(0, 60, queues, accounts), ABSENT),
        left=lengths,
        comparators=(rng.choice(list(Comparator)), rng.choice(list(Comparator))),
    )
    table.needs_turns[:] = numbers(0, 5, queues) // 5
    cards = rng.randint(1, 2)
    idle = np.array([rng.getrandbits(64) for _ in range(cards * nodes)], np.uint64).reshape(cards, nodes)
    free, base = numbers(-2, 30, resources, nodes), numbers(-3, 3, nodes)
    found = Tables(free, base, idle, rng.random() < 0.7, table, rng.choice([24, 400]))
    for _ in range(rng.randint(1, 4)):
        found.add(
            numbers(0, 2, nodes) * (1 if found.fills else -1),
            numbers(0, 3, nodes) if rng.random() < 0.5 else None,
            numbers(0, 3, nodes) > 0,
            [(at, rng.randint(1, 4)) for at in range(resources) if rng.random() < 0.8],
            (rng.randrange(cards), rng.randint(1, 4)) if rng.random() < 0.6 else None,
            rng.randrange(resources),
        )
    for _ in range(rng.randint(0, 2)):
        rows = rng.sample(range(nodes), rng.randint(0, nodes))
        bounds = sorted({0, len(rows), *(rng.randint(0, len(rows)) for _ in range(rng.choice([0, 3, nodes])))})
        found.add_level(np.array(rows, np.int64), np.array(bounds, np.int64))
    for _ in range(kinds):
        some = rng.sample(range(len(found.classes)), rng.randint(1, min(2, len(found.classes))))
        levels = rng.sample(range(len(found.levels)), rng.randint(0, len(found.levels))) if len(some) == 1 else []
        parts, demand = [(at, rng.randint(1, 2)) for at in some], [rng.randint(0, 4) for _ in range(accounts)]
        found.add_kind(parts, demand, levels, len(some) == 1 and rng.random() < 0.3)
    turns = rng.random() < 0.3
    for queue, length in enumerate(lengths.tolist()):
        known = length if rng.random() < 0.7 else rng.randint(0, length)
        asked = [rng.randint(TURN if turns else 0, kinds - 1) for _ in range(known)]
        found.note(queue, asked, [rng.randint(1, 6) for _ in asked])
    return found


def state(tables: Tables) -> list[object]:
    """All that a run writes."""
    queues = tables.queues
    arrays = (tables.free, tables.base, tables.idle, queues.left, queues.held, tables.touched[: tables.touched_count])
    return [array.tolist() for array in arrays]


def read_all(tables: Tables, seed: int) -> None:
    """What all gangs ask for is known."""
    rng = random.Random(seed)
    for queue, known in enumerate(tables.queues.known.tolist()):
        asked = [rng.randrange(len(tables.kinds)) for _ in range(known)]
        tables.note(queue, asked, [1 for _ in asked])


@given(tables(), st.lists(st.integers(0, 199), max_size=30))
@settings(max_examples=400)
def test_kernels_run_alike(given: Tables, touched: list[int]) -> None:
    native, reference = kernel_named("native"), Reference()
    other = deepcopy(given)
    for nth in range(3):
        assert native.run(given) == reference.run(other)
        assert state(given) == state(other)
        for one in (given, other):  # room comes free somewhere, and more is read
            rows = sorted({row % one.nodes for row in touched})
            one.free[:, rows] += 3
            one.touch(rows)
            read_all(one, nth)


def test_a_gang_that_finds_no_room_leaves_every_byte_as_it_was() -> None:
    """Of the last gang some pods have places when room ends."""
    for seed in range(20):
        scene = Filling(f"undone {seed}")
        scene.gangs = [structs.replace(one, queue="high") for one in scene.gangs]
        with running(None):
            expected = plan(scene.view(), scene.policy, NOW)
        for kernel in KERNELS:
            with running(kernel_named(kernel)):
                assert plan(scene.view(), scene.policy, NOW).to_bytes() == expected.to_bytes()
