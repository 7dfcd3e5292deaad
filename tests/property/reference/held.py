"""Room that is held in a cycle: for lost members, and for those who wait for victims."""

from collections import Counter
from collections.abc import Iterable, Mapping

from t9ksched.model.gang import Gang
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.property.reference.moment import Kind
from tests.property.reference.telling import Telling


class Holding(Telling):
    """Room that is taken until its owner's turn."""

    def _hold(self) -> None:
        """Room that is held is its owner's until its turn, and its queue pays for it.

        Who was promised the room of victims needs no other.
        """
        standing = [
            hold
            for hold in self.view.reservations
            if hold.since <= self.now and (not hold.until or self.now < hold.until)
        ]
        self.promised_to = {hold.owner for hold in standing if hold.kind is ReservationKind.VICTIMS}
        standing = [
            hold for hold in standing if hold.kind is ReservationKind.VICTIMS or hold.owner not in self.promised_to
        ]
        for hold in sorted(standing, key=lambda one: (one.owner, one.node, one.cards)):
            if hold.node in self.rooms:
                self._occupy(hold)
            elif hold.kind is ReservationKind.REFILL:
                self.missing.setdefault(hold.owner, []).append(hold)
        for hold in standing:
            if hold.kind is ReservationKind.REFILL and hold.queue in self.charged:
                queue, demand = self.owed.get(hold.owner, (hold.queue, Counter()))
                self.owed[hold.owner] = queue, demand + Counter(dict(hold.pod_class.requests))
        queues = {one.uid: one.queue for one in self.view.gangs if one.queue in self.charged}
        for uid in self.promised_to & self.holds.keys() & queues.keys():
            demand = Counter()
            for hold, _ in self.holds[uid]:
                demand.update(dict(hold.pod_class.requests))
            self.promises[uid] = demand
            self.charged[queues[uid]].update(demand)
        for queue, demand in self.owed.values():
            self.charged[queue].update(demand)

    def _occupy(self, hold: Reservation) -> None:
        """Take room for one pod, there or not; only cards that are named and idle are taken by index."""
        idle = self.rooms[hold.node].idle
        named = dict(hold.cards.masks)
        masks = {card: named.get(card, 0) & idle.get(card, 0) for card in hold.pod_class.card_counts}
        self.holds.setdefault(hold.owner, []).append((hold, masks))
        self._take(Kind(hold.pod_class, "", {}), hold.node, 1, masks)

    def _release(self, owner: str, sign: int = -1) -> None:
        for hold, masks in self.holds.get(owner, ()):
            self._take(Kind(hold.pod_class, "", {}), hold.node, sign, masks)

    def _lent(self, gang: Gang) -> dict[str, Counter[str]]:
        """Room that is held for others and yet a gang's to use, by node; nothing where no pod leaves."""
        return {}

    def _lend(self, room: Mapping[str, Mapping[str, int]], sign: int) -> None:
        for name, units in room.items():
            for resource, amount in units.items():
                self.rooms[name].free[resource] += sign * amount

    def _only_own(self, gang: Gang, lent: Mapping[str, Counter[str]]) -> tuple[dict[str, Counter[str]], set[str]]:
        """What makes it find the room that is held for it and no other."""
        found = {}
        for name, needs in by_node(self.holds[gang.uid]).items():
            free, more = self.rooms[name].free, lent.get(name, Counter())
            found[name] = Counter(
                {one: min(free[one] + more[one], needs[one]) - free[one] for one in self.view.nodes.static.resources}
            )
        return found, set(found)


def by_node(held: Iterable[tuple[Reservation, Mapping[str, int]]]) -> dict[str, Counter[str]]:
    """What is held on each node."""
    found: dict[str, Counter[str]] = {}
    for hold, _ in held:
        found.setdefault(hold.node, Counter()).update(dict(hold.pod_class.requests))
    return found
