"""Strategies of kinds that make pods (jobs, deployments and similar kinds) and of disruption budgets."""

from typing import Any, Final

from t9ksched.devcluster.apiserver.metadata import validate_annotations, validate_labels
from t9ksched.devcluster.apiserver.pods import default_pod_spec, validate_pod_spec
from t9ksched.devcluster.apiserver.selectors import METADATA_FIELDS, at
from t9ksched.devcluster.apiserver.status import Cause, bad_value, not_allowed, required
from t9ksched.devcluster.apiserver.status import unsupported as unsupported_value
from t9ksched.devcluster.apiserver.strategy import Strategy

Object = dict[str, Any]
_JOB_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_JOB_NAMES: Final = ("batch.kubernetes.io/job-name", "job-name")


def _default_template(holder: Object) -> None:
    template = holder.get("template")
    if isinstance(template, dict):
        default_pod_spec(template.setdefault("spec", {}))


def _validate_template(spec: Object, root: str = "spec.template") -> list[Cause]:
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    causes = validate_labels(metadata.get("labels"), f"{root}.labels")
    causes += validate_annotations(metadata.get("annotations"), f"{root}.annotations")
    return causes + validate_pod_spec(template.get("spec") or {}, f"{root}.spec")


def _selector_causes(spec: Object, kind: str) -> list[Cause]:
    selector = spec.get("selector")
    if not selector:
        text = f"empty selector is invalid for {kind}"
        return [required("spec.selector")] if selector is None else [bad_value("spec.selector", selector, text)]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return [bad_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]
    return []


class WorkloadStrategy(Strategy):
    """Deployments, stateful sets, replica sets and daemon sets."""

    has_status = True
    counts_generation = True

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        kind = obj["kind"]
        if kind != "DaemonSet":
            spec.setdefault("replicas", 1)
        _default_template(spec)
        if kind == "Deployment":
            strategy = spec.setdefault("strategy", {"type": "RollingUpdate"})
            if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
                rolling = strategy.setdefault("rollingUpdate", {})
                rolling.setdefault("maxUnavailable", "25%")
                rolling.setdefault("maxSurge", "25%")
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault("progressDeadlineSeconds", 600)
        elif kind == "StatefulSet":
            spec.setdefault("podManagementPolicy", "OrderedReady")
            strategy = spec.setdefault("updateStrategy", {"type": "RollingUpdate"})
            if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
                strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
        elif kind == "DaemonSet":
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault(
                "updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
            )

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        if obj["kind"] == "StatefulSet":
            obj["status"] = {"replicas": 0, "availableReplicas": 0}
        elif obj["kind"] == "ReplicaSet":
            obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = []
        if spec.get("replicas", 0) < 0:
            causes.append(bad_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
        causes += _selector_causes(spec, obj["kind"].lower())
        causes += _validate_template(spec)
        if (policy := ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")) not in (None, "Always"):
            causes.append(unsupported_value("spec.template.spec.restartPolicy", policy, ("Always",)))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            causes.append(bad_value("spec.selector", new["spec"].get("selector"), "field is immutable"))
        if new["kind"] == "StatefulSet" and _rest(new["spec"]) != _rest(old["spec"]):
            text = (
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy'"
                ", 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
            )
            causes.append(not_allowed("spec", text))
        return causes


_MUTABLE: Final = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "selector",
    }
)


def _rest(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if key not in _MUTABLE}


class DeploymentStrategy(WorkloadStrategy):
    """Deployments count a changed annotation as a new generation too."""

    def count_generation(self, new: Object, old: Object) -> None:
        changed = new["spec"] != old["spec"]
        annotated = new["metadata"].get("annotations") != old["metadata"].get("annotations")
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + (changed or annotated)


class JobStrategy(Strategy):
    """Jobs, which make their selector from their own identity."""

    has_status = True
    counts_generation = True
    fields = METADATA_FIELDS | {
        "status.successful": lambda obj: str(obj.get("status", {}).get("succeeded", 0)),
    }

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = spec["parallelism"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
        _default_template(spec)
        template = spec.get("template") or {}
        uid, name = obj["metadata"].get("uid"), obj["metadata"].get("name")
        if uid and not spec["manualSelector"] and "selector" not in spec:
            labels = template.setdefault("metadata", {}).setdefault("labels", {})
            if (obj["metadata"].get("labels") or {}) == labels:
                obj["metadata"].pop("labels", None)  # they were copied from the template's labels, and change with them
            labels.update(dict.fromkeys(_JOB_LABELS, uid))
            labels.update(dict.fromkeys(_JOB_NAMES, name or ""))
            spec["selector"] = {"matchLabels": {_JOB_LABELS[0]: uid}}
        if not obj["metadata"].get("labels") and (labels := (template.get("metadata") or {}).get("labels")):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        self.default(obj)  # repeated, because the UID is known now

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = []
        for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
            if spec.get(field, 0) < 0:
                causes.append(bad_value(f"spec.{field}", spec[field], "must be greater than or equal to 0"))
        causes += _validate_template(spec)
        policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
        if policy not in ("OnFailure", "Never"):
            causes.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        for field in ("completions", "selector", "template", "completionMode"):
            if new["spec"].get(field) != old["spec"].get(field):
                if field == "template" and old["spec"].get("suspend") and not old.get("status", {}).get("startTime"):
                    continue
                causes.append(bad_value(f"spec.{field}", new["spec"].get(field), "field is immutable"))
        return causes


class CronJobStrategy(Strategy):
    """Cron jobs."""

    has_status = True
    counts_generation = True

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        _default_template((spec.get("jobTemplate") or {}).get("spec") or {})

    def validate(self, obj: Object) -> list[Cause]:
        schedule = obj["spec"].get("schedule")
        if not schedule:
            return [required("spec.schedule")]
        fields = schedule.split()
        if schedule.startswith("@") or len(fields) == 5:
            return []
        text = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        return [bad_value("spec.schedule", schedule, text)]


class BudgetStrategy(Strategy):
    """Pod disruption budgets."""

    has_status = True
    counts_generation = True
    unconditional_update = False

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        if "minAvailable" in spec and "maxUnavailable" in spec:
            return [bad_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
        return []


REPLICA_FIELDS: Final = METADATA_FIELDS | {"status.replicas": at("status", "replicas")}


class ReplicaSetStrategy(WorkloadStrategy):
    """Replica sets."""

    fields = REPLICA_FIELDS
