"""Objects that a server may show in several versions: each is taken once, in the first version that has it.

A server may stop serving a version while its objects live on. They are taken in the next one then. An object that is
deleted is gone in all versions, though the watch of another one may still be behind.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from t9ksched.model.ordered import OrderedSet
from t9ksched.scheduler.state.objects import JobObject

_REMEMBERED: Final = 4096
"""How many UIDs of deleted objects are remembered."""


class Versions:
    """The versions of one kind, the one that counts first being the first that is added; `gone` lets an object go."""

    def __init__(self, gone: Callable[[JobObject], None]) -> None:
        self._gone = gone
        self._takers: list[Callable[[JobObject], None]] = []
        self._kept: dict[str, dict[int, JobObject]] = {}
        """By UID and place of the version."""
        self._deleted: OrderedSet[str] = OrderedSet()

    def add(self, take: Callable[[JobObject], None]) -> int:
        """Add a version, whose objects `take` takes in; its place."""
        self._takers.append(take)
        return len(self._takers) - 1

    def upsert(self, place: int, obj: JobObject) -> None:
        """An object appeared or changed in a version."""
        uid = obj.metadata.uid
        if uid in self._deleted:
            return
        kept = self._kept.setdefault(uid, {})
        kept[place] = obj
        if place == min(kept):
            self._takers[place](obj)

    def remove(self, place: int, uid: str, *, served: bool) -> None:
        """An object is gone from a version; from all, if that version is still served."""
        kept = self._kept.get(uid)
        if kept is None or place not in kept:
            return
        shown = min(kept)
        last = kept.pop(place)
        if place != shown:
            return
        if kept and not served:
            place = min(kept)
            self._takers[place](kept[place])
            return
        if kept:  # what the watch of another version still tells of it is late
            self._deleted.add(uid)
            for oldest in list(islice(self._deleted, max(0, len(self._deleted) - _REMEMBERED))):
                self._deleted.discard(oldest)
        del self._kept[uid]
        self._gone(last)
