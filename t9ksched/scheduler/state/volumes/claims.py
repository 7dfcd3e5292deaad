"""The cluster's volume claims, and what they mean for the pods that use them.

A bound claim brings the node affinity of its volume. A claim that waits for its first consumer brings what its class
allows: the topologies of its provisioner, and the places of free volumes that fit. A missing, unbound or exclusively
used claim keeps its pod waiting with a reason that names it. Volumes of drivers with attach limits are counted as a
resource of the node, one each, also where pods of one node share a volume.

Free volumes that lie on nodes are counted as a resource too, so that no node is chosen for more pods than it has
volumes for: no victim is evicted for a gang that could not start then. All free volumes of a class count, whichever
fit.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from t9ksched.engine.nodes import LARGEST
from t9ksched.model.errors import Invalid
from t9ksched.model.labels import NodeSelector, NodeSelectorTerm, Requirement
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.volumes import (
    ANYWHERE,
    ATTACH_PREFIX,
    FREE,
    FREE_PREFIX,
    Claim,
    CsiNode,
    PersistentVolume,
    StorageClass,
    claim_names,
    fits,
)
from t9ksched.scheduler.state.objects import HOSTNAME

__all__ = ["Claim", "Claims", "CsiNode", "Meaning", "PersistentVolume", "StorageClass", "claim_names"]

EXCLUSIVE = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a pod's claims mean for it.

    Attributes:
        affinity: each must hold for its node.
        attach: how many volumes it attaches, by resource name, sorted; only where some node has a limit.
        reasons: why it waits whatever room there is.
        unbound: claims that are bound only when its node is chosen, each with the resource by which free volumes are
            counted for it; empty where they are not.
    """

    affinity: tuple[NodeSelector, ...] = ()
    attach: tuple[tuple[str, int], ...] = ()
    reasons: tuple[Reason, ...] = ()
    unbound: tuple[tuple[str, str], ...] = ()

    def on(self, pod_class: PodClass) -> PodClass:
        """The class with these constraints instead of those it had."""
        own = [row for row in pod_class.requests if not row[0].startswith(ATTACH_PREFIX)]
        affinity = tuple(sorted(set(self.affinity), key=str))
        return replace(pod_class, volume_affinity=affinity, requests=tuple(sorted([*own, *self.attach])))


NOTHING = Meaning()


