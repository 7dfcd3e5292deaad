"""Which waiting members make up a gang's minimum, and which are above it."""

from collections.abc import Sequence
from typing import Final

from t9ksched.model.gang import Gang, Member


def chosen(gang: Gang) -> tuple[Sequence[Member], list[Member], bool]:
    """The waiting members that complete the minimum, the members above it, and whether the minimum is complete with
    them.

    Members of a role that is below its minimum come first, then the others in their order.
    """
    waiting = gang.waiting
    if gang.min_member == gang.total == len(waiting) and not gang.roles and not gang.placed:
        return waiting, [], True
    placed = sum(count for _, count in gang.placed) if gang.placed else 0
    missing = max(0, gang.min_member - placed)
    if not gang.roles:
        if gang.total < gang.min_member or len(waiting) < missing:
            return waiting, [], False
        return waiting[:missing], list(waiting[missing:]), True
    there = dict(gang.placed)
    short = {role: max(0, minimum - there.get(role, 0)) for role, minimum in gang.roles}
    if gang.total < gang.min_member:
        return waiting, [], False
    picked: list[bool] = []
    for member in waiting:
        wanted = short.get(member.role, 0) > 0
        if wanted:
            short[member.role] -= 1
        picked.append(wanted)
    if any(short.values()):
        return waiting, [], False
    left = missing - sum(picked)
    for at in range(len(picked)):
        if left > 0 and not picked[at]:
            picked[at] = True
            left -= 1
    if left > 0:
        return waiting, [], False
    members = [member for member, is_picked in zip(waiting, picked, strict=True) if is_picked]
    rest = [member for member, is_picked in zip(waiting, picked, strict=True) if not is_picked]
    return members, rest, True


_MANY: Final = 256
_latest: tuple[Sequence[Member], bool] = ((), True)
"""Of the last many members that were asked about, the answer: a cycle asks for each gang several times."""


def alike(members: Sequence[Member]) -> bool:
    """Whether all are of one class."""
    global _latest
    if len(members) < _MANY:
        return _alike(members)
    known = _latest
    if known[0] is not members:
        known = _latest = members, _alike(members)
    return known[1]


def _alike(members: Sequence[Member]) -> bool:
    first = members[0].pod_class
    for member in members:  # noqa: SIM110 - asked of every gang: `all` takes twice as long
        if member.pod_class is not first:
            return False
    return True
