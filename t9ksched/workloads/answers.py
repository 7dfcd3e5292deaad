"""What a workload is asked to learn whether anybody uses it, and how its answers are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """Where the Jupyter of a workload can be asked. `prefix` is the path of its server, with slashes around."""

    host: str
    port: int
    prefix: str


@dataclass(frozen=True, slots=True)
class Activity:
    """What a workload answered.

    Attributes:
        last: when it was last used; None if that is not known.
        busy: what works at this moment, empty if nothing does.
        reason, message: why it is not known.
    """

    last: datetime | None = None
    busy: str = ""
    reason: str = ""
    message: str = ""


def read_jupyter(status: Any, kernels: Any, terminals: Any) -> Activity:
    """The answers of Jupyter's `api/status`, `api/kernels` and `api/terminals`."""
    if not isinstance(status, Mapping) or not isinstance(kernels, list):
        return Activity(reason="NotJupyter", message="what answers at its address does not speak as Jupyter does")
    listed = (*kernels, *(terminals if isinstance(terminals, list) else ()))
    parts = [each for each in listed if isinstance(each, Mapping)]
    busy = sum(1 for each in parts if each.get("execution_state") == "busy")
    times = [moment(each.get("last_activity")) for each in (status, *parts)]
    last = max((time for time in times if time is not None), default=None)
    if last is None and not busy:
        return Activity(reason="NotJupyter", message="Jupyter does not say when it was last used")
    return Activity(last, f"{busy} of its kernels {'works' if busy == 1 else 'work'}" if busy else "")


def moment(text: Any) -> datetime | None:
    """A time as RFC 3339 writes it, without a zone in UTC; None for anything else."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
