"""Following the watches before one's turn to lead: what comes is kept, decoded, and handed on when it is.

The state is built in the order of every start (agreements, groups, pods), so a standby decides nothing early and writes
nothing down; what it saves at its turn is reading everything from the API server.
"""

import asyncio
from typing import Any, Protocol

from t9ksched.kube.watch.identity import Identity, identify

_PIECE = 100
"""Objects handed on before others get their turn."""


class Receiver(Protocol):
    """Who gets the objects of one kind."""

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
        """Whether the receiver must hear that this object is gone: it knows it."""
        if self._kept is None:
            return True
        self._kept.pop(uid, None)
        known = uid in self._given
        self._given.discard(uid)
        return known


class LeanGate(Gate):
    """For receivers that hear only the identity of what is gone."""

    def on_gone(self, identity: Identity) -> None:
        """Gone."""
        if self._forwards(identity.uid):
            self._receiver.on_delete(identity)
