"""Pods: defaults, quality of service, what may be changed after creation, and graceful deletion.

Pod templates of other kinds take the same defaults and most of the same rules, through `default_pod_spec` and
`validate_pod_spec`.
"""

from typing import Any, Final

from t9ksched.devcluster.apiserver import names
from t9ksched.devcluster.apiserver.metadata import now, validate_labels
from t9ksched.devcluster.apiserver.resources import resource_causes
from t9ksched.devcluster.apiserver.selectors import METADATA_FIELDS, at
from t9ksched.devcluster.apiserver.status import (
    Cause,
    StatusError,
    bad_value,
    duplicate,
    forbidden,
    misnamed,
    not_allowed,
    required,
)
from t9ksched.devcluster.apiserver.status import unsupported as unsupported_value
from t9ksched.devcluster.apiserver.strategy import Context, Strategy

Object = dict[str, Any]

_EVICTING_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_RESTART: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL: Final = ("Always", "IfNotPresent", "Never")
_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def default_pod_spec(spec: Object) -> None:
    """What the API server fills in for every pod and pod template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):  # the old name of the field is kept
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in spec.get("containers") or []:
        _default_container(container, spec.get("hostNetwork", False))
    for container in spec.get("initContainers") or []:
        _default_container(container, spec.get("hostNetwork", False))
    for volume in spec.get("volumes") or []:
        _default_volume(volume)


def _default_container(container: Object, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        image = container.get("image", "")
        tag = image.rsplit("/", 1)[-1].partition(":")[2] if "@" not in image else "digest"
        container["imagePullPolicy"] = "Always" if tag in ("", "latest") else "IfNotPresent"
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if host_network and "hostPort" not in port:
            port["hostPort"] = port.get("containerPort", 0)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            for field, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1)):
                container[probe].setdefault(field, value)
            container[probe].setdefault("failureThreshold", 3)
            if "httpGet" in container[probe]:
                container[probe]["httpGet"].setdefault("scheme", "HTTP")
                container[probe]["httpGet"].setdefault("path", "/")
    for variable in container.get("env") or []:
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _default_volume(volume: Object) -> None:
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if len(volume) == 1:
        volume["emptyDir"] = {}


def fill_requests(spec: Object) -> None:
    """Requests that are missing take the value of the limit."""
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        resources = container.get("resources") or {}
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}


def quality_of_service(spec: Object) -> str:
    """Guaranteed when every container limits and requests cpu and memory alike, BestEffort when none asks for any."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    guaranteed = True
    asked = False
    for container in containers:
        resources = container.get("resources") or {}
        requests = {k: v for k, v in (resources.get("requests") or {}).items() if k in ("cpu", "memory") and v != "0"}
        limits = {k: v for k, v in (resources.get("limits") or {}).items() if k in ("cpu", "memory") and v != "0"}
        asked = asked or bool(requests) or bool(limits)
        guaranteed = guaranteed and len(limits) == 2 and requests == limits
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def validate_pod_spec(spec: Object, root: str) -> list[Cause]:
    """The faults of a pod's spec; `root` is its path."""
    causes: list[Cause] = []
    containers = spec.get("containers") or []
    if not containers:
        causes.append(required(f"{root}.containers"))
    volumes = [volume.get("name", "") for volume in spec.get("volumes") or []]
    for number, name in enumerate(volumes):
        field = f"{root}.volumes[{number}].name"
        causes += misnamed(field, name, names.label_fault)
        if name and name in volumes[:number]:
            causes.append(duplicate(field, name))
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(group) or []):
            causes += _validate_container(container, f"{root}.{group}[{number}]", seen, volumes)
    for number, spread in enumerate(spec.get("topologySpreadConstraints") or []):
        if spread.get("whenUnsatisfiable", "") not in _UNSATISFIABLE:
            field = f"{root}.topologySpreadConstraints[{number}].whenUnsatisfiable"
            causes.append(unsupported_value(field, spread.get("whenUnsatisfiable", ""), _UNSATISFIABLE))
    causes += _one_of(spec, "restartPolicy", _RESTART, root)
    causes += _one_of(spec, "dnsPolicy", _DNS, root)
    causes += validate_labels(spec.get("nodeSelector"), f"{root}.nodeSelector")
    if (limit := spec.get("activeDeadlineSeconds")) is not None and limit < 1:
        text = "must be between 1 and 2147483647, inclusive"
        causes.append(bad_value(f"{root}.activeDeadlineSeconds", limit, text))
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be greater than or equal to 0"
        causes.append(bad_value(f"{root}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"], text))
    for number, toleration in enumerate(spec.get("tolerations") or []):
        causes += _validate_toleration(toleration, f"{root}.tolerations[{number}]")
    causes += _validate_group(spec.get("workloadRef"), f"{root}.workloadRef")
    gates = spec.get("schedulingGates") or []
    for number, gate in enumerate(gates):
        if fault := names.label_key_fault(gate.get("name", "")):
            causes.append(bad_value(f"{root}.schedulingGates[{number}].name", gate.get("name", ""), fault))
    if gates and spec.get("nodeName"):
        causes.append(not_allowed(f"{root}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def _validate_group(reference: Object | None, root: str) -> list[Cause]:
    """The group that a pod names in Kubernetes 1.35."""
    if reference is None:
        return []
    causes: list[Cause] = []
    checks = {"name": names.subdomain_fault, "podGroup": names.label_fault, "podGroupReplicaKey": names.label_fault}
    for key, check in checks.items():
        text = reference.get(key, "")
        if text or key != "podGroupReplicaKey":
            causes += misnamed(f"{root}.{key}", text, check)
    return causes


def _one_of(holder: Object, field: str, known: tuple[str, ...], root: str) -> list[Cause]:
    value = holder.get(field)
    return [] if value is None or value in known else [unsupported_value(f"{root}.{field}", value, known)]


def _validate_container(container: Object, root: str, seen: set[str], volumes: list[str]) -> list[Cause]:
    name = container.get("name", "")
    causes = misnamed(f"{root}.name", name, names.label_fault)
    if not causes and name in seen:
        causes.append(duplicate(f"{root}.name", name))
    seen.add(name)
    if not container.get("image"):
        causes.append(required(f"{root}.image"))
    causes += _one_of(container, "imagePullPolicy", _PULL, root)
    for number, port in enumerate(container.get("ports") or []):
        field = f"{root}.ports[{number}]"
        for key in ("containerPort", "hostPort"):
            if key in port and not 0 < port[key] < 65536:
                causes.append(bad_value(f"{field}.{key}", port[key], "must be between 1 and 65535, inclusive"))
        if "containerPort" not in port:
            causes.append(required(f"{field}.containerPort"))
        causes += _one_of(port, "protocol", ("TCP", "UDP", "SCTP"), field)
    for number, variable in enumerate(container.get("env") or []):
        if not variable.get("name"):
            causes.append(required(f"{root}.env[{number}].name"))
    for number, mount in enumerate(container.get("volumeMounts") or []):
        field = f"{root}.volumeMounts[{number}]"
        if not mount.get("name"):
            causes.append(required(f"{field}.name"))
        elif mount["name"] not in volumes:
            causes.append(Cause("FieldValueNotFound", f'Not found: "{mount["name"]}"', f"{field}.name"))
        if not mount.get("mountPath"):
            causes.append(required(f"{field}.mountPath"))
    return causes + resource_causes(container.get("resources") or {}, f"{root}.resources")


def _validate_toleration(toleration: Object, root: str) -> list[Cause]:
    causes = _one_of(toleration, "operator", ("Equal", "Exists", "Lt", "Gt"), root)
    if (effect := toleration.get("effect")) not in (None, "NoSchedule", "PreferNoSchedule", "NoExecute"):
        causes.append(unsupported_value(f"{root}.effect", effect, ("NoSchedule", "PreferNoSchedule", "NoExecute")))
    operator = toleration.get("operator", "Equal")
    if not toleration.get("key") and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(bad_value(f"{root}.operator", operator, text))
    if operator == "Exists" and toleration.get("value"):
        text = "value must be empty when `operator` is 'Exists'"
        causes.append(bad_value(f"{root}.operator", toleration["value"], text))
    return causes


def pod_phase(obj: Object) -> str:
    """The phase, Pending when none is written."""
    return str(obj.get("status", {}).get("phase", "Pending"))


class PodStrategy(Strategy):
    """Pods."""

    has_status = True
    counts_generation = True
    answers_object = True
    fields = METADATA_FIELDS | {
        "spec.nodeName": at("spec", "nodeName"),
        "spec.schedulerName": at("spec", "schedulerName"),
        "spec.restartPolicy": at("spec", "restartPolicy"),
        "spec.serviceAccountName": at("spec", "serviceAccountName"),
        "spec.hostNetwork": lambda obj: "true" if obj["spec"].get("hostNetwork") else "false",
        "status.phase": at("status", "phase"),
        "status.podIP": at("status", "podIP"),
        "status.podIPs": lambda obj: ",".join(entry.get("ip", "") for entry in obj["status"].get("podIPs", [])),
        "status.nominatedNodeName": at("status", "nominatedNodeName"),
    }

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        default_pod_spec(spec)
        fill_requests(spec)
        spec.setdefault("enableServiceLinks", True)
        _default_tolerations(spec)
        obj["status"].setdefault("phase", "Pending")

    def admit(self, obj: Object, context: Context) -> StatusError | None:
        spec = obj["spec"]
        named = spec.get("priorityClassName", "")
        found = context.priority_class(named)
        meta = obj["metadata"]
        name = meta.get("name") or meta.get("generateName", "")
        if named and found is None:
            return forbidden("pods", "", name, f"no PriorityClass with name {named} was found")
        value = found["value"] if found else 0
        if found and not named:
            spec["priorityClassName"] = found["metadata"]["name"]
        if spec.get("priority", value) != value:
            text = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority"
                f" admission controller computed {value} from the given PriorityClass name"
            )
            return forbidden("pods", "", name, text)
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", (found or {}).get("preemptionPolicy", "PreemptLowerPriority"))
        return None

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        if obj["spec"].get("nodeName"):
            # The part of a real server's managedFields that schedulers need.
            mine: Object = {"f:spec": {"f:nodeName": {}}}
            record = {"manager": "client", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
            obj["metadata"].setdefault("managedFields", []).append({**record, "fieldsV1": mine})
        status: Object = {"phase": "Pending"}
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": now(),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        status["qosClass"] = quality_of_service(obj["spec"])
        obj["status"] = status

    def validate(self, obj: Object) -> list[Cause]:
        return validate_pod_spec(obj["spec"], "spec")

    def prepare_update(self, new: Object, old: Object) -> None:
        for field in ("priority", "preemptionPolicy", "priorityClassName"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])
        super().prepare_update(new, old)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        if new["spec"] == old["spec"]:
            return []
        return _spec_change_causes(new["spec"], old["spec"]) or self.validate(new)

    def prepare_status(self, new: Object, old: Object) -> Object:
        result = super().prepare_status(new, old)
        result["status"] = {**result.get("status", {})}
        result["status"].setdefault("qosClass", old["status"].get("qosClass", "BestEffort"))
        if (address := result["status"].get("podIP")) and "podIPs" not in result["status"]:
            result["status"]["podIPs"] = [{"ip": address}]
        if "deletionTimestamp" in old["metadata"] and "deletionTimestamp" not in new["metadata"]:
            result["metadata"]["deletionTimestamp"] = old["metadata"]["deletionTimestamp"]
        return result

    def deletion_grace(self, obj: Object, asked: int | None) -> int | None:
        spec = obj["spec"]
        if not spec.get("nodeName") or pod_phase(obj) in ("Succeeded", "Failed"):
            return 0
        grace: int = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30)
        return 1 if grace < 0 else grace


