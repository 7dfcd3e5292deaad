"""What the controllers know of the cluster: workloads by name, and the objects each of them owns.

Filled by reflectors; every change puts the workload it concerns into the work queue.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from t9ksched.workloads.actions import Children, Object, metadata, name_of, uid_of
from t9ksched.workloads.parts import COMPONENT_LABEL, OWNER_NAME_LABEL, OWNER_UID_LABEL
from t9ksched.workloads.registry import CONTROLLED

_GONE_REMEMBERED: Final = 4096
"""Deletions remembered for the case that the answer to a creation comes after them."""


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

    def items(self) -> list[tuple[Key, Object]]:
        """All of them, as they are now."""
        return list(self._objects.items())

    def __len__(self) -> int:
        return len(self._objects)

    def look_again(self, namespace: str) -> None:
        """Something changed that all workloads of a namespace may name."""
        for key in self._objects:
            if key.namespace == namespace:
                self._changed(key)

    def look_at_all(self) -> None:
        """Something changed that all of them may need."""
        for key in self._objects:
            self._changed(key)

    def wrote(self, old: Object, new: Object) -> None:
        """We wrote `new` over `old`. The server takes that only from the latest version, so nothing lies between."""
        key = Key(self._kind, str(metadata(old).get("namespace", "")), name_of(old))
        if self._objects.get(key) is old:
            self._objects[key] = new

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


class Named:
    """Handler for objects that workloads of one kind name, and do not own."""

    def __init__(self, workloads: Workloads) -> None:
        self._workloads = workloads
        self._known: dict[str, dict[str, Object]] = {}

    def of(self, namespace: str) -> tuple[Object, ...]:
        """Those of a namespace."""
        return tuple(self._known.get(namespace, {}).values())

    def on_replace(self, items: list[Any]) -> None:
        """The first list."""
        for obj in items:
            self.on_upsert(obj)

    def on_upsert(self, obj: Object) -> None:
        """New or changed."""
        namespace = str(metadata(obj).get("namespace", ""))
        self._known.setdefault(namespace, {})[name_of(obj)] = obj
        self._workloads.look_again(namespace)

    def on_delete(self, obj: Object) -> None:
        """Gone."""
        namespace = str(metadata(obj).get("namespace", ""))
        self._known.get(namespace, {}).pop(name_of(obj), None)
        self._workloads.look_again(namespace)


class Owned:
    """Handler for everything workloads own, by the UID of the owner."""

    def __init__(self, kinds: tuple[str, ...], changed: Callable[[Key], None]) -> None:
        self._kinds = kinds
        self._deploying = {row.name.lower(): row.name for row in CONTROLLED if row.deploys}
        self._changed = changed
        self._by_owner: dict[str, dict[str, Object]] = {}
        self._owner_of: dict[str, str] = {}
        self._gone: dict[str, None] = {}
        self._unseen: dict[str, Object] = {}
        """What we created and the watch has not brought yet, by UID."""

    def of(self, owner_uid: str) -> Children:
        """What a workload owns now, in order of names so that decisions repeat."""
        found = sorted(self._by_owner.get(owner_uid, {}).values(), key=lambda each: (each["kind"], name_of(each)))
        return Children(
            pods=tuple(each for each in found if each["kind"] == "Pod"),
            companions=tuple(each for each in found if each["kind"] != "Pod"),
        )

    def made(self, obj: Object) -> None:
        """We created `obj`. The watch may have brought it already, or even its end; then that counts."""
        owner = self._controller(obj)
        if owner is not None and uid_of(obj) not in self._owner_of and uid_of(obj) not in self._gone:
            self._remember(obj, owner)
            self._unseen[uid_of(obj)] = obj

    def updated(self, sent: Object, new: Object) -> None:
        """We replaced an object: `new` counts, unless the watch has brought a version other than the one `sent`."""
        owner = self._owner_of.get(uid_of(new))
        mine = self._by_owner[owner] if owner is not None else {}
        known = mine.get(uid_of(new))
        if known is not None and metadata(known).get("resourceVersion") == metadata(sent).get("resourceVersion"):
            mine[uid_of(new)] = new

    @property
    def unseen(self) -> Mapping[str, Object]:
        """By UID, what we created and the watch has not brought. It never will if it read everything anew after the
        object had gone: the caller that finds this out calls `on_delete`.
        """
        return self._unseen

    def on_replace(self, items: list[Any]) -> None:
        """The first list of one kind."""
        for obj in items:
            self.on_upsert(obj)

    def on_upsert(self, obj: Object) -> None:
        """New or changed."""
        owner = self._controller(obj)
        self._unseen.pop(uid_of(obj), None)
        known = self._owner_of.get(uid_of(obj))
        if known is not None and (owner is None or owner["uid"] != known):
            self._forget(uid_of(obj))
        if owner is not None:
            self._remember(obj, owner)
            self._tell(obj, owner)

    def on_delete(self, obj: Object) -> None:
        """Gone."""
        self._forget(uid_of(obj))
        self._unseen.pop(uid_of(obj), None)
        self._gone[uid_of(obj)] = None
        if len(self._gone) > _GONE_REMEMBERED:
            del self._gone[next(iter(self._gone))]
        owner = self._controller(obj)
        if owner is not None:
            self._tell(obj, owner)

    def _remember(self, obj: Object, owner: Object) -> None:
        self._owner_of[uid_of(obj)] = owner["uid"]
        self._by_owner.setdefault(owner["uid"], {})[uid_of(obj)] = obj

    def _forget(self, uid: str) -> None:
        owner = self._owner_of.pop(uid, None)
        if owner is not None:
            mine = self._by_owner[owner]
            mine.pop(uid, None)
            if not mine:
                del self._by_owner[owner]

    def _controller(self, obj: Object) -> Object | None:
        owners = metadata(obj).get("ownerReferences") or ()
        found = next((each for each in owners if each.get("controller") and each.get("kind") in self._kinds), None)
        return found if found is not None or obj["kind"] != "Pod" else self._above(obj)

    def _above(self, pod: Object) -> Object | None:
        """The workload of a pod that a Deployment of it made, by its labels: users may write them, and what such a pod
        is counts for the workload's status alone.
        """
        labels = metadata(pod).get("labels") or {}
        kind, uid = self._deploying.get(str(labels.get(COMPONENT_LABEL))), labels.get(OWNER_UID_LABEL)
        return {"kind": kind, "name": labels.get(OWNER_NAME_LABEL), "uid": uid} if kind and uid else None

    def _tell(self, obj: Object, owner: Object) -> None:
        self._changed(Key(owner["kind"], str(metadata(obj).get("namespace", "")), owner["name"]))
