"""Which pods use which claims: the pods to judge again when a claim means something else.

Of pods that have a place only what their node attaches for them is counted anew: whether others use a volume too
decides how. Of pods that share an exclusive claim one comes first: the one that has a place, else the oldest; the
others wait for it.
"""

from collections import Counter
from collections.abc import Iterable

from t9ksched.model.podclass import SharedVolume
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claims import ClaimKey
from t9ksched.scheduler.state.volumes.exclusive import in_use
from t9ksched.scheduler.state.volumes.meanings import NOTHING, Meaning, Meanings

_Rank = tuple[bool, int, str]
"""Whether a pod has no place, when it was created, and its UID: the least comes first."""


class _Users:
    """The pods that use a claim and have not ended.

    Attributes:
        ranks: of all of them, by UID.
        waiting: those without a node.
        there: those with one.
        first: UID of the one that comes first; None until that is asked for.
    """

    __slots__ = ("first", "ranks", "there", "waiting")

    def __init__(self) -> None:
        self.ranks: dict[str, _Rank] = {}
        self.waiting: dict[str, PodRecord] = {}
        self.there: dict[str, PodRecord] = {}
        self.first: str | None = None

    def note(self, record: PodRecord, *, gone: bool) -> Iterable[PodRecord]:
        """Take in what a pod is now. Returns those that it makes a difference to."""
        shared, uid, before = len(self.ranks) > 1, record.uid, self.first
        old = self.ranks.pop(uid, None)
        if not (gone or record.finished):
            self.ranks[uid] = rank = (not (record.node or record.assumed), record.created, uid)
            if before is not None and rank < self.ranks[before]:
                self.first = uid
            if uid == before and old is not None and old < rank:
                self.first = None
        elif uid == before:
            self.first = None
        self.waiting.pop(uid, None)
        self.there.pop(uid, None)
        if uid in self.ranks:
            (self.there if record.node else self.waiting)[uid] = record
        if shared != (len(self.ranks) > 1):
            return [*self.waiting.values(), *self.there.values()]
        if before is None or before == self.comes_first():
            return ()
        return [self.waiting[one] for one in (before, self.comes_first()) if one in self.waiting]

    def comes_first(self) -> str | None:
        """UID of the pod that may use an exclusive claim."""
        if self.first is None and self.ranks:
            self.first = min(self.ranks, key=self.ranks.__getitem__)
        return self.first


class Claimants:
    """The pods that use claims, by claim; those `beside` are of another state, and come first."""

    def __init__(self, meanings: Meanings, beside: "Claimants | None" = None) -> None:
        self._meanings = meanings
        self._beside: dict[ClaimKey, _Users] = beside._users if beside is not None else {}
        self._users: dict[ClaimKey, _Users] = {}
        self.concerned: dict[str, PodRecord] = {}
        """Pods that use a claim which means something else than when they were judged, by UID."""
        meanings.moved = self._moved

    def _moved(self, key: ClaimKey) -> None:
        if (users := self._users.get(key)) is not None:
            self.concerned.update(users.waiting)
            self.concerned.update(users.there)

    def seen(self, record: PodRecord) -> list[PodRecord]:
        """A pod that uses claims came, got a place, lost it or ended.

        Returns:
            The other pods to which that makes a difference.
        """
        return self._note(record, gone=False)

    def remove(self, record: PodRecord) -> list[PodRecord]:
        """A pod is gone. Returns others, as `seen`."""
        return self._note(record, gone=True)

    def _note(self, record: PodRecord, *, gone: bool) -> list[PodRecord]:
        if gone or record.finished:
            self.concerned.pop(record.uid, None)
        found: dict[str, PodRecord] = {}
        for name in dict.fromkeys(record.claims):
            key = record.namespace, name
            users = self._users.get(key)
            if users is None:
                users = self._users[key] = _Users()
            found.update((other.uid, other) for other in users.note(record, gone=gone))
            if not users.ranks:
                del self._users[key]
                self._meanings.forget(key)
        found.pop(record.uid, None)
        return list(found.values())

    def meaning(self, record: PodRecord) -> Meaning:
        """What the pod's claims mean for it now."""
        if not record.claims:
            return NOTHING
        affinity, reasons, unbound, exclusive = [], [], [], []
        attach: Counter[str] = Counter()
        volumes: set[SharedVolume] = set()
        for name in dict.fromkeys(record.claims):
            key = record.namespace, name
            one, users = self._meanings.of(key), self._users.get(key)
            if one.exclusive:
                exclusive.append(name)
            beside = key in self._beside
            if one.exclusive and (beside or (users is not None and users.comes_first() not in (None, record.uid))):
                reasons.append(in_use(name))
            shared = beside or (users is not None and len(users.ranks) > (record.uid in users.ranks))
            if one.unbound:  # a claim that is shared takes one volume for several pods: none of them is counted with it
                unbound.append((name, "" if shared else one.free))
            if one.reason is not None:
                reasons.append(one.reason)
            if one.affinity is not None:
                affinity.append(one.affinity)
            if one.attach and (shared or one.shared):
                volumes.add(SharedVolume(one.attach, one.volume))
            elif one.attach:
                attach[one.attach] += 1
        return Meaning(
            tuple(affinity),
            tuple(sorted(attach.items())),
            tuple(reasons),
            tuple(unbound),
            tuple(exclusive),
            tuple(sorted(volumes)),
        )
