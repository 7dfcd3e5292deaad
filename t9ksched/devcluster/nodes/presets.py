"""Clusters by name: what `--nodes` accepts, a preset or the path of a nodes file.

A preset is written as a nodes file would be, so that it can be copied into one and changed.
"""

from pathlib import Path
from typing import Any, Final

from t9ksched.devcluster.nodes.nodefile import Object, nodes_from, parse_nodes
from t9ksched.model.errors import Invalid
from t9ksched.regular_file import read_file

_LARGEST: Final = 64 << 20
"""Bytes of a nodes file: 100,000 nodes of several labels each."""
_A100: Final = {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-80GB"}
_A40: Final = {"nvidia.com/gpu.product": "NVIDIA-A40-40GB"}


def _a100(cards: int) -> dict[str, Any]:
    return {"labels": _A100, "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": str(cards)}}


_MGPU: Final = {
    "name": "mgpu",
    "count": 1,
    "labels": {"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB", "vke.node.gpu.schedule": "mgpu"},
    "allocatable": {
        "cpu": "64",
        "memory": "256Gi",
        "vke.volcengine.com/mgpu-core": "400",
        "vke.volcengine.com/mgpu-memory": "130040",
    },
}
"""Four cards that mGPU divides, as its device plugin publishes them."""
_MIG: Final = {
    "name": "mig",
    "count": 1,
    "cardMode": "plugin-chooses",
    "labels": {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.memory": "40960",
        "nvidia.com/mig.strategy": "mixed",
    },
    "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/mig-1g.5gb": "14", "nvidia.com/mig-3g.20gb": "4"},
}
"""Four cards in slices: two in seven small ones each, two in two large ones each."""
_SHARED: Final = {
    "name": "shared",
    "count": 1,
    "cardMode": "plugin-chooses",
    "labels": {
        "nvidia.com/gpu.product": "NVIDIA-A40-40GB-SHARED",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/gpu.replicas": "4",
    },
    "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu.shared": "8"},
}
"""Two cards, each shared by four containers in turns."""
PRESETS: Final[dict[str, list[dict[str, Any]]]] = {
    "demo": [
        {"name": "a100", "count": 4, **_a100(8)},
        {
            "name": "a40",
            "count": 4,
            "labels": _A40,
            "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "4"},
        },
        {"name": "cpu", "count": 2, "allocatable": {"cpu": "64", "memory": "256Gi"}},
    ],
    "sharing": [
        _MGPU,
        _MIG,
        _SHARED,
        {
            "name": "a40",
            "count": 1,
            "labels": _A40,
            "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "4"},
        },
    ],
    "small": [{"name": "a100", "count": 1, **_a100(2)}],
    "large": [{"name": "a100", "count": 1000, **_a100(8)}],
}


def load_nodes(source: str | Path) -> list[Object]:
    """Complete Node objects of a preset, or of the nodes file at a path.

    Raises:
        Invalid: no such preset or file, or naming every faulty field of the file.
    """
    entries = PRESETS.get(str(source))
    if entries is not None:
        return nodes_from({"nodes": entries})
    try:
        text = read_file(Path(source).expanduser(), _LARGEST).decode()
    except FileNotFoundError:
        raise Invalid.at(
            "", f"{str(source)!r} is neither a preset ({', '.join(PRESETS)}) nor the path of a nodes file"
        ) from None
    except (OSError, ValueError) as error:
        raise Invalid.at("", f"the nodes file {str(source)!r} cannot be read: {error}") from None
    try:
        return parse_nodes(text)
    except Invalid as invalid:
        if any(not fault.path for fault in invalid.errors):
            raise Invalid.at("", f"{source}: {invalid}") from None
        raise
