"""What did not fit, remembered across cycles until something it waits for changes.

A key that found no room gets the same answer while on the nodes that it may use nothing was placed or removed, no node
changed, the same room is reserved for the same owners, and the pods that its affinity terms select stay where they are.
In a cluster full of waiting gangs, a cycle then costs only those gangs whose nodes changed.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.nodes import FrozenNodes
from t9ksched.engine.placement.standing import Standing
from t9ksched.engine.policy import Policy
from t9ksched.model.podrules import PodTerm
from t9ksched.model.reasons import Reason

_FEW: Final = 1024
"""So many answers are kept, asked for or not."""
_MASKS: Final = 64
_MOST_TERMS: Final = 4096

Scene = tuple[object, ...]
"""The running gangs and the queues: what decides, besides the nodes, which gangs may be victims."""
Place = tuple[Mask, tuple[Standing, ...]]
"""Nodes that a key may use, and the affinity terms of its rules with what stands by them."""
Held = Mapping[PodTerm, object]
"""What is reserved for pods that a term selects, or for pods with anti-affinity or preferences for those."""
Promises = Mapping[int, tuple[object, ...]]
"""Reserved room with its owners, by row of the node."""


class _Known:
    """An answer, the cycle that it was given in, that cycle's version of what stands, and the latest cycle in which the
    answer was of use.
    """

    __slots__ = ("cycle", "reasons", "used", "version")

    def __init__(self, cycle: int, version: int, reasons: tuple[Reason, ...]) -> None:
        self.cycle = self.used = cycle
        self.version = version
        self.reasons = reasons


class PastFailures:
    """Answers by key; those that the latest cycle had no use for are forgotten when there are many.

    Attributes:
        tried, spared: attempts made, and attempts that an answer made needless.
        searched: searches for victims.
        scene: the number of the scene in which victims are searched; another one after each change of it.
    """

    def __init__(self) -> None:
        self.tried = self.spared = self.searched = 0
        self._nodes: FrozenNodes | None = None
        self._policy: Policy | None = None
        self._promises: Promises = {}
        self._lasting = True
        """Answers of this cycle are kept."""
        self._distrusted = False
        """A plugin failed since the last cycle began: it may be off in the next one from before its beginning."""
        self._cycle = self.scene = 0
        self._latest: dict[int, tuple[Mask, int]] = {}
        """The last cycle in which a node of a mask changed, by identity of the mask, which is kept."""
        self._changed: Int64s = np.zeros(0, np.int64)
        """The cycle in which each node changed last."""
        self._version = 0
        self._held: Held = {}
        self._moved_for: dict[PodTerm, int] = {}
        """The last cycle in which other room was reserved for pods that the term selects."""
        self._known: dict[object, _Known] = {}
        self._failed_searches: dict[object, _Known] = {}
        """Searches for victims that found none."""
        self._scene: Scene = ()

    def forget(self) -> None:
        """No answer lasts."""
        self._known.clear()
        self._failed_searches.clear()

    def distrust(self) -> None:
        """No answer lasts, nor does any other of this cycle: a plugin has failed in it."""
        self.forget()
        self._lasting, self._distrusted = False, True

    def begin(self, nodes: FrozenNodes, policy: Policy, promises: Promises, version: int, held: Held) -> None:
        """A cycle begins on these nodes, with this room promised, this version of what stands there, 0 where no pod has
        rules about others, and this reserved for pods that terms select.
        """
        if policy != self._policy:
            self._policy = policy
            self.forget()
        self._latest.clear()
        old, self._nodes = self._nodes, nodes
        promised, self._promises = self._promises, promises
        self._lasting, self._distrusted = not self._distrusted, False
        self._known, self._failed_searches = self._of_use(self._known), self._of_use(self._failed_searches)
        self._cycle += 1
        if 0 < version < self._version or len(self._moved_for) > _MOST_TERMS:
            self.forget()  # among others, where a cycle that began earlier goes on after one that began later
            self._moved_for.clear()
        self._version = version or self._version
        before, self._held = self._held, held
        for term in before.keys() | held.keys():
            if before.get(term) != held.get(term):
                self._moved_for[term] = self._cycle
        if old is None or old.static is not nodes.static or old.used.shape != nodes.used.shape:
            self.forget()
            self._changed = np.full(len(nodes), self._cycle, np.int64)
            return
        moved = np.any(old.used != nodes.used, axis=0) | np.any(old.cards_used != nodes.cards_used, axis=0)
        for had, has in ((old.ports, nodes.ports), (old.volumes, nodes.volumes)):
            for name in had.keys() | has.keys():
                if had.get(name) != has.get(name) and name in nodes.static.index:
                    moved[nodes.static.index[name]] = True
        for row in promised.keys() | promises.keys():
            if promised.get(row) != promises.get(row):
                moved[row] = True
        self._changed[moved] = self._cycle

    def _of_use(self, answers: dict[object, _Known]) -> dict[object, _Known]:
        """The answers without those that the cycle that ends had no use for, if there are many."""
        if len(answers) <= _FEW:
            return answers
        return {key: known for key, known in answers.items() if known.used == self._cycle}

    def _since(self, answer: _Known, place: Place) -> bool:
        """Whether something has changed there since the cycle of an answer."""
        nodes, terms = place
        cycle = answer.cycle
        if any(one.version > answer.version for one in terms):
            return True
        if self._moved_for and any(self._moved_for.get(one.term, 0) > cycle for one in terms):
            return True
        known = self._latest.get(id(nodes))
        if known is None:
            if len(self._latest) >= _MASKS:
                self._latest.clear()
            known = self._latest[id(nodes)] = nodes, int(self._changed[nodes].max(initial=0))
        return known[1] > cycle

    @property
    def cycle(self) -> int:
        """The number of the latest cycle."""
        return self._cycle

    @property
    def changed(self) -> Indices:
        """The nodes that are not as they were when the cycle before began."""
        return np.flatnonzero(self._changed == self._cycle)

    def knows(self, nodes: FrozenNodes) -> bool:
        """Whether the cycle on these nodes is the latest: another plan may have begun between two slices of one."""
        return self._nodes is nodes

    def asked(self, key: object) -> bool:
        """Whether the key may have an answer."""
        return key in self._known

    def answer(self, key: object, place: Place) -> tuple[Reason, ...] | None:
        """The answer to the key's last attempt, None when something has changed there since."""
        known = self._known.get(key)
        if known is None or self._since(known, place):
            return None
        self.spared += 1
        known.used = self._cycle
        return known.reasons

    def note(self, key: object, reasons: tuple[Reason, ...]) -> None:
        """The key was tried on nodes as they were when the cycle began, and failed."""
        if not self._lasting:
            return
        self._known[key] = _Known(self._cycle, self._version, reasons)

    def among(self, scene: Scene) -> None:
        """Victims are searched in this scene; answers from another scene are dropped."""
        if self._scene is not scene and self._scene != scene:
            self._failed_searches.clear()
            self.scene += 1
        self._scene = scene

    def is_known_to_fail(self, key: object, place: Place) -> bool:
        """Whether a search for victims in this scene, where nothing has changed since, found none for the key."""
        known = self._failed_searches.get(key)
        if known is None or self._since(known, place):
            return False
        known.used = self._cycle
        return True

    def note_failed_search(self, key: object) -> None:
        """A search for victims, on nodes as they were when the cycle began, found none for the key."""
        if not self._lasting:
            return
        self._failed_searches[key] = _Known(self._cycle, self._version, ())
