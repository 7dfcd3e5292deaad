"""Which cards bound pods hold, as the scheduler decided and recorded it. Annotations can be edited: they are evidence.

A pod is charged with the cards of its decision, or of its row in SQL after a restart. An annotation that differs is
reported (event `CardDrift`, a metric, `nodes`) and changes nothing. Only before SQL has rows at all, after an upgrade,
is each annotation taken, once. A pod on a node that honours indices whose cards are on no record may hold any of them:
its node gives no more cards until it is gone. So may a pod that was bound while its node had no indices, once it has.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from t9ksched.kube.write.dialects.dialect import CardDialect
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.node import Node, NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.state.card_audit import exchanged
from t9ksched.scheduler.state.card_doubts import CardDoubts
from t9ksched.scheduler.state.card_evidence import difference
from t9ksched.scheduler.state.card_moves import CardMoves
from t9ksched.scheduler.state.card_rows import OnRecord, row_of
from t9ksched.scheduler.state.change_feed import Log
from t9ksched.scheduler.state.charges import Charge, Charges
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.store.bindings import CardBinding

ReadCards = Callable[[PodClass, Mapping[str, str], CardDialect], CardGrant]
_A_STEP: Final = 200
"""Pods whose rows are made at a time, at 10 to 20 µs each."""


class CardBook:
    """`pods` and `nodes` are the observed ones, `read` gives the cards that annotations name in a dialect (none
    for an unreadable one), `refresh` takes a node in again when the holders of its cards become known, or unknown.
    """

    def __init__(
        self,
        pods: Mapping[str, PodRecord],
        nodes: Mapping[str, tuple[Node, NodeFacts]],
        charges: Charges,
        read: ReadCards,
        refresh: Callable[[Node], None],
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._charges = charges
        self._read = read
        self._refresh = refresh
        self.moves = CardMoves(charges)
        self.doubts = CardDoubts(pods, charges)
        self._recorded: dict[str, CardBinding] = {}
        """Rows of pods that have not been seen bound yet, by UID."""
        self._taken: dict[str, None] = {}
        """Pods that were charged by their annotations because no row was known."""
        self.adopting = True
        """The annotation of a bound pod without a row is taken: SQL has no rows yet, or could not be read."""
        self.drifting: dict[str, str] = {}
        """Differences of pods' annotations from the record, by UID, as sentences for users."""
        self.drifts: Log[tuple[PodRecord, str]] = Log()
        """Pods whose annotations differ from the record, each difference once as long as it lasts."""
        self._told: dict[str, tuple[str, int]] = {}
        self.unsaid: dict[str, None] = {}
        """UIDs of bound pods with accelerators of which it is not on record what one of each is."""
        self.unwritten: set[str] = set()
        """UIDs of pods whose placement is decided and whose cards are not recorded yet."""
        self.unanswered: dict[str, None] = {}
        """UIDs of bound pods of which their nodes are still to say that they gave them their cards."""
        self._listening: dict[str, Callable[[], None]] = {}
        self.over: list[str] = []
        """UIDs of pods that are gone, whose rows may go."""

    # Charging

    def charge(self, record: PodRecord, annotations: Mapping[str, str], queue: str) -> None:
        """Charge a pod of ours that is seen bound, and not where this process decided, if it decided at all."""
        pod_class, before = record.pod_class, self._charges.get(record.uid)
        assert pod_class is not None
        row = self._recorded.pop(record.uid, None)
        cards, sure = self._held(record, pod_class, annotations, row)
        self._enter(record, pod_class, queue, cards, sure, row)
        self._settle(record.node, record.uid)
        if before is not None and before.node != record.node:
            self._settle(before.node, record.uid)

    def _enter(
        self, record: PodRecord, of: PodClass, queue: str, cards: CardGrant, sure: bool, row: CardBinding | None
    ) -> None:
        devices, units, worth = OnRecord.of(row if row is not None and row.node == record.node else None)
        if of.accelerated and not units:
            self.unsaid[record.uid] = None
        given = units, worth
        self._charges.charge(record.uid, record.node, of, queue, cards, sure=sure, devices=devices, given=given)
        if devices and (known := self._nodes.get(record.node)) is not None:
            charge = self._charges.get(record.uid)
            self.moves.follow(known[1], [] if charge is None else [charge])

    def _held(
        self, record: PodRecord, pod_class: PodClass, annotations: Mapping[str, str], row: CardBinding | None
    ) -> tuple[CardGrant, bool]:
        """Its cards, and whether it is certain that it holds them."""
        if row is not None and row.node == record.node and (row.cards or pod_class.cards):
            return self._divided(record.node, pod_class, row.grant), row.honoured
        if not pod_class.cards or not self._indexed(pod_class, record.node):
            return NO_CARDS, True
        if not self.adopting:
            return NO_CARDS, False
        self._taken[record.uid] = None
        named = self._named(pod_class, annotations, record.node).with_parts(())
        claimed = self._divided(record.node, pod_class, named)
        if not self.honours(record.node):
            return claimed, False
        return (claimed, True) if claimed and self._credible(record, claimed) else (NO_CARDS, False)

    def _credible(self, record: PodRecord, claimed: CardGrant) -> bool:
        """Whether the cards exist and other pods leave room for it on them."""
        table = self._nodes[record.node][1].cards
        if not table.covers(claimed):
            return False
        if not claimed.parts and self._charges.get(record.uid) is None:
            return not self._charges.cards_taken(record.node, claimed)
        others = [charge.cards for charge in self._charges.on_node(record.node) if charge.uid != record.uid]
        if any(other.overlaps(claimed) for other in others):
            return False
        return not claimed.parts or table.carries((claimed, *others))

    def _named(self, pod_class: PodClass, annotations: Mapping[str, str], node: str) -> CardGrant:
        """The cards that annotations name to a node, and how much of each where they say so. Users may edit what stands
        there of a pod of ours.
        """
        return self._divided(node, pod_class, self._read(pod_class, annotations, self._dialect(node)))

    def _divided(self, node: str, pod_class: PodClass, grant: CardGrant) -> CardGrant:
        """The same cards with what the pod has of each, where the node divides them and that is not on record."""
        known = self._nodes.get(node)
        return grant if known is None or grant.parts else known[1].cards.divide(pod_class.cards, grant)

    def _dialect(self, node: str) -> CardDialect:
        known = self._nodes.get(node)
        return dialect_of(known[1] if known is not None else None)

    def announced(self, record: PodRecord, annotations: Mapping[str, str]) -> CardGrant:
        """The cards that the annotations of a foreign pod name, as far as that is news: its node may write there which
        it gave, or its scheduler which it is to have. What was written before the pod ran remains.
        """
        known, pod_class = self._charges.get(record.uid), record.pod_class
        had = known.cards if known is not None else NO_CARDS
        if pod_class is None or (had and record.phase != "Pending"):
            return NO_CARDS
        cards = self._named(pod_class, annotations, record.node)
        node = self._nodes.get(record.node)
        unheard_of = node is not None and bool(node[1].cards.divided) and not node[1].cards.covers(cards)
        return NO_CARDS if unheard_of or cards == had else cards

    def foreign(self, record: PodRecord) -> None:
        """A foreign pod was charged on its node, or has changed: which cards it holds may be unknown."""
        known = self._nodes.get(record.node)
        if known is not None and (known[1].honours or known[1].unsure):
            self._settle(record.node, record.uid)

    def honours(self, node: str) -> bool:
        """Whether the node gives a container the cards that are named to it."""
        known = self._nodes.get(node)
        return known is not None and known[1].honours

    def certain(self, pod_class: PodClass, node: str) -> bool:
        """Whether it is known which cards of the node the pod holds when it is given some: it asks for none, the node
        gives those that are named to it, or the node's have no indices.
        """
        if not pod_class.cards:
            return True
        known = self._nodes.get(node)
        return known is not None and (known[1].honours or not known[1].cards.index_any(pod_class.cards))

    def _indexed(self, pod_class: PodClass, node: str) -> bool:
        known = self._nodes.get(node)
        return known is None or known[1].cards.index_any(pod_class.cards)

    def node_changed(self, facts: NodeFacts) -> None:
        """A node was taken in again: its pods with unknown cards may be reported anew."""
        for charge in self._charges.on_node(facts.name):
            record = self._pods.get(charge.uid)
            if record is not None and self.doubts.unknown(charge, facts):
                self._differs(record, _no_record(facts.name))
            elif record is not None:
                self._found(record.uid, facts.name)

    def released(self, record: PodRecord, charge: Charge) -> None:
        """A pod's charge was taken back."""
        if record.finished:
            self.ended(record)
        self._settle(charge.node, charge.uid)

    def _settle(self, node: str, uid: str) -> None:
        """What this pod holds has changed, on this node or away from it: the holders of the node's cards may have
        become known, or unknown.
        """
        known = self._nodes.get(node)
        if known and self.doubts.after(known[1], uid) != known[1].why_unsure:
            self._refresh(known[0])

    # Rows

    def restore(self, rows: Mapping[str, CardBinding], *, complete: bool) -> None:
        """Take over rows from SQL; they win over what was taken from annotations before. When they are `complete`, a
        bound pod without one was bound while the database was away: its cards are unknown.
        """
        self._recorded.update(rows)
        self.adopting = not complete
        for uid in list(self._taken):
            cards = NO_CARDS
            record, charge, row = self._pods.get(uid), self._charges.get(uid), self._recorded.pop(uid, None)
            if record is None or charge is None or not record.node:
                continue
            if row is not None and row.node == record.node:
                cards, sure = self._divided(record.node, charge.pod_class, row.grant), row.honoured
            elif complete:
                sure = False
            else:
                continue
            del self._taken[uid]
            self._enter(record, charge.pod_class, charge.queue, cards, sure, row)
            has = self._charges.get(uid)  # by the indices of now, as annotations were read
            if row is not None and row.node == record.node and has is not None and has.cards != charge.cards:
                self._differs(record, f"its annotations say {charge.cards}, on record is {has.cards}")
            self._settle(charge.node, uid)
            self._found(uid, charge.node)
        for uid in [uid for uid in self.unsaid if uid in rows]:
            record, charge, row = self._pods.get(uid), self._charges.get(uid), rows[uid]
            if record is not None and charge is not None and record.node == row.node and row.units:
                self._recorded.pop(uid, None)
                del self.unsaid[uid]
                self._charges.charge(
                    uid,
                    charge.node,
                    charge.pod_class,
                    charge.queue,
                    charge.cards,
                    sure=charge.sure,
                    devices=charge.devices,
                    given=(tuple(row.units), row.worth or 0),
                )
                self._settle(charge.node, uid)

    def take_unsaid(self) -> Iterator[PodRecord]:
        """Bound pods of which it is not on record what one of each of their accelerators is, and it is known now; each
        once, and more may come meanwhile.
        """
        for uid in list(self.unsaid):
            record, charge = self._pods.get(uid), self._charges.get(uid)
            if record is None or charge is None:
                self.unsaid.pop(uid, None)
            elif charge.units and uid in self.unsaid:
                del self.unsaid[uid]
                yield record

    def _found(self, uid: str, node: str) -> None:
        """Which cards a pod on the node holds may be known now."""
        if self.drifting.get(uid) != _no_record(node):
            return
        charge, known = self._charges.get(uid), self._nodes.get(node)
        if charge and known and not self.doubts.unknown(charge, known[1]):
            del self.drifting[uid]

    def recorded(self, uid: str) -> list[CardBinding]:
        """The row that was read of a pod that has not been seen bound, if there was one."""
        return [self._recorded[uid]] if uid in self._recorded else []

    def unheard(self) -> list[CardBinding]:
        """Rows of pods that have not been seen bound: they were bound lately, or never."""
        rows = ((self._pods.get(uid), row) for uid, row in self._recorded.items())
        return [row for record, row in rows if record is None or not record.node]

    def adopt(self, now: int) -> list[CardBinding]:
        """Everything was read: from now on what was taken from annotations is the record. The rows that must be
        written for that; rows of pods that are gone are over. `now` in nanoseconds since the epoch.
        """
        return [row for rows in self.adopt_in_steps(now) for row in rows]

    def adopt_in_steps(self, now: int) -> Iterator[list[CardBinding]]:
        """`adopt` a few milliseconds at a time, the rows of each; between two of them pods may come and go."""
        while self._taken:
            uids = list(islice(self._taken, _A_STEP))
            taken = [(self._pods.get(uid), self._charges.get(uid)) for uid in uids]
            for uid in uids:
                del self._taken[uid]
            yield [row_of(record, charge, now) for record, charge in taken if record and charge and charge.cards]
        self.adopting = False
        for count, uid in enumerate(list(self._recorded), start=1):
            record = self._pods.get(uid)
            if record is None or record.finished:
                self._recorded.pop(uid, None)
            if record is None:
                self.over.append(uid)
            if count % (10 * _A_STEP) == 0:
                yield []

    def ended(self, record: PodRecord) -> None:
        """The pod holds nothing any more. Its row stays as long as it does: of which group it was a member, and in
        which role, counts after its end too.
        """
        self._recorded.pop(record.uid, None)
        self._taken.pop(record.uid, None)
        self.unsaid.pop(record.uid, None)
        self.drifting.pop(record.uid, None)
        self._told.pop(record.uid, None)
        self._hear(record.uid, pending=False)
        self.moves.forget(record.uid)

    def gone(self, record: PodRecord) -> None:
        """There is no such pod any more."""
        self.ended(record)
        grouped = record.gang is not None and not record.gang.virtual
        if record.ours and record.pod_class is not None and (record.pod_class.accelerated or grouped):
            self.over.append(record.uid)

    # Evidence

    def look(self, record: PodRecord, annotations: Mapping[str, str]) -> None:
        """Compare a bound pod's annotations with the record."""
        pod_class, charge = record.pod_class, self._charges.get(record.uid)
        known = self._nodes.get(charge.node) if charge is not None else None
        if pod_class is None or charge is None or known is None:
            return
        if not (annotations or pod_class.accelerated or record.uid in self.drifting):
            return  # it asks for none, holds none, and nothing names any
        dialect = dialect_of(known[1])
        if dialect.protocol is not None and pod_class.cards:
            self._hear(record.uid, dialect.unanswered(annotations))
        if self.doubts.unknown(charge, known[1]):
            self._differs(record, _no_record(charge.node))
            return
        if exchanged(charge, known[1]):
            return  # the audit tells it: what the annotations should say is not known any more
        what, which = difference(dialect, pod_class, charge.cards, annotations)
        if what:
            self._differs(record, what, which)
        elif self.drifting.pop(record.uid, None) is not None:
            self._told.pop(record.uid, None)  # what is forged anew is told anew

    def listen(self, uid: str, tell: Callable[[], None] | None) -> None:
        """Call `tell` whenever the annotations of this bound pod were seen, or its end; None for no more."""
        if tell is not None:
            self._listening[uid] = tell
        else:
            self._listening.pop(uid, None)

    def _hear(self, uid: str, pending: bool) -> None:
        """The annotations of a bound pod were seen, or it has ended."""
        if pending:
            self.unanswered[uid] = None
        else:
            self.unanswered.pop(uid, None)
        if (tell := self._listening.get(uid)) is not None:
            tell()

    def _differs(self, record: PodRecord, what: str, which: int = 0) -> None:
        """`which` tells differences apart that are told in the same words."""
        self.drifting[record.uid] = what
        if self._told.get(record.uid) != (what, which):
            self._told[record.uid] = what, which
            self.drifts.add((record, what))


def _no_record(node: str) -> str:
    return f"which cards of node {node} it holds is not on record"
