"""Numbers in foreign text, such as annotations that any owner of a pod may write."""

import pytest

from t9ksched.kube.write.dialects.table import CARD_INDEX
from t9ksched.model.cards import NO_CARDS, CardGrant, WholeCards
from t9ksched.model.names import CORDONED_CARDS_ANNOTATION, GPU_INDEX_PREFIX
from t9ksched.model.node import decode_node, node_facts
from t9ksched.model.podclass import PodClass
from t9ksched.model.whole import whole_number

ODD = ["", " 1", "-1", "+1", "1_0", "²", "٣", "1.0", "0x1", "9" * 20, "9" * 5000]


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("007", 7), ("9" * 19, 10**19 - 1), *((text, None) for text in ODD)]
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ODD)
def test_odd_indices_of_cards_are_none(text: str) -> None:
    cards = (WholeCards("main", "nvidia.com/gpu", 1),)
    assert CARD_INDEX.read(PodClass(cards=cards), {f"{GPU_INDEX_PREFIX}main": text}) == NO_CARDS
    meta = {"name": "n", "annotations": {CORDONED_CARDS_ANNOTATION: f"{text},1"}}
    node = decode_node({"metadata": meta, "status": {"allocatable": {"nvidia.com/gpu": "4"}}})
    assert node_facts(node).cards.withdrawn == CardGrant.of({"nvidia.com/gpu": [1]})
