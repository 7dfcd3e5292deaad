"""Search spaces, tuners and assessors: what is drawn, what is refused, and which trials are stopped."""

import json
import random
import sys
from dataclasses import replace
from typing import Any

import pytest

from t9ksched.workloads.fields import Field
from t9ksched.workloads.tuning.assess import stopped
from t9ksched.workloads.tuning.settings import Assessor, Tuner
from t9ksched.workloads.tuning.space import Parameter, read_space
from t9ksched.workloads.tuning.suggest import missing_library, size_of, suggest
from t9ksched.workloads.tuning.trials import Results, Trial, best_of, result_in

EVERY: dict[str, list[Any]] = {
    "choice": [16, "big", True],
    "randint": [1, 4],
    "uniform": [-1, 2],
    "quniform": [2, 10, 5],
    "loguniform": [0.0001, 0.1],
    "qloguniform": [1, 100, 4],
    "normal": [3, 0.5],
    "qnormal": [3, 0.5, 0.25],
    "lognormal": [0, 1],
    "qlognormal": [0, 1, 0.5],
}
SPACE = tuple(Parameter(method, method, tuple(values)) for method, values in EVERY.items())


def space_of(asked: Any) -> tuple[Any, list[str]]:
    field = Field(asked if isinstance(asked, str) else json.dumps(asked), "spec.searchSpace")
    return read_space(field), [str(fault) for fault in field.faults]


def test_every_method_is_read() -> None:
    found, faults = space_of({name: {"_type": name, "_value": values} for name, values in EVERY.items()})
    assert (found, faults) == (SPACE, [])


