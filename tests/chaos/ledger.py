"""Which cards our bindings gave to pods, as it stood in each binding: annotations are users' to edit afterwards.

A card of a node that honours indices is given to one living pod at a time, whatever annotations say, across restarts
and outages. At the moment of a binding there, its row stands in SQL, and goes on standing there as long as the pod
does. Only what a gang in part lacks may be bound without, when the database failed lately: its row is written once the
database answers. If the scheduler that bound it ends before, no other can know its cards: the node gives none of its
cards until that pod is gone, and then it gives them all.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from t9ksched.devcluster.audit.auditor import amount

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
ASKED = "scheduler.tensorstack.dev/gpu-index-container-"
GIVEN = "devcluster.tensorstack.dev/cards-container-"


def containers(pod: Object) -> list[str]:
    """The containers of a pod that ask for cards."""
    asked = ((c["name"], (c.get("resources") or {}).get("limits") or {}) for c in pod["spec"].get("containers") or ())
    return [name for name, limits in asked if amount(limits.get(GPU, 0))]


@dataclass(frozen=True)
class Given:
    """What one binding gave: the annotations that it wrote, and the cards that they name."""

    key: str
    node: str
    annotations: dict[str, str]
    cards: frozenset[int]


class Binder(Protocol):
    """A scheduler that binds pods."""

    @property
    def alive(self) -> bool: ...


class CardLedger:
    """`row` reads the node and the cards of a pod's row in SQL, by UID; `trouble` says whether the database failed
    lately; `complete` whether SQL is said to have the rows of all pods that hold cards.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.row: Callable[[str], tuple[str, frozenset[int]] | None] = lambda uid: None
        self.trouble: Callable[[], bool] = lambda: False
        self.complete: Callable[[], bool] = lambda: True
        self.given: dict[str, Given] = {}
        """By UID, of pods that there are."""
        self.binders: dict[str, Binder] = {}
        """Who asked last for a pod to be bound, by its UID."""
        self.unwritten: set[str] = set()
        """UIDs of pods that were bound without a row."""

    def bound(self, key: str, pod: Object, living: Iterable[Object], *, in_part: bool) -> None:
        """A pod was bound by us to a node that honours indices; `living` are the pods that hold places, `in_part` says
        that its gang stands below its minimum with other members bound.
        """
        meta, node = pod["metadata"], pod["spec"]["nodeName"]
        written = {k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith(ASKED)}
        if not containers(pod):
            return
        cards = frozenset(int(part) for text in written.values() for part in re.findall("[0-9]+", text))
        self.given[meta["uid"]] = Given(key, node, written, cards)
        others = [other for other in living if other["metadata"]["uid"] != meta["uid"]]
        for other in others:
            has = self.given.get(other["metadata"]["uid"])
            if has is not None and has.node == node and (twice := cards & has.cards):
                self._say(f"{key} was given cards {sorted(twice)} of {node}, which {has.key} holds")
        for lost in self.lost(node, others, self.binders.get(meta["uid"])):
            self._say(f"{key} was given cards of {node}, and which of them {lost} holds is on no record")
        row = self.row(meta["uid"])
        if row is None and not (in_part and self.trouble()):
            self._say(f"{key} was bound to {node}, and which cards it gets stands nowhere in SQL")
        elif row is not None and row != (node, cards):
            self._say(f"{key} was bound to {node} with cards {sorted(cards)}, in SQL stands {row[0]}, {sorted(row[1])}")
        if row is None and self.complete():
            self.unwritten.add(meta["uid"])

    def lost(self, node: str, living: Iterable[Object], now: Binder | None = None) -> list[str]:
        """Keys of the pods on the node whose cards cannot be known: they have no row, and the process that bound them
        has ended, or another than it acts `now`.
        """
        found = []
        for pod in living:
            uid = pod["metadata"]["uid"]
            if uid in self.unwritten and self.given[uid].node == node and self._on_record(uid) is None:
                binder = self.binders.get(uid)
                if binder is None or not binder.alive or (now is not None and binder is not now):
                    found.append(self.given[uid].key)
        return found

    def _on_record(self, uid: str) -> tuple[str, frozenset[int]] | None:
        """A pod's row, None for one without cards too: it says only to which group the pod belongs."""
        row = self.row(uid)
        return row if row is not None and row[1] else None

    def at_rest(self, living: Iterable[Object]) -> list[str]:
        """What is wrong with the rows of these pods, which hold places, long after the last fault."""
        found = []
        for pod in living:
            uid = pod["metadata"]["uid"]
            given, row = self.given.get(uid), self._on_record(uid)
            if given is None:
                continue
            if row is not None and row != (given.node, given.cards):
                found.append(f"{given.key} holds {sorted(given.cards)} of {given.node}, in SQL stands {row}")
            elif row is None and uid not in self.unwritten and self.complete():
                found.append(f"which cards {given.key} holds stood in SQL, and stands there no more")
            elif row is None and uid in self.unwritten and not self.lost(given.node, [pod]):
                found.append(f"which cards {given.key} holds was not written when the database answered")
        return found

    def gone(self, uid: str) -> None:
        """There is no such pod any more."""
        self.given.pop(uid, None)
        self.binders.pop(uid, None)
        self.unwritten.discard(uid)

    def as_bound(self, pod: Object) -> Object:
        """The pod with the card annotations of its binding, whatever they say by now."""
        given = self.given.get(pod["metadata"]["uid"])
        if given is None:
            return pod
        meta = pod["metadata"]
        others = {k: v for k, v in (meta.get("annotations") or {}).items() if not k.startswith((ASKED, GIVEN))}
        return pod | {"metadata": meta | {"annotations": others | given.annotations}}
