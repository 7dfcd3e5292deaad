"""What the free room of a trial's nodes will be at later moments.

Two things change it: gangs end and give their room back, and planned starts take room and give it back at their own
end. All amounts are changes against the trial's present columns, so that placing a pod now changes nothing here but the
end that it is given. Times are nanoseconds since the epoch.
"""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.blocks import Block, Room
from t9ksched.engine.card_worths import CardWorths
from t9ksched.engine.changes import Changes, joined
from t9ksched.engine.class_steps import ClassSteps
from t9ksched.engine.ends import Ends
from t9ksched.engine.future_charges import FutureCharges
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.profiles import Profiles
from t9ksched.engine.steps import Steps
from t9ksched.engine.work import Meter, Work, finish

_HELD: Final = "held:"
_HEEDED: Final = "heeded:"
_TWICE: Final = "twice:"
_OWNED: Final = 1 << 40
"""Numbers of owners from here on are not those of ends."""
_A_STEP: Final = 10
"""Units of work to write a step of a node, for each resource."""
_CHANGED: Final = 100
"""Units of work to note that a start is planned, or is no more."""
_LAST: Final = (1 << 63, False, "")
"""After every moment."""


class Timeline:
    """Ends and planned starts on the nodes of a trial.

    Args:
        shape: of the columns, (resources, nodes).
        charges: told what of it accounts pay for.
        meter: counts what is done here.

    Attributes:
        blocks: the planned starts on it, by UID of the owner; `version` is another one after each change of them.
        base: another number after each change of all else but what is heeded.
    """

    def __init__(self, shape: tuple[int, ...], now: int, charges: FutureCharges, meter: Meter) -> None:
        self._shape = shape
        self._now = now
        self._charges = charges
        self._meter = meter
        self._began: list[tuple[int, Room]] = []
        self._held: dict[str, tuple[int, Room]] = {}
        self._profiles: Profiles | None = None
        self._followed = -1
        """The state of the trial whose free room the profiles have."""
        self._numbers: dict[str, int] = {}
        self._next = _OWNED
        self._changes: dict[int, Changes] = {}
        """The changes of all but ends, by number."""
        self._came: set[int] = set()
        """Those that the profiles do not have yet."""
        self._gone: dict[int, Changes] = {}
        """Those that they still have."""
        self._steps: dict[ClassFit, ClassSteps] = {}
        self.blocks: dict[str, Block] = {}
        self.version = 0
        self._heeded: Changes | None = None
        self._twice: Changes | None = None
        self.base = 0
        self._changed_from = _LAST

    def count_once(self, changes: Changes | None) -> None:
        """Room that the columns lack twice, as pods leave it and it is promised already, is lacking once: how they
        change by that, from now on.
        """
        self._remove(_TWICE)
        self._twice = changes
        if changes is not None:
            self._add(_TWICE, changes)
        self.base += 1

    @property
    def lacks_twice(self) -> bool:
        """Whether there is room that counts once."""
        return self._twice is not None

    def heed(self, changes: Changes | None) -> None:
        """Besides, the columns change so from now on, until something else is said: room that is reserved from the gang
        that has its turn.
        """
        if changes is not self._heeded:
            self._remove(_HEEDED)
            self._heeded = changes
            if changes is not None:
                self._add(_HEEDED, changes)

    def expect(self, ends: Ends, overdue: int, worths: CardWorths | None = None) -> None:
        """What gives its room back, of cards what `worths` tell; an end that is overdue is expected at that moment.
        Asked once, before all else.
        """
        self._expected = ends
        self._moments = ends.at_least(self._now, overdue)
        self._charges.expect(ends, self._moments, worths)

    def gives_back(self, at: int, queue: str, room: Room) -> None:
        """The room comes free at a later moment, and the queue pays for it until then."""
        self._add("", (np.full(len(room.rows), at, np.int64), room.rows, room.amounts))
        self._began.append((at, room))
        self._charges.gives_back(at, queue, room.demand)
        self.base += 1

    def hold(self, owner: str, at: int, room: Room) -> None:
        """The room, held for a gang of that UID, comes free then."""
        self.release(owner)
        self._add(_HELD + owner, (np.full(len(room.rows), at, np.int64), room.rows, room.amounts))
        self._held[owner] = (at, room)
        self.base += 1

    def pays(self, owner: str, at: int, queue: str, demand: Mapping[str, int]) -> None:
        """For what is held for a gang of that UID, or still to be found, the queue pays until then."""
        self._charges.pays(owner, at, queue, demand)
        self.base += 1

    def release(self, owner: str) -> None:
        """What `hold` and `pays` said of this gang is no longer so."""
        held, paid = self._held.pop(owner, None), self._charges.release(owner)
        if held is not None or paid:
            self._remove(_HELD + owner)
            self.base += 1

    def take(self, block: Block) -> None:
        """A start is planned; its owner has no other one."""
        self.drop(block.owner)
        self.blocks[block.owner] = block
        self._charges.take(block)
        self._add(block.owner, block.changes)
        self._meter.spent += _CHANGED
        self._changed_from = min(self._changed_from, (block.at, False, block.owner))
        self.version += 1

    def drop(self, owner: str) -> None:
        """The start is planned no longer."""
        block = self.blocks.pop(owner, None)
        if block is not None:
            self._charges.drop(block)
            self._remove(owner)
            self._meter.spent += _CHANGED
            self._changed_from = min(self._changed_from, (block.at, False, owner))
            self.version += 1

    def changed_from(self) -> tuple[int, bool, str]:
        """The first moment, with the owner, at which a start was planned or is no more since this was asked last."""
        found, self._changed_from = self._changed_from, _LAST
        return found

    def sorted_changes(self) -> Changes:
        """All changes but those of planned starts and of what is heeded, by moment."""
        ends = self._expected
        others = [*self._began, *self._held.values()]
        parts = [(np.full(len(room.rows), at, np.int64), room.rows, room.amounts) for at, room in others]
        parts += [] if self._twice is None else [self._twice]
        at, rows, amounts = joined(self._shape[0], [(self._moments[ends.end], ends.rows, ends.amounts), *parts])
        order = np.argsort(at)
        return at[order], rows[order], amounts[:, order]

    def _add(self, owner: str, changes: Changes) -> None:
        """More changes; `_remove` takes back the latest of an owner."""
        self._numbers[owner] = self._next
        self._changes[self._next] = changes
        self._came.add(self._next)
        self._next += 1

    def _remove(self, owner: str) -> None:
        number = self._numbers.pop(owner, None)
        if number is not None:
            changes = self._changes.pop(number)
            if number in self._came:
                self._came.remove(number)
            else:
                self._gone[number] = changes

    def follows(self, trial: Trial) -> bool:
        """Whether `prepare` has nothing to do."""
        return self._profiles is not None and trial.state == self._followed and not (self._came or self._gone)

    def prepare(self, trial: Trial | None) -> Work[Profiles]:
        """The free room of all nodes from now on, with all that is known, in slices; of the room that a trial has now,
        or, where that does not matter, had before. What is asked after it is answered without that work.
        """
        free = None
        if trial is not None and trial.state != self._followed:
            free, self._followed = trial.free, trial.state
        if self._profiles is not None and free is None and not self._came and not self._gone:
            return self._profiles
        numbers = sorted(self._came)
        parts = [self._changes[number] for number in numbers]
        owners = np.repeat(np.array(numbers, np.intp), [len(at) for at, _, _ in parts])
        came, gone = joined(self._shape[0], parts), self._gone
        self._came.clear()
        self._gone = {}
        if self._profiles is None:
            ends = self._expected
            at_first = np.zeros(self._shape, np.int64) if free is None else free
            came = joined(self._shape[0], [(self._moments[ends.end], ends.rows, ends.amounts), came])
            owners, free = np.concatenate([ends.end, owners]), None
            self._profiles = Profiles(at_first, self._now, came[1])
            self._meter.spent += 2 * at_first.size
        for places in self._profiles.change(free, gone, came, owners):
            self._meter.spent += _A_STEP * self._shape[0] * places
            yield
        return self._profiles

    def lowest(self, start: int, until: int, without: Collection[str] = (), *, lends: bool = False) -> Int64s | None:
        """The least change of the columns at any moment from `start` to before `until`, shape (resources, nodes).

        None where nothing changes until `start`, no start is planned and nothing is heeded. With gangs to be left out,
        by UID, what they hold does not come free, and what is lacking twice is left so; only for `start` now. Nowhere
        positive for `start` now, unless the timeline `lends` what is lacking twice.
        """
        if start <= self._now and not self.blocks and self._heeded is None and not (lends and self._twice is not None):
            return None
        profiles = self._profiles_now(None)
        numbers: set[int] = set()
        if without:
            numbers.update(at for at, one in enumerate(self._expected.sources) if one.gang in without)
            numbers.update(self._numbers[owner] for owner in (_TWICE,) if owner in self._numbers)
        found = profiles.least(start, until, numbers) - profiles.free
        if start <= self._now and self._twice is not None and not lends:
            np.minimum(found, 0, out=found)
        return found

    def lowest_on(self, rows: Indices, start: int, until: int) -> Int64s:
        """As `lowest`, on these nodes; shape (resources, len(rows))."""
        profiles = self._profiles_now(None)
        return profiles.least_on(rows, start, until) - profiles.free[:, rows]

    def _profiles_now(self, trial: Trial | None) -> Profiles:
        return finish(self.prepare(trial))

    def supply(self, column: ClassFit) -> Steps:
        """How many pods of the class fit at which moments; it looks at the nodes that the class may use now."""
        return self.steps(column).supply()

    def steps(self, column: ClassFit) -> ClassSteps:
        """How many pods of the class fit on which node at which moments, for the room that the trial has now."""
        profiles = self._profiles_now(column.trial)
        found = self._steps.get(column)
        if found is None:
            found = self._steps[column] = ClassSteps(profiles, column)
        return found

    def over(self, trial: Trial, rows: Indices) -> bool:
        """Whether on one of these nodes more is taken or planned than there is, at some moment."""
        return self._profiles_now(trial).over(rows)
