"""The pods of a job, in the order of their ranks, each with what keeps it from running.

The cluster is asked, not the leader: pods that have ended are of no interest to the scheduler, and their logs are to
people.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from t9ksched.api.grouppods import pods_naming
from t9ksched.api.http.problems import Problem, from_kube
from t9ksched.api.services import Services
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.model.names import ROLE_LABEL, SCHEDULER_NAME
from t9ksched.model.whole import whole_number
from t9ksched.workloads.gangform import Foreign
from t9ksched.workloads.gangs import at as at_keys
from t9ksched.workloads.gangs import role_of
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.parts import OWNER_NAME_LABEL, OWNER_UID_LABEL
from t9ksched.workloads.phase import ending, phase
from t9ksched.workloads.registry import CONTROLLED, KINDS

Object = dict[str, Any]
_CONTROLLED: Final = frozenset(row.name for row in CONTROLLED)
_DEPLOYING: Final = frozenset(row.name for row in CONTROLLED if row.deploys)
_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_INDICES: Final = tuple({row.foreign.index for row in KINDS.values() if row.foreign is not None and row.foreign.index})
_LAUNCHER: Final = "launcher"
_CREATING: Final = ("ContainerCreating", "PodInitializing")
_MOST_TOLD: Final = 3
"""Pods of which an explanation says what keeps them."""
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True)
class JobPod:
    """A pod of a job; its rank is None if it is the launcher of the others, or if another pod has taken its place."""

    pod: Object
    role: str
    rank: int | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.pod["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its UID."""
        return str(self.pod["metadata"]["uid"])

    @property
    def containers(self) -> list[str]:
        """The names of its containers, the one that is meant without a name first; init containers last."""
        spec = self.pod["spec"]
        names = [str(one["name"]) for one in spec["containers"]]
        preferred = (self.pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
        names.sort(key=lambda name: name != preferred)
        return names + [str(one["name"]) for one in spec.get("initContainers") or ()]

    @property
    def restarts(self) -> int:
        """How often its containers were started anew."""
        return max((int(one.get("restartCount") or 0) for one in _statuses(self.pod)), default=0)

    @property
    def reason(self) -> dict[str, str] | None:
        """What keeps it from running, or how it failed; None if nothing is known."""
        status = self.pod.get("status") or {}
        if phase(self.pod) == "Failed":
            end = ending(self.pod)
            return {"code": str(status.get("reason") or "PodFailed"), "message": end.how + end.last_words}
        for one in _statuses(self.pod):
            waiting = (one.get("state") or {}).get("waiting") or {}
            if (code := waiting.get("reason")) and code not in _CREATING:
                return {"code": str(code), "message": str(waiting.get("message") or f"container {one.get('name')}")}
        return None

    @property
    def has_written(self) -> bool:
        """Whether one of its containers has run, and may have written something."""
        states = [one.get(key) or {} for one in _statuses(self.pod) for key in ("state", "lastState")]
        return any("running" in state or "terminated" in state for state in states)

    def to_json(self) -> Object:
        """As REST shows it."""
        status = self.pod.get("status") or {}
        return {
            "name": self.name,
            "uid": self.uid,
            "rank": self.rank,
            "part": self.role,
            "node": self.pod["spec"].get("nodeName"),
            "phase": phase(self.pod),
            "restarts": self.restarts,
            "startedAt": status.get("startTime"),
            "containers": self.containers,
            "logged": self.has_written,
            "reason": self.reason,
        }


async def pods_of(services: Services, job: Mapping[str, Any]) -> list[JobPod]:
    """The pods of a job by rank, its launcher first, those whose place others have taken last.

    Raises:
        Problem: the cluster does not answer.
    """
    try:
        return await read_pods(services.kube, job)
    except ApiError as error:
        raise from_kube(error, f"pods of {job['kind']}/{job['name']}") from error


async def read_pods(kube: ClusterPort, job: Mapping[str, Any]) -> list[JobPod]:
    """The same, as that cluster tells them.

    Raises:
        ApiError: it does not.
    """
    return ranked(await _read(kube, job), str(job["kind"]), max(1, (job.get("members") or {}).get("min") or 1))


async def kept_from_running(services: Services, explanation: Mapping[str, Any]) -> list[Object]:
    """What keeps pods that have a place from running, as their nodes say: an image that cannot be pulled, say."""
    job = explanation.get("job") or {}
    if explanation.get("verdict") != "Placed" or job.get("phase") == "Running":
        return []
    try:
        pods = await pods_of(services, job)
    except Problem:
        return []  # what the leader says is told all the same
    found = {one.name: why for one in pods if one.pod["spec"].get("nodeName") and (why := one.reason) is not None}
    return [
        {"code": why["code"], "message": f"pod {name}: {why['message']}", "needs": None, "has": None, "nodes": None}
        for name, why in list(found.items())[:_MOST_TOLD]
    ]


async def _read(kube: ClusterPort, job: Mapping[str, Any]) -> list[Object]:
    kind, name, namespace, uid = (str(job[key]) for key in ("kind", "name", "namespace", "uid"))
    if kind == "Pod":
        try:
            return [await kube.get(PODS, name, namespace)]
        except NotFound:
            return []
    if kind == "PodGroup":
        found = await pods_naming(kube, namespace, name)
        return [pod for pod in found if pod["spec"].get("schedulerName") == SCHEDULER_NAME]
    selectors = {"Job": f"job-name={name}"}
    selectors |= dict.fromkeys(_CONTROLLED, f"{OWNER_NAME_LABEL}={name}")
    if (foreign := KINDS[kind].foreign if kind in KINDS else None) is not None:
        return await _of_foreign(kube, foreign, job)
    selectors |= dict.fromkeys(_DEPLOYING, f"{OWNER_UID_LABEL}={uid}")
    listed = await kube.list(PODS, namespace, label_selector=selectors.get(kind, ""))
    if kind in _DEPLOYING:  # their owners are ReplicaSets
        return list(listed.items)
    return [pod for pod in listed.items if _owner(pod) == uid]


async def _of_foreign(kube: ClusterPort, foreign: Foreign, job: Mapping[str, Any]) -> list[Object]:
    """The pods of a job of another project, by the label with which they name it."""
    kind, name, namespace = (str(job[key]) for key in ("kind", "name", "namespace"))
    if foreign.named:
        obj = await kube.get(KINDS[kind].resource, name, namespace)
        name = str(at_keys(obj, foreign.named) or "")
        if not name:
            return []
    listed = (await kube.list(PODS, namespace, label_selector=f"{foreign.selector}={name}")).items
    return [pod for pod in listed if _owner(pod) == str(job["uid"])] if foreign.direct else list(listed)


def ranked(pods: Iterable[Object], kind: str, parallel: int) -> list[JobPod]:
    """Pods with their ranks; of a batch Job without indices so many have one at a time."""
    role = _role_in(KINDS[kind]) if kind in KINDS and KINDS[kind].foreign is not None else _role
    known = [JobPod(pod, role(pod)) for pod in sorted(pods, key=_age)]
    launchers = [one for one in known if one.role == _LAUNCHER]
    others = [one for one in known if one.role != _LAUNCHER]
    if kind == "Job" and not all(_index(one.pod) is not None for one in others):
        late = others[-parallel:]
        found = [replace(one, rank=rank) for rank, one in enumerate(late)]
        return [*launchers, *found, *others[:-parallel]]
    newest = {_place(one): one for one in others}
    first = next((one.role for one in others if (_labels(one.pod)).get("job-role") == "master"), "")
    ordered = sorted(newest.values(), key=lambda one: (one.role != first, one.role, _place(one)[1]))
    told = [_env_rank(one.pod) for one in ordered]
    if ordered and sorted(rank for rank in told if rank is not None) == list(range(len(ordered))):
        ordered = [one for _, one in sorted(zip(told, ordered, strict=True), key=lambda pair: pair[0] or 0)]
    places = {one.uid for one in ordered}
    found = [replace(one, rank=rank) for rank, one in enumerate(ordered)]
    return [*launchers, *found, *(one for one in others if one.uid not in places)]


def _place(one: JobPod) -> tuple[str, tuple[Any, ...]]:
    """What only one pod at a time has: a role with an index, else a name."""
    index = _index(one.pod)
    natural = tuple((int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(one.name) if part)
    return one.role, ((index, ""),) if index is not None else natural


def _index(pod: Object) -> int | None:
    labels, annotations = _labels(pod), pod["metadata"].get("annotations") or {}
    own = next((labels[key] for key in _INDICES if key in labels), "")
    text = own or labels.get("replica-index") or labels.get(_COMPLETION_INDEX) or annotations.get(_COMPLETION_INDEX)
    return whole_number(text or "")


def _env_rank(pod: Object) -> int | None:
    """The rank that its controller told its containers."""
    values = (
        each.get("value")
        for one in pod["spec"]["containers"]
        for each in one.get("env") or ()
        if each.get("name") == "RANK"
    )
    return next((rank for value in values if (rank := whole_number(str(value))) is not None), None)


def _role(pod: Object) -> str:
    labels = _labels(pod)
    return str(labels.get("replica-type") or labels.get(ROLE_LABEL) or "")


def _role_in(kind: Kind) -> Callable[[Object], str]:
    """The roles of pods of a kind of another project."""
    gang, foreign = kind.gang, kind.foreign
    assert gang is not None
    assert foreign is not None

    def role(pod: Object) -> str:
        labels = _labels(pod)
        apart = [labels[key] for key in foreign.apart if key in labels]
        return "-".join([role_of(gang, labels), *apart])

    return role


def _labels(pod: Object) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}


def _age(pod: Object) -> tuple[str, str]:
    return str(pod["metadata"].get("creationTimestamp")), str(pod["metadata"]["name"])


def _owner(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one.get("uid")) for one in owners if one.get("controller")), "")


def _statuses(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
