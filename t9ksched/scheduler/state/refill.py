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

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.gang import RunningPod
from t9ksched.model.names import HONOURS_INDEX
from t9ksched.model.node import Node, NodeFacts
from t9ksched.model.pod import OwnerReference
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import Queue
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import DEFAULT_GRACE, GangRecord, PodRecord, job_of

_SECOND: Final = 1_000_000_000
GANG_RECOVERY_TIMEOUT_SECONDS: Final = 15 * 60
UNCONTROLLED_NS: Final = 60 * _SECOND
"""How long room is kept for a pod without a controller while no other pod of its gang waits."""
FAILURES_NS: Final = 3600 * _SECOND
MOST_FAILURES: Final = 2
"""If so many members of a job failed on a node within `FAILURES_NS`, the next goes there only if no other node fits."""


class Loss(msgspec.Struct, eq=False):
    """A member that was lost.

    Attributes:
        node, cards: where it was.
        grace: seconds that it got to end once it was deleted.
        owner: its controller.
        failed: it ended by itself, with a failure.
        since: when it was lost.
        found: the node on which the engine found room for it, when its own is of no use.
        place, kept_cards: where room is kept now, and on which cards; no place while none was found.
        kept: whether room is kept for it now, or is still to be found.
    """

    uid: str
    name: str
    role: str
    pod_class: PodClass
    node: str = ""
    cards: CardGrant = NO_CARDS
    started: int = 0
    grace: int = DEFAULT_GRACE
    owner: OwnerReference | None = None
    failed: bool = False
    since: int = 0
    found: str = ""
    place: str = ""
    kept_cards: CardGrant = NO_CARDS
    kept: bool = False


