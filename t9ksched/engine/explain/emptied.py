"""The nodes that kinds of pods may use with nothing on them, and what of the pods these could not take together.

What is said here is proved by numbers, each of which is the most that could be. Where they prove nothing, pods may have
no way to fit together all the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.explain.together import fit_together
from t9ksched.engine.explain.words import amount, counted, matching, wants
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.work import Work
from t9ksched.model.podrules import PodTerm
from t9ksched.model.quantity import from_units
from t9ksched.model.reasons import Code, Reason

_MOST_KINDS: Final = 8
"""Of gangs with more kinds of pods only all together are looked at."""
_MOST_NAMED: Final = 3
_MOST_KEPT: Final = 1024


class Emptied:
    """Groups of pods on such nodes.

    Attributes:
        groups: classes of pods, and how many there are of each.
        trial: what they are looked at on.
        rooms: for each group how many of its pods each node takes then, shape (nodes,).
        match: which nodes match.
        ever: whether those that are away are among them.
    """

    def __init__(self, groups: Sequence[Group], rooms: Sequence[Int64s], match: Sequence[Mask], *, ever: bool) -> None:
        self.groups = groups
        self.ever = ever
        self.rooms = rooms
        self.match = match
        self.trial = groups[0][0].trial

    @classmethod
    def of(cls, groups: Sequence[Group], *, ever: bool) -> Work["Emptied"]:
        """The nodes that the groups may use, those that are away among them or not."""
        rooms: list[Int64s] = []
        match: list[Mask] = []
        for column, _ in groups:
            rooms.append(column.rooms_ever() if ever else column.rooms_empty())
            match.append(column.ever if ever else column.mask)
            column.trial.meter.spent += len(column.needs) * len(column.trial.nodes)
            yield
        return cls(groups, rooms, match, ever=ever)

    @property
    def pods(self) -> int:
        """How many pods there are of all groups."""
        return sum(pods for _, pods in self.groups)

    def matching(self, those: Iterable[int]) -> int:
        """How many nodes match for any of these groups."""
        return int(np.logical_or.reduce([self.match[at] for at in those]).sum())

    def proof(self) -> Work[Reason | None]:
        """Why the groups, each of which fits alone, do not fit there together; None where numbers prove nothing."""
        groups = self.groups
        for term in self._terms(range(len(groups))):
            if (reason := self._apart_from_each_other(term)) is not None:
                return reason
            self._looked_at(len(groups))
            yield
        if len(groups) < 2:
            return None
        for name, at in self.trial.resource_rows.items():
            if (reason := self._more_than_there_is(name, at)) is not None:
                return reason
            self._looked_at(len(groups))
            yield
        for first in _prefixes(range(len(groups))):
            if (reason := self._too_many_together(first)) is not None:
                return reason
            self._looked_at(len(first))
            yield
        return None

    def search(self) -> Work[Reason | None]:
        """The same, where no sum proves it, by trying: None where they fit, and where that was not found out.

        Of pods for which more than whole amounts of room decides nothing is found out.
        """
        groups, trial = self.groups, self.trial
        if len(groups) < 2 or not all(map(_by_room_alone, (column for column, _ in groups))):
            return None
        kept = trial.feasibility.together
        looked = (self.ever, *((column.selector, column.pod_class, pods) for column, pods in groups))
        if looked not in kept:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            needs = [column.needs_vector for column, _ in groups]
            pods = [count for _, count in groups]
            kept[looked] = yield from fit_together(needs, pods, self.match, trial.nodes.static.allocatable, trial.meter)
        if kept[looked] is not False:
            return None
        match = self.matching(range(len(groups)))
        return Reason(
            Code.NEVER_FITS,
            f"its {self.pods} pods ({each_of(groups)}) fit together in no arrangement; {matching(match)}, also when "
            "empty",
            {"members": self.pods},
            nodes={"match": match},
            unblocks=("ask for fewer pods, or for sizes of which more fit on one node",),
        )

    def most(self, key: str, those: Sequence[int]) -> Work[Int64s]:
        """How many of the pods of these groups the nodes of each domain of a label take at most, fewer than all where
        they do not take all; shape (domains,).
        """
        domains = self.trial.feasibility.domains_of(key)
        total = sum(self.groups[at][1] for at in those)
        found: Int64s = np.zeros(len(domains.names), np.int64)
        for at in those:
            pods = self.groups[at][1]
            found += np.minimum(domains.sums(np.minimum(self.rooms[at], pods)), pods)
            self._looked_at(2)
            yield
        for term in self._terms(those):
            found = np.minimum(found, self._apart_in_each(key, term, those) + total)
            self._looked_at(2 * len(those))
            yield
        if len(those) < 2:
            return found
        for at in self.trial.resource_rows.values():
            needs, has = self._amounts(at, those)
            if needs:
                found = np.where(domains.sums(has) < needs, np.minimum(found, total - 1), found)
            self._looked_at(len(those))
            yield
        for first in _prefixes(those):
            rooms = self._in_common(first)
            if rooms is not None:
                pods = sum(self.groups[at][1] for at in first)
                found = np.minimum(found, np.minimum(domains.sums(np.minimum(rooms, pods)), pods) + total - pods)
            self._looked_at(len(first))
            yield
        return found

    def _looked_at(self, times: int) -> None:
        """Each node was looked at so often."""
        self.trial.meter.spent += times * len(self.trial.nodes)

    def _terms(self, those: Iterable[int]) -> Iterable[PodTerm]:
        """Terms by which pods of these groups keep their own kind off their domain."""
        return dict.fromkeys(term for at in those for term in _apart(self.groups[at][0]))

    def _apart_in_each(self, key: str, term: PodTerm, those: Sequence[int]) -> Int64s:
        """By how many the pods that a term keeps apart are too many in each domain of a label, negative; 0 where they
        may be few enough. Shape (domains,).
        """
        held = [at for at in those if term in _apart(self.groups[at][0])]
        needs = sum(self.groups[at][1] for at in held)
        outer, inner = self.trial.feasibility.domains_of(key), self.trial.feasibility.domains_of(term.topology_key)
        able: Mask = np.logical_or.reduce([self.rooms[at] > 0 for at in held])
        inside = able & (outer.of < len(outer.names)) & (inner.of < len(inner.names))
        pairs = np.unique(outer.of[inside] * len(inner.names) + inner.of[inside])
        has = np.bincount(pairs // max(len(inner.names), 1), minlength=len(outer.names)).astype(np.int64)
        outside = inner.of == len(inner.names)
        for at in held:
            has += outer.sums(np.where(outside, np.minimum(self.rooms[at], self.groups[at][1]), 0))
        found: Int64s = np.minimum(has - needs, 0)
        return found

    def _apart_from_each_other(self, term: PodTerm) -> Reason | None:
        """No two of the pods that a term keeps apart may be in one domain. Nodes without the label are in none."""
        those = [at for at, (column, _) in enumerate(self.groups) if term in _apart(column)]
        needs = sum(self.groups[at][1] for at in those)
        key = term.topology_key
        domains = self.trial.feasibility.domains_of(key)
        able: Mask = np.logical_or.reduce([self.rooms[at] > 0 for at in those])
        found = int((domains.sums(able.astype(np.int64)) > 0).sum())
        outside = domains.of == len(domains.names)
        has = found + sum(int(np.minimum(self.rooms[at][outside], self.groups[at][1]).sum()) for at in those)
        if needs <= has:
            return None
        match = self.matching(those)
        more = f", {has - found} on nodes without the label" if has > found else ""
        return Reason(
            Code.NEVER_FITS,
            f"needs {needs} domains of {key}, as no two of these pods may be in one; {matching(match)}, when empty "
            f"with room in {found}{more}",
            {"members": needs},
            {"members": has},
            {"match": match},
            (f"ask for at most {has} such pods", "loosen the anti-affinity"),
        )

    def _amounts(self, at: int, those: Iterable[int]) -> tuple[int, Int64s]:
        """What the pods of these groups need of a resource, in this row, and what the nodes have that could take any
        of those which need some, shape (nodes,).
        """
        asking = [one for one in those if self.groups[one][0].needs_vector[at]]
        if not asking:
            return 0, np.zeros(0, np.int64)
        needs = sum(int(self.groups[one][0].needs_vector[at]) * self.groups[one][1] for one in asking)
        where: Mask = np.logical_or.reduce([self.rooms[one] > 0 for one in asking])
        return needs, np.where(where, self.trial.nodes.static.allocatable[at], 0)

    def _more_than_there_is(self, name: str, at: int) -> Reason | None:
        """All nodes together that could take any of the pods have less of a resource, in this row, than they need."""
        needs, there = self._amounts(at, range(len(self.groups)))
        has = int(there.sum())
        if needs <= has:
            return None
        match = int(np.count_nonzero(there))
        return Reason(
            Code.NEVER_FITS,
            f"its pods need {amount(name, needs)} together; {matching(match)}, when empty with {from_units(name, has)}",
            {name: needs},
            {name: has},
            {"match": match},
            ("ask for fewer or smaller pods",),
        )

    def _in_common(self, those: Sequence[int]) -> Int64s | None:
        """How many pods each node would take if all of these groups needed only what each of them needs, shape
        (nodes,); None where that is not known.
        """
        columns = [self.groups[at][0] for at in those]
        if any(column.divided for column in columns):
            return None
        needs: Int64s = np.minimum.reduce([column.needs_vector for column in columns])
        allocatable = self.trial.nodes.static.allocatable
        rooms = np.full(allocatable.shape[1], LARGEST, np.int64)
        for at in np.flatnonzero(needs).tolist():
            np.minimum(rooms, allocatable[at] // needs[at], out=rooms)
        return np.where(np.logical_or.reduce([self.rooms[at] > 0 for at in those]), rooms, 0)

    def _too_many_together(self, those: Sequence[int]) -> Reason | None:
        """Not even if each pod of these groups needed only what all of them need would so many have room."""
        rooms = self._in_common(those)
        if rooms is None:
            return None
        groups = [self.groups[at] for at in those]
        pods = sum(count for _, count in groups)
        has = int(np.minimum(rooms, pods).sum())
        if has >= pods:
            return None
        match = int((np.logical_or.reduce([self.rooms[at] > 0 for at in those])).sum())
        return Reason(
            Code.NEVER_FITS,
            f"needs room for {counted(pods, 'pod')} together ({each_of(groups)}); {matching(match)}, when empty with "
            f"room for at most {has}",
            {"members": pods},
            {"members": has},
            {"match": match},
            (f"ask for at most {has} such pods together",),
        )


def _prefixes(those: Sequence[int]) -> Iterator[Sequence[int]]:
    """The first groups that are looked at together: two, three, and so on."""
    for first in range(2, len(those) + 1) if len(those) <= _MOST_KINDS else (len(those),):
        yield those[:first]


def each_of(groups: Sequence[Group]) -> str:
    """`2 with 8 × nvidia.com/gpu and 3 with 4 cpu each`."""
    listed = [f"{count} with {wants(column.pod_class)}" for column, count in groups]
    more = [f"{len(listed) - _MOST_NAMED} kinds more"] if len(listed) > _MOST_NAMED else []
    return " and ".join([*listed[:_MOST_NAMED], *more]) + " each"


def pods_of(groups: Sequence[Group]) -> str:
    """`2 pods (8 × nvidia.com/gpu each)`; of several kinds only how many."""
    told = counted(sum(count for _, count in groups), "pod")
    return f"{told} ({wants(groups[0][0].pod_class)} each)" if len(groups) == 1 else told


def _by_room_alone(column: ClassFit) -> bool:
    """Whether nothing but whole amounts of room says how many pods of the class fit on an empty node that matches."""
    rules = column.pod_class.rules
    return not (column.shuts or column.divided or (rules is not None and rules.filters))


def _apart(column: ClassFit) -> Iterator[PodTerm]:
    """Terms by which pods of the class keep pods of the class off their domain."""
    rules = column.pod_class.rules
    if rules is not None and column.ruled:
        yield from (term for term in rules.apart if term in column.pod_class.counted)
