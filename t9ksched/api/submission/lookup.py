"""A job by its name, as the cluster has it, for those who may see it. For all others it does not exist."""

from t9ksched.api.auth import Caller
from t9ksched.api.authorization import JobAccess
from t9ksched.api.grouppods import is_named_by_pods
from t9ksched.api.http.problems import Problem, from_kube
from t9ksched.api.http.responses import Json
from t9ksched.api.job_from_object import from_object
from t9ksched.api.services import Services
from t9ksched.api.submission.kinds import ACCEPTED, owner_of
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.resources import PODGROUPS
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import Invalid
from t9ksched.workloads.read import read
from t9ksched.workloads.shape import Workload


async def see(services: Services, caller: Caller, job: Json, resource: Resource, name: str) -> JobAccess:
    """Raise the problem of a job that does not exist unless the caller may see the job."""
    job_access = await JobAccess.of(services, caller)
    if not (job_access.see(job) or job_access.see(await with_submitter(services, job))):
        raise not_found(resource, str(job.get("namespace")), name)
    return job_access


async def with_submitter(services: Services, job: Json) -> Json:
    """The job as the leader tells it, with the submitter on record: it knows an object before it knows that."""
    if job.get("submitter") is not None or not job.get("uid"):
        return job
    accepted = await services.store.acceptances.get(job["uid"])
    return job if accepted is None else job | {"submitter": accepted.submitter}


def not_found(resource: Resource, namespace: str, name: str) -> Problem:
    """The problem of a job that does not exist or that the caller may not see."""
    return Problem("NotFound", f"there is no {resource.kind}/{name} in the namespace {namespace!r}")


async def from_cluster(services: Services, resource: Resource, namespace: str, name: str) -> tuple[Json, Workload]:
    """The job of an object as the cluster has it; for a PodGroup that a job owns, that job.

    Kinds that are not submitted here are not read either: their jobs are what the leader tells. So are groups that pods
    name in the way of another scheduler.
    """
    if resource.kind not in ACCEPTED or is_named_by_pods(resource, name):
        known = await services.leader.job(namespace, resource.kind, name)
        if known is None:
            raise not_found(resource, namespace, name)
        return known, Workload(resource.kind, resource.api_version, namespace, name, "", "", 0, ())
    try:
        obj = await services.kube.get(resource, name, namespace)
        if resource == PODGROUPS and (above := owner_of(obj)) is not None:
            resource, name = above
            obj = await services.kube.get(resource, name, namespace)
    except NotFound as error:
        raise not_found(resource, namespace, name) from error
    except ApiError as error:
        raise from_kube(error, f"{resource.kind}/{name} in the namespace {namespace!r}") from error
    obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
    try:
        workload = read(obj)
    except Invalid:
        # Not created by this service, and faulty: only its name can be shown.
        workload = Workload(resource.kind, resource.api_version, namespace, name, "", "", 0, ())
    uid = obj["metadata"]["uid"]
    acceptance = await services.store.acceptances.get(uid)
    job = from_object(obj, workload, acceptance)
    if acceptance is None:
        # Another scheduler places it: nothing was accepted, but the submitter is on record if this service created it.
        job["submitter"] = await services.store.history.submitter(uid)
    return job, workload
