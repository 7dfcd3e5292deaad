"""Objects of the API as the state reads them, and how their times, names and conditions are read."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from t9ksched.model import names
from t9ksched.model.errors import Invalid, shown
from t9ksched.model.pod import Metadata

HOSTNAME: Final = "kubernetes.io/hostname"
_DIGITS: Final = re.compile(r"(\d+)")


@lru_cache(maxsize=4096)
def nanoseconds(timestamp: str) -> int:
    """A Kubernetes timestamp as nanoseconds since the epoch; 0 for an empty one."""
    if not timestamp:
        return 0
    return int(datetime.fromisoformat(timestamp).timestamp()) * 1_000_000_000


def timestamp(ns: int) -> str | None:
    """Nanoseconds since the epoch as a Kubernetes timestamp; None for 0."""
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ns else None


def ran_since(status: Mapping[str, Any]) -> int:
    """Since when the containers of a pod run, all of them, by its node's clock, in nanoseconds since the epoch; 0 while
    one has not begun. Restarts begin nothing anew: of a container that was restarted more than once only the start of
    its pod is still known.
    """
    times = []
    for each in status.get("containerStatuses") or ():
        restarts, state = int(each.get("restartCount") or 0), each.get("state") or {}
        if restarts == 1:
            state = each.get("lastState") or {}
        now = state.get("running") or state.get("terminated") or {}
        times.append(str((status if restarts > 1 else {}).get("startTime") or now.get("startedAt") or ""))
    return max(map(nanoseconds, times)) if times and all(times) else 0


@lru_cache(maxsize=16384)
def natural(name: str) -> tuple[object, ...]:
    """Sorts `worker-10` behind `worker-2`."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(name) if part)


def levels(annotation: str) -> tuple[str, ...]:
    """Node labels that the annotation names, narrow to wide, separated by commas; the node itself without any."""
    return tuple(key for part in annotation.split(",") if (key := part.strip())) or (HOSTNAME,)


def check_levels(annotation: str) -> None:
    """See that the annotation names labels of nodes, unless it is empty.

    Raises:
        Invalid: it names none.
    """
    if annotation.strip() and not annotation.replace(",", " ").strip():
        raise Invalid.at(
            f"metadata.annotations[{names.TOPOLOGY_KEY_ANNOTATION}]",
            f"{shown(annotation)} names no label of nodes: name some, narrow to wide and separated by commas, such as"
            f" {HOSTNAME}, or remove the annotation",
        )


def is_true(status: Mapping[str, object], kind: str) -> bool:
    """Whether a status has this condition, and it is true."""
    return true_condition(status, kind) is not None


def true_condition(status: Mapping[str, object], kind: str) -> Mapping[str, object] | None:
    """The condition of that type, while it is true."""
    conditions = status.get("conditions")
    found = (c for c in (conditions if isinstance(conditions, list) else ()) if isinstance(c, dict))
    return next((c for c in found if c.get("type") == kind and c.get("status") == "True"), None)


class PodGroupObject(msgspec.Struct, gc=False, rename="camel"):
    """A PodGroup as the API server has it; spec and status stay plain."""

    metadata: Metadata
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class JobObject(msgspec.Struct, gc=False, rename="camel"):
    """A job of any kind, as far as lists of jobs show it."""

    metadata: Metadata
    api_version: str = ""
    kind: str = ""
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)
