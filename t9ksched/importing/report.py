"""What an import says: a line for each field of each object, and the faults that prevent it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from t9ksched.model.errors import Invalid
from t9ksched.model.names import SCHEDULER_GROUP
from t9ksched.model.queue import parse_queue_spec, validate_queue_name

Outcome = Literal["same", "changed", "none"]
"""Whether a field has a counterpart of the same meaning, one of another, or none."""
Json = dict[str, Any]
ORIGIN_LABEL: Final = f"{SCHEDULER_GROUP}/imported-from"
"""On queues that an import made; its value is the scheduler they come from."""


@dataclass(frozen=True, slots=True)
class Line:
    """A field of an object: `here` says what it became, or what to do instead."""

    place: str
    object: str
    path: str
    value: Any
    outcome: Outcome
    here: str

    def to_dict(self) -> Json:
        """As JSON."""
        return {
            "place": self.place,
            "object": self.object,
            "path": self.path,
            "value": self.value,
            "outcome": self.outcome,
            "here": self.here,
        }


@dataclass(frozen=True, slots=True)
class JobPriority:
    """A class of priorities of jobs and the number that takes its place: `spec.priority`, 0 to 100."""

    name: str
    value: int
    priority: int

    def to_dict(self) -> Json:
        """As JSON."""
        return {"class": self.name, "value": self.value, "priority": self.priority}


@dataclass(frozen=True, slots=True)
class Choices:
    """What whoever imports decides.

    Attributes:
        own: quotas are what a queue can count on, not the most that it may hold with what it borrows.
        together: a queue with several kinds of nodes stays one queue, whose quota is the sum.
        names: other names for queues, by the name that they would have.
        without: queues that are left out, by that name.
    """

    own: bool = False
    together: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()


@dataclass(slots=True)
class Report:
    """Collects what an import makes and says. Nothing may be written while there are `faults`."""

    system: str
    choices: Choices
    queues: dict[str, Json] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    priorities: list[JobPriority] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _origins: dict[str, str] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)

    def queue(self, name: str, spec: Json, origin: str) -> str:
        """Add a queue; the name that it gets, empty if it is left out. `origin` is the object it comes from."""
        self._named.add(name)
        if name in self.choices.without:
            return ""
        given = self.choices.names.get(name, name)
        try:
            validate_queue_name(given)
        except Invalid as error:
            text = f"{origin}: metadata.name: {error.errors[0].message}; give it another: --rename {name}=NAME"
            self.faults.append(text)
            return ""
        if given in self.queues:
            other = self._origins[given]
            self.faults.append(
                f"{origin}: metadata.name: the queue {given!r} comes from {other} too; --rename {name}=NAME"
            )
            return ""
        try:
            spec = parse_queue_spec(spec).to_dict()
        except Invalid as error:
            self.faults += [f"{origin}: {fault}" for fault in error.errors]
            return ""
        self._origins[given] = origin
        self.queues[given] = {"name": given, "labels": {ORIGIN_LABEL: self.system}, "spec": spec}
        return given

    def unused_names(self) -> list[str]:
        """Names that the choices speak of and no queue has."""
        return sorted((self.choices.names.keys() | self.choices.without) - self._named)


def scaled(values: set[int]) -> dict[int, int]:
    """Priorities from 0 to 100 in the order of `values`. Those that are all in that range stay; else 0 and less become
    0, and the others follow in equal steps.
    """
    if all(0 <= value <= 100 for value in values):
        return {value: value for value in values}
    above = sorted(value for value in values if value > 0)
    step: Callable[[int], int] = (
        (lambda rank: 10 * rank) if len(above) <= 10 else (lambda rank: max(1, rank * 100 // len(above)))
    )
    found = {value: step(rank) for rank, value in enumerate(above, start=1)}
    return found | {value: 0 for value in values if value <= 0}
