"""Deletes the objects of a job, each with the user's rights and by its UID, and records the user. Once the request is
answered, no other answer says that the job runs: the leader has seen the deletion by then, and the database has a
record of it.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from t9ksched.api.auth import Caller
from t9ksched.api.grouppods import is_named_by_pods, pods_naming
from t9ksched.api.http.problems import Problem, from_kube
from t9ksched.api.http.responses import at
from t9ksched.api.job_from_object import from_object
from t9ksched.api.leader import LeaderAway
from t9ksched.api.services import Services
from t9ksched.api.submission.ownership import Kept, check_job, members_of, name_of, uid_of
from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.model.api_resource import Resource
from t9ksched.model.job import FINISHED, TERMINATING
from t9ksched.model.names import SCHEDULER_API
from t9ksched.store import history
from t9ksched.store.history import Event
from t9ksched.workloads.read import read
from t9ksched.workloads.shape import Workload

_LOOKS: Final = 12
_FIRST_PAUSE: Final = 0.005
"""Seconds before the leader is asked a second time; each later pause is half as long again: 1.3 s in all."""


async def delete_job(services: Services, caller: Caller, resource: Resource, job: Mapping[str, Any]) -> list[Kept]:
    """Delete the job's object (its dependents follow) and, of a PodGroup made by hand, those members that the caller
    may delete; of a group that only pods name, these alone. Returns the pods that name the group and stay.

    Raises:
        Problem: the caller may not delete the job, nor any member of such a group, or the cluster refused.
    """
    namespace, name = job["namespace"], job["name"]
    members: list[dict[str, Any]] = []
    kept: list[Kept] = []
    try:
        by_pods = is_named_by_pods(resource, name)
        if not by_pods:
            await check_job(services, caller, resource, job)
        if resource == PODGROUPS:
            members, kept = await members_of(services, caller, job)
        if by_pods and not members and kept:
            raise Problem(
                "Conflict", f"{resource.kind}/{name} stays, for so do its pods: Pod/{kept[0].pod}: {kept[0].why}"
            )
        if not by_pods:
            await services.kube.delete(resource, name, namespace, uid=job["uid"], propagation="Background")
        for pod in members:
            with contextlib.suppress(NotFound, Conflict):  # it is gone, and its name may be another pod's by now
                await services.kube.delete(PODS, name_of(pod), namespace, uid=uid_of(pod))
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{name}") from error
    await services.store.history.append(
        Event(
            event=history.JOB_CANCELLED,
            kind=resource.kind,
            namespace=namespace,
            name=name,
            uid=job["uid"],
            queue=job["queue"],
            actor=caller.user,
        )
    )
    if not (by_pods and kept):
        await services.store.jobs.mark_terminating(job["uid"])
    return kept


async def delete_own_members(services: Services, caller: Caller, namespace: str, name: str) -> dict[str, Any] | None:
    """Delete the pods that the caller submitted into a PodGroup that is not the caller's, or is gone: another user may
    have deleted the caller's PodGroup and made another under its name. The record of a pod's UID alone decides who
    submitted the pod.

    Returns:
        The job of these pods, as far as it still exists; None if the caller has no pod there.

    Raises:
        Problem: the cluster refused.
    """
    try:
        found = await pods_naming(services.kube, namespace, name)
        records = await services.store.acceptances.of(uid_of(pod) for pod in found)
        mine = {uid: record for uid, record in records.items() if record.submitter == caller.user}
        pods = [pod for pod in found if uid_of(pod) in mine]
        for pod in pods:
            with contextlib.suppress(NotFound, Conflict):
                await services.kube.delete(PODS, name_of(pod), namespace, uid=uid_of(pod))
    except ApiError as error:
        raise from_kube(error, f"pods of PodGroup/{name} in the namespace {namespace!r}") from error
    if not pods:
        return None
    await services.store.history.append_many(
        [
            Event(
                event=history.JOB_CANCELLED,
                kind="Pod",
                namespace=namespace,
                name=name_of(pod),
                uid=uid_of(pod),
                queue=mine[uid_of(pod)].queue,
                actor=caller.user,
                detail={"group": name},
            )
            for pod in pods
        ]
    )
    # The answer shows the group as its members describe it: its object is gone, or is another user's.
    first = min(mine.values(), key=lambda record: record.accepted_at)
    group = {"metadata": {"name": name, "namespace": namespace, "creationTimestamp": at(first.accepted_at)}}
    workload = Workload("PodGroup", SCHEDULER_API, namespace, name, "", first.queue or "", first.priority, ())
    members = [read(pod | {"apiVersion": PODS.api_version, "kind": PODS.kind}) for pod in pods]
    text = (
        f"only the pods that you submitted into the PodGroup {namespace}/{name} are deleted: a PodGroup of that name is"
        " not yours, or is gone"
    )
    warnings = [{"path": "", "message": text, "nearest": None}]
    return from_object(group, workload, first, members) | {"phase": TERMINATING, "warnings": warnings}


def not_cancelled(job: Mapping[str, Any]) -> Problem:
    """The problem of a job whose object the service has no right to delete."""
    title = job.get("root") or f"{job['kind']}/{job['name']}"
    message = f"{title} was not submitted here and is not deleted here: the service has no right to"
    remedy = f"kubectl delete {title} -n {job['namespace']}"
    return Problem("Conflict", message, remedy=remedy)


async def until_noticed(services: Services, resource: Resource, job: Mapping[str, Any]) -> None:
    """Wait a moment until the leader, which watches the cluster, has seen that the job's object is gone."""
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
