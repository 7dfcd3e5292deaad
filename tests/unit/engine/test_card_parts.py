"""Parts of cards in the engine: what fits on one card, whole cards beside parts, and what is given back."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.pack import pack
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.plan import Plan
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View, dump, load
from t9ksched.engine.work import finish
from t9ksched.model.card_size import CORES
from t9ksched.model.cards import CardGrant, CardPart
from t9ksched.model.podclass import PodClass
from tests.builders import GPU, divided_node, gang, node, pod_class, queue, shared_class, table


class _Cluster:
    """Nodes on which what is planned is charged."""

    def __init__(self, *nodes: object) -> None:
        self.table = NodeTable()
        for facts in nodes:
            self.table.upsert(facts)  # type: ignore[arg-type]
        self.running: dict[str, tuple[str, PodClass, CardGrant]] = {}
        self._nth = 0

    def view(self, *gangs: object) -> View:
        return View(self.table.freeze(), {"q": queue()}, tuple(gangs))  # type: ignore[arg-type]

    def submit(self, of: PodClass, pods: int = 1) -> Plan:
        self._nth += 1
        made = plan(self.view(gang(f"g{self._nth}", pods=pods, of=of)), Policy(), 0)
        for one in made.assignments:
            self.table.charge(self.table.row(one.node), of, one.grant)
            self.running[one.pod] = (one.node, of, one.grant)
        return made

    def end(self, pod: str) -> None:
        name, of, cards = self.running.pop(pod)
        self.table.discharge(self.table.row(name), of, cards)

    def parts(self, name: str) -> list[CardPart]:
        return [part for node, _, cards in self.running.values() if node == name for part in cards.parts]


def _indices(plan: Plan) -> list[tuple[int, ...]]:
    return [one.grant.indices(GPU) for one in plan.assignments]


def test_parts_of_one_card_add_up_to_it() -> None:
    cluster = _Cluster(divided_node("a", 1))
    assert [len(cluster.submit(shared_class(400, 8000)).assignments) for _ in range(4)] == [1, 1, 0, 0]
    assert cluster.parts("a") == [CardPart(GPU, 0, 400, 8000)] * 2


def test_a_part_is_on_one_card_however_much_is_free_in_sum() -> None:
    cluster = _Cluster(divided_node("a", 4))
    for _ in range(4):
        assert cluster.submit(shared_class(600, 100)).assignments
    refused = cluster.submit(shared_class(600, 100))
    assert not refused.assignments
    (waiting,) = refused.waiting
    assert waiting.reasons[0].code == "InsufficientResources"
    assert "4/4 CardInsufficientCore" in waiting.reasons[0].message


def test_a_view_with_parts_reads_back_as_it_was_written() -> None:
    cluster = _Cluster(divided_node("a", 2), node("b", gpu=2))
    cluster.submit(shared_class(600, 100))
    given = cluster.view(gang("more", of=shared_class(300, 200), pods=3))
    again = load(dump(given))
    assert again.gangs == given.gangs
    assert again.nodes.static.facts == given.nodes.static.facts
    assert again.nodes.free().tolist() == given.nodes.free().tolist()
    assert plan(again, Policy(), 0) == plan(given, Policy(), 0)
    assert [one.grant.parts for one in plan(given, Policy(), 0).assignments], "parts are given"


def test_memory_decides_too() -> None:
    cluster = _Cluster(divided_node("a", 2, memory=1000))
    assert _indices(cluster.submit(shared_class(0, 700))) == [(0,)]
    assert _indices(cluster.submit(shared_class(0, 700))) == [(1,)]
    refused = cluster.submit(shared_class(0, 700))
    assert "2/2 CardInsufficientMemory" in refused.waiting[0].reasons[0].message
    assert _indices(cluster.submit(shared_class(0, 300))) == [(0,)]


def test_the_fullest_card_that_suffices_is_taken() -> None:
    cluster = _Cluster(divided_node("a", 3))
    assert _indices(cluster.submit(shared_class(500, 100))) == [(0,)]
    assert _indices(cluster.submit(shared_class(700, 100))) == [(1,)]
    assert _indices(cluster.submit(shared_class(300, 100))) == [(1,)]
    assert _indices(cluster.submit(shared_class(300, 100))) == [(0,)]


def test_whole_cards_and_parts_exclude_each_other() -> None:
    cluster = _Cluster(divided_node("a", 2))
    assert _indices(cluster.submit(pod_class(gpu=1))) == [(0,)]
    assert _indices(cluster.submit(shared_class(0, 10))) == [(1,)]
    assert not cluster.submit(pod_class(gpu=1)).assignments
    cluster.end("g2-0")
    assert _indices(cluster.submit(pod_class(gpu=1))) == [(1,)]
    assert not cluster.submit(shared_class(0, 10)).assignments


def test_cards_of_one_pod_are_different_ones() -> None:
    cluster = _Cluster(divided_node("a", 3))
    assert _indices(cluster.submit(shared_class(100, 100, cards=2), pods=3)) == [(0, 1), (0, 2), (1, 2)]
    assert not cluster.submit(shared_class(100, 100, cards=4)).assignments
    assert cluster.submit(shared_class(100, 100, cards=4)).waiting[0].reasons[0].code == "NeverFits"


def test_so_many_pods_with_several_cards_find_room_as_there_is() -> None:
    """Three cards with 3, 2 and 1 places serve three pods with two cards each."""
    cluster = _Cluster(divided_node("a", 3))
    cluster.submit(shared_class(100, 32_000 // 3 * 1, cards=1))
    made = cluster.submit(shared_class(300, 100, cards=2), pods=4)
    assert len(made.assignments) == 4


def test_a_node_that_gives_whole_cards_gives_one_for_a_part() -> None:
    cluster = _Cluster(node("a", gpu=2, labels={"nvidia.com/gpu.memory": "16384"}))
    assert _indices(cluster.submit(shared_class(300, 100))) == [(0,)]
    assert _indices(cluster.submit(shared_class(300, 100))) == [(1,)]
    assert not cluster.submit(shared_class(300, 100)).assignments
    assert cluster.parts("a") == []


def test_a_percentage_of_memory_is_of_each_nodes_cards() -> None:
    cluster = _Cluster(divided_node("a", 1, memory=1001))
    assert cluster.submit(shared_class(0, percent=50)).assignments
    assert cluster.parts("a") == [CardPart(GPU, 0, 0, 501)]
    assert not cluster.submit(shared_class(0, percent=50)).assignments
    assert cluster.submit(shared_class(0, percent=49)).assignments


def test_no_cores_run_where_some_are_left() -> None:
    cluster = _Cluster(divided_node("a", 1))
    assert cluster.submit(shared_class(900, 10)).assignments
    assert cluster.submit(shared_class(0, 10)).assignments
    assert cluster.submit(shared_class(100, 10)).assignments
    assert not cluster.submit(shared_class(0, 10)).assignments


def test_a_card_has_so_many_places() -> None:
    cluster = _Cluster(divided_node("a", 1, places=2))
    assert [len(cluster.submit(shared_class(10, 10)).assignments) for _ in range(3)] == [1, 1, 0]


def test_a_dump_keeps_the_counters() -> None:
    cluster = _Cluster(divided_node("a", 2))
    cluster.submit(shared_class(600, 100))
    asked = gang("x", of=shared_class(600, 100), pods=2)
    copy = load(dump(cluster.view(asked)))
    assert plan(copy, Policy(), 0) == plan(cluster.view(asked), Policy(), 0)


_SHARES = st.builds(
    shared_class,
    cores=st.sampled_from([0, 100, 250, 300, 500, 999, 1000]),
    memory=st.sampled_from([1, 250, 333, 500, 1000]),
    cards=st.integers(1, 3),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["submit", "submit", "end"]),
            _SHARES | st.builds(pod_class, gpu=st.integers(1, 2)),
            st.integers(1, 4),
            st.integers(0, 30),
        ),
        max_size=25,
    ),
)
def test_no_card_is_given_beyond_what_it_has(
    nodes: list[tuple[int, bool]], steps: list[tuple[str, PodClass, int, int]]
) -> None:
    made = [
        divided_node(f"n{at}", cards, memory=1000, places=4) if divided else node(f"n{at}", gpu=cards)
        for at, (cards, divided) in enumerate(nodes)
    ]
    cluster = _Cluster(*made)
    for what, of, pods, which in steps:
        if what == "submit":
            cluster.submit(of, pods)
        elif cluster.running:
            cluster.end(sorted(cluster.running)[which % len(cluster.running)])
        _audit(cluster, dict(zip((f"n{at}" for at in range(len(nodes))), nodes, strict=True)))
    for pod in list(cluster.running):
        cluster.end(pod)
    assert not any(cluster.table.used(name) for name in cluster.table.names)


def _audit(cluster: _Cluster, nodes: dict[str, tuple[int, bool]]) -> None:
    """Count what each card has given, from the grants alone."""
    given: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for name, of, grant in cluster.running.values():
        cards, divided = nodes[name]
        indices = grant.indices(GPU)
        assert len(indices) == of.cards[0].count
        assert max(indices) < cards
        parts = {part.index: (part.cores, part.memory) for part in grant.parts}
        assert bool(parts) == divided
        for index in indices:
            given.setdefault((name, index), []).append(parts.get(index, (CORES, 1000)))
    for held in given.values():
        assert sum(cores for cores, _ in held) <= CORES
        assert sum(memory for _, memory in held) <= 1000
        assert len(held) <= 4
        if any(cores == CORES for cores, _ in held):
            assert len(held) == 1


@pytest.mark.parametrize("of", [shared_class(300, 400), shared_class(300, 400, cards=2), pod_class(gpu=1)])
def test_undo_gives_back_every_part(of: PodClass) -> None:
    cluster = _Cluster(divided_node("a", 3), divided_node("b", 2), node("c", gpu=2))
    frozen = cluster.table.freeze()
    feasibility = FeasibilityCache()
    feasibility.follow(frozen)
    trial = Trial(frozen, feasibility, Policy())
    before, idle = trial.free.copy(), trial.cards.idle.copy()
    mark = trial.mark()
    assert finish(pack(trial, trial.column(None, of), 4)) == 4
    trial.undo(mark)
    assert (trial.free == before).all()
    assert (trial.cards.idle == idle).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_pod_fits_where_there_is_room_for_one(seed: int) -> None:
    """Looked up in another way than rooms, on nodes that divide cards and on others."""
    rng = random.Random(seed)
    live = table([*(divided_node(f"d{at}", 4) for at in range(4)), node("n", gpu=4)])
    for at in range(4):
        for card in range(4):
            cores, memory = rng.choice([0, 300, 700, 1000]), rng.choice([0, 9_000, 31_999, 32_000])
            part = CardPart(GPU, card, cores, memory)
            live.charge(live.row(f"d{at}"), shared_class(cores, memory), CardGrant.of_parts([part]))
    frozen = live.freeze()
    free = frozen.free()
    (of,) = frozen.static.divided.values()
    for cores, memory, count in ((0, 1, 1), (300, 23_000, 1), (301, 1, 2), (1000, 0, 1), (0, 0, 4), (1, 1, 3)):
        need = of.need(count, shared_class(cores, memory, count).cards[0])
        rooms = need.rooms(free)
        assert need.fits(free).tolist() == (rooms > 0).tolist()
        some = np.array([3, 4, 0])
        assert need.fits(free, some).tolist() == (rooms[some] > 0).tolist()
