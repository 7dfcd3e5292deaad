"""The book of reservations: all room that is promised and not used yet, in one place.

The engine plans around these reservations (`in_force`) and names new ones in its plans; the executor, the evictor and
the watches report what became of them. A gang's reservations for lost members are computed from its losses
(`refill.py`). A binding in flight is not in the book: it is charged as if it had happened.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Final, NamedTuple

from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.state.charges import Charge, Charges
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.refill import Refills

RETRY_HOLD_NS: Final = 60 * 1_000_000_000
"""How long the place of a member whose binding was refused is reserved for it."""
IDLE_PROMISE_NS: Final = 5 * 1_000_000_000
"""How long promised room that no pod is leaving is kept: the watch may be behind the evictions."""


class Move(NamedTuple):
    """How the planned start of a gang changed: before and after, None for no plan."""

    before: tuple[Reservation, ...] | None
    after: tuple[Reservation, ...] | None

    @property
    def by(self) -> int | None:
        """How much later it starts, in nanoseconds; None for a plan that is new or gone."""
        return self.after[0].since - self.before[0].since if self.before and self.after else None


class ReservationBook:
    """Reservations by kind. Times are nanoseconds since the epoch, passed in.

    Attributes:
        refused: places of members whose binding was refused, by UID of the pod.
        promised: room that victims are leaving, by UID of the gang that they were evicted for.
        planned: starts of waiting gangs at a moment to come, by UID of the gang.
        stopped: an administrator has stopped scheduling: plans are kept, and none of them is told.
        moved: how often planned starts moved, by direction.
        refills: what gangs keep for lost members.
    """

    def __init__(self, refills: Refills, refused: dict[str, Reservation], on_change: Callable[[], None]) -> None:
        """`on_change` is called when room comes free because a reservation ended."""
        self.refills = refills
        self.refused = refused
        self.promised: dict[str, tuple[Reservation, ...]] = {}
        self.planned: dict[str, tuple[Reservation, ...]] = {}
        self.stopped = False
        self.moved = {"earlier": 0, "later": 0}
        self._idle: dict[str, int] = {}
        """Since when no pod has been leaving the room promised to a gang."""
        self._on_change = on_change

    def in_force(self) -> tuple[Reservation, ...]:
        """All reservations in force, for a view of the engine."""
        promised = (one for reservations in self.promised.values() for one in reservations)
        planned = (one for reservations in self.planned.values() for one in reservations)
        return (*self.refused.values(), *promised, *self.refills.reservations, *planned)

    @property
    def told(self) -> dict[str, tuple[Reservation, ...]]:
        """The planned starts that hold as things are: none while scheduling is stopped."""
        return {} if self.stopped else self.planned

    def next_end(self) -> int | None:
        """When the next reservation ends, may be found idle for too long, or begins; None where none is known.

        Places of refused members are swept (`sweep`) and are not among these.
        """
        times = [since + IDLE_PROMISE_NS for since in self._idle.values()]
        times += [reservations[0].until for reservations in self.promised.values()]
        times += [reservations[0].since for reservations in self.planned.values()]
        if (end := self.refills.next_end()) is not None:
            times.append(end)
        return min(times, default=None)

    # Places of members whose binding was refused

    def keep_place(self, pod: PodRecord, gang: GangRecord, charge: Charge, now: int) -> None:
        """A binding was refused, and another try may succeed: the place is reserved for the gang meanwhile."""
        self.refused[pod.uid] = Reservation(
            owner=gang.uid,
            node=charge.node,
            pod_class=charge.pod_class,
            kind=ReservationKind.BINDING,
            cards=charge.cards,
            since=now,
            until=now + RETRY_HOLD_NS,
        )

    def drop_place(self, pod: str) -> bool:
        """The pod of that UID needs its place no longer: it has one, or it is gone; whether one was reserved."""
        return self.refused.pop(pod, None) is not None

    def node_gone(self, node: str) -> None:
        """A node is gone, and the places on it."""
        self._drop(lambda one: one.node == node)

    def gang_gone(self, gang: str) -> None:
        """The gang of that UID needs no places any more. What it was promised ends when it waits no longer."""
        self._drop(lambda one: one.owner == gang)
        self.planned.pop(gang, None)

    def sweep(self, now: int) -> int:
        """End the places whose time is over; the number of those."""
        over = self._drop(lambda one: bool(one.until) and one.until <= now)
        if over:
            self._on_change()
        return over

    def _drop(self, condition: Callable[[Reservation], bool]) -> int:
        over = [uid for uid, one in self.refused.items() if condition(one)]
        for uid in over:
            del self.refused[uid]
        return len(over)

    # Planned starts

    def plan(
        self, reservations: Iterable[Reservation], gone: Callable[[str], bool], resolution: int
    ) -> dict[str, Move]:
        """All planned starts, as the latest cycle made them; `gone` says that a gang started or went away since. Moves
        by more than `resolution`, in nanoseconds, are counted.

        Returns:
            What is new, moved to another moment, or planned no longer, by UID of the gang.
        """
        before = self.planned
        self.planned = {owner: plan for owner, plan in _by_owner(reservations).items() if not gone(owner)}
        moves = {}
        for owner in before | self.planned:
            was, now = before.get(owner), self.planned.get(owner)
            if was is None or now is None or was[0].since != now[0].since:
                moves[owner] = move = Move(was, now)
                if move.by is not None and abs(move.by) > resolution:
                    self.moved["later" if move.by > 0 else "earlier"] += 1
        return moves

    def restore_plans(self, plans: Mapping[str, tuple[Reservation, ...]]) -> None:
        """Restore starts that were planned before a restart; one that was planned since is newer and kept."""
        self.planned = dict(plans) | self.planned
        self._on_change()

    # Room that victims leave

    def promise(self, reservations: Iterable[Reservation], until: int) -> dict[str, tuple[Reservation, ...]]:
        """Reserve the room that victims are leaving, until that time; what an owner was promised before is replaced.

        The time limit is for victims that never end, such as those on a lost node.

        Returns:
            What is promised now, by owner, for `stands`.
        """
        made = _by_owner(replace(one, until=until) for one in reservations)
        self.promised |= made
        if any(one.owner in made for one in (*self.refused.values(), *self.refills.reservations)):
            self._on_change()  # what was reserved for an owner otherwise comes free: all that it lacks is promised
        return made

    def restore(self, reservations: Iterable[Reservation]) -> None:
        """Restore promises made before a restart; a promise made since is newer and kept."""
        self.promised = _by_owner(reservations) | self.promised
        self._on_change()

    def stands(self, owner: str, promise: tuple[Reservation, ...]) -> bool:
        """Whether this promise is still in force: not used, given up or replaced."""
        return self.promised.get(owner) is promise

    @property
    def promised_to(self) -> Set[str]:
        """UIDs of the gangs for which room is reserved that others leave."""
        return self.promised.keys()

    def used(self, owner: str) -> None:
        """The gang has all its places."""
        self.promised.pop(owner, None)
        self.planned.pop(owner, None)

    def give_up(self, owner: str) -> None:
        """The room promised to this gang does not come free: it waits like any other."""
        if self.promised.pop(owner, None) is not None:
            self._on_change()

    def keep_promises_to(self, waits: Callable[[str], bool]) -> None:
        """Only a gang that waits is promised room; `waits` is asked by UID."""
        self.promised = {owner: one for owner, one in self.promised.items() if waits(owner)}

    def end_promises(self, now: int) -> None:
        """End the promises whose time is over."""
        self.promised = {owner: one for owner, one in self.promised.items() if now < one[0].until}

    def end_idle(self, now: int, leaving: Set[str]) -> None:
        """Give up promised room that no pod has been leaving for a while: the victims are gone, and their room was not
        enough, because a node was lost or another scheduler took the room. Its owner is planned for anew.

        `leaving` are the owners for whom some pod leaves still, or may.
        """
        self._idle = {owner: self._idle.get(owner, now) for owner in self.promised if owner not in leaving}
        for owner, since in list(self._idle.items()):
            if now - since >= IDLE_PROMISE_NS:
                del self._idle[owner]
                self.give_up(owner)


def waiting_for_victims(
    book: ReservationBook,
    pods: Mapping[str, PodRecord],
    charges: Charges,
    gangs: Iterable[GangRecord],
    gangs_by_uid: Mapping[str, GangRecord],
) -> set[str]:
    """Owners of promises for whom pods still leave the nodes where room is reserved, or their queue, so that the quota
    suffices. Nodes and pods are looked at once for all of them.
    """
    owners_on: dict[str, set[str]] = {}
    for owner, reservations in book.promised.items():
        for one in reservations:
            owners_on.setdefault(one.node, set()).add(owner)
    found: set[str] = set()
    for node, owners in owners_on.items():
        there = (pods.get(charge.uid) for charge in charges.on_node(node))
        if not owners <= found and any(pod is not None and pod.deleting for pod in there):
            found |= owners
    others = [gang for owner in book.promised if owner not in found if (gang := gangs_by_uid.get(owner))]
    queues = {gang.queue for gang in others}
    leaving = {
        gang.queue
        for gang in (gangs if queues else ())
        if gang.queue in queues and any(pod.deleting and not pod.finished and pod.node for pod in gang.members.values())
    }
    return found | {gang.uid for gang in others if gang.queue in leaving}


def _by_owner(reservations: Iterable[Reservation]) -> dict[str, tuple[Reservation, ...]]:
    found: dict[str, list[Reservation]] = {}
    for one in reservations:
        found.setdefault(one.owner, []).append(one)
    return {owner: tuple(mine) for owner, mine in found.items()}
