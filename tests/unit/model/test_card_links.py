"""The annotation `gpu-links`: what is read, and what is told of what cannot be."""

import msgspec
import pytest

from t9ksched.model.card_links import CardLinks, parse_links
from t9ksched.model.names import CORDONED_CARDS_ANNOTATION, GPU_LINKS_ANNOTATION
from t9ksched.model.node import NodeFacts, decode_node, node_facts

GPU = "nvidia.com/gpu"


def facts(text: str, gpus: int = 2, labels: dict[str, str] | None = None, **more: str) -> NodeFacts:
    return node_facts(
        decode_node(
            {
                "metadata": {"name": "n", "annotations": {GPU_LINKS_ANNOTATION: text, **more}, "labels": labels or {}},
                "status": {"allocatable": {GPU: str(gpus)}},
            }
        )
    )


@pytest.mark.parametrize(
    ("entry", "weight"),
    [
        ('"SYS"', 10),
        ('"NODE"', 20),
        ('"PHB"', 30),
        ('"PXB"', 40),
        ('"PIX"', 50),
        ('"NV1"', 100),
        ('"NV18"', 1800),
        ("0", 0),
        ("7", 7),
        ("1000000", 1_000_000),
    ],
)
def test_what_an_entry_weighs(entry: str, weight: int) -> None:
    links = facts(f'[["X", {entry}], [{entry}, 0]]').links
    assert links is not None
    assert links.weights == ((0, weight), (weight, 0))
    assert links.told((0, 1)) == entry.strip('"')


ROW = "[0,1]"
FAULTS = {
    "": "is no JSON",
    "[[": "is no JSON",
    "NV12": "is no JSON",
    "[[0,NaN],[0,0]]": "is no JSON",
    "[[0,Infinity],[0,0]]": "is no JSON",
    "[" * 100_000: "is no JSON",
    "{}": "must be a matrix",
    "null": "must be a matrix",
    "[]": "must be a matrix",
    "[1]": "[0] must be a row",
    f"[{ROW},null]": "[1] must be a row",
    f"[{ROW},[0]]": "is not square: it has 2 rows, and [1] has 1 entries",
    f"[{ROW}]": "is not square: it has 1 rows, and [0] has 2 entries",
    "[[0]]": "has 1 rows: the node has 2 of nvidia.com/gpu",
    "[[0,1,1],[1,0,1],[1,1,0]]": "has 3 rows: the node has 2 of nvidia.com/gpu",
    f"[{','.join(['[]'] * 65)}]": "has 65 rows: of more than 64 cards none has an index",
    "[[0,-1],[1,0]]": "[0][1] is -1: use whole numbers from 0 to 1000000",
    "[[0,1],[1000001,0]]": "[1][0] is 1000001: use whole numbers from 0 to 1000000",
    f"[[0,{'9' * 400}],[1,0]]": "",
    "[[0,1e400],[1,0]]": "is no JSON",
    "[[0,1.5],[1,0]]": "[0][1] is 1.5",
    "[[0,true],[1,0]]": "[0][1] is true",
    "[[0,null],[1,0]]": "[0][1] is null",
    "[[0,[]],[1,0]]": "[0][1] is []",
    '[["X","X"],["X","X"]]': '[0][1] is "X", which stands for a card and itself',
    '[["X","NV0"],["NV1","X"]]': '[0][1] is "NV0": use NV1 to NV999, PIX, PXB, PHB, NODE, SYS, or numbers',
    '[["X","NV"],["NV1","X"]]': '[0][1] is "NV"',
    '[["X","NV1000"],["NV1","X"]]': '[0][1] is "NV1000"',
    '[["X","NV²"],["NV1","X"]]': '[0][1] is "NV²"',
    '[["X","nv1"],["NV1","X"]]': '[0][1] is "nv1"',
    '[["X","12"],["12","X"]]': '[0][1] is "12"',
    '[["Y","NV1"],["NV1","X"]]': '[0][0] is "Y"',
    f'[["X","{"A" * 10_000}"],["NV1","X"]]': '[0][1] is "AAAA',
}


@pytest.mark.parametrize(("text", "says"), FAULTS.items(), ids=[text[:24] for text in FAULTS])
def test_what_cannot_be_read_is_told_and_the_cards_stay(text: str, says: str) -> None:
    found = facts(text)
    assert found.links is None
    assert found.links_fault.startswith(f"{GPU_LINKS_ANNOTATION} {says}")
    assert len(found.links_fault) < 300
    assert found.cards.counts == {GPU: 2}
    assert not found.cards.withdrawn


@pytest.mark.parametrize(
    ("gpus", "labels", "fault"),
    [
        (65, {}, ""),
        (0, {}, ""),
        (2, {"nvidia.com/gpu.sharing-strategy": "time-slicing"}, ""),
        (3, {}, "has 2 rows: the node has 3 of nvidia.com/gpu"),
    ],
    ids=["counted by number", "no cards", "time slices", "another number"],
)
def test_links_are_those_of_cards_with_indices(gpus: int, labels: dict[str, str], fault: str) -> None:
    found = facts('[["X","NV1"],["NV1","X"]]', gpus, labels)
    assert found.links is None
    assert found.links_fault.endswith(fault)
    assert bool(found.links_fault) == bool(fault)


def test_a_cordoned_card_keeps_its_row() -> None:
    found = facts('[["X","NV1"],["NV1","X"]]', **{CORDONED_CARDS_ANNOTATION: "0"})
    assert found.links is not None
    assert not found.links_fault


def test_links_are_written_and_read_again() -> None:
    found = facts('[["X","NV1"],["NV1","X"]]')
    again = msgspec.json.decode(msgspec.json.encode(found.links), type=CardLinks)
    assert again == found.links
    assert again.weights == parse_links('[[0, "NV1"], ["NV1", 0]]').weights


def test_nodes_without_the_annotation_have_no_links() -> None:
    bare = node_facts(decode_node({"metadata": {"name": "n"}, "status": {"allocatable": {GPU: "2"}}}))
    assert (bare.links, bare.links_fault) == (None, "")
