"""MLServices that Knative Serving runs: a Service of Knative for each part, which scales by load, and Routes that
divide requests between releases.

A service stays with what made its pods: one of Deployments moves to Knative when it is paused and resumed, one of
Knative gets Deployments when Knative is removed and its pods have ended. So no two sets of pods are kept.
"""

from collections.abc import Mapping
from typing import Any, Final

from t9ksched.workloads import served
from t9ksched.workloads.actions import Actions, Children, Object, metadata, name_of
from t9ksched.workloads.addons import KNATIVE, Usable
from t9ksched.workloads.parts import MADE_FROM_ANNOTATION, Owner
from t9ksched.workloads.phase import is_terminating
from t9ksched.workloads.server import hash_of

API: Final = KNATIVE.made[0].api_version
BY_KNATIVE, BY_DEPLOYMENTS = "Knative", "Deployments"
REVISION_LABEL: Final = "serving.knative.dev/revision"
"""On every pod of Knative."""
PUBLIC_ANNOTATION: Final = "tensorstack.dev/visibility"
"""On an MLService: `public` lets Knative's ingress serve it outside the cluster."""
_VISIBILITY: Final = {"networking.knative.dev/visibility": "cluster-local"}
_LEAST, _MOST = "autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/max-scale"
_FLAG: Final = (
    "pods name their scheduler, which Knative takes with kubernetes.podspec-schedulername: enabled in its ConfigMap"
    " config-features"
)


def served_by(old: Mapping[str, Any], children: Children, *, paused: bool) -> str:
    """By what the pods of a service with that status are to be made; empty while what made them before may not be used,
    or is gone and pods of it are left.
    """
    use, before = KNATIVE.use(children.addons), old.get("servedBy")
    if use is Usable.SERVED:
        deployed = any(
            each["kind"] in (served.KIND, "Service") and not is_knative(each) for each in children.companions
        )
        return BY_DEPLOYMENTS if deployed and not paused else BY_KNATIVE
    if use is Usable.DENIED:
        return "" if before == BY_KNATIVE else BY_DEPLOYMENTS
    return "" if any(REVISION_LABEL in (metadata(pod).get("labels") or {}) for pod in children.pods) else BY_DEPLOYMENTS


def is_knative(obj: Mapping[str, Any]) -> bool:
    """Whether an object is one of Knative."""
    return bool(obj["apiVersion"] == API)


def service_of(
    owner: Owner, name: str, template: Mapping[str, Any], part: str, scale: tuple[int, int], concurrency: int | None
) -> Object:
    """A Service of Knative for pods of that template.

    Args:
        owner: the workload.
        name: of the Service.
        template: `{metadata, spec}` of its pods.
        part: what tells its pods from those of the workload's other parts.
        scale: the least and the most pods; 0 for any number.
        concurrency: how many requests a pod takes at a time; None to leave that to Knative.
    """
    made = served.template_of(owner, template["spec"], template.get("metadata") or {}, part=part)
    least, most = scale
    notes = {_LEAST: str(least), **({_MOST: str(most)} if most else {})}
    made["metadata"]["annotations"] = {**(made["metadata"].get("annotations") or {}), **notes}
    if concurrency is not None:
        made["spec"]["containerConcurrency"] = concurrency
    return _object(owner, "Service", name, {"template": made}, {served.PART_LABEL: part})


def route_of(owner: Owner, name: str, shares: Mapping[str, int]) -> Object:
    """A Route that divides requests between Services of Knative by percent."""
    traffic = [
        {"configurationName": service, "latestRevision": True, "percent": percent}
        for service, percent in shares.items()
        if percent
    ]
    return _object(owner, "Route", name, {"traffic": traffic}, {})


def _object(owner: Owner, kind: str, name: str, spec: Object, labels: Mapping[str, str]) -> Object:
    hidden = {} if owner.annotations.get(PUBLIC_ANNOTATION) == "public" else _VISIBILITY
    meta = owner.metadata(name, {**labels, **hidden})
    meta["annotations"] = {MADE_FROM_ANNOTATION: hash_of(spec)}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def find(children: Children, kind: str, name: str) -> Object | None:
    """The object of Knative of that kind and name."""
    there = (each for each in children.companions if is_knative(each) and each["kind"] == kind)
    return next((each for each in there if name_of(each) == name), None)


def ready(found: Object | None) -> tuple[bool, str, str]:
    """Whether Knative says that an object is ready, with reason and message."""
    if found is None:
        return False, "ServiceMissing", "the Service of Knative is not there yet"
    for each in (found.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready":
            return each.get("status") == "True", str(each.get("reason") or "-"), str(each.get("message") or "")
    return False, "ServiceNotReady", ""


def url_of(found: Object | None, name: str, namespace: str) -> str:
    """Where an object of Knative answers."""
    return str(((found or {}).get("status") or {}).get("url") or f"http://{name}.{namespace}.svc/")


def counts(children: Children, part: str) -> tuple[int, int]:
    """Ready and all pods of a part."""
    mine = [
        pod
        for pod in children.pods
        if (metadata(pod).get("labels") or {}).get(served.PART_LABEL) == part and not is_terminating(pod)
    ]
    up = [pod for pod in mine if any(_is_ready(each) for each in (pod.get("status") or {}).get("conditions") or ())]
    return len(up), len(mine)


def _is_ready(condition: Mapping[str, Any]) -> bool:
    return condition.get("type") == "Ready" and condition.get("status") == "True"


def ended(children: Children) -> Actions:
    """End all pods of a workload, those of Knative too."""
    gone = tuple(each for each in children.companions if is_knative(each) and not is_terminating(each))
    return Actions(delete=gone, update=served.emptied(children).update)


def told(by: str, children: Children, *, ours: bool) -> tuple[bool, str, str]:
    """Whether a service scales by load, with reason and message. `ours`: this scheduler places its pods."""
    if by == BY_KNATIVE:
        return True, "Knative", _FLAG if ours else ""
    lack = KNATIVE.lack(children.addons)
    if not by:
        return False, "KnativeGone", lack
    if lack:
        reason = "NotAutoscaled" if KNATIVE.use(children.addons) is Usable.ABSENT else "KnativeForbidden"
        return False, reason, f"each release has minReplicas pods, whatever its load: {lack}"
    return False, "MadeBeforeKnative", "it was made before Knative could be used: pause and resume it to move there"
