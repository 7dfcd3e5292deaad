"""What has failed before, by scheduling key: the one memory of failures that a cycle uses.

Within a cycle an answer lasts until room comes free. Across cycles it lasts while the nodes of the key, and the pods
that its rules speak of, are as they were when it was given; it is kept for later cycles only if they are, too, as they
were when the cycle began.
"""

from collections.abc import Collection, Sequence

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Indices, Mask
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.past_failures import PastFailures, Place, Promises
from t9ksched.engine.past_order import NO_NODE
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Policy
from t9ksched.engine.reserved_rooms import ReservedRooms
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.starvation import Starving
from t9ksched.engine.view import View
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.quantity import CARDS
from t9ksched.model.reasons import Reason

Reasons = tuple[Reason, ...]


class Answer:
    """The answer to a key in this cycle; empty before its first attempt.

    Attributes:
        over_quota: why its queue cannot pay.
        no_room: why its pods have no place, for gangs that may run until `from_end` (nanoseconds since the epoch) or
            longer: planned starts may leave room to those that end before.
        behind: why a strict queue does not let it pass.
        no_victims: preemption could not help it, nor gangs that may run until `victims_from_end` or longer, and, where
            gangs evict those of their own queue, have at most the PodGroup priority `victims_priority`; candidates only
            get fewer.
    """

    __slots__ = ("behind", "from_end", "no_room", "no_victims", "over_quota", "victims_from_end", "victims_priority")

    def __init__(self) -> None:
        self.over_quota: Reasons = ()
        self.no_room: Reasons = ()
        self.from_end = 0
        self.behind: Reasons = ()
        self.no_victims = False
        self.victims_from_end = self.victims_priority = 0

    def found_no_victims(self, gang: Gang, ends: int) -> None:
        """Preemption could not help the gang, which would end then."""
        self.no_victims, self.victims_from_end, self.victims_priority = True, ends, gang.priority


