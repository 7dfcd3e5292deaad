"""Which holders of cards cannot all have what they hold."""

from dataclasses import replace

import msgspec
import pytest

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, CardPart
from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.card_audit import CardAudit, lost
from t9ksched.scheduler.state.card_doubts import contested
from t9ksched.scheduler.state.card_moves import CardMoves
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.records import PodRecord
from tests.builders import GPU, divided_node, node, pod_class, shared_class


class _Node:
    def __init__(self, facts: NodeFacts) -> None:
        self.table, self.pods, self.nodes = NodeTable(), dict[str, PodRecord](), {"n": (None, facts)}
        self.table.upsert(facts)
        self.charges = Charges(self.table)
        self.moves = CardMoves(self.charges)
        self.audit = CardAudit(self.pods, self.nodes, self.charges, self.moves)  # type: ignore[arg-type]
        self.charges.moved = self.audit.note
        self.told = self.audit.drifts.follow()

    def hold(self, name: str, cards: CardGrant, *, ours: bool = True) -> None:
        of = shared_class(100, 100, cards.count(GPU)) if cards.parts else pod_class(gpu=cards.count(GPU))
        self.pods[name] = PodRecord(name, "ns", name, ours, of, node="n", phase="Running")
        self.charges.charge(name, "n", of, "q" if ours else "", cards)

    def offers(self, facts: NodeFacts) -> None:
        self.nodes["n"] = None, facts
        self.table.upsert(facts)
        self.audit.note("n")

    @property
    def found(self) -> dict[str, str]:
        return dict(self.audit.of("n"))


def cards(*indices: int) -> CardGrant:
    return CardGrant.of({GPU: indices})


def parts(index: int, cores: int, memory: int) -> CardGrant:
    return CardGrant.of_parts([CardPart(GPU, index, cores, memory)])


def test_a_card_that_is_gone_is_told_once_and_no_more_when_it_is_back() -> None:
    made = _Node(node("n", gpu=4))
    made.hold("a", cards(0, 3))
    made.hold("b", cards(1))
    assert made.found == {}
    made.offers(node("n", gpu=3))
    assert made.found == {"a": f"card 3 of {GPU}, which it holds, is gone: node n has 3"}
    made.charges.release("b")
    assert len(made.audit) == 1
    assert [record.name for record, _ in made.told.take()] == ["a"]
    made.offers(node("n", gpu=4))
    assert made.found == {}


@pytest.mark.parametrize("gone", [node("n"), node("n", gpu=3, ready=True)])
def test_nodes_that_offer_none_or_do_not_honour_indices_have_lost_none(gone: NodeFacts) -> None:
    made = _Node(node("n", gpu=4))
    made.hold("a", cards(3))
    (charge,) = made.charges.on_node("n")
    if gone.cards:
        gone = replace(gone, card_mode="plugin-chooses")
    assert lost(charge, gone) == ()
    made.offers(gone)
    assert made.found == {}


@pytest.mark.parametrize(
    ("first", "second", "collide"),
    [
        (parts(0, 600, 100), parts(0, 400, 100), False),
        (parts(0, 600, 100), parts(0, 401, 100), True),
        (parts(0, 100, 20_000), parts(0, 100, 12_001), True),
        (parts(0, 900, 100), parts(1, 900, 100), False),
        (parts(0, 100, 100), cards(0), True),
        (cards(1), cards(0, 1), True),
    ],
)
@pytest.mark.parametrize("ours", [True, False])
def test_a_card_that_several_hold(first: CardGrant, second: CardGrant, collide: bool, ours: bool) -> None:
    facts = divided_node("n", 2)
    made = _Node(facts)
    made.hold("a", first)
    made.hold("b", second, ours=ours)
    assert set(made.found) == ({"a", "b"} if collide else set())
    there = list(made.charges.on_node("n"))
    assert contested(there, lambda uid: True, facts) == (collide and not ours)
    assert not contested(there, lambda uid: False, facts), "what has not begun has nothing"
    if collide:
        assert "another pod holds card" in made.found["a"]
    made.charges.release("b")
    assert made.found == {}


def test_a_node_that_goes_takes_its_findings_along() -> None:
    made = _Node(node("n", gpu=1))
    for name in "abc":
        made.hold(name, cards(0))
    assert set(made.found) == {"a", "b", "c"}
    assert made.found["a"].startswith("2 other pods hold card 0")
    made.nodes.clear()
    made.audit.note("n")
    assert len(made.audit) == 0


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("bac", f"card 0 of {GPU} (a) is card 1 now, card 1 of {GPU} (b) is card 0 now"),
        ("acb", f"card 1 of {GPU} (b) is card 2 now"),
        ("abc", ""),
    ],
)
def test_of_cards_that_have_other_indices_each_is_told(order: str, words: str) -> None:
    def offers(uuids: str) -> NodeFacts:
        made = divided_node("n", 3)
        (size, *_) = made.cards.divided[GPU]
        sizes = tuple(msgspec.structs.replace(size, uuid=uuid) for uuid in uuids)
        return replace(made, layout="HAMi", cards=CardTable({GPU: 3}, divided={GPU: sizes}))

    made = _Node(offers("abc"))
    made.hold("p", CardGrant.of_parts([CardPart(GPU, 0, 100, 100), CardPart(GPU, 1, 100, 100)]))
    for uuids, told in ((order, words), ("abc", "")):
        made.offers(offers(uuids))
        made.moves.follow(made.nodes["n"][1])
        made.audit.note("n")
        assert made.found == ({"p": f"of the cards that it was given, {told}"} if told else {})
