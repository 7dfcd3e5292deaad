"""Acceptances of groups, and what ends a run of a group."""

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import structs

from t9ksched.model.reasons import Code
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.limits import asked_at_end
from t9ksched.scheduler.state.minimum import Minimum
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.runs import Run

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_ACCEPTED_AT_ONCE = 200
"""Groups that are accepted as they run in one call."""


class Agreements:
    """Keeps acceptances, and starts groups anew. Times are nanoseconds since the epoch, passed in."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state

    def accept(self, acceptance: Acceptance) -> None:
        """An acceptance read from SQL: at start, or because the service recorded one."""
        uid = acceptance.uid
        known = self._state.acceptances.get(uid)
        if known is not None and known.replicas is not None:  # amounts that were recorded since are newer
            kept = {name: getattr(known, name) for name in ("queue", "priority", "replicas", "requests", "cards")}
            if known.queue != acceptance.queue:
                kept["permitted_by"] = known.permitted_by  # a role over one queue does not apply to another
            acceptance = structs.replace(acceptance, **kept, started_at=_later(known.started_at, acceptance.started_at))
        if known is not None and known.submitter is not None and acceptance.submitter is None:
            names = ("submitter", "groups", "permitted_by")
            acceptance = structs.replace(acceptance, **{name: getattr(known, name) for name in names})
        if acceptance.submitter is not None:
            self._state.announced.forget(uid)
        if known is not None and known.began_with is not None:
            acceptance = structs.replace(acceptance, began_with=known.began_with, began_roles=known.began_roles)
        self._state.acceptances[uid] = acceptance
        if acceptance.by_itself:
            self._state.group_events.free(uid)
        self._state._queue_attribution.changed()
        self._state.feed.jobs.note(uid)
        self._state.arrays.touch(uid)  # its submitter may be known now
        gang, pod = self._state.gangs_by_uid.get(uid), self._state.pods.get(uid)
        if gang is not None and (gang.acceptance is None or gang.acceptance.submitter is None):
            gang.acceptance = acceptance
            self._state.feed.held_otherwise(gang)
            began = Minimum.on_record(acceptance)
            fresh = gang not in self._state.begun  # no start and no eviction of it waits to be recorded
            if began is not None and gang.evicted is None and (fresh or (gang.ran and known is None)):
                gang.ran = gang.scheduled = True
                gang.began_with = began
            elif gang.began_with is not None:
                self._state.begun.add(gang)
        if gang is not None:
            self._state.group_events.settle_agreement(gang)
        if pod is not None:
            self._state.joining.follow(pod)
        self._state.membership.owner_changed(uid)
        self._state.membership.doubt_strangers()
        owners = self._state.owners
        owned = (
            one for below in (*owners.controllers(uid), *owners.works(uid)) for one in self._state.gangs_of_owner(below)
        )
        for concerned in dict.fromkeys((gang, pod.gang if pod else None, *owned)):
            if concerned is not None:
                self._state.changes.gang_changed(concerned)
                self._state.group_events.settle_bill(concerned)
                self._state.wake()

    def accept_running(self, now: int) -> bool:
        """Accept groups that hold places as they are, even if their queue was closed since: they ran before this
        process started, or the record of their acceptance was lost with the process that made it. Later edits change
        nothing of them either.

        A few groups a call, so that a start on a large cluster does not hold the loop; whether there are more.
        """
        if self._state.outage.unread:
            return False  # its acceptance is in the database and not read yet
        self._state.changes.settle()
        for gang in list(islice(self._state._unaccepted, _ACCEPTED_AT_ONCE)):
            self._state._unaccepted.discard(gang)
            if gang.uid and gang.placed_count():
                self._state.gate.accept(gang, now, runs=True)
                self._state.gate.note_start(gang, now)
        for gang in list(islice(self._state.begun, _ACCEPTED_AT_ONCE)):
            self._state.begun.discard(gang)
            self._state.gate.note_beginning(gang)
        return bool(self._state._unaccepted or self._state.begun)

    def accepted_anew(self, acceptance: Acceptance) -> None:
        """A group was accepted: its acceptance must be written."""
        self._state._queue_attribution.changed()
        self._state.feed.acceptances.add(acceptance)
        self._state.outage.accepted(acceptance.uid)

    def start_again(self, gang: GangRecord, reason: str, message: str) -> None:
        """The group is evicted whole, for that reason: it needs its whole minimum at once, as if it had never run, with
        the age it has.
        """
        gang.ran, gang.displaced, gang.began_with = False, True, None
        gang.leaving = frozenset(pod.uid for pod in gang.members.values() if pod.node)
        self._state.begun.add(gang)
        self._state.clocks.start_anew(gang)
        if gang.scheduled:
            gang.evicted = (reason, message)
        gang.first_bound = gang.admitted = gang.fell = 0
        self._state.group_events.drop_reservations(gang)
        self._state.changes.gang_changed(gang)
        self._state.wake()

    def note_end(
        self, gang: GangRecord, code: Code, message: str, now: int, limit: int | None = None, due: int = 0
    ) -> None:
        """The job of a group was stopped because of a limit, in seconds if it is the job's own, which it reached at
        that time at the latest. Its next run is timed anew.
        """
        asked = asked_at_end(self._state, gang) if limit is not None else None
        gangs = self._state.groups_of(job_of(gang)) or [gang]
        clock = self._state.clocks.begin(Clock(Run(uid=job_of(gang))))
        clock.start_anew(
            pod.uid for one in gangs for pod in one.members.values() if pod.node and not one.inherited(pod)
        )
        clock.due = min(due, now)
        clock.set(ended_at=now, ended_code=str(code), ended_limit=limit, ended_asked=asked, message=message)
        for one in gangs:
            self.start_again(one, str(code), message)

    def forfeit(self, gang: GangRecord) -> None:
        """Another gang gets the room reserved for the group's lost members, and the group waits like any other."""
        self._state.changes.displaced(gang)
        self._state.group_events.drop_reservations(gang)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one, other) if one is not None and other is not None else one or other
