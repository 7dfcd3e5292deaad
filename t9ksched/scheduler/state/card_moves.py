"""Cards of pods that have other indices on their node than when they were given: the ledger follows them, by UUID.

That is done where bindings name cards by UUID (`card_identity.NAMED_BY_UUID`): the pod has that very device. The record
in SQL stays what was given, with the UUIDs, so that a scheduler that starts follows them again.
"""

from collections.abc import Iterable

from t9ksched.model.card_identity import Identities, renumbered
from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.charges import Charge, Charges


class CardMoves:
    """Changes the charges of pods whose cards have moved."""

    def __init__(self, charges: Charges) -> None:
        self._charges = charges
        self._was: dict[str, Identities] = {}
        """The devices that pods were given, by UID, where some have other indices now."""

    def follow(self, facts: NodeFacts, those: Iterable[Charge] | None = None) -> list[str]:
        """The node is as `facts` say, or these pods on it are charged newly (None for all). UIDs of pods whose cards
        have moved.
        """
        charges = list(self._charges.on_node(facts.name) if those is None else those)
        found = [(one, where) for one in charges if (where := renumbered(facts, one.cards, one.devices)) is not None]
        for charge, _ in found:  # before any is charged anew: two may have changed places
            self._charges.release(charge.uid)
        for charge, (cards, devices) in found:
            uid, was = charge.uid, self._was.setdefault(charge.uid, charge.devices)
            if devices == was:
                del self._was[uid]
            self._charges.charge(
                uid, charge.node, charge.pod_class, charge.queue, cards, sure=charge.sure, devices=devices
            )
        return [charge.uid for charge, _ in found]

    def of(self, charge: Charge) -> str:
        """Which of the cards that a pod was given have another index now, and which; as a sentence."""
        if not (was := self._was.get(charge.uid)):
            return ""
        now = {(one.resource, one.uuid): one.index for one in charge.devices}
        moved = [
            f"card {one.index} of {one.resource} ({one.uuid}) is card {index} now"
            for one in was
            if (index := now.get((one.resource, one.uuid), one.index)) != one.index
        ]
        return f"of the cards that it was given, {', '.join(moved)}" if moved else ""

    def forget(self, uid: str) -> None:
        """The pod holds nothing any more."""
        self._was.pop(uid, None)
