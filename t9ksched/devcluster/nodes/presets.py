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
