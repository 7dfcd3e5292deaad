"""Follows the watches while the process is a standby: objects are kept decoded, and handed on once the process leads.

The state is built in the order of every start (agreements, groups, pods), so a standby decides nothing and records
nothing; when it becomes leader it need not read everything from the API server.
"""

import asyncio
from typing import Any, Protocol

from t9ksched.kube.watch.identity import Identity, identify

_PIECE = 100
"""Objects handed on before other tasks run."""


class Receiver(Protocol):
    """Receives the objects of one kind."""

    def on_piece(self, items: list[Any]) -> None: ...
    def on_upsert(self, obj: Any) -> None: ...
    def on_delete(self, obj: Any) -> None: ...


class Gate:
    """Between a reflector and its receiver. Open from the beginning; closed by `close`, it keeps the newest state of
    each object until `open`.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._kept: dict[str, Any] | None = None
        """By UID; None while the gate is open."""
        self._given: set[str] = set()
        """UIDs handed on while it is being opened."""

    def __len__(self) -> int:
        return len(self._kept or ())

    def close(self) -> None:
        """Keep what comes from now on."""
        self._kept = {}

    async def open(self, *, complete: bool) -> None:
        """Hand on what was kept, and from then on everything at once. `complete` says that the first list was read."""
        if self._kept is None:
            return
        while self._kept:
            uids = [uid for uid, _ in zip(self._kept, range(_PIECE), strict=False)]
            self._given.update(uids)
            self._receiver.on_piece([self._kept.pop(uid) for uid in uids])
            await asyncio.sleep(0)
        self._kept = None
        self._given.clear()
        if complete:
            self._receiver.on_piece([])

    def on_replace(self, items: list[Any]) -> None:
        """The first list, whole."""
        self.on_piece(items)

    def on_piece(self, items: list[Any]) -> None:
        """A piece of the first list; the last one is empty."""
        if self._kept is None:
            self._receiver.on_piece(items)
        else:
            self._kept.update((identify(item).uid, item) for item in items)

    def on_upsert(self, obj: Any) -> None:
        """New or changed."""
        if self._kept is None:
            self._receiver.on_upsert(obj)
        else:
            self._kept[identify(obj).uid] = obj

    def on_delete(self, obj: Any) -> None:
        """Gone."""
        if self._forwards(identify(obj).uid):
            self._receiver.on_delete(obj)

    def _forwards(self, uid: str) -> bool:
        """Whether the receiver must be told that this object is gone, because it knows it."""
        if self._kept is None:
            return True
        self._kept.pop(uid, None)
        known = uid in self._given
        self._given.discard(uid)
        return known


class LeanGate(Gate):
    """For receivers that take only the identity of a deleted object."""

    def on_gone(self, identity: Identity) -> None:
        """Gone."""
        if self._forwards(identity.uid):
            self._receiver.on_delete(identity)
