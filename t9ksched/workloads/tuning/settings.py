"""Tuner and assessor of an experiment, as `spec.tuner` and `spec.assessor` name them.

Names and arguments are those of NNI. What is not run here is refused by name, with what is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from t9ksched.model.errors import FieldWarning
from t9ksched.workloads.fields import Field
from t9ksched.workloads.tuning.space import Space, read_json

RANDOM, GRID, BATCH, TPE = "Random", "GridSearch", "Batch", "TPE"
TUNERS: Final = (RANDOM, GRID, BATCH, TPE)
MEDIAN, CURVE = "Medianstop", "Curvefitting"
ASSESSORS: Final = (MEDIAN, CURVE)
_OTHER_TUNERS: Final = ("Anneal", "Evolution", "MetisTuner", "GPTuner", "PPOTuner", "PBTTuner")
_OTHER_ADVISORS: Final = ("Hyperband", "BOHB")
_GRID_METHODS: Final = "choice, randint and quniform"

_MODE: Final = "optimize_mode"
_LIAR, _PARALLEL = "constant_liar_type", "parallel_optimize"
LIARS: Final = ("min", "max", "mean")
_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    RANDOM: frozenset({_MODE, _LIAR, _PARALLEL, "seed"}),
    GRID: frozenset({_MODE}),
    BATCH: frozenset({_MODE, "population_size"}),
    TPE: frozenset({_MODE, _LIAR, _PARALLEL, "seed"}),
    MEDIAN: frozenset({_MODE, "start_step"}),
    CURVE: frozenset({_MODE, "epoch_num", "start_step", "threshold", "gap"}),
}
_VAIN: Final[Mapping[str, Mapping[str, str]]] = {
    RANDOM: dict.fromkeys((_LIAR, _PARALLEL), "each trial is drawn by chance, whatever others run"),
    BATCH: {"population_size": "each option is tried once"},
}
"""Arguments that the platform publishes for a tuner which has no use for them, and why."""


class Tuner(msgspec.Struct, frozen=True):
    """What suggests parameters.

    Attributes:
        seed: the user's own part of the seed.
        parallel: whether trials that still run count, so that others are tried meanwhile.
        liar: what is taken for their result, of the results so far: one of `LIARS`; empty: that they are bad.
    """

    name: str = RANDOM
    maximize: bool = True
    seed: int = 0
    parallel: bool = True
    liar: str = ""


class Assessor(msgspec.Struct, frozen=True):
    """What stops trials: from the step `start` on, each `gap` steps.

    Attributes:
        epochs: the step at which a curve is foretold.
        threshold: the part of the best result that a trial must be foretold to reach.
    """

    name: str
    maximize: bool
    start: int = 0
    epochs: int = 20
    threshold: float = 0.95
    gap: int = 1


class _Arguments(msgspec.Struct, frozen=True):
    """The `classArgs` of an algorithm: a JSON object as text, or a mapping."""

    at: Field
    values: Mapping[str, Any]

    @classmethod
    def read(cls, at: Field, name: str) -> "_Arguments":
        values: Mapping[str, Any]
        values = (read_json(at, at.value) or {}) if isinstance(at.value, str) and at.value else {}
        if not isinstance(at.value, str):
            values = at.mapping()
        known = _ARGUMENTS[name]
        for key in values:
            if key not in known:
                at.fault(f"{str(key)[:63]!r} is no argument of {name}: these are {', '.join(sorted(known))}")
        return cls(at, values)

    def maximize(self, default: bool = True) -> bool:
        word = self.values.get(_MODE, "maximize" if default else "minimize")
        if word not in ("maximize", "minimize"):
            self.at.fault(f"{_MODE} is {str(word)[:63]!r}: use maximize or minimize")
        return bool(word == "maximize")

    def number(self, key: str, default: float, low: float, *, whole: bool = True) -> float:
        found = self.values.get(key, default)
        right = isinstance(found, int if whole else int | float) and not isinstance(found, bool)
        if not right or not low <= found <= 1e9:
            self.at.fault(f"{key} is {str(found)[:63]!r}: use a {'whole ' if whole else ''}number from {low:g} on")
            return default
        return float(found)


def read_tuner(spec: Field, space: Space) -> Tuner:
    """`spec.tuner`; Random if nothing is named."""
    asked, advisor = spec["tuner"], spec["advisor"]
    place = asked["builtinTunerName"]
    name = place.text(RANDOM) or RANDOM
    if not asked.present and advisor.present:
        who = advisor["builtinAdvisorName"]
        what = who.text()
        who.fault(
            f"{what!r} is an advisor, which is not run here ({', '.join(_OTHER_ADVISORS)} are none of ours):"
            f" use tuner with one of {', '.join(TUNERS)}"
        )
        return Tuner()
    if name not in TUNERS:
        known = "is not run here" if name in _OTHER_TUNERS else "is unknown"
        place.fault(f"{name!r} {known}: use one of {', '.join(TUNERS)}")
        return Tuner()
    _check_methods(spec, space, name)
    arguments = _Arguments.read(asked["classArgs"], name)
    liar, parallel = arguments.values.get(_LIAR, ""), arguments.values.get(_PARALLEL, True)
    if _LIAR in arguments.values and liar not in LIARS:
        arguments.at.fault(f"{_LIAR} is {str(liar)[:63]!r}: use min, max or mean")
    if not isinstance(parallel, bool):
        arguments.at.fault(f"{_PARALLEL} is {str(parallel)[:63]!r}: use true or false")
    return Tuner(name, arguments.maximize(), int(arguments.number("seed", 0, 0)), parallel is True, str(liar))


def vain_arguments(spec: Field) -> Iterator[FieldWarning]:
    """Arguments of the tuner of a sound spec that have no effect."""
    tuner = spec["tuner"]
    name, place = tuner["builtinTunerName"].text(RANDOM) or RANDOM, tuner["classArgs"]
    why = _VAIN.get(name, {})
    values = _Arguments.read(place, name).values if why else {}
    for key in sorted(why.keys() & values.keys()):
        yield FieldWarning(place.path, f"{key} has no effect with {name}: {why[key]}")


def _check_methods(spec: Field, space: Space, name: str) -> None:
    place = spec["searchSpace"]
    for parameter in space:
        if name == GRID and parameter.points is None:
            place.fault(
                f"the parameter {parameter.name!r} has no grid: {GRID} takes {_GRID_METHODS}, not {parameter.method}"
            )
    if name == BATCH and (len(space) != 1 or space[0].method != "choice") and space:
        place.fault(f"{BATCH} takes one parameter of the _type choice, and no other")


def read_assessor(spec: Field, tuner: Tuner) -> Assessor | None:
    """`spec.assessor`; None if it names none, or without a tuner."""
    asked = spec["assessor"]
    asked.mapping()
    if not asked.present or not spec["tuner"].present:
        return None
    name = asked["builtinAssessorName"].choice(ASSESSORS, MEDIAN)
    arguments = _Arguments.read(asked["classArgs"], name)
    maximize = arguments.maximize(tuner.maximize)
    if name == MEDIAN:
        return Assessor(name, maximize, int(arguments.number("start_step", 0, 0)))
    return Assessor(
        name,
        maximize,
        int(arguments.number("start_step", 6, 1)),
        int(arguments.number("epoch_num", 20, 1)),
        arguments.number("threshold", 0.95, 0, whole=False),
        int(arguments.number("gap", 1, 1)),
    )
