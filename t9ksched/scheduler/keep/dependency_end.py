"""Ends jobs that can never start because of what they wait for, where they ask for that (`after-cancel`)."""

import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.model import names
from t9ksched.model.reasons import Code
from t9ksched.scheduler.act.stopping import Stopper
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.dependencies import Verdict
from t9ksched.scheduler.state.start_times import has_begun
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history

log = structlog.get_logger(__name__)


class DependencyEnd:
    """Ends such jobs through their owners, as a time limit does. A job that is resumed with other dependencies may
    start.
    """

    def __init__(self, state: ClusterState, stopper: Stopper, recorder: HistoryRecorder) -> None:
        self._state = state
        self._stopper = stopper
        self._recorder = recorder

    def ended(self, uid: str) -> bool:
        """Whether the job of that UID was ended for that."""
        clock = self._state.clocks.by_job.get(uid)
        return clock is not None and clock.run.ended_code == Code.DEPENDENCY_NOT_MET

    async def settle(self, uid: str, told: Verdict, *, ask: bool, now: int) -> bool:
        """End a job that can never start and asks for it; one that was ended and can start now waits as others do.
        `now` is in nanoseconds since the epoch. Returns whether it must be tried again.
        """
        gangs = self._state.groups_of(uid)
        if not told.never:
            if self.ended(uid):
                self._state.clocks.by_job[uid].set(ended_at=0, ended_code="", message="")
                self._state.changes.job_changed(gangs[0])
            return False
        if not ask or told.reason is None or has_begun(self._state, gangs[0]):
            return False
        message = f"{told.reason.message}; it is ended, as {names.AFTER_CANCEL_ANNOTATION} asks"
        pods = [pod for gang in gangs for pod in gang.members.values() if not (pod.finished or pod.deleting)]
        if not pods:
            return False
        if not self.ended(uid):
            self._state.note_end(gangs[0], Code.DEPENDENCY_NOT_MET, message, now)
            self._recorder.ended(
                gangs[0], history.DEPENDENCY_NOT_MET, message, now, notice=names.EVENT_DEPENDENCY_NOT_MET
            )
            log.info("a job that can never start is ended", job=gangs[0].key)
        stopped: set[str] = set()
        for pod in pods:
            try:
                resource, target = await self._stopper.highest(pod)
                if target["metadata"]["uid"] not in stopped:
                    stopped.add(target["metadata"]["uid"])
                    await self._stopper.stop(resource, target, str(Code.DEPENDENCY_NOT_MET), message)
            except (NotFound, Conflict):
                continue
            except ApiError as error:
                log.warning("a job that can never start is not ended yet", job=gangs[0].key, error=str(error))
                return True
        return False
