"""The scorers `cards` and `fragmentation` of scheduler.conf, on nodes with whole cards and with divided ones."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.engine.memory import Memory
from t9ksched.engine.placement.scores import FULL
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Packing, PackingRule, Policy
from t9ksched.engine.scheduler_conf import parse_conf
from t9ksched.engine.usual_pods import UsualPods
from t9ksched.engine.view import View, dump, load
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.cards import CardGrant
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from tests.builders import GPU, divided_node, gang, node, pod_class, shared_class, table, view
from tests.unit.engine.deciding import decide, indices, where

CONF = """actions: allocate
tiers:
- plugins: [{name: basic}, {name: predicates}, {name: affinity}, {name: %s}]
"""
RULES: tuple[PackingRule, ...] = ("usable", "fragmentation", "best-fit", "spread")
ONE, EIGHT = pod_class(cpu=8, gpu=1), pod_class(cpu=64, gpu=8)


def conf(plugin: str) -> Policy:
    """The policy with this plugin alone to rank nodes."""
    return parse_conf(CONF % plugin)


def models(*named: tuple[str, str, int]) -> list[NodeFacts]:
    """Nodes of 8 cards: name, model, MiB of a card."""
    return [
        node(name, gpu=8, labels={"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": str(memory)})
        for name, model, memory in named
    ]


def usual(given_view: View, *counted: tuple[PodClass, int]) -> View:
    return replace(given_view, usual=counted)


def asked(given_view: View, *pods: PodClass) -> View:
    gangs = tuple(gang(f"g{at}", of=of) for at, of in enumerate(pods))
    return replace(given_view, gangs=gangs, queues=view([], gangs).queues)


# --- what each rule chooses


@pytest.mark.parametrize(
    ("plugin", "goes"),
    [
        ("cards", "b"),
        ("fragmentation", "b"),
        ("cards, arguments: {strategy: BestFit}", "c"),
        ("cards, arguments: {strategy: Spread}", "a"),
        ("cards, arguments: {strategy: FirstFit}", "a"),
    ],
)
def test_single_cards_come_from_nodes_that_are_no_use_to_large_pods(plugin: str, goes: str) -> None:
    """a is empty, b and c are begun: c is the fullest in cpu, and best in what is left by no other measure."""
    nodes = [node(name, gpu=8, cpu=96) for name in "abc"]
    live = table(nodes)
    for name in "bc":
        for card in range(3):
            live.charge(live.row(name), pod_class(cpu=1 if name == "b" else 20, gpu=1), CardGrant.of({GPU: [card]}))
    given_view = usual(asked(view(live), ONE), (EIGHT, 5), (ONE, 5))
    assert where(decide(given_view, conf(plugin))) == {"g0-0": goes}


@pytest.mark.parametrize("plugin", ["cards", "fragmentation"])
def test_shares_go_to_cards_that_are_begun_and_whole_ones_stay_whole(plugin: str) -> None:
    nodes = [divided_node("a", 4), divided_node("b", 4)]
    share, whole = shared_class(300, 9_000), pod_class(cpu=4, gpu=4)
    given_view = usual(asked(view(nodes), *[share] * 6, whole), (share, 6), (whole, 2))
    found = decide(given_view, conf(plugin))
    assert len(found.assignments) == 7
    assert where(found)["g6-0"] != where(found)["g0-0"]
    assert {where(found)[f"g{at}-0"] for at in range(6)} == {where(found)["g0-0"]}
    assert {at for one in found.assignments if one.pod != "g6-0" for _, _, (at,) in one.cards} == {0, 1}


def test_a_share_gets_the_fullest_card_that_suffices() -> None:
    live = table([divided_node("a", 3)])
    for card, cores in ((0, 500), (1, 800), (2, 600)):
        of = shared_class(cores, 1000)
        found = decide(replace(asked(view(live), of), usual=()), Policy(packing=None))
        given_part = next(iter(found.assignments[0].grant.parts))
        grant = CardGrant.of_parts([type(given_part)(GPU, card, cores, 1000)])
        live.charge(live.row("a"), of, grant)
    found = decide(asked(view(live), shared_class(300, 1000)), conf("cards"))
    assert indices(found) == {"g0-0": (2,)}


def test_scarce_models_are_kept_for_those_that_name_them() -> None:
    """Without the weight of models: by what arrived alone."""
    nodes = models(("a", "NVIDIA-H100", 80_000), ("b", "NVIDIA-A100", 80_000), ("c", "NVIDIA-A100", 80_000))
    named = replace(ONE, choice=CardChoice((("H100",),)))
    policy = conf("cards, arguments: {models: 0}")
    assert where(decide(usual(asked(view(nodes), ONE), (ONE, 9)), policy)) == {"g0-0": "a"}
    assert where(decide(usual(asked(view(nodes), ONE), (ONE, 9), (named, 3)), policy)) == {"g0-0": "b"}
    assert where(decide(usual(asked(view(nodes), named), (ONE, 9), (named, 3)), policy)) == {"g0-0": "a"}


@pytest.mark.parametrize(
    ("nodes", "of", "goes"),
    [
        ([("a", "NVIDIA-A100-80GB", 81_920), ("b", "NVIDIA-A40", 46_068)], ONE, "b"),
        ([("a", "NVIDIA-H100", 81_559), ("b", "NVIDIA-A100", 81_559), ("c", "NVIDIA-A100", 81_559)], ONE, "b"),
        (
            [("a", "NVIDIA-A100-80GB", 81_920), ("b", "NVIDIA-A40", 46_068)],
            replace(ONE, choice=CardChoice((("A100",),))),
            "a",
        ),
        ([("a", "NVIDIA-A100", 81_920), ("b", "NVIDIA-A100", 81_920)], ONE, "a"),
    ],
    ids=["larger cards are kept", "rarer cards are kept", "a pod that names its model", "alike: the first by name"],
)
def test_models(nodes: list[tuple[str, str, int]], of: PodClass, goes: str) -> None:
    assert where(decide(asked(view(models(*nodes)), of), conf("cards"))) == {"g0-0": goes}


def test_pods_without_cards_are_ranked_too_and_leave_cores_for_cards() -> None:
    nodes = [node("a", gpu=8, cpu=64), node("b", gpu=8, cpu=256)]
    given_view = usual(asked(view(nodes), pod_class(cpu=32)), (EIGHT, 5))
    assert where(decide(given_view, conf("cards"))) == {"g0-0": "b"}


def test_the_weight_counts_beside_other_scores() -> None:
    """binpack fills the node that is fullest; cards, which keeps a whole node whole, goes against it if it may."""
    live = table([node("a", gpu=8, cpu=32), node("b", gpu=8, cpu=256)])
    live.charge(live.row("a"), pod_class(cpu=16))
    given_view = usual(asked(view(live), pod_class(cpu=12)), (pod_class(cpu=16, gpu=8), 5))
    packs = "binpack, arguments: {weight: %s}}, {name: cards, arguments: {weight: %s}"
    assert where(decide(given_view, conf(packs % (10, 1)))) == {"g0-0": "a"}
    assert where(decide(given_view, conf(packs % (1, 10)))) == {"g0-0": "b"}


# --- properties


@pytest.mark.parametrize("rule", RULES)
def test_of_equal_nodes_the_first_by_name(rule: PackingRule) -> None:
    nodes = [node(name, gpu=8) for name in ("n3", "n1", "n2")]
    policy = Policy(binpack=None, packing=Packing(rule))
    found = decide(asked(view(nodes), *[pod_class(gpu=8)] * 3), policy)
    assert where(found) == {"g0-0": "n1", "g1-0": "n2", "g2-0": "n3"}


SHAPES = [pod_class(cpu=cpu, gpu=gpu) for cpu, gpu in ((1, 0), (4, 1), (16, 1), (8, 2), (32, 4), (64, 8))]
PARTS = [shared_class(cores, memory) for cores, memory in ((100, 2000), (300, 9000), (700, 20_000))]


@given(st.randoms(use_true_random=False), st.sampled_from(RULES))
@settings(deadline=None, max_examples=60)
def test_a_memory_that_lived_through_changes_gives_the_same_plan(rng: random.Random, rule: PackingRule) -> None:
    """Pods come and go, and nodes change."""
    live = table([node(f"n{at}", gpu=rng.choice([4, 8]), cpu=64) for at in range(3)])
    for at in range(2):
        live.upsert(divided_node(f"d{at}", 3, cpu=64))
    policy = Policy(packing=Packing(rule, weight=rng.choice([1, 10])), model_weight=rng.choice([0, 1]))
    memory, counts, placed, number = Memory(), UsualPods(), [], 0
    pool = rng.choice([SHAPES, [*SHAPES, *PARTS]])
    for now in range(6):
        some = [rng.choice(pool) for _ in range(rng.randint(1, 4))]
        for of in some:
            counts.arrived(of)
        gangs = tuple(gang(f"g{number + at}", of=of, created=number + at) for at, of in enumerate(some))
        number += len(some)
        given_view = replace(asked(view(live)), gangs=gangs, queues=view([], gangs).queues, usual=counts.shapes())
        found = plan(given_view, policy, now, memory)
        assert found == plan(given_view, policy, now), "without a memory"
        if pool is SHAPES:
            assert found == plan(load(dump(given_view)), policy, now), "written and read again"
        of_gang = {one.uid: one.waiting[0].pod_class for one in gangs}
        for one in found.assignments:
            placed.append((one.node, of_gang[one.gang], one.grant))
            live.charge(live.row(one.node), of_gang[one.gang], one.grant)
        while placed and rng.random() < 0.6:
            name, of, grant = placed.pop(rng.randrange(len(placed)))
            live.discharge(live.row(name), of, grant)
        if rng.random() < 0.2:
            live.upsert(node("n9", gpu=8, cpu=rng.choice([32, 64])))


def test_cards_of_high_indices_that_come_free_are_seen() -> None:
    """What is free of cards is kept across cycles, also where at first only low indices are."""
    nodes, memory = [node("a", gpu=8), node("b", gpu=8)], Memory()
    live = table(nodes)
    for name in "ab":
        live.charge(live.row(name), pod_class(gpu=4), CardGrant.of({GPU: [4, 5, 6, 7]}))
    for _ in range(2):
        found = plan(asked(view(live), pod_class(gpu=2)), conf("cards"), 1, memory)
        assert where(found) == {"g0-0": "a"}
        live.discharge(live.row("a"), pod_class(gpu=4), CardGrant.of({GPU: [4, 5, 6, 7]}))
        live.charge(live.row("a"), pod_class(gpu=4), CardGrant.of({GPU: [0, 1, 2, 3]}))


def test_amounts_beyond_all_measure_stay_countable() -> None:
    nodes = [node("a", gpu=64, cpu=2**40, memory=2**53), node("b", gpu=64, cpu=4)]
    given_view = usual(asked(view(nodes), pod_class(cpu=1, gpu=64)), (pod_class(cpu=0, memory=0, gpu=64), 1))
    for rule in RULES:
        policy = Policy(packing=Packing(rule, weight=10), model_weight=10)
        assert len(decide(given_view, policy).assignments) == 1


def test_a_full_score_is_the_most() -> None:
    assert FULL * (10 + 10 + 10 + 40) < 1 << 63


# --- what is usual


def test_what_is_usual_is_told_anew_after_a_quarter_more() -> None:
    counts = UsualPods()
    told = []
    for _ in range(40):
        counts.arrived(ONE)
        told.append(dict(counts.shapes())[ONE])
    assert told[:12] == [1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 10, 12]
    assert told[14:30] == [15] * 3 + [18] * 4 + [22] * 5 + [27] * 4
    assert counts.shapes() is counts.shapes()


def test_what_is_kept_of_arrivals_is_bounded() -> None:
    counts = UsualPods()
    for at in range(5_000):
        counts.arrived(pod_class(cpu=f"{at + 1}m"))
        if at % 10 == 0:
            counts.arrived(ONE)
    shapes = counts.shapes()
    assert len(shapes) <= 1024
    assert max(shapes, key=lambda one: one[1])[0] == ONE


def test_what_was_usual_long_ago_counts_less() -> None:
    counts = UsualPods()
    for _ in range(200_000):
        counts.arrived(EIGHT)
    for _ in range(150_000):
        counts.arrived(ONE)
    shapes = dict(counts.shapes())
    assert shapes[ONE] > shapes[EIGHT]
    assert sum(shapes.values()) < 1 << 17
