"""Whether it is certain which cards the pods of a node hold. While it is not, the node gives no cards.

That is so while the cards of a pod are on no record; while a pod of ours holds one that is gone from the node, because
the other cards may have other indices now; while the index of one that a pod holds is that of another device; while
pods hold what the node has laid out anew since; and while a pod of another scheduler runs on cards that others hold,
because it may have any.

Of all these only the last depends on more than one pod. So where the cards of a node were certain, what one pod takes
is looked at alone, and the others on its node are not.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from t9ksched.model.card_requests import SUMS, cards_of
from t9ksched.model.card_units import reshaped
from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.card_audit import exchanged, lost
from t9ksched.scheduler.state.charges import Charge, Charges
from t9ksched.scheduler.state.records import PodRecord

_LAID_OUT: Final = "a pod there holds cards of before the node was laid out anew"
"""Why a node gives no cards on which a device plugin chooses."""
_CONTESTED: Final = "a pod of another scheduler runs there on cards that others hold"


def contested(charges: Iterable[Charge], begun: Callable[[str], bool], facts: NodeFacts) -> bool:
    """Whether a pod of another scheduler, which has begun by its UID, holds cards of a node that others hold, too."""
    there = [charge for charge in charges if charge.cards]
    foreign = [charge for charge in there if not charge.queue and begun(charge.uid)]
    if not foreign:
        return False
    if any(other is not one and other.cards.overlaps(one.cards) for one in foreign for other in there):
        return True
    return bool(facts.cards.divided) and not facts.cards.carries(charge.cards for charge in there)


class CardDoubts:
    """`pods` and `charges` are those of the state. Reasons are in words for anybody, without names of pods; empty where
    there is none.
    """

    def __init__(self, pods: Mapping[str, PodRecord], charges: Charges) -> None:
        self._pods = pods
        self._charges = charges

    def on(self, facts: NodeFacts) -> str:
        """Why pods on the node hold unknown cards, or cards that cannot be theirs: these may be any."""
        there = list(self._charges.on_node(facts.name))
        for charge in there:
            if why := self._about(charge, facts):
                return why
        if not (facts.honours and self._charges.unpaid_cards(facts.name)):
            return ""
        return _CONTESTED if contested(there, lambda uid: self._pods[uid].phase != "Pending", facts) else ""

    def after(self, facts: NodeFacts, uid: str) -> str:
        """The same, when nothing has changed since `facts` were made but what the pod of this UID holds: there, or
        elsewhere now.
        """
        if facts.why_unsure:
            return self.on(facts)
        charge = self._charges.get(uid)
        if charge is None or charge.node != facts.name:
            return ""
        if not (charge.pod_class.accelerated or charge.units or charge.cards):
            return ""
        may_contest = charge.cards and facts.honours and self._charges.unpaid_cards(facts.name)
        return self.on(facts) if may_contest or self._about(charge, facts) else ""

    def _about(self, charge: Charge, facts: NodeFacts) -> str:
        """The same of one pod, whatever the others hold."""
        if not facts.honours:
            return _LAID_OUT if facts.accelerated and self._holds_others(charge, facts) else ""
        if self.unknown(charge, facts):
            return "it is not on record which of its cards a pod there holds"
        if (gone := lost(charge, facts)) and self._is_ours(charge):
            resource, index = gone[0]
            return f"a pod there holds card {index} of {resource}, which is gone, so that the others may be others"
        if other := exchanged(charge, facts):
            resource, index = other[0]
            return f"a pod there holds card {index} of {resource}, which is another device now"
        return ""

    def _is_ours(self, charge: Charge) -> bool:
        record = self._pods.get(charge.uid)
        return record is not None and record.ours

    def unknown(self, charge: Charge, facts: NodeFacts) -> bool:
        """Whether a pod holds unknown cards of this node, which honours indices.

        That is so when they are on no record, when the plugin chose them before the node honoured indices, and when the
        pod was bound while the node had no indices or another layout: then it was counted by number. Of foreign pods
        those with unknown parts of cards count: no number says how much is left of which card. One that has not begun
        has none: without annotations its node does not start it, and any user may make such a pod.
        """
        pod_class, record = charge.pod_class, self._pods.get(charge.uid)
        if not (facts.honours and pod_class.accelerated) or record is None:
            return False
        if not record.ours and record.phase == "Pending":
            return False
        usual = record.ours and charge.sure and not facts.cards.divided
        if usual and all(map(facts.allocatable.get, pod_class.accelerators)):  # the same as below, without sets
            for one in pod_class.cards:  # noqa: SIM110 - asked at each event of a pod: `any` takes twice as long
                if facts.cards.indexed(one) and not charge.cards.count(one.resource):
                    return True
            return False
        # Cards, and parts of cards that the node offered in another layout.
        others = {name for name in pod_class.accelerators if not facts.allocatable.get(name)}
        if facts.cards.divided:
            others -= SUMS  # none are offered now, and those that there are keep their indices
        if not record.ours and facts.layout == "Koordinator" and charge.cards.parts:
            others.clear()  # its own scheduler gives whole cards under the name of the device plugin, too
        if others and (facts.cards.divided or not others.isdisjoint(SUMS)):
            return True  # the same cards, under other indices
        names = [cards_of(name) for name, _ in pod_class.requests] if facts.cards.divided else ()
        divided = {name for name in names if name in facts.cards.divided}
        if not record.ours:
            return any(not charge.cards.count(resource) for resource in divided)
        indexed = (one.resource for one in pod_class.cards if facts.cards.indexed(one))
        if not (charge.sure and all(map(charge.cards.count, indexed))):
            return True
        return not all(map(charge.cards.count, others | divided))

    def _holds_others(self, charge: Charge, facts: NodeFacts) -> bool:
        """Whether a pod that has begun holds cards under what they are no more; any user may make one that has not."""
        if not charge.units or not reshaped(facts, charge.units):
            return False
        record = self._pods.get(charge.uid)
        return record is not None and (record.ours or record.phase != "Pending")
