"""What a `World`'s scheduler hands on to others: what changed since they looked, and what its members lost.

Each of them looks only at what it is told of. So whatever would read otherwise than at the last look must be among what
it is told; what is told in vain costs only time.
"""

from collections import Counter
from typing import Any

from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.report.groupstatus import group_status
from t9ksched.scheduler.report.observed_job import identity, observed_job, submitter
from t9ksched.scheduler.state.limits import limit_asked
from t9ksched.scheduler.state.records import GangRecord
from tests.property.stateobjects import ENDED

TAKEN_BACK = ("start_again", "forfeit", "limit_reached", "group", "group_goes", "restart", "again")
"""What makes losses be forgotten, or groups be others."""


class Told:
    """Follows one state."""

    def __init__(self, world: Any) -> None:
        self.world, self.state = world, world.state
        feed = self.state.feed
        self._told_gangs, self._told_queues = feed.gangs.follow(), feed.queues.follow()
        self._told_jobs, self._told_nameless = feed.jobs.follow(), feed.nameless.follow()
        self._told_ended = feed.ended.follow()
        self._gangs: list[GangRecord] = []
        self._groups: dict[GangRecord, Any] = {}
        self._queues: dict[str, Any] = {}
        self._asked: set[tuple[GangRecord, str]] = set()
        self._jobs: dict[str, Any] = {}
        self._indexed: dict[str, Any] = {}
        self._timed: dict[GangRecord, Any] = {}
        self._placed: dict[str, Any] = {}
        """Members that were on a node when last looked at, by UID."""
        self._members: dict[str, Any] = {}
        """Members of groups that held a place when last looked at: what is known of them, by UID."""
        self._here: dict[str, str] = {}
        """Root owner of each pod that had not ended and was not about to, by UID."""
        self._departures: dict[str, int] = {}

    def check(self) -> None:
        self.evictable()
        self.groups()
        self.queues()
        self.jobs()
        self.index()
        self.clocks()
        self.freed()
        self.losses()
        self.departures()

    def evictable(self) -> None:
        """Who may be evicted is told as it is."""
        state, now = self.state, self.world.now
        fresh = EvictableGangs(state, ())
        fresh._evicted["nobody"].append(("", 0))
        told, expected = self.world.evictable.running(now), fresh.running(now)
        fresh.rest()
        assert len(told) == len(expected)
        assert {one.uid: one for one in told} == {one.uid: one for one in expected}, (
            "who may be evicted is told as it was"
        )

    def groups(self) -> None:
        """Whose status would read otherwise."""
        state, self._gangs = self.state, self._told_gangs.take()
        for gang in state.gangs.values():
            if gang.virtual or not gang.uid:
                continue
            status = group_status(gang, {}, state.charges, "", lambda: "")
            if self._groups.get(gang) != status:
                assert gang in self._gangs, gang.key
                self._groups[gang] = status

    def queues(self) -> None:
        state, changed = self.state, set(self._told_queues.take())
        for name in state.queues:
            status = (
                dict(+Counter(state.charges.queue_used[name])),
                state.counts.groups[name],
                +state.counts.pods[name],
                state.queues[name],
            )
            if self._queues.get(name) != status:
                assert name in changed or name not in self._queues, name
                self._queues[name] = status
        assert changed >= {name for name in self._queues if name not in state.queues}
        self._queues = {name: status for name, status in self._queues.items() if name in state.queues}
        asked = {(gang, gang.queue) for gang in state.gangs.values()}
        assert state.unknown_queues >= {name for _, name in asked - self._asked} - state.queues.keys()
        self._asked = asked
        state.unknown_queues.clear()

    def jobs(self) -> None:
        """A job's phase is made of its groups' members, of its object, and of its being deleted. That a place was
        chosen for a member is told once it is bound.
        """
        state = self.state
        found: dict[str, Any] = {uid: [(job.phase, job.asks.limit)] for uid, job in state.jobs.items()}
        for gang in state.gangs.values():
            pods = sorted((pod.uid, pod.phase, pod.node, pod.deleting, pod.role) for pod in gang.members.values())
            uid = gang.owner.uid if gang.owner else gang.uid
            if uid:
                found.setdefault(uid, []).append((gang.key, gang.uid, gang.queue, gang.spec, gang.asks.limit, pods))
        for uid, parts in found.items():
            parts.sort(key=str)
            parts.append(uid in state.deleted)
        changed = {uid for uid in found.keys() | self._jobs.keys() if found.get(uid) != self._jobs.get(uid)}
        self._changed = set(self._told_jobs.take())
        assert changed <= self._changed, changed
        self._jobs = found

    def index(self) -> None:
        """Lists find jobs by name, queue and submitter."""
        state = self.state
        found: dict[str, Any] = {}
        for uid in {identity(gang)[0] for gang in state.gangs.values()} | state.jobs.keys():
            view = observed_job(state, uid)
            assert view is not None
            found[uid] = view.namespace, view.kind, view.name, view.queue, submitter(view, state)
        changed = {uid for uid in found.keys() | self._indexed.keys() if found.get(uid) != self._indexed.get(uid)}
        assert changed <= {*self._changed, *self._told_nameless.take()}, changed
        self._indexed = found

    def clocks(self) -> None:
        """Time limits and whether a group runs."""
        state = self.state
        for gang in state.gangs.values():
            pods = sorted((pod.uid, pod.phase, pod.node, pod.deleting) for pod in gang.members.values())
            status = limit_asked(state, gang), pods
            if self._timed.get(gang) != status:  # what is gone asks for nothing new
                assert gang in self._gangs or self.world.log[-1] == "owner_goes", gang.key
                self._timed[gang] = status

    def freed(self) -> None:
        """Who gave cards back, and which members of gangs succeeded."""
        state = self.state
        had, self._placed = self._placed, {}
        for uid, record in state.pods.items():
            if record.gang is not None and record.node and self._holds(uid):
                self._placed[uid] = record
        over = [record for uid, record in had.items() if uid not in self._placed]
        freed = Counter(one.name for one in over if one.pod_class.cards or one.did_its_part)
        assert Counter(pod.name for _, pod in self._told_ended.take()) == freed, "who gave cards back is told"

    def _holds(self, uid: str) -> bool:
        record = self.state.pods[uid]
        return bool(record.node) and record.phase not in ENDED and record.pod_class is not None

    def losses(self) -> None:
        """A member that held its place and does so no longer is lost, once, unless it ended well or was evicted."""
        state, had, self._members = self.state, self._members, {}
        fresh = [loss for losses in state.refills._new.values() for loss in losses]
        noted = {loss.uid: loss for loss in fresh}
        assert len(noted) == len(fresh), "a member is lost once"
        for uid, record in state.pods.items():
            gang = record.gang
            if record.holds and record.pod_class is not None and gang is not None and not gang.virtual and gang.uid:
                charge = state.charges.get(uid)
                assert charge is not None
                what = (record.role, record.pod_class, record.node, charge.cards)
                self._members[uid] = (gang, gang.uid, *what, record.owner, record.key, record.evicted)
        if self.world.log[-1:] and self.world.log[-1] in TAKEN_BACK:
            return
        lost = {}
        for uid, known in had.items():
            record = state.pods.get(uid)
            gone = uid not in self._members and known[0].uid == known[1]
            if gone and (record is None or not (record.evicted or record.phase == "Succeeded")):
                lost[uid] = known, record
        lost = {uid: both for uid, both in lost.items() if not both[0][-1]}
        assert noted.keys() == lost.keys()
        for uid, loss in noted.items():
            (_, _, role, pod_class, node, cards, owner, key, _), record = lost[uid]
            assert (loss.role, loss.pod_class, loss.node, loss.owner, loss.name) == (role, pod_class, node, owner, key)
            assert loss.cards == cards, "what it held is kept for its gang"
            assert loss.failed == (record is not None and record.phase == "Failed")

    def departures(self) -> None:
        """Owners that ask for more than was accepted hear of each of their pods that leaves."""
        state, had = self.state, self._here
        self._here = {
            uid: state.owners.root_uid(record.owner)
            for uid, record in state.pods.items()
            if record.owner is not None and not record.finished and not record.deleting
        }
        left = {root for uid, root in had.items() if uid not in self._here}
        for root in left & self._departures.keys():
            if root in self._here.values() or root in state.departures:
                assert state.departures[root] > self._departures[root], root
        self._departures = dict(state.departures)
