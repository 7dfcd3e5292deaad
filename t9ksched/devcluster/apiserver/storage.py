"""Versioned objects in memory, with the recent history of changes that watches and paged lists read.

Objects are plain dicts that are never changed once they are stored: a write stores a new dict. One counter gives every
write its resourceVersion. Costs do not depend on the number of objects, lists excepted (and a delete or create moves a
sorted list of keys, a few microseconds at 100,000). With a journal, each write is on file before anyone sees it.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

Object = dict[str, Any]

HISTORY: Final = 10_000
"""Changes kept per collection; a watch that falls further behind is told 410."""
_SNAPSHOTS: Final = 8

encode = msgspec.json.Encoder().encode


class Entry:
    """One version of one object; its JSON is made at most once."""

    __slots__ = ("_raw", "key", "object", "version")

    def __init__(self, key: str, obj: Object, version: int) -> None:
        self.key = key
        self.object = obj
        self.version = version
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        if self._raw is None:
            self._raw = encode(self.object)
        return self._raw


class Change:
    """One write: `old` is None for a create, `deleted` says that `new` is the last state of a removed object."""

    __slots__ = ("deleted", "new", "old", "version")

    def __init__(self, old: Entry | None, new: Entry, deleted: bool) -> None:
        self.old = old
        self.new = new
        self.deleted = deleted
        self.version = new.version


class TooOld(Exception):
    """The history does not reach back to the version asked for."""


class Recorder(Protocol):
    """Where writes are made durable before they take effect."""

    def record(self, collection: str, key: str, version: int, obj: Object | None) -> None:
        """Put one write on file; `obj` None means removal."""


class Collection:
    """All objects of one kind of resource, keyed `namespace/name` (or `name`), and their recent changes."""

    def __init__(self, name: str, floor: int) -> None:
        self.name = name
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.history: deque[Change] = deque()
        self.floor = floor
        """A watch may start at this version or later."""
        self._waiting: dict[asyncio.Future[None], None] = {}
        """In order, so that equal histories repeat."""
        self._snapshots: OrderedDict[int, tuple[list[str], dict[str, Entry]]] = OrderedDict()

    @property
    def last_version(self) -> int:
        """The version of the newest change; the floor when none is kept."""
        return self.history[-1].version if self.history else self.floor

    def range(self, prefix: str) -> list[Entry]:
        """The present entries whose key starts with the prefix, in key order."""
        return _range(self.keys, self.entries, prefix)

    def range_at(self, version: int, prefix: str) -> list[Entry]:
        """The entries as they were at a version, by undoing later changes.

        Raises:
            TooOld: the history no longer reaches there.
        """
        if version >= self.last_version:
            return self.range(prefix)
        if version < self.floor:
            raise TooOld
        if version not in self._snapshots:
            entries = dict(self.entries)
            for change in reversed(self.history):
                if change.version <= version:
                    break
                if change.old is None:
                    entries.pop(change.new.key, None)
                else:
                    entries[change.old.key] = change.old
            self._snapshots[version] = (sorted(entries), entries)
            if len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        self._snapshots.move_to_end(version)
        keys, entries = self._snapshots[version]
        return _range(keys, entries, prefix)

    def since(self, version: int) -> list[Change]:
        """The changes after a version, oldest first.

        Raises:
            TooOld: some of them are no longer kept.
        """
        if version < self.floor:
            raise TooOld
        if not self.history or self.history[-1].version <= version:
            return []
        newest: list[Change] = []
        for change in reversed(self.history):  # a watcher is nearly always only a few changes behind
            if change.version <= version:
                break
            newest.append(change)
        newest.reverse()
        return newest

    async def changed(self, version: int, timeout: float) -> bool:
        """Wait until there is a change after a version; False when the timeout (seconds) came first."""
        if self.last_version > version:
            return True
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            async with asyncio.timeout(timeout):  # unlike wait_for before 3.12, it never swallows a cancellation
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(future, None)
        return True

    def cut(self, version: int) -> None:
        """Forget the changes up to a version."""
        while self.history and self.history[0].version <= version:
            self.history.popleft()
        self.floor = max(self.floor, version)
        for old in [at for at in self._snapshots if at < self.floor]:
            del self._snapshots[old]

    def append(self, change: Change) -> None:
        """Add a change and wake the watches that wait for it."""
        self.history.append(change)
        if len(self.history) > HISTORY:
            self.cut(self.history[0].version)
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        """Wake the watches."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()


class Storage:
    """The collections and the one counter of versions."""

    def __init__(self, recorder: Recorder | None = None, version: int = 1) -> None:
        self.version = version
        self.start = version
        self.recorder = recorder
        self.collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        """The collection of that name, made when first asked for."""
        found = self.collections.get(name)
        if found is None:
            found = self.collections[name] = Collection(name, self.start)
        return found

    def load(self, name: str, key: str, version: int, obj: Object) -> None:
        """Put back an object as it was, without a change: used while starting only."""
        collection = self.collection(name)
        if key not in collection.entries:
            insort(collection.keys, key)
        collection.entries[key] = Entry(key, obj, version)

    def forget(self, name: str, key: str) -> None:
        """Take an object out without a change: used while starting only."""
        collection = self.collection(name)
        if collection.entries.pop(key, None) is not None:
            del collection.keys[bisect_left(collection.keys, key)]

    def put(self, collection: Collection, key: str, obj: Object) -> Entry:
        """Store an object as the newest version of its key.

        The object's metadata gets the new resourceVersion; both dicts must be the caller's own.
        """
        version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        if self.recorder is not None:
            self.recorder.record(collection.name, key, version, obj)
        self.version = version
        old = collection.entries.get(key)
        if old is None:
            insort(collection.keys, key)
        entry = collection.entries[key] = Entry(key, obj, version)
        collection.append(Change(old, entry, deleted=False))
        return entry

    def remove(self, collection: Collection, key: str) -> Entry:
        """Remove an object; its last state, under the version of the removal."""
        old = collection.entries[key]
        version = self.version + 1
        obj = dict(old.object)
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(version)}
        if self.recorder is not None:
            self.recorder.record(collection.name, key, version, None)
        self.version = version
        del collection.entries[key]
        del collection.keys[bisect_left(collection.keys, key)]
        entry = Entry(key, obj, version)
        collection.append(Change(old, entry, deleted=True))
        return entry

    def compact(self) -> None:
        """Cut the history of every collection at the present version."""
        for collection in self.collections.values():
            collection.cut(self.version)
        self.start = self.version

    def everything(self) -> Iterator[tuple[str, Entry]]:
        """All present objects with the name of their collection, oldest version first."""
        pairs = [(name, entry) for name, kept in self.collections.items() for entry in kept.entries.values()]
        pairs.sort(key=lambda pair: pair[1].version)
        return iter(pairs)


def _range(keys: list[str], entries: dict[str, Entry], prefix: str) -> list[Entry]:
    if not prefix:
        return [entries[key] for key in keys]
    first = bisect_left(keys, prefix)
    last = bisect_right(keys, prefix + "\U0010ffff")
    return [entries[key] for key in keys[first:last]]
