"""The table of kinds that the server knows: where each lives, what it is called, and its strategy.

Built-in kinds stand here; custom ones come and go with their CustomResourceDefinitions. A `Kind` is one resource of
one API version; two may share a collection (events), then one of them converts.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver import batchkinds, corekinds, devicekinds, events, ingresses, policies, storagekinds
from t9ksched.devcluster.apiserver.pods import PodStrategy
from t9ksched.devcluster.apiserver.schema import decoder
from t9ksched.devcluster.apiserver.strategy import StatusStrategy, Strategy

Object = dict[str, Any]
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS: Final = ("get", "patch", "update")


class Column(msgspec.Struct, frozen=True):
    """One column of a printed table; priority 1 shows with `-o wide` only."""

    name: str
    read: Callable[[Object], Any]
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""


class Kind(msgspec.Struct):
    """One resource of one API version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    model: str = ""
    """The client library's model; empty for custom resources."""
    strategy: Strategy = msgspec.field(default_factory=Strategy)
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    collection: str = ""
    to_stored: Callable[[Object], Object] | None = None
    from_stored: Callable[[Object], Object] | None = None
    columns: tuple[Column, ...] | None = None
    custom: Any = None
    """The structural schema of a custom resource."""

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.collection = self.collection or self.qualified

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`jobs.batch`; `pods` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> tuple[str, str, str]:
        """Group, version and plural."""
        return self.group, self.version, self.plural

    @property
    def head(self) -> bytes:
        """The bytes with which each encoded object of a built-in kind begins."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    def key(self, namespace: str | None, name: str) -> str:
        """The key of an object in its collection."""
        return f"{namespace}/{name}" if self.namespaced else name

    def decode(self, body: Object, unknown: list[str]) -> Object:
        """A client's object in stored form, before defaults; WrongType when it does not fit."""
        plain = decoder(self.model)(body, "", unknown)
        for name in ("kind", "apiVersion", "metadata"):
            plain.pop(name, None)
        meta = decoder("V1ObjectMeta")(body.get("metadata"), "metadata", [])
        return {"kind": self.kind, "apiVersion": self.api_version, "metadata": meta, **plain}


