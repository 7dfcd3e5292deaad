"""Garbage collection: what happens to the dependants of a deleted owner, and to terminating namespaces.

Work is queued by the writes themselves and done in order by one task, so that a delete's answer never waits for it:
Background removes dependants after their last owner, Foreground before it, Orphan strips the reference. A terminating
namespace is emptied, then finalized.
"""

import asyncio
import contextlib
from collections import deque
from typing import Any, Final

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.metadata import FOREGROUND, ORPHAN
from t9ksched.devcluster.apiserver.options import DeleteOptions
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.apiserver.storage import Entry

Object = dict[str, Any]
_BATCH: Final = 20
"""Steps after which other tasks run."""
Place = tuple[str, str]
"""Collection and key of an object."""


class GarbageCollector:
    """One collector for one cluster; `run` works until it is cancelled."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._dependants: dict[str, set[Place]] = {}
        self._owners: dict[Place, tuple[str, ...]] = {}
        self._uids: dict[str, Place] = {}
        self._work: deque[tuple[str, Place, Object]] = deque()
        self._wake = asyncio.Event()
        for name, entry in api.storage.everything():
            self._remember(name, entry, removed=False)
        for name, entry in api.storage.everything():
            self._queue(name, entry, removed=False)
            self._check_owners(name, entry)
        api.observers.append(self._observe)

    def _observe(self, kind: Kind, entry: Entry, removed: bool) -> None:
        self._remember(kind.collection, entry, removed=removed)
        self._queue(kind.collection, entry, removed=removed)
        if not removed:
            self._check_owners(kind.collection, entry)

    def _remember(self, name: str, entry: Entry, *, removed: bool) -> None:
        meta = entry.object["metadata"]
        place = (name, entry.key)
        owners = () if removed else tuple(owner["uid"] for owner in meta.get("ownerReferences") or ())
        before = self._owners.get(place, ())
        if owners != before:
            for uid in before:
                found = self._dependants.get(uid)
                if found is not None:
                    found.discard(place)
                    if not found:
                        del self._dependants[uid]
            for uid in owners:
                self._dependants.setdefault(uid, set()).add(place)
            self._owners[place] = owners
        if removed:
            self._owners.pop(place, None)
            self._uids.pop(meta["uid"], None)
        else:
            self._uids[meta["uid"]] = place

    def _queue(self, name: str, entry: Entry, *, removed: bool) -> None:
        meta = entry.object["metadata"]
        place = (name, entry.key)
        if removed:
            if meta["uid"] in self._dependants:
                self._add("release", place, entry.object)
            for uid in dict.fromkeys(owner["uid"] for owner in meta.get("ownerReferences") or ()):
                owner = self._uids.get(uid)
                if owner is not None:
                    self._add("finish", owner, entry.object)
            if name != "namespaces" and (namespace := meta.get("namespace")):
                home = self._api.storage.collection("namespaces").entries.get(namespace)
                if home is not None and "deletionTimestamp" in home.object["metadata"]:
                    self._add("namespace", ("namespaces", namespace), home.object)
        elif "deletionTimestamp" in meta:
            if name == "namespaces":
                self._add("namespace", place, entry.object)
            elif {FOREGROUND, ORPHAN} & set(meta.get("finalizers") or ()):
                self._add("finish", place, entry.object)

    def _check_owners(self, name: str, entry: Entry) -> None:
        """An object of which no owner exists was made too late: it is deleted as its owner was."""
        owners = entry.object["metadata"].get("ownerReferences") or ()
        if owners and not any(owner["uid"] in self._uids for owner in owners):
            self._add("orphaned", (name, entry.key), entry.object)

    def _add(self, what: str, place: Place, obj: Object) -> None:
        self._work.append((what, place, obj))
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._wake.wait()
            if not self.work(_BATCH):
                self._wake.clear()
            await asyncio.sleep(0)

    def work(self, most: int | None = None) -> bool:
        """Do what is queued, at most that many steps; whether something is left."""
        while self._work and most != 0:
            what, place, obj = self._work.popleft()
            with contextlib.suppress(StatusError):  # deleted or changed meanwhile: a later entry handles it
                self._do(what, place, obj)
            most = None if most is None else most - 1
        return bool(self._work)

    def _do(self, what: str, place: Place, obj: Object) -> None:
        if what == "release":
            for dependant in sorted(self._dependants.get(obj["metadata"]["uid"], ())):
                self._drop_dependant(dependant)
        elif what == "orphaned":
            self._drop_dependant(place)
        elif what == "finish":
            self._finish(place)
        else:
            self._empty_namespace(place)

    def _entry(self, place: Place) -> tuple[Kind, Entry] | None:
        entry = self._api.storage.collection(place[0]).entries.get(place[1])
        if entry is None:
            return None
        kind = self._kind(place[0])
        return (kind, entry) if kind is not None else None

    def _kind(self, collection: str) -> Kind | None:
        for kind in self._api.registry.all():
            if kind.collection == collection and kind.from_stored is None:
                return kind
        return None

    def _drop_dependant(self, place: Place) -> None:
        """Delete a dependant, unless another owner still exists; then only the references to deleted owners are
        removed.
        """
        found = self._entry(place)
        if found is None:
            return
        kind, entry = found
        owners = entry.object["metadata"].get("ownerReferences") or []
        living = [owner for owner in owners if owner["uid"] in self._uids]
        if living and len(living) < len(owners):
            self._api.edit(kind, entry, lambda obj: obj["metadata"].update(ownerReferences=living))
        elif not living:
            self._api.delete_entry(kind, entry, DeleteOptions(propagation="Background"))

    def _finish(self, place: Place) -> None:
        """Do what an owner's finalizer waits for, and take the finalizer away when it is done."""
        found = self._entry(place)
        if found is None:
            return
        kind, entry = found
        meta = entry.object["metadata"]
        if "deletionTimestamp" not in meta:
            return
        finalizers = meta.get("finalizers") or []
        dependants = sorted(self._dependants.get(meta["uid"], ()))
        if ORPHAN in finalizers:
            for dependant in dependants:
                self._strip(dependant, meta["uid"])
            self._remove_finalizer(kind, entry, ORPHAN)
        elif FOREGROUND in finalizers:
            waiting = [place for place in dependants if self._begin_foreground(place, meta["uid"])]
            if not waiting:
                fresh = self._entry(place)
                if fresh is not None:
                    self._remove_finalizer(kind, fresh[1], FOREGROUND)

    def _strip(self, place: Place, owner: str) -> None:
        found = self._entry(place)
        if found is None:
            return
        kind, entry = found
        kept = [ref for ref in entry.object["metadata"].get("ownerReferences") or [] if ref["uid"] != owner]

        def change(obj: Object) -> None:
            if kept:
                obj["metadata"]["ownerReferences"] = kept
            else:
                obj["metadata"].pop("ownerReferences", None)

        self._api.edit(kind, entry, change)

    def _begin_foreground(self, place: Place, owner: str) -> bool:
        """Delete a dependant before its owner; whether it is still there and blocks the owner."""
        found = self._entry(place)
        if found is None:
            return False
        kind, entry = found
        references = entry.object["metadata"].get("ownerReferences") or []
        mine = [reference for reference in references if reference["uid"] == owner]
        others = [ref for ref in references if ref["uid"] != owner and ref["uid"] in self._uids]
        if others:
            self._strip(place, owner)
            return False
        if "deletionTimestamp" not in entry.object["metadata"]:
            policy = "Foreground" if entry.object["metadata"]["uid"] in self._dependants else "Background"
            self._api.delete_entry(kind, entry, DeleteOptions(propagation=policy))
        return self._entry(place) is not None and any(ref.get("blockOwnerDeletion") for ref in mine)

    def _remove_finalizer(self, kind: Kind, entry: Entry, name: str) -> None:
        kept = [finalizer for finalizer in entry.object["metadata"].get("finalizers") or [] if finalizer != name]

        def change(obj: Object) -> None:
            if kept:
                obj["metadata"]["finalizers"] = kept
            else:
                obj["metadata"].pop("finalizers", None)

        self._api.edit(kind, entry, change)

    def _empty_namespace(self, place: Place) -> None:
        """Delete what is in a terminating namespace; when nothing is left, let it end."""
        found = self._entry(place)
        if found is None:
            return
        kind, entry = found
        left = False
        for other in self._api.registry.all():
            if not other.namespaced or other.from_stored is not None:
                continue
            for item in self._api.collection(other).range(f"{place[1]}/"):
                if "deletionTimestamp" not in item.object["metadata"]:
                    with contextlib.suppress(StatusError):
                        self._api.delete_entry(other, item, DeleteOptions(propagation="Background"))
                left = left or item.key in self._api.collection(other).entries
        if not left:
            self._api.edit(kind, entry, lambda obj: obj["spec"].pop("finalizers", None))