class FailureMemory:
    """The answers of this cycle, and those of earlier ones that still hold.

    Attributes:
        past: what lasts across cycles.
        full: classes of which not one more pod fits.
    """

    def __init__(
        self,
        view: View,
        trial: Trial,
        promises: Promises,
        ledger: Ledger,
        policy: Policy,
        past: PastFailures,
        starving: Starving | None = None,
        advance: ReservedRooms | None = None,
    ) -> None:
        """`promises` has what is reserved on each node, by row, whoever made it; `advance` what administrators did."""
        self._starving = starving
        self._advance = advance
        self._view = view
        self._ledger = ledger
        self._pod_affinity = trial.pod_affinity
        self._answers: dict[SchedulingKey, Answer] = {}
        self._by_ident: dict[object, Answer] = {}
        """All answers, by what is the same in every cycle."""
        self._fresh: list[int] = []
        self._ahead: dict[str, list[tuple[int, SchedulingKey]]] = {}
        """What gangs of strict queues wait for, by queue, with their positions."""
        self._moved: Mask = np.zeros(len(view.nodes), np.bool_)
        """Nodes that are not as they were when the cycle began, shape (nodes,)."""
        self._any_moved = False
        self._moved_in: dict[int, tuple[Mask, bool]] = {}
        """Whether a node of a mask is not as it was, by identity of the mask, which is kept."""
        self.past = past
        self.full: set[ClassFit] = set()
        held = trial.pod_affinity.begin() if trial.pod_affinity is not None else {}
        version = trial.pod_affinity.version if trial.pod_affinity is not None else 0
        past.begin(view.nodes, policy, promises, version, held)
        if "preempt" in policy.actions:
            specs = ((name, state.spec.priority, state.spec.preemptible) for name, state in view.queues.items())
            past.among((view.running, *specs))

    def answer(self, key: SchedulingKey) -> Answer:
        """The answer to the key in this cycle; an action that fails writes its reasons into it."""
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = self.answer_to(key.ident)
        return found

    def answer_to(self, ident: object) -> Answer:
        """The answer to the key with this `ident`."""
        found = self._by_ident.get(ident)
        if found is None:
            found = self._by_ident[ident] = Answer()
        return found

    def take_moved(self) -> list[int]:
        """Nodes that were named by `moved` since the last call; some may be named twice."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def moved(self, rows: int | Indices) -> None:
        """Nodes are no longer as they were when the cycle began."""
        self._any_moved = True
        if isinstance(rows, int):
            self._fresh.append(rows)
        else:
            self._fresh += rows.tolist()
        self._moved[rows] = True
        self._moved_in.clear()

    def room_came_free(self) -> None:
        """What failed for want of room may be tried again."""
        for answer in self._by_ident.values():
            answer.no_room = ()
        self.full.clear()

    # ---- strict queues

    def waits(self, queue: str, position: int, key: SchedulingKey) -> None:
        """A gang of a strict queue waits: nothing behind it takes what it waits for."""
        self._ahead.setdefault(queue, []).append((position, key))

    def strict(self, queue: str) -> bool:
        """Whether a gang of this queue waits that others may not pass."""
        return queue in self._ahead

    def behind(self, queue: str, key: SchedulingKey) -> Work[Reasons]:
        """Why a strict queue does not let the key pass the gangs that wait ahead of it; empty when it may."""
        if not self.strict(queue):
            return ()
        mine = self.answer(key)
        if not mine.behind:
            for position, ahead in self._ahead[queue]:
                yield
                if self._competes(key, ahead):
                    mine.behind = (explain.behind(position, queue),)
                    break
        return mine.behind

    def ahead(self, queue: str) -> Sequence[tuple[int, SchedulingKey]]:
        """What gangs of a strict queue that others may not pass wait for, with their positions."""
        return self._ahead.get(queue, ())

    def _competes(self, key: SchedulingKey, ahead: SchedulingKey) -> bool:
        """Whether a key would take what a gang ahead of it waits for: quota it lacks, or room on its nodes."""
        if ahead.bounded and key.demand.get(CARDS):
            return True
        lacks = self.lacks_quota(ahead)
        if lacks is None:
            return self.meet(key, ahead) != NO_NODE
        return any(key.demand.get(resource) for resource in lacks)

    def lacks_quota(self, ahead: SchedulingKey) -> Collection[str] | None:
        """The resources of which its queue cannot pay for a gang that waits; None where it waits for room on nodes."""
        over_quota = self.answer(ahead).over_quota
        return over_quota[0].needs if over_quota else None

    def meet(self, key: SchedulingKey, ahead: SchedulingKey) -> int:
        """The row of a node that could take a pod of each if nothing ran there; `NO_NODE` where there is none."""
        both = _able(key) & _able(ahead)
        first = int(both.argmax()) if len(both) else 0
        return first if len(both) and both[first] else NO_NODE

    # ---- across cycles

    def known(self, gang: Gang, key: SchedulingKey, *, scarce: bool = False) -> Reasons | None:
        """The answer to the key in an earlier cycle, if nothing it depends on has changed since.

        With `scarce`, only if by numbers there was too little free: then no planned start had to do with it.
        """
        lasting = self._lasting(gang, key) if not scarce else ("scarce", *self._lasting(gang, key))
        if not self.past.asked(lasting):
            return None
        place = self._place(key)
        return None if place is None else self.past.answer(lasting, place)

    def note(self, gang: Gang, key: SchedulingKey, reasons: Reasons, *, scarce: bool = False) -> None:
        """The key was tried and failed; see `known`."""
        if self._place(key) is not None:
            lasting = self._lasting(gang, key)
            self.past.note(("scarce", *lasting) if scarce else lasting, reasons)

    def is_known_to_fail(self, gang: Gang, key: SchedulingKey) -> bool:
        """Whether victims were looked for in an earlier cycle and none found, and nothing has changed since for it."""
        place = self._place(key)
        return place is not None and self.past.is_known_to_fail(self._search(gang, key), place)

    def note_failed_search(self, gang: Gang, key: SchedulingKey) -> None:
        """Victims were looked for, among all there were when the cycle began, and none found."""
        if self._place(key) is not None:
            self.past.note_failed_search(self._search(gang, key))

    def _search(self, gang: Gang, key: SchedulingKey) -> tuple[object, ...]:
        """What a search for victims depends on besides nodes, pods and the running gangs."""
        found = (gang.queue, gang.priority, *self._lasting(gang, key))
        if not key.ruled:
            return found
        # Rules about pods may rule out the chosen victims, and the choice depends on the order of eviction.
        queues, share = self._view.queues, self._ledger.share
        return (*found, *sorted(queues, key=lambda name: (queues[name].spec.priority, -share(name), name)))

    def _lasting(self, gang: Gang, key: SchedulingKey) -> tuple[object, ...]:
        """What a refusal depends on besides nodes and pods; the room that is kept for starving gangs is no part of the
        nodes as they were.
        """
        found = _lasting(gang, key)
        if self._advance is not None:
            found = (*found, gang.lasts, self._advance.standing(gang))
        return (*found, self._starving.kept) if self._starving is not None and self._starving.kept else found

    def _place(self, key: SchedulingKey) -> Place | None:
        """Nodes and pods that a key depends on, if they are as they were when the cycle began."""
        if not self.past.knows(self._view.nodes):
            return None
        nodes: Mask = key.groups[0][0].mask
        if len(key.groups) > 1:
            nodes = np.logical_or.reduce([column.mask for column, _ in key.groups])
        if self._any_moved and self._moved_among(nodes):
            return None
        if not key.ruled or self._pod_affinity is None:
            return nodes, ()
        terms = tuple({term for column, _ in key.groups for term in column.terms})
        return (nodes, terms) if all(self._pod_affinity.is_unchanged(term) for term in terms) else None

    def _moved_among(self, nodes: Mask) -> bool:
        known = self._moved_in.get(id(nodes))
        if known is None:
            known = self._moved_in[id(nodes)] = nodes, bool(np.any(self._moved & nodes))
        return known[1]


def _able(key: SchedulingKey) -> Mask:
    """Nodes that could take one of its pods if nothing ran there, shape (nodes,)."""
    able: Mask = np.logical_or.reduce([column.able() for column, _ in key.groups])
    return able


def _lasting(gang: Gang, key: SchedulingKey) -> tuple[object, ...]:
    """What a refusal depends on besides nodes and pods."""
    found = (*key.lasting, key.profile) if key.profile else key.lasting
    if gang.topology == "None" and not key.ruled:
        return found
    ruled = tuple(column.ruled for column, _ in key.groups)
    return (*found, ruled, gang.topology, gang.levels, gang.nodes)