def _builtin() -> Iterator[Kind]:
    def core(plural: str, kind: str, short: tuple[str, ...] = (), **more: Any) -> Kind:
        return Kind("", "v1", plural, kind, short_names=short, model=more.pop("model", f"V1{kind}"), **more)

    yield core("pods", "Pod", ("po",), categories=("all",), strategy=PodStrategy(), subresources=("status",))
    yield core("nodes", "Node", ("no",), namespaced=False, strategy=corekinds.NodeStrategy(), subresources=("status",))
    yield core(
        "namespaces",
        "Namespace",
        ("ns",),
        namespaced=False,
        strategy=corekinds.NamespaceStrategy(),
        subresources=("finalize", "status"),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    )
    yield core(
        "services",
        "Service",
        ("svc",),
        categories=("all",),
        strategy=corekinds.ServiceStrategy(),
        subresources=("status",),
    )
    yield core("configmaps", "ConfigMap", ("cm",), strategy=corekinds.ConfigMapStrategy())
    yield core("secrets", "Secret", strategy=corekinds.SecretStrategy())
    yield core("serviceaccounts", "ServiceAccount", ("sa",), subresources=("token",))
    yield core("endpoints", "Endpoints", ("ep",))
    yield core("limitranges", "LimitRange", ("limits",))
    yield core("resourcequotas", "ResourceQuota", ("quota",), strategy=StatusStrategy(), subresources=("status",))
    yield core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        ("pvc",),
        strategy=storagekinds.ClaimStrategy(),
        subresources=("status",),
    )
    yield core(
        "persistentvolumes",
        "PersistentVolume",
        ("pv",),
        namespaced=False,
        strategy=storagekinds.VolumeStrategy(),
        subresources=("status",),
    )
    yield core("events", "Event", ("ev",), model="CoreV1Event", strategy=corekinds.EventStrategy())
    yield Kind(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        model="EventsV1Event",
        strategy=corekinds.NewEventStrategy(),
        collection="events",
        to_stored=events.to_core,
        from_stored=events.from_core,
    )
    for plural, kind, short, strategy, more in (
        ("deployments", "Deployment", "deploy", batchkinds.DeploymentStrategy(), ("scale", "status")),
        ("statefulsets", "StatefulSet", "sts", batchkinds.WorkloadStrategy(), ("scale", "status")),
        ("replicasets", "ReplicaSet", "rs", batchkinds.ReplicaSetStrategy(), ("scale", "status")),
        ("daemonsets", "DaemonSet", "ds", batchkinds.WorkloadStrategy(), ("status",)),
    ):
        yield Kind(
            "apps",
            "v1",
            plural,
            kind,
            short_names=(short,),
            categories=("all",),
            model=f"V1{kind}",
            strategy=strategy,
            subresources=more,
        )
    yield Kind(
        "batch",
        "v1",
        "jobs",
        "Job",
        categories=("all",),
        model="V1Job",
        strategy=batchkinds.JobStrategy(),
        subresources=("status",),
    )
    yield Kind(
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        short_names=("cj",),
        categories=("all",),
        model="V1CronJob",
        strategy=batchkinds.CronJobStrategy(),
        subresources=("status",),
    )
    yield Kind(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        model="V1PodDisruptionBudget",
        strategy=batchkinds.BudgetStrategy(),
        subresources=("status",),
    )
    yield Kind(
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        short_names=("netpol",),
        model="V1NetworkPolicy",
        strategy=corekinds.NetworkPolicyStrategy(),
    )
    yield Kind(
        "networking.k8s.io",
        "v1",
        "ingresses",
        "Ingress",
        short_names=("ing",),
        model="V1Ingress",
        strategy=ingresses.IngressStrategy(),
        subresources=("status",),
    )
    yield Kind("coordination.k8s.io", "v1", "leases", "Lease", model="V1Lease", strategy=corekinds.LeaseStrategy())
    yield Kind(
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        namespaced=False,
        short_names=("sc",),
        model="V1StorageClass",
        strategy=storagekinds.StorageClassStrategy(),
    )
    yield Kind(
        "storage.k8s.io",
        "v1",
        "csinodes",
        "CSINode",
        namespaced=False,
        model="V1CSINode",
        strategy=storagekinds.CsiNodeStrategy(),
    )
    for plural, kind, devices in (
        ("deviceclasses", "DeviceClass", devicekinds.DeviceClassStrategy()),
        ("resourceslices", "ResourceSlice", devicekinds.ResourceSliceStrategy()),
    ):
        yield Kind("resource.k8s.io", "v1", plural, kind, namespaced=False, model=f"V1{kind}", strategy=devices)
    yield Kind(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short_names=("pc",),
        model="V1PriorityClass",
        strategy=corekinds.PriorityClassStrategy(),
    )
    for plural, kind, namespaced in (
        ("roles", "Role", True),
        ("rolebindings", "RoleBinding", True),
        ("clusterroles", "ClusterRole", False),
        ("clusterrolebindings", "ClusterRoleBinding", False),
    ):
        yield Kind(
            "rbac.authorization.k8s.io",
            "v1",
            plural,
            kind,
            namespaced=namespaced,
            model=f"V1{kind}",
            strategy=corekinds.RbacStrategy(),
        )
    for plural, kind in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    ):
        yield Kind(
            policies.GROUP,
            "v1",
            plural,
            kind,
            namespaced=False,
            model=f"V1{kind}",
            strategy=policies.PolicyStrategy(),
        )


class Registry:
    """The kinds served at this moment, found by group, version and plural."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self.changes = 0
        """Grows with each change; answers derived from the table are cached by it."""
        for kind in _builtin():
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve a kind, in place of one of the same path."""
        self._kinds[kind.group, kind.version, kind.plural] = kind
        self.changes += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a resource in all its versions."""
        for path in [path for path in self._kinds if path[0] == group and path[2] == plural]:
            del self._kinds[path]
        self.changes += 1

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind at a path."""
        return self._kinds.get((group, version, plural))

    def by_kind(self, group: str, kind: str) -> Kind | None:
        """The kind by its name, in any version of its group."""
        for (found, _, _), entry in self._kinds.items():
            if found == group and entry.kind == kind:
                return entry
        return None

    def all(self) -> list[Kind]:
        """Every kind, built-in ones first."""
        return list(self._kinds.values())

    def groups(self) -> dict[str, list[str]]:
        """The versions of each group, in the order they came."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._kinds:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return found
