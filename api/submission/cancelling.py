"""Deleting the objects of a job, each as the user and by its UID, and recording who did.

From the answer on nobody is told that the job runs: the leader has noticed by then, and what is on record says it too.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from api.auth import Caller
from api.http.problems import Problem, from_kube
from api.leader import LeaderAway
from api.services import Services
from api.shapes import FINISHED, TERMINATING
from api.submission.ownership import Kept, check_job, members_of, name_of, uid_of
from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.resources import PODGROUPS, PODS, Resource
from t9ksched.store import history
from t9ksched.store.history import Event

_LOOKS: Final = 12
_FIRST_PAUSE: Final = 0.005
"""Seconds before the second look at the leader; each pause after it is half as long again: 1.3 s in all."""


async def delete_job(services: Services, caller: Caller, resource: Resource, job: Mapping[str, Any]) -> list[Kept]:
    """Delete the job's object (its dependents follow) and, of a PodGroup made by hand, those members that are the
    caller's to delete; the pods that name the group and stay.

    Raises:
        Problem: the job is not the caller's to delete, or the cluster refused.
    """
    namespace, name = job["namespace"], job["name"]
    members: list[dict[str, Any]] = []
    kept: list[Kept] = []
    try:
        await check_job(services, caller, resource, job)
        if resource == PODGROUPS:
            members, kept = await members_of(services, caller, job)
        await services.kube.delete(resource, name, namespace, uid=job["uid"], propagation="Background")
        for pod in members:
            with contextlib.suppress(NotFound, Conflict):  # it is gone, and its name may be another pod's by now
                await services.kube.delete(PODS, name_of(pod), namespace, uid=uid_of(pod))
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{name}") from error
    await services.store.history.append(
        Event(
            event=history.DELETED,
            kind=resource.kind,
            namespace=namespace,
            name=name,
            uid=job["uid"],
            queue=job["queue"],
            actor=caller.user,
        )
    )
    await services.store.jobs.mark_terminating(job["uid"])
    return kept


def not_cancelled(job: Mapping[str, Any]) -> Problem:
    """The problem of a job whose object the service has no right to delete."""
    title = job.get("root") or f"{job['kind']}/{job['name']}"
    message = f"{title} was not submitted here and is not deleted here: the service has no right to"
    remedy = f"kubectl delete {title} -n {job['namespace']}"
    return Problem("Conflict", message, remedy=remedy)


async def until_noticed(services: Services, resource: Resource, job: Mapping[str, Any]) -> None:
    """Wait a moment for the leader to see that the job's object is gone; it hears of it from the cluster."""
    pause = _FIRST_PAUSE
    for _ in range(_LOOKS):
        try:
            known = await services.leader.job(job["namespace"], resource.kind, job["name"])
        except LeaderAway:
            return
        if known is None or known["uid"] not in _same(resource, job) or known["phase"] in (TERMINATING, *FINISHED):
            return
        await asyncio.sleep(pause)
        pause *= 1.5


def _same(resource: Resource, job: Mapping[str, Any]) -> tuple[str, ...]:
    """What the leader calls the job by: a PodGroup that is gone while its pods are there has no UID any more."""
    return (job["uid"], f"{job['namespace']}/{job['name']}") if resource == PODGROUPS else (job["uid"],)
