"""What an uninstallation does, as steps: whom it tells, which pods go to the default scheduler, what it deletes.

`steps` is a pure function of objects as lists show them. A pod cannot change its scheduler, so one that waits is made
again with another; what controllers of the cluster make is changed where they make it, unless a change would restart
what runs. What runs is never touched: objects above it are deleted with `Orphan`, so that their dependents stay.
Of an installation is what the manifests name, or what has their label; other objects with names like ours are kept.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from t9ksched.kube.port import Object
from t9ksched.kube.resources import (
    ADMISSIONPOLICIES,
    ADMISSIONPOLICYBINDINGS,
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CRDS,
    CRONJOBS,
    DAEMONSETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    PDBS,
    PODGROUPS,
    PODS,
    REPLICASETS,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    SERVICES,
    STATEFULSETS,
)
from t9ksched.kube.setup.rbac import LEADING
from t9ksched.kube.write.standby import lease_of
from t9ksched.model.api_resource import Resource
from t9ksched.model.names import (
    BATCH_GROUP,
    CORDONED_CARDS_ANNOTATION,
    GROUP_LABEL,
    PLATFORM_GROUP,
    RECORDED_CORDONS_ANNOTATION,
    SCHEDULER_API,
    SCHEDULER_GROUP,
    SCHEDULER_NAME,
    SYSTEM_NAMESPACE,
)

Verb = Literal["tell", "hand back", "change", "release", "delete", "leave", "keep"]
OTHER_SCHEDULER: Final = "default-scheduler"
REASON: Final = "SchedulerRemoved"
OUR_GROUPS: Final = frozenset({SCHEDULER_GROUP, BATCH_GROUP, PLATFORM_GROUP})
OWNING: Final = (DEPLOYMENTS, REPLICASETS, STATEFULSETS, DAEMONSETS, JOBS)
"""Kinds of the cluster whose pods are handed back where they are made."""
TEMPLATED: Final = (*OWNING, CRONJOBS)
"""Kinds of the cluster that name a scheduler for pods of later."""
INSTALLED: Final = (
    DEPLOYMENTS,
    SERVICES,
    PDBS,
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
    SECRETS,
    LEASES,
    ADMISSIONPOLICYBINDINGS,
    ADMISSIONPOLICIES,
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False),
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
)
"""Kinds that are looked through for objects of an installation, in the order in which those go: rights last."""
_PART_OF: Final = ("app.kubernetes.io/part-of", "t9ksched")
_OUR_NAMES: Final = ("t9ksched", "t9k-scheduler")
_FINISHED: Final = ("Succeeded", "Failed")
_ANNOTATIONS: Final = (CORDONED_CARDS_ANNOTATION, RECORDED_CORDONS_ANNOTATION)
_OF_JOB_UID: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_GOES_ON: Final = "t9ksched is being uninstalled: what runs goes on, and nothing is placed or made again"
_HANDED: Final = (
    "t9ksched is being uninstalled: pods that wait go to the default scheduler, each by itself, and their limits end"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: `why` says it, `body` is what is written, `uid` whom it is about."""

    verb: Verb
    resource: Resource
    namespace: str
    name: str
    why: str
    body: Object | None = None
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The cluster as it was read: objects by kind."""

    pods: Sequence[Object]
    owners: Mapping[Resource, Sequence[Object]]
    installed: Mapping[Resource, Sequence[Object]]
    nodes: Sequence[Object]
    definitions: Sequence[Object]
    """Our definitions that are there."""
    kept: Mapping[Resource, Sequence[Object]]
    """Objects of our kinds."""
    named: Collection[tuple[str, str]]
    """Kind and name of everything that manifests of an installation can have."""


def ours(resource: Resource, obj: Object, named: Collection[tuple[str, str]]) -> bool:
    """Whether an object belongs to an installation: by its label, by its name, or as a lease of a leader.

    A Secret never does: people and other programs make them, and what is in one cannot be made again.
    """
    metadata = obj["metadata"]
    if resource is SECRETS:
        return False
    if resource is LEASES:
        return metadata["name"] in (*LEADING, *map(lease_of, LEADING))
    labelled = (metadata.get("labels") or {}).get(_PART_OF[0]) == _PART_OF[1]
    return labelled or (resource.kind, metadata["name"]) in named


def _alike(metadata: Object) -> bool:
    """Whether an object that nothing owns has a name like ours, so that somebody may take it for ours."""
    if metadata.get("ownerReferences"):
        return False
    return any(metadata["name"] == one or metadata["name"].startswith(f"{one}-") for one in _OUR_NAMES)


def steps(found: Found, *, kinds: bool, now: datetime) -> list[Step]:
    """Everything an uninstallation does, in order; with `kinds` our objects and definitions go too."""
    done = [
        *_handed_back(found, kinds=kinds),
        *_nodes(found.nodes),
        *(_kinds(found) if kinds else ()),
        *_installation(found.installed, found.named),
    ]
    # What is gone already concerns nobody.
    told = _told(found, now) if any(step.verb not in ("leave", "keep") for step in done) else ()
    return [*told, *done]


def _live(pods: Iterable[Object]) -> Iterator[tuple[Object, bool]]:
    """Pods of this scheduler that have not ended, and whether each has a node."""
    for pod in pods:
        spec = pod.get("spec") or {}
        if spec.get("schedulerName") != SCHEDULER_NAME or (pod.get("status") or {}).get("phase") in _FINISHED:
            continue
        if not pod["metadata"].get("deletionTimestamp"):
            yield pod, bool(spec.get("nodeName"))


def _controller(obj: Object) -> Mapping[str, str] | None:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _told(found: Found, now: datetime) -> Iterator[Step]:
    """An event on each job: on what is above its pods, on its group, or on the pod itself."""
    above = {obj["metadata"]["uid"]: obj for one in (REPLICASETS, JOBS) for obj in found.owners.get(one, ())}
    waiting: dict[tuple[str, str, str, str], tuple[str, bool]] = {}
    for pod, placed in _live(found.pods):
        metadata = pod["metadata"]
        about = _controller(pod)
        while about is not None and about["uid"] in above and (higher := _controller(above[about["uid"]])) is not None:
            about = higher
        group = (metadata.get("labels") or {}).get(GROUP_LABEL)
        if about is not None:
            key, uid = (about["apiVersion"], about["kind"], about["name"]), about["uid"]
        elif group:
            key, uid = (SCHEDULER_API, PODGROUPS.kind, group), ""
        else:
            key, uid = ("v1", "Pod", metadata["name"]), metadata.get("uid", "")
        place = (metadata["namespace"], *key)
        waiting[place] = (uid, waiting.get(place, ("", False))[1] or not placed)
    for (namespace, api_version, kind, name), (uid, waits) in sorted(waiting.items()):
        why = _HANDED if waits else _GOES_ON
        yield Step(
            "tell", EVENTS, namespace, f"{kind}/{name}", why, _event(namespace, api_version, kind, name, uid, why, now)
        )


def _event(namespace: str, api_version: str, kind: str, name: str, uid: str, message: str, now: datetime) -> Object:
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": namespace,
        "name": name,
        **({"uid": uid} if uid else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{name}.", "namespace": namespace},
        "involvedObject": about,
        "reason": REASON,
        "message": message,
        "type": "Warning" if message == _HANDED else "Normal",
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": SCHEDULER_NAME},
    }


def _handed_back(found: Found, *, kinds: bool) -> Iterator[Step]:
    known = {obj["metadata"]["uid"]: (one, obj) for one in OWNING for obj in found.owners.get(one, ())}
    waiting: defaultdict[str, list[Object]] = defaultdict(list)
    running: set[str] = set()
    for pod, placed in _live(found.pods):
        about, owner = _controller(pod), _owner(pod, known)
        if placed:
            running.add(owner)
        elif owner in known:
            waiting[owner].append(pod)
        elif about is None or _group(about["apiVersion"]) in OUR_GROUPS:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            yield Step(
                "hand back",
                PODS,
                namespace,
                name,
                "made again for the default scheduler",
                _pod(pod, kinds=kinds),
                pod["metadata"]["uid"],
            )
        else:
            yield _left(pod, f"{about['kind']}/{about['name']}")
    for owner, pods in waiting.items():
        yield from _of_controller(*known[owner], pods, runs=owner in running)
    yield from _of_later(found, known, waiting)


def _owner(pod: Object, known: Mapping[str, tuple[Resource, Object]]) -> str:
    """The UID of the highest controller of a pod among those known, else of its own one; empty without."""
    about = _controller(pod)
    owner = about["uid"] if about is not None else ""
    while owner in known and (higher := _controller(known[owner][1])) is not None and higher["uid"] in known:
        owner = higher["uid"]
    return owner


def _of_later(found: Found, known: Mapping[str, tuple[Resource, Object]], waiting: Collection[str]) -> Iterator[Step]:
    """What becomes of objects that make pods for this scheduler and have none that waits now."""
    # Pods of any scheduler: a new template restarts those too. Of a Job also those that ended.
    placed = [pod for pod in found.pods if (pod.get("spec") or {}).get("nodeName")]
    begun = {_owner(pod, known) for pod in placed}
    live = (pod for pod in placed if not pod["metadata"].get("deletionTimestamp"))
    runs = {_owner(pod, known) for pod in live if (pod.get("status") or {}).get("phase") not in _FINISHED}
    for resource in TEMPLATED:
        for obj in found.owners.get(resource, ()):
            metadata, maker = obj["metadata"], _controller(obj)
            uid = metadata["uid"]
            if uid in waiting or metadata.get("deletionTimestamp") or not _names_us(resource, obj) or _ended(obj):
                continue
            if maker is not None and maker["uid"] in known:
                continue
            if maker is None or maker["kind"] == CRONJOBS.kind or _group(maker["apiVersion"]) in OUR_GROUPS:
                yield from _of_controller(resource, obj, (), runs=uid in (begun if resource is JOBS else runs))
            else:
                yield _left(obj, f"{maker['kind']}/{maker['name']}", resource)


def _names_us(resource: Resource, obj: Object) -> bool:
    spec = obj.get("spec") or {}
    if resource is CRONJOBS:
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    return ((spec.get("template") or {}).get("spec") or {}).get("schedulerName") == SCHEDULER_NAME


def _ended(obj: Object) -> bool:
    """Whether an object is a Job that makes no pods any more."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def _left(obj: Object, maker: str, resource: Resource = PODS) -> Step:
    why = f"{maker} makes it: write schedulerName: {OTHER_SCHEDULER} there"
    return Step("leave", resource, obj["metadata"]["namespace"], obj["metadata"]["name"], why)


