"""Random histories of two nodes and their pods: who holds which cards, what is not known, and what is told of it.

The oracle knows of each pod what it was charged with and by whose word: a decision of this process, a row of SQL, or
its annotation while there were no rows. What it says of a node follows from a look at all pods there.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from t9ksched.engine.nodes import NodeTable
from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.kube.write.dialects.table import CARD_INDEX
from t9ksched.model import names
from t9ksched.model.cards import NO_CARDS, CardGrant, WholeCards
from t9ksched.model.node import Node, NodeFacts, decode_node, node_facts
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.state.card_rows import row_of
from t9ksched.scheduler.state.cardbook import CardBook
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.store.bindings import CardBinding

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
NODES = ("n0", "n1")
HISTORIES, STEPS = 120, 60
NOW = 1_700_000_000 * 1_000_000_000
LAYOUTS: dict[str, dict[str, str]] = {"whole": {GPU: "4"}, "small": {GPU: "2"}, "sliced": {SLICE: "4"}, "none": {}}


@dataclass
class Held:
    """What a pod is charged with: bits of cards, whether that is certain, whether its annotation was believed."""

    node: str
    cards: int
    sure: bool
    believed: bool = False


@dataclass
class Told:
    """A pod as the API server has it. `asks` are the cards of each of its containers."""

    record: PodRecord
    asks: tuple[int, ...]
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.asks)


def class_of(asks: tuple[int, ...], slices: int) -> PodClass:
    requests = {"cpu": 1, GPU: sum(asks), SLICE: slices}
    cards = tuple(WholeCards(name, GPU, count) for name, count in zip("ab", asks, strict=False) if count)
    return PodClass(requests=tuple(sorted((key, value) for key, value in requests.items() if value)), cards=cards)


def _read(pod_class: PodClass, annotations: Mapping[str, str], dialect: CardDialect) -> CardGrant:
    return dialect.read(pod_class, annotations)


def words(cards: int) -> str:
    return f"{','.join(str(card) for card in range(64) if cards >> card & 1)} of {GPU}" if cards else "no cards"


def quoted(text: str | None) -> str:
    return repr(text if text is None or len(text) <= 100 else f"{text[:100]}…")


class History:
    """The book with the tables it reads, and beside it what was told."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"cards {seed}")
        self.serial = 0
        self.pods: dict[str, PodRecord] = {}
        self.told: dict[str, Told] = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, tuple[Node, NodeFacts]] = {}
        self.table = NodeTable()
        self.charges = Charges(self.table)
        self.book = CardBook(self.pods, self.nodes, self.charges, _read, self._taken_in)
        self.held: dict[str, Held] = {}
        self.had: dict[str, tuple[str, set[str]]] = {}
        self.rows: dict[str, CardBinding] = {}
        """Rows of SQL that the book was given, and whose pod it has not seen bound."""
        self.adopting = True
        self.drifting: dict[str, str] = {}
        self.known: dict[str, tuple[str, tuple[str | None, ...]]] = {}
        """What people were told of pods, by UID, and what their annotations said."""
        self.untold: list[tuple[str, str]] = []
        self.drifts = self.book.drifts.follow()
        self.over: list[str] = []
        for name in NODES:
            self.node(name)

    # The tables, as `ClusterState` keeps them

    def _taken_in(self, node: Node) -> None:
        facts = node_facts(node)
        if why := self.book.doubts.on(facts):
            facts = replace(facts, unsure=True, why_unsure=why)
        known = self.nodes.get(facts.name)
        self.nodes[facts.name] = node, facts
        if known is not None and known[1] == facts:
            return
        self.table.upsert(facts)
        self.charges.node_appeared(facts.name)
        self.book.node_changed(facts)
        self._said(facts.name)

    # What happens

    def step(self) -> None:
        what = ("pod", "pod", "decide", "decide", "bound", "bound", "ends", "goes", "node", "row", "restore", "adopt")
        getattr(self, self.rng.choice((*what, "look", "look", "foreign", "moved")))()

    def node(self, name: str = "") -> None:
        rng, name = self.rng, name or self.rng.choice(NODES)
        if name in self.nodes and rng.random() < 0.2:
            del self.nodes[name], self.objects[name]
            self.charges.node_gone(name)
            self.table.remove(name)
            return
        layout = rng.choices(list(LAYOUTS), (6, 1, 1, 1))[0]
        mode = {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX} if rng.random() < 0.75 else {}
        self.objects[name] = {
            "metadata": {"name": name, "uid": name, "annotations": mode},
            "status": {"allocatable": {"cpu": "9", "pods": "99"} | LAYOUTS[layout]},
        }
        self._taken_in(decode_node(self.objects[name]))

    def pod(self) -> None:
        """A pod of ours is seen; if it is on a node, another process bound it."""
        rng = self.rng
        self.serial += 1
        uid = f"p{self.serial}"
        asks = rng.choice(((), (1,), (1,), (2,), (1, 1), (1, 2)))
        slices = rng.choice((0, 0, 0, 1))
        pod_class = None if rng.random() < 0.03 else class_of(asks, slices)
        gang = rng.choice((None, GangRecord("ns", uid, uid, virtual=True), GangRecord("ns", "g", "g")))
        record = PodRecord(uid, "ns", uid, rng.random() < 0.93, pod_class, gang=gang, role=rng.choice(("", "w")))
        self.pods[uid] = record
        self.told[uid] = Told(record, asks)

    def _unplaced(self) -> list[str]:
        return [uid for uid, record in self.pods.items() if not (record.node or record.assumed) and record.ours]

    def _free(self, name: str, count: int) -> int:
        """Bits of so many cards that no pod is known to hold; 0 where there are not so many."""
        taken = 0
        for held in self.held.values():
            taken |= held.cards if held.node == name else 0
        has = self.nodes[name][1].cards.counts.get(GPU, 0) if name in self.nodes else 0
        free = [card for card in range(has) if not taken >> card & 1]
        self.rng.shuffle(free)
        return sum(1 << card for card in free[:count]) if len(free) >= count else 0

    def decide(self) -> None:
        """This process chooses a place, and names cards where the node gives those that are named."""
        those = [uid for uid in self._unplaced() if self.pods[uid].pod_class is not None]
        if not those:
            return
        uid, name = self.rng.choice(those), self.rng.choice(NODES)
        told, record = self.told[uid], self.pods[uid]
        cards = self._free(name, told.count) if self._indexed(name) else 0
        assert record.pod_class is not None
        fits = name in self.nodes and self.table.has_room(name, record.pod_class, CardGrant.packed({GPU: cards}))
        if not fits or (told.count and self._indexed(name) and not cards):
            return
        sure = self.book.certain(record.pod_class, name)
        assert sure == (not told.count or self._honours(name) or not self._indexed(name))
        self.charges.charge(uid, name, record.pod_class, "q", CardGrant.packed({GPU: cards}), sure=sure)
        record.assumed = name
        self.held[uid] = Held(name, cards, sure)
        self._annotate(uid, cards)

    def _annotate(self, uid: str, cards: int) -> None:
        those, told = [card for card in range(64) if cards >> card & 1], self.told[uid]
        for name, count in zip("ab", told.asks, strict=False):
            told.notes[names.GPU_INDEX_PREFIX + name] = ",".join(map(str, those[:count]))
            those = those[count:]

    def _seen(self, uid: str, name: str) -> None:
        """It is seen bound there, and that is not where this process decided."""
        told, record = self.told[uid], self.pods[uid]
        record.node, record.assumed, record.phase = name, "", "Running"
        if record.pod_class is None:
            return
        expected = self._expected(uid, name)
        self.rows.pop(uid, None)
        self.held[uid] = expected
        self.book.charge(record, told.notes, "q")

    def bound(self) -> None:
        """A decision came true, or a pod is seen on a node for the first time."""
        rng, uid = self.rng, self._some()
        if not uid:
            return
        record = self.pods[uid]
        if record.assumed:
            record.node, record.assumed, record.phase = record.assumed, "", "Running"
        elif not record.node and record.ours:
            name = rng.choice(NODES)
            if rng.random() < 0.8:
                self._annotate(uid, self._free(name, self.told[uid].count))
            if rng.random() < 0.3:
                self._annotate(uid, rng.choice((0b1, 0b11, 0b110, 0b11000, 1 << 63)))
            self._seen(uid, name)

    def moved(self) -> None:
        """It was decided for one node and is bound to another."""
        those = [uid for uid, record in self.pods.items() if record.assumed]
        if those:
            uid = self.rng.choice(those)
            self._seen(uid, next(name for name in NODES if name != self.pods[uid].assumed))

    def _some(self) -> str:
        return self.rng.choice(sorted(self.pods)) if self.pods else ""

    def _released(self, uid: str) -> None:
        record, charge = self.pods[uid], self.charges.release(uid)
        self.held.pop(uid, None)
        if record.finished:
            self._ended(uid)
        if charge is not None:
            self.book.released(record, charge)
        elif record.finished:
            self.book.ended(record)

    def _ended(self, uid: str) -> None:
        self.rows.pop(uid, None)
        self.drifting.pop(uid, None)
        self.known.pop(uid, None)

    def ends(self) -> None:
        uid = self._some()
        if uid and self.pods[uid].node and not self.pods[uid].finished:
            self.pods[uid].phase = self.rng.choice(("Succeeded", "Failed"))
            self._released(uid)

    def goes(self) -> None:
        uid = self._some()
        if uid:
            record = self.pods[uid]
            if not record.finished:
                self._released(uid)
            self._ended(uid)
            self.book.gone(record)
            grouped = record.gang is not None and not record.gang.virtual
            if record.ours and record.pod_class is not None and (record.pod_class.accelerated or grouped):
                self.over.append(uid)
            del self.pods[uid], self.told[uid]

    def row(self) -> None:
        """Another process decided about a pod and wrote it down, before or after this one sees it."""
        uid, name = self._some(), self.rng.choice(NODES)
        if uid and self.pods[uid].pod_class is not None and self.pods[uid].ours:
            cards = self._free(name, self.told[uid].count)
            if self.rng.random() < 0.3 and (held := self.held.get(uid)) is not None:
                cards, name = held.cards, held.node
            self.restore({uid: self._row(uid, name, cards)})

    def _row(self, uid: str, name: str, cards: int) -> CardBinding:
        those = [card for card in range(64) if cards >> card & 1]
        given = [("a", GPU, tuple(those))] if those else []
        sure = self.rng.random() < 0.8
        at = row_of(self.pods[uid], self._charge(uid, name), NOW).at
        return CardBinding(pod_uid=uid, namespace="ns", name=uid, node=name, cards=given, honoured=sure, at=at)

    def _charge(self, uid: str, name: str) -> Any:
        other = Charges(NodeTable())
        other.charge(uid, name, self.pods[uid].pod_class or PodClass(), "q", NO_CARDS)
        return other.get(uid)

    def restore(self, rows: dict[str, CardBinding] | None = None) -> None:
        rows, complete = rows or {}, not self.adopting or self.rng.random() < 0.15
        self.rows |= rows
        self.adopting = not complete
        for uid in [uid for uid, held in self.held.items() if held.believed]:
            row, held = self.rows.pop(uid, None), self.held[uid]
            if row is not None and row.node == held.node:
                cards = dict(row.grant.masks).get(GPU, 0)
                if cards != held.cards:
                    self._differs(uid, f"its annotations say {words(held.cards)}, on record is {words(cards)}")
                self.held[uid] = Held(held.node, cards, row.honoured)
            elif complete:
                self.held[uid] = Held(held.node, 0, False)
        self.book.restore(rows, complete=complete)

    def adopt(self) -> None:
        if self.rng.random() < 0.7:
            return
        expected = {uid for uid, held in self.held.items() if held.believed and held.cards}
        rows = self.book.adopt(NOW)
        assert {row.pod_uid for row in rows} == expected
        for row in rows:
            self._on_paper(row)
        for held in self.held.values():
            held.believed = False
        self.adopting = False
        for uid in list(self.rows):
            if uid not in self.pods or self.pods[uid].finished:
                del self.rows[uid]
            if uid not in self.pods:
                self.over.append(uid)

    def _on_paper(self, row: CardBinding) -> None:
        record, held, told = self.pods[row.pod_uid], self.held[row.pod_uid], self.told[row.pod_uid]
        assert (row.namespace, row.name, row.node, row.share) == ("ns", row.pod_uid, held.node, 100)
        assert (dict(row.grant.masks), row.honoured) == ({GPU: held.cards}, held.sure)
        assert [len(cards) for _, _, cards in row.cards] == [count for count in told.asks if count]
        assert row.at.timestamp() * 1e9 == NOW
        gang = record.gang
        of = (None, None, None) if gang is None else ("" if gang.virtual else gang.name, record.role, gang.queue)
        assert (row.group_name, row.role, row.queue) == of

    def look(self) -> None:
        """Its annotations are written by a user, and seen."""
        uid = self._some()
        record = self.pods.get(uid)
        if record is None or not record.node or not record.ours:
            return
        told = self.told[uid]
        key = names.GPU_INDEX_PREFIX + self.rng.choice("abc")
        if self.rng.random() < 0.4:
            told.notes[key] = self.rng.choice(("0", "1", "0,1", "x" * 120, "x" * 119 + "y", ""))
        elif self.rng.random() < 0.4:
            told.notes.pop(key, None)
        elif (held := self.held.get(uid)) is not None:
            told.notes.clear()
            self._annotate(uid, held.cards)
        if uid in self.held and self.held[uid].node in self.nodes:
            what, which = self._wrong(uid)
            if what:
                self._differs(uid, what, which)
            elif self.drifting.pop(uid, None):
                self.known.pop(uid)
        self.book.look(record, told.notes)

    def _wrong(self, uid: str) -> tuple[str, tuple[str | None, ...]]:
        held, told = self.held[uid], self.told[uid]
        if self._unknown(uid):
            return f"which cards of node {held.node} it holds is not on record", ()
        those = [card for card in range(64) if held.cards >> card & 1]
        found, says = [], []
        written = set()
        for name, count in zip("ab", told.asks, strict=False):
            text, those = ",".join(map(str, those[:count])), those[count:]
            key = names.GPU_INDEX_PREFIX + name
            said = told.notes.get(key)
            if text:
                written.add(key)
            if text and said != text:
                word = "is gone" if said is None else f"says {quoted(said)}"
                found.append(f"annotation {key} {word}, on record is {text!r}")
                says.append(said)
        for key in sorted(told.notes.keys() - written):
            says.append(told.notes[key])
            found.append(f"annotation {key} says {quoted(says[-1])}, on record is no card by it: remove the annotation")
        return "; ".join(found), tuple(says)

    def foreign(self) -> None:
        """A node tells which cards it gave another scheduler's pod; what the dev cluster notes is not read."""
        rng = self.rng
        record = PodRecord("f", "ns", "f", False, class_of((2,), 0), node=rng.choice(NODES))
        record.phase = rng.choice(("Pending", "Running"))
        had = rng.choice((None, 0, 0b11))
        if had is not None:
            assert record.pod_class is not None
            self.charges.charge("f", "elsewhere", record.pod_class, "", CardGrant.packed({GPU: had or 0}))
        says = rng.choice((0, 0b11, 0b1100))
        text = ",".join(str(card) for card in range(4) if says >> card & 1)
        notes = {"devcluster.tensorstack.dev/cards-container-a": "2,3", names.GPU_INDEX_PREFIX + "a": text}
        news = not (had and record.phase == "Running") and says != (had or 0)
        assert dict(self.book.announced(record, notes).masks) == ({GPU: says} if news and says else {})
        record.pod_class = None
        assert not self.book.announced(record, notes)
        self.charges.release("f")

    # What must be

    def _indexed(self, name: str) -> bool:
        return name not in self.nodes or GPU in self.nodes[name][1].cards

    def _honours(self, name: str) -> bool:
        facts = self.nodes[name][1] if name in self.nodes else None
        return facts is not None and facts.card_mode == names.HONOURS_INDEX and bool(facts.cards)

    def _expected(self, uid: str, name: str) -> Held:
        """What a pod is charged with that is seen bound and was not decided by this process."""
        told, row = self.told[uid], self.rows.get(uid)
        if not told.count:
            return Held(name, 0, True)
        if row is not None and row.node == name:
            return Held(name, dict(row.grant.masks).get(GPU, 0), row.honoured)
        if not self._indexed(name):
            return Held(name, 0, True)
        if not self.adopting:
            return Held(name, 0, False)
        pod_class = self.pods[uid].pod_class
        assert pod_class is not None
        says = dict(CARD_INDEX.read(pod_class, told.notes).masks).get(GPU, 0)
        if not self._honours(name):
            return Held(name, says, False, believed=True)
        others = 0
        for other, held in self.held.items():
            others |= held.cards if other != uid and held.node == name else 0
        has = self.nodes[name][1].cards.counts[GPU]
        good = bool(says) and not says >> has and not says & others
        return Held(name, says if good else 0, good, believed=True)

    def _unknown(self, uid: str) -> bool:
        """Whether it holds cards of its node, which honours indices, and it is unknown which."""
        held, record = self.held[uid], self.pods[uid]
        if record.pod_class is None or not record.ours or not self._honours(held.node):
            return False
        asks = dict(record.pod_class.requests)
        if not (asks.get(GPU) or asks.get(SLICE)):
            return False
        has = self.nodes[held.node][1]
        of_cards = bool(asks.get(GPU)) and not held.cards  # of all nodes with cards here these are what is asked for
        of_parts = bool(asks.get(SLICE)) and not has.allocatable.get(SLICE)
        return not held.sure or of_cards or of_parts

    def _note_offers(self) -> None:
        """Of each pod, which of what it asks for its node offered when it came there, or it had cards of."""
        self.had = {uid: had for uid, had in self.had.items() if uid in self.held and self.held[uid].node == had[0]}
        for uid, held in self.held.items():
            pod_class, there = self.pods[uid].pod_class, self.nodes.get(held.node)
            if pod_class is not None and not self.had.get(uid, ("", set()))[1]:
                offers = there[1].allocatable if there is not None else {}
                asks = {name for name, _ in pod_class.requests if name in (GPU, SLICE)}
                self.had[uid] = (
                    held.node,
                    {name for name in asks if offers.get(name)} | ({GPU} if held.cards else set()),
                )

    def _laid_out(self, uid: str) -> bool:
        """Whether it holds what its node, where a device plugin chooses, has made into something else since."""
        name, had = self.had.get(uid, ("", set()))
        if name not in self.nodes or self._honours(name):
            return False
        offers = {resource for resource in (GPU, SLICE) if self.nodes[name][1].allocatable.get(resource)}
        return bool(offers) and not had <= offers

    def _lost(self, uid: str) -> bool:
        """Whether a card that it holds is gone from its node, which honours indices and has others."""
        held = self.held[uid]
        has = self.nodes[held.node][1].cards.counts.get(GPU, 0)
        return bool(self.pods[uid].ours and has and self._honours(held.node) and held.cards >> has)

    def _differs(self, uid: str, what: str, which: tuple[str | None, ...] = ()) -> None:
        self.drifting[uid] = what
        if self.known.get(uid) != (what, which):
            self.known[uid] = what, which
            self.untold.append((uid, what))

    def _said(self, name: str) -> None:
        """A node was taken in: of its pods it is told whether their cards are known."""
        what = f"which cards of node {name} it holds is not on record"
        for charge in self.charges.on_node(name):
            if charge.uid not in self.held:
                continue
            if self._unknown(charge.uid):
                self._differs(charge.uid, what)
            elif self.drifting.get(charge.uid) == what:
                del self.drifting[charge.uid]

    def check(self) -> None:
        book = self.book
        self._note_offers()
        for uid, held in self.held.items():
            charge = self.charges.get(uid)
            assert charge is not None
            assert (charge.node, dict(charge.cards.masks).get(GPU, 0), charge.sure) == (
                held.node,
                held.cards,
                held.sure,
            ), uid
        for name, (_, facts) in self.nodes.items():
            mine = [uid for uid, held in self.held.items() if held.node == name]
            wrong = (self._unknown(uid) or self._lost(uid) or self._laid_out(uid) for uid in mine)
            assert facts.unsure == any(wrong), name
            assert book.honours(name) == self._honours(name)
        assert not book.honours("nowhere")
        assert book.adopting == self.adopting
        assert book.drifting == self.drifting
        assert [(record.uid, what) for record, what in self.drifts.take()] == self.untold
        self.untold = []
        assert book.over == self.over
        assert book._recorded == self.rows
        assert book._taken.keys() >= {uid for uid, held in self.held.items() if held.believed}


def play(seed: int) -> None:
    history = History(seed)
    for step in range(STEPS):
        try:
            history.step()
            history.check()
        except Exception as error:
            raise AssertionError(f"history {seed}, step {step}") from error


def test_cards_are_held_by_whose_word_counts() -> None:
    for seed in range(HISTORIES):
        play(seed)
