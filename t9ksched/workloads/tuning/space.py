"""The search space: hyperparameters, each with the method by which its values are drawn, from `spec.searchSpace`.

The methods and their arguments are those of NNI. Quantised values (`q…`) are the multiples of the step nearest to what
is drawn, within the bounds where the method has any.
"""

import json
import math
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from t9ksched.workloads.fields import Field

Value = str | int | float | bool
MOST_PARAMETERS: Final = 64
_MOST_TEXT: Final = 64 * 1024
_MOST_OPTIONS: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_./]{0,62}")
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "randint": ("lower", "upper"),
    "uniform": ("low", "high"),
    "quniform": ("low", "high", "q"),
    "loguniform": ("low", "high"),
    "qloguniform": ("low", "high", "q"),
    "normal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "lognormal": ("mu", "sigma"),
    "qlognormal": ("mu", "sigma", "q"),
}
METHODS: Final = ("choice", *_ARGUMENTS)


class Parameter(msgspec.Struct, frozen=True):
    """One hyperparameter: its options if the method is `choice`, else the arguments of the method in its order."""

    name: str
    method: str
    values: tuple[Any, ...]

    @property
    def step(self) -> float:
        """The step of a quantised method, 0 of the others."""
        return float(self.values[-1]) if self.method.startswith("q") else 0.0

    @property
    def bounded(self) -> bool:
        """Whether the method has bounds."""
        return "uniform" in self.method

    def drawn(self, chance: random.Random) -> Value:
        """A value drawn at random."""
        if self.method == "choice":
            option: Value = self.values[chance.randrange(len(self.values))]
            return option
        first, second = self.values[:2]
        if self.method == "randint":
            return chance.randrange(first, second)
        if self.method.endswith("loguniform"):
            return self.quantised(math.exp(chance.uniform(math.log(first), math.log(second))))
        if self.method.endswith("uniform"):
            return self.quantised(chance.uniform(first, second))
        number = chance.gauss(first, second)
        return self.quantised(exponential(number) if "log" in self.method else number)

    def quantised(self, number: float) -> float:
        """The number as the method gives it: on its steps, within its bounds."""
        if self.step:
            number = round(number / self.step) * self.step
        if self.bounded:
            number = min(max(number, float(self.values[0])), float(self.values[1]))
        return float(f"{number:.12g}")  # without the noise of binary fractions

    @property
    def points(self) -> int | None:
        """How many values a grid has for it; None for a method without a grid."""
        if self.method == "choice":
            return len(self.values)
        if self.method == "randint":
            return int(self.values[1] - self.values[0])
        if self.method == "quniform":
            return len(self._steps())
        return None

    def point(self, index: int) -> Value:
        """The value of the grid with that index."""
        if self.method == "choice":
            option: Value = self.values[index]
            return option
        if self.method == "randint":
            return int(self.values[0]) + index
        return self.quantised(self._steps()[index] * self.step)

    def _steps(self) -> range:
        low, high, step = (float(each) for each in self.values)
        return range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)


Space = tuple[Parameter, ...]


def exponential(number: float) -> float:
    """E to the number; the largest float instead of one that is too large."""
    try:
        return math.exp(number)
    except OverflowError:
        return 1e308


def read_space(field: Field) -> Space:
    """The search space, a JSON object as text; its faults name the parameter."""
    text = field.text()
    if not text:
        if isinstance(field.value, str) or not field.present:
            field.fault('is missing: write a JSON object such as {"lr": {"_type": "choice", "_value": [0.1, 0.01]}}')
        return ()
    asked = read_json(field, text)
    if asked is None:
        return ()
    if not asked:
        field.fault("has no parameter: name at least one")
    if len(asked) > MOST_PARAMETERS:
        field.fault(f"has {len(asked)} parameters: use at most {MOST_PARAMETERS}")
        return ()
    found = (_read_parameter(field, name, entry) for name, entry in asked.items())
    return tuple(each for each in found if each is not None)


def read_json(field: Field, text: str) -> dict[str, Any] | None:
    """A JSON object that a field has as text; None after a fault."""
    if len(text) > _MOST_TEXT:
        field.fault(f"has {len(text)} characters: use at most {_MOST_TEXT}")
        return None
    try:
        found = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        field.fault(f"is no JSON object: {error}"[:300])
        return None
    if not isinstance(found, dict):
        field.fault("is no JSON object: write {…}")
        return None
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, _ in pairs if [each for each, _ in pairs].count(name) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return found


def _read_parameter(field: Field, name: str, entry: Any) -> Parameter | None:
    """One parameter; None after a fault."""

    def fault(message: str) -> None:
        field.fault(f"the parameter {name[:63]!r} {message}")

    if not _NAME.fullmatch(name):
        fault("has a name that is none: use letters, digits, _, -, . and /, at most 63")
        return None
    if not isinstance(entry, dict) or entry.keys() != {"_type", "_value"}:
        fault("needs the keys _type and _value, and no other")
        return None
    method, values = entry["_type"], entry["_value"]
    if method not in METHODS:
        fault(f"has the unknown _type {str(method)[:63]!r}: use one of {', '.join(METHODS)}")
        return None
    if not isinstance(values, list):
        fault("needs a list in _value")
        return None
    wrong = _wrong_options(values) if method == "choice" else _wrong_numbers(method, values)
    if wrong:
        fault(wrong)
        return None
    return Parameter(name, method, tuple(values))


def _wrong_options(values: list[Any]) -> str:
    if not values or len(values) > _MOST_OPTIONS:
        return f"has {len(values)} options: give 1 to {_MOST_OPTIONS}"
    if not all(isinstance(each, str | int | float) for each in values):
        return "has an option that is neither a number nor a text"
    if len({(isinstance(each, bool), each) for each in values}) != len(values):
        return "has an option twice"
    return ""


def _wrong_numbers(method: str, values: list[Any]) -> str:
    names = _ARGUMENTS[method]
    if len(values) != len(names) or not all(map(_is_number, values)):
        return f"needs the numbers [{', '.join(names)}] in _value for {method}"
    checks: tuple[tuple[bool, Callable[[], bool], str], ...] = (
        ("mu" not in names, lambda: values[0] < values[1], f"needs {names[0]} below {names[1]}"),
        (method == "randint", lambda: all(isinstance(each, int) for each in values), "needs whole numbers for randint"),
        (method.endswith("loguniform"), lambda: values[0] > 0, "needs a low above 0 for a logarithm"),
        ("mu" in names, lambda: values[1] > 0, "needs a sigma above 0"),
        (names[-1] == "q", lambda: values[-1] > 0, "needs a step q above 0"),
        (method == "quniform", lambda: (values[1] - values[0]) / values[-1] <= 1e6, "has more than a million steps"),
    )
    return next((message for applies, holds, message in checks if applies and not holds()), "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300
