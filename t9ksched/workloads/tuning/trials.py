"""A trial of an experiment: what is remembered of it in `status.trials`, and what its program has reported.

A trial is on record before anything of it is made. Results that a program sends while it runs stand in an annotation of
the trial's job; at its end the last words of the program count where nothing was sent.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from t9ksched.model.names import PLATFORM_GROUP
from t9ksched.workloads.actions import Object, metadata

RESULTS_ANNOTATION: Final = f"{PLATFORM_GROUP}/trial-results"
"""On a trial's job: what its program has sent, as JSON."""
MOST_STEPS: Final = 1000
"""Intermediate results of one trial that are kept."""
Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Stopped"]
LIVE: Final = ("Pending", "Running")


@dataclass(frozen=True, slots=True)
class Results:
    """What the program of a trial has sent: intermediate results by step, and the final one."""

    steps: tuple[tuple[int, float], ...] = ()
    final: float | None = None

    @property
    def value(self) -> float | None:
        """The result of a trial that has ended: the final one, else the last."""
        return self.final if self.final is not None else self.steps[-1][1] if self.steps else None

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> "Results":
        """Those on record with the trial's job; none where somebody wrote something else there."""
        try:
            raw = json.loads((metadata(job).get("annotations") or {}).get(RESULTS_ANNOTATION) or "{}")
            steps = tuple((int(step), float(value)) for step, value in raw.get("steps") or ())
            final = raw.get("final")
            results = cls(steps, None if final is None else float(final))
        except (ValueError, TypeError, AttributeError):
            return cls()
        return results if all(map(math.isfinite, results._numbers())) else cls()

    def _numbers(self) -> list[float]:
        return [value for _, value in self.steps] + ([] if self.final is None else [self.final])

    def with_step(self, step: int, value: float) -> "Results":
        """With another intermediate result; one of the same step is replaced."""
        steps = {**dict(self.steps), step: value}
        return replace(self, steps=tuple(sorted(steps.items())))

    def written(self) -> str:
        """For the annotation."""
        final = {} if self.final is None else {"final": self.final}
        return json.dumps({"steps": [list(each) for each in self.steps], **final}, separators=(",", ":"))


def result_in(message: str) -> float | None:
    """The result that a program wrote as its last words: a number, or a JSON object with `value` or `default`."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        found = found.get("value", found.get("default"))
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


@dataclass(frozen=True, slots=True)
class Trial:
    """What is remembered of a trial.

    Attributes:
        value: its result; of one that was stopped, its last intermediate one.
        step: the step of that intermediate result, of one that was stopped.
        message: why it failed or was stopped.
    """

    number: int
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    phase: Phase = "Pending"
    value: float | None = None
    step: int | None = None
    message: str = ""
    started: str = ""
    ended: str = ""

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return self.phase in LIVE

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "Trial":
        """From the experiment's status."""
        return cls(
            number=int(raw["number"]),
            name=str(raw["name"]),
            parameters=raw.get("parameters") or {},
            phase=raw.get("phase", "Pending"),
            value=raw.get("value"),
            step=raw.get("step"),
            message=raw.get("message", ""),
            started=raw.get("startTime", ""),
            ended=raw.get("completionTime", ""),
        )

    def write(self) -> Object:
        """For the status; what there is not is left out."""
        raw: Object = {
            "number": self.number,
            "name": self.name,
            "parameters": dict(self.parameters),
            "phase": self.phase,
        }
        more = {
            "value": self.value,
            "step": self.step,
            "message": self.message or None,
            "startTime": self.started or None,
            "completionTime": self.ended or None,
        }
        return raw | {key: each for key, each in more.items() if each is not None}


def best_of(trials: Sequence[Trial], *, maximize: bool) -> Trial | None:
    """The trial with the best result, the first of equal ones; None if none succeeded."""
    done = [each for each in trials if each.phase == "Succeeded" and each.value is not None]
    sign = 1.0 if maximize else -1.0
    return max(done, key=lambda each: (sign * (each.value or 0.0), -each.number), default=None)