@dataclass(slots=True)
class Claims:
    """The claims, volumes and classes of the cluster, and the limits of its nodes."""

    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    limits: dict[str, dict[str, int]] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)
    """Resource names of drivers that have a limit on some node; it only grows."""
    counted: set[str] = field(default_factory=set)
    """Classes whose free volumes are counted on each node; it only grows."""
    _by_class: defaultdict[str, dict[str, PersistentVolume]] = field(default_factory=lambda: defaultdict(dict))
    _lying: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By class, how many free volumes lie where."""
    _node_of: dict[str, str] = field(default_factory=dict)
    """Node by hostname."""

    def add_volume(self, volume: PersistentVolume) -> list[str | None]:
        """A volume appeared or changed. Returns the nodes on which other volumes are free now; None stands for all."""
        before = self._uncount(volume.metadata.name)
        self.volumes[volume.metadata.name] = volume
        if volume.status.phase != "Bound":
            self._by_class[volume.spec.storage_class_name][volume.metadata.name] = volume
        return self._nodes(before ^ self._count(volume, 1))

    def drop_volume(self, name: str) -> list[str | None]:
        """A volume is gone. Returns the nodes, as `add_volume`."""
        return self._nodes(self._uncount(name))

    def _uncount(self, name: str) -> set[tuple[str, str]]:
        known = self.volumes.pop(name, None)
        if known is None:
            return set()
        self._by_class[known.spec.storage_class_name].pop(name, None)
        return self._count(known, -1)

    def _count(self, volume: PersistentVolume, sign: int) -> set[tuple[str, str]]:
        """Count a volume where it lies, if it is free. Returns class and host wherever that makes a difference."""
        kind = volume.spec.storage_class_name
        if volume.status.phase not in FREE:
            return set()
        hosts, lying = volume.hosts(), self._lying[kind]
        for host in hosts:
            lying[host] += sign
        # With one that is reached from anywhere there is no limit: the second makes no difference.
        return {(kind, host) for host in hosts if host != ANYWHERE or lying[host] == max(sign, 0)}

    def _nodes(self, changed: set[tuple[str, str]]) -> list[str | None]:
        hosts = {host for kind, host in changed if kind in self.counted}
        return [None] if ANYWHERE in hosts else [self._node_of.get(host, host) for host in sorted(hosts)]

    def add_class(self, kind: StorageClass) -> bool:
        """A class appeared or changed; whether its free volumes are counted on nodes from now on."""
        self.classes[kind.metadata.name] = kind
        fresh = kind.lies_ready and kind.metadata.name not in self.counted
        if fresh:
            self.counted.add(kind.metadata.name)
        return fresh

    def add_limits(self, node: CsiNode) -> bool:
        """A node's drivers said what they can attach; whether a driver has a limit for the first time."""
        limits = self.limits[node.metadata.name] = node.limits()
        fresh = limits.keys() - self.limited
        self.limited |= fresh
        return bool(fresh)

    def limit(self, facts: NodeFacts) -> NodeFacts:
        """The node with its attach limits as allocatable amounts, and the free volumes on it; a driver that names no
        limit there has none.
        """
        host = facts.labels.get(HOSTNAME, facts.name)
        self._node_of[host] = facts.name
        if not (self.limited or self.counted):
            return facts
        own = self.limits.get(facts.name, {})
        amounts = {resource: own.get(resource, LARGEST) for resource in sorted(self.limited)}
        for kind in sorted(self.counted):
            lying = self._lying[kind]
            free = sum(lying[name] for name in {host, facts.name})
            amounts[FREE_PREFIX + kind] = LARGEST if lying[ANYWHERE] else free
        return replace(facts, allocatable={**facts.allocatable, **amounts})

    def meaning(
        self,
        namespace: str,
        names: Iterable[str],
        *,
        node_exists: Callable[[str], bool] = lambda _: True,
        other_user: Callable[[str], str] = lambda _: "",
        shared: Callable[[str], bool] = lambda _: False,
    ) -> Meaning:
        """What a pod's claims mean now.

        `other_user(claim)` names the pod that comes first where only one pod may use a claim, empty for none. A claim
        that is `shared` takes one volume for several pods, so none of them is counted with it.
        """
        affinity: list[NodeSelector] = []
        reasons: list[Reason] = []
        unbound: list[tuple[str, str]] = []
        attach: defaultdict[str, int] = defaultdict(int)
        for name in dict.fromkeys(names):
            claim = self.claims.get((namespace, name))
            if claim is None:
                reasons.append(_waits(name, "does not exist", f"create the claim {namespace}/{name}"))
                continue
            if claim.metadata.deletion_timestamp:
                reasons.append(_waits(name, "is being deleted", f"create the claim {namespace}/{name} anew"))
                continue
            if EXCLUSIVE in claim.spec.access_modes and other_user(name):
                # The pod is not named: it may belong to another user.
                reasons.append(_waits(name, f"is {EXCLUSIVE} and in use by another pod", "the pod that uses it ends"))
            kind = self.storage_class(claim)
            volume = self.volumes.get(claim.spec.volume_name)
            if claim.bound and volume is not None:
                found: NodeSelector | Reason | None = _affinity(name, volume)
                driver = volume.spec.csi.driver if volume.spec.csi else ""
            elif claim.status.phase == "Pending" and not claim.spec.volume_name and kind is not None and kind.waits:
                found = self._where(claim, kind, node_exists)
                driver = kind.provisioner
                counts = kind.lies_ready and kind.metadata.name in self.counted and not shared(name)
                unbound.append((name, FREE_PREFIX + kind.metadata.name if counts else ""))
            else:
                found = _waits(name, f"is {claim.status.phase}", f"bind the claim {namespace}/{name}")
                driver = ""
            if isinstance(found, Reason):
                reasons.append(found)
            elif found is not None:
                affinity.append(found)
            if (resource := ATTACH_PREFIX + driver) in self.limited:
                attach[resource] += 1
        return Meaning(tuple(affinity), tuple(sorted(attach.items())), tuple(reasons), tuple(unbound))

    def storage_class(self, claim: Claim) -> StorageClass | None:
        """The class of a claim: the one it names, else the default; None when there is no such class."""
        name = claim.spec.storage_class_name
        if name is not None:
            return self.classes.get(name)
        return next((kind for _, kind in sorted(self.classes.items()) if kind.default), None)

    def _where(
        self, claim: Claim, kind: StorageClass, node_exists: Callable[[str], bool]
    ) -> NodeSelector | Reason | None:
        """Where a claim that waits for its consumer could be bound: a selector, None for everywhere, or why nowhere."""
        if (chosen := claim.selected_node) and node_exists(chosen):
            # A node was chosen already, perhaps by this scheduler before a restart: the volume is being made for it.
            return NodeSelector((NodeSelectorTerm((), (Requirement("metadata.name", "In", (chosen,)),)),))
        topologies = kind.topologies()
        if kind.provisions and not topologies:
            return None
        terms = list(topologies) if kind.provisions else []
        free = [v for v in self._by_class.get(kind.metadata.name, {}).values() if fits(v, claim, kind.metadata.name)]
        for volume in free:
            try:
                affinity = volume.affinity()
            except Invalid:
                continue
            if affinity is None:
                return None
            terms += affinity.terms
        if not terms:
            name, of = claim.metadata.name, kind.metadata.name
            return _waits(
                name,
                f"finds no free volume of the class {of!r}, which provisions none",
                f"create a PersistentVolume of the class {of!r} that it fits into",
            )
        return NodeSelector(tuple(sorted(dict.fromkeys(terms), key=str)))


def _affinity(name: str, volume: PersistentVolume) -> NodeSelector | Reason | None:
    try:
        return volume.affinity()
    except Invalid as error:
        return _waits(name, f"has a volume with a malformed node affinity: {error}", "")


def _waits(name: str, what: str, remedy: str) -> Reason:
    unblocks = (remedy,) if remedy else ()
    return Reason(Code.VOLUME_NOT_BOUND, f"the volume claim {name!r} {what}", unblocks=unblocks)
