"""The record of cordoned cards, what was projected, and what the annotation says now: what follows from the three."""

from collections.abc import Mapping
from unittest.mock import Mock

import pytest

from t9ksched.model.names import CORDONED_CARDS_ANNOTATION, RECORDED_CORDONS_ANNOTATION
from t9ksched.model.node import decode_node
from t9ksched.scheduler.keep.cordon_keeper import CordonKeeper, Step, step
from t9ksched.scheduler.state.state import ClusterState

NEWEST = 100


@pytest.mark.parametrize(
    ("says", "projected", "recorded", "cordon", "uncordon", "cards", "write"),
    [
        ("", "", (), (), (), (), False),
        ("1,5", "9:1,5", (1, 5), (), (), (1, 5), False),
        (" 5 , 1", "9:1,5", (1, 5), (), (), (1, 5), False),
        # On record, not on the node: a new cordon, or a node that was deleted and came back.
        ("", "", (3,), (), (), (3,), True),
        ("1", "9:1", (1, 3), (), (), (1, 3), True),
        # On the node, not on record any more.
        ("1,3", "9:1,3", (1,), (), (), (1,), True),
        ("3", "9:3", (), (), (), (), True),
        # By hand: added, removed, both; on a node that was never projected.
        ("1,5", "9:1", (1,), (5,), (), (1, 5), True),
        ("5", "9:1,5", (1, 5), (), (1,), (5,), True),
        ("", "9:1,5", (1, 5), (), (1, 5), (), True),
        ("2", "9:1", (1,), (2,), (1,), (2,), True),
        ("4", "", (), (4,), (), (4,), True),
        ("4", "", (4,), (), (), (4,), True),
        # Both at once: other cards of the record stay as they are.
        ("1,5", "9:1", (1, 7), (5,), (), (1, 5, 7), True),
        ("", "9:1", (1, 7), (), (1,), (7,), True),
        ("1,5", "9:1,5", (5, 7), (), (), (5, 7), True),
        # Projected from a database that is no more.
        ("1,5", "999:1,5", (), (1, 5), (), (1, 5), True),
        ("1", "999:1,5", (5,), (1,), (), (1, 5), True),
        ("1", "7777:1", (1,), (), (), (1,), False),
        # No indices.
        ("x,-1,2.5,,99999", "nonsense", (), (), (), (), False),
    ],
)
def test_merge(
    says: str,
    projected: str,
    recorded: tuple[int, ...],
    cordon: tuple[int, ...],
    uncordon: tuple[int, ...],
    cards: tuple[int, ...],
    write: bool,
) -> None:
    annotations = {CORDONED_CARDS_ANNOTATION: says, RECORDED_CORDONS_ANNOTATION: projected}
    found = step(annotations, frozenset(recorded), NEWEST, own="7777:1")
    assert (tuple(sorted(found.cordon)), tuple(sorted(found.uncordon))) == (cordon, uncordon)
    assert (tuple(sorted(found.cards)), found.write) == (cards, write)


@pytest.mark.parametrize(
    ("says", "projected", "recorded", "count", "cordon", "uncordon", "cards", "write", "rest"),
    [
        ("3,zz,-1,99", "9:2,3", (2, 3), 4, (), (2,), (3,), True, ("zz", "-1", "99")),
        ("3,zz,-1,99", "9:3", (3,), 4, (), (), (3,), False, ("zz", "-1", "99")),
        ("4", "", (), 4, (), (), (), False, ("4",)),
        ("4,1", "", (), 4, (1,), (), (1,), True, ("4",)),
        ("4", "", (), 5, (4,), (), (4,), True, ()),
        ("4", "", (), None, (4,), (), (4,), True, ()),
        ("zz", "", (2,), 4, (), (), (2,), True, ("zz",)),
        # It had more cards once, and may have them again.
        ("7", "9:7", (7,), 4, (), (), (7,), False, ()),
        ("7", "9:7", (), 4, (), (), (), True, ()),
    ],
)
def test_entries_that_name_no_card_are_left_as_they_are(
    says: str,
    projected: str,
    recorded: tuple[int, ...],
    count: int | None,
    cordon: tuple[int, ...],
    uncordon: tuple[int, ...],
    cards: tuple[int, ...],
    write: bool,
    rest: tuple[str, ...],
) -> None:
    annotations = {CORDONED_CARDS_ANNOTATION: says, RECORDED_CORDONS_ANNOTATION: projected}
    found = step(annotations, frozenset(recorded), NEWEST, count=count)
    assert (tuple(sorted(found.cordon)), tuple(sorted(found.uncordon))) == (cordon, uncordon)
    assert (tuple(sorted(found.cards)), found.write, found.rest) == (cards, write, rest)


class Keeper(CordonKeeper):
    """Remembers the nodes that it compares, and writes nothing."""

    def __init__(self) -> None:
        self.state = ClusterState()
        super().__init__(Mock(), Mock(), self.state, Mock())
        self._newest = NEWEST
        self.compared: list[str] = []

    def _step(self, name: str, annotations: Mapping[str, str]) -> Step:
        self.compared.append(name)
        return step({}, frozenset(), NEWEST)

    async def compares(self) -> list[str]:
        self.compared.clear()
        await self.sweep()
        return sorted(self.compared)


async def test_nodes_of_which_neither_record_nor_annotation_says_anything_are_not_looked_at() -> None:
    keeper = Keeper()

    def seen(name: str, annotations: Mapping[str, str]) -> None:
        keeper.state.upsert_node(decode_node({"metadata": {"name": name, "uid": name, "annotations": annotations}}))

    for at in range(9):
        seen(f"n{at}", {"other": "x"})
    assert await keeper.compares() == []
    keeper.state.node_events.cordon_cards({"n1": {0: "broken"}, "away": {0: "broken"}})
    seen("n2", {CORDONED_CARDS_ANNOTATION: "1"})
    seen("n3", {RECORDED_CORDONS_ANNOTATION: "1:"})
    assert await keeper.compares() == ["n1", "n2", "n3"]
    seen("n2", {})
    keeper.state.remove_node("n3")
    assert await keeper.compares() == ["n1"]
