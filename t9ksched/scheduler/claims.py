"""Volume claims as far as they decide where a pod may run (OQ-43).

A bound claim brings the node affinity of its persistent volume. A missing or unbound claim keeps its pod waiting with a
reason that names the claim.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from t9ksched.model.errors import Invalid
from t9ksched.model.labels import NodeSelector
from t9ksched.model.pod import Metadata, PodSpec
from t9ksched.model.reasons import Code, Reason


class ClaimSpec(msgspec.Struct, gc=False, rename="camel"):
    """The part of a PersistentVolumeClaim's spec that is read."""

    volume_name: str = ""


class ClaimStatus(msgspec.Struct, gc=False):
    """Its phase."""

    phase: str = "Pending"


class Claim(msgspec.Struct, gc=False):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class VolumeSpec(msgspec.Struct, gc=False, rename="camel"):
    """The part of a PersistentVolume's spec that is read."""

    node_affinity: dict[str, Any] | None = None


class PersistentVolume(msgspec.Struct, gc=False):
    """A PersistentVolume."""

    metadata: Metadata
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)


def claim_names(pod_name: str, spec: PodSpec) -> tuple[str, ...]:
    """The claims a pod uses, by name in its namespace; an ephemeral volume's claim is named after pod and volume."""
    names = []
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod_name}-{volume.name}")
    return tuple(names)


@dataclass(slots=True)
class Claims:
    """The claims and volumes of the cluster."""

    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)

    def resolve(self, namespace: str, names: tuple[str, ...]) -> tuple[tuple[NodeSelector, ...], tuple[Reason, ...]]:
        """Node affinities of the bound volumes, and a reason for each claim that is not ready."""
        affinities: list[NodeSelector] = []
        reasons: list[Reason] = []
        for name in names:
            claim = self.claims.get((namespace, name))
            if claim is None:
                reasons.append(_not_bound(name, "does not exist", f"create the claim {namespace}/{name}"))
                continue
            volume = self.volumes.get(claim.spec.volume_name)
            if claim.status.phase != "Bound" or volume is None:
                reasons.append(_not_bound(name, f"is {claim.status.phase}", f"bind the claim {namespace}/{name}"))
                continue
            required = (volume.spec.node_affinity or {}).get("required")
            if required:
                try:
                    affinities.append(NodeSelector.parse(required.get("nodeSelectorTerms") or []))
                except Invalid as error:
                    reasons.append(_not_bound(name, f"has a volume with a malformed node affinity: {error}", ""))
        return tuple(affinities), tuple(reasons)


def _not_bound(name: str, what: str, remedy: str) -> Reason:
    unblocks = (remedy,) if remedy else ()
    return Reason(Code.VOLUME_NOT_BOUND, f"the volume claim {name!r} {what}", unblocks=unblocks)
