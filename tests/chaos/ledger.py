"""Which cards our bindings gave to pods, as it stood in each binding: annotations are users' to edit afterwards.

A card of a node that honours indices is given to one living pod at a time, whatever annotations say, across restarts
and outages. At the moment of a binding there, its row stands in SQL. Only what a gang in part lacks may be bound
without, when the database failed lately.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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


class CardLedger:
    """`row` reads the node and the cards of a pod's row in SQL, by UID; `trouble` says whether the database failed
    lately.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.row: Callable[[str], tuple[str, frozenset[int]] | None] = lambda uid: None
        self.trouble: Callable[[], bool] = lambda: False
        self.given: dict[str, Given] = {}
        """By UID, of pods that there are."""

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
        for other in living:
            uid = other["metadata"]["uid"]
            has = self.given.get(uid)
            if has is not None and uid != meta["uid"] and has.node == node and (twice := cards & has.cards):
                self._say(f"{key} was given cards {sorted(twice)} of {node}, which {has.key} holds")
        row = self.row(meta["uid"])
        if row is None and not (in_part and self.trouble()):
            self._say(f"{key} was bound to {node}, and which cards it gets stands nowhere in SQL")
        elif row is not None and row != (node, cards):
            self._say(f"{key} was bound to {node} with cards {sorted(cards)}, in SQL stands {row[0]}, {sorted(row[1])}")

    def gone(self, uid: str) -> None:
        """There is no such pod any more."""
        self.given.pop(uid, None)

    def as_bound(self, pod: Object) -> Object:
        """The pod with the card annotations of its binding, whatever they say by now."""
        given = self.given.get(pod["metadata"]["uid"])
        if given is None:
            return pod
        meta = pod["metadata"]
        others = {k: v for k, v in (meta.get("annotations") or {}).items() if not k.startswith((ASKED, GIVEN))}
        return pod | {"metadata": meta | {"annotations": others | given.annotations}}
