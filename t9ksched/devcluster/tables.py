"""Tables: what `kubectl get` prints, computed by the server.

Kinds without columns of their own show name and age. Cells are text or plain JSON values.
"""

from datetime import UTC, datetime
from typing import Any, Final

from t9ksched.devcluster.kinds import Column, Kind
from t9ksched.devcluster.schema import parse_time

Object = dict[str, Any]
_NONE: Final = "<none>"
_UNSET: Final = "<unset>"
_UNKNOWN: Final = "<unknown>"


def age(since: str | None) -> str:
    """The time since a moment in the shortest useful form: `45s`, `3m12s`, `5h`, `12d`."""
    if not since:
        return _UNKNOWN
    try:
        seconds = int((datetime.now(UTC) - parse_time(since)).total_seconds())
    except ValueError:
        return "<invalid>"
    return duration(max(0, seconds))


def duration(seconds: int) -> str:
    """A span in at most two units."""
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d"


def _dig(obj: Any, *path: str) -> Any:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _pairs(labels: Object | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (labels or {}).items()) or _NONE


def _created(obj: Object) -> str:
    return age(obj["metadata"].get("creationTimestamp"))


NAME: Final = Column(
    "Name", lambda obj: obj["metadata"].get("name", ""), format="name", description="Name of the object."
)
AGE: Final = Column("Age", _created, description="Time since the object was created.")


def _pod_ready(obj: Object) -> str:
    statuses = obj["status"].get("containerStatuses") or []
    return f"{sum(bool(entry.get('ready')) for entry in statuses)}/{len(obj['spec'].get('containers') or [])}"


def _pod_status(obj: Object) -> str:
    status = obj["status"]
    shown = str(status.get("reason") or status.get("phase", ""))
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    for entry in status.get("containerStatuses") or []:
        state = entry.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            shown = waiting["reason"]
        elif ended.get("reason"):
            shown = ended["reason"]
        elif ended:
            shown = f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in obj["metadata"]:
        return _UNKNOWN if status.get("reason") == "NodeLost" else "Terminating"
    return shown


def _pod_restarts(obj: Object) -> str:
    statuses = obj["status"].get("containerStatuses") or []
    return str(sum(entry.get("restartCount", 0) for entry in statuses))


