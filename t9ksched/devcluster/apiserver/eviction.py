"""Eviction: a delete that pod disruption budgets may refuse."""

from typing import Any

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.metadata import now
from t9ksched.devcluster.apiserver.options import DeleteOptions, delete_options, section
from t9ksched.devcluster.apiserver.pods import pod_phase
from t9ksched.devcluster.apiserver.status import StatusError, bad_request, internal
from t9ksched.devcluster.apiserver.storage import Entry
from t9ksched.model.labels import LabelSelector

Object = dict[str, Any]
_PLEASE_WAIT = 10


def evict(api: Api, pods: Kind, namespace: str, name: str, eviction: Object, dry_run: bool = False) -> None:
    """Delete a pod if every disruption budget over it allows one more disruption, and count it there.

    Raises:
        StatusError: 404 unknown pod; 429 with cause DisruptionBudget; 500 when more than one budget selects the pod.
    """
    meta = section(eviction, "metadata")
    if meta.get("name") and meta["name"] != name:
        raise bad_request("name in URL does not match name in Eviction object")
    opts = delete_options({}, section(eviction, "deleteOptions"))
    opts.dry_run = opts.dry_run or dry_run
    entry = api.get(pods, namespace, name)
    pod = entry.object
    counted = pod_phase(pod) not in ("Pending", "Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]
    budgets = api.kind("policy", "v1", "poddisruptionbudgets")
    matching = [budget for budget in _budgets(api, budgets, namespace) if _selects(budget.object, pod)]
    if len(matching) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if counted and matching:
        _check(matching[0].object)
        if not opts.dry_run:
            api.edit(budgets, matching[0], lambda budget: _count(budget, name))
    if opts.dry_run:
        return
    if "deletionTimestamp" not in pod["metadata"]:
        entry = _explain(api, pods, entry)
    api.delete_entry(pods, entry, DeleteOptions(grace=opts.grace, propagation=opts.propagation, uid=opts.uid))


def _budgets(api: Api, budgets: Kind, namespace: str) -> list[Entry]:
    return api.collection(budgets).range(f"{namespace}/")


def _selects(budget: Object, pod: Object) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    return LabelSelector.parse(selector, "spec.selector").matches(pod["metadata"].get("labels") or {})


def _check(budget: Object) -> None:
    status, meta = budget.get("status", {}), budget["metadata"]
    seconds: int | None = None
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        text = f"The disruption budget {meta['name']} is still being processed by the server."
        seconds = _PLEASE_WAIT
    elif status.get("disruptionsAllowed", 0) > 0:
        return
    else:
        healthy = f"{status.get('desiredHealthy', 0)} healthy pods and has {status.get('currentHealthy', 0)} currently"
        text = f"The disruption budget {meta['name']} needs {healthy}"
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if seconds:
        details["retryAfterSeconds"] = seconds
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    raise StatusError(429, "TooManyRequests", message, details, retry_after=seconds)


def _count(budget: Object, name: str) -> None:
    status = budget["status"]
    status["disruptionsAllowed"] = status.get("disruptionsAllowed", 0) - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), name: now()}
    if not status["disruptionsAllowed"]:
        spent = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": now(),
            "reason": "InsufficientPods",
            "message": "",
        }
        others = [entry for entry in status.get("conditions") or [] if entry.get("type") != "DisruptionAllowed"]
        status["conditions"] = [*others, spent]


def _explain(api: Api, pods: Kind, entry: Entry) -> Entry:
    """Add the condition that says why the pod is evicted, in the same change that a delete would make alone."""
    conditions = [c for c in entry.object["status"].get("conditions") or [] if c.get("type") != "DisruptionTarget"]
    reason = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = {**entry.object["status"], "conditions": [*conditions, reason]}
    return Entry(entry.key, {**entry.object, "status": status}, entry.version)
