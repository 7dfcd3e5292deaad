"""How amounts and counts are written in reasons."""

from functools import lru_cache
from typing import Final

from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.quantity import from_units
from t9ksched.model.resources import is_card_resource
from t9ksched.model.volumes import ATTACH_PREFIX

_ASKED: Final = 1 << 14
"""So many amounts are kept as written, so that thousands of unlike gangs are told other numbers at little cost."""


def amount(resource: str, units: int) -> str:
    """An amount as people write it: `8 × nvidia.com/gpu`, `16Gi memory`, `2.5 cards`, `3 volumes of a.driver`."""
    if resource.startswith(ATTACH_PREFIX):
        return f"{counted(units, 'volume')} of {resource.removeprefix(ATTACH_PREFIX)}"
    if resource == "pods" or is_card_resource(resource) or "/" in resource:
        return f"{units} × {resource}"
    return f"{from_units(resource, units)} {resource}"


def matching(count: int) -> str:
    """`1 node matches`, `14 nodes match`."""
    return "1 node matches" if count == 1 else f"{count} nodes match"


def wants(pod_class: PodClass) -> str:
    """What one pod asks for: its extended resources, or cpu and memory when it has none; volumes and host ports."""
    return _written(pod_class.requests, pod_class.host_ports)


@lru_cache(_ASKED)
def _written(requests: tuple[tuple[str, int], ...], ports: tuple[HostPort, ...]) -> str:
    asked = [(name, units) for name, units in requests if name != "pods" and not name.startswith(ATTACH_PREFIX)]
    special = [(name, units) for name, units in asked if "/" in name]
    volumes = [(name, units) for name, units in requests if name.startswith(ATTACH_PREFIX)]
    told = [amount(name, units) for name, units in (*(special or asked), *volumes)]
    if ports:
        told.append(f"host port{'s' if len(ports) > 1 else ''} {', '.join(str(one.port) for one in ports)}")
    return " and ".join(told) or "a pod slot"


def counted(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