@pytest.mark.parametrize("name", ["Random", "TPE"])
def test_what_is_drawn_lies_in_the_space_and_is_the_same_each_time(name: str) -> None:
    before: list[Trial] = []
    for number in range(14):
        drawn = suggest(SPACE, Tuner(name), "uid", number, before)
        assert drawn == suggest(SPACE, Tuner(name), "uid", number, before)
        assert drawn != suggest(SPACE, Tuner(name), "other", number, before)
        assert drawn["choice"] in EVERY["choice"]
        assert drawn["randint"] in (1, 2, 3)
        assert -1 <= float(drawn["uniform"]) <= 2
        assert drawn["quniform"] in (2, 5, 10)
        assert 0.0001 <= float(drawn["loguniform"]) <= 0.1
        assert drawn["qloguniform"] == 1 or float(drawn["qloguniform"]) % 4 == 0
        assert float(drawn["qnormal"]) % 0.25 == float(drawn["qlognormal"]) % 0.5 == 0
        assert float(drawn["lognormal"]) > 0
        assert json.loads(json.dumps(drawn)) == drawn
        phase = ("Succeeded", "Failed", "Stopped", "Running")[number % 4]
        before.append(Trial(number, f"t-{number}", drawn, phase, 0.5, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("maximize", [True, False])
def test_tpe_learns_from_the_trials_before(maximize: bool) -> None:
    (space, _), before = space_of({"x": {"_type": "uniform", "_value": [0, 1]}}), []
    for number in range(30):
        drawn = suggest(space, Tuner("TPE", maximize), "uid", number, before)
        value = (1 if maximize else -1) * -abs(float(drawn["x"]) - 0.7)
        before.append(Trial(number, f"t-{number}", drawn, "Succeeded", value))
    late = [abs(float(each.parameters["x"]) - 0.7) for each in before[15:]]
    chance = [abs(random.Random(seed).random() - 0.7) for seed in range(15)]
    assert sum(late) < sum(chance) / 2


def test_trials_that_run_count_as_the_tuner_says() -> None:
    results = [float(number) for number in range(12)]
    done = [
        Trial(number, f"t-{number}", suggest(SPACE, Tuner("Random"), "uid", number, ()), "Succeeded", value)
        for number, value in enumerate(results)
    ]
    runs = Trial(12, "t-12", done[0].parameters, "Running")

    def drawn(*before: Trial, **tuner: Any) -> Any:
        return suggest(SPACE, Tuner("TPE", **tuner), "uid", 13, before)

    assert drawn(*done, runs, parallel=False, liar="max") == drawn(*done, parallel=False)
    for liar, value in (("min", 0.0), ("max", 11.0), ("mean", 5.5)):
        assert drawn(*done, runs, liar=liar) == drawn(*done, replace(runs, phase="Succeeded", value=value))
    assert drawn(*done, runs, liar="max") != drawn(*done, runs, liar="min")
    assert drawn(runs, liar="max") == drawn(runs), "there is no result yet"


def test_a_grid_has_every_point_once() -> None:
    asked = {"a": {"_type": "choice", "_value": ["x", "y"]}, "b": {"_type": "randint", "_value": [0, 3]}}
    space, _ = space_of(asked)
    tuner = Tuner("GridSearch")
    assert size_of(space, tuner) == 6
    points = [tuple(suggest(space, tuner, "uid", number, ()).values()) for number in range(6)]
    assert points == [("x", 0), ("x", 1), ("x", 2), ("y", 0), ("y", 1), ("y", 2)]
    assert size_of(space, Tuner()) is None
    assert [Parameter("q", "quniform", (0, 10, 2.5)).point(at) for at in range(5)] == [0, 2.5, 5, 7.5, 10]


def test_only_tpe_needs_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_library(Tuner("TPE")) == ""
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setattr("t9ksched.workloads.tuning.suggest.find_spec", lambda _: None)
    assert "t9ksched[tune]" in missing_library(Tuner("TPE"))
    assert missing_library(Tuner("Random")) == missing_library(Tuner("GridSearch")) == ""


def parameter(method: str, values: Any) -> dict[str, Any]:
    return {"lr": {"_type": method, "_value": values}}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "is missing: write a JSON object"),
        ("{", "is no JSON object"),
        ("[1]", "is no JSON object: write {…}"),
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ('{"a": {"_type": "uniform", "_value": [0, Infinity]}}', "Infinity is no number"),
        ("{}", "has no parameter"),
        ("[" * 100_000, "use at most 65536"),
        ({f"p{n}": 1 for n in range(65)}, "has 65 parameters: use at most 64"),
        ({"a b": {"_type": "choice", "_value": [1]}}, "'a b' has a name that is none"),
        ({"a": {"_type": "choice"}}, "'a' needs the keys _type and _value"),
        ({"a": 3}, "'a' needs the keys _type and _value"),
        (parameter("layer_choice", ["x"]), "unknown _type 'layer_choice': use one of choice, randint"),
        (parameter("choice", {"x": 1}), "needs a list in _value"),
        (parameter("choice", []), "has 0 options"),
        (parameter("choice", [[1]]), "neither a number nor a text"),
        (parameter("choice", [1, 1.0]), "has an option twice"),
        (parameter("uniform", [1]), "needs the numbers [low, high] in _value for uniform"),
        (parameter("uniform", [1, True]), "needs the numbers [low, high]"),
        (parameter("uniform", [1, 1]), "needs low below high"),
        (parameter("randint", [0.5, 2]), "needs whole numbers"),
        (parameter("loguniform", [0, 1]), "needs a low above 0"),
        (parameter("normal", [0, 0]), "needs a sigma above 0"),
        (parameter("quniform", [0, 1, 0]), "needs a step q above 0"),
        (parameter("quniform", [0, 1, 1e-9]), "more than a million steps"),
    ],
)
def test_what_is_no_space_is_refused(asked: Any, said: str) -> None:
    _, faults = space_of(asked)
    assert len(faults) == 1
    assert faults[0].startswith("spec.searchSpace")
    assert said in faults[0]


def steps(*values: float) -> Results:
    return Results(tuple(enumerate(values, 1)))


