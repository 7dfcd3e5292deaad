"""Why parts of cards find no room, in the words of card schedulers: of how many cards of how many each is said."""

import re
from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_table import CardTable
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.cards import CardGrant, CardPart
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from tests.builders import GPU, divided_node, gang, pod_class, shared_class, table, view

MEMORY = 10_000


def four(places: int = 10, *, withdrawn: tuple[int, ...] = (), unhealthy: tuple[int, ...] = ()) -> NodeFacts:
    """A node with four cards, two of them A100, of which some take no work."""
    made = divided_node("a", 4, memory=MEMORY, places=places)
    sizes = tuple(
        structs.replace(size, uuid=f"GPU-{at}", model="A100" if at < 2 else "V100")
        for at, size in enumerate(made.cards.divided[GPU])
    )
    none = CardGrant.of({GPU: (*withdrawn, *unhealthy)})
    return replace(made, cards=CardTable({GPU: 4}, none, {GPU: sizes}), unhealthy=dict.fromkeys(unhealthy, "broken"))


def only(of: PodClass, **what: tuple[str, ...]) -> PodClass:
    return replace(of, choice=CardChoice(only=CardFilter(**what)))


def of_model(of: PodClass, *models: str) -> PodClass:
    return replace(of, choice=CardChoice(models=(models,)))


HALF, TINY = shared_class(500, 5000), shared_class(10, 10)
WORDS: dict[str, tuple[NodeFacts, dict[int, list[tuple[int, int]]], PodClass, list[str]]] = {
    "cores": (four(), {key: [(600, 10)] for key in range(4)}, HALF, ["4/4 CardInsufficientCore"]),
    "memory": (four(), {key: [(10, 6000)] for key in range(4)}, HALF, ["4/4 CardInsufficientMemory"]),
    "cores before memory": (
        four(),
        {0: [(600, 6000)], 1: [(600, 10)], 2: [(10, 6000)], 3: [(1000, MEMORY)]},
        HALF,
        ["3/4 CardInsufficientCore", "1/4 CardInsufficientMemory"],
    ),
    "cordoned": (
        four(withdrawn=(1, 3)),
        {key: [(600, 10)] for key in (0, 2)},
        HALF,
        ["2/4 CardCordoned", "2/4 CardInsufficientCore"],
    ),
    "unhealthy": (
        four(withdrawn=(1,), unhealthy=(0, 3)),
        {2: [(600, 10)]},
        HALF,
        ["2/4 CardNotHealth", "1/4 CardCordoned", "1/4 CardInsufficientCore"],
    ),
    "places": (four(2), dict.fromkeys(range(4), [(10, 10)] * 2), TINY, ["4/4 AllocatedCardsInsufficientRequest"]),
    "too few of them": (
        four(),
        {key: [(600, 10)] for key in (0, 1, 2)},
        shared_class(500, 5000, cards=2),
        ["3/4 CardInsufficientCore", "1/4 AllocatedCardsInsufficientRequest"],
    ),
    "another model": (
        four(),
        {0: [(600, 10)], 1: [(10, 6000)]},
        only(HALF, types=("a100",)),
        ["2/4 CardTypeMismatch", "1/4 CardInsufficientCore", "1/4 CardInsufficientMemory"],
    ),
    "another model by the vendor-neutral annotation": (
        four(),
        {0: [(600, 10)], 1: [(10, 6000)]},
        of_model(HALF, "A100", "H100"),
        ["2/4 CardTypeMismatch", "1/4 CardInsufficientCore", "1/4 CardInsufficientMemory"],
    ),
    "another card": (
        four(),
        {3: [(600, 10)]},
        only(HALF, uuids=("GPU-3",)),
        ["3/4 CardUuidMismatch", "1/4 CardInsufficientCore"],
    ),
    "a whole card": (
        four(withdrawn=(0,)),
        {key: [(10, 10)] for key in (1, 2, 3)},
        pod_class(gpu=1),
        ["1/4 CardCordoned", "3/4 CardInsufficientCore"],
    ),
}


@pytest.mark.parametrize(("facts", "held", "of", "expected"), WORDS.values(), ids=WORDS)
def test_each_card_is_counted_under_the_first_thing_that_it_lacks(
    facts: NodeFacts, held: dict[int, list[tuple[int, int]]], of: PodClass, expected: list[str]
) -> None:
    live = table([facts])
    for card, parts in held.items():
        for cores, memory in parts:
            grant = CardGrant.of_parts([CardPart(GPU, card, cores, memory)])
            live.charge(live.row("a"), shared_class(cores, memory), grant)
    found = plan(view(live, [gang("p", of=of)]), Policy(), 0)
    assert not found.assignments
    (waiting,) = found.waiting
    said = re.findall(r"(\d+)/(\d+) (Card\w+|Allocated\w+)", waiting.reasons[0].message)
    assert [f"{count}/{cards} {word}" for count, cards, word in said] == expected
    assert sum(int(count) for count, _, _ in said) == 4, "every card is counted once"


@pytest.mark.parametrize(
    ("of", "cards"),
    [
        (of_model(HALF, "V100"), (2, 3)),
        (of_model(HALF, "A100"), (0, 1)),
        (of_model(shared_class(500, 5000, cards=2), "V100"), (2, 3)),
        (of_model(pod_class(gpu=2), "V100"), (2, 3)),
        (replace(HALF, choice=CardChoice(models=(("A100",),), only=CardFilter(no_uuids=("GPU-0",)))), (1,)),
    ],
)
def test_cards_of_the_model_that_is_asked_for_are_given(of: PodClass, cards: tuple[int, ...]) -> None:
    node = replace(four(), labels={"nvidia.com/gpu.product": "A100"})
    found = plan(view(table([node]), [gang("p", of=of)]), Policy(), 0)
    (one,) = found.assignments
    assert set(one.grant.indices(GPU)) <= set(cards)


@pytest.mark.parametrize(
    ("of", "has"),
    [
        (of_model(HALF, "H100"), "1 have 2 × A100 and 2 × V100"),
        (of_model(shared_class(500, 5000, cards=3), "V100"), "1 have 2 × A100 and 2 × V100"),
        (of_model(pod_class(gpu=3), "A100"), "1 have 2 × A100 and 2 × V100"),
    ],
)
def test_a_node_without_enough_cards_of_the_model_says_which_it_has(of: PodClass, has: str) -> None:
    node = replace(four(), labels={"nvidia.com/gpu.product": "H100"})
    found = plan(view(table([node]), [gang("p", of=of)]), Policy(), 0)
    (waiting,) = found.waiting
    (reason,) = waiting.reasons
    assert (str(reason.code), "1/1 CardTypeMismatch" in reason.message, has in reason.message) == (
        "CardTypeMismatch",
        True,
        True,
    ), reason.message
