"""The spec of a PodGroup: how many members must run together, in which queue, with which priority."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from t9ksched.model.errors import FieldError, Invalid, child, shown
from t9ksched.model.names import DEFAULT_QUEUE
from t9ksched.model.queue import MAX_PRIORITY

TopologyPolicy = Literal["None", "Preferred", "Required"]
TOPOLOGY_POLICIES: Final = ("None", "Preferred", "Required")


@dataclass(frozen=True, slots=True)
class PodGroupSpec:
    """`min_member` defaults to the sum of the role minima, at least 1; an empty queue means `default`."""

    min_member: int = 1
    roles: tuple[tuple[str, int], ...] = ()
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    topology_policy: TopologyPolicy = "None"

    @classmethod
    def parse(cls, raw: object, path: str = "spec") -> "PodGroupSpec":
        """From a PodGroup's spec.

        Raises:
            Invalid: naming every faulty field below `path`.
        """
        if raw is None:
            raw = {}
        if not isinstance(raw, Mapping):
            raise Invalid.at(path, "must be a mapping")
        faults: list[FieldError] = []
        roles = _roles(raw.get("roles"), child(path, "roles"), faults)
        floor = max(1, sum(minimum for _, minimum in roles))
        min_member = _whole(raw.get("minMember"), child(path, "minMember"), floor, 1, 1_000_000, faults)
        priority = _whole(raw.get("priority"), child(path, "priority"), 0, 0, MAX_PRIORITY, faults)
        queue = raw.get("queue") or DEFAULT_QUEUE
        if not isinstance(queue, str):
            faults.append(FieldError(child(path, "queue"), "must be the name of a queue"))
        topology = raw.get("topologyPolicy") or "None"
        if topology not in TOPOLOGY_POLICIES:
            known = ", ".join(TOPOLOGY_POLICIES)
            faults.append(
                FieldError(child(path, "topologyPolicy"), f"{shown(topology)} is unknown: use one of {known}")
            )
        if faults:
            raise Invalid(faults)
        return cls(min_member, roles, queue, priority, cast(TopologyPolicy, topology))


def _whole(value: Any, path: str, default: int, low: int, high: int, faults: list[FieldError]) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        faults.append(FieldError(path, f"{shown(value)} is out of range: use a whole number from {low} to {high}"))
        return default
    return value


def _roles(raw: Any, path: str, faults: list[FieldError]) -> tuple[tuple[str, int], ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        faults.append(FieldError(path, "must be a list of {name, minMember}"))
        return ()
    roles: dict[str, int] = {}
    for index, role in enumerate(raw):
        place = f"{path}[{index}]"
        if not isinstance(role, Mapping) or not isinstance(role.get("name"), str) or not role["name"]:
            faults.append(FieldError(place, "must be a mapping with name and minMember"))
            continue
        if role["name"] in roles:
            faults.append(FieldError(f"{place}.name", f"the role {role['name']!r} is named twice"))
        roles[role["name"]] = _whole(role.get("minMember"), f"{place}.minMember", 0, 0, 1_000_000, faults)
    return tuple(roles.items())