def test_median_stop_compares_with_the_averages_of_those_that_ended() -> None:
    assessor, ended = Assessor("Medianstop", maximize=True, start=2), [steps(1, 3, 9), steps(2, 2, 9), steps(4, 4, 9)]
    assert stopped(assessor, steps(0), ended, 9) == ""  # before the step at which it starts
    assert "worse than the median 2" in stopped(assessor, steps(0, 1.9), ended, 9)  # averages 2, 2 and 4
    assert stopped(assessor, steps(0, 2), ended, 9) == ""
    assert stopped(assessor, steps(2.5, 0), ended, 9) == ""  # its best counts
    assert stopped(assessor, steps(0, 1), [], None) == ""
    lower = Assessor("Medianstop", maximize=False, start=2)
    assert stopped(lower, steps(9, 2.1), ended, 1)
    assert stopped(lower, steps(9, 2), ended, 1) == ""
    assert stopped(lower, Results(((1, 9.0), (2, 9.0)), final=9.0), ended, 1) == ""  # it is over anyway


def test_curve_fitting_stops_what_promises_less_than_the_best() -> None:
    def rise(limit: float, count: int) -> Results:
        return steps(*(limit - limit / place for place in range(1, count + 1)))

    assessor = Assessor("Curvefitting", maximize=True, start=6, epochs=50, threshold=0.95)
    assert stopped(assessor, rise(0.5, 5), [], 0.9) == ""  # too early
    assert "is foretold" in stopped(assessor, rise(0.5, 6), [], 0.9)
    assert stopped(assessor, rise(0.95, 6), [], 0.9) == ""
    assert stopped(assessor, rise(0.5, 6), [], None) == ""
    fall = Assessor("Curvefitting", maximize=False, start=6, epochs=50, threshold=0.95)
    assert stopped(fall, steps(*(2 + 1 / place for place in range(1, 7))), [], 1.0)
    assert stopped(fall, steps(*(0.5 + 1 / place for place in range(1, 7))), [], 1.0) == ""
    seldom = Assessor("Curvefitting", maximize=True, start=6, epochs=50, gap=3)
    assert [bool(stopped(seldom, rise(0.5, count), [], 0.9)) for count in (6, 7, 8, 9)] == [True, False, False, True]
    assert stopped(assessor, steps(*[0.1] * 6), [], 0.9)  # a flat curve stays flat


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("0.5", 0.5),
        ('{"value": -2}', -2),
        ('{"default": 1e-3}', 0.001),
        ("", None),
        ("NaN", None),
        ("Infinity", None),
        ("true", None),
        ('{"value": "0.5"}', None),
        ("accuracy 0.5", None),
        ("[" * 5000, None),
    ],
)
def test_last_words_that_are_a_result(said: str, value: float | None) -> None:
    assert result_in(said) == value


def test_results_of_a_job_are_read_as_they_are_written() -> None:
    sent = steps(0.1, 0.2).with_step(2, 0.3).with_step(0, 0.05)
    assert sent.steps == ((0, 0.05), (1, 0.1), (2, 0.3))
    note = "tensorstack.dev/trial-results"
    assert Results.of({"metadata": {"annotations": {note: sent.written()}}}) == sent
    for other in (
        "x",
        "[]",
        '{"steps": 3}',
        '{"steps": [[1]]}',
        '{"final": "x"}',
        '{"final": NaN}',
        '{"steps": [null]}',
    ):
        assert Results.of({"metadata": {"annotations": {note: other}}}) == Results()


def test_the_best_trial_is_the_first_of_the_best() -> None:
    trials = [Trial(at, f"t-{at}", phase="Succeeded", value=value) for at, value in enumerate((1.0, 3.0, 3.0, 0.5))]
    trials += [Trial(4, "t-4", phase="Stopped", value=9.0), Trial(5, "t-5", phase="Failed")]
    assert [getattr(best_of(trials, maximize=up), "number", None) for up in (True, False)] == [1, 3]
    assert best_of(trials[4:], maximize=True) is None