def _restarts(resource: Resource, obj: Object) -> bool:
    """Whether another template restarts the pods that an object has."""
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    return resource not in (REPLICASETS, CRONJOBS) and strategy.get("type") != "OnDelete"


def _of_controller(resource: Resource, obj: Object, pods: Sequence[Object], *, runs: bool) -> Iterator[Step]:
    """What becomes of a controller of the cluster, and of pods that wait and that it made."""
    metadata = obj["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    status = obj.get("status") or {}
    runs = runs and _restarts(resource, obj)
    if runs or (resource is JOBS and (status.get("succeeded") or status.get("failed"))):
        yield from (_left(pod, f"{resource.kind}/{name}") for pod in pods)
        if not pods and resource is JOBS:
            why = f"pods that it makes later wait: make it again with schedulerName: {OTHER_SCHEDULER}"
            yield Step("leave", resource, namespace, name, why)
        elif not pods:
            why = f"pods that it makes later wait: write schedulerName: {OTHER_SCHEDULER} there when they may restart"
            yield Step("leave", resource, namespace, name, why)
    elif resource is JOBS:
        why = "made again for the default scheduler: the template of a Job cannot change"
        yield Step("hand back", JOBS, namespace, name, why, _job(obj), metadata["uid"])
    else:
        body: Object = {"spec": {"template": {"spec": {"schedulerName": OTHER_SCHEDULER}}}}
        if resource is CRONJOBS:
            body = {"spec": {"jobTemplate": body}}
        yield Step("change", resource, namespace, name, f"schedulerName: {OTHER_SCHEDULER} in its template", body)
        if resource is not DEPLOYMENTS:
            for pod in pods:
                why = "its controller makes it again"
                yield Step("delete", PODS, namespace, pod["metadata"]["name"], why, uid=pod["metadata"]["uid"])


def _metadata(obj: Object) -> Object:
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    return {key: obj["metadata"][key] for key in kept if obj["metadata"].get(key)}


def _pod(pod: Object, *, kinds: bool) -> Object:
    metadata = _metadata(pod)
    if kinds:
        references = [one for one in metadata.get("ownerReferences", ()) if _group(one["apiVersion"]) not in OUR_GROUPS]
        metadata = {key: value for key, value in metadata.items() if key != "ownerReferences"}
        metadata |= {"ownerReferences": references} if references else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pod["spec"] | {"schedulerName": OTHER_SCHEDULER},
    }


