"""Tables: what `kubectl get` prints, computed by the server.

Kinds without columns of their own show name and age. Cells are text or plain JSON values.
"""

from typing import Any, Final

from t9ksched.devcluster.apiserver import cells
from t9ksched.devcluster.apiserver.kinds import Column, Kind

Object = dict[str, Any]
NAME: Final = Column(
    "Name", lambda obj: obj["metadata"].get("name", ""), format="name", description="Name of the object."
)
AGE: Final = Column("Age", cells.created, description="Time since the object was created.")


def _wide(name: str, read: Any) -> Column:
    return Column(name, read, priority=1)


_TEMPLATE: Final = (
    _wide("Containers", cells.containers),
    _wide("Images", cells.images),
    _wide("Selector", cells.selector),
)
_BINDING: Final = (
    NAME,
    Column("Role", lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"),
    AGE,
    _wide("Users", cells.subjects("User")),
    _wide("Groups", cells.subjects("Group")),
    _wide("ServiceAccounts", cells.subjects("ServiceAccount")),
)
_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "pods": (
        NAME,
        Column("Ready", cells.pod_ready),
        Column("Status", cells.pod_status),
        Column("Restarts", cells.pod_restarts),
        AGE,
        _wide("IP", cells.path("status", "podIP")),
        _wide("Node", cells.path("spec", "nodeName")),
        _wide("Nominated Node", cells.path("status", "nominatedNodeName")),
        _wide("Readiness Gates", lambda obj: cells.NONE),
    ),
    "nodes": (
        NAME,
        Column("Status", cells.node_status),
        Column("Roles", cells.node_roles),
        AGE,
        Column("Version", cells.path("status", "nodeInfo", "kubeletVersion", missing="")),
        _wide("Internal-IP", cells.node_address("InternalIP")),
        _wide("External-IP", cells.node_address("ExternalIP")),
        _wide("OS-Image", cells.path("status", "nodeInfo", "osImage", missing=cells.UNKNOWN)),
        _wide("Kernel-Version", cells.path("status", "nodeInfo", "kernelVersion", missing=cells.UNKNOWN)),
        _wide("Container-Runtime", cells.path("status", "nodeInfo", "containerRuntimeVersion", missing=cells.UNKNOWN)),
    ),
    "namespaces": (NAME, Column("Status", cells.path("status", "phase", missing="")), AGE),
    "configmaps": (
        NAME,
        Column("Data", lambda obj: len(obj.get("data") or {}) + len(obj.get("binaryData") or {})),
        AGE,
    ),
    "secrets": (
        NAME,
        Column("Type", cells.path("type", missing="")),
        Column("Data", lambda obj: len(obj.get("data") or {})),
        AGE,
    ),
    "services": (
        NAME,
        Column("Type", cells.path("spec", "type")),
        Column("Cluster-IP", cells.path("spec", "clusterIP")),
        Column("External-IP", cells.external),
        Column("Port(s)", cells.ports),
        AGE,
        _wide("Selector", lambda obj: cells.pairs(obj["spec"].get("selector"))),
    ),
    "events": (
        Column("Last Seen", cells.event_seen),
        Column("Type", cells.path("type", missing="")),
        Column("Reason", cells.path("reason", missing="")),
        Column("Object", cells.event_object),
        _wide("Subobject", cells.path("involvedObject", "fieldPath", missing="")),
        _wide("Source", cells.path("source", "component", missing="")),
        Column("Message", lambda obj: str(obj.get("message") or obj.get("note") or "").strip()),
        _wide("First Seen", lambda obj: cells.age(obj.get("firstTimestamp") or obj.get("eventTime"))),
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
        Column("Desired", cells.path("status", "desiredNumberScheduled", missing=0), "integer"),
        Column("Current", cells.path("status", "currentNumberScheduled", missing=0), "integer"),
        Column("Ready", cells.path("status", "numberReady", missing=0), "integer"),
        Column("Up-to-date", cells.path("status", "updatedNumberScheduled", missing=0), "integer"),
        Column("Available", cells.path("status", "numberAvailable", missing=0), "integer"),
        Column(
            "Node Selector",
            lambda obj: cells.pairs(cells.dig(obj, "spec", "template", "spec", "nodeSelector")),
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
        Column("Desired", cells.path("spec", "replicas", missing=0), "integer"),
        Column("Current", cells.path("status", "replicas", missing=0), "integer"),
        Column("Ready", cells.path("status", "readyReplicas", missing=0), "integer"),
        AGE,
        *_TEMPLATE,
    ),
    "jobs.batch": (
        NAME,
        Column("Status", cells.job_status),
        Column("Completions", cells.job_completions),
        Column("Duration", cells.job_duration),
        AGE,
        *_TEMPLATE,
    ),
    "leases.coordination.k8s.io": (NAME, Column("Holder", cells.path("spec", "holderIdentity", missing="")), AGE),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", cells.storage_status),
        Column("Volume", cells.path("spec", "volumeName", missing="")),
        Column("Capacity", cells.path("status", "capacity", "storage", missing="")),
        Column("Access Modes", cells.modes("status", "accessModes")),
        Column("StorageClass", cells.path("spec", "storageClassName", missing="")),
        Column("VolumeAttributesClass", cells.path("spec", "volumeAttributesClassName", missing=cells.UNSET)),
        AGE,
        _wide("VolumeMode", cells.path("spec", "volumeMode", missing=cells.UNSET)),
    ),
    "persistentvolumes": (
        NAME,
        Column("Capacity", cells.path("spec", "capacity", "storage", missing="")),
        Column("Access Modes", cells.modes("spec", "accessModes")),
        Column("Reclaim Policy", cells.path("spec", "persistentVolumeReclaimPolicy", missing="")),
        Column("Status", cells.storage_status),
        Column("Claim", cells.volume_claim),
        Column("StorageClass", cells.path("spec", "storageClassName", missing="")),
        Column("VolumeAttributesClass", cells.path("spec", "volumeAttributesClassName", missing=cells.UNSET)),
        Column("Reason", cells.path("status", "reason", missing="")),
        AGE,
        _wide("VolumeMode", cells.path("spec", "volumeMode", missing=cells.UNSET)),
    ),
    "endpoints": (NAME, Column("Endpoints", cells.addresses), AGE),
    "limitranges": (NAME, Column("Created At", cells.created_at, "date")),
    "resourcequotas": (NAME, Column("Request", cells.amounts(False)), Column("Limit", cells.amounts(True)), AGE),
    "cronjobs.batch": (
        NAME,
        Column("Schedule", cells.path("spec", "schedule", missing="")),
        Column("Timezone", cells.path("spec", "timeZone")),
        Column("Suspend", lambda obj: str(bool(obj["spec"].get("suspend"))), "boolean"),
        Column("Active", lambda obj: len(obj["status"].get("active") or ()), "integer"),
        Column("Last Schedule", cells.last_schedule),
        AGE,
        *(_wide(column.name, cells.of_job(column.read)) for column in _TEMPLATE),
    ),
    "csinodes.storage.k8s.io": (
        NAME,
        Column("Drivers", lambda obj: len(obj["spec"].get("drivers") or ()), "integer"),
        AGE,
    ),
    "roles.rbac.authorization.k8s.io": (NAME, Column("Created At", cells.created_at, "date")),
    "clusterroles.rbac.authorization.k8s.io": (NAME, Column("Created At", cells.created_at, "date")),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", cells.path("metadata", "creationTimestamp")),
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", lambda obj: str(obj["spec"].get("minAvailable", "N/A"))),
        Column("Max Unavailable", lambda obj: str(obj["spec"].get("maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", cells.path("status", "disruptionsAllowed", missing=0), "integer"),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": (
        NAME,
        Column("Pod-Selector", lambda obj: cells.pairs(cells.dig(obj, "spec", "podSelector", "matchLabels"))),
        AGE,
    ),
    "ingresses.networking.k8s.io": (
        NAME,
        Column("Class", cells.path("spec", "ingressClassName")),
        Column("Hosts", cells.hosts),
        Column("Address", lambda obj: ""),
        Column("Ports", lambda obj: "80, 443" if obj["spec"].get("tls") else "80"),
        AGE,
    ),
    "storageclasses.storage.k8s.io": (
        NAME,
        Column("Provisioner", cells.path("provisioner", missing="")),
        Column("ReclaimPolicy", cells.path("reclaimPolicy", missing="")),
        Column("VolumeBindingMode", cells.path("volumeBindingMode", missing="")),
        Column("AllowVolumeExpansion", lambda obj: str(bool(obj.get("allowVolumeExpansion"))).lower()),
        AGE,
    ),
    "resourceslices.resource.k8s.io": (
        NAME,
        Column("Node", cells.path("spec", "nodeName", missing="")),
        Column("Driver", cells.path("spec", "driver", missing="")),
        Column("Pool", cells.path("spec", "pool", "name", missing="")),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", cells.path("value", missing=0), "integer"),
        Column("Global-Default", lambda obj: str(bool(obj.get("globalDefault"))).lower(), "boolean"),
        AGE,
        Column("PreemptionPolicy", cells.path("preemptionPolicy", missing="")),
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
    """One row; `include` says what is sent beside the cells: Metadata, Object or None."""
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
