"""Volumes that several pods use and of which a node can attach so many: each counts once on a node.

`Attached` says on a trial where which of them are; what it takes of the free room of a node is one for each that the
node has not yet. `SharedVolumes` are those of one class: a node takes its pods if it can attach those that it lacks.
What is only promised to pods counts as attached too, but for nodes that could not attach it all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.nodes import LARGEST, FrozenNodes
from t9ksched.model.podclass import SharedVolume

if TYPE_CHECKING:
    from t9ksched.engine.placement.class_fit import ClassFit

Attachment = tuple[int, int, SharedVolume]
"""A volume on a node: row of the node, row of the resource that counts it there, volume."""


class Attached:
    """How many pods of a trial use which volume on which node. What is added is taken back with a negative number."""

    def __init__(self, nodes: FrozenNodes, resource_rows: Mapping[str, int], free: Int64s) -> None:
        """`free` is what the trial has left of each resource on each node; what is attached is taken off it."""
        self._resource_rows = resource_rows
        self._free = free
        self.users: dict[SharedVolume, dict[int, int]] = {}
        """By volume and row of its node; no zeros."""
        self._promised: Counter[tuple[SharedVolume, int]] = Counter()
        """How many of these are not there yet."""
        index = nodes.static.index
        for name, volumes in nodes.volumes.items():
            row = index.get(name)
            if row is not None:
                for volume, count in volumes.items():
                    self.users.setdefault(volume, {})[row] = count

    def on(self, volume: SharedVolume, at: int) -> list[int]:
        """The nodes that have attached a volume, which is counted by the resource of row `at`."""
        users = self.users.get(volume)
        return [row for row in users if self._is_on(volume, at, row)] if users else []

    def is_on(self, volume: SharedVolume, at: int, row: int) -> bool:
        """Whether the node of that row has."""
        return row in self.users.get(volume, ()) and self._is_on(volume, at, row)

    def _is_on(self, volume: SharedVolume, at: int, row: int) -> bool:
        return self._free.item(at, row) >= 0 or self.users[volume][row] > self._promised[volume, row]

    def add(self, volumes: tuple[SharedVolume, ...], row: int, pods: int, *, promised: bool = False) -> None:
        """So many more pods on a node use these volumes, or are promised so; take what is attached for them, or give it
        back.
        """
        for volume in volumes:
            if promised:
                self._promised[volume, row] += pods
            users = self.users.setdefault(volume, {})
            before = users.get(row, 0)
            after = before + pods
            if after:
                users[row] = after
            else:
                users.pop(row, None)
            if not users:
                del self.users[volume]
            at = self._resource_rows.get(volume.limit)
            if at is not None:
                self._free[at, row] -= (after > 0) - (before > 0)


class SharedVolumes:
    """The shared volumes of one class."""

    def __init__(self, column: "ClassFit") -> None:
        trial = column.trial
        self._attached, self._volumes = trial.attached, column.pod_class.volumes
        by_limit: dict[str, list[SharedVolume]] = {}
        for volume in self._volumes:
            by_limit.setdefault(volume.limit, []).append(volume)
        rows, vector = trial.resource_rows, column.needs_vector
        self._needs = [(rows[limit], of, int(vector[rows[limit]])) for limit, of in by_limit.items() if limit in rows]
        """Row of the resource, the volumes, and how many more each pod has for itself."""
        self._limits = {rows[limit]: limit for limit in by_limit if limit in rows}

    def rooms(self, free: Int64s, size: int, *, empty: bool = False) -> Int64s:
        """How many pods each node can attach the volumes of, on these columns; `empty` nodes have none attached."""
        found = np.full(size, LARGEST, np.int64)
        for at, volumes, each in self._needs:
            lacks = np.full(size, len(volumes), np.int64)
            for volume in volumes if not empty else ():
                lacks[self._attached.on(volume, at)] -= 1
            left = free[at] - lacks
            # A node with too many attached takes a pod that adds none.
            fits = left // each if each else np.where((left >= 0) | (lacks == 0), LARGEST, 0)
            np.minimum(found, fits, out=found)
        return found

    def room(self, left: list[int], row: int) -> int:
        """The same for one node now; `left` is what is free there of each resource."""
        found = LARGEST
        for at, each, lacks in self.lacks(row):
            room = left[at] - lacks
            found = min(found, room // each if each else LARGEST if room >= 0 or not lacks else 0)
        return found

    def rooms_of(self, free: Int64s, rows: Indices) -> Int64s:
        """The same for some nodes now."""
        return np.array([self.room(free[:, row].tolist(), row) for row in rows.tolist()], np.int64)

    def closed(self, free: Int64s, rows: Indices | None) -> Mask:
        """Of some nodes, or of all, those that cannot attach the volumes of one pod now."""
        found: Mask = (self.rooms(free, free.shape[1]) if rows is None else self.rooms_of(free, rows)) <= 0
        return found

    def fewest(self, free: Int64s, among: Mask) -> tuple[str, int, int]:
        """The resource of which that node lacks most that lacks least, how many more volumes it would attach for one
        pod, and how many it can.
        """
        best: tuple[int, str, int, int] | None = None
        for row in np.flatnonzero(among).tolist():
            lacks = [(each + more - int(free[at, row]), at, each + more) for at, each, more in self.lacks(row)]
            short, at, needs = max(lacks, default=(0, 0, 0))
            if best is None or short < best[0]:
                best = short, self._limits[at], needs, max(int(free[at, row]), 0)
        return best[1:] if best is not None else ("", 0, 0)

    def beside(self, free: Int64s, attached: Iterable[Attachment]) -> Int64s:
        """These columns, off which all that is `attached` was taken, without the volumes of the class among it."""
        found = free.copy()
        for row, at, volume in attached:
            found[at, row] += volume in self._volumes
        return found

    def lacks(self, row: int) -> list[tuple[int, int, int]]:
        """By limit: its row, how many volumes each pod has for itself, and how many of the shared ones the node has not
        attached.
        """
        missing = Counter(at for _, at, _ in self.missing(row))
        return [(at, each, missing[at]) for at, _, each in self._needs]

    def missing(self, row: int) -> list[Attachment]:
        """What the node has not attached of the shared volumes."""
        is_on = self._attached.is_on
        return [(row, at, one) for at, volumes, _ in self._needs for one in volumes if not is_on(one, at, row)]
