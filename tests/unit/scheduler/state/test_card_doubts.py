"""Whether the cards of a node's pods are certain, as told after each change of one pod and by a look at all of them."""

import random
from dataclasses import replace

import pytest

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.cards import CardGrant, CardPart
from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.card_doubts import CardDoubts
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.records import PodRecord
from tests.builders import GPU, divided_node, node, pod_class, shared_class

WHOLE, DIVIDED = node("n", gpu=4), divided_node("n", 4)
PLUGIN = replace(WHOLE, card_mode="plugin-chooses")


class _Node:
    """One node with its pods. Whatever happens, it is known as `CardBook` knows it: with what is uncertain there."""

    def __init__(self, facts: NodeFacts) -> None:
        self.table, self.pods = NodeTable(), dict[str, PodRecord]()
        self.table.upsert(facts)
        self.charges = Charges(self.table)
        self.doubts = CardDoubts(self.pods, self.charges)
        self.facts = facts

    def changed(self, uid: str) -> str:
        """What is uncertain after a change of that pod, which a look at all must find, too."""
        why = self.doubts.after(self.facts, uid)
        assert why == self.doubts.on(self.facts)
        there = list(self.charges.on_node("n"))
        paid_by_none = sum(bool(one.cards and not one.queue) for one in there)
        assert self.charges.unpaid_cards("n") == paid_by_none
        self.facts = replace(self.facts, unsure=bool(why), why_unsure=why)
        return why

    def hold(
        self,
        uid: str,
        cards: CardGrant,
        asks: int = 0,
        *,
        ours: bool = True,
        phase: str = "Running",
        turn: bool = False,
    ) -> str:
        """A pod holds these cards, or so many unknown ones; `turn` if it had a turn on a card when it got them."""
        asks = asks or cards.count(GPU)
        of = shared_class(100, 100, asks) if self.facts.cards.divided and asks else pod_class(gpu=asks)
        self.pods[uid] = PodRecord(uid, "ns", uid, ours, of, node="n", phase=phase)
        given = (((GPU, "turn"),), 1) if turn else None
        self.charges.charge(uid, "n", of, "q" if ours else "", cards, sure=not asks or bool(cards), given=given)
        return self.changed(uid)

    def leave(self, uid: str) -> str:
        self.charges.release(uid)
        return self.changed(uid)


def cards_of(facts: NodeFacts, *indices: int) -> CardGrant:
    """These cards, of a node that divides them a tenth of each."""
    return CardGrant.of_parts([CardPart(GPU, at, 100, 100) for at in indices] if facts.cards.divided else ()) or (
        CardGrant.of({GPU: indices})
    )


@pytest.mark.parametrize("facts", [WHOLE, DIVIDED, PLUGIN], ids=["whole", "divided", "plugin"])
def test_what_is_uncertain_after_a_change_of_one_pod_is_what_a_look_at_all_finds(facts: NodeFacts) -> None:
    found: set[str] = set()
    for seed in range(60):
        rng, made = random.Random(f"doubts {seed}"), _Node(facts)
        for _ in range(25):
            uid = f"p{rng.randrange(8)}"
            what = rng.choice(("holds", "holds", "holds", "leaves", "begins", "pays"))
            if what == "holds":
                indices = rng.sample(range(5 if rng.random() < 0.1 else 4), rng.choice((0, 0, 1, 2)))
                asks = len(indices) or rng.choice((0, 0, 0, 1))
                ours, phase = rng.random() < 0.7, rng.choice(("Pending", "Running"))
                turn = bool(asks) and rng.random() < 0.2
                found.add(made.hold(uid, cards_of(facts, *indices), asks, ours=ours, phase=phase, turn=turn))
            elif what == "leaves":
                found.add(made.leave(uid))
            elif uid in made.pods and what == "begins":
                made.pods[uid].phase = "Running"
                found.add(made.changed(uid))
            elif made.charges.get(uid) is not None and made.pods[uid].ours:
                made.charges.pay(uid, rng.choice(("q", "other", "")))
                found.add(made.changed(uid))
    assert len(found) == (2 if facts is PLUGIN else 4), found


@pytest.mark.parametrize("facts", [WHOLE, PLUGIN], ids=["whole", "plugin"])
def test_a_pod_that_comes_or_goes_is_looked_at_and_no_other(facts: NodeFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    made, looks = _Node(facts), []
    about = CardDoubts._about
    monkeypatch.setattr(CardDoubts, "_about", lambda self, one, of: looks.append(one.uid) or about(self, one, of))
    for count in range(100):
        made.charges.charge(f"p{count}", "n", pod_class(), "q", CardGrant())
        assert made.doubts.after(facts, f"p{count}") == ""
    for card in range(3):
        made.charges.charge(f"card {card}", "n", pod_class(gpu=1), "q", cards_of(facts, card))
        assert made.doubts.after(facts, f"card {card}") == ""
    made.charges.release("card 1")
    assert made.doubts.after(facts, "card 1") == ""
    assert looks == ["card 0", "card 1", "card 2"], "each with cards when it comes"


def test_cards_are_taken_where_a_pod_holds_one_of_them() -> None:
    """As a look at the cards of all pods says."""
    rng, made = random.Random("taken"), _Node(WHOLE)
    for step in range(200):
        claimed = CardGrant.of({GPU: rng.sample(range(4), rng.choice((1, 2)))})
        held = [charge.cards for charge in made.charges.on_node("n")]
        assert made.charges.cards_taken("n", claimed) == any(one.overlaps(claimed) for one in held)
        if rng.random() < 0.5:
            made.charges.release(f"p{rng.randrange(step + 1)}")
        else:
            made.charges.charge(f"p{step}", "n", pod_class(gpu=2), "q", claimed)
        for uid in sorted(made.charges.all())[4:]:
            made.charges.release(uid)
