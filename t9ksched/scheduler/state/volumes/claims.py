"""The cluster's volume claims, and what each means for the pods that use it.

A bound claim brings the node affinity of its volume. A claim that waits for its first consumer brings what its class
allows: the topologies of its provisioner, and the places of free volumes that fit. A missing or unbound claim keeps its
pods waiting with a reason that names it. Volumes of drivers with attach limits are counted as a resource of the node,
once however many of its pods use them.

Free volumes that lie on nodes are counted as a resource too, so that no node is chosen for more pods than it has
volumes for: no victim is evicted for a gang that could not start then. All free volumes of a class count, whichever
fit.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import msgspec
from msgspec.json import encode

from t9ksched.engine.nodes import LARGEST
from t9ksched.model.errors import Invalid
from t9ksched.model.labels import NodeSelector, NodeSelectorTerm, Requirement
from t9ksched.model.node import NodeFacts
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

__all__ = ["Claim", "ClaimKey", "ClaimMeaning", "Claims", "CsiNode", "PersistentVolume", "StorageClass", "claim_names"]

EXCLUSIVE: Final = "ReadWriteOncePod"
LOST: Final = "Lost"
"""Phase of a claim whose volume is gone, or has another claim now."""
ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""
_MOST_SHAPES: Final = 256
"""So many different claims of a class are remembered with the places of the free volumes that fit."""
_Terms = tuple[NodeSelectorTerm, ...] | None
"""Where volumes lie; None for volumes that are reached from anywhere."""


class ClaimMeaning(msgspec.Struct, frozen=True):
    """What one claim means for every pod that uses it.

    Attributes:
        affinity: must hold for their nodes; None for all nodes.
        attach: the resource by which its driver counts volumes on a node; empty where no node has a limit.
        volume: tells the volume from others of its driver: volumes of one handle are one.
        shared: another claim has a volume of the same handle.
        reason: why they wait whatever room there is.
        unbound: it is bound only when a node is chosen.
        free: the resource by which free volumes are counted for it then; empty where they are not.
        exclusive: only one pod may use it at a time.
    """

    affinity: NodeSelector | None = None
    attach: str = ""
    volume: str = ""
    shared: bool = False
    reason: Reason | None = None
    unbound: bool = False
    free: str = ""
    exclusive: bool = False


class Claims(msgspec.Struct):
    """The claims, volumes and classes of the cluster, and the limits of its nodes."""

    claims: dict[tuple[str, str], Claim] = msgspec.field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = msgspec.field(default_factory=dict)
    classes: dict[str, StorageClass] = msgspec.field(default_factory=dict)
    limits: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    limited: set[str] = msgspec.field(default_factory=set)
    """Resource names of drivers that have a limit on some node; it only grows."""
    counted: set[str] = msgspec.field(default_factory=set)
    """Classes whose free volumes are counted on each node; it only grows."""
    _by_class: defaultdict[str, dict[str, PersistentVolume]] = msgspec.field(default_factory=lambda: defaultdict(dict))
    _lying: defaultdict[str, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By class, how many free volumes lie where."""
    _node_of: dict[str, str] = msgspec.field(default_factory=dict)
    """Node by hostname."""
    _reserved: defaultdict[ClaimKey, dict[str, PersistentVolume]] = msgspec.field(
        default_factory=lambda: defaultdict(dict)
    )
    """Volumes that are not bound, and kept for a claim of that name."""
    _by_handle: defaultdict[tuple[str, str], set[str]] = msgspec.field(default_factory=lambda: defaultdict(set))
    """The names of the volumes of a driver and a handle."""
    _places: defaultdict[str, dict[object, _Terms]] = msgspec.field(default_factory=lambda: defaultdict(dict))
    """By class, and by what a claim asks for: where free volumes lie that are kept for none."""

    def add_volume(self, volume: PersistentVolume) -> list[str | None]:
        """A volume appeared or changed. Returns the nodes on which other volumes are free now; None stands for all."""
        name = volume.metadata.name
        before = self._uncount(name)
        self.volumes[name] = volume
        if volume.handle:
            self._by_handle[volume.driver, volume.handle].add(name)
        if volume.status.phase != "Bound":
            self._unbound(volume)[name] = volume
            self._places.pop(volume.spec.storage_class_name, None)
        return self._nodes(before ^ self._count(volume, 1))

    def drop_volume(self, name: str) -> list[str | None]:
        """A volume is gone. Returns the nodes, as `add_volume`."""
        return self._nodes(self._uncount(name))

    def of_handle(self, volume: PersistentVolume) -> frozenset[str]:
        """The names of all volumes of its driver and handle; none where it has no handle."""
        return frozenset(self._by_handle.get((volume.driver, volume.handle), ())) if volume.handle else frozenset()

    def _unbound(self, volume: PersistentVolume) -> dict[str, PersistentVolume]:
        kept = volume.spec.claim_ref
        if kept is not None:
            return self._reserved[kept.namespace, kept.name]
        return self._by_class[volume.spec.storage_class_name]

    def _uncount(self, name: str) -> set[tuple[str, str]]:
        known = self.volumes.pop(name, None)
        if known is None:
            return set()
        if known.handle:
            names = self._by_handle[known.driver, known.handle]
            names.discard(name)
            if not names:
                del self._by_handle[known.driver, known.handle]
        if self._unbound(known).pop(name, None) is not None:
            self._places.pop(known.spec.storage_class_name, None)
        if (kept := known.spec.claim_ref) is not None and not self._reserved[kept.namespace, kept.name]:
            del self._reserved[kept.namespace, kept.name]
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

    def meaning(self, key: ClaimKey, node_exists: Callable[[str], bool] = lambda _: True) -> ClaimMeaning:
        """What the claim means now."""
        claim, (namespace, name) = self.claims.get(key), key
        if claim is None:
            return ClaimMeaning(reason=_waits(name, "does not exist", f"create the claim {namespace}/{name}"))
        if claim.metadata.deletion_timestamp:
            return ClaimMeaning(reason=_waits(name, "is being deleted", f"create the claim {namespace}/{name} anew"))
        kind, free = self.storage_class(claim), ""
        volume = self.volumes.get(claim.spec.volume_name)
        unbound = claim.status.phase == "Pending" and not claim.spec.volume_name and kind is not None and kind.waits
        if claim.bound and volume is not None:
            found: NodeSelector | Reason | None = _affinity(name, volume)
            driver = volume.driver
        elif unbound and kind is not None:
            found = self._where(claim, kind, node_exists)
            driver = kind.provisioner
            if kind.lies_ready and kind.metadata.name in self.counted:
                free = FREE_PREFIX + kind.metadata.name
        else:
            found, driver = self._unusable(claim, kind), ""
        return ClaimMeaning(
            affinity=None if isinstance(found, Reason) else found,
            attach=resource if (resource := ATTACH_PREFIX + driver) in self.limited else "",
            volume=volume.handle if volume is not None and volume.handle else f"{namespace}/{name}",
            shared=volume is not None and len(self.of_handle(volume)) > 1,
            reason=found if isinstance(found, Reason) else None,
            unbound=unbound,
            free=free,
            exclusive=EXCLUSIVE in claim.spec.access_modes,
        )

    def _unusable(self, claim: Claim, kind: StorageClass | None) -> Reason:
        """Why a claim has no volume that pods could use, and waits for none that is bound with its pod's node."""
        phase, volume, name = claim.status.phase, claim.spec.volume_name, claim.metadata.name
        of = f"{claim.metadata.namespace}/{name}"
        if phase == LOST or claim.bound:
            back = f"create the PersistentVolume {volume!r} of the same storage again"
            anew = f"delete the claim {of} and create it anew, with another volume"
            if volume and volume not in self.volumes:
                return _waits(name, f"has lost its volume: the PersistentVolume {volume!r} does not exist", back, anew)
            what = f"is Lost: the PersistentVolume {volume!r} is not bound to it" if volume else "is Lost"
            return _waits(name, what, anew)
        if volume:
            if volume not in self.volumes:
                what = f"asks for the PersistentVolume {volume!r}, which does not exist"
                return _waits(name, what, f"create the PersistentVolume {volume!r}")
            what = f"is {phase}: the PersistentVolume {volume!r} that it asks for is not bound to it"
            return _waits(name, what, f"bind the claim {of}")
        if kind is None and (named := claim.spec.storage_class_name):
            what = f"is {phase}, and there is no StorageClass {named!r}"
            return _waits(name, what, f"create the StorageClass {named!r}, or a PersistentVolume of that class")
        return _waits(name, f"is {phase}", f"bind the claim {of}")

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
        places = self._lying_free(claim, kind.metadata.name)
        if places is None:
            return None
        terms = (*topologies, *places) if kind.provisions else places
        if not terms:
            name, of = claim.metadata.name, kind.metadata.name
            return _waits(
                name,
                f"finds no free volume of the class {of!r}, which provisions none",
                f"create a PersistentVolume of the class {of!r} that it fits into",
            )
        return NodeSelector(tuple(sorted(dict.fromkeys(terms), key=str)))

    def _lying_free(self, claim: Claim, kind: str) -> _Terms:
        """Where the free volumes of the class lie that fit the claim."""
        spec, known = claim.spec, self._places[kind]
        wanted = encode((sorted(spec.access_modes), spec.volume_mode, spec.selector, spec.resources))
        if wanted not in known:
            if len(known) >= _MOST_SHAPES:
                known.clear()
            known[wanted] = _terms(v for v in self._by_class.get(kind, {}).values() if fits(v, claim, kind))
        free = known[wanted]
        kept = self._reserved.get((claim.metadata.namespace, claim.metadata.name))
        if free is None or kept is None:
            return free
        own = _terms(volume for volume in kept.values() if fits(volume, claim, kind))
        return None if own is None else (*free, *own)


def _terms(volumes: Iterable[PersistentVolume]) -> _Terms:
    found: dict[NodeSelectorTerm, None] = {}
    for volume in volumes:
        try:
            affinity = volume.affinity()
        except Invalid:
            continue
        if affinity is None:
            return None
        found.update(dict.fromkeys(affinity.terms))
    return tuple(found)


def _affinity(name: str, volume: PersistentVolume) -> NodeSelector | Reason | None:
    try:
        return volume.affinity()
    except Invalid as error:
        return _waits(name, f"has a volume with a malformed node affinity: {error}")


def _waits(name: str, what: str, *remedies: str) -> Reason:
    return Reason(Code.VOLUME_NOT_BOUND, f"the volume claim {name!r} {what}", unblocks=remedies)
