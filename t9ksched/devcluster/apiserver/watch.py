"""Watches: the changes of one kind, as one client selects them.

A `Watcher` keeps nothing but its place in the history, so a slow client costs nothing and is told 410 when it falls
behind what is kept. A selector turns changes into transitions: an object that begins to match is ADDED, one that stops
is DELETED with its content from before.
"""

import asyncio
import math
from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.options import WatchOptions
from t9ksched.devcluster.apiserver.selectors import Matches
from t9ksched.devcluster.apiserver.status import StatusError, expired
from t9ksched.devcluster.apiserver.storage import Change, Entry, TooOld

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
BOOKMARK_EVERY: Final = 60.0
"""Seconds between periodic bookmarks, which come even when nothing happened: a silent stream is a dead one."""
_BEFORE_END: Final = 2.0
INITIAL_END: Final = "k8s.io/initial-events-end"


class Event(msgspec.Struct, frozen=True):
    """One event: its type and the object's state."""

    type: str
    entry: Entry


class Watcher:
    """One watch. Call `initial` once, then `next` until it returns None."""

    def __init__(
        self, api: Api, kind: Kind, namespace: str | None, matches: Matches | None, options: WatchOptions, limit: float
    ) -> None:
        self._kind = kind
        self._collection = api.collection(kind)
        self._prefix = f"{namespace}/" if namespace and kind.namespaced else ""
        self._matches = matches
        self._bookmarks = options.bookmarks
        self._initial = options.initial is True or (options.initial is None and options.version == 0)
        self._place = api.storage.version if options.version == 0 else options.version
        loop = asyncio.get_running_loop()
        self._ends = loop.time() + limit
        self._bookmark_at = self._following_bookmark(loop.time())
        self._api = api

    def initial(self) -> list[Event]:
        """The events with which the watch begins: every present object, if it was asked for without a version."""
        if not self._initial:
            return []
        self._place = self._api.storage.version
        entries = self._collection.range(self._prefix)
        events = [Event(ADDED, entry) for entry in entries if self._matches is None or self._matches(entry.object)]
        if self._bookmarks:
            events.append(Event(BOOKMARK, self._bookmark({INITIAL_END: "true"})))
        return events

    def _bookmark(self, annotations: dict[str, str] | None = None) -> Entry:
        meta: dict[str, Any] = {"resourceVersion": str(self._place)}
        if annotations:
            meta["annotations"] = annotations
        body = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}
        return Entry("", body, self._place)

    async def next(self) -> list[Event] | None:
        """The next events, as many as there are; None when the watch is over.

        Raises:
            StatusError: 410, the history no longer reaches back to the watch's place.
        """
        loop = asyncio.get_running_loop()
        while True:
            events = self.take()
            if events:
                return events
            now = loop.time()
            if now >= self._ends or not self._served():
                return None
            if now >= self._bookmark_at:
                self._bookmark_at = self._following_bookmark(now)
                return [Event(BOOKMARK, self._bookmark())]
            await self._collection.changed(self._place, max(0.0, min(self._ends, self._bookmark_at) - now))

    def _served(self) -> bool:
        kind = self._kind
        return kind.custom is None or self._api.registry.find(kind.group, kind.version, kind.plural) is not None

    def _following_bookmark(self, now: float) -> float:
        """When the next periodic bookmark is due: each minute, and shortly before the end."""
        last = self._ends - _BEFORE_END
        return min(now + BOOKMARK_EVERY, last) if self._bookmarks and now < last else math.inf

    def take(self) -> list[Event]:
        """The events that are there already."""
        try:
            changes = self._collection.since(self._place)
        except TooOld:
            raise too_old(self._place, self._collection.floor) from None
        if not changes:
            return []
        self._place = changes[-1].version
        found = []
        for change in changes:
            if self._prefix and not change.new.key.startswith(self._prefix):
                continue
            event = self._view(change)
            if event is not None:
                found.append(event)
        return found

    def _view(self, change: Change) -> Event | None:
        matches = self._matches
        if change.deleted:
            known = matches is None or change.old is None or matches(change.old.object)
            return Event(DELETED, change.new) if known else None
        before = change.old is not None and (matches is None or matches(change.old.object))
        after = matches is None or matches(change.new.object)
        if after:
            return Event(MODIFIED if before else ADDED, change.new)
        if before and change.old is not None:
            obj = dict(change.old.object)
            obj["metadata"] = {**obj["metadata"], "resourceVersion": str(change.version)}
            return Event(DELETED, Entry(change.new.key, obj, change.version))
        return None


def too_old(version: int, floor: int) -> StatusError:
    """The answer to a watch that begins before the kept history."""
    return expired(f"too old resource version: {version} ({floor})")
