"""What a node's labels say of how its cards are handed out, where amounts say something else or nothing can be read.

Two clouds name in a label the one system that hands out the cards of a node: Volcengine `vke.node.gpu.schedule`, ACK
`ack.node.gpu.schedule`. While the label changes, device plugins of before may still offer their resources. Those are
*taken back* here: the same cards are given under one name only. A value that is not known takes back all shares.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from t9ksched.model.card_models import LARGEST_MIB
from t9ksched.model.card_requests import GPUSHARE_COUNT, GPUSHARE_MEMORY, MGPU_CORE, MGPU_MEMORY
from t9ksched.model.cardchoice import POLICIES
from t9ksched.model.names import MGPU_POLICY
from t9ksched.model.readiness import Unready
from t9ksched.model.resources import NVIDIA_GPU, is_accelerator
from t9ksched.model.whole import whole_number

VKE_LABEL: Final = "vke.node.gpu.schedule"
ACK_LABEL: Final = "ack.node.gpu.schedule"
ACK_SHARES: Final = ("share", "cgpu", "core_mem", "mps")
"""Values with which ACK gives parts of cards."""
_TOPOLOGY: Final = "aliyun.com/gpu"
_SHARES_OF_ACK: Final = (GPUSHARE_MEMORY, GPUSHARE_COUNT, "aliyun.com/gpu-core.percentage")
_SHARES_OF_VKE: Final = (MGPU_CORE, MGPU_MEMORY)
_OFF: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    VKE_LABEL: {"mgpu": (), "nvidia": _SHARES_OF_VKE},
    ACK_LABEL: {
        **dict.fromkeys(ACK_SHARES, ()),
        "topology": (*_SHARES_OF_ACK, NVIDIA_GPU),
        "default": (*_SHARES_OF_ACK, _TOPOLOGY),
    },
}
"""By label and value, which resources the node does not give."""
_UNKNOWN: Final = {VKE_LABEL: _SHARES_OF_VKE, ACK_LABEL: _SHARES_OF_ACK}
_SHOWN: Final = 63
_STRATEGIES: Final = ("", "none", "time-slicing", "mps")
_AMOUNTS: Final = re.compile(r"nvidia\.com/[^/]+\.(?P<what>memory|count|replicas)")
_OF_WHAT: Final = {"memory": "MiB", "count": "cards"}
_COUNT: Final = "nvidia.com/gpu.count"
_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_MIG_CAPABLE: Final = "nvidia.com/mig.capable"
_POSITIVE: Final = (_COUNT, "nvidia.com/gpu.memory")
_VRAM: Final = "amd.com/gpu.vram"


class TakenBack(msgspec.Struct, frozen=True):
    """What labels take back of what a node offers.

    Attributes:
        resources: their names.
        words: what is not followed, a sentence each.
        unready: why the node gives no accelerators at all; None where it gives others, or offers none.
    """

    resources: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    unready: Unready | None = None

    def left(self, has: Mapping[str, int]) -> dict[str, int]:
        """The amounts without those of its resources."""
        return {name: amount for name, amount in has.items() if name not in self.resources}


_NOTHING: Final = TakenBack()


def taken_back(labels: Mapping[str, str], has: Mapping[str, int]) -> TakenBack:
    """What the labels of a node take back of its allocatable amounts."""
    if VKE_LABEL not in labels and ACK_LABEL not in labels:
        return _NOTHING
    off: set[str] = set()
    words: list[str] = []
    said = ""
    for label, values in _OFF.items():
        value = labels.get(label, "")
        if not value:
            continue
        known = values.get(value)
        if known is None:
            words.append(f"its label {label} is {value[:_SHOWN]!r}, none of {', '.join(values)}: no shares are given")
        those = _UNKNOWN[label] if known is None else known
        offered = [name for name in those if has.get(name)]
        words += [f"its label {label} is {value[:_SHOWN]}, and it offers {has[name]} of {name}" for name in offered]
        off.update(those)
        said = said or (f"{label}={value[:_SHOWN]}" if offered else "")
    unready = None
    if said and not any(amount and is_accelerator(name) for name, amount in has.items() if name not in off):
        meaning = "it offers only what this label takes back"
        unready = Unready(said, meaning, "wait for its device plugin, or set the label to what the node offers")
    return TakenBack(frozenset(off), tuple(words), unready)


def misread(
    labels: Mapping[str, str], has: Mapping[str, int], mode: str, capacity: Mapping[str, int] | None = None
) -> Iterator[str]:
    """What cannot be read of the labels about the cards of a node that offers some, in a sentence each. `mode` as in
    `model.cardmode`; `has` is what is allocatable.
    """
    policy = labels.get(MGPU_POLICY)
    if mode == "MGPU" and policy and policy not in POLICIES:
        known = ", ".join(POLICIES)
        yield f"its label {MGPU_POLICY} is {policy!r}, none of {known}: parts of its cards are given to nobody"
    if any(amount and name.startswith("nvidia.com/") for name, amount in has.items()):
        yield from _of_nvidia(labels)
        yield from _contradicted(labels, has, mode, {} if capacity is None else capacity)
    vram = labels.get(_VRAM)
    if vram is not None and has.get("amd.com/gpu") and not whole_number(vram.removesuffix("G")):
        yield f"its label {_VRAM} is {vram!r}, no number of GiB: how large its cards are is not known"


def _contradicted(
    labels: Mapping[str, str], has: Mapping[str, int], mode: str, capacity: Mapping[str, int]
) -> Iterator[str]:
    """Labels that can be read, and cannot be of what the node offers."""
    told, offers = labels.get(_COUNT, ""), max(capacity.get(NVIDIA_GPU, 0), has.get(NVIDIA_GPU, 0))
    if mode == "Whole" and capacity.get(NVIDIA_GPU) and offers < (whole_number(told) or 0) <= LARGEST_MIB:
        yield f"its label {_COUNT} is {told!r}, and it has {offers} of {NVIDIA_GPU}: no more are given"
    # Feature discovery says 0 of cards with MIG, and where nothing is shared.
    if labels.get(_MIG_CAPABLE) == "true" or labels.get(_STRATEGY) == "none":
        return
    for label in sorted(label for label in labels if label.endswith(".replicas") and whole_number(labels[label]) == 0):
        resource = label.removesuffix(".replicas")
        if has.get(resource) or has.get(f"{resource}.shared"):
            yield f"its label {label} is '0', no number of replicas"


def _of_nvidia(labels: Mapping[str, str]) -> Iterator[str]:
    for label, value in sorted(labels.items()):
        if label.startswith("nvidia.com/") and label.endswith(".sharing-strategy") and value not in _STRATEGIES:
            yield f"its label {label} is {value!r}, none of {', '.join(_STRATEGIES[1:])}"
        elif found := _AMOUNTS.fullmatch(label):
            number, what = whole_number(value), found["what"]
            if number is None or number > LARGEST_MIB or (number == 0 and label in _POSITIVE):
                yield f"its label {label} is {value!r}, no number of {_OF_WHAT.get(what, what)}"
