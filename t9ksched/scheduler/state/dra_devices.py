"""DeviceClasses and ResourceSlices as the watches show them: what is handed out by DRA on which node."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from t9ksched.model.dra import (
    NO_OFFERS,
    Claimed,
    DeviceClass,
    Offers,
    Place,
    ResourceSlice,
    claimed_names,
    offers,
    places_of,
)

_EVERYWHERE: Final = frozenset({Place()})
_A_STEP: Final = 32
"""Nodes that are looked at before other work is done, at 0.1 ms each."""
K = TypeVar("K")
V = TypeVar("V")


class _Slice(msgspec.Struct, frozen=True):
    """What counts of a slice: whose devices, and for which nodes it has some."""

    driver: str
    pool: str
    generation: int
    places: frozenset[Place]

    @property
    def nodes(self) -> frozenset[str | None]:
        """The nodes by name, None where others may be meant too."""
        return frozenset(place.node for place in self.places)


Labelled = Iterable[tuple[str, Mapping[str, str]]]
"""Nodes with their labels."""


class DraDevices:
    """Fed by reflectors; a cluster without such objects costs nothing.

    `look` is told of a node on which something else may be handed out than before; `nodes` are those that are known.
    Many nodes are looked at in steps, which `in_steps` carries out: by default at once. Nothing wrong is decided
    meanwhile: a node that offers none of a resource takes no pod that asks for it, whatever is said of DRA.
    """

    def __init__(self, look: Callable[[str], None], nodes: Callable[[], Labelled]) -> None:
        self._look = look
        self._nodes = nodes
        self.in_steps: Callable[[Iterator[None]], None] = _at_once
        self._classes: dict[str, DeviceClass] = {}
        self._names: Mapping[str, Claimed] = {}
        self._slices: dict[str, _Slice] = {}
        self._at: defaultdict[str | None, dict[str, _Slice]] = defaultdict(dict)
        """By node, None for those that may be for several, and name of the slice."""
        self._pools: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        """Generation by slice, of each pool."""
        self._told: dict[str, Offers] = {}
        """What `on` said last, where that was something."""

    def on(self, node: str, labels: Mapping[str, str]) -> Offers:
        """The resource names that could stand for devices of DRA on a node."""
        found = self._offers(node, labels)
        if found:
            self._told[node] = found
        else:
            self._told.pop(node, None)
        return found

    def node_gone(self, node: str) -> None:
        """The node was deleted."""
        self._told.pop(node, None)

    def _offers(self, node: str, labels: Mapping[str, str]) -> Offers:
        if not self._names or not self._slices:
            return NO_OFFERS
        drivers: set[str] = set()
        for one in (*self._at.get(node, {}).values(), *self._at.get(None, {}).values()):
            if one.driver in drivers or not (self._asked(one.driver) and self._newest(one)):
                continue
            if any(place.has(node, labels) for place in one.places):
                drivers.add(one.driver)
        return offers(self._names, drivers)

    def upsert_class(self, one: DeviceClass) -> None:
        """A DeviceClass appeared or changed."""
        self._classes[one.metadata.name] = one
        self._claim()

    def remove_class(self, one: DeviceClass) -> None:
        """A DeviceClass is gone."""
        self._classes.pop(one.metadata.name, None)
        self._claim()

    def upsert_slice(self, one: ResourceSlice) -> None:
        """A ResourceSlice appeared or changed."""
        name, spec = one.metadata.name, one.spec
        made = _Slice(spec.driver, spec.pool.name, spec.pool.generation, places_of(spec))
        if (before := self._slices.get(name)) == made:
            return
        changed = self._put(name, made) | made.places
        self._tell(changed | before.places if before is not None else changed, made.driver)

    def remove_slice(self, one: ResourceSlice) -> None:
        """A ResourceSlice is gone."""
        if (before := self._slices.get(one.metadata.name)) is not None:
            self._tell(self._put(one.metadata.name, None) | before.places, before.driver)

    def _asked(self, driver: str) -> bool:
        """Whether a resource name stands for devices of this driver."""
        return any(claimed.drivers is None or driver in claimed.drivers for claimed in self._names.values())

    def _newest(self, one: _Slice) -> bool:
        return one.generation == self._generation((one.driver, one.pool))

    def _generation(self, pool: tuple[str, str]) -> int | None:
        """The newest generation of a pool, None without any slice of it."""
        return max(self._pools[pool].values()) if pool in self._pools else None

    def _claim(self) -> None:
        names = claimed_names(self._classes.values())
        if names != self._names:
            self._names = names
            if self._slices:
                self.in_steps(self._compare(_EVERYWHERE))

    def _put(self, name: str, made: _Slice | None) -> frozenset[Place]:
        """Take a slice over, or out. Returns the places of the others of its pool, if these count now and did not, or
        the other way round.
        """
        known = self._slices.pop(name, None)
        pools = {(one.driver, one.pool): None for one in (known, made) if one is not None}
        before = {pool: self._generation(pool) for pool in pools}
        if known is not None:
            _take_out(self._pools, (known.driver, known.pool), name)
            for node in known.nodes:
                _take_out(self._at, node, name)
        if made is not None:
            self._slices[name] = made
            self._pools[made.driver, made.pool][name] = made.generation
            for node in made.nodes:
                self._at[node][name] = made
        changed = [pool for pool in pools if self._generation(pool) != before[pool]]
        others = [self._slices[other] for pool in changed for other in self._pools.get(pool, ())]
        return frozenset(place for other in others for place in other.places)

    def _tell(self, places: frozenset[Place], driver: str) -> None:
        """Devices of the driver changed there."""
        if not self._asked(driver):
            return
        if all(place.node is not None for place in places):
            for node in sorted(place.node for place in places if place.node is not None):
                self._look(node)
        else:
            self.in_steps(self._compare(places))

    def _compare(self, places: frozenset[Place]) -> Iterator[None]:
        """Look at those of these nodes on which something else is handed out than was said: most are as before. A step
        at a time; nodes that change between two of them are looked at anyway.
        """
        for at, (node, labels) in enumerate(list(self._nodes()), start=1):
            if at % _A_STEP == 0:
                yield
            concerned = any(place.has(node, labels) for place in places)
            if concerned and self._offers(node, labels) != self._told.get(node, NO_OFFERS):
                self._look(node)


def _at_once(work: Iterator[None]) -> None:
    deque(work, maxlen=0)


def _take_out(tables: defaultdict[K, dict[str, V]], key: K, name: str) -> None:
    del tables[key][name]
    if not tables[key]:
        del tables[key]
