"""What the accepted pods of root owners hold in each queue. It is kept while groups change, so that one pod more costs
the same however many its owner has.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from t9ksched.scheduler.state.change_feed import Cursor
from t9ksched.scheduler.state.owner_records import NO_TEMPLATE, Held, holds
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.workloads.shape import Template

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_SPARE: Final = 100
"""So many more changes, or owners without accepted pods, are kept than groups are known."""


class _Share(msgspec.Struct):
    """What one group adds: to these owners, in that queue, the templates of its accepted pods."""

    owners: tuple[str, ...]
    queue: str
    templates: list[Template]


class HeldByOwners:
    """The totals of the owners that were asked about, and what each group adds to them."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._changing: Cursor[GangRecord] | None = None
        """Groups that change; None before the first question."""
        self._changed: dict[GangRecord, None] = {}
        """Groups that are to be counted anew."""
        self._shares: dict[GangRecord, _Share] = {}
        self._totals: dict[str, dict[str, Held]] = {}
        """By UID of the owner and by queue."""

    def follow(self) -> None:
        """Note which groups changed; called often. If they are more than those that are known, all is counted anew when
        it is asked for.
        """
        if self._changing is None:
            self._changing = self._state.feed.holding.follow()
        if self._changing:
            fresh = self._changing.take()
            if self._totals:
                self._changed |= {gang: None for gang in fresh if gang.owner is not None or gang in self._shares}
        if max(len(self._changed), len(self._totals)) > len(self._shares) + _SPARE:
            for kept in (self._changed, self._shares, self._totals):
                kept.clear()

    def of(self, owner: str, queue: str) -> Held:
        """What the accepted pods of that root owner hold in the queue, kept up to date by `add`."""
        return self._of(owner).setdefault(queue, Held())

    def any(self, owner: str) -> bool:
        """Whether that root owner has accepted pods, in any queue."""
        return any(held.count for held in self._of(owner).values())

    def note(self, gang: GangRecord) -> None:
        """Pods of the group were accepted."""
        self._changed[gang] = None

    def add(self, gang: GangRecord, pod: PodRecord) -> None:
        """One more pod of a group with an owner is accepted."""
        share = self._shares.get(gang)
        if share is None:
            share = self._shares[gang] = _Share(self._owners(gang), gang.queue, [])
        template = pod.template or NO_TEMPLATE
        share.templates.append(template)
        for held in self._concerned(share):
            held.add(template)

    def _of(self, owner: str) -> dict[str, Held]:
        self.follow()
        changed, self._changed = self._changed, {}
        for gang in changed:
            if self._shares.get(gang) != (share := self._share(gang)):
                self._leave_out(gang)
                self._count(gang, share)
        found = self._totals.get(owner)
        if found is None:
            owners = self._state.owners.controllers(owner)
            gangs = [gang for uid in owners for gang in self._state.gangs_of_owner(uid)]
            for gang in gangs:
                self._leave_out(gang)
            found = self._totals[owner] = {}
            for gang in gangs:
                self._count(gang, self._share(gang))
        return found

    def _leave_out(self, gang: GangRecord) -> None:
        share = self._shares.pop(gang, None)
        if share is not None:
            for held in self._concerned(share):
                for template in share.templates:
                    held.leave_out(template)

    def _count(self, gang: GangRecord, share: _Share | None) -> None:
        if share is not None:
            self._shares[gang] = share
            for held in self._concerned(share):
                for template in share.templates:
                    held.add(template)

    def _share(self, gang: GangRecord) -> _Share | None:
        """What a group adds now; None if that is nothing, or nobody asked."""
        owners = self._owners(gang)
        if self._totals.keys().isdisjoint(owners):
            return None
        templates = [pod.template or NO_TEMPLATE for pod in gang.members.values() if holds(pod)]
        return _Share(owners, gang.queue, templates) if templates else None

    def _concerned(self, share: _Share) -> Iterator[Held]:
        """The totals to which a group adds."""
        for owner in share.owners:
            if (totals := self._totals.get(owner)) is not None:
                yield totals.setdefault(share.queue, Held())

    def _owners(self, gang: GangRecord) -> tuple[str, ...]:
        return self._state.owners.roots(gang.owner.uid) if gang.owner is not None else ()
