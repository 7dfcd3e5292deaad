"""Whether the accelerators of a node are ready, from what the GPU operator writes on it, in words for people.

A node may carry cards and offer none of them yet, or be about to lose the ones that it offers: the MIG manager changes
their layout, or the operator replaces the driver. Pods that ask for accelerators are kept away from it meanwhile; all
others are not.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from t9ksched.model.resources import NVIDIA_GPU, is_accelerator
from t9ksched.model.whole import whole_number

MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
UPGRADE_STATE_LABEL: Final = "nvidia.com/gpu-driver-upgrade-state"
COUNT_LABEL: Final = "nvidia.com/gpu.count"
"""How many cards GPU Feature Discovery found."""
_DEPLOY: Final = "nvidia.com/gpu.deploy."
_OPERANDS: Final = f"{_DEPLOY}operands"
_PLUGIN: Final = f"{_DEPLOY}device-plugin"
_PAUSED: Final = "paused-for-mig-change"
_NEEDED: Final = ("driver", "container-toolkit", "device-plugin", "operator-validator")
"""What the operator deploys before a node can offer cards, in that order."""
_PCI: Final = re.compile(r"feature\.node\.kubernetes\.io/pci-(?:03\d\d_)?10de(?:[_-].*)?\.present")

_MIG_STATES: Final = {
    "pending": ("its MIG layout is being changed", "wait until the MIG manager has changed the layout"),
    "rebooting": ("it is restarted for another MIG layout", "wait until the node is back"),
    "failed": (
        "its MIG layout could not be changed",
        "look at the log of nvidia-mig-manager on the node, then set nvidia.com/mig.config again",
    ),
}
_UPGRADE_FAILED: Final = (
    "its driver could not be upgraded",
    "look at the driver pod on the node; once it runs, set the label to upgrade-done",
)
SAFE_LOAD_ANNOTATION: Final = "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load"
"""Its driver waits until the operator has emptied the node (pkg/upgrade of NVIDIA/k8s-operator-libs)."""
_WAITS_TO_LOAD: Final = (
    "its driver is to be loaded as soon as the GPU operator has emptied the node, and whoever has GPUs then loses them",
    "wait until the GPU operator has loaded the driver",
)
_UPGRADING: Final = ("its driver is being upgraded", "wait until the GPU operator has upgraded the driver")
_SHOWN: Final = 63
_LOGS: Final = "look at the logs of these pods on the node"
_WORKS: Final = ("", "upgrade-done", "upgrade-required")
"""States in which the driver works. With `upgrade-required` a node waits its turn, perhaps for days, or for ever where
it is left out of upgrades; the operator does nothing to it before `cordon-required`.
"""


class Failing(NamedTuple):
    """A validation that fails.

    Attributes:
        pod: its name.
        how: such as `Failed` or `CrashLoopBackOff`.
        tried: it ran, so the cards are to blame, or what they need.
    """

    pod: str
    how: str
    tried: bool

    def __str__(self) -> str:
        return f"the pod {self.pod} fails ({self.how})"


class Unready(msgspec.Struct, frozen=True):
    """Why accelerators are not ready.

    Attributes:
        state: what the operator says, such as `nvidia.com/mig.config.state=pending`; empty where it says nothing.
        meaning: the same in words.
        remedy: what to do.
        layout: how the node hands out its cards is known all the same.
    """

    state: str
    meaning: str
    remedy: str
    layout: bool = False

    def __str__(self) -> str:
        return f"{self.state}: {self.meaning}" if self.state else self.meaning


def has_hardware(labels: Mapping[str, str]) -> bool:
    """Whether Node Feature Discovery found NVIDIA cards on the bus."""
    return any(value == "true" and _PCI.fullmatch(label) for label, value in labels.items())


def unready(
    labels: Mapping[str, str],
    has: Mapping[str, int],
    failing: Sequence[Failing] = (),
    by_dra: Unready | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Unready | None:
    """Why the accelerators of a node are not ready; None where they are, or where it has none.

    Args:
        labels, annotations: of the node.
        has: its allocatable amounts.
        failing: validations of the GPU operator that fail on the node.
        by_dra: what is so where its accelerators are handed out by DRA.
    """
    if (state := labels.get(MIG_STATE_LABEL, "success")) not in ("", "success"):
        meaning, remedy = _MIG_STATES.get(state, ("its MIG layout is not settled", f"see the label {MIG_STATE_LABEL}"))
        return Unready(f"{MIG_STATE_LABEL}={state}", meaning, remedy)
    if labels.get(_PLUGIN) == _PAUSED:
        return Unready(f"{_PLUGIN}={_PAUSED}", *_MIG_STATES["pending"])
    if waits := (annotations or {}).get(SAFE_LOAD_ANNOTATION):
        return Unready(f"{SAFE_LOAD_ANNOTATION}={waits[:_SHOWN]}", *_WAITS_TO_LOAD, layout=True)
    if (state := labels.get(UPGRADE_STATE_LABEL, "")) not in _WORKS:
        meaning, remedy = _UPGRADE_FAILED if state == "upgrade-failed" else _UPGRADING
        return Unready(f"{UPGRADE_STATE_LABEL}={state}", meaning, remedy, layout=True)
    offers = any(amount and is_accelerator(name) for name, amount in has.items())
    if offers and (tried := [one for one in failing if one.tried]):
        return Unready("", f"a validation of its GPUs failed: {', '.join(map(str, tried))}", _LOGS, layout=True)
    if offers:
        return None
    if by_dra is not None:
        return by_dra
    if labels.get(_OPERANDS) == "false" or not has_hardware(labels):
        return None
    return _bare(labels, failing)


def oversold(labels: Mapping[str, str], has: Mapping[str, int]) -> Unready | None:
    """What keeps a node from giving whole cards by number: it offers more of them than it has, so that something shares
    them of which it says nothing, such as HAMi before its register is there. None where that is not so.
    """
    cards, offered = whole_number(labels.get(COUNT_LABEL, "")), has.get(NVIDIA_GPU, 0)
    if not cards or offered <= cards:
        return None
    return Unready(
        f"{COUNT_LABEL}={cards}",
        f"it offers {offered} of {NVIDIA_GPU} and has {cards} cards: what shares them does not say how",
        "wait until the system that shares its cards has registered them, or correct the label",
    )


def _bare(labels: Mapping[str, str], failing: Sequence[Failing]) -> Unready:
    """NVIDIA cards on the bus, and nothing that offers them."""
    states = {part: labels[_DEPLOY + part] for part in _NEEDED if _DEPLOY + part in labels}
    others = {key.removeprefix(_DEPLOY): value for key, value in labels.items() if key.startswith(_DEPLOY)}
    states |= {part: value for part, value in sorted(others.items()) if value == _PAUSED}
    said = ", ".join(f"{_DEPLOY}{part}={value}" for part, value in states.items() if value != "true")
    meaning = "it has NVIDIA cards and offers none of them yet"
    if failing:
        return Unready(said, f"{meaning}; {', '.join(map(str, failing))}", _LOGS)
    if _PAUSED in states.values():
        return Unready(said, f"{meaning}: its MIG layout is being changed", _MIG_STATES["pending"][1])
    if said:
        return Unready(said, f"{meaning}: the GPU operator was told to leave parts out there", "set the labels to true")
    if states:
        return Unready(
            f"{_DEPLOY}{next(iter(states))}=true",
            f"{meaning}: the GPU operator installs driver and device plugin there",
            "wait; if it lasts, look at the pods of the GPU operator on the node",
        )
    return Unready("", f"{meaning}: no GPU operator works there", "install the driver and the device plugin there")
