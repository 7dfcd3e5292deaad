"""Which objects of a job the caller may delete: each one is checked by itself. A caller may delete what the caller
submitted, as the record of its UID says, and what the cluster lets the caller delete. Besides, an administrator may
delete any job, and a manager those of the manager's queues, with their members. Pods that are no members of a group
always stay: pods of other schedulers, pods that were put on their nodes, pods that the scheduler lists as jobs of their
own because they came without the group or may not join it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from t9ksched.api.auth import Caller
from t9ksched.api.clusterrights import cluster_allows
from t9ksched.api.grouppods import pods_naming
from t9ksched.api.http.problems import Problem
from t9ksched.api.leader import LeaderAway
from t9ksched.api.services import Services
from t9ksched.kube.resources import PODS
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import SCHEDULER_NAME
from t9ksched.model.pod import decode_pod
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Visibility

_AT_ONCE: Final = 16
"""Reviews of single objects in flight for one request."""

Object = dict[str, Any]


class Kept(NamedTuple):
    """A pod that names a group and stays when the group is deleted."""

    pod: str
    why: str

    def to_json(self) -> Object:
        """As a warning."""
        return {"path": "", "message": f"Pod/{self.pod} stays: {self.why}", "nearest": None}


async def check_job(
    services: Services, caller: Caller, resource: Resource, job: Mapping[str, Any], verb: str = "delete"
) -> None:
    """Check that the caller may have the job's own object deleted, or changed: `verb` is `patch` then.

    Raises:
        Problem: the caller may not.
        ApiError: the cluster does not say whether the caller may.
    """
    whose = job.get("submitter")
    if caller.rules(job.get("queue")) or whose == caller.user:
        return
    if await cluster_allows(services, caller, verb, resource, job["namespace"], job["name"]):
        return
    title = f"{resource.kind}/{job['name']}"
    deed = "change" if verb == "patch" else verb
    known = f"it was submitted by {whose!r}" if whose else "it is not known who submitted it"
    raise Problem(
        "Forbidden",
        f"{caller.user!r} may not {deed} {title} in the namespace {job['namespace']!r}: {known}",
        remedy=f"ask {whose!r}, or a manager of the queue {job.get('queue')!r}" if whose else "ask an administrator",
    )


async def members_of(services: Services, caller: Caller, job: Mapping[str, Any]) -> tuple[list[Object], list[Kept]]:
    """The pods of a PodGroup made by hand that go with it when the caller deletes it, and those that name it and stay.

    Raises:
        ApiError: the cluster does not answer.
    """
    found = await pods_naming(services.kube, job["namespace"], job["name"])
    # The garbage collector deletes those that name the group itself as an owner.
    named = [pod for pod in found if job["uid"] not in _owners(pod)]
    kept = [Kept(name_of(pod), why) for pod in named if (why := _no_member(pod))]
    pods = [pod for pod in named if not _no_member(pod)]
    records = await services.store.acceptances.of(uid_of(pod) for pod in pods)
    try:
        seen = await services.leader.jobs(Visibility("", namespaces=frozenset({job["namespace"]})))
    except LeaderAway:
        members, strangers = _submitted_together(caller, job, pods, records)
        return members, kept + strangers
    alone = {one["name"] for one in seen if one["kind"] == "Pod" and one["namespace"] == job["namespace"]}
    why = "it is a job of its own and no member of the group: delete it by itself"
    kept += [Kept(name_of(pod), why) for pod in pods if name_of(pod) in alone]
    members = [pod for pod in pods if name_of(pod) not in alone]
    if caller.rules(job.get("queue")):
        return members, kept
    mine = [pod for pod in members if _submitter(records, pod) == caller.user]
    others = [pod for pod in members if _submitter(records, pod) != caller.user]
    allowed, refused = await _by_the_cluster(services, caller, job, others, records)
    return mine + allowed, kept + refused


def _submitted_together(
    caller: Caller, job: Mapping[str, Any], pods: Sequence[Object], records: Mapping[str, Acceptance]
) -> tuple[list[Object], list[Kept]]:
    """The pods that go with the group when no scheduler answers: the caller's, and for a role over the queue those of
    the submitter.
    """
    whose = {caller.user} | ({job["submitter"]} if job.get("submitter") and caller.rules(job.get("queue")) else set())
    members = [pod for pod in pods if _submitter(records, pod) in whose]
    why = "no scheduler can be asked now whether it is a member"
    left = (name_of(pod) for pod in pods if pod not in members)
    return members, [Kept(name, f"{why}: {_by_hand(job, name)}") for name in left]


async def _by_the_cluster(
    services: Services,
    caller: Caller,
    job: Mapping[str, Any],
    pods: Sequence[Object],
    records: Mapping[str, Acceptance],
) -> tuple[list[Object], list[Kept]]:
    """What the cluster lets the caller delete; all of the namespace is asked about first."""
    if not pods or await cluster_allows(services, caller, "delete", PODS, job["namespace"]):
        return list(pods), []
    places = asyncio.Semaphore(_AT_ONCE)

    async def allowed(pod: Object) -> bool:
        async with places:
            return await cluster_allows(services, caller, "delete", PODS, job["namespace"], name_of(pod))

    answers = await asyncio.gather(*map(allowed, pods))
    kept = []
    for pod in (pod for pod, yes in zip(pods, answers, strict=True) if not yes):
        whose, name = _submitter(records, pod), name_of(pod)
        known = f"it was submitted by {whose!r}: ask {whose!r}, or" if whose else "it is not known who submitted it:"
        kept.append(Kept(name, f"{known} {_by_hand(job, name)}"))
    return [pod for pod, yes in zip(pods, answers, strict=True) if yes], kept


def _owners(pod: Object) -> set[str]:
    """UIDs of its owners."""
    return {str(one.get("uid")) for one in pod["metadata"].get("ownerReferences") or ()}


def _no_member(pod: Object) -> str:
    """Why a pod that names the group is no member of it, or not one that goes with it; empty if it is one."""
    spec = pod.get("spec") or {}
    scheduler = spec.get("schedulerName") or "default-scheduler"
    if scheduler != SCHEDULER_NAME:
        return f"it is placed by {scheduler} and is no member of the group: delete it by itself"
    if decode_pod(pod).put_there:
        return (
            f"it was put on node {spec['nodeName']} by its creator and is no member of the group: delete it by itself"
        )
    owners = pod["metadata"].get("ownerReferences") or ()
    above = next((one for one in owners if one.get("controller")), next(iter(owners), None))
    if above is not None:
        title = f"{above.get('kind')}/{above.get('name')}"
        return f"it belongs to {title}, whose controller would make it again: delete {title}"
    return ""


def _submitter(records: Mapping[str, Acceptance], pod: Object) -> str | None:
    """The submitter of a pod, as the record of its UID says."""
    known = records.get(uid_of(pod))
    return known.submitter if known is not None else None


def _by_hand(job: Mapping[str, Any], name: str) -> str:
    return f"a user whom the cluster lets delete it runs kubectl delete pod/{name} -n {job['namespace']}"


def name_of(pod: Object) -> str:
    """The pod's name."""
    return str(pod["metadata"]["name"])


def uid_of(pod: Object) -> str:
    """The pod's UID."""
    return str(pod["metadata"]["uid"])
