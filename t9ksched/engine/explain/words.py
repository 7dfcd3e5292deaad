"""How amounts and counts are written in reasons."""

from functools import lru_cache
from typing import Final

from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import from_units
from t9ksched.model.resources import is_card_resource

_ASKED: Final = 1 << 14
"""So many amounts are kept as written, so that thousands of unlike gangs are told other numbers at little cost."""


def amount(resource: str, units: int) -> str:
    """An amount as people write it: `8 × nvidia.com/gpu`, `16Gi memory`, `2.5 cards`."""
    if resource == "pods" or is_card_resource(resource) or "/" in resource:
        return f"{units} × {resource}"
    return f"{from_units(resource, units)} {resource}"


def matching(count: int) -> str:
    """`1 node matches`, `14 nodes match`."""
    return "1 node matches" if count == 1 else f"{count} nodes match"


def wants(pod_class: PodClass) -> str:
    """What one pod asks for: its extended resources, or cpu and memory when it has none."""
    return _written(pod_class.requests)


@lru_cache(_ASKED)
def _written(requests: tuple[tuple[str, int], ...]) -> str:
    asked = [(name, units) for name, units in requests if name != "pods"]
    special = [(name, units) for name, units in asked if "/" in name]
    return " and ".join(amount(name, units) for name, units in special or asked) or "a pod slot"


def counted(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
