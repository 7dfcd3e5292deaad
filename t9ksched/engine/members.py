"""Which waiting members make up a gang's minimum, which are above it, and of which kinds they are."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, overload

from msgspec import structs

from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang, Labels, Member
from t9ksched.model.podclass import PodClass


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
        if missing == len(waiting):
            return waiting, [], True
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
_SOME: Final = 1024
"""So many members are looked at in one step."""
_A_MEMBER: Final = 10
"""Units of work to look at a member."""


class MemberKind(NamedTuple):
    """Members of one class with the same labels, by identity of both, and how many they are."""

    pod_class: PodClass
    labels: Labels
    pods: int


class Many(tuple[Member, ...]):
    """Many members that know their kinds, in the order in which they first appear."""

    kinds: Sequence[MemberKind]


def with_kinds(members: Iterable[Member]) -> tuple[Member, ...]:
    """These members; if they are many, their kinds are found once: a cycle that asks does not look at each of them."""
    found = tuple(members)
    if len(found) >= _MANY:
        found = Many(found)
        found.kinds = _merged(_runs(found))
    return found


def kinds(members: Sequence[Member], meter: Meter) -> Work[Sequence[MemberKind]]:
    """The kinds of these members, in the order in which they first appear."""
    if type(members) is Many:
        return members.kinds
    if type(members) is OfClass:
        before = yield from kinds(members.members, meter)
        return [one._replace(pod_class=members.pod_class) for one in before]
    runs: list[MemberKind] = []
    for first in range(0, len(members), _SOME):
        runs += _runs(members[first : first + _SOME])
        meter.spent += _A_MEMBER * min(_SOME, len(members) - first)
        if meter.due():
            yield
    return _merged(runs)


def _runs(members: Sequence[Member]) -> list[MemberKind]:
    """Members of one kind that follow each other: most gangs have few such runs, so that little is looked up."""
    runs: list[MemberKind] = []
    pod_class, labels, begun = members[0].pod_class, members[0].labels, 0
    for at, member in enumerate(members):
        if member.labels is not labels or member.pod_class is not pod_class:
            runs.append(MemberKind(pod_class, labels, at - begun))
            pod_class, labels, begun = member.pod_class, member.labels, at
    runs.append(MemberKind(pod_class, labels, len(members) - begun))
    return runs


def _merged(runs: Sequence[MemberKind]) -> Sequence[MemberKind]:
    if len(runs) < 2:
        return runs
    found: dict[tuple[int, int], MemberKind] = {}
    for run in runs:
        key = id(run.pod_class), id(run.labels)
        known = found.get(key)
        found[key] = run if known is None else known._replace(pods=known.pods + run.pods)
    return list(found.values())


def alike(members: Sequence[Member]) -> bool:
    """Whether all are of one class."""
    if type(members) is OfClass:
        return True
    if type(members) is Many:
        first = members.kinds[0].pod_class
        return all(one.pod_class is first for one in members.kinds)
    first = members[0].pod_class
    for member in members:  # noqa: SIM110 - asked of every gang: `all` takes twice as long
        if member.pod_class is not first:
            return False
    return True


class OfClass(Sequence[Member]):
    """Members that all have another class than they came with: each is made when it is asked for."""

    __slots__ = ("members", "pod_class")

    def __init__(self, members: Sequence[Member], pod_class: PodClass) -> None:
        self.members, self.pod_class = members, pod_class

    def __len__(self) -> int:
        return len(self.members)

    @overload
    def __getitem__(self, at: int) -> Member: ...
    @overload
    def __getitem__(self, at: slice) -> "OfClass": ...
    def __getitem__(self, at: int | slice) -> "Member | OfClass":
        if isinstance(at, slice):
            return OfClass(self.members[at], self.pod_class)
        return structs.replace(self.members[at], pod_class=self.pod_class)

    def __iter__(self) -> Iterator[Member]:
        return (Member(one.uid, one.name, one.role, self.pod_class, one.labels) for one in self.members)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Sequence) and tuple(self) == tuple(other))

    def __hash__(self) -> int:
        return hash(tuple(self))