class Failures:
    """On which nodes members of jobs failed recently: a replacement may fail there again."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, str, str]] = deque()
        self._of: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def note(self, job: str, node: str, now: int) -> None:
        """A member of the job of this UID failed there. `now` never goes back."""
        self._recent.append((now, job, node))
        self._of[job][node] += 1

    def forget(self, now: int) -> None:
        """Drop entries whose time is over."""
        while self._recent and self._recent[0][0] + FAILURES_NS <= now:
            _, job, node = self._recent.popleft()
            self._of[job][node] -= 1
            if not self._of[job][node]:
                del self._of[job][node]
            if not self._of[job]:
                del self._of[job]

    def nodes(self, job: str) -> tuple[str, ...]:
        """Names of the nodes on which too many members of the job failed, sorted."""
        if job not in self._of:
            return ()
        return tuple(sorted(node for node, count in self._of[job].items() if count >= MOST_FAILURES))


class Refills:
    """The losses of all gangs. `follow` brings what is kept up to date; `reservations` is that, for the engine.

    Attributes:
        recovery: how long room is kept at most.
        kinds: API versions and kinds of jobs that are followed: one that is not among `jobs` is gone.
    """

    def __init__(
        self,
        nodes: NodeTable,
        node_objects: Mapping[str, tuple[Node, NodeFacts]],
        charges: Charges,
        jobs: Mapping[str, JobRecord],
        refused: Mapping[str, Reservation],
        owners: Owners,
        on_change: Callable[[GangRecord], None] = lambda _: None,
        moved: Callable[[GangRecord], None] = lambda _: None,
    ) -> None:
        """`refused` is room that is held for members whose binding was refused; `owners` know what controllers want.

        `on_change` is called when room is kept for a group no longer, `moved` when other places are kept.
        """
        self._on_change = on_change
        self._moved = moved
        self._owners = owners
        self._nodes = nodes
        self._node_objects = node_objects
        self._charges = charges
        self._jobs = jobs
        self._refused = refused
        self._new: list[tuple[GangRecord, Loss]] = []
        self._of: dict[GangRecord, list[Loss]] = {}
        self._failures = Failures()
        self._ends: dict[GangRecord, int] = {}
        """When the first of the places that are kept for a gang is kept no longer."""
        self.recovery = GANG_RECOVERY_TIMEOUT_SECONDS * _SECOND
        self.kinds: frozenset[tuple[str, str]] = frozenset()
        self.reservations: tuple[Reservation, ...] = ()

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
        self._new.append((gang, loss))

    def remember(self, gang: GangRecord, losses: Iterable[Loss]) -> None:
        """Members that were lost while no scheduler was running."""
        self._new += [(gang, loss) for loss in losses]

    def forget(self, gang: GangRecord) -> None:
        """Nothing is kept for this gang any more."""
        self._new = [(one, loss) for one, loss in self._new if one is not gang]
        self._ends.pop(gang, None)
        if self._of.pop(gang, None) is not None:
            self.reservations = tuple(reservation for reservation in self.reservations if reservation.owner != gang.uid)
            self._mark(gang, lost=False)

    def of_job(self, uid: str) -> bool:
        """Whether room is kept for a gang of this job."""
        return any(uid in _owners(gang, losses) for gang, losses in self._of.items())

    def follow(
        self,
        now: int,
        queues: Mapping[str, Queue],
        promised: Collection[str] = (),
        end_of: Callable[[GangRecord], int | None] = lambda _: None,
    ) -> None:
        """Bring what is kept up to date. Groups must be settled; those in `promised` have all they lack promised, and
        `end_of` says when a group is ended at the latest, whether it has its members back or not.
        """
        self._failures.forget(now)
        if not self._new and not self._of:
            return
        self._take(now)
        self._ends = {}
        reservations: list[Reservation] = []
        for gang, losses in list(self._of.items()):
            end = gang.fell + self.recovery
            over = (enforced := end_of(gang)) is not None and enforced <= now
            if not self._wanted(gang, losses) or gang.complete(bound=True) or (gang.fell and end <= now) or over:
                self.forget(gang)
                self._on_change(gang)
                continue
            before = [(loss.uid, loss.place, loss.kept_cards) for loss in losses if loss.kept]
            kept = [] if gang.complete() or gang.uid in promised else self._chosen(gang, losses, now)
            of_kept = set(map(id, kept))
            for loss in losses:
                loss.kept = id(loss) in of_kept
            if before and not kept:
                self._on_change(gang)  # its reasons about the room are out of date
            for loss in kept:
                until = min(end, self._until(loss, gang, now))
                self._ends[gang] = min(self._ends.get(gang, until), until)
                reservations += self._reserved(gang, loss, until, queues)
            if before != [(loss.uid, loss.place, loss.kept_cards) for loss in losses if loss.kept]:
                gang.stale = True
                self._move(gang)
        self.reservations = tuple(reservations)

    def found(self, reservations: Iterable[Reservation]) -> None:
        """The engine found room for lost members that had none."""
        for reservation in reservations:
            for gang, losses in self._of.items():
                if gang.uid == reservation.owner:
                    homeless = (one for one in losses if one.kept and not one.place)
                    loss = next((one for one in homeless if one.pod_class == reservation.pod_class), None)
                    if loss is not None:
                        loss.found = loss.place = reservation.node
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
        return min(self._ends.values(), default=None)

    def _take(self, now: int) -> None:
        """From `now` on the noted losses count."""
        taken, self._new = self._new, []
        for gang, loss in taken:
            if not gang.ran or gang.displaced or not gang.uid:
                continue
            loss.since = now
            if loss.failed:
                self._failures.note(job_of(gang), loss.node, now)
            self._of.setdefault(gang, []).append(loss)
            self._mark(gang, lost=True)
        for gang in self._of:
            if not gang.fell and not gang.complete():
                gang.fell = now

    def _wanted(self, gang: GangRecord, losses: list[Loss]) -> bool:
        """Whether a controller will replace the lost members, and the gang's places were not taken by preemption."""
        if not gang.uid or gang.displaced:
            return False
        for loss in losses:
            for owner in (gang.owner, loss.owner):
                if owner is None:
                    continue
                job = self._jobs.get(owner.uid)
                if job is None and (owner.api_version, owner.kind) in self.kinds:
                    return False
                if job is not None and not job.wants_pods:
                    return False
        return True

    def _chosen(self, gang: GangRecord, losses: list[Loss], now: int) -> list[Loss]:
        """The losses that the gang needs back to have its minimum, the newest first."""
        if gang.unpermitted is not None or (gang.control is not None and gang.control.held):
            return []
        placed = Counter(pod.role for pod in gang.members.values() if pod.placed and not pod.deleting)
        short = Counter({role: least - placed[role] for role, least in gang.minimum.roles if least > placed[role]})
        missing = max(short.total(), gang.minimum.members - placed.total())
        missing -= sum(reservation.owner == gang.uid for reservation in self._refused.values())
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

    def _reserved(self, gang: GangRecord, loss: Loss, until: int, queues: Mapping[str, Queue]) -> list[Reservation]:
        queue = queues.get(gang.queue)
        failed_on = self._failures.nodes(job_of(gang))
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
