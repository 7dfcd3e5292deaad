"""The Kubernetes resources we speak of, and where each lives in the URL space.

Kinds of workloads come from the table of kinds (`workloads.registry`); `by_kind` finds a resource from the `apiVersion`
and `kind` of an object.
"""

from __future__ import annotations

from typing import Any

from t9ksched.model.api_resource import Resource
from t9ksched.workloads.addons import ADDONS
from t9ksched.workloads.registry import ROWS

_KINDS = {row.name: row.resource for row in ROWS}

_SCHEDULER = "scheduler.tensorstack.dev"

PODS = _KINDS["Pod"]
NODES = Resource("", "v1", "nodes", "Node", False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
SERVICES = Resource("", "v1", "services", "Service")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICEACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = Resource("", "v1", "events", "Event")
PVCS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PVS = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
RESOURCEQUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMITRANGES = Resource("", "v1", "limitranges", "LimitRange")

EVENTS_V1 = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSINODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
DEVICECLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
RESOURCESLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
KOORDINATOR_DEVICES = Resource("scheduling.koordinator.sh", "v1alpha1", "devices", "Device", False)
JOBS = _KINDS["Job"]
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob")
DEPLOYMENTS = _KINDS["Deployment"]
STATEFULSETS = _KINDS["StatefulSet"]
REPLICASETS = _KINDS["ReplicaSet"]
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLEBINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTERROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTERROLEBINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
ADMISSIONPOLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
ADMISSIONPOLICYBINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)
TOKENREVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
SUBJECTACCESSREVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
SELFSUBJECTACCESSREVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)

QUEUES = Resource(_SCHEDULER, "v1beta1", "queues", "Queue")
PODGROUPS = _KINDS["PodGroup"]
MLSERVICERUNTIMES = Resource("tensorstack.dev", "v1beta1", "mlserviceruntimes", "MLServiceRuntime")

ALL: tuple[Resource, ...] = tuple(
    dict.fromkeys(
        [
            *_KINDS.values(),
            *(made for addon in ADDONS for made in addon.made),
            *(row for row in list(globals().values()) if isinstance(row, Resource)),
        ]
    )
)

_BY_KIND = {(row.api_version, name): row for row in ALL for name in (row.kind, row.api_kind)}


def by_kind(api_version: str, kind: str) -> Resource:
    """The resource of objects that say `apiVersion: api_version` and `kind: kind`.

    Raises KeyError with a sentence naming both when we do not know the kind.
    """
    try:
        return _BY_KIND[api_version, kind]
    except KeyError:
        raise KeyError(f"unknown kind {kind!r} of apiVersion {api_version!r}") from None


def of(obj: dict[str, Any]) -> Resource:
    """The resource of one object by its own `apiVersion` and `kind`; raises KeyError when unknown."""
    return by_kind(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
