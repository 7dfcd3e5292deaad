"""How many pods of a class fit on each node from now on, step by step."""

from bisect import bisect_left
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.blocks import NEVER_ENDS, Block
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.class_keys import NEVER
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.profiles import NOW, SPARE, Profiles

_MOST_PODS: Final = 1 << 31
"""So many pods of a class on one node, and more, count alike."""
_LOOKS: Final = 2_000
"""So many nodes are looked at one by one before it is said that pods may fit."""
_MATRIX: Final = 1_000_000
"""So many open times by moments are compared before it is said that pods may fit."""
_A_LOOK: Final = 300
"""Units of work to look at the steps of a node."""


class ClassSteps:
    """How many pods of a class fit on each node, step by step; it follows the profiles when it is asked.

    Attributes:
        column: the class.
        fits: how many fit, shape (places,); 0 on nodes where the class may not be, and on spare places.
    """

    def __init__(self, profiles: Profiles, column: ClassFit) -> None:
        self._profiles = profiles
        self.column = column
        self._version = -1
        self._summed: tuple[Int64s, Int64s] | None = None
        self._times: tuple[Int64s, Int64s, Indices] | None = None
        self._from_now: tuple[list[int], list[int]] | None = None
        self._supplied: tuple[list[int], list[int]] | None = None
        self._most: tuple[list[int], list[int]] | None = None
        self.fits: Int64s = np.zeros(0, np.int64)

    def follow(self) -> None:
        """Take in what changed."""
        profiles = self._profiles
        if self._version == profiles.version:
            return
        self._summed = self._times = self._from_now = self._supplied = self._most = None
        places = None if self._version < 0 else profiles.since(self._version)
        self._version = profiles.version
        self.column.trial.meter.spent += 8 * len(profiles.at if places is None else places)
        if places is None:
            self._gained = np.zeros(len(profiles.at), np.int64)
            self._slots = profiles.slots.copy()
            self._by_number = np.zeros(profiles.numbers, np.int64)
            self.fits = self._count(slice(None))
            self._credit(slice(None))
            return
        if len(profiles.at) > len(self.fits):
            more = np.zeros(len(profiles.at) - len(self.fits), np.int64)
            self.fits, self._gained, self._slots = (
                np.append(one, more) for one in (self.fits, self._gained, self._slots)
            )
        if profiles.numbers > len(self._by_number):
            self._by_number = np.append(self._by_number, np.zeros(profiles.numbers, np.int64))
        np.subtract.at(self._by_number, self._slots[places], self._gained[places])
        self.fits[places] = self._count(places)
        self._slots[places] = profiles.slots[places]
        self._credit(places)

    def _count(self, places: Indices | slice) -> Int64s:
        profiles, column = self._profiles, self.column
        rows = profiles.rows[places]
        most = 1 if column.ports else LARGEST
        fits = np.full(len(rows), most if column.known else 0, np.int64)
        for resource, amount in column.needs:
            np.minimum(fits, profiles.left[resource, places] // amount, out=fits)
        np.maximum(fits, 0, out=fits)
        for parts in column.divided:
            np.minimum(fits, parts.rooms_of(profiles.left[:, places], rows), out=fits)
        fits[~column.here[rows] | (profiles.owners[places] == SPARE)] = 0
        return fits

    def _credit(self, places: Indices | slice) -> None:
        """Note how many more fit after each of these steps than before."""
        fits, owners = self.fits[places], self._profiles.owners[places]
        gained = fits.copy()
        gained[1:] -= fits[:-1]
        first = owners == NOW
        gained[first] = fits[first]
        gained[owners == SPARE] = 0
        self._gained[places] = gained
        np.add.at(self._by_number, self._slots[places], gained)

    def supply(self) -> tuple[Int64s, Int64s]:
        """Moments at which something changes, the first is now, and how many fit on all nodes from each of them on."""
        self.follow()
        if self._summed is None:
            self._summed = self._profiles.moments, self._profiles.sums(self._by_number)
        return self._summed

    def most(self, before: int) -> int:
        """How many fit on all nodes together at one moment from now to before that one, at most."""
        moments, sums = self.supply()
        if self._most is None:
            most = np.maximum.accumulate(sums)
            grows = np.flatnonzero(np.diff(most)) + 1
            self._most = moments[grows].tolist(), [int(most[0]), *most[grows].tolist()]
        at, most_until = self._most
        return most_until[bisect_left(at, before)]

    def _open_times(self) -> tuple[Int64s, Int64s, Indices]:
        """From when to before when at least one fits on a node without a break, and the row of it."""
        self.follow()
        if self._times is None:
            profiles = self._profiles
            opened = self.fits > 0
            begins, ends = opened.copy(), opened.copy()
            goes_on = opened[1:] & opened[:-1] & (profiles.owners[1:] != NOW)
            begins[1:] &= ~goes_on
            ends[:-1] &= ~goes_on
            first = np.flatnonzero(begins)
            self._times = profiles.at[first], profiles.until[np.flatnonzero(ends)], profiles.rows[first]
            self.column.trial.meter.spent += len(opened)
        return self._times

    def open_rows(self, start: int, until: int) -> Indices:
        """Rows of the nodes on which one fits from `start` to before `until`, sorted."""
        begins, ends, rows = self._open_times()
        found = np.sort(rows[(begins <= start) & (ends >= max(until, start + 1))])
        self.column.trial.meter.spent += len(rows)
        return found

    def may_fit(self, pods: int, moments: Int64s, lasts: int, own: Block) -> bool:
        """Whether so many find room on the nodes as they are for `lasts`, or for ever when that is 0, from one of these
        moments, which are before that plan begins; it is theirs, laid, and may be left out. True also where that is
        not known.
        """
        begins, ends, rows = self._open_times()
        meter, needs = self.column.trial.meter, self.column.needs
        meter.spent += 3 * len(rows)
        if not needs:
            return True
        untils = moments + lasts if lasts else np.full(len(moments), NEVER_ENDS, np.int64)
        long = (begins <= moments[-1]) & (ends >= untils[0]) & (ends - begins >= untils[0] - moments[0])
        chosen = np.flatnonzero(long)
        chosen = chosen[~np.isin(rows[chosen], own.room.rows)]
        meter.spent += len(moments) * len(chosen)
        if len(moments) * len(chosen) > _MATRIX:
            return True
        open_then = (begins[chosen, None] <= moments) & (ends[chosen, None] >= untils)
        resource, amount = needs[0]
        owned = self._fits_without(own, own.room.amounts[resource] // amount, moments, untils)
        likely = owned + open_then.sum(axis=0) * int(self.fits.max()) >= pods
        looks = _LOOKS
        for at in np.flatnonzero(likely).tolist():
            found = rows[chosen[open_then[:, at]]].tolist()
            looks -= len(found)
            if looks < 0:
                return True
            meter.spent += _A_LOOK * len(found)
            start, until = int(moments[at]), int(untils[at])
            if owned[at] + sum(self.fit(row, start, until) for row in found) >= pods:
                return True
        return False

    def _fits_without(self, own: Block, taken: Int64s, starts: Int64s, untils: Int64s) -> Int64s:
        """How many fit on the nodes of a plan, which takes so many places on each from its moment on, without it; from
        each of these starts to before each of these moments. At least so many as fit there.
        """
        profiles, rows = self._profiles, own.room.rows
        places = profiles.places(rows)
        sizes = profiles.sizes(rows)
        at = profiles.at[places]
        fits = self.fits[places] + np.where(at >= own.at, np.repeat(taken, sizes), 0)
        inside = (at < untils[:, None]) & (profiles.until[places] > starts[:, None])
        self.column.trial.meter.spent += 3 * inside.size
        each = np.minimum.reduceat(np.where(inside, fits, LARGEST), np.cumsum(sizes) - sizes, axis=1)
        found: Int64s = each.sum(axis=1)
        return found

    def fit(self, row: int, start: int, until: int) -> int:
        """How many fit on a node from `start` to before `until`."""
        profiles = self._profiles
        places = profiles.segment(row)
        steps = zip(
            profiles.at[places].tolist(), profiles.until[places].tolist(), self.fits[places].tolist(), strict=True
        )
        least: int = min(fits for at, ends, fits in steps if at < until and ends > start)
        return least

    def place(self, pods: int, start: int, until: int) -> list[Placement]:
        """Where so many pods go that hold their places from `start` to before `until`, as `pack` places them if a score
        never falls; empty where not all fit.
        """
        left, found = pods, []
        if start <= self._profiles.now and self.from_now(until) < pods:
            return []
        rows = self.open_rows(start, until)
        if not len(rows):
            return []
        key = self.column.scored()[rows]
        while left:
            best = int(key.argmax())
            if key[best] == NEVER:
                return []
            key[best] = NEVER
            row = int(rows[best])
            count = min(self.fit(row, start, until), left)
            left -= count
            found.append(Placement(self.column, row, count, ()))
        self.column.trial.meter.spent += len(self.column.here) * 2 + len(key) * len(found)
        return found

    def from_now(self, until: int) -> int:
        """How many fit from now to before `until`, each on one node all the time."""
        self.follow()
        if self._from_now is None:
            self._from_now = self._lasting()
        moments, fits = self._from_now
        return fits[bisect_left(moments, until)]

    def _lasting(self) -> tuple[list[int], list[int]]:
        """Moments at which the number of those that fit from now on falls, sorted, and how many are left until the
        first of them, the second and so on, and for ever.
        """
        profiles = self._profiles
        rows = np.flatnonzero(self.column.rooms())
        places, sizes = profiles.places(rows), profiles.sizes(rows)
        self.column.trial.meter.spent += len(self.column.here) + 10 * len(places)
        # The least so far on each node: what is above that of the next node is out of reach of its own.
        above = np.repeat(np.arange(len(rows), 0, -1) * _MOST_PODS, sizes)
        least = np.minimum.accumulate(np.minimum(self.fits[places], _MOST_PODS - 1) + above) - above
        first = np.cumsum(sizes) - sizes
        fallen = np.append(0, least[:-1] - least[1:])
        fallen[first] = 0
        falls = np.flatnonzero(fallen)
        falls = falls[np.argsort(profiles.at[places[falls]], kind="stable")]
        in_all = int(least[first].sum())
        return profiles.at[places[falls]].tolist(), [in_all, *(in_all - np.cumsum(fallen[falls])).tolist()]

    def supplied(self, until: int) -> int:
        """How many fit on all nodes together at each moment from now to before `until`, at least."""
        moments, sums = self.supply()
        if self._supplied is None:
            least = np.minimum.accumulate(sums)
            falls = np.flatnonzero(np.diff(least)) + 1
            self._supplied = moments[falls].tolist(), [int(least[0]), *least[falls].tolist()]
        at, least_until = self._supplied
        return least_until[bisect_left(at, until)]