def _default_tolerations(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in _EVICTING_TAINTS:
        present = any(
            (entry.get("key") == key or (not entry.get("key") and entry.get("operator") == "Exists"))
            and entry.get("effect") in (None, "NoExecute")
            for entry in tolerations
        )
        if not present:
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _spec_change_causes(new: Object, old: Object) -> list[Cause]:
    """The faults of a changed pod spec: only a few fields may change once the pod exists."""
    for group in ("containers", "initContainers"):
        if len(new.get(group) or []) != len(old.get(group) or []):
            return [not_allowed(f"spec.{group}", "pod updates may not add or remove containers")]
    causes: list[Cause] = []
    for group in ("containers", "initContainers"):
        for number, container in enumerate(new.get(group) or []):
            if not container.get("image"):
                causes.append(required(f"spec.{group}[{number}].image"))
    old_gates = [gate["name"] for gate in old.get("schedulingGates") or []]
    for number, gate in enumerate(new.get("schedulingGates") or []):
        if gate.get("name") not in old_gates:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            causes.append(not_allowed(f"spec.schedulingGates[{number}].name", text))
    if causes:
        return causes
    if any(entry not in (new.get("tolerations") or []) for entry in old.get("tolerations") or []):
        return [not_allowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    deadline, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if deadline is not None and deadline < 1:
        text = "must be between 1 and 2147483647, inclusive"
        return [bad_value("spec.activeDeadlineSeconds", deadline, text)]
    if before is not None and (deadline is None or deadline > before):
        text = (
            "must not update from a positive integer to nil value"
            if deadline is None
            else (f"must be less than or equal to previous value: {before}")
        )
        return [bad_value("spec.activeDeadlineSeconds", deadline, text)]
    free = {"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if old_gates:
        if any(
            (new.get("nodeSelector") or {}).get(key) != value for key, value in (old.get("nodeSelector") or {}).items()
        ):
            text = "when scheduling gates are present, nodeSelector may only be extended"
            return [bad_value("spec.nodeSelector", new.get("nodeSelector"), text)]
        free |= {"nodeSelector", "affinity"}
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        free.add("terminationGracePeriodSeconds")
    if _frozen(new, free) != _frozen(old, free):
        return [not_allowed("spec", _IMMUTABLE)]
    return []


def _frozen(spec: Object, free: set[str]) -> Object:
    rest = {key: value for key, value in spec.items() if key not in free}
    for group in ("containers", "initContainers"):
        rest[group] = [{k: v for k, v in entry.items() if k != "image"} for entry in spec.get(group) or []]
    return rest
