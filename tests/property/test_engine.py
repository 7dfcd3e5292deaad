"""What must always hold of a plan, checked by an oracle that shares no code with the engine.

The oracle is slow and plain: it walks the assignments one by one with dictionaries and Python integers and knows the
rules of quotas, gangs, selectors, taints, ports and cards by heart.
"""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.planner import Plan, Planner, plan
from t9ksched.engine.policy import Binpack, Packing, Policy
from t9ksched.engine.view import QueueState, View, dump, load
from t9ksched.model.card_links import CardLinks
from t9ksched.model.cards import NO_CARDS, CardGrant, WholeCards
from t9ksched.model.gang import Gang, Member
from t9ksched.model.labels import NodeSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import HostPort, PodClass, SharedVolume
from t9ksched.model.queue import Ordering
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.taints import Taint, Toleration
from t9ksched.model.volumes import ATTACH_PREFIX
from tests.builders import GPU, gang, member, node, pod_class, queue

AMD = "amd.com/gpu"
NOW = 10**9
RELAXED = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
SERIES = settings(RELAXED, max_examples=120)
"""Of examples with several plans each."""
LONG = settings(RELAXED, max_examples=3_000)

DISKS = f"{ATTACH_PREFIX}d.example.com"
AFFINITIES = [
    None,
    NodeSelector.parse([{"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["3"]}]}]),
    NodeSelector.parse([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]),
    NodeSelector.parse(
        [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
        ]
    ),
]
TAINTS = [(), (Taint("team", "red"),), (Taint("team", "red", "NoExecute"), Taint("soft", "", "PreferNoSchedule"))]


def facts(rng: random.Random, name: str) -> NodeFacts:
    gpu = rng.choice([0, 2, 4, 8])
    made = node(
        name,
        cpu=rng.choice([2, 16, 32, 64]),
        memory=rng.choice(["8Gi", "64Gi"]),
        gpu=gpu,
        pods=rng.choice([2, 5, 20]),
        labels={"zone": rng.choice("abc"), "rank": str(rng.randrange(7))},
        taints=rng.choice([(), (), (), (), *TAINTS]),
        unschedulable=rng.random() < 0.07,
        ready=rng.random() > 0.07,
        deleting=rng.random() < 0.05,
        unusable={GPU: rng.randrange(1 << gpu)} if gpu and rng.random() < 0.3 else {},
        **({AMD: 2} if rng.random() < 0.5 else {}),
        **{DISKS: rng.choice([0, 1, 2, 20])},
    )
    return replace(made, links=some_links(rng, gpu)) if gpu and rng.random() < 0.4 else made


def some_links(rng: random.Random, cards: int) -> CardLinks:
    """Links between so many cards, not alike both ways."""
    entries = ["NV12", "NV1", "PIX", "SYS", "0", "10"]
    return CardLinks(tuple(tuple(rng.choice(entries) for _ in range(cards)) for _ in range(cards)))


def shape(rng: random.Random) -> PodClass:
    def rarely(*values: object) -> Any:
        """Mostly the first."""
        return rng.choice(values) if rng.random() < 0.12 else values[0]

    of = pod_class(
        cpu=rng.choice(["0", "500m", "2", rarely("1", "8", "40")]),
        memory=rng.choice(["0", "1Gi", rarely("2Gi", "16Gi")]),
        gpu=rng.choice([0, 1, 1, 2, rarely(1, 4, 8, 9)]),
        selector=rarely({}, {"zone": "a"}, {"zone": "b", "rank": "2"}, {"absent": "x"}),
        affinity=rarely(*AFFINITIES),
        tolerations=rarely((), (Toleration("team", "Exists"),), (Toleration("", "Exists"),)),
        ports=rarely((), (80,), (80, 443), (HostPort(80, ip="10.0.0.1"),)),
        volumes=rarely((), (AFFINITIES[3],)),
    )
    if rng.random() < 0.2:
        requests = {**dict(of.requests), AMD: rng.choice([1, 2])}
        cards = WholeCards("side", AMD, requests[AMD], "sidecar")
        of = replace(of, requests=tuple(sorted(requests.items())), cards=(*of.cards, cards))
    if rng.random() < 0.2:
        shared = rng.sample([SharedVolume(DISKS, name) for name in "uvw"], rng.choice([0, 1, 1, 2]))
        own = {DISKS: 1} if rng.random() < 0.3 or not shared else {}
        of = replace(of, requests=tuple(sorted({**dict(of.requests), **own}.items())), volumes=tuple(sorted(shared)))
    return of


def asking(rng: random.Random, shapes: list[PodClass], at: int) -> Gang:
    members: list[Member] = []
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        of, role = rng.choice(shapes), rng.choice(["", "master", "worker"])
        members += [member(f"g{at}-{len(members) + i}", of, role) for i in range(rng.randint(1, 4))]
    placed = rng.choice([{}, {}, {}, {"worker": 2}, {"": 1}])
    there = len(members) + sum(placed.values())
    return gang(
        f"g{at}",
        queue=rng.choice(["low", "high", "strict"] * 4 + ["gone"]),
        members=members,
        min_member=rng.randint(1, max(1, there)) if rng.random() < 0.9 else there + 1,
        roles=rng.choice([{}, {}, {}, {}, {}, {"master": 1}, {"master": 1, "worker": 2}]),
        placed=placed,
        priority=rng.randrange(3),
        created=rng.randrange(6),
        refilling=rng.random() < 0.3,
        accepted=rng.random() < 0.3,
    )


def some_queues(rng: random.Random) -> dict[str, QueueState]:
    def one(priority: int = 0, ordering: Ordering = "BestEffort") -> QueueState:
        quota = {GPU: rng.randrange(40), "cpu": rng.randrange(120), "memory": "40Gi"}
        return queue(
            quota={name: units for name, units in quota.items() if rng.random() < 0.3},
            used={GPU: rng.randrange(8), "cpu": rng.randrange(8)} if rng.random() < 0.5 else {},
            selector={"zone": "b"} if rng.random() < 0.2 else {},
            closed=rng.random() < 0.15,
            priority=priority,
            ordering=ordering,
        )

    return {"low": one(), "high": one(priority=5), "strict": one(ordering="Strict")}


def some_table(rng: random.Random, size: int, shapes: list[PodClass]) -> NodeTable:
    """Nodes, some of them with foreign pods, put in in any order, one lost on the way."""
    table = NodeTable()
    names = [f"n{at}" for at in range(size)]
    for at, name in enumerate(rng.sample(names, size)):
        if at == size // 2:
            table.upsert(node("lost", gpu=8))
            table.remove("lost")
        table.upsert(facts(rng, name))
    for name in names:
        for of in rng.choices(shapes, k=rng.choice([0, 0, 0, 0, 1, 2])):
            known = rng.random() < 0.5
            cards = CardGrant.of({resource: range(count) for resource, count in of.card_counts.items() if known})
            table.charge(table.row(name), of, cards)
    return table


dice = st.randoms(use_true_random=True)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Sizes are drawn, so that a failure shrinks; what is in them is thrown with seeded dice."""
    rng = draw(dice)
    shapes = [shape(rng) for _ in range(draw(st.integers(1, 4)))]
    table = some_table(rng, rng.randint(0, draw(st.sampled_from([9, 6, 3]))), shapes)
    asked = tuple(asking(rng, shapes, at) for at in range(rng.randint(0, draw(st.sampled_from([12, 6, 2])))))
    holds: list[Reservation] = []
    if len(table) and asked and rng.random() < 0.3:
        for _ in range(rng.randint(1, 3)):
            owner = rng.choice([*(one.uid for one in asked), "elsewhere"])
            until = rng.choice([0, NOW + 1, NOW - 1])
            where, payer = rng.choice([*table.names, ""]), rng.choice(["", "low", "high"])
            holds.append(
                Reservation(owner, where, rng.choice(shapes), until=until, kind=ReservationKind.REFILL, queue=payer)
            )
    return View(table.freeze(), some_queues(rng), asked, tuple(holds))


policies = st.sampled_from(
    [
        Policy(),
        Policy(binpack=None),
        Policy(binpack=Binpack(strategy="LeastAllocated", weight=10)),
        Policy(queue_order=("basic",), binpack=Binpack(resources=(("cpu", 0), ("memory", 10)))),
        Policy(binpack=None, packing=Packing("usable"), model_weight=1),
        Policy(packing=Packing("fragmentation", weight=10)),
    ]
)


def allowed(view: View, name: str, of: PodClass, queue_name: str) -> bool:
    """Whether a node may host such a pod at all, by the letter of Kubernetes and of the queue."""
    facts = view.nodes.static.facts[view.nodes.row(name)]
    selector = view.queues[queue_name].spec.node_selector
    if not facts.ready or facts.deleting:
        return False
    if selector is not None and not selector.matches(facts.labels):
        return False
    if any(facts.labels.get(key) != value for key, value in of.node_selector):
        return False
    affinities = [*of.volume_affinity, *([of.node_affinity] if of.node_affinity else [])]
    if not all(affinity.matches(facts.labels, name) for affinity in affinities):
        return False
    taints = [taint for taint in facts.taints if taint.effect != "PreferNoSchedule"]
    if facts.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    return all(any(t.tolerates(taint) for t in of.tolerations) for taint in taints)


def check(view: View, found: Plan) -> None:
    """Every promise, one assignment at a time."""
    static = view.nodes.static
    gangs_by_uid = {one.uid: one for one in view.gangs}
    pods = {m.uid: (one, m) for one in view.gangs for m in one.waiting}
    used = {
        (name, resource): int(view.nodes.used[at, row])
        for at, resource in enumerate(static.resources)
        for row, name in enumerate(static.names)
    }
    given = {
        (name, resource): int(view.nodes.cards_used[at, row])
        for at, resource in enumerate(static.cards.names)
        for row, name in enumerate(static.names)
    }
    touched: set[tuple[str, str]] = set()
    ports = {name: list(view.nodes.ports.get(name, ())) for name in static.names}
    attached = {name: set(view.nodes.volumes.get(name, ())) for name in static.names}
    charged = {name: Counter(state.used) for name, state in view.queues.items()}
    raised: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for one in found.assignments:
        owner, pod = pods[one.pod]
        assert one.pod not in seen, "a pod is placed once"
        seen.add(one.pod)
        assert one.gang == owner.uid
        of = pod.pod_class
        facts = static.facts[static.index[one.node]]
        assert one.generation == static.generation[static.index[one.node]]
        assert allowed(view, one.node, of, owner.queue), "only where it is allowed"
        for resource, amount in of.requests:
            used[one.node, resource] = used.get((one.node, resource), 0) + amount
            touched.add((one.node, resource))
            charged[owner.queue][resource] += amount
            raised.add((owner.queue, resource))
        for volume in of.volumes:
            if volume not in attached[one.node]:  # it counts once on a node
                used[one.node, DISKS] = used.get((one.node, DISKS), 0) + 1
                touched.add((one.node, DISKS))
                attached[one.node].add(volume)
        for port in of.host_ports:
            assert not any(port.conflicts(other) for other in ports[one.node]), "a host port is taken once"
        ports[one.node] += of.host_ports
        masks = dict(one.grant.masks)
        assert set(masks) == set(of.card_counts)
        for resource, mask in masks.items():
            assert mask.bit_count() == of.card_counts[resource], "as many cards as asked for"
            assert not mask & given[one.node, resource], "no card is given twice"
            assert not mask & dict(facts.cards.withdrawn.masks).get(resource, 0), "no cordoned card"
            assert mask < 1 << facts.cards.counts[resource], "only cards that exist"
            given[one.node, resource] |= mask
        held: dict[str, int] = {}
        for container, resource, indices in one.cards:
            asked = next(c for c in of.cards if (c.container, c.resource) == (container, resource))
            assert len(indices) == asked.count
            bits = sum(1 << index for index in indices)
            assert not bits & held.get(resource, 0), "containers share no card"
            held[resource] = held.get(resource, 0) | bits
        assert held == masks
    for name, resource in touched:
        most = static.facts[static.index[name]].allocatable.get(resource, 0)
        assert used[name, resource] <= most, "no node is charged beyond what it has"
    for name, resource in raised:
        quota = view.queues[name].spec.quota
        assert resource not in quota or charged[name][resource] <= quota[resource], "no queue is raised above its quota"
    for uid, one_gang in gangs_by_uid.items():
        got = [pods[one.pod][1] for one in found.assignments if one.gang == uid]
        waiting = [entry for entry in found.waiting if entry.gang == uid]
        roles = Counter(dict(one_gang.placed)) + Counter(m.role for m in got)
        whole = sum(roles.values()) >= one_gang.min_member and all(roles[r] >= n for r, n in one_gang.roles)
        if got:
            assert whole, "at least the minimum or nothing"
        assert len(waiting) == (0 if whole else 1), "a gang that stays is told why, once"
        assert all(entry.reasons for entry in waiting)
    active = {h.owner for h in view.reservations if not h.until or h.until > NOW}
    if not active:
        assert not any(r.code == "HeldForOther" for entry in found.waiting for r in entry.reasons)


@given(views(), policies)
@RELAXED
def test_a_plan_keeps_every_promise(given_view: View, policy: Policy) -> None:
    check(given_view, plan(given_view, policy, NOW))


@given(views(), policies, st.lists(st.integers(1, 4), max_size=40))
@RELAXED
def test_the_same_view_gives_the_same_plan(given_view: View, policy: Policy, slices: list[int]) -> None:
    whole = plan(given_view, policy, NOW)
    assert plan(given_view, policy, NOW).to_bytes() == whole.to_bytes()
    paper = dump(given_view)
    assert plan(load(paper), policy, NOW).to_bytes() == whole.to_bytes()
    assert dump(load(paper)) == paper
    planner = Planner(given_view, policy, NOW)
    for budget in slices:
        planner.step(budget)
    while not planner.step(1):
        pass
    assert planner.result().to_bytes() == whole.to_bytes()


@given(dice, policies)
@SERIES
def test_a_memo_that_lived_through_changes_gives_the_same_plan(rng: random.Random, policy: Policy) -> None:
    memo_lives_through_changes(rng, policy)


@pytest.mark.soak
@given(dice, policies)
@LONG
def test_a_memo_that_lived_through_changes_gives_the_same_plan_in_the_long_run(
    rng: random.Random, policy: Policy
) -> None:
    memo_lives_through_changes(rng, policy)


def memo_lives_through_changes(rng: random.Random, policy: Policy) -> None:
    memory = Memory()
    shapes = [shape(rng) for _ in range(3)]
    table = some_table(rng, 4, shapes)
    asked = tuple(asking(rng, shapes, at) for at in range(4))
    known = some_queues(rng)
    for _ in range(5):
        present = View(table.freeze(), known, asked)
        assert plan(present, policy, NOW, memory).to_bytes() == plan(present, policy, NOW).to_bytes()
        name = rng.choice(["n0", "n1", "n2", "new"])
        if name in table and rng.random() < 0.5:
            table.remove(name)
        else:
            table.upsert(facts(rng, name))


@given(dice, policies)
@SERIES
def test_what_is_remembered_of_failures_never_changes_a_plan(rng: random.Random, policy: Policy) -> None:
    failures_are_remembered(rng, policy)


@pytest.mark.soak
@given(dice, policies)
@LONG
def test_what_is_remembered_of_failures_never_changes_a_plan_in_the_long_run(
    rng: random.Random, policy: Policy
) -> None:
    failures_are_remembered(rng, policy)


def failures_are_remembered(rng: random.Random, policy: Policy) -> None:
    memory = Memory()
    shapes = [shape(rng) for _ in range(3)]
    table = some_table(rng, 4, shapes)
    asked = [asking(rng, shapes, at) for at in range(6)]
    known = some_queues(rng)
    charged: list[tuple[str, PodClass]] = []
    for _ in range(8):
        present = View(table.freeze(), known, tuple(asked))
        found = plan(present, policy, NOW, memory)
        assert found.to_bytes() == plan(present, policy, NOW).to_bytes()
        move = rng.randrange(4)
        if move == 0 and charged:
            name, of = charged.pop(rng.randrange(len(charged)))
            table.discharge(table.row(name), of)
        elif move == 1:
            charged.append((rng.choice(table.names), rng.choice(shapes)))
            table.charge(table.row(charged[-1][0]), charged[-1][1])
        elif move == 2:
            rng.shuffle(asked)


@given(dice, st.integers(1, 12), policies)
@RELAXED
def test_undo_restores_every_byte(rng: random.Random, steps: int, policy: Policy) -> None:
    shapes = [shape(rng) for _ in range(3)]
    frozen = some_table(rng, 6, shapes).freeze()
    trial = Trial(frozen, FeasibilityCache(), policy)

    def there() -> tuple[object, ...]:
        return dict(trial.ports), {volume: dict(users) for volume, users in trial.attached.users.items()}

    def image() -> tuple[object, ...]:
        keys = tuple(trial.column(None, of).refresh().tobytes() for of in shapes)
        return trial.free.tobytes(), trial.cards.idle.tobytes(), trial.base.tobytes(), there(), keys

    def act() -> None:
        column = trial.column(None, rng.choice(shapes))
        key = column.refresh()
        rows = [row for row in range(len(frozen)) if column.room(row) > 0]
        assert rows == np.flatnonzero(column.rooms()).tolist()
        assert rows == np.flatnonzero(key != np.iinfo(np.int64).min).tolist()
        if rows:
            if rng.random() < 0.3 and not column.shuts:
                several = np.array(rng.sample(rows, rng.randint(1, len(rows))), np.int64)
                trial.place_many(column, several, np.array([rng.randint(1, column.room(r)) for r in several.tolist()]))
            else:
                row = rng.choice(rows)
                trial.place(column, row, rng.randint(1, min(column.room(row), 5)))

    held = [trial.occupy(trial.column(None, rng.choice(shapes)), row, NO_CARDS) for row in range(len(frozen))]
    marks = [(trial.mark(), image())]
    for _ in range(steps):
        if held and rng.random() < 0.2:
            trial.release(held.pop())
        elif rng.random() < 0.75 or len(marks) == 1:
            act()
            if rng.random() < 0.4:
                marks.append((trial.mark(), image()))
        else:
            mark, before = marks.pop()
            trial.undo(mark)
            assert image() == before
    while marks:
        mark, before = marks.pop()
        trial.undo(mark)
        assert image() == before


@given(dice, st.integers(1, 8))
@RELAXED
def test_the_live_table_returns_what_it_was_given(rng: random.Random, charges: int) -> None:
    shapes = [shape(rng) for _ in range(3)]
    table = some_table(rng, 3, shapes)
    before = table.freeze()
    steps = []
    for _ in range(charges):
        name, of = rng.choice(table.names), rng.choice(shapes)
        cards = CardGrant.packed({resource: rng.randrange(256) for resource in of.card_counts})
        table.charge(table.row(name), of, cards)
        steps.append((name, of, cards))
    for name, of, cards in rng.sample(steps, len(steps)):
        table.discharge(table.row(name), of, cards)
    after = table.freeze()
    for at, resource in enumerate(after.static.resources):
        old = before.used[before.static.resources.index(resource)] if resource in before.static.resources else 0
        assert np.array_equal(after.used[at], np.broadcast_to(old, after.used[at].shape))
    for at, resource in enumerate(after.static.cards.names):
        known = before.static.cards.names
        old_cards = before.cards_used[known.index(resource)] if resource in known else np.uint64(0)
        assert np.array_equal(after.cards_used[at], np.broadcast_to(old_cards, after.cards_used[at].shape))
    assert after.volumes == before.volumes
    assert {name: Counter(taken) for name, taken in after.ports.items()} == {
        name: Counter(taken) for name, taken in before.ports.items()
    }
