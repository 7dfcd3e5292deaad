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
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

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
    asked,
    claim_names,
    fits,
)
from t9ksched.scheduler.state.objects import HOSTNAME
from t9ksched.scheduler.state.volumes.free import FreePlaces, FreeVolumes, lies

__all__ = ["Claim", "ClaimKey", "ClaimMeaning", "Claims", "CsiNode", "PersistentVolume", "StorageClass", "claim_names"]

EXCLUSIVE: Final = "ReadWriteOncePod"
LOST: Final = "Lost"
"""Phase of a claim whose volume is gone, or has another claim now."""
ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""


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


class Moved(msgspec.Struct, frozen=True):
    """What a change of a volume makes a difference to.

    Attributes:
        nodes: on which other volumes are free now; None stands for all.
        places: where free volumes lie, as claims that wait for them ask.
    """

    nodes: list[str | None]
    places: list[FreePlaces]


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
    _free: FreeVolumes = msgspec.field(default_factory=FreeVolumes)
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

    def add_volume(self, volume: PersistentVolume) -> Moved:
        """A volume appeared or changed."""
        name = volume.metadata.name
        known, before = self.volumes.get(name), self._uncount(name)
        self.volumes[name] = volume
        if volume.handle:
            self._by_handle[volume.driver, volume.handle].add(name)
        if volume.status.phase != "Bound" and (kept := volume.spec.claim_ref) is not None:
            self._reserved[kept.namespace, kept.name][name] = volume
        return Moved(self._nodes(before ^ self._count(volume, 1)), self._free.change(known, volume))

    def drop_volume(self, name: str) -> Moved:
        """A volume is gone."""
        known = self.volumes.get(name)
        return Moved(self._nodes(self._uncount(name)), self._free.change(known, None))

    def of_handle(self, volume: PersistentVolume) -> frozenset[str]:
        """The names of all volumes of its driver and handle; none where it has no handle."""
        return frozenset(self._by_handle.get((volume.driver, volume.handle), ())) if volume.handle else frozenset()

    def _uncount(self, name: str) -> set[tuple[str, str]]:
        known = self.volumes.pop(name, None)
        if known is None:
            return set()
        if known.handle:
            names = self._by_handle[known.driver, known.handle]
            names.discard(name)
            if not names:
                del self._by_handle[known.driver, known.handle]
        if (kept := known.spec.claim_ref) is not None:
            reserved = self._reserved[kept.namespace, kept.name]
            reserved.pop(name, None)
            if not reserved:
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
        """A class appeared or changed; whether its free volumes are counted on nodes from now on, and were not."""
        self.classes[kind.metadata.name] = kind
        fresh = kind.lies_ready and kind.metadata.name not in self.counted
        if fresh:
            self.counted.add(kind.metadata.name)
        return fresh

    def add_limits(self, node: CsiNode) -> set[str]:
        """A node's drivers said what they can attach. Returns the resource names of those that have a limit for the
        first time.
        """
        limits = self.limits[node.metadata.name] = node.limits()
        fresh = limits.keys() - self.limited
        self.limited |= fresh
        return fresh

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
        unbound, driver = _waits_for_node(claim, kind), self.driver(claim)
        if claim.bound and volume is not None:
            found: NodeSelector | Reason | None = _affinity(name, volume)
        elif unbound and kind is not None:
            found = self._where(claim, kind, node_exists)
            if kind.lies_ready and kind.metadata.name in self.counted:
                free = FREE_PREFIX + kind.metadata.name
        else:
            found = self._unusable(claim, kind)
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

    def driver(self, claim: Claim) -> str:
        """What attaches the claim's volume: that of the volume it has, or that its class will make."""
        if claim.bound:
            volume = self.volumes.get(claim.spec.volume_name)
            return volume.driver if volume is not None else ""
        kind = self.storage_class(claim)
        return kind.provisioner if kind is not None and _waits_for_node(claim, kind) else ""

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
        places = self._places(claim, kind)
        if places is None:
            return None
        topologies = kind.topologies() if kind.provisions else ()
        kept = self._reserved.get((claim.metadata.namespace, claim.metadata.name))
        if kept is None:
            found = places.selector(topologies)
        else:
            own = [lies(volume) for volume in kept.values() if fits(volume, claim, kind.metadata.name)]
            found = places.with_own(topologies, None if None in own else tuple(t for terms in own for t in terms or ()))
        if found is not None and not found.terms:
            name, of = claim.metadata.name, kind.metadata.name
            return _waits(
                name,
                f"finds no free volume of the class {of!r}, which provisions none",
                f"create a PersistentVolume of the class {of!r} that it fits into",
            )
        return found

    def places(self, claim: Claim, node_exists: Callable[[str], bool]) -> FreePlaces | None:
        """Where the free volumes lie that decide what the claim means; None where none decide."""
        kind = self.storage_class(claim)
        if kind is None or not _waits_for_node(claim, kind):
            return None
        chosen = claim.selected_node
        return None if chosen and node_exists(chosen) else self._places(claim, kind)

    def _places(self, claim: Claim, kind: StorageClass) -> FreePlaces | None:
        if kind.provisions and not kind.allowed_topologies:
            return None
        return self._free.places(kind.metadata.name, asked(claim))


def _waits_for_node(claim: Claim, kind: StorageClass | None) -> bool:
    """Whether a claim of that class is bound only when a node is chosen."""
    return claim.status.phase == "Pending" and not claim.spec.volume_name and kind is not None and kind.waits


def _affinity(name: str, volume: PersistentVolume) -> NodeSelector | Reason | None:
    try:
        return volume.affinity()
    except Invalid as error:
        return _waits(name, f"has a volume with a malformed node affinity: {error}")


def _waits(name: str, what: str, *remedies: str) -> Reason:
    return Reason(Code.VOLUME_NOT_BOUND, f"the volume claim {name!r} {what}", unblocks=remedies)
