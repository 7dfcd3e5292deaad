"""What turns find, remembered by kind, so that gangs like those that had one can be told without (`told_again.py`)."""

from typing import TYPE_CHECKING
from weakref import proxy

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.actions.one_kind import takes_several
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.members import alike
from t9ksched.engine.scheduling_key import SchedulingKey, fewest_cards
from t9ksched.engine.wait_kinds import NO_ROOM_HELPS, Kind, Reasons, Signature, hopeless
from t9ksched.engine.work import finish
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code

if TYPE_CHECKING:
    from t9ksched.engine.actions.told_again import ToldAgain


class Learning:
    """Learns from the turns of one cycle."""

    def __init__(self, cycle: Cycle, told: "ToldAgain") -> None:
        self._cycle = cycle
        self._told: ToldAgain = proxy(told)  # which keeps this
        self._past = cycle.waits

    def learn(self, gang: Gang, key: SchedulingKey, reasons: Reasons) -> None:
        """The gang had its turn, and waits for these reasons."""
        cycle = self._cycle
        if not self._told.is_latest or len(key.groups) > 1 or not self._told.looks_up(gang.queue):
            return
        signature = signature_of(gang, cycle)
        if signature is None:
            return
        column = key.groups[0][0]
        easy = gang.topology in ("None", "Preferred")
        nowhere = easy and hopeless(reasons) and _is_kept_out(key)
        if key.ruled and not nowhere and (column.shuts or column.total() or hopeless(reasons)):
            return  # where its pods may go, or whether they ever may, depends on where pods stand
        collects = cycle.starving is not None and cycle.starving.has(gang)
        if collects or self._told.holds(gang.uid):
            self._learn_of_own_room(signature, gang, key, reasons)
            return
        answer = cycle.failures.answer(key)
        if not (answer.over_quota or answer.no_room) or not self._told.follow():
            return
        kind = self._kind(signature, gang.queue, key)
        if kind.valid and kind.cycle == self._told.number:
            return  # another gang of the kind was asked in this cycle, and this one needed its own turn
        kind.begin(self._told.number, key.demand, fewest_cards(key.groups))
        kind.told = answer.over_quota[1:] if answer.over_quota else answer.no_room
        kind.alone, kind.kept = easy and (key.plain or nowhere), self._told.room.kept
        kind.fixed = kind.alone and len(kind.told) == 1 and kind.told[0].code in NO_ROOM_HELPS
        if not kind.fixed and _is_counted(key):
            self._count(kind, key)
            lacks = kind.lacks()
            if answer.over_quota:
                kind.counted = kind.told == lacks
            elif kind.alone:
                kind.counted = self._told.room.no_room(kind) == kind.told
            else:
                codes = {reason.code for reason in kind.told}
                kind.counted = all(one in kind.told for one in lacks) and Code.HELD_FOR_OTHER not in codes
        kind.valid = True
        if answer.over_quota:
            kind.valid = (kind.counted or kind.fixed) and self._told.is_short(kind)
            kind.valid = kind.valid and (kind.over_quota, *self._told.lacks(kind)) == answer.over_quota
            if not (kind.fixed or kind.alone):
                kind.told = ()  # what it is told while its queue can pay is not known
        if cycle.advance is not None or cycle.planned is not None:
            # What else they are told may be what is reserved or planned now, for gangs that end as late as this one.
            kind.valid = kind.valid and (kind.counted or kind.fixed)
        kind.learned()
        known = answer.no_victims and not key.ruled and cycle.advance is None
        known = known and cycle.failures.is_known_to_fail(gang, key)
        kind.searched = (cycle.failures.past.scene, gang.priority, kind.shared.changed) if known else None

    def _learn_of_own_room(self, signature: Signature, gang: Gang, key: SchedulingKey, reasons: Reasons) -> None:
        """What a gang that waits for its victims, or collects room, is told may follow from the numbers of its kind,
        too.
        """
        told, starving = self._told, self._cycle.starving
        collects = starving is not None and starving.has(gang)
        if collects == told.holds(gang.uid) or (told.room.kept and not collects):
            return
        if not (key.plain and gang.topology in ("None", "Preferred") and _is_counted(key)):
            return
        if not self._told.follow():
            return
        kind = self._kind(signature, gang.queue, key)
        if not kind.valid:
            lacks = finish(explain.lacking(key.groups))
            if not (lacks or reasons[0].code is Code.QUOTA_EXCEEDED) or hopeless(lacks):
                return
            kind.begin(self._told.number, key.demand, fewest_cards(key.groups))
            kind.told, kind.alone = (), True
            self._count(kind, key)
            kind.counted = kind.valid = lacks == kind.lacks()
            kind.searched = None
        if not (kind.valid and kind.counted and kind.alone):
            return
        if starving is not None and collects:
            agrees = told.collecting.agrees(gang, kind, starving, reasons)
        else:
            agrees = told.promised.agrees(gang, kind, reasons)
        if not agrees:
            kind.invalidate()

    def _kind(self, signature: Signature, queue: str, key: SchedulingKey) -> Kind:
        ((column, pods),) = key.groups
        return self._past.learn(signature, key.ident, queue, column.pod_class, pods, column.mask)

    def _count(self, kind: Kind, key: SchedulingKey) -> None:
        """Note the numbers."""
        ((column, pods),) = key.groups
        rooms = column.rooms()
        kind.needs, kind.match = column.needs, int(column.mask.sum())
        kind.total, kind.fit = column.total(), int(np.minimum(rooms, pods).sum())
        kind.able = int((rooms > 0).sum())
        kind.empty = column.total_empty()
        kind.away = explain.takes_none(column) or ()
        kind.counted = True


def _is_counted(key: SchedulingKey) -> bool:
    """Whether only numbers that are followed decide how many of its pods fit on each node."""
    ((column, _),) = key.groups
    if column.shuts or column.part_needs or not column.known:
        return False
    return not any(column.mask[row] for row in column.trial.nodes.static.cordoned_rows)


def _is_kept_out(key: SchedulingKey) -> bool:
    """Whether no node may take its pods by what the nodes are alone, so that where pods stand is nothing to them: other
    pods that keep away from them, or want to be near them, do not matter.
    """
    ((column, _),) = key.groups
    return not (column.pod_class.rules or column.shuts or column.part_needs or column.mask.any())


def signature_of(gang: Gang, cycle: Cycle) -> Signature | None:
    """What gangs of a kind have in common; None for one to which more may matter than room and quota, and what is
    reserved from it, or whose pods are to be narrowed to one kind of cards of several.
    """
    members = gang.waiting
    if not members or not (gang.min_member == gang.total == len(members)):
        return None
    if gang.roles or gang.placed or gang.refilling or gang.reservation or not alike(members):
        return None
    if len(members) > 1 and takes_several(cycle, members[0].pod_class, gang.queue):
        return None
    alone = gang.topology == "None"
    together = () if alone else (gang.topology, gang.levels, gang.nodes)
    profile = cycle.advance.profile(gang) if cycle.advance is not None else ()
    levels = () if alone else gang.levels
    return Signature(gang.queue, levels, together, id(members[0].pod_class), len(members), profile)