def _job(job: Object) -> Object:
    """A Job without what the server gave the old one."""
    spec = dict(job["spec"])
    template = dict(spec["template"])
    metadata = dict(template.get("metadata") or {})
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        metadata["labels"] = _unlabelled(metadata.get("labels"))
    template |= {"metadata": metadata, "spec": template["spec"] | {"schedulerName": OTHER_SCHEDULER}}
    own = _metadata(job)
    own["labels"] = _unlabelled(own.get("labels"))
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": spec | {"template": template}}


def _unlabelled(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (labels or {}).items() if key not in _OF_JOB_UID}


def _nodes(nodes: Iterable[Object]) -> Iterator[Step]:
    for node in nodes:
        if there := [key for key in _ANNOTATIONS if key in (node["metadata"].get("annotations") or {})]:
            body = {"metadata": {"annotations": dict.fromkeys(there)}}
            yield Step("change", NODES, "", node["metadata"]["name"], f"without {', '.join(there)}", body)


def _kinds(found: Found) -> Iterator[Step]:
    """Objects of our kinds, then the definitions. What an object owns stays."""
    for resource, objects in found.kept.items():
        for obj in objects:
            metadata = obj["metadata"]
            why = "deleted; its pods and services stay, without an owner"
            yield Step("release", resource, metadata.get("namespace") or "", metadata["name"], why, uid=metadata["uid"])
    for definition in found.definitions:
        yield Step("delete", CRDS, "", definition["metadata"]["name"], "the kind goes")


def _installation(installed: Mapping[Resource, Sequence[Object]], named: Collection[tuple[str, str]]) -> Iterator[Step]:
    for resource in INSTALLED:
        for obj in installed.get(resource, ()):
            metadata = obj["metadata"]
            namespace = metadata.get("namespace") or ""
            if resource.namespaced and namespace != SYSTEM_NAMESPACE:
                continue
            if ours(resource, obj, named):
                yield Step("delete", resource, namespace, metadata["name"], "part of the installation")
            elif _alike(metadata):
                why = "not deleted: Secrets stay" if resource is SECRETS else "not deleted: not of this installation"
                yield Step("keep", resource, namespace, metadata["name"], why)
