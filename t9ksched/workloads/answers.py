"""What a workload is asked to learn whether anybody uses it, and how its answers are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

NOT_REACHABLE: Final = "NotReachable"
LOGIN_REQUIRED: Final = "LoginRequired"
NOT_JUPYTER: Final = "NotJupyter"
CLOCK_DIFFERS: Final = "ClockDiffers"
NOT_ASKED_YET: Final = "NotAskedYet"
_PASSING: Final = (NOT_REACHABLE, CLOCK_DIFFERS, NOT_ASKED_YET)


class Question(msgspec.Struct, frozen=True):
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
        at: when it was asked; None counts as now.
    """

    last: datetime | None = None
    busy: str = ""
    reason: str = ""
    message: str = ""
    at: datetime | None = None

    @property
    def known(self) -> bool:
        """Whether it says when the workload was last used."""
        return self.last is not None or bool(self.busy)

    @property
    def passing(self) -> bool:
        """Whether it says nothing now and may later, so that a use that it would tell of may go unseen meanwhile."""
        return self.reason in _PASSING


NOT_YET: Final = Activity(reason=NOT_ASKED_YET, message="it was not asked yet")
"""Of a workload that is going to be asked."""


def read_jupyter(status: Any, kernels: Any, terminals: Any) -> Activity:
    """The answers of Jupyter's `api/status`, `api/kernels` and `api/terminals`."""
    if not isinstance(status, Mapping) or not isinstance(kernels, list):
        return Activity(reason=NOT_JUPYTER, message="what answers at its address does not speak as Jupyter does")
    listed = (*kernels, *(terminals if isinstance(terminals, list) else ()))
    parts = [each for each in listed if isinstance(each, Mapping)]
    busy = sum(1 for each in parts if each.get("execution_state") == "busy")
    times = [moment(each.get("last_activity")) for each in (status, *parts)]
    last = max((time for time in times if time is not None), default=None)
    if last is None and not busy:
        return Activity(reason=NOT_JUPYTER, message="Jupyter does not say when it was last used")
    return Activity(last, f"{busy} of its kernels {'works' if busy == 1 else 'work'}" if busy else "")


def moment(text: Any) -> datetime | None:
    """A time as RFC 3339 writes it, without a zone in UTC; None for anything else."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
