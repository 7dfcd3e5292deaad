"""Gangs in queues with a quota of cards: what their pods would have decides, node by node, not the most that they may.

How much of cards a pod has may depend on its node: a card here, a slice there, of a percentage the larger part of a
smaller card. Where a queue cannot pay for the most, the classes of a gang are narrowed to nodes on which it can, before
the gang is tried: to the most that all pods of a class may have, or, where there is too little room on such nodes, to
some pods on those where they have least, and others where they have more.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import structs

from t9ksched.engine.actions.fit import fit
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.explain.room import impossible
from t9ksched.engine.members import alike, chosen
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import Attempt, Group
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Work
from t9ksched.model.card_worth import unbounded
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.gang import Gang, Member
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARDS

_CLASSES: Final = 4096
_MOST_PODS: Final = 1 << 20
"""So many pods fit on a node at most, as far as it matters here."""
Bounds = Mapping[PodClass, Sequence[tuple[int, int]]]
"""By class, what so many of its pods may have at most: amount and number; the last number stands for all others too."""


class Affordable:
    """Narrows the classes of a cycle's gangs. Amounts are in parts of `quantity.CARD`."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._tried: dict[SchedulingKey, tuple[int, bool]] = {}
        """Whether there was room for a key, with the state of the trial then."""
        self._settled: dict[tuple[str, int, int], tuple[tuple[int, ...], Bounds | None, PodClass]] = {}
        """Of gangs of one class, by queue, identity of the class and number: the answer, and what it depends on."""
        self._promised: dict[str, dict[PodClass, list[tuple[int, int]]]] | None = None

    @classmethod
    def of(cls, cycle: Cycle) -> "Affordable | None":
        """None where no quota counts cards."""
        return None if cycle.trial.worths is None else cls(cycle)

    def settle(self, gang: Gang) -> Work[Gang]:
        """The gang, its members narrowed to nodes where its queue can pay for its minimum, if that depends on nodes."""
        limits = self._limits(gang)
        members, rest, enough = chosen(gang)
        if limits is None or not members or not enough:
            return gang
        had = self._of_promises().get(gang.uid)
        if had is not None or rest or gang.topology != "None" or not alike(members):
            bounds = yield from self._bounds(gang, members, limits, had)
        else:  # gangs that are alike get the same answer while nothing is placed
            cycle, of = self._cycle, members[0].pod_class
            ident, state = (gang.queue, id(of), len(members)), (cycle.ledger.version, cycle.trial.state, *limits)
            known = self._settled.get(ident)
            if known is None or known[0] != state:
                bounds = yield from self._bounds(gang, members, limits, had)
                known = self._settled[ident] = state, bounds, of
            bounds = known[1]
        return _narrowed(gang, bounds) if bounds else gang

    def _bounds(
        self, gang: Gang, members: Sequence[Member], limits: tuple[int, int], had: Bounds | None
    ) -> Work[Bounds | None]:
        """To what the gang is narrowed, None for no narrowing; `had` is to what its promised or planned room is."""
        left, whole = limits
        key = yield from self._cycle.keys.of(gang, members)
        if not self.differs(key):
            return None
        asked = key.demand[CARDS]
        if asked <= left and (had is None or (yield from self._fits(gang))):
            return None
        even = self._evenly(key.groups, left) if asked > left else None
        for bounds in (even, self._by_room(gang.queue, key.groups, left) if asked > left else None):
            if bounds and (yield from self._fits(_narrowed(gang, bounds))):
                return bounds
        if had is not None:
            return had
        if even and (yield from self._could(_narrowed(gang, even))):
            return even
        ever = self._evenly(key.groups, whole) if asked > whole else None
        return ever if ever and (yield from self._could(_narrowed(gang, ever))) else None

    def differs(self, key: SchedulingKey) -> bool:
        """Whether how much of cards a gang with this key has depends on its nodes, or would without its narrowing."""
        return key.bounded or any(len(column.card_levels) > 1 for column, _ in key.groups)

    def pays(self, gang: Gang, *, ever: bool = False) -> Work[bool]:
        """Whether the queue can pay for the minimum of a gang, narrowed or not; with `ever` if it had its whole quota,
        and its pods were where they have least.
        """
        limits, members = self._limits(gang), chosen(gang)[0]
        if limits is None or not members:
            return True
        key = yield from self._cycle.keys.of(gang, members)
        if ever:
            return self._evenly(key.groups, limits[1]) is not None
        return key.demand.get(CARDS, 0) <= limits[0]

    def above(self, gang: Gang, members: Sequence[Member]) -> list[Member]:
        """Members above the minimum, as many of them as its queue can pay for narrowed to nodes where it can."""
        limits, column_of = self._limits(gang), self._cycle.keys.column
        if limits is None:
            return list(members)
        left, found = limits[0], list(members)
        rooms: dict[ClassFit, list[tuple[int, int]]] = {}
        for at, member in enumerate(found):
            column = column_of(gang.queue, member.pod_class)
            levels = column.card_levels
            if len(levels) < 2:
                left -= levels[0] if levels else 0
                continue
            if column not in rooms:
                rooms[column] = self._rooms(gang.queue, column)
            cheap = next((level for level, room in rooms[column] if room > 0), levels[0])
            if cheap > left:
                continue
            rooms[column] = [(level, room - (level == cheap)) for level, room in rooms[column]]
            bound = cheap if levels[-1] * (len(found) - at) > left else levels[-1]
            found[at] = structs.replace(member, pod_class=_bounded(member.pod_class, bound))
            left -= bound
        return found

    def _limits(self, gang: Gang) -> tuple[int, int] | None:
        """What is left of cards for the gang in the accounts that pay for it, and all that there would be; None where
        none of them counts cards.
        """
        cycle = self._cycle
        caps = [(cap - held, cap) for _, name, cap, held in cycle.ledger.limits(gang.queue) if name == CARDS]
        if not caps:
            return None
        own = cycle.promised.get(gang.uid, {}).get(CARDS, 0)  # its queue pays for that already
        if gang.uid in cycle.refills.paid and not cycle.refills.opened(gang):
            own += cycle.refills.paid[gang.uid][1].get(CARDS, 0)
        return min(left for left, _ in caps) + own, min(cap for _, cap in caps)

    def _rooms(self, queue: str, column: ClassFit) -> list[tuple[int, int]]:
        """How many pods fit now by numbers where each may have such an amount, ascending, and no less."""
        levels, fit, found = column.card_levels, 0, []
        for level in levels:
            bound = column if level == levels[-1] else self._cycle.keys.column(queue, _bounded(column.pod_class, level))
            rooms = int(np.minimum(bound.rooms(), _MOST_PODS).sum())
            found.append((level, max(rooms - fit, 0)))
            fit = max(rooms, fit)
        return found

    def _evenly(self, groups: Sequence[Group], left: int) -> Bounds | None:
        """The most that all pods of each class may have so that `left` suffices; None where not even the least does."""
        levels = [column.card_levels or [0] for column, _ in groups]
        at = [len(one) - 1 for one in levels]
        while sum(one[nth] * pods for one, nth, (_, pods) in zip(levels, at, groups, strict=True)) > left:
            saves = [
                (one[nth] - one[nth - 1]) * pods if nth else 0
                for one, nth, (_, pods) in zip(levels, at, groups, strict=True)
            ]
            if not any(saves):
                return None
            at[saves.index(max(saves))] -= 1
        return {
            column.pod_class: [(one[nth], pods)]
            for one, nth, (column, pods) in zip(levels, at, groups, strict=True)
            if nth < len(one) - 1
        }

    def _by_room(self, queue: str, groups: Sequence[Group], left: int) -> Bounds | None:
        """The most that pods of each class have if they fill the room where they have least; None where `left` does not
        suffice for that, and where all pods of each class have as much.
        """
        found: dict[PodClass, list[tuple[int, int]]] = {}
        for column, pods in groups:
            levels = column.card_levels
            if len(levels) < 2:
                left -= (levels[0] if levels else 0) * pods
                continue
            rest = pods
            for level, room in self._rooms(queue, column):
                if rest and room:
                    found.setdefault(column.pod_class, []).append((level, min(room, rest)))
                    rest -= min(room, rest)
            if rest:
                return None
            left -= sum(level * count for level, count in found[column.pod_class])
        return found if left >= 0 and any(len(one) > 1 for one in found.values()) else None

    def _fits(self, gang: Gang) -> Work[bool]:
        """Whether there is room for the minimum now."""
        cycle, trial = self._cycle, self._cycle.trial
        key = yield from cycle.keys.of(gang, chosen(gang)[0])
        state, found = self._tried.get(key, (-1, False))
        if state != trial.state:
            mark = trial.mark()
            found = (yield from fit(cycle, gang, key)) is Attempt.PLACED
            trial.undo(mark)
            self._tried[key] = trial.state, found
        return found

    def _could(self, gang: Gang) -> Work[bool]:
        """Whether there would be, if nothing ran."""
        key = yield from self._cycle.keys.of(gang, chosen(gang)[0])
        return all(impossible(column, pods) is None for column, pods in key.groups)

    def _of_promises(self) -> Mapping[str, Bounds]:
        """To what the classes of promised and planned room are narrowed, by UID of the gang."""
        if self._promised is None:
            self._promised = {}
            for one in self._cycle.view.reservations:
                choice = one.pod_class.choice
                if choice is not None and choice.most_cards:
                    bounds = self._promised.setdefault(one.owner, {})
                    bounds.setdefault(unbounded(one.pod_class), []).append((choice.most_cards, 1))
        return self._promised


def _narrowed(gang: Gang, bounds: Bounds) -> Gang:
    dealt = {of: _deal(each) for of, each in bounds.items()}
    picked = {one.uid for one in chosen(gang)[0]}
    last = {of: each[-1][0] for of, each in bounds.items()}
    waiting = []
    for one in gang.waiting:
        of = one.pod_class
        if of in dealt:
            bound = next(dealt[of], last[of]) if one.uid in picked else last[of]
            one = structs.replace(one, pod_class=_bounded(of, bound))
        waiting.append(one)
    return structs.replace(gang, waiting=tuple(waiting))


def _deal(each: Sequence[tuple[int, int]]) -> Iterator[int]:
    for amount, count in each:
        yield from [amount] * count


@lru_cache(maxsize=_CLASSES)
def _bounded(pod_class: PodClass, most: int) -> PodClass:
    """The class on nodes where it has no more. The same object for the same class: keys of gangs are found by it."""
    return replace(pod_class, choice=replace(pod_class.choice or CardChoice(), most_cards=most))
