"""What each pod holds: one charge a pod, on its node and on its queue.

A charge is made when a decision is taken (assumed) or when a bound pod is seen (observed), and taken back when the pod
ends, when it goes away, or when its binding is refused. Because each pod has at most one charge, replaying an event is
harmless. Charges on a node that is not known yet wait for it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.card_identity import Identities, identities
from t9ksched.model.card_units import Units, reshaped, units
from t9ksched.model.card_worth import held
from t9ksched.model.cards import CardGrant
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARDS


class Charge(msgspec.Struct):
    """What one pod holds; `queue` is empty for foreign pods.

    `sure` unless it is a pod of ours whose cards are not on record, or were chosen by a device plugin. `worth` is what
    it has of physical cards, in parts of `quantity.CARD`. `devices` says which devices its cards were when they were
    given, by UUID, as far as that is known, and `units` what one of each of its accelerators was then.
    """

    uid: str
    node: str
    pod_class: PodClass
    cards: CardGrant
    queue: str = ""
    sure: bool = True
    applied: bool = False
    worth: int = 0
    devices: Identities = ()
    units: Units = ()


class Charges:
    """The book of charges over the live node table. It is the only writer of a node's used amounts."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._by_pod: dict[str, Charge] = {}
        self.get: Final = self._by_pod.get
        """The charge of a pod, by UID; None when it has none."""
        self._by_node: defaultdict[str, dict[str, Charge]] = defaultdict(dict)
        self._unpaid_cards: Counter[str] = Counter()
        self.queue_used: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        """What queues pay for, by resource, as their pods request it."""
        self.queue_cards: defaultdict[str, int] = defaultdict(int)
        """What of it is cards, in parts of `quantity.CARD`."""
        self.moved: Callable[[str], None] = lambda node: None
        """Told of each node of which other cards are held than before."""

    def all(self) -> dict[str, Charge]:
        """All charges by UID of the pod, as they are now. A charge itself must not be changed."""
        return dict(self._by_pod)

    def on_node(self, node: str) -> Iterator[Charge]:
        """All charges of a node."""
        return iter(self._by_node.get(node, {}).values())

    def unpaid_cards(self, node: str) -> int:
        """How many pods on a node hold known cards for which no queue pays, as those of other schedulers do."""
        return self._unpaid_cards[node]

    def cards_taken(self, node: str, cards: CardGrant) -> bool:
        """Whether a pod holds one of these cards, or has a part of it. Raises KeyError for an unknown node."""
        return self._nodes.cards_taken(node, cards)

    def charge(
        self,
        uid: str,
        node: str,
        pod_class: PodClass,
        queue: str,
        cards: CardGrant,
        *,
        sure: bool = True,
        devices: Identities = (),
        given: tuple[Units, int] | None = None,
    ) -> None:
        """Charge a pod; an equal charge stays as it is, another one of the same pod is replaced.

        `cards` are empty when it is unknown which cards it holds: then they are counted only. Without `devices` its
        cards are those that the node has under these indices now. `given` are its units and its worth on record;
        without, they are what the node says now.
        """
        facts, known = self._nodes.find(node), self._by_pod.get(uid)
        there = known if known is not None and known.node == node else None
        if cards.parts and not devices:
            same = there is not None and there.cards == cards
            devices = there.devices if there is not None and same else self._devices(node, cards)
        had, was = (there.units, there.worth) if there is not None else ((), 0)
        if on_record := given is not None and bool(given[0]):
            had, was = given
        had = had or units(facts, pod_class, cards)
        worth = held(pod_class, facts, cards)
        if was and (on_record if facts is None else reshaped(facts, had)):
            worth = was
        charge = Charge(uid, node, pod_class, cards, queue, sure, worth=worth, devices=devices, units=had)
        if known is not None:
            charge.applied = known.applied
            if known == charge:
                return
            charge.applied = False
            self.release(uid)
        self._by_pod[uid] = charge
        self._by_node[node][uid] = charge
        if cards:
            self.moved(node)
        if queue:
            used = self.queue_used[queue]
            for resource, amount in pod_class.requests:
                used[resource] += amount
            self.queue_cards[queue] += worth
        else:
            self._count_unpaid(charge, 1)
        if facts is not None:
            self._nodes.charge(self._nodes.row(node), pod_class, cards)
            charge.applied = True

    def pay(self, uid: str, queue: str) -> None:
        """Charge this queue for what the pod holds, if it holds anything."""
        charge = self._by_pod.get(uid)
        if charge is None or charge.queue == queue:
            return
        for payer, sign in ((charge.queue, -1), (queue, 1)):
            if payer:
                used = self.queue_used[payer]
                for resource, amount in charge.pod_class.requests:
                    used[resource] += sign * amount
                self.queue_cards[payer] += sign * charge.worth
        self._count_unpaid(charge, -1)
        charge.queue = queue
        self._count_unpaid(charge, 1)

    def counts_as(self, uid: str, pod_class: PodClass) -> bool:
        """Charge a pod as one of this class, where it is, with all else that it holds; whether it holds anything."""
        charge = self._by_pod.get(uid)
        if charge is None:
            return False
        if charge.applied:
            self._nodes.discharge(self._nodes.row(charge.node), charge.pod_class, charge.cards)
            self._nodes.charge(self._nodes.row(charge.node), pod_class, charge.cards)
        if charge.queue:
            used = self.queue_used[charge.queue]
            for of, sign in ((charge.pod_class, -1), (pod_class, 1)):
                for resource, amount in of.requests:
                    used[resource] += sign * amount
        charge.pod_class = pod_class
        return True

    def release(self, uid: str) -> Charge | None:
        """Take a pod's charge back; None when it has none."""
        charge = self._by_pod.pop(uid, None)
        if charge is None:
            return None
        if charge.cards or charge.units:
            self.moved(charge.node)
        on_node = self._by_node[charge.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[charge.node]
        self._count_unpaid(charge, -1)
        if charge.queue:
            used = self.queue_used[charge.queue]
            for resource, amount in charge.pod_class.requests:
                used[resource] -= amount
            self.queue_cards[charge.queue] -= charge.worth
        if charge.applied:
            self._nodes.discharge(self._nodes.row(charge.node), charge.pod_class, charge.cards)
        return charge

    def used(self, queue: str, *, cards: bool) -> dict[str, int]:
        """What a queue pays for, by resource; with `cards` also how many cards that is."""
        found = dict(self.queue_used.get(queue, {}))
        return found | {CARDS: self.queue_cards.get(queue, 0)} if cards else found

    def node_appeared(self, node: str) -> None:
        """Apply what waited for this node, or follow a change of it."""
        for charge in list(self.on_node(node)):
            self._divide(charge)
            facts = self._nodes.find(node)
            if facts is not None and not charge.applied:
                self._nodes.charge(self._nodes.row(node), charge.pod_class, charge.cards)
                charge.applied = True
            # While its cards are not ready, or are laid out anew, they are called otherwise: pods have what they had.
            worth = held(charge.pod_class, facts, charge.cards) or charge.worth
            charge.units = charge.units or units(facts, charge.pod_class, charge.cards)
            if facts is not None and reshaped(facts, charge.units):
                worth = charge.worth
            if charge.queue:
                self.queue_cards[charge.queue] += worth - charge.worth
            charge.worth = worth
            charge.devices = charge.devices or self._devices(node, charge.cards)

    def node_gone(self, node: str) -> None:
        """The node's columns are gone; its charges wait in case it comes back."""
        for charge in self.on_node(node):
            charge.applied = False

    def _divide(self, charge: Charge) -> None:
        """Its node may divide cards that it gave whole when the pod got them: these are all of their parts now."""
        if charge.cards.parts or not charge.cards or charge.node not in self._nodes:
            return
        cards = self._nodes.facts(charge.node).cards.divide(charge.pod_class.cards, charge.cards)
        if cards == charge.cards:
            return
        if charge.applied:
            self._nodes.discharge(self._nodes.row(charge.node), charge.pod_class, charge.cards)
            charge.applied = False
        charge.cards = cards
        self.moved(charge.node)

    def _count_unpaid(self, charge: Charge, by: int) -> None:
        if charge.cards and not charge.queue:
            self._unpaid_cards[charge.node] += by
            if not self._unpaid_cards[charge.node]:
                del self._unpaid_cards[charge.node]

    def _devices(self, node: str, cards: CardGrant) -> Identities:
        return identities(self._nodes.facts(node).cards, cards) if node in self._nodes else ()
