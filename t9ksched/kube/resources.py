"""The Kubernetes resources we speak of, and where each lives in the URL space.

Our own groups and every kind that can name a queue stand here beside the built-in ones; `by_kind` finds a row from the
`apiVersion` and `kind` of an object.
"""

from __future__ import annotations

from typing import Any

from t9ksched.model.api_resource import Resource

_SCHEDULER = "scheduler.tensorstack.dev"
_BATCH = "batch.tensorstack.dev"
_PLATFORM = "tensorstack.dev"

PODS = Resource("", "v1", "pods", "Pod")
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
JOBS = Resource("batch", "v1", "jobs", "Job")
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
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
PODGROUPS = Resource(_SCHEDULER, "v1beta1", "podgroups", "PodGroup")

GENERICJOBS = Resource(_BATCH, "v1beta1", "genericjobs", "GenericJob")
PYTORCHTRAININGJOBS = Resource(_BATCH, "v1beta1", "pytorchtrainingjobs", "PyTorchTrainingJob")
TENSORFLOWTRAININGJOBS = Resource(_BATCH, "v1beta1", "tensorflowtrainingjobs", "TensorFlowTrainingJob")
XGBOOSTTRAININGJOBS = Resource(_BATCH, "v1beta1", "xgboosttrainingjobs", "XGBoostTrainingJob")
DEEPSPEEDJOBS = Resource(_BATCH, "v1beta1", "deepspeedjobs", "DeepSpeedJob")
COLOSSALAIJOBS = Resource(_BATCH, "v1beta1", "colossalaijobs", "ColossalAIJob")
MPIJOBS = Resource(_BATCH, "v1beta1", "mpijobs", "MPIJob")
BEAMJOBS = Resource(_BATCH, "v1beta1", "beamjobs", "BeamJob")
WORKFLOWRUNS = Resource(_BATCH, "v1beta1", "workflowruns", "WorkflowRun")

AUTOTUNEEXPERIMENTS = Resource(_PLATFORM, "v1beta1", "autotuneexperiments", "AutoTuneExperiment")
NOTEBOOKS = Resource(_PLATFORM, "v1beta1", "notebooks", "Notebook")
SIMPLEMLSERVICES = Resource(_PLATFORM, "v1beta1", "simplemlservices", "SimpleMLService")
MLSERVICES = Resource(_PLATFORM, "v1beta1", "mlservices", "MLService")
TENSORBOARDS = Resource(_PLATFORM, "v1beta1", "tensorboards", "TensorBoard")
EXPLORERS = Resource(_PLATFORM, "v1beta1", "explorers", "Explorer")
VIRTUALSERVERS = Resource(_PLATFORM, "v1beta1", "virtualservers", "VirtualServer")
PROJECTS = Resource(_PLATFORM, "v1beta1", "projects", "Project")

ALL: tuple[Resource, ...] = tuple(row for row in list(globals().values()) if isinstance(row, Resource))

_BY_KIND = {(row.api_version, row.kind): row for row in ALL}


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
