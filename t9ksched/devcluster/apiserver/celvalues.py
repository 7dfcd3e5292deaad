"""What the parts of a rule in the Common Expression Language compute: values, operators, field access and macros."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Scope = Mapping[str, Any]
Node = Callable[[Scope], Any]


class EvaluationError(ValueError):
    """The rule cannot be evaluated on this value: no such key, wrong type, division by zero."""


class NoSuchKey(EvaluationError):
    """A field that a value does not have; `where` is the part of the rule that asked for it."""

    def __init__(self, name: str, where: Node) -> None:
        super().__init__(f"no such key: {name}")
        self.where = where


class Methods:
    """A value of a library of Kubernetes: it is asked by its methods alone."""

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        """The value of a method, one of `METHODS`.

        Raises:
            EvaluationError: it has no such method, or none with such arguments.
        """
        raise EvaluationError("no such overload")


METHODS: Final = frozenset({"group", "resource", "subresource", "namespace", "name", "check", "allowed"})
"""Those of the library of authorization."""


def truth_of(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("no such overload")
    return value


def text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError("no such overload")
    return value


def call_method(value: Any, name: str, arguments: list[Any]) -> Any:
    if not isinstance(value, Methods):
        raise EvaluationError("no such overload")
    return value.call(name, arguments)


def size_of(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise EvaluationError("no such overload")
    return len(value)


def convert(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError):
        raise EvaluationError(f"cannot convert {value!r}") from None


def variable(name: str) -> Node:
    def read(scope: Scope) -> Any:
        if name not in scope:
            raise EvaluationError(f"undeclared reference to '{name}'")
        return scope[name]

    return read


def field_of(node: Node, name: str) -> Node:
    def read(scope: Scope) -> Any:
        value = node(scope)
        if not isinstance(value, dict) or name not in value:
            raise NoSuchKey(name, read)
        return value[name]

    return read


def index(node: Node, index: Node) -> Node:
    def read(scope: Scope) -> Any:
        value, key = node(scope), index(scope)
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            raise EvaluationError(f"no such key: {key}") from None

    return read


def has_field(node: Node, scope: Scope) -> bool:
    """Whether the last field of the path is there; one before it that is missing is an error, as on a real server."""
    try:
        node(scope)
    except NoSuchKey as missing:
        if missing.where is not node:
            raise
        return False
    return True


def either(left: Node, right: Node) -> Node:
    def test(scope: Scope) -> bool:
        try:
            if truth_of(left(scope)):
                return True
        except EvaluationError:
            if truth_of(right(scope)):
                return True
            raise
        return truth_of(right(scope))

    return test


def both(left: Node, right: Node) -> Node:
    def test(scope: Scope) -> bool:
        try:
            if not truth_of(left(scope)):
                return False
        except EvaluationError:
            if not truth_of(right(scope)):
                return False
            raise
        return truth_of(right(scope))

    return test


def several(value: Any) -> Any:
    if not isinstance(value, list | dict):
        raise EvaluationError("no such overload")
    return value


def divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise EvaluationError("division by zero")
    return int(left / right) if isinstance(left, int) and isinstance(right, int) else left / right


OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": divide,
    "%": lambda left, right: left - right * divide(left, right),
    "in": lambda left, right: left in several(right),
}
TEXT: Final[dict[str, Callable[[str, str], bool]]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, other: other in text,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}


def binary(operator: str, left: Node, right: Node) -> Node:
    if operator == "==":
        return lambda scope: left(scope) == right(scope)
    if operator == "!=":
        return lambda scope: left(scope) != right(scope)
    compute = OPERATORS[operator]

    def run(scope: Scope) -> Any:
        try:
            return compute(left(scope), right(scope))
        except TypeError:
            raise EvaluationError("no such overload") from None

    return run


def macro(name: str, target: Node, variable: str, body: Node) -> Node:
    def run(scope: Scope) -> Any:
        values = target(scope)
        if not isinstance(values, list | dict):
            raise EvaluationError("no such overload")
        if name in ("all", "exists"):
            return decided(values, lambda value: body({**scope, variable: value}), until=name == "exists")
        results = [(value, body({**scope, variable: value})) for value in values]
        if name == "map":
            return [result for _, result in results]
        if name == "filter":
            return [value for value, result in results if truth_of(result)]
        return sum(truth_of(result) for _, result in results) == 1

    return run


def decided(values: Any, test: Callable[[Any], Any], *, until: bool) -> bool:
    """What the first test that gives `until` decides, else the opposite; an error counts only if none decides."""
    failed: EvaluationError | None = None
    for value in values:
        try:
            if truth_of(test(value)) is until:
                return until
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return not until
