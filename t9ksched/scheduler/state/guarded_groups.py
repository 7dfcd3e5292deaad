"""Which running groups disruption budgets guard, kept from cycle to cycle.

What a budget would lose by a group is found anew where the group changed, a label of its pods, or what the budget
selects. The order in which the groups of a budget would go is kept, so that a cycle costs what changed: of a budget
that allows another number, or that would lose pods by other groups, its first groups are looked at, as many as it
allows, and those of budgets that would lose pods by the same groups. Callers say which groups changed.
"""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from t9ksched.engine.parted import Parted, Parts
from t9ksched.model.gang import Running
from t9ksched.model.queue import Queue
from t9ksched.scheduler.state.budgets import BudgetKey, Budgets, Rank, rank
from t9ksched.scheduler.state.records import PodRecord

_FEW: Final = 64
"""Up to so many groups are put into an order one by one; with more it is sorted anew."""


class _GroupEntry:
    """A group, the labels of the pods that its smallest eviction takes, what budgets would lose by it, whether it may
    go before these are used up, and the group with a mark, once it was needed.
    """

    __slots__ = ("free", "going", "group", "marked", "namespace", "needs", "rank")

    def __init__(self, group: Running, rank: Rank, going: list[Mapping[str, str]]) -> None:
        self.group, self.rank, self.going = group, rank, going
        self.namespace = group.name.partition("/")[0]
        self.needs: dict[BudgetKey, int] = {}
        self.free = False
        self.marked: Running | None = None


