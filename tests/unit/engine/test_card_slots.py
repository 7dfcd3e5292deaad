"""Containers of one pod with parts of cards of their own: unequal ones, on one card or on several."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import msgspec
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.engine.card_slot_search import Slots, SlotSearch
from t9ksched.engine.plan import Plan
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import dump, load
from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_worth import held as held_worth
from t9ksched.model.card_worth import worth_on
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.cards import CardGrant, CardPart, ContainerKind, SharedCards, WholeCards
from t9ksched.model.gang import Running
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD
from t9ksched.store import room
from tests.ahead import Pool
from tests.builders import GPU, divided_node, gang, node, pod_class, queue, running, shared_class, view
from tests.unit.engine.deciding import decide
from tests.unit.engine.test_card_victims import NOW, QUEUES, gone, holder

Asked = tuple[int, int] | tuple[int, int, ContainerKind] | tuple[int, int, ContainerKind, int]
"""Thousandths of cores, MiB, kind, cards."""


def of(*asked: Asked) -> PodClass:
    """A class of pods whose containers `a`, `b` and so on ask so."""
    cards = []
    for name, (cores, memory, *more) in zip("abcdefgh", asked, strict=False):
        kind, count = (*more, *("main", 1)[len(more) :])
        cards.append(SharedCards(name, GPU, count, kind, cores=cores, memory=memory))
    made = replace(shared_class(), cards=tuple(cards))
    return replace(pod_class(1, "1Gi", made.card_counts[GPU]), cards=made.cards)


def given(found: Plan) -> dict[str, dict[str, tuple[int, ...]]]:
    """Which cards each container of each pod that starts gets."""
    return {one.pod: {container: at for container, _, at in one.cards} for one in found.assignments}


def start(of: PodClass, nodes: Sequence[NodeFacts], pods: int = 1, running: Sequence[object] = ()) -> Plan:
    return decide(view(nodes, [gang("p", of=of, pods=pods)], {"q": queue()}, running=running))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "cards", "wanted"),
    [
        # Two parts of one card, equal ones or not, where there is one card, and where there are more.
        (of((300, 1024), (300, 1024)), 1, {"a": (0,), "b": (0,)}),
        (of((300, 1024), (500, 2048)), 4, {"a": (0,), "b": (0,)}),
        (of((600, 1024), (500, 1024)), 2, {"a": (0,), "b": (1,)}),
        (of((600, 1024), (500, 1024)), 1, None),
        (of((300, 20_000), (300, 20_000)), 2, {"a": (0,), "b": (1,)}),
        (of((300, 20_000), (300, 20_000)), 1, None),
        # The larger first, though it is named last, and back where the rest does not fit.
        (of((400, 1), (600, 1), (400, 1), (600, 1)), 2, {"a": (0,), "b": (0,), "c": (1,), "d": (1,)}),
        # Cards of one container are different ones, those of two need not be.
        (of((300, 100, "main", 2), (700, 100)), 2, {"a": (0, 1), "b": (0,)}),
        (of((300, 100, "main", 2), (800, 100)), 2, None),
        (of((300, 100, "main", 3)), 2, None),
        # An init container runs before: on the card of the main one, be it larger or smaller; a sidecar beside both.
        (of((300, 100), (600, 100, "init")), 1, {"a": (0,), "b": (0,)}),
        (of((600, 100), (300, 100, "init")), 2, {"a": (0,), "b": (0,)}),
        (of((600, 100), (500, 100, "sidecar")), 2, {"a": (1,), "b": (0,)}),
        (of((600, 100), (500, 100, "sidecar")), 1, None),
        (of((300, 100), (300, 100, "sidecar"), (700, 100, "init")), 1, {"a": (0,), "b": (0,), "c": (0,)}),
        (of((300, 100), (300, 100, "sidecar"), (800, 100, "init")), 1, None),
        (of((300, 100), (800, 100, "init"), (300, 100, "sidecar")), 1, {"a": (0,), "b": (0,), "c": (0,)}),
        # One that reserves no cores runs where some are left.
        (of((0, 100), (1000, 0)), 1, None),
        (of((0, 100), (990, 100)), 1, {"a": (0,), "b": (0,)}),
    ],
)
def test_where_containers_go(asked: PodClass, cards: int, wanted: dict[str, tuple[int, ...]] | None) -> None:
    found = start(asked, [divided_node("n", cards)])
    got = given(found).get("p-0")
    if wanted is None or got is None:
        assert got == wanted
        return
    assert {name: len(at) for name, at in got.items()} == {name: len(at) for name, at in wanted.items()}
    # Cards that are alike may be named in another order.
    alike = {mine: its for name, at in got.items() for mine, its in zip(at, wanted[name], strict=True)}
    assert {name: tuple(sorted(alike[one] for one in at)) for name, at in got.items()} == wanted


def test_pods_fill_a_node_one_after_the_other() -> None:
    asked = of((300, 100), (500, 100))
    node = divided_node("n", 2)
    found = start(asked, [node], pods=2)
    assert sorted(at["a"] + at["b"] for at in given(found).values()) == [(0, 0), (1, 1)]
    waits = start(asked, [node], pods=3)
    assert not waits.assignments
    found = decide(view([node], [gang(name, of=asked) for name in "xyz"], {"q": queue()}))
    assert len(found.assignments) == 2


def test_what_a_pod_has_is_its_peak_on_each_card() -> None:
    asked = of((300, 1000), (200, 500, "sidecar"), (600, 800, "init"))
    (one,) = start(asked, [divided_node("n", 1)]).assignments
    # The init container runs beside no sidecar that stands behind it, and this one stands before it.
    assert one.grant.parts == (CardPart(GPU, 0, 800, 1500, 2),)
    assert one.grant.given == (("a", GPU, (0,)), ("b", GPU, (0,)), ("c", GPU, (0,)))
    live = view([divided_node("n", 1)], running=[holding(asked, one.grant)]).nodes
    free = dict(zip(live.static.resources, live.free()[:, 0].tolist(), strict=True))
    assert [free[f"{GPU}#00/{what}"] for what in ("cores", "memory", "places")] == [200, 30_500, 8]


def holding(asked: PodClass, grant: CardGrant) -> Running:
    made = running("r", "q", ["n"], of=asked)
    return structs.replace(made, pods=(structs.replace(made.pods[0], cards=grant),))


def test_a_pod_stays_where_it_is_when_a_view_is_written_and_read() -> None:
    asked = of((300, 1000), (200, 500))
    (one,) = start(asked, [divided_node("n", 2)]).assignments
    held = view([divided_node("n", 2)], [gang("p", of=asked, pods=2)], running=[holding(asked, one.grant)])
    assert dump(load(dump(held))) == dump(held)
    assert decide(load(dump(held))) == decide(held)
    assert decide(held).assignments


def test_rows_of_cards_have_their_containers() -> None:
    asked = of((300, 1000), (200, 500))
    (one,) = start(asked, [divided_node("n", 2)]).assignments
    assert one.cards == (("a", GPU, (0,)), ("b", GPU, (0,)))
    taken = msgspec.json.encode(room.written(asked, one.grant))
    assert room.read(msgspec.json.decode(taken))[1] == one.grant


@pytest.mark.parametrize(
    ("asked", "held", "words"),
    [
        (
            of((300, 1000), (600, 20_000)),
            shared_class(800, 100),
            "needs 30 % of the cores and 1000 MiB for container a, 60 % of the cores and 20000 MiB for container b on"
            " cards of one node; 1/2 CardInsufficientCore, 1/2 AllocatedCardsInsufficientRequest",
        ),
        (
            of((300, 32_000), (300, 32_000)),
            shared_class(100, 100),
            "1/2 CardInsufficientMemory, 1/2 AllocatedCardsInsufficientRequest",
        ),
        # What one container asks for is on no card: of that one is said how much there is.
        (
            of((100, 100), (300, 31_950)),
            shared_class(100, 100),
            "; for container b 2/2 CardInsufficientMemory: room of several cards does not add up; of cards with the"
            " cores the best has 31900 MiB free",
        ),
        (
            of((100, 60_000), (300, 20_000)),
            shared_class(100, 100),
            "; for container a 2/2 CardInsufficientMemory; the largest has 32000 MiB",
        ),
        (
            of((100, 10_000), (900, 20_000)),
            shared_class(700, 100),
            "; for container b 2/2 CardInsufficientCore: room of several cards does not add up; of cards with the"
            " memory the best has 80 % of its cores free",
        ),
    ],
)
def test_why_a_pod_waits_is_told_by_card(asked: PodClass, held: PodClass, words: str) -> None:
    node = divided_node("n", 2)
    other = [holder("h0", [0], held, node)]
    if words.startswith("needs"):
        other.append(holder("h1", [1], shared_class(300, 100), node))
    if words.startswith("; for"):
        other.append(holder("h1", [1], shared_class(200, 100), node))
    (waits,) = start(asked, [node], running=other).waiting
    assert words in waits.reasons[0].message


def test_victims_leave_a_whole_arrangement() -> None:
    """Containers of 60 and 50 percent need two cards: the pods on two of three that are cheapest go, and no others."""
    node = divided_node("n", 3)
    held = [holder(f"s{at}", [0], shared_class(400, 10), node, "safe") for at in range(2)]
    held += [holder("x", [1], shared_class(700, 10), node), holder("y", [1], shared_class(100, 10), node)]
    held += [holder("z", [2], shared_class(700, 10), node), holder("u", [2], shared_class(100, 10), node)]
    wants = gang("p", "top", of=of((600, 10), (500, 10)))
    found = plan(view([node], [wants], QUEUES, running=held), Policy(actions=("allocate", "preempt")), NOW)
    assert gone(found) == ["x", "z"]
    found = plan(
        view(
            [node], [wants, gang("q", "low", of=shared_class(500, 10))], QUEUES, running=[*held[:2], held[2], held[4]]
        ),
        Policy(actions=("allocate", "preempt")),
        NOW,
    )
    assert gone(found) == ["x", "z"]
    assert not found.assignments, "the victims' room is the preemptor's"


def test_a_plan_keeps_the_cards_of_each_container() -> None:
    one = Pool(facts=[divided_node("a", 2, cpu=1000, pods=1000)])
    for name, hours in (("x", 2), ("y", 4)):
        one.submit(name, 1, hours, of_class=shared_class(600, 100, cpu=0, ram=0))
        one.cycle(0)
    asked = replace(of((500, 100), (700, 100)), requests=(("pods", 1), (GPU, 2))[::-1])
    one.submit("p", 1, 2, of_class=asked)
    one.cycle(0)
    assert one.planned == {"p": 4}
    (planned,) = one.plans
    assert sorted(part.cores for part in planned.cards.parts) == [500, 700]
    one.end("x")
    one.cycle(2)
    assert one.planned == {"p": 4}
    one.end("y")
    one.cycle(4)
    assert one.started["p"] == 4


def test_quotas_of_cards_count_what_containers_have_at_their_peak() -> None:
    layout = divided_node("n", 2, memory=1000).card_layout
    # On one card the larger of both sums, on two each for itself: the least and the most that it may have.
    assert worth_on(of((300, 100), (100, 400)), layout) == (CARD // 2, CARD * 7 // 10)
    assert worth_on(of((300, 100), (200, 50, "init")), layout) == (CARD * 3 // 10,) * 2
    assert worth_on(of((300, 100), (600, 50, "init")), layout) == (CARD * 6 // 10, CARD * 9 // 10)
    assert worth_on(of((300, 100), (600, 50, "sidecar")), layout) == (CARD * 9 // 10,) * 2
    asked = of((300, 100), (100, 400))
    (one,) = start(asked, [divided_node("n", 2, memory=1000)]).assignments
    assert held_worth(asked, divided_node("n", 2, memory=1000), one.grant) == CARD // 2


def test_a_card_filter_and_a_spread_policy_hold_for_each_container() -> None:
    node = divided_node("n", 2)
    sizes = tuple(structs.replace(size, uuid=f"GPU-{at}") for at, size in enumerate(node.cards.divided[GPU]))
    node = replace(node, cards=replace(node.cards, divided={GPU: sizes}))
    asked = of((300, 100), (300, 100))
    only = replace(asked, choice=CardChoice(only=CardFilter(uuids=("GPU-1",))))
    assert given(start(only, [node])) == {"p-0": {"a": (1,), "b": (1,)}}
    spread = replace(asked, choice=CardChoice(only=CardFilter(spread=True)))
    assert given(start(spread, [node])) == {"p-0": {"a": (0,), "b": (1,)}}


def mixed(*models: str) -> NodeFacts:
    """A node that says of each card which model it is."""
    node = divided_node("n", len(models))
    sizes = tuple(
        structs.replace(size, model=model) for size, model in zip(node.cards.divided[GPU], models, strict=True)
    )
    return replace(node, cards=replace(node.cards, divided={GPU: sizes}), labels={"nvidia.com/gpu.product": models[0]})


def of_models(asked: PodClass, *own: tuple[str, str], every: tuple[str, ...] = ()) -> PodClass:
    said = tuple((name, (model,)) for name, model in own)
    return replace(asked, choice=CardChoice(models=(every,) if every else (), of_containers=said))


A, B = ("a", "H100"), ("b", "A100")


@pytest.mark.parametrize(
    ("asked", "models", "wanted"),
    [
        (of_models(of((300, 100), (500, 200)), A, B), ("A100", "H100"), {"a": (1,), "b": (0,)}),
        (of_models(of((300, 100), (300, 100)), A, B), ("A100", "H100"), {"a": (1,), "b": (0,)}),
        (of_models(of((300, 100), (500, 200)), A), ("H100",), {"a": (0,), "b": (0,)}),
        (of_models(of((300, 100), (800, 200)), B), ("A100", "H100"), {"a": (1,), "b": (0,)}),
        (of_models(of((300, 100), (300, 200)), A, every=("H100", "A100")), ("V100", "H100"), {"a": (1,), "b": (1,)}),
        (of_models(of((300, 100, "main", 2), (500, 200)), A, B), ("H100", "A100", "H100"), {"a": (0, 2), "b": (1,)}),
        (of_models(of((300, 100, "main", 2), (500, 200)), A, B), ("H100", "A100", "A100"), None),
        (of_models(of((300, 100), (500, 200)), A, B), ("A100", "A100"), None),
        (of_models(of((300, 100), (500, 200)), A, B, every=("A100",)), ("A100", "H100"), None),
        (of_models(of((600, 100), (500, 200)), A), ("H100",), None),
    ],
)
def test_models_of_a_container_are_those_of_its_cards(
    asked: PodClass, models: tuple[str, ...], wanted: dict[str, tuple[int, ...]] | None
) -> None:
    assert given(start(asked, [mixed(*models)])).get("p-0") == wanted


def test_nodes_without_the_model_of_a_container_are_told_with_it() -> None:
    asked = of_models(of((300, 100), (500, 200)), A, B)
    found = start(asked, [mixed("A100", "A100"), replace(mixed("H100", "A100"), name="m")], pods=3)
    assert {one.node for one in found.assignments} <= {"m"}
    (waiting,) = start(asked, [mixed("A100", "A100")]).waiting
    says = "the pod asks for H100 for container a and A100 for container b, 1 have A100"
    assert says in waiting.reasons[0].message
    whole = node("w", gpu=3, labels={"nvidia.com/gpu.memory": "40000", "nvidia.com/gpu.product": "A100"})
    assert not start(asked, [whole]).assignments, "its label says what all of its cards are"


def test_containers_with_whole_cards_have_them_alone() -> None:
    cards = (WholeCards("a", GPU, 1), SharedCards("b", GPU, 1, cores=300, memory=100))
    asked = replace(pod_class(1, "1Gi", 2), cards=cards)
    assert given(start(asked, [divided_node("n", 2)])) == {"p-0": {"a": (0,), "b": (1,)}}
    assert not start(asked, [divided_node("n", 1)]).assignments


def test_where_cards_are_whole_each_container_has_its_own() -> None:
    node_ = node("w", gpu=3, labels={"nvidia.com/gpu.memory": "40000"})
    assert given(start(of((300, 100), (500, 100), (900, 100, "init")), [node_])) == {
        "p-0": {"a": (0,), "b": (1,), "c": (0,)}
    }


def test_many_pods_and_states_are_counted_as_they_are_placed() -> None:
    """How many fit is what placing one after the other finds, also from the states on the way."""
    asked = of((300, 1000), (200, 500), (400, 800, "init"))
    nodes = [divided_node(f"n{at}", 2, places=5, cpu=100) for at in range(3)]
    found = start(asked, nodes, pods=6)
    assert len(found.assignments) == 6
    parts = [part for one in found.assignments for part in one.grant.parts]
    assert sum(part.cores for part in parts) <= 6000
    assert not start(asked, nodes, pods=13).assignments


def _free(node: NodeFacts, *cards: tuple[int, int]) -> Running:
    """What else runs there, so that of each card so much is left: thousandths of the cores and MiB."""
    parts = [
        CardPart(GPU, at, 1000 - cores, size.memory - memory)
        for at, ((cores, memory), size) in enumerate(zip(cards, node.cards.divided[GPU], strict=True))
    ]
    made = running("other", "q", [node.name], of=shared_class(0, 1))
    return structs.replace(made, pods=(structs.replace(made.pods[0], cards=CardGrant.of_parts(parts)),))


@pytest.mark.parametrize(
    ("asked", "left", "wanted"),
    [
        # The init container needs most: the main one runs on its card, and the fuller one stays whole.
        (of((300, 100), (600, 100, "init")), [(400, 9000), (700, 9000)], {"a": (1,), "b": (1,)}),
        (of((300, 100), (600, 100, "sidecar")), [(400, 9000), (700, 9000)], {"a": (0,), "b": (1,)}),
        (of((0, 2000), (0, 5000, "init")), [(1000, 3000), (1000, 6000)], {"a": (1,), "b": (1,)}),
        # The card of the init container is too small for the main one: another, which suffices for both.
        (of((300, 9000), (600, 100, "init")), [(700, 5000), (900, 9500)], {"a": (1,), "b": (1,)}),
        # Several main ones, as far as they run on what the init container had.
        (
            of((400, 100), (400, 100), (800, 100, "init")),
            [(400, 9000), (1000, 9000), (800, 9000)],
            {"a": (2,), "b": (2,), "c": (2,)},
        ),
        (
            of((500, 100), (500, 100), (800, 100, "init")),
            [(500, 9000), (1000, 9000)],
            {"a": (1,), "b": (1,), "c": (1,)},
        ),
        # Two init containers, of which one needs the cores and one the memory.
        (
            of((100, 100), (500, 100, "init"), (100, 8000, "init")),
            [(500, 5000), (100, 8000), (600, 9000)],
            {"a": (2,), "b": (2,), "c": (2,)},
        ),
        # A main one on two cards, of which the init container has one.
        (of((300, 100, "main", 2), (600, 100, "init")), [(300, 900), (350, 900), (700, 900)], {"a": (0, 2), "b": (2,)}),
    ],
)
def test_containers_of_different_moments_share_cards(
    asked: PodClass, left: list[tuple[int, int]], wanted: dict[str, tuple[int, ...]]
) -> None:
    node = divided_node("n", len(left), memory=10_000)
    assert given(start(asked, [node], running=[_free(node, *left)]))["p-0"] == wanted


_ASKED = st.lists(
    st.tuples(
        st.sampled_from([0, 100, 300, 500, 700]),
        st.sampled_from([100, 3000, 6000]),
        st.sampled_from(["main", "init", "sidecar"]),
        st.integers(1, 2),
    ),
    min_size=2,
    max_size=3,
)


@settings(max_examples=300)
@drawn(
    _ASKED, st.lists(st.tuples(st.sampled_from([0, 200, 400, 700, 1000]), st.integers(0, 9000)), min_size=1, max_size=3)
)
def test_a_pod_takes_as_little_as_it_can(asked: list[Asked], left: list[tuple[int, int]]) -> None:
    made = of(*asked)
    slots = Slots(made.cards)
    wanted = [tuple(one.memory for one in made.cards)] * len(left)  # type: ignore[attr-defined]
    cards = [(cores, memory, 9) for cores, memory in left]
    best = None
    for on in product(*(combinations(range(len(left)), one.count) for one in made.cards)):
        masks = [sum(1 << at for at, those in enumerate(on) if card in those) for card in range(len(left))]
        if all(slots.fits(cards[at], mask, wanted[at]) for at, mask in enumerate(masks) if mask):
            usages = [slots.usage(mask, wanted[0]) for mask in masks]
            taken = sum(one[0] for one in usages), sum(one[1] for one in usages)
            best = taken if best is None else min(best, taken)
    found = SlotSearch(slots, cards, wanted, range(len(left))).found()
    if found is None:
        assert best is None
        return
    usages = [slots.usage(mask, wanted[0]) for mask in found]
    assert (sum(one[0] for one in usages), sum(one[1] for one in usages)) == best
