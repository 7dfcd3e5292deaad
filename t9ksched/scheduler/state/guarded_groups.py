"""Which running groups disruption budgets guard, kept from cycle to cycle.

What a budget would lose by a group is found anew where the group changed, a label of its pods, or what the budget
selects. The order in which groups would go is kept, so that a cycle costs what changed, and at most one walk over the
groups that budgets select. Callers say which groups changed.
"""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from t9ksched.model.gang import Running
from t9ksched.model.queue import Queue
from t9ksched.scheduler.state.budgets import BudgetKey, Budgets, Rank, rank
from t9ksched.scheduler.state.records import PodRecord

_FEW: Final = 64
"""Up to so many groups are put into the order one by one; with more it is sorted anew."""


class _GroupEntry:
    """A group, the labels of the pods that its smallest eviction takes, and what budgets would lose by it."""

    __slots__ = ("going", "group", "namespace", "needs", "rank")

    def __init__(self, group: Running, rank: Rank, going: list[Mapping[str, str]]) -> None:
        self.group, self.rank, self.going = group, rank, going
        self.namespace = group.name.partition("/")[0]
        self.needs: dict[BudgetKey, int] = {}


class GuardedGroups:
    """Marks all running groups; what it keeps never changes what it says. `pods` are all known pods, by UID."""

    def __init__(self, budgets: Budgets, pods: Mapping[str, PodRecord]) -> None:
        self._budgets, self._pods = budgets, pods
        self._known: dict[str, _GroupEntry] = {}
        self._order: list[tuple[Rank, str]] = []
        """The groups by which some budget would lose pods, the first to go first."""
        self._free: set[str] = set()
        """Those of them by UID that may go before the budgets are used up."""
        self._groups: dict[str, Running] = {}
        """All groups, by UID."""
        self._shown: dict[str, Running] = {}
        """All groups as they are told, by UID."""
        self._told: tuple[Running, ...] = ()
        self._taken = False
        """Groups were taken in since they were told."""
        self._selecting: dict[BudgetKey, object] = {}
        self._users: Counter[BudgetKey] = Counter()
        """By how many of the groups each budget would lose pods."""
        self._allowed: dict[BudgetKey, int] = {}
        self._priorities: dict[str, int] = {}

    def mark(self, changed: Mapping[str, Running | None], queues: Mapping[str, Queue]) -> tuple[Running, ...]:
        """All groups, those marked whose eviction would break a budget; the same tuple while nothing changed.

        `changed` are groups that came or changed since the last call, by UID, and None for those that went.
        """
        relabelled = self._budgets.take_relabelled()
        self._note(changed)
        budgets, allowed = self._budgets.selecting(), self._budgets.allowed()
        if not budgets:
            if changed or self._selecting or self._taken:
                self._taken = False
                self._forget()
                self._tell(list(self._groups.values()))
            return self._told
        if not self._selecting:
            changed = self._groups
        priorities = {name: queue.spec.priority for name, queue in queues.items()}
        if priorities != self._priorities:
            for entry in self._known.values():
                entry.rank = rank(entry.group, queues)
            self._priorities = priorities
            self._sort()
        elif not (changed or relabelled or self._taken) and allowed == self._allowed and budgets == self._selecting:
            return self._told
        self._taken = False
        self._take_in(changed, relabelled, queues)
        self._follow_budgets(budgets)
        self._allowed = allowed
        free = self._unguarded()
        moved, self._free = (self._free ^ free) & self._known.keys(), free
        for uid in moved:
            self._show(self._known[uid])
        shown = self._shown
        self._tell([shown[uid] for uid in self._groups])
        return self._told

    def take(self, changed: Mapping[str, Running | None], queues: Mapping[str, Queue]) -> None:
        """Take in a few groups ahead of `mark`, so that what thousands need of budgets is not found in one piece."""
        begins = not self._groups
        self._note(changed)
        self._taken = self._taken or bool(changed)
        if begins and not self._selecting and (budgets := self._budgets.selecting()):
            self._priorities = {name: queue.spec.priority for name, queue in queues.items()}
            self._follow_budgets(budgets)
        if self._selecting:
            self._take_in(changed, set(), queues)

    def _note(self, changed: Mapping[str, Running | None]) -> None:
        for uid, group in changed.items():
            if group is not None:
                self._groups[uid] = group
            else:
                self._groups.pop(uid, None)

    def _show(self, entry: _GroupEntry) -> None:
        group = entry.group
        guarded = bool(entry.needs) and group.uid not in self._free
        self._shown[group.uid] = structs.replace(group, guarded=True) if guarded else group

    def _tell(self, groups: list[Running]) -> None:
        if len(groups) != len(self._told) or groups != list(self._told):
            self._told = tuple(groups)

    def _forget(self) -> None:
        if self._selecting:
            for kept in (self._known, self._order, self._users, self._free, self._shown):
                kept.clear()
            self._selecting, self._allowed, self._priorities = {}, {}, {}

    def _take_in(
        self, changed: Mapping[str, Running | None], relabelled: set[str], queues: Mapping[str, Queue]
    ) -> None:
        """Groups that came, went or changed, those of which pods have other labels among them."""
        known = self._known
        left: list[_GroupEntry] = []
        came: list[_GroupEntry] = []
        selecting: defaultdict[str, list[BudgetKey]] = defaultdict(list)
        for key in self._selecting.keys() & self._budgets.selecting().keys():
            selecting[key[0]].append(key)
        for uid in dict.fromkeys((*changed, *sorted(relabelled))):
            one, before = self._groups.get(uid), known.get(uid)
            if before is not None:
                if before.group is one and uid not in relabelled:
                    continue
                left.append(known.pop(uid))
            if one is None:
                self._shown.pop(uid, None)
                continue
            made = known[uid] = _GroupEntry(one, rank(one, queues), self._budgets.going(one, self._pods))
            self._needs(made, selecting[made.namespace])
            came.append(made)
        for entry in left:
            self._users.subtract(entry.needs.keys())
        for entry in came:
            self._show(entry)
        self._reorder([entry for entry in left if entry.needs], [entry for entry in came if entry.needs])

    def _needs(self, entry: _GroupEntry, of: Iterable[BudgetKey]) -> None:
        for key in of:
            if count := self._budgets.loses(key, entry.going):
                entry.needs[key] = count
                self._users[key] += 1

    def _follow_budgets(self, budgets: dict[BudgetKey, object]) -> None:
        """Budgets that came, went or select other pods."""
        before, self._selecting = self._selecting, budgets
        changed = {key for key in before.keys() | budgets.keys() if before.get(key) is not budgets.get(key)}
        if not changed:
            return
        by_space: defaultdict[str, list[BudgetKey]] = defaultdict(list)
        for key in changed:
            by_space[key[0]].append(key)
        left: list[_GroupEntry] = []
        came: list[_GroupEntry] = []
        for entry in self._known.values():
            if entry.namespace not in by_space:
                continue
            needed = bool(entry.needs)
            for key in by_space[entry.namespace]:
                self._users[key] -= entry.needs.pop(key, 0) > 0
            self._needs(entry, [key for key in by_space[entry.namespace] if key in budgets])
            if needed != bool(entry.needs):
                (left if needed else came).append(entry)
                self._show(entry)
        self._reorder(left, came)

    def _reorder(self, left: Sequence[_GroupEntry], came: Sequence[_GroupEntry]) -> None:
        if len(left) + len(came) > _FEW:
            self._sort()
            return
        for entry in left:
            del self._order[bisect_left(self._order, (entry.rank, entry.group.uid))]
        for entry in came:
            insort(self._order, (entry.rank, entry.group.uid))

    def _sort(self) -> None:
        self._order = sorted((entry.rank, uid) for uid, entry in self._known.items() if entry.needs)

    def _unguarded(self) -> set[str]:
        """Groups by UID that may go, one after the other, before the budgets that select them are used up."""
        left, known = dict(self._allowed), self._known
        unused = sum(left[key] > 0 for key, users in self._users.items() if users > 0)
        found: set[str] = set()
        for _, uid in self._order:
            if not unused:
                break
            needs = known[uid].needs
            for key, count in needs.items():
                if left[key] < count:
                    break
            else:
                found.add(uid)
                for key, count in needs.items():
                    left[key] -= count
                    unused -= not left[key]
        return found