class GuardedGroups:
    """Marks all running groups; what it keeps never changes what it says. `pods` are all known pods, by UID."""

    def __init__(self, budgets: Budgets, pods: Mapping[str, PodRecord]) -> None:
        self._budgets, self._pods = budgets, pods
        self._known: dict[str, _GroupEntry] = {}
        self._orders: defaultdict[BudgetKey, list[tuple[Rank, str]]] = defaultdict(list)
        """The groups by which each budget would lose pods, the first to go first."""
        self._free: defaultdict[BudgetKey, set[str]] = defaultdict(set)
        """Those of them by UID that may go before the budgets are used up."""
        self._linked: Counter[frozenset[BudgetKey]] = Counter()
        """Budgets that would lose pods by the same group, with the number of such groups."""
        self._moved: set[BudgetKey] = set()
        """Budgets that would lose pods by other groups than before."""
        self._groups: dict[str, Running] = {}
        """All groups, by UID."""
        self._shown: Parts[Running] = Parts()
        """All groups as they are told, by UID and in the same order."""
        self._taken = False
        """Groups were taken in since they were told."""
        self._selecting: dict[BudgetKey, object] = {}
        self._allowed: dict[BudgetKey, int] = {}
        self._priorities: dict[str, int] = {}

    def mark(self, changed: Mapping[str, Running | None], queues: Mapping[str, Queue]) -> Parted[Running]:
        """All groups, those marked whose eviction would break a budget; the same object while nothing changed.

        `changed` are groups that came or changed since the last call, by UID, and None for those that went.
        """
        relabelled = self._budgets.take_relabelled()
        self._note(changed)
        budgets, allowed = self._budgets.selecting(), self._budgets.allowed()
        if not budgets:
            self._taken = False
            self._forget()
            return self._shown.told()
        if not self._selecting:
            changed = self._groups
        priorities = {name: queue.spec.priority for name, queue in queues.items()}
        if priorities != self._priorities:
            entries = list(self._known.values())
            self._leave(entries)
            for entry in entries:
                entry.rank = rank(entry.group, queues)
            self._enter(entries)
            for entry in entries:
                self._show(entry)
            self._priorities = priorities
        elif not (changed or relabelled or self._taken) and allowed == self._allowed and budgets == self._selecting:
            return self._shown.told()
        self._taken = False
        self._take_in(changed, relabelled, queues)
        self._follow_budgets(budgets)
        self._follow_allowed(allowed)
        return self._shown.told()

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
                self._groups[uid] = self._shown[uid] = group
            else:
                self._groups.pop(uid, None)
                self._shown.discard(uid)

    def _show(self, entry: _GroupEntry) -> None:
        group = entry.group
        if entry.needs and not entry.free:
            entry.marked = entry.marked or structs.replace(group, guarded=True)
            self._shown[group.uid] = entry.marked
        else:
            self._shown[group.uid] = group

    def _forget(self) -> None:
        if self._selecting:
            for kept in (self._known, self._orders, self._free, self._linked, self._moved):
                kept.clear()
            for uid, group in self._groups.items():
                self._shown[uid] = group
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
                continue
            made = known[uid] = _GroupEntry(one, rank(one, queues), self._budgets.going(one, self._pods))
            made.needs = self._needs(made, selecting[made.namespace])
            came.append(made)
        self._leave(left)
        self._enter(came)
        for entry in came:
            self._show(entry)

    def _needs(self, entry: _GroupEntry, of: Iterable[BudgetKey]) -> dict[BudgetKey, int]:
        """What these budgets would lose by the group, those that would lose any."""
        return {key: count for key in of if (count := self._budgets.loses(key, entry.going))}

    def _follow_budgets(self, budgets: dict[BudgetKey, object]) -> None:
        """Budgets that came, went or select other pods."""
        before, self._selecting = self._selecting, budgets
        changed = {key for key in before.keys() | budgets.keys() if before.get(key) is not budgets.get(key)}
        if not changed:
            return
        by_space: defaultdict[str, list[BudgetKey]] = defaultdict(list)
        for key in changed:
            by_space[key[0]].append(key)
        affected: list[tuple[_GroupEntry, dict[BudgetKey, int]]] = []
        for entry in self._known.values():
            if not (of := by_space.get(entry.namespace)):
                continue
            needs = {key: count for key, count in entry.needs.items() if key not in changed}
            needs |= self._needs(entry, [key for key in of if key in budgets])
            if needs != entry.needs:
                affected.append((entry, needs))
        entries = [entry for entry, _ in affected]
        self._leave(entries)
        for entry, needs in affected:
            entry.needs = needs
        self._enter(entries)
        for entry in entries:
            self._show(entry)

    def _leave(self, entries: Iterable[_GroupEntry]) -> None:
        """These are taken out of the orders of the budgets that would lose pods by them."""
        for key, those in self._by_budget(entries, -1).items():
            order = self._orders[key]
            self._free[key].difference_update(uid for _, uid in those)
            if len(those) > _FEW:
                gone = set(those)
                order[:] = [one for one in order if one not in gone]
            else:
                for one in those:
                    del order[bisect_left(order, one)]
            if not order:
                del self._orders[key]

    def _enter(self, entries: Iterable[_GroupEntry]) -> None:
        """These are put into the orders of the budgets that would lose pods by them."""
        for key, those in self._by_budget(entries, 1).items():
            order = self._orders[key]
            if len(those) > _FEW:
                order += those
                order.sort()
            else:
                for one in those:
                    insort(order, one)

    def _by_budget(self, entries: Iterable[_GroupEntry], times: int) -> Mapping[BudgetKey, list[tuple[Rank, str]]]:
        """These by budget, which is to be looked at; none may go for now."""
        found: defaultdict[BudgetKey, list[tuple[Rank, str]]] = defaultdict(list)
        for entry in entries:
            entry.free = False
            for key in entry.needs:
                found[key].append((entry.rank, entry.group.uid))
            if len(entry.needs) > 1:
                self._linked[frozenset(entry.needs)] += times
        self._moved.update(found)
        return found

    def _follow_allowed(self, allowed: dict[BudgetKey, int]) -> None:
        """Find out which groups may go, by the budgets of which other groups are known and those that allow another
        number.
        """
        before, self._allowed = self._allowed, allowed
        moved, self._moved = self._moved, set()
        moved.update(key for key in before.keys() | allowed.keys() if before.get(key) != allowed.get(key))
        for keys in self._together(moved):
            were: set[str] = set().union(*(self._free.pop(key, ()) for key in keys))
            free = self._unguarded(keys)
            for uid in free:
                for key in self._known[uid].needs:
                    self._free[key].add(uid)
            for uid in were ^ free:
                entry = self._known[uid]
                entry.free = uid in free
                self._show(entry)

    def _together(self, keys: Collection[BudgetKey]) -> Iterator[set[BudgetKey]]:
        """These budgets, with those that would lose pods by the same groups, directly or through others."""
        beside: defaultdict[BudgetKey, set[BudgetKey]] = defaultdict(set)
        for linked, count in list(self._linked.items()):
            if not count:
                del self._linked[linked]
            for key in linked if count else ():
                beside[key] |= linked
        done: set[BudgetKey] = set()
        for key in keys:
            if key in done:
                continue
            found, ahead = {key}, [key]
            while ahead:
                fresh = beside.get(ahead.pop(), set()) - found
                found |= fresh
                ahead += fresh
            done |= found
            yield found

    def _unguarded(self, keys: Collection[BudgetKey]) -> set[str]:
        """Groups by UID that may go, one after the other, before the budgets that select them are used up, by these
        budgets alone.
        """
        orders = [self._orders[key] for key in keys if key in self._orders]
        left, known = {key: self._allowed.get(key, 0) for key in keys}, self._known
        unused = sum(left[key] > 0 for key in keys if key in self._orders)
        found: set[str] = set()
        for _, uid in orders[0] if len(orders) == 1 else sorted(set().union(*orders)):
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
