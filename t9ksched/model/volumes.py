"""Volume claims, volumes and their classes, as far as they decide where a pod may run.

The terms are those of Kubernetes: a claim is bound to a PersistentVolume at once (`Immediate`) or when a scheduler has
chosen a node (`WaitForFirstConsumer`), by a volume that exists already or by one that the class's provisioner makes.
The rules follow the PersistentVolume documentation and the volume binding of kube-scheduler. Pure.
"""

from typing import Any, Final

import msgspec

from t9ksched.model.errors import Invalid
from t9ksched.model.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from t9ksched.model.pod import Metadata, PodSpec, Quantities
from t9ksched.model.quantity import QuantityError, to_units

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of an unbound claim: the node its volume must be reachable from. Written by the scheduler."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume that was reserved for a claim by a program, so that it may be freed by one."""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
ATTACH_PREFIX: Final = "attachable-volumes-csi-"
"""A node's limit of attached volumes of one driver, written as a resource (Kubernetes' own name for it)."""
FREE_PREFIX: Final = "free-volumes-"
"""The free volumes of a class that lie on a node, written as a resource of the node."""
_COUNTS: Final = ("attachable-volumes-", FREE_PREFIX)
FREE: Final = ("Available", "Pending")
"""Phases of volumes that may still be bound to a claim."""
ANYWHERE: Final = ""
"""Stands for no node in particular, see `PersistentVolume.hosts`."""
_HOSTS: Final = ("kubernetes.io/hostname", "metadata.name")
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_WAIT: Final = "WaitForFirstConsumer"


def counts_volumes(resource: str) -> bool:
    """True for a name that stands for a number of volumes on a node, which no quota and no report speaks of."""
    return resource.startswith(_COUNTS)


class ClaimResources(msgspec.Struct, gc=False):
    """What a claim asks for."""

    requests: Quantities | None = None


class ClaimSpec(msgspec.Struct, gc=False, rename="camel"):
    """The part of a PersistentVolumeClaim's spec that is read."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = []
    volume_mode: str = "Filesystem"
    selector: dict[str, Any] | None = None
    resources: ClaimResources | None = None


class Phase(msgspec.Struct, gc=False):
    """A status of which only the phase is read."""

    phase: str = "Pending"


class Claim(msgspec.Struct, gc=False):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: Phase = msgspec.field(default_factory=Phase)

    @property
    def bound(self) -> bool:
        """Whether it has its volume, on both sides."""
        return bool(self.spec.volume_name) and self.status.phase == "Bound"

    @property
    def selected_node(self) -> str:
        """The node a scheduler chose for its volume, empty before."""
        return (self.metadata.annotations or {}).get(SELECTED_NODE, "")


class ClaimReference(msgspec.Struct, gc=False):
    """The claim that has the volume; without a UID it is reserved for the next claim of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(msgspec.Struct, gc=False, rename="camel"):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(msgspec.Struct, gc=False, rename="camel"):
    """The part of a PersistentVolume's spec that is read."""

    node_affinity: dict[str, Any] | None = None
    storage_class_name: str = ""
    access_modes: list[str] = []
    volume_mode: str = "Filesystem"
    capacity: Quantities | None = None
    claim_ref: ClaimReference | None = None
    csi: CsiSource | None = None


class PersistentVolume(msgspec.Struct, gc=False):
    """A PersistentVolume."""

    metadata: Metadata
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: Phase = msgspec.field(default_factory=Phase)

    @property
    def driver(self) -> str:
        """The CSI driver that attaches it; empty where none does."""
        return self.spec.csi.driver if self.spec.csi is not None else ""

    @property
    def handle(self) -> str:
        """By which its driver knows it; empty where no driver does."""
        return self.spec.csi.volume_handle if self.spec.csi is not None else ""

    @property
    def decides(self) -> tuple[object, ...]:
        """What of it may decide where a pod runs; not to be written to."""
        meta = self.metadata
        return self.spec, self.status, meta.labels or {}, meta.deletion_timestamp, meta.uid

    def affinity(self) -> NodeSelector | None:
        """From which nodes it can be reached; None for all.

        Raises:
            Invalid: its node affinity is malformed.
        """
        required = (self.spec.node_affinity or {}).get("required")
        return NodeSelector.parse(required.get("nodeSelectorTerms") or []) if required else None

    def hosts(self) -> frozenset[str]:
        """The nodes that it lies on, by hostname or name; only `ANYWHERE` when its affinity does not name them."""
        try:
            affinity = self.affinity()
        except Invalid:
            return frozenset()
        found: set[str] = set()
        for term in affinity.terms if affinity else ():
            named = [one for one in (*term.labels, *term.fields) if one.key in _HOSTS and one.operator == "In"]
            found.update(named[0].values if named else (ANYWHERE,))
        return frozenset((ANYWHERE,)) if affinity is None or ANYWHERE in found else frozenset(found)

    def reachable(self, labels: dict[str, str], node: str) -> bool:
        """Whether a node of these labels and this name reaches it; a malformed affinity names no node."""
        try:
            affinity = self.affinity()
        except Invalid:
            return False
        return affinity is None or affinity.matches(labels, node)


