"""What a worker found, in terms of jobs, as REST gets it. It names jobs of others: REST hides what the caller may not
see.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code
from t9ksched.model.reservation import rounded_up
from t9ksched.scheduler.report.observed_job import former_submitters, identity, observed_job, submitter
from t9ksched.scheduler.report.reason_shape import reason_shapes
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.newcomers import Newcomer
from t9ksched.scheduler.whatif.worker import Told
from t9ksched.simulation.present import Present
from t9ksched.simulation.whatif import Effect

Json = dict[str, Any]
_SECOND: Final = 1_000_000_000


class Answers:
    """Says what was found on a present, of which `digest` is a hash. Jobs are named as the state knows them now."""

    def __init__(self, told: Told, present: Present, digest: str, state: ClusterState) -> None:
        self._told = told
        self._present = present
        self._digest = digest
        self._state = state
        planning = present.policy.planning
        self._step = planning.resolution_seconds * _SECOND if planning is not None else _SECOND
        self._names = {one.gang.uid: one.gang for one in present.occupants}
        self._names.update((gang.uid, gang) for gang in present.view.gangs)

    def document(self, found: Sequence[Newcomer]) -> Json:
        """The whole answer; `jobs` has one entry for each of the newcomers."""
        told = self._told
        return {
            "at": timestamp(self._present.at),
            "view": self._digest,
            "until": timestamp(told.until),
            "complete": told.complete,
            "jobs": [self._job(one) for one in found],
            "others": self._others(told.others),
        }

    def _job(self, one: Newcomer) -> Json:
        told = self._told
        starts = [told.starts[gang.uid] for gang in one.gangs if gang.uid in told.starts]
        if one.joins is not None:
            starts = [told.pods[member.uid][0] for member in one.members if member.uid in told.pods]
        at = min(starts, default=None)
        nodes = {told.pods[member.uid][1] for member in one.members if member.uid in told.pods}
        if not nodes:
            nodes = {name for gang in one.gangs for name in told.planned.get(gang.uid, ())}
        reasons = list(one.reasons)
        for gang in one.gangs:
            reasons += [reason for reason in told.reasons.get(gang.uid, ()) if reason not in reasons]
        victims: dict[str, int] = {}
        for gang in one.gangs:
            for uid, members in told.victims.get(gang.uid, {}).items():
                victims[uid] = victims.get(uid, 0) + members
        evicts = any(reason.code == Code.WAITING_FOR_VICTIMS for reason in reasons) and bool(victims)
        return {
            "verdict": "Starts" if at == self._present.at or evicts else "Waits",
            "start": self._moment(at),
            "nodes": sorted(nodes),
            "reasons": reason_shapes(reasons),
            "preempts": [self._whose(uid) | {"members": members} for uid, members in victims.items()],
        }

    def _others(self, effects: Iterable[Effect]) -> list[Json]:
        """One entry a job: that of the first of its groups that is concerned."""
        found: dict[str, Json] = {}
        for one in effects:
            known = self._whose(one.gang)
            shape = known | {
                "startBefore": self._moment(one.before),
                "startAfter": self._moment(one.after),
                "preempted": one.preempted,
            }
            before = found.setdefault(str(known["job"]), shape)
            before["preempted"] = before["preempted"] or one.preempted
        return list(found.values())

    def _whose(self, uid: str) -> Json:
        """The job of a group, with what decides whether a caller may see its name."""
        record = self._state.gangs_by_uid.get(uid)
        view = observed_job(self._state, identity(record)[0]) if record is not None else None
        if view is None:
            gang: Gang | None = self._names.get(uid)
            title = gang.name if gang is not None else uid
            queue = gang.queue if gang is not None else None
            return {"job": title, "namespace": None, "queue": queue, "submitter": None, "formerSubmitters": []}
        return {
            "job": f"{view.namespace}/{view.kind}/{view.name}",
            "namespace": view.namespace,
            "queue": view.queue,
            "submitter": submitter(view, self._state),
            "formerSubmitters": list(former_submitters(view, self._state)),
        }

    def _moment(self, moment: int | None) -> str | None:
        """As planned starts are shown: rounded up, unless it is now or over."""
        if moment is None:
            return None
        return timestamp(moment if moment <= self._present.at else rounded_up(moment, self._step))
