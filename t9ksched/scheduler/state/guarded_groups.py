"""Which running groups disruption budgets guard, kept from cycle to cycle.

What budgets would lose by a group is found anew where the group changed, a label of its pods, the priority of its
queue, or where a budget came or went that selects its pods: both find each other by labels. The order in which groups
would go is kept (`budget_orders.py`), so that a cycle costs what changed. Only namespaces with budgets are looked at.
Callers say which groups changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from operator import is_
from typing import Final

from msgspec import structs

from t9ksched.engine.parted import Parted, Parts
from t9ksched.engine.placement.term_lookup import PodLookup
from t9ksched.engine.work import Work, finish
from t9ksched.model.gang import Running
from t9ksched.model.podrules import PodTerm
from t9ksched.model.queue import Queue
from t9ksched.scheduler.state.budget_orders import Alike, BudgetOrders, Place
from t9ksched.scheduler.state.budgets import BudgetKey, Budgets, Needs, namespace_of, rank
from t9ksched.scheduler.state.change_feed import Cursor
from t9ksched.scheduler.state.records import PodRecord

_A_SLICE: Final = 100
"""So many groups are looked at in one step: some milliseconds."""
_SELECTED: Final = 2000
"""So many pods that budgets select are found in one step."""
_SHOWN: Final = 1000
"""So many groups get a mark or lose it in one step."""
_NOTHING: Final[Needs] = frozenset()


class _GroupEntry:
    """A group in a namespace with budgets, the labels of the pods that its smallest eviction takes, its place among
    groups by which budgets would lose the same, where any would, and the group with a mark, once it was needed.
    """

    __slots__ = ("_marked", "alike", "going", "group", "place")

    def __init__(self, group: Running, place: Place) -> None:
        self.group, self.place = group, place
        self.going: list[Mapping[str, str]] = []
        self.alike: Alike | None = None
        self._marked: Running | None = None

    @property
    def needs(self) -> Needs:
        """How many pods budgets would lose by it."""
        return self.alike.needs if self.alike is not None else _NOTHING

    def take(self, group: Running, place: Place) -> None:
        """The group as it is now."""
        if group is not self.group:
            self.group, self._marked = group, None
        self.place = place

    def shown(self) -> Running:
        """The group as the engine sees it."""
        if self.alike is None or self.alike.frees(self.place):
            return self.group
        self._marked = self._marked or structs.replace(self.group, guarded=True)
        return self._marked


class GuardedGroups:
    """Marks all running groups; what it keeps never changes what it says. `pods` are all known pods, by UID."""

    def __init__(self, budgets: Budgets, pods: Mapping[str, PodRecord]) -> None:
        self._budgets, self._pods = budgets, pods
        self._cursors: tuple[Cursor[BudgetKey], Cursor[str]] | None = None
        """What changed of budgets, and which groups have other labels; None while nobody asks."""
        self._groups: dict[str, Running] = {}
        """All groups, by UID."""
        self._within: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """The UIDs of the groups of each namespace."""
        self._followed: set[str] = set()
        """Namespaces that have budgets, or had them."""
        self._known: dict[str, _GroupEntry] = {}
        """The groups of those namespaces that were looked at, by UID."""
        self._of_queue: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """The UIDs of those by which budgets would lose pods, by queue."""
        self._lookup: PodLookup[tuple[str, int]] = PodLookup()
        """Their pods that would go, each by the UID of its group and a number."""
        self._terms: dict[BudgetKey, PodTerm | None] = {}
        """What each budget selected when groups were matched with it."""
        self._orders = BudgetOrders()
        self._queues: Mapping[str, Queue] = {}
        self._other: dict[BudgetKey, None] = {}
        """Budgets that changed since groups were matched with them."""
        self._due: dict[str, None] = {}
        """Groups to be looked at."""
        self._unshown: dict[str, None] = {}
        """Groups that may have a mark now, or no longer."""
        self._shown: Parts[Running] = Parts()
        """All groups as they are told, by UID and in the same order."""

    def mark(self, changed: Mapping[str, Running | None], queues: Mapping[str, Queue]) -> Parted[Running]:
        """All groups, those marked whose eviction would break a budget; the same object while nothing changed.

        `changed` are groups that came or changed since the last call, by UID, and None for those that went.
        """
        self.take(changed)
        finish(self.follow(queues))
        return self._shown.told()

    def take(self, changed: Mapping[str, Running | None]) -> None:
        """Take in some of the groups that changed, ahead of `mark`."""
        for uid, group in changed.items():
            before = self._groups.pop(uid, None)
            if group is not None:
                self._groups[uid] = self._shown[uid] = group
            else:
                self._shown.discard(uid)
            if (one := group or before) is None:
                continue
            namespace = namespace_of(one)
            if namespace in self._followed:
                self._due[uid] = None
            if group is not None:
                self._within[namespace][uid] = None
            else:
                del self._within[namespace][uid]
                if not self._within[namespace]:
                    del self._within[namespace]

    def follow(self, queues: Mapping[str, Queue]) -> Work[None]:
        """Find out in steps what `mark` would find, so that it finds little left. It may be left at any step: what is
        not done, or changes meanwhile, is done by the next call.
        """
        self._take_changes(queues)
        yield from self._match()
        while self._due:
            for uid in list(islice(self._due, _A_SLICE)):
                self._look(uid)
                del self._due[uid]
            if self._due:
                yield
        yield from self._orders.count(self._unshown)
        while self._unshown:
            for uid in list(islice(self._unshown, _SHOWN)):
                del self._unshown[uid]
                if (entry := self._known.get(uid)) is not None:
                    self._shown[uid] = entry.shown()
            if self._unshown:
                yield

    def rest(self) -> None:
        """Nobody looks for victims for now: what changes is not followed."""
        for cursor in self._cursors or ():
            cursor.close()
        self._cursors = None

    def _take_changes(self, queues: Mapping[str, Queue]) -> None:
        """What changed since the last call beside the groups."""
        if self._cursors is None:
            self._cursors = self._budgets.changed.follow(), self._budgets.relabelled.follow()
            self._other.update(dict.fromkeys((*self._terms, *self._budgets)))
            self._due.update(dict.fromkeys(self._known))
        budgets, relabelled = self._cursors
        self._other.update(dict.fromkeys(budgets.take()))
        self._due.update((uid, None) for uid in relabelled.take() if uid in self._known)
        if queues is not self._queues:
            before, self._queues = self._queues, queues
            for name, those in self._of_queue.items():
                if _priority(name, before) != _priority(name, queues):
                    self._due.update(those)

    def _match(self) -> Work[None]:
        """Find the groups by which budgets that changed would lose pods, or no longer."""
        work = 0
        while self._other:
            key = next(iter(self._other))
            term = self._budgets.term(key)
            if term is not self._terms.get(key):
                selected = self._selected(term, key[0]) if term is not None else ()
                for uid in chain(self._orders.under(key), selected):
                    self._due[uid] = None
                    work += 1
                    if not work % _SELECTED:
                        yield
                self._terms[key] = term
            if term is None:
                self._terms.pop(key, None)
            self._orders.allow(key, self._budgets.allowed(key))
            del self._other[key]

    def _selected(self, term: PodTerm, namespace: str) -> Iterable[str]:
        """Groups of pods that a budget selects. Those of a namespace that had no budgets are all to be looked at."""
        self._lookup.expect(term)
        if namespace not in self._followed:
            self._followed.add(namespace)
            self._due.update(self._within.get(namespace, {}))
        return (uid for uid, _ in self._lookup.selected(term, lambda _: {}))

    def _look(self, uid: str) -> None:
        """Find out what budgets would lose by a group, and put it into the order where it belongs."""
        group, entry = self._groups.get(uid), self._known.get(uid)
        if group is None:
            if entry is not None:
                self._put_out(entry)
                self._file(entry, [])
                del self._known[uid]
            return
        place, going = (rank(group, self._queues), uid), self._budgets.going(group, self._pods)
        if entry is None:
            entry = self._known[uid] = _GroupEntry(group, place)
        self._file(entry, going)
        needs = self._budgets.needs(namespace_of(group), going)
        stays = (entry.needs, entry.place, entry.group.queue) == (needs, place, group.queue)
        if not stays:
            self._put_out(entry)
        entry.take(group, place)
        if needs:
            self._unshown[uid] = None
            if not stays:
                entry.alike = self._orders.add(needs, place)
                self._of_queue[group.queue][uid] = None

    def _put_out(self, entry: _GroupEntry) -> None:
        """Take a group out of its order, so that it has no mark for now."""
        if entry.alike is not None:
            queue, uid = entry.group.queue, entry.group.uid
            self._orders.remove(entry.alike, entry.place)
            entry.alike = None
            del self._of_queue[queue][uid]
            if not self._of_queue[queue]:
                del self._of_queue[queue]
            self._unshown[uid] = None

    def _file(self, entry: _GroupEntry, going: list[Mapping[str, str]]) -> None:
        """The pods that would go of a group have these labels."""
        before, entry.going = entry.going, going
        if len(before) == len(going) and all(map(is_, before, going)):
            return
        uid, namespace = entry.group.uid, namespace_of(entry.group)
        for nth in range(len(before)):
            self._lookup.remove((uid, nth), namespace)
        for nth, labels in enumerate(going):
            self._lookup.add((uid, nth), namespace, labels)


def _priority(queue: str, queues: Mapping[str, Queue]) -> int:
    known = queues.get(queue)
    return known.spec.priority if known is not None else 0
