"""Members that running gangs lost, and the room that is kept for them until they are back.

A member is lost when its pod is deleted, fails or goes with its node. Its controller makes another pod, with another
UID, and often only after the room of the first is free. From the loss on, as far as the gang is below its minimum, its
room is kept: its own place while that node is healthy and not two members failed there within the hour, else the first
room that the engine finds. That ends when the gang has its minimum again, when it is evicted, when its job wants no
pods any more, and `recovery` after the gang fell below its minimum. A pod without a controller may never be replaced:
its room is kept for a minute, and longer only while another pod of the gang waits.

Losses are kept in memory. A scheduler that starts finds them again in history (`scheduler/observe/recall.py`). Times
are nanoseconds since the epoch.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.gang import RunningPod
from t9ksched.model.names import HONOURS_INDEX
from t9ksched.model.node import Node, NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import Queue
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.state.change_feed import ChangeFeed
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.losses import Failures, Loss
from t9ksched.scheduler.state.losses_due import LossesDue
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of
from t9ksched.scheduler.state.replacement import Replacement

_SECOND: Final = 1_000_000_000
GANG_RECOVERY_TIMEOUT_SECONDS: Final = 15 * 60
UNCONTROLLED_NS: Final = 60 * _SECOND
"""How long room is kept for a pod without a controller while no other pod of its gang waits."""
_A_STEP: Final = 500
"""So many losses are looked at in one step of `following`: a few milliseconds."""


class Refills:
    """The losses of all gangs. `follow` brings what is kept up to date; `reservations` is that, for the engine.

    Attributes:
        recovery: how long room is kept at most.
        kinds: API versions and kinds of jobs that are followed: one that is not known is gone.
    """

    def __init__(
        self,
        nodes: NodeTable,
        node_objects: Mapping[str, tuple[Node, NodeFacts]],
        charges: Charges,
        replacement: Replacement,
        refused: Mapping[str, Reservation],
        owners: Owners,
        feed: ChangeFeed,
        on_change: Callable[[GangRecord], None] = lambda _: None,
    ) -> None:
        """`replacement` says whether lost members may be replaced, `owners` how many; `refused` is room that is held
        for members whose binding was refused; `feed` tells of gangs that changed, and is told for which other places
        are kept.

        `on_change` is called when room is kept for a group no longer.
        """
        self._on_change = on_change
        self._moved = feed.held_otherwise
        self._owners = owners
        self._nodes = nodes
        self._node_objects = node_objects
        self._charges = charges
        self._replacement = replacement
        self._refused = refused
        self._new: dict[GangRecord, list[Loss]] = {}
        self._of: dict[GangRecord, list[Loss]] = {}
        self._due = LossesDue(nodes, feed.holding)
        self._now = 0
        self._queues: Mapping[str, Queue] = {}
        self._end_of: Callable[[GangRecord], int | None] = lambda _: None
        self._failures = Failures()
        self._ends: dict[GangRecord, int] = {}
        """When the first of the places that are kept for a gang is kept no longer."""
        self._next_end: int | None = None
        self._held: dict[GangRecord, list[Reservation]] = {}
        """What is kept for each gang that has losses."""
        self._reservations: tuple[Reservation, ...] | None = ()
        """All of that; None while it is to be put together anew."""
        self.recovery = GANG_RECOVERY_TIMEOUT_SECONDS * _SECOND
        self.kinds: frozenset[tuple[str, str]] = frozenset()

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """Room that is kept, or looked for."""
        if (found := self._reservations) is None:
            found = self._reservations = tuple(chain.from_iterable(self._held.values()))
            self._next_end = min(self._ends.values(), default=None)
        return found

    def lost(self, record: PodRecord) -> None:
        """A member that held a place does so no longer, or is about to; its charge still says which cards it had."""
        gang = record.gang
        if gang is None or gang.virtual or not gang.uid or record.pod_class is None:
            return
        if record.evicted:
            return  # the scheduler took the place away on purpose
        charge = self._charges.get(record.uid)
        cards = charge.cards if charge is not None else NO_CARDS
        loss = Loss(
            uid=record.uid,
            name=record.key,
            role=record.role,
            pod_class=record.pod_class,
            node=record.node,
            cards=cards,
            started=record.started,
            grace=record.grace,
            owner=record.owner,
            failed=record.phase == "Failed",
        )
        self._new.setdefault(gang, []).append(loss)

    def remember(self, gang: GangRecord, losses: Iterable[Loss]) -> None:
        """Members that were lost while no scheduler was running."""
        self._new.setdefault(gang, []).extend(losses)

    def forget(self, gang: GangRecord) -> None:
        """Nothing is kept for this gang any more."""
        self._new.pop(gang, None)
        self._ends.pop(gang, None)
        if self._of.pop(gang, None) is not None:
            del self._held[gang]
            self._reservations = None
            self._due.forget(gang)
            self._mark(gang, lost=False)

    def changed(self, uid: str) -> bool:
        """Something changed of the job or owner of pods of this UID, or it is a gang that ends at another moment;
        whether room is kept for a gang of it.
        """
        return self._due.note(uid)

    def follow(
        self,
        now: int,
        queues: Mapping[str, Queue],
        promised: Collection[str] = (),
        end_of: Callable[[GangRecord], int | None] = lambda _: None,
    ) -> None:
        """As `following`, at once."""
        deque(self.following(now, queues, promised, end_of), maxlen=0)

    def following(
        self,
        now: int,
        queues: Mapping[str, Queue],
        promised: Collection[str] = (),
        end_of: Callable[[GangRecord], int | None] = lambda _: None,
    ) -> Iterator[None]:
        """Bring what is kept up to date, in steps. Groups must be settled before each; `follow` may come in between.
        Those in `promised` have all they lack promised, and `end_of` says when a group is ended at the latest, whether
        it has its members back or not.
        """
        self._due.note_all(self._failures.forget(now))
        if not self._new and not self._of:
            self._due.rest()
            return
        self._now, self._queues, self._end_of = now, queues, end_of
        self._due.begin(now, (queues, self.recovery, self.kinds), promised, self._refused)
        while self._step():
            yield
            self._due.take()
        if not self._of:
            self._due.rest()

    def _step(self) -> bool:
        """Look at some of the gangs of which something changed; whether there are more."""
        left, due = _A_STEP, self._due
        while self._new and left > 0:
            gang = next(iter(self._new))
            left -= self._take(gang, self._new.pop(gang))
        while due.gangs and left > 0:
            gang = next(iter(due.gangs))
            del due.gangs[gang]
            left -= len(self._of[gang])
            self._look(gang, self._of[gang])
        return bool(self._new or due.gangs)

    def _look(self, gang: GangRecord, losses: list[Loss]) -> None:
        """Bring what is kept for a gang up to date."""
        now = self._now
        whole = gang.complete()
        if not gang.fell and not whole:
            gang.fell = now
        end, enforced = gang.fell + self.recovery, self._end_of(gang)
        over: object = enforced is not None and enforced <= now
        over = over or (gang.fell and end <= now) or (whole and gang.complete(bound=True))
        wanted = gang.uid and not gang.displaced and self._replacement.expected(gang, losses, self.kinds)
        if over or not wanted:
            self.forget(gang)
            self._on_change(gang)
            return
        before = [(loss.uid, loss.place, loss.kept_cards) for loss in losses if loss.kept]
        kept = [] if whole or gang.uid in self._due.promised else self._chosen(gang, losses, now)
        of_kept = set(map(id, kept))
        for loss in losses:
            loss.kept = id(loss) in of_kept
        if before and not kept:
            self._on_change(gang)  # its reasons about the room are out of date
        self._reservations, self._held[gang], untils = None, [], []
        self._ends.pop(gang, None)
        failed_on = self._failures.nodes(job_of(gang)) if kept else ()
        for loss in kept:
            untils.append(until := min(end, self._until(loss, gang, now)))
            self._held[gang] += self._reserved(gang, loss, until, failed_on)
        if kept:
            self._ends[gang] = min(untils)
        if before != [(loss.uid, loss.place, loss.kept_cards) for loss in losses if loss.kept]:
            gang.stale = True
            self._move(gang)
        moments = [*([end] if gang.fell else ()), *([] if enforced is None else [enforced])]
        moments += [loss.since + UNCONTROLLED_NS for loss in losses if loss.owner is None]
        nodes = {name for loss in losses for name in (loss.node, loss.found) if name}
        self._due.looked(gang, {gang.uid, *_owners(gang, losses)}, nodes, now, moments)

    def found(self, reservations: Iterable[Reservation]) -> None:
        """The engine found room for lost members that had none."""
        of: dict[str, list[Reservation]] = {}
        for reservation in reservations:
            of.setdefault(reservation.owner, []).append(reservation)
        for uid, theirs in of.items():
            for gang in [gang for gang in self._due.of(uid) if gang.uid == uid]:
                homeless: dict[PodClass, deque[Loss]] = {}
                for loss in self._of[gang]:
                    if loss.kept and not loss.place:
                        homeless.setdefault(loss.pod_class, deque()).append(loss)
                for reservation in theirs:
                    if fitting := homeless.get(reservation.pod_class):
                        loss = fitting.popleft()
                        loss.found = loss.place = reservation.node
                        self._due.gangs[gang] = None
                        self._move(gang)

    def keeping(self) -> list[GangRecord]:
        """Gangs for which room is kept, or looked for."""
        return [gang for gang, losses in self._of.items() if any(loss.kept for loss in losses)]

    def kept_for(self, gang: GangRecord) -> tuple[list[Loss], int]:
        """The lost members of a gang for which room is kept, or looked for, and until when; 0 where no end is known."""
        return [loss for loss in self._of.get(gang, ()) if loss.kept], self._ends.get(gang, 0)

    def stays(self, pod: PodRecord) -> bool:
        """Whether the room of a pod that is leaving is reserved for its gang and for no other."""
        losses = self._of.get(pod.gang) if pod.gang is not None else None
        return any(loss.uid == pod.uid and loss.kept and loss.place == pod.node for loss in losses or ())

    def places(self, gang: GangRecord) -> list[RunningPod]:
        """Places reserved for lost members: a gang that may evict this one gets them."""
        return [
            RunningPod(loss.uid, loss.name, loss.role, loss.pod_class, loss.place, loss.kept_cards, kept=True)
            for loss in self._of.get(gang, ())
            if loss.kept and loss.place and not self._leaving(loss)
        ]

    def next_end(self) -> int | None:
        """When the next place is kept no longer; None when none is."""
        return self._next_end if self.reservations is not None else None

    def _take(self, gang: GangRecord, losses: list[Loss]) -> int:
        """From now on these losses count, which were noted; how many there are."""
        if not losses or not gang.ran or gang.displaced or not gang.uid:
            return len(losses)
        for loss in losses:
            loss.since = self._now
            if loss.failed:
                self._failures.note(job_of(gang), loss.node, self._now)
                self._due.note(job_of(gang))
        self._of.setdefault(gang, []).extend(losses)
        self._held.setdefault(gang, [])
        self._due.came(gang)
        self._mark(gang, lost=True)
        return len(losses)

    def _chosen(self, gang: GangRecord, losses: list[Loss], now: int) -> list[Loss]:
        """The losses that the gang needs back to have its minimum, the newest first."""
        if gang.unpermitted is not None or (gang.control is not None and gang.control.held):
            return []
        placed = Counter(pod.role for pod in gang.members.values() if pod.placed and not pod.deleting)
        short = Counter({role: least - placed[role] for role, least in gang.minimum.roles if least > placed[role]})
        missing = max(short.total(), gang.minimum.members - placed.total())
        missing -= self._due.refused[gang.uid]
        waiting = sum(pod.waiting for pod in gang.members.values())
        able: list[Loss] = []
        members = [pod for pod in gang.members.values() if pod.owner is not None and pod.placed and not pod.deleting]
        living = Counter(pod.owner.uid for pod in members if pod.owner is not None)
        for loss in reversed(losses):
            if loss.owner is not None and not self._owners.wants(loss.owner, living[loss.owner.uid]):
                continue
            if loss.owner is not None:
                living[loss.owner.uid] += 1
            if loss.owner is None and now >= loss.since + UNCONTROLLED_NS:
                waiting -= 1
                if waiting < 0:
                    continue
            able.append(loss)
        first: list[Loss] = []
        others: list[Loss] = []
        for loss in able:
            if short[loss.role] > 0:
                short[loss.role] -= 1
                first.append(loss)
            else:
                others.append(loss)
        return [*first, *others][: max(0, missing)]

    def _until(self, loss: Loss, gang: GangRecord, now: int) -> int:
        if loss.owner is not None or now >= loss.since + UNCONTROLLED_NS:
            return gang.fell + self.recovery
        return loss.since + UNCONTROLLED_NS

    def _reserved(self, gang: GangRecord, loss: Loss, until: int, failed_on: tuple[str, ...]) -> list[Reservation]:
        queue = self._queues.get(gang.queue)
        self._settle_place(loss, queue, failed_on)
        if loss.place == loss.node and self._leaving(loss):
            return []  # its pod is there still, and charged
        return [
            Reservation(
                owner=gang.uid,
                node=loss.place,
                pod_class=loss.pod_class,
                cards=loss.kept_cards,
                rank=queue.spec.priority if queue else 0,
                since=loss.since,
                until=until,
                kind=ReservationKind.REFILL,
                queue=gang.queue,
                avoid=() if loss.place else failed_on,
            )
        ]

    def _settle_place(self, loss: Loss, queue: Queue | None, failed_on: Collection[str]) -> None:
        """Its own place if that is of use, else the one found, if that is; else one is still to be found."""
        own = loss.node not in failed_on and self._healthy(loss.node, queue)
        loss.place, loss.kept_cards = "", NO_CARDS
        if own and self._leaving(loss):
            loss.place, loss.kept_cards = loss.node, loss.cards
        elif own and self._nodes.has_room(loss.node, loss.pod_class):
            honours = self._node_objects[loss.node][1].card_mode == HONOURS_INDEX
            free = honours and self._nodes.has_room(loss.node, loss.pod_class, loss.cards)
            loss.place, loss.kept_cards = loss.node, loss.cards if free else NO_CARDS
        elif self._healthy(loss.found, queue) and self._nodes.has_room(loss.found, loss.pod_class):
            loss.place = loss.found

    def _healthy(self, node: str, queue: Queue | None) -> bool:
        """Whether the node takes pods of the queue."""
        known = self._node_objects.get(node)
        if known is None:
            return False
        facts, selector = known[1], queue.spec.node_selector if queue else None
        open_to_all = facts.ready and not facts.unschedulable and not facts.deleting
        return open_to_all and (selector is None or selector.matches(facts.labels))

    def _mark(self, gang: GangRecord, *, lost: bool) -> None:
        if gang.lost != lost:
            gang.lost, gang.stale = lost, True
            self._move(gang)

    def _move(self, gang: GangRecord) -> None:
        gang.changes += 1
        self._moved(gang)

    def _leaving(self, loss: Loss) -> bool:
        """Whether the pod still has its room."""
        return self._charges.get(loss.uid) is not None


def _owners(gang: GangRecord, losses: Iterable[Loss]) -> set[str]:
    return {owner.uid for owner in (gang.owner, *(loss.owner for loss in losses)) if owner is not None}
