"""Which resources are cards, that is devices a scheduler chooses one by one.

A vendor's device plugin names its resource freely. Whole accelerators follow a few habits: `<vendor>/gpu`, `/npu`,
`/mlu` and the like; those are cards and get indices. Slices of cards (`.shared`, MIG profiles, memory, cores, and
`koordinator.sh/gpu`, which is a percentage), network devices and anything unknown are counted as plain numbers.
Administrators can name more card resources in the settings.
"""

import re
from functools import lru_cache
from typing import Final

PODS: Final = "pods"
NVIDIA_GPU: Final = "nvidia.com/gpu"

_CARD_SUFFIX: Final = re.compile(
    r"(?!koordinator\.sh/)[^/]+/(gpu|npu|mlu|dcu|dcunum|gcu|xpu|tpu|ipu|hpu|gaudi|accelerator)"
)
_CARD_NAMES: Final = frozenset(
    {
        "aws.amazon.com/neuron",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "huawei.com/Ascend310",
        "huawei.com/Ascend310P",
        "huawei.com/Ascend910",
        "iluvatar.com/gpu",
        "rngd.furiosa.ai/rngd",
        "tenstorrent.com/n150",
    }
)
_ACCELERATORS: Final = ("nvidia.com/", "vke.volcengine.com/", "aliyun.com/gpu-", "koordinator.sh/gpu")
_configured: set[str] = set()


def add_card_resources(*names: str) -> None:
    """Treat these resource names as whole cards too; called once at start, from the settings."""
    _configured.update(names)
    is_card_resource.cache_clear()


@lru_cache(maxsize=1024)
def is_card_resource(name: str) -> bool:
    """Whether one unit of this resource is one whole card with an index of its own."""
    return name in _CARD_NAMES or name in _configured or _CARD_SUFFIX.fullmatch(name) is not None


def is_accelerator(resource: str) -> bool:
    """Whether a resource is an accelerator or a part of one, whole cards included."""
    return is_card_resource(resource) or resource.startswith(_ACCELERATORS)
