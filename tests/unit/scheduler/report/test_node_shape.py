"""Every card that a pod is charged with has a holder: the container that has it."""

from dataclasses import replace
from typing import Any

import pytest

from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, CardPart, CardRequest, SharedCards, WholeCards
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.report.node_shape import node_shape
from tests.builders import divided_node
from tests.unit.scheduler.state.test_state import GPU, node, pod, state_with

SIZES = (CardSize(1000, 10, 1000, "a"), CardSize(1000, 10, 1000, "b"))


def part(container: str, kind: Any, cores: int, memory: int, count: int = 1) -> SharedCards:
    return SharedCards(container, GPU, count, kind, cores, memory)


def holders(asked: tuple[CardRequest, ...], grant: CardGrant, *, divided: bool) -> list[list[Any]]:
    state = state_with(node(gpus=2))
    state.upsert_pod(pod("p", node="n1", phase="Running", queue="q"))
    if divided:
        facts = replace(divided_node("n1", 2), cards=CardTable({GPU: 2}, divided={GPU: SIZES}))
        state.node_objects["n1"] = (state.node_objects["n1"][0], facts)
        state.nodes.upsert(facts)
    state.charges.charge("pod-p", "n1", PodClass(cards=asked), "q", grant)
    shape = node_shape(state, "n1")
    assert shape is not None
    kept = ("container", "cores", "memoryMiB")
    return [[tuple(one[key] for key in kept) for one in card["holders"]] for card in shape["gpus"]]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((WholeCards("a", GPU, 2),), [[("a", 100, None)], [("a", 100, None)]]),
        ((WholeCards("a", GPU, 1), WholeCards("i", GPU, 2, "init")), [[("a", 100, None)], [("i", 100, None)]]),
        ((WholeCards("i", GPU, 2, "init"),), [[("i", 100, None)], [("i", 100, None)]]),
    ],
)
def test_whole_cards(asked: tuple[CardRequest, ...], expected: list[list[Any]]) -> None:
    assert holders(asked, CardGrant.of({GPU: (0, 1)}), divided=False) == expected


@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [
        (
            (part("a", "main", 300, 30), part("b", "main", 200, 20)),
            {"a": (0,), "b": (0,)},
            [[("a", 30, 30), ("b", 20, 20)], []],
        ),
        (
            (part("a", "main", 300, 30), part("b", "main", 200, 20), part("i", "init", 900, 20)),
            {"a": (0,), "b": (0,), "i": (0,)},
            [[("a", 30, 30), ("b", 20, 20), ("i", 40, 0)], []],
        ),
        (
            (part("a", "main", 300, 30), part("i", "init", 900, 90)),
            {"a": (0,), "i": (1,)},
            [[("a", 30, 30)], [("i", 90, 90)]],
        ),
    ],
)
def test_parts_of_cards(
    asked: tuple[CardRequest, ...], given: dict[str, tuple[int, ...]], expected: list[list[Any]]
) -> None:
    grant = CardGrant.of_containers((name, GPU, cards) for name, cards in given.items())
    table = CardTable({GPU: 2}, divided={GPU: SIZES})
    assert holders(asked, table.divide(asked, grant), divided=True) == expected


def test_a_card_under_another_name_than_that_by_which_its_pod_asks() -> None:
    grant = CardGrant.of_parts([CardPart(GPU, 1, 1000, 1000)])
    asked = (WholeCards("a", "koordinator.sh/gpu-core", 1),)
    assert holders(asked, grant, divided=True) == [[], [("a", 100, 1000)]]
