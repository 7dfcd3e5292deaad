"""How many pods of a class fit on each node from now on, step by step."""

from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.placement.class_fit import NEVER, ClassFit
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.profiles import NOW, SPARE, Profiles

_FEW_ROWS: Final = 32


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
        self.fits: Int64s = np.zeros(0, np.int64)

    def follow(self) -> None:
        """Take in what changed."""
        profiles = self._profiles
        if self._version == profiles.version:
            return
        self._summed = None
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
        for parts in column.part_needs:
            if parts is not None:
                # As `ClassFit.rooms`: which cards are free later is not known.
                fits[np.isin(rows, np.flatnonzero(parts.of.nodes)) & (profiles.owners[places] == NOW)] = 0
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

    def open(self, start: int, until: int) -> Mask:
        """Nodes on which one fits from `start` to before `until`, shape (nodes,)."""
        self.follow()
        profiles, found = self._profiles, self.column.here.copy()
        short = profiles.inside(start, until)
        short &= self.fits < 1
        found[profiles.rows[short]] = False
        self.column.trial.meter.spent += len(short)
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
        if start <= self._profiles.now and not self._enough(pods, start, until):
            return []
        key = np.where(self.open(start, until), self.column.scored(), NEVER)
        while left:
            row = int(key.argmax())
            if key[row] == NEVER:
                return []
            key[row] = NEVER
            count = min(self.fit(row, start, until), left)
            left -= count
            found.append(Placement(self.column, row, count, ()))
        self.column.trial.meter.spent += len(key) * (2 + len(found))
        return found

    def _enough(self, pods: int, start: int, until: int) -> bool:
        """Whether on the nodes where some fit now, if these are few, so many may fit all the time."""
        self.follow()
        rows = np.flatnonzero(self.column.rooms())
        self.column.trial.meter.spent += 100 * min(len(rows), _FEW_ROWS)
        if len(rows) > _FEW_ROWS:
            return True
        return sum(self.fit(row, start, until) for row in rows.tolist()) >= pods
