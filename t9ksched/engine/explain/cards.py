"""Why divided cards have no room, in the words that users of such schedulers know: `3/8 CardInsufficientMemory`.

Of the cards of all nodes that have room for everything else, each is counted under the first thing that it lacks: now,
or with nothing on the nodes, where not even that would do.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.card_needs import CardNeed
from t9ksched.engine.card_parts import LARGEST, PartNeed
from t9ksched.engine.card_slots import SlotNeed
from t9ksched.engine.explain.words import amount, counted
from t9ksched.engine.placement.card_constraints import CARD_MEMORY, CARD_TYPE, CARD_UUID
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.model.card_requests import SUMS
from t9ksched.model.node import NodeFacts
from t9ksched.model.reasons import Code, Reason

MEMORY: Final = CARD_MEMORY
CORE: Final = "CardInsufficientCore"
CORDONED: Final = "CardCordoned"
UNHEALTHY: Final = "CardNotHealth"
COUNT: Final = "AllocatedCardsInsufficientRequest"
NUMA: Final = "NumaNotFit"
_MOST_NAMED: Final = 3
_HELPS: Final = {
    UNHEALTHY: "the cards work again that do not",
    CORDONED: "an administrator uncordons the cards (t9ksched nodes NODE uncordon --gpu I)",
    CARD_TYPE: "allow other models (nvidia.com/use-gputype, nouse-gputype)",
    CARD_UUID: "allow other cards (nvidia.com/use-gpuuuid, nouse-gpuuuid)",
    NUMA: "ask for fewer cards, or for such that are attached to several NUMA nodes",
}


def no_card(column: ClassFit) -> Reason | None:
    """Why the cards of nodes with room for all else do not suffice; None when that is not what is lacking."""
    found = _lacking(column, column.trial.free, column.here)
    if found is None:
        return None
    helps = ["pods that use these cards end"] if found.used else []
    if found.counts[MEMORY] or found.counts[CORE]:
        helps.append("ask for a smaller part of a card")
    return found.reason(column, Code.INSUFFICIENT_RESOURCES, found.said(sums=True), [*helps, *found.helps()])


def never_a_card(column: ClassFit) -> Reason | None:
    """Why they would not suffice with nothing on the nodes, those included that are away; None when that is not what
    is lacking. Cards that take no work for now may take some later.
    """
    found = _lacking(column, column.trial.nodes.static.allocatable, column.ever)
    if found is None:
        return None
    if found.withdrawn_would_do:
        return found.reason(column, Code.INSUFFICIENT_RESOURCES, found.said(), found.helps())
    helps = ["a node with larger cards is added, or ask for a smaller part of a card"] if found.counts[MEMORY] else []
    helps += ["ask for fewer cards on one node, or use more and smaller pods"] if found.counts[COUNT] else []
    return found.reason(column, Code.NEVER_FITS, found.said(), [*helps, *found.helps(back=False)])


def _lacking(column: ClassFit, free: Int64s, among: Mask) -> "_Lacking | None":
    """What the cards of nodes lack that have all else by these columns; None where other nodes have all else too."""
    able = among.copy()
    rows = column.trial.resource_rows
    sums = {rows.get(name) for name in SUMS}
    divided = {rows.get(need.of.resource): need.of.nodes for need in column.divided}
    offered = column.trial.nodes.static.allocatable
    for at, units in column.needs:
        if at in divided:
            able &= (free[at] >= units) | divided[at]  # their number is that of the places of all cards
        elif at in sums:
            able &= offered[at] > 0  # how much of it tells nothing of one card
        else:
            able &= free[at] >= units
    for need in column.divided:
        on = np.flatnonzero(able & need.of.nodes)
        if len(on) and not (able & ~need.of.nodes).any() and not need.fits(free, on).any():
            return _Lacking(column, need, free, on, among)
    return None


class _Lacking:
    """What the cards of some nodes lack of what one pod needs.

    Attributes:
        cards: how many cards they have.
        counts: by word, of how many this is the first thing that they lack.
        used: whether pods have taken of them.
        withdrawn_would_do: whether the pod would fit if the cards took work that take none.
    """

    def __init__(self, column: ClassFit, asked: CardNeed, free: Int64s, rows: Indices, among: Mask) -> None:
        self._slots = asked if isinstance(asked, SlotNeed) else None
        need, self._alone = _told(asked, free, rows)
        of, self._need = need.of, need
        out, facts = np.flatnonzero(of.withdrawn[rows]), column.trial.nodes.static.facts
        self._out: list[tuple[int, NodeFacts]] = [(at, facts[rows[at]]) for at in out.tolist()]
        """Nodes with cards that take no work, by their position."""
        self._on = len(rows)
        self._cores, self._memory = free[of.cores][:, rows], free[of.memory][:, rows]
        self._places = free[of.places][:, rows]
        self._rows = rows
        self._size, self._asked = of.size[:, rows], need.memory[:, rows]
        meant = self._asked < LARGEST
        usable = (self._size > 0) & meant
        cores = usable & (self._cores >= max(need.cores, 1))
        memory = usable & (self._memory >= self._asked)
        placed = cores & memory & (self._places > 0)
        self._meant, self._usable, self._with_cores, self._with_memory = meant, usable, cores, memory
        self._full = int((cores & memory & ~placed).sum())
        unhealthy = sum(len(one.unhealthy) for _, one in self._out)
        withdrawn = int(of.withdrawn[rows].sum())
        # Too few of them on each node, or on each NUMA node of one.
        groups = bool(need.groups) and int(placed.sum(axis=0).max(initial=0)) >= need.count
        self.cards = int(of.counts[rows].sum())
        self.counts = {
            UNHEALTHY: unhealthy,
            CORDONED: withdrawn - unhealthy,
            _mismatch(need): int(((self._size > 0) & ~meant).sum()),
            CORE: int((usable & ~cores).sum()),
            MEMORY: int((cores & ~memory).sum()),
            NUMA: int(placed.sum()) if groups else 0,
            COUNT: self._full + (0 if groups else int(placed.sum())),
        }
        empty = column.trial.nodes.static.allocatable
        self.used = bool(((free[of.cores] < empty[of.cores]) | (free[of.places] < empty[of.places]))[:, rows].any())
        self.withdrawn_would_do = withdrawn > 0 and self._would_do(placed)
        self._others = self._whole(column, free, among)
        self._beside = self._has_whole(column)

    def _would_do(self, placed: Mask) -> bool:
        """Whether some node has cards enough if those are counted that take no work now."""
        of = self._need.of
        for at, facts in self._out:
            sizes, wanted = facts.cards.divided[of.resource], self._asked[:, at].tolist()
            back = sum(wanted[one] <= sizes[one].memory for one in facts.cards.withdrawn.indices(of.resource))
            if back and (self._slots or int(placed[:, at].sum()) + back >= self._need.count):
                return True
        return False

    def _has_whole(self, column: ClassFit) -> bool:
        """Whether some node offers such cards whole, or slices of them, which is told apart."""
        at = column.trial.resource_rows[self._need.of.resource]
        return bool(((column.trial.nodes.static.allocatable[at] > 0) & ~self._need.of.nodes).any())

    def _whole(self, column: ClassFit, free: Int64s, among: Mask) -> str:
        """How many cards nodes have that give the same resource whole, in words; empty where none does."""
        resource = self._need.of.resource
        at = column.trial.resource_rows[resource]
        there = among & ~self._need.of.nodes & (column.trial.nodes.static.allocatable[at] > 0)
        if not there.any():
            return ""
        return f"; of nodes that give whole ones the best has {max(int(free[at][there].max()), 0)}"

    def said(self, *, sums: bool = False) -> str:
        """What is asked for, and how many cards lack what. With `sums` also that what several have does not add up."""
        need, counts = self._need, self.counts
        cards = ", ".join(f"{count}/{self.cards} {word}" for word, count in counts.items() if count)
        tail = ": room of several cards does not add up" if sums and (counts[CORE] or counts[MEMORY]) else ""
        best = [*self._best(), *self._named(UNHEALTHY, "not healthy"), *self._named(CORDONED, "cordoned")]
        if self._full:
            best.append(f"{self._full} {'has' if self._full == 1 else 'have'} no place for another container")
        cards = f"for container {self._alone} {cards}" if self._alone else cards
        found = f"needs {self._each()}; {cards}{tail}" + (f"; {', '.join(best)}" if best else "")
        return found + (self._others if need.whole or need.count > 1 or self._slots else "")

    def _best(self) -> list[str]:
        """What the cards have at best of what others lack."""
        best = []
        if self.counts[CORE] and self._with_memory.any():
            most = max(int(self._cores[self._with_memory].max()), 0) / 10
            best.append(f"of cards with the memory the best has {most:g} % of its cores free")
        if self.counts[MEMORY] and self._with_cores.any():
            most = max(int(self._memory[self._with_cores].max()), 0)
            best.append(f"of cards with the cores the best has {most} MiB free")
        if self.counts[MEMORY] and not (self._usable & (self._size >= self._asked)).any():
            apart = "divided one " if self._beside else ""
            best = [f"the largest {apart}has {int(self._size[self._usable].max(initial=0))} MiB"]
        return best

    def _each(self) -> str:
        need = self._need
        if self._slots is not None:
            return f"{', '.join(self._containers(self._slots))} on cards of one node"
        if need.whole:
            each = ("a whole card" if need.count == 1 else f"{need.count} whole cards") + self._least(need)
        else:
            part = _part(need, self._wanted(need))
            each = f"{part} on each of {need.count} cards" if need.count > 1 else f"{part} on one card"
        return each + (" that are attached to one NUMA node" if need.groups else "") + " of a node"

    def _containers(self, slots: SlotNeed) -> Iterator[str]:
        """What each container asks for."""
        for request, one in zip(slots.requests, slots.each, strict=True):
            part = f"a whole card{self._least(one)}" if one.whole else _part(one, self._wanted(one))
            yield f"{part}{f' of each of {one.count}' if one.count > 1 else ''} for container {request.container}"

    def _wanted(self, need: PartNeed) -> Int64s:
        """The memory in MiB that is wanted of cards that will do, of such as can be used if there are any."""
        asked = need.memory[:, self._rows]
        meant = asked < LARGEST
        for those in (meant & self._usable, meant):
            if those.any():
                return asked[those]
        return need.least[:, self._rows]

    def _least(self, need: PartNeed) -> str:
        """How much memory whole cards must have, in words; empty where that is not said."""
        least = int(need.least[:, self._rows].max(initial=0))
        return f" with {least} MiB" + (" each" if need.count > 1 else "") if least else ""

    def _named(self, word: str, what: str) -> list[str]:
        """Which cards take no work for that cause, and why, if there are such."""
        if not self.counts[word]:
            return []
        found = []
        for _, facts in self._out:
            for at in facts.cards.withdrawn.indices(self._need.of.resource):
                if (at in facts.unhealthy) == (word == UNHEALTHY):
                    why = facts.unhealthy.get(at) or facts.why_cordoned.get(at)
                    found.append(f"card {at} of {facts.name}" + (f" ({why})" if why else ""))
        more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
        return [f"{what}: {'; '.join([*found[:_MOST_NAMED], *more])}"]

    def helps(self, *, back: bool = True) -> list[str]:
        """What would help with cards that are large enough; with `back` also with those that take no work."""
        withdrawn = () if back else (UNHEALTHY, CORDONED)
        return [help for word, help in _HELPS.items() if self.counts.get(word) and word not in withdrawn]

    def reason(self, column: ClassFit, code: Code, message: str, helps: list[str]) -> Reason:
        """The reason with this code and these words."""
        resource = self._need.of.resource
        match, nodes = int((column.ever if code == Code.NEVER_FITS else column.mask).sum()), self._on
        return Reason(
            code,
            f"{message}; {counted(nodes, 'node')} with such cards",
            {resource: self._need.count},
            nodes={"match": match, "fit": 0},
            unblocks=tuple(helps) or (f"{amount(resource, self._need.count)} more on one node",),
        )


def _told(asked: CardNeed, free: Int64s, rows: Indices) -> tuple[PartNeed, str]:
    """What cards are looked at for, and the container if it is that of one of several. The largest of those that find
    none on any node, each by itself, else the smallest: a card that has room for that does not lack it.
    """
    if not isinstance(asked, SlotNeed):
        return asked, ""
    none = [
        (one, request.container)
        for one, request in zip(asked.each, asked.requests, strict=True)
        if not one.fits(free, rows).any()
    ]
    if not none:
        return asked.smallest, ""
    return max(none, key=lambda one: (one[0].cores, int(one[0].memory[:, rows].min())))


def _mismatch(need: PartNeed) -> str:
    """Why a card will not do."""
    return CARD_UUID if need.only is not None and (need.only.uuids or need.only.no_uuids) else CARD_TYPE


def _part(need: PartNeed, sizes: Int64s) -> str:
    """What is asked of one card, in words; `sizes` in MiB on each card that will do."""
    least, most = int(sizes.min(initial=LARGEST)), int(sizes.max(initial=0))
    memory = f"{least} MiB" if least >= most else f"{least} to {most} MiB"
    if need.percent and least == 1:  # a part of cards that take no work
        memory = f"{need.percent} % of the memory"
    return f"{need.cores / 10:g} % of the cores and {memory}" if need.cores else memory
