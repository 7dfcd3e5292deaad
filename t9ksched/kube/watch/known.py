"""The objects that a reflector knows of, and what each event of a watch means to them.

Versions are opaque: they are compared for equality alone. The stream's order is the truth, UIDs tell a new object from
an old one of its name, and an event seen before is dropped. A stream that is out of order brings nothing back: a UID
that was deleted stays deleted, and a version that, read as a number, lies before the one known proves nothing but is
reason enough to read everything again.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar, cast

from msgspec import structs

from t9ksched.kube.errors import Expired
from t9ksched.kube.watch.handler import Handler, IdentityHandler
from t9ksched.kube.watch.identity import Identity, goes_back, identify

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_PIECE = 100
"""Objects that are forgotten before other tasks of the event loop run."""
_REMEMBERED = 8192
"""How many events, and UIDs of deleted objects, are remembered at least: a server repeats at most what it sent since
the last version seen, and disorder reaches no further.
"""


class KnownObjects(Generic[T]):
    """What is known of one kind of objects; tells `handler` what changes.

    With `selected` objects are followed that selectors match: one may leave the selection and come back.
    """

    def __init__(self, handler: Handler[T], *, selected: bool) -> None:
        self._handler = handler
        self._selected = selected
        self._identities: dict[str, dict[str, Identity]] = {}
        """By namespace and name."""
        self.objects: dict[tuple[str, str], T] | None = None if isinstance(handler, IdentityHandler) else {}
        """By namespace and name, for the handler that wants to see what is gone."""
        self._fresh: set[str] | None = None
        """UIDs read since the list began; None as long as nothing was known before it, and nothing can have gone."""
        self._seen: set[tuple[str, str, bool]] = set()
        """The newest events …"""
        self._seen_before: set[tuple[str, str, bool]] = set()
        """… and as many before them, which are forgotten together: one by one costs more than an event."""
        self._gone: dict[str, str] = {}

    def __len__(self) -> int:
        return sum(map(len, self._identities.values()))

    def begin_list(self) -> None:
        """Everything is read from now on."""
        self._fresh = set() if len(self) else None

    async def forget_missing(self) -> None:
        """Forget what was known before the list and did not come in it, now that it was read to its end."""
        fresh, self._fresh = self._fresh, None
        if fresh is None:
            return
        missing = [one for named in self._identities.values() for one in named.values() if one.uid not in fresh]
        for count, identity in enumerate(missing, start=1):
            self.forget(identity)
            if count % _PIECE == 0:
                await asyncio.sleep(0)

    async def forget_all(self) -> None:
        """Forget everything: the server does not have the kind any more."""
        self.begin_list()
        await self.forget_missing()

    def listed(self, obj: T) -> bool:
        """Note an object that was listed; whether the handler must hear of it. A list is right about what exists."""
        identity = identify(obj)
        self._gone.pop(identity.uid, None)
        if self._fresh is not None:
            self._fresh.add(identity.uid)
        return self._note(identity, obj)

    def learn(self, obj: T) -> bool:
        """Note an object that was read beside the stream; whether the handler must hear of it."""
        identity = identify(obj)
        if identity.uid in self._gone:
            return False
        if self._fresh is not None:  # a list that began before the object was read does not prove that it is gone
            self._fresh.add(identity.uid)
        known = self._identities.get(identity.namespace, {}).get(identity.name)
        if known is None or known.uid != identity.uid:
            # Without its version, so that no later event of the stream sets an older one.
            self._note(structs.replace(identity, version=""), obj)
        return True

    def repeated(self, identity: Identity, deleted: bool) -> bool:
        """Whether this very event came before; remembers it. An empty version proves nothing."""
        if not identity.version:
            return False
        mark = identity.uid, identity.version, deleted
        if mark in self._seen or mark in self._seen_before:
            return True
        if len(self._seen) >= _REMEMBERED:
            self._seen_before, self._seen = self._seen, set()
        self._seen.add(mark)
        return False

    def delete(self, identity: Identity, obj: T | None) -> None:
        known = self._identities.get(identity.namespace, {}).get(identity.name)
        mine = known is not None and known.uid == identity.uid
        if self._selected and known is not None and mine and goes_back(known.version, identity.version):
            raise _disorder(known, identity)  # it left the selection, and came back before
        _remember(self._gone, identity.uid, identity.version)
        if mine:
            self.forget(identity, obj)

    def upsert(self, identity: Identity, obj: T) -> None:
        gone = self._gone.get(identity.uid)
        if gone is not None:
            if not self._selected:
                return  # what was deleted never comes back: this event is late
            if goes_back(gone, identity.version):
                raise _disorder(structs.replace(identity, version=gone), identity)
            del self._gone[identity.uid]
        named = self._identities.get(identity.namespace)
        known = named.get(identity.name) if named is not None else None
        if named is None or known is None:
            self._keep(identity, obj)
        elif known.uid != identity.uid or goes_back(known.version, identity.version):
            raise _disorder(known, identity)  # two of one name without a deletion between them: which came first?
        elif not self._renew(named, known, identity.version, obj):
            return
        self._handler.on_upsert(obj)

    def _note(self, identity: Identity, obj: T) -> bool:
        """Keep which version is known; whether it is another one than before."""
        named = self._identities.get(identity.namespace)
        known = named.get(identity.name) if named is not None else None
        if named is not None and known is not None:
            if known.uid == identity.uid:
                return self._renew(named, known, identity.version, obj)
            _remember(self._gone, known.uid, known.version)  # its deletion was in a piece of stream that we missed
            self.forget(known)
        self._keep(identity, obj)
        return True

    def _keep(self, identity: Identity, obj: T) -> None:
        """An object that was not known."""
        self._identities.setdefault(identity.namespace, {})[identity.name] = identity
        if self.objects is not None:
            self.objects[identity.namespace, identity.name] = obj

    def _renew(self, named: dict[str, Identity], known: Identity, version: str, obj: T) -> bool:
        """The version of a known object; whether it is another one than before."""
        if version and known.version == version:
            return False
        # Of the other strings one copy is enough.
        named[known.name] = Identity(known.namespace, known.name, known.uid, version)
        if self.objects is not None:
            self.objects[known.namespace, known.name] = obj
        return True

    def forget(self, identity: Identity, obj: T | None = None) -> None:
        """The object is gone; `obj` is its last state where the server sent one."""
        named = self._identities[identity.namespace]
        del named[identity.name]
        if not named:
            del self._identities[identity.namespace]
        if self.objects is None:
            cast("IdentityHandler", self._handler).on_gone(identity)
            return
        last = self.objects.pop((identity.namespace, identity.name))
        self._handler.on_delete(last if obj is None else obj)


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    """Keep the newest few."""
    memory[key] = value
    if len(memory) > _REMEMBERED:
        del memory[next(iter(memory))]


def _disorder(known: Identity, late: Identity) -> Expired:
    where = f"{known.namespace}/{known.name}" if known.namespace else known.name
    told = f"{where}: {late.uid} at version {late.version} came after {known.uid} at {known.version}"
    return Expired(0, "OutOfOrder", f"{told}, all is read again")
