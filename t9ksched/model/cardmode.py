"""How a node hands out its accelerators: whole cards, or something else under the same resource names.

A device plugin may divide cards among containers and still call each part `nvidia.com/gpu`. What a node does is read
from the labels of GPU Feature Discovery and the MIG manager, and from the marks that sharing systems leave. `MODES` is
the one table of them. Only whole cards have an index and count as cards; everything else is counted by number.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from t9ksched.model.card_systems import ACK_LABEL, ACK_SHARES, VKE_LABEL
from t9ksched.model.readiness import unready
from t9ksched.model.resources import is_card_resource
from t9ksched.model.whole import whole_number

WHOLE: Final = "Whole"
NOT_READY: Final = "NotReady"
HAMI: Final = "HAMi"
SHARING: Final = frozenset({HAMI, "MGPU", "GPUShare", "Koordinator"})
"""Modes in which a system divides cards among pods."""

_PRODUCT: Final = "nvidia.com/gpu.product"
_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_MIG_PROFILE: Final = re.compile(r"nvidia\.com/mig-\d+g\.[^/]+?(\.count)?")
_HAMI_REGISTER: Final = re.compile(r"hami\.io/node-.+-register")
_SHARES: Final = re.compile(
    r"vke\.volcengine\.com/(?!mgpu-(?:core|memory)$).+"
    r"|aliyun\.com/gpu-core\.percentage"
    r"|koordinator\.sh/gpu(?!$|-core$|-memory$|-memory-ratio$|\.shared$).*"
)

Texts = Mapping[str, str]
Amounts = Mapping[str, int]
Test = Callable[[Texts, Texts, Amounts], bool]
"""Whether labels, annotations and allocatable amounts of a node show a mode."""


def _number(text: str | None) -> int:
    return whole_number(text or "") or 0


def _mixed(labels: Texts, annotations: Texts, has: Amounts) -> bool:
    if any(amount and _MIG_PROFILE.fullmatch(name) for name, amount in has.items()):
        return True
    return any(name.endswith(".count") and _MIG_PROFILE.fullmatch(name) and _number(labels[name]) for name in labels)


MODES: Final[tuple[tuple[str, Test], ...]] = (
    (HAMI, lambda _, annotations, has: any(annotations[key] for key in annotations if _HAMI_REGISTER.fullmatch(key))),
    ("MGPU", lambda labels, _, has: labels.get(VKE_LABEL) == "mgpu"),
    ("MGPU", lambda _, __, has: bool(has.get("vke.volcengine.com/mgpu-core"))),
    ("GPUShare", lambda labels, _, has: labels.get(ACK_LABEL) in ACK_SHARES),
    # Labels of earlier releases; the one above wins.
    ("GPUShare", lambda labels, _, has: not labels.get(ACK_LABEL) and "true" in map(labels.get, ("gpushare", "cgpu"))),
    ("GPUShare", lambda _, __, has: bool(has.get("aliyun.com/gpu-mem"))),
    ("Koordinator", lambda _, __, has: any(has[name] for name in has if name.startswith("koordinator.sh/gpu"))),
    # Its own device manager found the cards and may share them, whatever the device plugin offers besides.
    ("Koordinator", lambda labels, _, has: bool(labels.get("node.koordinator.sh/gpu-model"))),
    # The strategy alone says nothing: with `single` or `mixed` configured, cards may still be undivided.
    ("MIGMixed", _mixed),
    ("MIGSingle", lambda labels, _, has: "-MIG-" in labels.get(_PRODUCT, "")),
    ("MPS", lambda labels, _, has: labels.get(_STRATEGY) == "mps"),
    ("TimeSliced", lambda labels, _, has: labels.get(_STRATEGY) == "time-slicing"),
    ("TimeSliced", lambda labels, _, has: _number(labels.get(_REPLICAS)) > 1),
    ("TimeSliced", lambda labels, _, has: labels.get(_PRODUCT, "").endswith("-SHARED")),
    ("TimeSliced", lambda _, __, has: bool(has.get("nvidia.com/gpu.shared"))),
    (WHOLE, lambda _, __, has: any(has[name] and is_card_resource(name) for name in has)),
)
"""Mode and how it shows; the first that shows is the node's. Amounts are without what labels take back
(`model.card_systems`).
"""


def card_mode(labels: Texts, annotations: Texts, allocatable: Amounts) -> str:
    """How a node hands out its accelerators, a mode of `MODES`, or that they are not ready; empty without any."""
    return NOT_READY if unready(labels, allocatable) else layout(labels, annotations, allocatable)


def layout(labels: Texts, annotations: Texts, allocatable: Amounts) -> str:
    """The same, be they ready or not."""
    return next((mode for mode, shows in MODES if shows(labels, annotations, allocatable)), "")


def is_share(resource: str) -> bool:
    """Whether a resource is a share of a card in words that are not understood yet: totals of a node do not tell shares
    of single cards apart.
    """
    return _SHARES.fullmatch(resource) is not None
