"""How the agents of the dev cluster follow objects and act on them.

`Cache` is what is known of one kind of object, kept by a reflector; its listeners are called after each change.
`Follower` keeps the caches of a set of kinds, one watch a kind however many listen. `Reconciler` is the base of all
controllers here: a key is marked, its `reconcile` runs soon after, never twice at a time, and again if it failed.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from t9ksched.devcluster.controllers.timers import Timers
from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import ClusterPort, Object, Payload, WatchEvent
from t9ksched.kube.watch.reflector import Reflector
from t9ksched.model.api_resource import Resource
from t9ksched.model.whole import whole_number

Listener = Callable[[str, Object | None, Object | None], None]
"""Called with the key, the object before (None when new) and the object after (None when gone)."""

_TOMBSTONES: Final = 10_000
_log = structlog.get_logger(__name__)


def key_of(obj: Object) -> str:
    """`namespace/name`, or the name alone of a cluster-wide object."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def split_key(key: str) -> tuple[str | None, str]:
    """Namespace (None without one) and name of a key."""
    namespace, slash, name = key.rpartition("/")
    return (namespace if slash else None), name


def _version(obj: Object) -> int:
    return whole_number(obj["metadata"].get("resourceVersion", "0")) or 0


def to_object(payload: Payload) -> Object:
    """The decoded object of a reflector's payload."""
    return WatchEvent("", raw=payload).object if isinstance(payload, bytes) else payload


class Cache:
    """The objects of one kind by key, never older than what was already seen of them."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self._listeners: list[Listener] = []
        self._gone: dict[str, int] = {}

    def listen(self, listener: Listener) -> None:
        """Call `listener` after every later change, and now for what is there already."""
        self._listeners.append(listener)
        for key, obj in list(self.objects.items()):
            listener(key, None, obj)

    def get(self, key: str) -> Object | None:
        """The object of that key, if it exists."""
        return self.objects.get(key)

    def learn(self, obj: Object) -> None:
        """Take in the answer to a write of our own before the watch brings it, so that it is not done twice."""
        if _version(obj) > self._gone.get(key_of(obj), -1):
            self.on_upsert(obj)

    def on_replace(self, items: Iterable[Object]) -> None:
        """The whole list anew. Removals are told first, so that no listener sees two of what was one."""
        fresh = {key_of(obj): obj for obj in items}
        for key in [key for key in self.objects if key not in fresh]:
            self._forget(key, self.objects[key])
        for key, obj in fresh.items():
            old = self.objects.get(key)
            if old is None or _version(old) != _version(obj):
                self._tell(key, old, obj)

    def on_upsert(self, obj: Object) -> None:
        """One object, new or changed."""
        key = key_of(obj)
        old = self.objects.get(key)
        if old is None or _version(obj) > _version(old) or not _version(obj):
            self._tell(key, old, obj)

    def on_delete(self, obj: Object) -> None:
        """One object is gone."""
        key = key_of(obj)
        old = self.objects.get(key)
        if old is not None and _version(old) <= _version(obj):
            self._forget(key, obj)

    def _tell(self, key: str, old: Object | None, obj: Object) -> None:
        self.objects[key] = obj
        if old is not None and old["metadata"].get("uid") != obj["metadata"].get("uid"):
            for listener in self._listeners:
                listener(key, old, None)
            old = None
        for listener in self._listeners:
            listener(key, old, obj)

    def _forget(self, key: str, last: Object) -> None:
        old = self.objects.pop(key)
        self._gone[key] = _version(last)
        if len(self._gone) > _TOMBSTONES:
            del self._gone[next(iter(self._gone))]
        for listener in self._listeners:
            listener(key, old, None)


class Follower:
    """Caches of several kinds on one port, each with its own watch, as long as `run` runs."""

    def __init__(self, port: ClusterPort) -> None:
        self._port = port
        self._caches: dict[Resource, Cache] = {}
        self._reflectors: dict[Resource, Reflector[Object]] = {}

    def cache(self, res: Resource) -> Cache:
        """The cache of that kind; ask before `run`."""
        if res not in self._caches:
            cache = self._caches[res] = Cache()
            self._reflectors[res] = Reflector(self._port, res, cache, decode=to_object)
        return self._caches[res]

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for res, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"follow {res}")

    async def synced(self) -> None:
        """Return when every cache has had its first list."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()


class Reconciler:
    """Runs `reconcile` for marked keys with a few workers. Subclasses listen to caches and mark keys.

    A failed key is tried again after 0.1 s, doubling to 30 s; a conflict counts as failure because the newer object is
    on its way and marks the key anyhow.
    """

    workers = 4

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._failures: dict[str, int] = {}

    async def reconcile(self, key: str) -> None:
        """Bring the cluster nearer to what the object of that key wants. Must be safe to repeat."""
        raise NotImplementedError

    def mark(self, key: str) -> None:
        """Have `key` reconciled soon."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def mark_at(self, when: float, key: str) -> None:
        """Have `key` reconciled at a time (seconds since the epoch), instead of an earlier wish of this kind."""
        self.timers.at(when, (type(self).__name__, key), lambda: self.mark(key))

    @property
    def idle(self) -> bool:
        """Whether nothing is marked or in work."""
        return not (self._waiting or self._busy)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(), name=f"{type(self).__name__} {number}")

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                await self.reconcile(key)
                self._failures.pop(key, None)
            except ApiError as error:
                self._later(key, error)
            except Exception as error:
                _log.exception("agent failed", agent=type(self).__name__, key=key)
                self._later(key, error)
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.mark(key)
            await asyncio.sleep(0)  # a full queue on a port in this process must not delay other tasks

    def _later(self, key: str, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(30.0, 0.1 * 2.0 ** min(failures - 1, 10))
        if isinstance(error, ApiError) and error.retry_after:
            pause = max(pause, error.retry_after)
        self.timers.at(self.timers.clock() + pause, (type(self).__name__, "retry", key), lambda: self.mark(key))
