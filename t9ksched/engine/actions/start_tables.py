"""The tables of a kernel (`engine/kernel/tables.py`), made of a cycle: its trial, its ledger and the gangs that wait.

What gangs ask for is read when a run needs it, some gangs of a queue at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.actions.one_kind import takes_several
from t9ksched.engine.arrays import Int64s
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.kernel.tables import ABSENT, MOST_DEMAND, MOST_PLACES, TURN, Comparator, Queues, Run, Tables
from t9ksched.engine.members import alike, chosen
from t9ksched.engine.order import Line
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.given_cards import Dealt, dealt
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.labels import LabelSelector

Demand = Mapping[str, int]
Together = tuple[str, tuple[str, ...]]
"""Whether the members of a gang must or should be within one domain, and the labels that make domains."""
ANYWHERE: Final[Together] = ("None", ())

COMPARATORS: Final[Mapping[str, Comparator]] = {"basic": Comparator.PRIORITY, "resource": Comparator.SHARE}
"""What queues may be compared by, as the policy names it."""
_READ: Final = (8, 32, 1024)
"""Of as many gangs as have started it is read at once what they ask for, but at least and at most of so many; the first
number where gangs waited when the latest cycle ended: most of them wait on, and each may be of a class of its own.
"""
_MOST_KEYS: Final = 8_000_000
"""Keys of all classes together; gangs of other classes have their turns."""
_BOUND: Final = 1 << 60
"""With sums from here on the tables are not used."""
_MOST_SHARE: Final = 100_000_000
_A_GANG: Final = 200
_A_MEMBER: Final = 3
"""Units of work to read what a gang asks for."""


class StartTables:
    """The tables of one cycle.

    Attributes:
        tables: for the kernel.
        dealt: what pods of each class in the tables are given.
        kinds: the columns of each kind of gangs there, and what its queue pays.
    """

    def __init__(self, cycle: Cycle, names: Sequence[str], lines: Sequence[Line]) -> None:
        """`names` of queues are sorted, and `lines` are theirs.

        Raises:
            OverflowError: a quota has more than 64 bits.
        """
        self._cycle, self._names, self._lines = cycle, names, lines
        self._started = 0
        self._at: dict[str, int] = {}
        """Accounts: resources that quotas or shares count, with their positions."""
        self._most: Int64s
        """While less than this is charged to queues all numbers are small enough, shape (queues, accounts)."""
        trial = cycle.trial
        self.tables = Tables(trial.free, trial.base, trial.cards.idle, trial.fills, self._queues())
        priorities = self.tables.queues.priorities.tolist()
        self._unread = sorted(range(len(names)), key=priorities.__getitem__)
        """Queues, the largest priority last; those behind it were read."""
        self._several_kinds = len(trial.nodes.static.card_kinds) > 1
        self._small = int(trial.free.max(initial=0)) * self.tables.nodes < _BOUND
        self._version = -1
        self._touched = len(trial.touched)
        self.dealt: list[Dealt] = []
        self.kinds: list[tuple[tuple[ClassFit, ...], Demand]] = []
        self._classes: dict[ClassFit, int] = {}
        known: dict[LabelSelector | None, dict[tuple[int, Together], int]] = {}
        self._by_class = [known.setdefault(cycle.view.queues[name].spec.node_selector, {}) for name in names]
        """By queue, the kinds of gangs of one class, by identity of the class, which is kept: the same for queues with
        the same nodes.
        """
        self._by_column: dict[tuple[ClassFit, Together], int] = {}
        self._levels: dict[str, int] = {}
        self._by_key: dict[SchedulingKey, int] = {}

    def follow(self) -> bool:
        """Bring lines and charges up to date. Returns whether all numbers are small enough to reckon with."""
        cycle, queues = self._cycle, self.tables.queues
        queues.shrink([len(line) for line in self._lines])
        for at, name in enumerate(self._names):
            spec = cycle.view.queues[name].spec
            queues.needs_turns[at] = spec.closed or (spec.ordering == "Strict" and cycle.failures.strict(name))
        if self._version == cycle.ledger.version:
            return True
        try:
            for at, name in enumerate(self._names):
                used = cycle.ledger.used(name)
                queues.held[at] = [used.get(resource, 0) for resource in self._at]
        except OverflowError:
            return False
        if not self._small or bool((queues.held >= self._most).any()) or int(queues.held.min(initial=0)) <= -_BOUND:
            return False
        self._version = cycle.ledger.version
        return True

    def touch(self) -> None:
        """Tell the tables on which nodes others have changed the room."""
        touched = self._cycle.trial.touched
        self.tables.touch(touched[self._touched :])
        self._touched = len(touched)

    def charged(self) -> None:
        """The charges of the tables are those of the ledger."""
        self._version = self._cycle.ledger.version

    def carried_out(self, run: Run) -> None:
        """What a run did was placed on the trial."""
        self._touched += len(run.rows)
        self._started += len(run.queues)

    def read(self, queue: int) -> Work[None]:
        """Note what the next gangs of a queue ask for, and if it has few, those of the next queues by priority."""
        few, least, most = _READ
        if self._cycle.waited:
            least = few
        left = min(max(least, self._started), most)
        left -= yield from self._read(queue, left)
        queues, unread = self.tables.queues, self._unread
        while left and unread:
            if queues.known[unread[-1]] and not queues.needs_turns[unread[-1]]:
                left -= yield from self._read(unread[-1], left)
            else:
                unread.pop()

    def _read(self, queue: int, most: int) -> Work[int]:
        """Note what so many gangs of a queue ask for, or all that are left; how many."""
        line, tables = self._lines[queue], self.tables
        line.best()
        end = int(tables.queues.known[queue])
        meter = self._cycle.trial.meter
        kinds: list[int] = []
        times: list[int] = []
        for gang in line.left[max(0, end - most) : end]:
            kind, count = self._known(queue, gang) or (yield from self._asked(queue, gang))
            kinds.append(kind)
            times.append(count)
            meter.spent += _A_GANG + _A_MEMBER * len(gang.waiting)
            if meter.due():
                yield
        tables.note(queue, kinds, times)
        return len(kinds)

    def _known(self, queue: int, gang: Gang) -> tuple[int, int] | None:
        """As `_asked`; None where it is to be found out."""
        members = gang.waiting
        if not _is_whole(gang) or len(members) > MOST_PLACES or (gang.card_nodes and self._several_kinds):
            return TURN, 1
        if len(members) > 1 and not alike(members):
            return None
        found = self._by_class[queue].get((id(members[0].pod_class), _together(gang)))
        return None if found is None else (found, len(members))

    def _asked(self, queue: int, gang: Gang) -> Work[tuple[int, int]]:
        """The kind of the gang, and how many times it asks for it; `TURN` where more than room and quota decides."""
        members, name, together = gang.waiting, self._names[queue], _together(gang)
        if self._may_be_narrowed(gang, name):
            return TURN, 1
        if alike(members):
            of = members[0].pod_class
            found = yield from self._of_column(self._cycle.keys.column(name, of), together)
            self._by_class[queue][id(of), together] = found
            return found, len(members)
        key = yield from self._cycle.keys.get(name, members)
        if len(key.groups) == 1:  # equal classes, read from different objects
            return (yield from self._of_column(key.groups[0][0], together)), len(members)
        if gang.topology != "None":
            return TURN, 1
        known = self._by_key.get(key)
        if known is None:
            known = self._by_key[key] = yield from self._added(key.groups, key.demand)
        return known, 1

    def _may_be_narrowed(self, gang: Gang, queue: str) -> bool:
        """Whether it matters to the gang that cards of nodes are of several kinds."""
        if not self._several_kinds:
            return False
        return any(takes_several(self._cycle, of, queue) for of in {one.pod_class for one in gang.waiting})

    def _of_column(self, column: ClassFit, together: Together) -> Work[int]:
        """The kind of gangs of one class."""
        found = self._by_column.get((column, together))
        if found is None:
            found = yield from self._added([(column, 1)], dict(column.demand), together)
            self._by_column[column, together] = found
        return found

    def _level(self, label: str) -> int:
        """The level of this label in the tables."""
        found = self._levels.get(label)
        if found is None:
            domains = self._cycle.trial.feasibility.domains_of(label)
            bounds = np.append(domains.starts, len(domains.rows))
            found = self._levels[label] = self.tables.add_level(domains.rows, bounds)
        return found

    def _added(self, groups: Sequence[Group], demand: Demand, together: Together = ANYWHERE) -> Work[int]:
        """A new kind; `TURN` where there can be none."""
        by_account = [demand.get(resource, 0) for resource in self._at]
        if any(amount >= MOST_DEMAND for amount in by_account):
            return TURN
        new = [column for column, _ in groups if column not in self._classes]
        if any(len(column.card_levels) > 1 for column in new):
            return TURN
        if not all(map(_is_plain, new)) or (len(self.dealt) + len(new)) * self.tables.nodes > _MOST_KEYS:
            return TURN
        for column in new:
            cards = column.card_needs[0] if column.card_needs else None
            self._classes[column] = self.tables.add(
                column.gains(), column.bias, column.mask, column.needs, cards, column.scarcest
            )
            self.dealt.append(dealt(column.pod_class, column.card_names))
            yield
        self.kinds.append((tuple(column for column, _ in groups), demand))
        parts = [(self._classes[column], pods) for column, pods in groups]
        topology, labels = together
        return self.tables.add_kind(parts, by_account, [self._level(label) for label in labels], topology == "Required")

    def _queues(self) -> Queues:
        cycle, count = self._cycle, len(self._names)
        ledger = cycle.ledger
        measures = [ledger.measures(name) for name in self._names]
        named = {resource for name in self._names for _, resource, _, _ in ledger.limits(name)}
        self._at = {resource: at for at, resource in enumerate(sorted(named.union(*measures)))}
        self._most = np.full((count, len(self._at)), _BOUND, np.int64)
        by = [*(COMPARATORS[name] for name in cycle.policy.queue_order), Comparator.NOTHING, Comparator.NOTHING]
        queues = Queues(
            priorities=np.array([cycle.view.queues[name].spec.priority for name in self._names], np.int64),
            limited=np.array([ledger.limited(name) for name in self._names], np.int64),
            caps=np.full((count, len(self._at)), ABSENT, np.int64),
            held=np.zeros((count, len(self._at)), np.int64),
            measures=np.full((count, len(self._at)), ABSENT, np.int64),
            left=np.array([len(line) for line in self._lines], np.int64),
            comparators=(by[0], by[1]),
        )
        for queue, name in enumerate(self._names):
            for _, resource, cap, _ in ledger.limits(name):
                queues.caps[queue, self._at[resource]] = min(cap, 2 * _BOUND)  # more than ever is charged
            for resource, amount in measures[queue].items():
                queues.measures[queue, self._at[resource]] = amount
                if amount > 0:
                    self._most[queue, self._at[resource]] = min(amount, _BOUND // _MOST_SHARE) * _MOST_SHARE
        return queues


def _is_whole(gang: Gang) -> bool:
    """Whether all members of the gang that wait make up its minimum, and no other member says where they may go."""
    if (gang.topology != "None" and gang.nodes) or gang.reservation or not gang.waiting:
        return False
    _, rest, enough = chosen(gang)
    return enough and not rest


def _together(gang: Gang) -> Together:
    return ANYWHERE if gang.topology == "None" else (gang.topology, gang.levels)


def _is_plain(column: ClassFit) -> bool:
    """Whether nothing but room and scores decides where pods of the class go."""
    if not column.known or column.shuts or column.part_needs or column.pod_class.rules or len(column.card_needs) > 1:
        return False
    return not (column.ruled or column.seen)
