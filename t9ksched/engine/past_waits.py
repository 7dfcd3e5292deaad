"""What gangs that wait were told, remembered across cycles by what they ask for.

Gangs of one queue that ask for as many pods of the same classes are one *kind* (`wait_kinds.py`). Kinds of which no
gang waits any more are forgotten once they are many.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Indices, Int64s, Mask, There
from t9ksched.engine.node_changes import changed_nodes, read_labels, selects
from t9ksched.engine.nodes import Static
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Policy
from t9ksched.engine.shared_rooms import Shared
from t9ksched.engine.told_lines import ToldLine
from t9ksched.engine.wait_kinds import Ident, Kind, Reasons, Signature
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import QueueSpec

_FEW: Final = 256
"""So many kinds more than gangs that wait are kept, whether gangs of some wait or not."""
_LOOKS: Final = 4096
"""Nodes that take work, or none, any more times masks that are looked at in one step."""


class PastWaits:
    """All kinds, and which gang is of which."""

    def __init__(self) -> None:
        self.free: Int64s | None = None
        """What is free on the nodes as the numbers have it, shape (resources, nodes)."""
        self.cycle = 0
        self._static: Static | None = None
        self._policy: Policy | None = None
        self._queues: Mapping[str, QueueSpec] = {}
        """By name."""
        self._profiles: tuple[object, ...] = ()
        self._kinds: dict[Signature, Kind] = {}
        self._shared: dict[int, Shared] = {}
        """By identity of the mask, which it keeps."""
        self.lines: dict[str, ToldLine] = {}
        """Lines that were told whole in the latest cycle, by queue."""
        self.unkept: tuple[int, There] | None = None
        """What would be free if nothing was kept for gangs that collect room, with the number of what is kept."""
        self.reach: dict[tuple[str, int], There] = {}
        """What would be free if all were evicted that may be for a gang of this queue and priority."""
        self.promised: dict[str, tuple[object, Reasons]] = {}
        """What gangs that wait for their victims were told, by UID, and what that followed from."""
        self._noted: set[int] = set()
        self._of: dict[int, tuple[Gang, Kind]] = {}
        """By identity of the gang, which is kept."""

    def __len__(self) -> int:
        return len(self._kinds)

    def forget(self) -> None:
        """Nothing lasts."""
        self._kinds.clear()
        self._shared.clear()
        self._of.clear()
        self._noted.clear()
        self.lines.clear()
        self.promised.clear()
        self.reach.clear()
        self.unkept = None
        self.free = None

    def begin(
        self,
        trial: Trial,
        policy: Policy,
        queues: Mapping[str, QueueSpec],
        cycle: int,
        gangs: int,
        holders: Container[str],
        profiles: tuple[object, ...] = (),
    ) -> None:
        """A cycle with this number begins, by this policy and with these queues, on the nodes of the trial as they are
        then; `gangs` wait, `holders` are those for which room is held, and from `profiles` follow the profiles of
        signatures. All is forgotten where it is not known what changed in a cycle between.
        """
        static = trial.nodes.static
        known = self.cycle == cycle - 1 and self.free is not None
        known = known and (policy, queues, profiles) == (self._policy, self._queues, self._profiles)
        known = known and (static is self._static or self._follow(trial))
        self.cycle = cycle
        if not known:
            self.forget()
            self._static, self._policy, self._queues, self._profiles = static, policy, queues, profiles
            self.free = trial.free.copy()
        elif len(self._kinds) > _FEW + gangs:
            lately = self.cycle - 1
            unused = [one for one, kind in self._kinds.items() if kind.cycle < lately and not _told(kind, lately)]
            for one in unused:
                self._forget(one)
        if len(self._shared) > len(self._kinds):
            self._shared = {identity: shared for identity, shared in self._shared.items() if shared.kinds}
        if len(self._of) > _FEW + 2 * gangs:
            self._of.clear()
        if len(self.reach) > _FEW:
            self.reach.clear()
        self.lines = {queue: line for queue, line in self.lines.items() if line.cycle >= self.cycle - 1}
        self.promised = {uid: told for uid, told in self.promised.items() if uid in holders}

    def _follow(self, trial: Trial) -> bool:
        """Follow labels of nodes that changed, and nodes that take work now or take none; whether nothing else of the
        nodes changed. Kinds of which more than numbers follows from that are forgotten.
        """
        assert self._static is not None
        static = trial.nodes.static
        changed = changed_nodes(self._static, static)
        if changed is None or len(changed.turned) * len(self._shared) > _LOOKS:
            return False
        self._static = static
        if labels := changed.labels:
            for signature in [one for one, kind in self._kinds.items() if kind.reads is None or kind.reads & labels]:
                self._forget(signature)
        shared, self._shared = self._shared, {}
        for one in shared.values():
            if one.kinds and changed.turned:
                self._turn(one, changed.turned, trial)
            if one.kinds:
                self._shared[id(one.mask)] = one
        self.promised.clear()
        return True

    def _turn(self, shared: Shared, turned: Mapping[int, NodeFacts], trial: Trial) -> None:
        """Some nodes take work now, or take none, by row: the nodes of the mask are other ones, perhaps."""
        one = next(iter(shared.kinds.values()))  # all have the same constraints
        selector = self._queues[one.queue].node_selector
        there = [row for row, facts in turned.items() if selects(selector, one.pod_class, facts)]
        if not there:
            return
        mask = trial.allowed(selector, one.pod_class)
        none_follows = id(mask) in self._shared or any(mask[row] for row in trial.nodes.static.cordoned_rows)
        kept_out = bool((shared.mask == mask)[there].any())  # by more: it may be away for another reason than before
        for signature, kind in list(shared.kinds.items()):
            names_them = kept_out and (kind.empty < kind.pods or kind.pod_class.unrecorded)
            if none_follows or names_them or not kind.follows_nodes:
                self._forget(signature)
        if shared.kinds and one.pod_class.extended:
            # Those that ask for cards are told of nodes whose cards will not do, of how many that will.
            away = explain.takes_none(trial.column(selector, one.pod_class)) or ()
            for kind in shared.kinds.values():
                kind.tell_away(away)
        shared.move(mask, trial.nodes.static.allocatable)

    def _forget(self, signature: Signature) -> None:
        self._kinds.pop(signature).shared.forget(signature)

    def note(self, rows: Sequence[int] | Indices) -> None:
        """On these nodes something may have changed since the last call of `change`."""
        self._noted.update(rows)

    def note_if_changed(self, free: Int64s, rows: Indices | None = None) -> None:
        """The same of those of these nodes, or of all, where the free room, shape (resources, nodes), is another."""
        assert self.free is not None
        if rows is None:
            self.note(np.flatnonzero((self.free != free).any(axis=0)).tolist())
        else:
            self.note(rows[(self.free[:, rows] != free[:, rows]).any(axis=0)].tolist())

    @property
    def has_noted(self) -> bool:
        """Whether `change` has anything to do."""
        return bool(self._noted)

    def change(self, free: Int64s) -> None:
        """Follow the free room, shape (resources, nodes), on the nodes that were noted."""
        assert self.free is not None
        rows = np.array(sorted(self._noted), np.intp)
        self._noted.clear()
        old, new = self.free[:, rows], free[:, rows]
        self.free[:, rows] = new
        for shared in self._shared.values():
            inside = shared.mask[rows]
            if inside.any():
                shared.change(rows[inside], old[:, inside], new[:, inside])

    def of(self, gang: Gang, signature: Signature | None) -> Kind | None:
        """The kind of the gang, None if no gang like it was met yet."""
        if signature is None:
            known = self._of.get(id(gang))
            return known[1] if known is not None and known[0] is gang and known[1].valid else None
        kind = self._kinds.get(signature)
        if kind is None or not kind.valid:
            return None
        self._of[id(gang)] = gang, kind
        return kind

    def learn(self, signature: Signature, ident: Ident, queue: str, pod_class: PodClass, pods: int, mask: Mask) -> Kind:
        """The kind with this signature, to be filled: all of it is true of the nodes as they are."""
        assert self.free is not None
        kind = self._kinds.get(signature)
        if kind is None or kind.shared.mask is not mask or kind.pod_class is not pod_class:
            if kind is not None:
                kind.shared.forget(signature)
            shared = self._shared.get(id(mask))
            if shared is None:
                assert self._static is not None
                shared = self._shared[id(mask)] = Shared(mask, self.free, self._static.resources)
            reads = read_labels(self._queues[queue].node_selector, pod_class, signature.levels)
            kind = self._kinds[signature] = shared.kinds[signature] = Kind(ident, queue, pod_class, pods, shared, reads)
        kind.shared.learned()
        return kind


def _told(kind: Kind, lately: int) -> bool:
    """Whether gangs of the kind were told with all of their queue in that cycle or later."""
    return kind.line is not None and kind.line.cycle >= lately
