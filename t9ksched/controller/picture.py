"""What the controllers know of the cluster: workloads by name, and the objects each of them owns.

Filled by reflectors; every change puts the workload it concerns into the work queue.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from t9ksched.workloads.actions import Children, Object, metadata, name_of, uid_of


class Key(NamedTuple):
    """Which workload."""

    kind: str
    namespace: str
    name: str


class Workloads:
    """Handler for the workloads of one kind."""

    def __init__(self, kind: str, changed: Callable[[Key], None]) -> None:
        self._kind = kind
        self._changed = changed
        self._objects: dict[Key, Object] = {}

    def get(self, key: Key) -> Object | None:
        """The workload as last seen."""
        return self._objects.get(key)

    def __len__(self) -> int:
        return len(self._objects)

    def on_replace(self, items: list[Any]) -> None:
        """The first list."""
        for obj in items:
            self.on_upsert(obj)

    def on_upsert(self, obj: Object) -> None:
        """New or changed."""
        key = Key(self._kind, str(metadata(obj).get("namespace", "")), name_of(obj))
        self._objects[key] = obj
        self._changed(key)

    def on_delete(self, obj: Object) -> None:
        """Gone; what it owned is collected by the API server."""
        key = Key(self._kind, str(metadata(obj).get("namespace", "")), name_of(obj))
        self._objects.pop(key, None)
        self._changed(key)


class Owned:
    """Handler for everything workloads own, by the UID of the owner."""

    def __init__(self, kinds: tuple[str, ...], changed: Callable[[Key], None]) -> None:
        self._kinds = kinds
        self._changed = changed
        self._by_owner: dict[str, dict[str, Object]] = {}
        self._owner_of: dict[str, str] = {}

    def of(self, owner_uid: str) -> Children:
        """What a workload owns now, in order of names so that decisions repeat."""
        found = sorted(self._by_owner.get(owner_uid, {}).values(), key=lambda each: (each["kind"], name_of(each)))
        return Children(
            pods=tuple(each for each in found if each["kind"] == "Pod"),
            companions=tuple(each for each in found if each["kind"] != "Pod"),
        )

    def on_replace(self, items: list[Any]) -> None:
        """The first list of one kind."""
        for obj in items:
            self.on_upsert(obj)

    def on_upsert(self, obj: Object) -> None:
        """New or changed."""
        owner = self._controller(obj)
        known = self._owner_of.get(uid_of(obj))
        if known is not None and (owner is None or owner["uid"] != known):
            self._forget(uid_of(obj))
        if owner is not None:
            self._owner_of[uid_of(obj)] = owner["uid"]
            self._by_owner.setdefault(owner["uid"], {})[uid_of(obj)] = obj
            self._tell(obj, owner)

    def on_delete(self, obj: Object) -> None:
        """Gone."""
        self._forget(uid_of(obj))
        owner = self._controller(obj)
        if owner is not None:
            self._tell(obj, owner)

    def _forget(self, uid: str) -> None:
        owner = self._owner_of.pop(uid, None)
        if owner is not None:
            mine = self._by_owner[owner]
            mine.pop(uid, None)
            if not mine:
                del self._by_owner[owner]

    def _controller(self, obj: Object) -> Object | None:
        owners = metadata(obj).get("ownerReferences") or ()
        return next((each for each in owners if each.get("controller") and each.get("kind") in self._kinds), None)

    def _tell(self, obj: Object, owner: Object) -> None:
        self._changed(Key(owner["kind"], str(metadata(obj).get("namespace", "")), owner["name"]))