def _node_status(obj: Object) -> str:
    ready = [c for c in obj["status"].get("conditions") or [] if c.get("type") == "Ready"]
    words = ["Unknown"] if not ready else ["Ready" if ready[0].get("status") == "True" else "NotReady"]
    if obj["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or _NONE


def _node_address(kind: str) -> Any:
    def read(obj: Object) -> str:
        for entry in obj["status"].get("addresses") or []:
            if entry.get("type") == kind:
                return str(entry.get("address"))
        return _NONE

    return read


def _ports(obj: Object) -> str:
    shown = []
    for port in obj["spec"].get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or _NONE


def _images(obj: Object) -> str:
    return ",".join(c.get("image", "") for c in _dig(obj, "spec", "template", "spec", "containers") or [])


def _containers(obj: Object) -> str:
    return ",".join(c.get("name", "") for c in _dig(obj, "spec", "template", "spec", "containers") or [])


def _selector(obj: Object) -> str:
    labels = _dig(obj, "spec", "selector", "matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _job_status(obj: Object) -> str:
    kinds = {c.get("type") for c in obj["status"].get("conditions") or [] if c.get("status") == "True"}
    for name, shown in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if name in kinds:
            return shown
    return "Running" if "deletionTimestamp" not in obj["metadata"] else "Terminating"


def _job_completions(obj: Object) -> str:
    done, wanted = obj["status"].get("succeeded", 0), obj["spec"].get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {obj['spec'].get('parallelism', 1)}" if obj["spec"].get("parallelism", 1) > 1 else f"{done}/1"


def _job_duration(obj: Object) -> str:
    start, end = obj["status"].get("startTime"), obj["status"].get("completionTime")
    if not start:
        return ""
    if not end:
        return age(start)
    return duration(int((parse_time(end) - parse_time(start)).total_seconds()))


def _wide(name: str, read: Any) -> Column:
    return Column(name, read, priority=1)


def _event_object(obj: Object) -> str:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_seen(obj: Object) -> str:
    times = (_dig(obj, "series", "lastObservedTime"), obj.get("lastTimestamp"), obj.get("eventTime"))
    return age(next((time for time in times if time), None))


def _path(*path: str, missing: Any = _NONE) -> Any:
    def read(obj: Object) -> Any:
        value = _dig(obj, *path)
        return missing if value in (None, "") else value

    return read


def _created_at(obj: Object) -> Any:
    return _dig(obj, "metadata", "creationTimestamp")


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(*path: str) -> Any:
    def read(obj: Object) -> str:
        return ",".join(short for mode, short in _MODES.items() if mode in (_dig(obj, *path) or ()))

    return read


def _volume_claim(obj: Object) -> str:
    about = obj["spec"].get("claimRef")
    return f"{about.get('namespace', '')}/{about.get('name', '')}" if about else ""


def _external(obj: Object) -> str:
    return obj["spec"].get("externalName") or _NONE if obj["spec"].get("type") == "ExternalName" else _NONE


def _amounts(limits: bool) -> Any:
    def read(obj: Object) -> str:
        hard, used = obj["status"].get("hard") or {}, obj["status"].get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits") is limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return read


def _subjects(kind: str) -> Any:
    def read(obj: Object) -> str:
        found = (one for one in obj.get("subjects") or () if one.get("kind") == kind)
        return ", ".join(
            f"{one.get('namespace', '')}/{one['name']}" if kind[0] == "S" else one["name"] for one in found
        )

    return read


def _addresses(obj: Object) -> str:
    found = [
        f"{address.get('ip', '')}:{port['port']}"
        for part in obj.get("subsets") or ()
        for port in part.get("ports") or ()
        for address in part.get("addresses") or ()
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or _NONE


def _last_schedule(obj: Object) -> str:
    last = obj["status"].get("lastScheduleTime")
    return age(last) if last else _NONE


def _of_job(read: Any) -> Any:
    return lambda obj: read(obj["spec"]["jobTemplate"])


_TEMPLATE: Final = (_wide("Containers", _containers), _wide("Images", _images), _wide("Selector", _selector))
_BINDING: Final = (
    NAME,
    Column("Role", lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"),
    AGE,
    _wide("Users", _subjects("User")),
    _wide("Groups", _subjects("Group")),
    _wide("ServiceAccounts", _subjects("ServiceAccount")),
)
_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "pods": (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        AGE,
        _wide("IP", _path("status", "podIP")),
        _wide("Node", _path("spec", "nodeName")),
        _wide("Nominated Node", _path("status", "nominatedNodeName")),
        _wide("Readiness Gates", lambda obj: _NONE),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _path("status", "nodeInfo", "kubeletVersion", missing="")),
        _wide("Internal-IP", _node_address("InternalIP")),
        _wide("External-IP", _node_address("ExternalIP")),
        _wide("OS-Image", _path("status", "nodeInfo", "osImage", missing=_UNKNOWN)),
        _wide("Kernel-Version", _path("status", "nodeInfo", "kernelVersion", missing=_UNKNOWN)),
        _wide("Container-Runtime", _path("status", "nodeInfo", "containerRuntimeVersion", missing=_UNKNOWN)),
    ),
    "namespaces": (NAME, Column("Status", _path("status", "phase", missing="")), AGE),
    "configmaps": (
        NAME,
        Column("Data", lambda obj: len(obj.get("data") or {}) + len(obj.get("binaryData") or {})),
        AGE,
    ),
    "secrets": (
        NAME,
        Column("Type", _path("type", missing="")),
        Column("Data", lambda obj: len(obj.get("data") or {})),
        AGE,
    ),
    "services": (
        NAME,
        Column("Type", _path("spec", "type")),
        Column("Cluster-IP", _path("spec", "clusterIP")),
        Column("External-IP", _external),
        Column("Port(s)", _ports),
        AGE,
        _wide("Selector", lambda obj: _pairs(obj["spec"].get("selector"))),
    ),
    "events": (
        Column("Last Seen", _event_seen),
        Column("Type", _path("type", missing="")),
        Column("Reason", _path("reason", missing="")),
        Column("Object", _event_object),
        _wide("Subobject", _path("involvedObject", "fieldPath", missing="")),
        _wide("Source", _path("source", "component", missing="")),
        Column("Message", lambda obj: str(obj.get("message") or obj.get("note") or "").strip()),
        _wide("First Seen", lambda obj: age(obj.get("firstTimestamp") or obj.get("eventTime"))),
        _wide("Count", lambda obj: obj.get("count", 1)),
        Column("Name", lambda obj: obj["metadata"].get("name", ""), priority=1, format="name"),
    ),
    "deployments.apps": (
        NAME,
        Column("Ready", lambda obj: f"{obj['status'].get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"),
        Column("Up-to-date", lambda obj: str(obj["status"].get("updatedReplicas", 0))),
        Column("Available", lambda obj: str(obj["status"].get("availableReplicas", 0))),
        AGE,
        *_TEMPLATE,
    ),
    "daemonsets.apps": (
        NAME,
        Column("Desired", _path("status", "desiredNumberScheduled", missing=0), "integer"),
        Column("Current", _path("status", "currentNumberScheduled", missing=0), "integer"),
        Column("Ready", _path("status", "numberReady", missing=0), "integer"),
        Column("Up-to-date", _path("status", "updatedNumberScheduled", missing=0), "integer"),
        Column("Available", _path("status", "numberAvailable", missing=0), "integer"),
        Column(
            "Node Selector",
            lambda obj: _pairs(_dig(obj, "spec", "template", "spec", "nodeSelector")),
        ),
        AGE,
        *_TEMPLATE,
    ),
    "statefulsets.apps": (
        NAME,
        Column("Ready", lambda obj: f"{obj['status'].get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"),
        AGE,
        *_TEMPLATE[:2],
    ),
    "replicasets.apps": (
        NAME,
        Column("Desired", _path("spec", "replicas", missing=0), "integer"),
        Column("Current", _path("status", "replicas", missing=0), "integer"),
        Column("Ready", _path("status", "readyReplicas", missing=0), "integer"),
        AGE,
        *_TEMPLATE,
    ),
    "jobs.batch": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *_TEMPLATE,
    ),
    "leases.coordination.k8s.io": (NAME, Column("Holder", _path("spec", "holderIdentity", missing="")), AGE),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _path("status", "phase", missing="")),
        Column("Volume", _path("spec", "volumeName", missing="")),
        Column("Capacity", _path("status", "capacity", "storage", missing="")),
        Column("Access Modes", _modes("status", "accessModes")),
        Column("StorageClass", _path("spec", "storageClassName", missing="")),
        Column("VolumeAttributesClass", _path("spec", "volumeAttributesClassName", missing=_UNSET)),
        AGE,
        _wide("VolumeMode", _path("spec", "volumeMode", missing=_UNSET)),
    ),
    "persistentvolumes": (
        NAME,
        Column("Capacity", _path("spec", "capacity", "storage", missing="")),
        Column("Access Modes", _modes("spec", "accessModes")),
        Column("Reclaim Policy", _path("spec", "persistentVolumeReclaimPolicy", missing="")),
        Column("Status", _path("status", "phase", missing="")),
        Column("Claim", _volume_claim),
        Column("StorageClass", _path("spec", "storageClassName", missing="")),
        Column("VolumeAttributesClass", _path("spec", "volumeAttributesClassName", missing=_UNSET)),
        Column("Reason", _path("status", "reason", missing="")),
        AGE,
        _wide("VolumeMode", _path("spec", "volumeMode", missing=_UNSET)),
    ),
    "endpoints": (NAME, Column("Endpoints", _addresses), AGE),
    "limitranges": (NAME, Column("Created At", _created_at, "date")),
    "resourcequotas": (NAME, Column("Request", _amounts(False)), Column("Limit", _amounts(True)), AGE),
    "cronjobs.batch": (
        NAME,
        Column("Schedule", _path("spec", "schedule", missing="")),
        Column("Timezone", _path("spec", "timeZone")),
        Column("Suspend", lambda obj: str(bool(obj["spec"].get("suspend"))), "boolean"),
        Column("Active", lambda obj: len(obj["status"].get("active") or ()), "integer"),
        Column("Last Schedule", _last_schedule),
        AGE,
        *(_wide(column.name, _of_job(column.read)) for column in _TEMPLATE),
    ),
    "csinodes.storage.k8s.io": (
        NAME,
        Column("Drivers", lambda obj: len(obj["spec"].get("drivers") or ()), "integer"),
        AGE,
    ),
    "roles.rbac.authorization.k8s.io": (NAME, Column("Created At", _created_at, "date")),
    "clusterroles.rbac.authorization.k8s.io": (NAME, Column("Created At", _created_at, "date")),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", _path("metadata", "creationTimestamp")),
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", lambda obj: str(obj["spec"].get("minAvailable", "N/A"))),
        Column("Max Unavailable", lambda obj: str(obj["spec"].get("maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", _path("status", "disruptionsAllowed", missing=0), "integer"),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": (
        NAME,
        Column("Pod-Selector", lambda obj: _pairs(_dig(obj, "spec", "podSelector", "matchLabels"))),
        AGE,
    ),
    "storageclasses.storage.k8s.io": (
        NAME,
        Column("Provisioner", _path("provisioner", missing="")),
        Column("ReclaimPolicy", _path("reclaimPolicy", missing="")),
        Column("VolumeBindingMode", _path("volumeBindingMode", missing="")),
        Column("AllowVolumeExpansion", lambda obj: str(bool(obj.get("allowVolumeExpansion"))).lower()),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", _path("value", missing=0), "integer"),
        Column("Global-Default", lambda obj: str(bool(obj.get("globalDefault"))).lower(), "boolean"),
        AGE,
        Column("PreemptionPolicy", _path("preemptionPolicy", missing="")),
    ),
}


def columns(kind: Kind) -> tuple[Column, ...]:
    """The columns of a kind's table."""
    if kind.columns is not None:
        return kind.columns
    return _COLUMNS.get(kind.collection, (NAME, AGE))


def definitions(kind: Kind) -> list[Object]:
    """The head of a kind's table."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description or column.name,
            "priority": column.priority,
        }
        for column in columns(kind)
    ]


def row(kind: Kind, obj: Object, include: str) -> Object:
    """One row; `include` says what stands beside the cells: Metadata, Object or None."""
    shown = {"Object": obj, "None": None}.get(include, partial(obj) if include not in ("Object", "None") else None)
    return {"cells": [column.read(obj) for column in columns(kind)], "object": shown}


def partial(obj: Object) -> Object:
    """An object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def table(
    kind: Kind, rows: list[Object], version: str, *, head: bool = True, token: str = "", remaining: int | None = None
) -> Object:
    """A whole table; `head` False leaves out the columns, as in all but the first event of a watch."""
    meta: Object = {"resourceVersion": version}
    if token:
        meta["continue"] = token
    if remaining is not None:
        meta["remainingItemCount"] = remaining
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": definitions(kind) if head else None,
        "rows": rows,
    }