class TopologyExpression(msgspec.Struct, gc=False):
    """One label key and the values allowed for it."""

    key: str = ""
    values: list[str] = []


class TopologyTerm(msgspec.Struct, gc=False, rename="camel"):
    """Expressions that must all hold."""

    match_label_expressions: list[TopologyExpression] | None = None


class StorageClass(msgspec.Struct, gc=False, rename="camel"):
    """A StorageClass."""

    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] | None = None

    @property
    def decides(self) -> tuple[object, ...]:
        """What of it may decide where a pod runs."""
        return self.provisioner, self.volume_binding_mode, self.allowed_topologies, self.default

    @property
    def waits(self) -> bool:
        """Whether its claims wait for a scheduler to choose a node."""
        return self.volume_binding_mode == _WAIT

    @property
    def provisions(self) -> bool:
        """Whether volumes are made on demand."""
        return self.provisioner not in ("", NO_PROVISIONER)

    @property
    def lies_ready(self) -> bool:
        """Whether its claims wait for a node and take a volume that exists already."""
        return self.waits and not self.provisions

    @property
    def default(self) -> bool:
        """Whether claims that name no class get this one."""
        return (self.metadata.annotations or {}).get(_DEFAULT_CLASS) == "true"

    def topologies(self) -> tuple[NodeSelectorTerm, ...]:
        """Where volumes can be made, as node selector terms; empty for everywhere."""
        return tuple(
            NodeSelectorTerm(
                tuple(Requirement(e.key, "In", tuple(sorted(e.values))) for e in term.match_label_expressions or ())
            )
            for term in self.allowed_topologies or ()
        )


class DriverLimit(msgspec.Struct, gc=False):
    """How many volumes a node can have attached."""

    count: int | None = None


class NodeDriver(msgspec.Struct, gc=False):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class NodeDrivers(msgspec.Struct, gc=False):
    """The drivers of a node."""

    drivers: list[NodeDriver] | None = None


class CsiNode(msgspec.Struct, gc=False):
    """A CSINode: what the storage drivers say of the node of that name."""

    metadata: Metadata
    spec: NodeDrivers = msgspec.field(default_factory=NodeDrivers)

    def limits(self) -> dict[str, int]:
        """How many volumes can be attached, by resource name; drivers without a limit are left out."""
        return {
            ATTACH_PREFIX + driver.name: driver.allocatable.count
            for driver in self.spec.drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }


def claim_names(pod_name: str, spec: PodSpec) -> tuple[str, ...]:
    """The claims a pod uses, by name in its namespace; an ephemeral volume's claim is named after pod and volume."""
    names = []
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod_name}-{volume.name}")
    return tuple(names)


def storage(amounts: Quantities | None) -> int:
    """The amount of `storage` in bytes; 0 when there is none, or when it is no quantity."""
    try:
        return to_units("storage", (amounts or {}).get("storage", 0))
    except QuantityError:
        return 0


class Asked(msgspec.Struct, frozen=True, cache_hash=True):
    """What a claim asks of a volume, whatever it is called: claims that ask alike could be bound to the same volumes.

    Attributes:
        modes: how it is used; a volume must have all of them.
        volume_mode: as a file system or as a block device.
        selector: of the volume's labels; None where it is malformed, which selects none.
        size: in bytes.
    """

    modes: frozenset[str]
    volume_mode: str
    selector: LabelSelector | None
    size: int

    def met_by(self, volume: PersistentVolume, storage_class: str) -> bool:
        """Whether a claim of that class could be bound to the volume, were it kept for none."""
        spec = volume.spec
        return (
            volume.status.phase in FREE
            and not volume.metadata.deletion_timestamp
            and spec.storage_class_name == storage_class
            and spec.volume_mode == self.volume_mode
            and self.modes.issubset(spec.access_modes)
            and self.selector is not None
            and self.selector.matches(volume.metadata.labels or {})
            and storage(spec.capacity) >= self.size
        )


def asked(claim: Claim) -> Asked:
    """What the claim asks of a volume."""
    spec = claim.spec
    try:
        selector = LabelSelector.parse(spec.selector or {})
    except Invalid:
        selector = None
    size = storage(spec.resources.requests if spec.resources else None)
    return Asked(frozenset(spec.access_modes), spec.volume_mode, selector, size)


def fits(volume: PersistentVolume, claim: Claim, storage_class: str) -> bool:
    """Whether an unbound claim of that class could be bound to this volume, wherever its pod runs."""
    reference = volume.spec.claim_ref
    if reference is not None:
        mine = (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        if not mine or reference.uid not in ("", claim.metadata.uid):
            return False
    return asked(claim).met_by(volume, storage_class)


def rank(volume: PersistentVolume) -> tuple[bool, int, str]:
    """Sorts fitting volumes: one reserved for the claim first, then the smallest."""
    return volume.spec.claim_ref is None, storage(volume.spec.capacity), volume.metadata.name
