"""A job that is a single pod which is to start: so are most of many thousands that come at once, and each of them is
told at least once. The pod says all of it, so it is told at a fraction of what any other job costs, and as that would
be (`job_shape.py`).
"""

from functools import lru_cache
from typing import Final

from t9ksched.model.card_worth import asked
from t9ksched.model.job import JobMembers, JobReason, JobView
from t9ksched.model.quantity import as_cards
from t9ksched.model.run_times import Likeness
from t9ksched.scheduler.report.observed_job import submitted_by
from t9ksched.scheduler.report.planned_shape import expected_start, learned_limit, told_start, with_expectation
from t9ksched.scheduler.state import objects
from t9ksched.scheduler.state.limits import limit_of_pod
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState

timestamp = lru_cache(maxsize=4096)(objects.timestamp)
_WAITS: Final = JobMembers(1, 1)
_IS_BOUND: Final = JobMembers(1, 1, 1)


def to_start(state: ClusterState, uid: str) -> PodRecord | None:
    """The pod of a job that is a single pod of which the pod says all, and that does not run yet; else None."""
    gang = state.gangs_by_uid.get(uid)
    if gang is None or not gang.virtual or gang.owner is not None or len(gang.members) != 1:
        return None
    (pod,) = gang.members.values()
    if pod.phase != "Pending" or pod.deleting:
        return None
    if uid in state.deleted or uid in state.clocks.by_job or uid in state.jobs or state.owns_gangs(uid):
        return None
    return pod


def view_of(gang: GangRecord, pod: PodRecord, state: ClusterState) -> JobView:
    """The job as users see it, of a pod that is `to_start`."""
    uid, queue, waits, pod_class = gang.uid, gang.queue, bool(gang.reasons), pod.pod_class
    gangs, cards, worth = (gang,), 0, 0
    if pod_class is not None:
        charge = state.charges.get(pod.uid)
        cards = sum(pod_class.card_counts.values())
        worth = charge.worth if charge is not None else pod.worth or asked(pod_class, state.node_events.card_layouts)
    accepted = state.acceptances.get(uid)
    started = pod.started
    if accepted is not None and accepted.started_at is not None:
        started = int(accepted.started_at.timestamp() * 1e9)
    by, limit = submitted_by(gang, state), limit_of_pod(state, gang, pod)
    plan = reason = None
    if waits:
        plan = told_start(gangs, state)
        if not limit.enforced and by is not None:
            limit = learned_limit(Likeness(by, queue, "Pod", (1, cards)), 0, state)
        first = gang.reasons[0]
        reason = with_expectation(JobReason(str(first.code), first.message), plan)
    elif pod.hindrance is not None:
        code, message = pod.hindrance
        reason = JobReason(code, f"pod {pod.name}: {message}")
    return JobView(
        api_version="v1",
        namespace=gang.namespace,
        kind="Pod",
        name=gang.name,
        uid=uid,
        group=None,
        queue=queue,
        priority=gang.priority,
        submitter=by,
        phase="Pending",
        members=_IS_BOUND if pod.node else _WAITS,
        gpus=cards,
        cards=as_cards(worth),
        submitted_at=timestamp(gang.created),
        started_at=timestamp(started),
        finished_at=None,
        position=gang.position if waits else None,
        reason=reason,
        planned_start=plan,
        expected_start=expected_start(gangs, state) if waits else None,
        time_limit=limit,
        labels=pod.labels,
    )
