"""The rules for `resources` of a container: names, signs, limits against requests, whole numbers for devices."""

from functools import lru_cache
from typing import Any, Final

from t9ksched.devcluster.apiserver import names
from t9ksched.devcluster.apiserver.status import Cause, bad_value, required
from t9ksched.model.quantity import parse

_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def _native(name: str) -> bool:
    return name in _CONTAINER or name.startswith("hugepages-")


def _overcommits(name: str) -> bool:
    return name in _CONTAINER


def amounts_causes(amounts: dict[str, str], root: str, *, container: bool = True) -> list[Cause]:
    """The faults of a map from resource name to quantity."""
    causes: list[Cause] = []
    for name, text in amounts.items():
        field = f"{root}[{name}]"
        if fault := names.label_key_fault(name):
            causes.append(bad_value(field, name, fault))
        elif container and not _native(name) and "/" not in name:
            causes.append(bad_value(field, name, "must be a standard resource type or fully qualified"))
            causes.append(bad_value(field, name, "must be a standard resource for containers"))
        value = parse(text)
        if value < 0:
            causes.append(bad_value(field, text, "must be greater than or equal to 0"))
        elif "/" in name and value.denominator != 1:
            causes.append(bad_value(field, text, "must be an integer"))
    return causes


Amounts = tuple[tuple[str, str], ...]


def resource_causes(resources: dict[str, Any], root: str) -> list[Cause]:
    """The faults of a container's requests and limits together."""
    limits = tuple((resources.get("limits") or {}).items())
    requests = tuple((resources.get("requests") or {}).items())
    return list(_causes(limits, requests, root)) if limits or requests else []


@lru_cache(maxsize=1024)
def _causes(limited: Amounts, requested: Amounts, root: str) -> tuple[Cause, ...]:
    """The same, kept for the many pods that are alike."""
    limits, requests = dict(limited), dict(requested)
    causes = amounts_causes(limits, f"{root}.limits") + amounts_causes(requests, f"{root}.requests")
    for name, text in requests.items():
        if not _native(name) and "/" not in name:
            continue
        limit = limits.get(name)
        if limit is None:
            if not _overcommits(name):
                causes.append(required(f"{root}.limits", "Limit must be set for non overcommitable resources"))
        elif not _overcommits(name) and parse(text) != parse(limit):
            causes.append(bad_value(f"{root}.requests", text, f"must be equal to {name} limit of {limit}"))
        elif parse(text) > parse(limit):
            causes.append(bad_value(f"{root}.requests", text, f"must be less than or equal to {name} limit of {limit}"))
    return tuple(causes)
