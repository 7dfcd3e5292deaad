"""Queues, and the objects that make pods."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from t9ksched.model.queue import Queue
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.records import FINISHED
from t9ksched.store.acceptances import Acceptance

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class JobEvents:
    """Takes in queues from SQL, and what the watches bring of jobs and other owners of pods."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state

    def set_queues(self, queues: Iterable[Queue]) -> None:
        """The queues as SQL has them now."""
        fresh = {queue.name: queue for queue in queues}
        if fresh == self._state.queues:
            return
        before = self._state.queues
        unlike = [name for name in {**before, **fresh} if fresh.get(name) != before.get(name)]
        self._state.feed.queues.note_all(unlike)
        self._state.queues = fresh
        self._state.permissions.changed(queues=unlike)
        self._state.wake()

    def upsert(self, job: JobRecord) -> None:
        """A job's object appeared or changed; its groups are found by their owner."""
        known = self._state.jobs.get(job.uid)
        job.labels = self._state._sharing.labels(dict(job.labels))
        if known is not None and known.kind != job.kind:
            self._forget_name(known)  # it is taken in another version now
            self._state.admission_pass.doubt_owned(job.uid)
        self._state.jobs[job.uid] = job
        self._state.job_names[job.namespace, job.kind, job.name] = job.uid
        if job.phase == "Paused":
            self._state.clocks.lost(job.uid)
        if self._state.refills.changed(job.uid) and not job.wants_pods:
            self._state.wake()
        if known is None:
            for gang in self._state.gangs_of_owner(job.uid):
                if gang.virtual and gang.spec.priority != job.priority:
                    gang.spec = replace(gang.spec, priority=job.priority)
                    self._state.changes.gang_changed(gang)
                elif any(job.asks.about_starts) or gang.start_after or gang.asked.after or job.deadline is not None:
                    self._state.changes.gang_changed(gang)  # the job's own annotation counts, and its deadline
        elif _timing(known) != _timing(job):
            for gang in self._state.gangs_of_owner(job.uid):
                self._state.changes.gang_changed(gang)  # it may be paused, start or end at another time, or resume
            self._state.wake()
        self._state.feed.jobs.note(job.uid)
        if job.asks.array or (known is not None and known.asks.array):
            self._state.arrays.note(job.uid)

    def remove(self, uid: str) -> None:
        """A job's object is gone."""
        self.remove_owner(uid)
        known = self._state.jobs.pop(uid, None)
        if known is not None:
            self._forget_name(known)
            self._state.dependencies.gone(uid, known.phase)
            self._state.arrays.touch(uid)
            self._state.admission_pass.doubt_owned(uid)  # its deadline counts no more
            if known.phase in FINISHED:
                self._state.deleted.discard(uid)  # it ended before: its pods say how
            self._state.feed.jobs.note(uid)

    def hide(self, uid: str) -> None:
        """A job turns out to be a part of another one."""
        known = self._state.jobs.pop(uid, None)
        if known is not None:
            self._forget_name(known)
            self._state.admission_pass.doubt_owned(uid)
            self._state.feed.jobs.note(uid)
            self._state.refills.changed(uid)

    def _forget_name(self, job: JobRecord) -> None:
        title = job.namespace, job.kind, job.name
        if self._state.job_names.get(title) == job.uid:
            del self._state.job_names[title]

    def remove_owner(self, uid: str) -> None:
        """An object that made pods is gone; its pods, if any are left, end."""
        self._state.clocks.forget(uid)
        if uid in self._state.clocks.by_job:
            self._state.feed.jobs.note(uid)  # it may be a job without pods, which a limit stopped
        if self._state.refills.changed(uid):
            self._state.wake()
        self._state.foreign.remove(uid)
        self._state.owners.remove(uid)
        self._state.deleted.discard(uid)
        if uid in self._state._by_owner:
            self.deletion(uid)

    def deletion(self, uid: str) -> None:
        """The object of that UID is being deleted, or its pods outlive it."""
        if uid not in self._state.deleted:
            self._state.deleted.add(uid)
            self._state.feed.jobs.note(uid)
            if self._state.refills.changed(uid):
                self._state.wake()

    def owner_changed(self, uid: str) -> None:
        """An object that makes pods appeared, changed its requests, or is gone."""
        self._state.foreign.owner_changed(uid)
        gangs = [gang for below in self._state.owners.controllers(uid) for gang in self._state.gangs_of_owner(below)]
        if uid in self._state.clocks.by_job:
            self._state.feed.jobs.note(uid)
        for gang in gangs:
            self._state.changes.take_control(gang)  # managers may have decided about the object
            self._state.changes.moved(gang)
            self._state.changes.job_changed(gang)  # its submitter may be that of the object
            self._state.feed.gangs.note(gang)
        self._state.membership.owner_changed(uid)
        self._state.membership.doubt_strangers()
        if self._state.refills.changed(uid) or gangs:
            self._state.wake()

    def agreed(self, record: Acceptance) -> None:
        """Something was agreed with a root owner for the first time, or for another queue: what else is of it goes
        there.
        """
        state = self._state
        state.membership.owner_changed(record.uid)
        gangs = (gang for uid in state.owners.controllers(record.uid) for gang in state.gangs_of_owner(uid))
        if any(gang.acceptance is None and gang.queue != record.queue for gang in gangs):
            state.wake()
        state.admission_pass.doubt_owned(record.uid)

    def judge_again(self, root: str) -> bool:
        """More was accepted with the root owner of that UID: pods of it that were refused may be covered by that.
        Whether there are any.
        """
        found = False
        for uid in self._state.owners.controllers(root):
            for gang in self._state.gangs_of_owner(uid):
                if gang.unpermitted is not None or any(pod.unpermitted for pod in gang.members.values()):
                    gang.judged, found = (0, 0), True
                    self._state.admission_pass.doubt(gang)
                    self._state.wake()
        return found


def _timing(job: JobRecord) -> tuple[object, ...]:
    """What of a job says when it may start, and when it ends at the latest."""
    return job.asks, job.phase, job.deadline, job.deadline and job.started
