"""Whose planned starts a longer time limit of a running job would delay."""

from t9ksched.model.reservation import rounded_up
from t9ksched.scheduler.report.job_shape import Json, job_shape
from t9ksched.scheduler.report.observed_job import ObservedJob, identity, observed_job
from t9ksched.scheduler.state.limits import own_limit
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.state import ClusterState

_SECOND = 1_000_000_000


def delayed_plans(view: ObservedJob, state: ClusterState, seconds: int | None) -> list[Json]:
    """The jobs of other queues that are planned to start on nodes of this job before the end that a limit of so many
    seconds gives it, None for no limit. Each has `at` and the `job`; none for a limit that is not longer.
    """
    ends = state.enforced_ends
    if ends is None:
        return []
    found: dict[str, Json] = {}
    for gang in view.gangs:
        limit, end = own_limit(state, gang), ends.end_of(gang)
        if end is None or limit is None or (seconds is not None and seconds <= limit):
            continue
        until = None if seconds is None else end + (seconds - limit) * _SECOND
        nodes = {charge.node for uid in gang.members if (charge := state.charges.get(uid)) is not None}
        for owner, plan in state.reservations.planned.items():
            first, waiting = plan[0], state.gangs_by_uid.get(owner)
            late = until is None or first.since < until
            if waiting is None or waiting.queue == gang.queue or not late or nodes.isdisjoint(one.node for one in plan):
                continue
            job = observed_job(state, identity(waiting)[0])
            if job is not None:
                at = timestamp(rounded_up(first.since, state.resolution))
                found[job.uid] = {"at": at, "job": job_shape(job, state)}
    return sorted(found.values(), key=lambda one: str(one["at"]))
