"""Taints of nodes and the tolerations of pods (Kubernetes `Taint`, `Toleration`)."""

from collections.abc import Iterable
from typing import Final

import msgspec

HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
EFFECTS: Final = (*HARD_EFFECTS, "PreferNoSchedule")
OF_KUBERNETES: Final = "node.kubernetes.io/"
"""Keys of taints that Kubernetes sets of itself, and takes off again, begin with this."""


class Taint(msgspec.Struct, frozen=True):
    """What keeps pods away from a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True):
    """Which taints a pod accepts; empty key with `Exists` accepts all, empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that forbids the node (NoSchedule or NoExecute) and that no toleration covers."""
    accepted = tuple(tolerations)
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(toleration.tolerates(taint) for toleration in accepted):
            return taint
    return None
