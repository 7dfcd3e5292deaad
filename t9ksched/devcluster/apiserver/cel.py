"""The part of the Common Expression Language that validation rules of custom resources use in practice.

Literals, field access, indexing, `has`, `dyn`, comparison, arithmetic, logic, the conditional, `in`, `size`, the text
methods `startsWith`, `endsWith`, `contains`, `matches`, those of `Methods`, and the macros `all`, `exists`,
`exists_one`, `filter`, `map`.
`parse` turns a rule into a program once; whatever it does not know is a `SyntaxFault`, never a wrong answer.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

Scope = Mapping[str, Any]
Node = Callable[[Scope], Any]


class SyntaxFault(ValueError):
    """The rule is not in the part of the language that is known here."""


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


@dataclass(frozen=True, slots=True)
class Program:
    """A parsed rule and the variables it names."""

    evaluate: Node
    names: frozenset[str]


_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+|\d+)u?|(?P<text>r?'(?:[^'\\]|\\.)*'|r?\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<symbol>\|\||&&|==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}]))"
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_LEVELS: Final = (("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))


@lru_cache(maxsize=512)
def parse(rule: str) -> Program:
    """The program of a rule.

    Raises:
        SyntaxFault: it cannot be parsed.
    """
    parser = _Parser(rule)
    node = parser.conditional()
    if parser.peek():
        raise SyntaxFault(f"unexpected {parser.peek()!r} in {rule!r}")
    return Program(node, frozenset(parser.names))


def _tokens(rule: str) -> list[str]:
    found, at = [], 0
    while rule[at:].strip():
        match = _TOKEN.match(rule, at)
        if match is None:
            raise SyntaxFault(f"cannot read {rule[at:]!r}")
        found.append(match[0].strip())
        at = match.end()
    return found


class _Parser:
    def __init__(self, rule: str) -> None:
        self.tokens = _tokens(rule)
        self.at = 0
        self.names: set[str] = set()

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise SyntaxFault(f"expected {wanted or 'more'}, found {token or 'the end'}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def conditional(self) -> Node:
        test = self.either()
        if not self.accept("?"):
            return test
        yes = self.conditional()
        self.take(":")
        no = self.conditional()
        return lambda scope: yes(scope) if _truth(test(scope)) else no(scope)

    def either(self) -> Node:
        node = self.both()
        while self.accept("||"):
            node = _or(node, self.both())
        return node

    def both(self) -> Node:
        node = self.level(0)
        while self.accept("&&"):
            node = _and(node, self.level(0))
        return node

    def level(self, depth: int) -> Node:
        if depth == len(_LEVELS):
            return self.unary()
        node = self.level(depth + 1)
        while self.peek() in _LEVELS[depth]:
            node = _binary(self.take(), node, self.level(depth + 1))
        return node

    def unary(self) -> Node:
        if self.accept("!"):
            inner = self.unary()
            return lambda scope: not _truth(inner(scope))
        if self.accept("-"):
            inner = self.unary()
            return lambda scope: -inner(scope)
        return self.postfix(self.primary())

    def postfix(self, node: Node) -> Node:
        while True:
            if self.accept("."):
                name = self.take()
                node = self.call(node, name) if self.accept("(") else _field(node, name)
            elif self.accept("["):
                index = self.conditional()
                self.take("]")
                node = _index(node, index)
            else:
                return node

    def arguments(self) -> list[Node]:
        found: list[Node] = []
        while not self.accept(")"):
            if found:
                self.take(",")
            found.append(self.conditional())
        return found

    def call(self, target: Node, name: str) -> Node:
        if name in ("all", "exists", "exists_one", "filter", "map"):
            variable = self.take()
            self.take(",")
            body = self.conditional()
            self.take(")")
            self.names.discard(variable)
            return _macro(name, target, variable, body)
        arguments = self.arguments()
        if name == "size" and not arguments:
            return lambda scope: _size(target(scope))
        if name in METHODS:
            return lambda scope: _method(target(scope), name, [argument(scope) for argument in arguments])
        if name in _TEXT and len(arguments) == 1:
            test, other = _TEXT[name], arguments[0]
            return lambda scope: test(_text(target(scope)), _text(other(scope)))
        raise SyntaxFault(f"unknown function {name}")

    def primary(self) -> Node:
        token = self.take()
        if token == "(":
            node = self.conditional()
            self.take(")")
            return node
        if token == "[":
            items: list[Node] = []
            while not self.accept("]"):
                if items:
                    self.take(",")
                items.append(self.conditional())
            return lambda scope: [item(scope) for item in items]
        if token == "{":
            return self.mapping()
        if token[0].isdigit():
            number: float = float(token) if "." in token else int(token.rstrip("u"))
            return lambda scope: number
        if token[0] in "'\"" or token[:2] in ("r'", 'r"'):
            text = _unquote(token)
            return lambda scope: text
        if not token[0].isalpha() and token[0] != "_":
            raise SyntaxFault(f"unexpected {token!r}")
        constants = {"true": True, "false": False, "null": None}
        if token in constants:
            return lambda scope: constants[token]
        if self.accept("("):
            return self.function(token)
        self.names.add(token)
        return _variable(token)

    def mapping(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self.accept("}"):
            if pairs:
                self.take(",")
            key = self.conditional()
            self.take(":")
            pairs.append((key, self.conditional()))
        return lambda scope: {key(scope): value(scope) for key, value in pairs}

    def function(self, name: str) -> Node:
        arguments = self.arguments()
        if len(arguments) != 1:
            raise SyntaxFault(f"{name} with {len(arguments)} arguments is not known")
        inner = arguments[0]
        if name == "has":
            return lambda scope: _exists(inner, scope)
        if name == "size":
            return lambda scope: _size(inner(scope))
        if name == "dyn":
            return inner
        if name in ("int", "double", "string"):
            convert = {"int": int, "double": float, "string": str}[name]
            return lambda scope: _convert(convert, inner(scope))
        raise SyntaxFault(f"unknown function {name}")


def _unquote(token: str) -> str:
    if token[0] == "r":
        return token[2:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("no such overload")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError("no such overload")
    return value


def _method(value: Any, name: str, arguments: list[Any]) -> Any:
    if not isinstance(value, Methods):
        raise EvaluationError("no such overload")
    return value.call(name, arguments)


def _size(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise EvaluationError("no such overload")
    return len(value)


def _convert(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError):
        raise EvaluationError(f"cannot convert {value!r}") from None


def _variable(name: str) -> Node:
    def read(scope: Scope) -> Any:
        if name not in scope:
            raise EvaluationError(f"undeclared reference to '{name}'")
        return scope[name]

    return read


def _field(node: Node, name: str) -> Node:
    def read(scope: Scope) -> Any:
        value = node(scope)
        if not isinstance(value, dict) or name not in value:
            raise NoSuchKey(name, read)
        return value[name]

    return read


def _index(node: Node, index: Node) -> Node:
    def read(scope: Scope) -> Any:
        value, key = node(scope), index(scope)
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            raise EvaluationError(f"no such key: {key}") from None

    return read


def _exists(node: Node, scope: Scope) -> bool:
    """Whether the last field of the path is there; one before it that is missing is an error, as on a real server."""
    try:
        node(scope)
    except NoSuchKey as missing:
        if missing.where is not node:
            raise
        return False
    return True


def _or(left: Node, right: Node) -> Node:
    def test(scope: Scope) -> bool:
        try:
            if _truth(left(scope)):
                return True
        except EvaluationError:
            if _truth(right(scope)):
                return True
            raise
        return _truth(right(scope))

    return test


def _and(left: Node, right: Node) -> Node:
    def test(scope: Scope) -> bool:
        try:
            if not _truth(left(scope)):
                return False
        except EvaluationError:
            if not _truth(right(scope)):
                return False
            raise
        return _truth(right(scope))

    return test


def _several(value: Any) -> Any:
    if not isinstance(value, list | dict):
        raise EvaluationError("no such overload")
    return value


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise EvaluationError("division by zero")
    return int(left / right) if isinstance(left, int) and isinstance(right, int) else left / right


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
    "in": lambda left, right: left in _several(right),
}
_TEXT: Final[dict[str, Callable[[str, str], bool]]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, other: other in text,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}


def _binary(operator: str, left: Node, right: Node) -> Node:
    if operator == "==":
        return lambda scope: left(scope) == right(scope)
    if operator == "!=":
        return lambda scope: left(scope) != right(scope)
    compute = _OPERATORS[operator]

    def run(scope: Scope) -> Any:
        try:
            return compute(left(scope), right(scope))
        except TypeError:
            raise EvaluationError("no such overload") from None

    return run


def _macro(name: str, target: Node, variable: str, body: Node) -> Node:
    def run(scope: Scope) -> Any:
        values = target(scope)
        if not isinstance(values, list | dict):
            raise EvaluationError("no such overload")
        if name in ("all", "exists"):
            return _decided(values, lambda value: body({**scope, variable: value}), until=name == "exists")
        results = [(value, body({**scope, variable: value})) for value in values]
        if name == "map":
            return [result for _, result in results]
        if name == "filter":
            return [value for value, result in results if _truth(result)]
        return sum(_truth(result) for _, result in results) == 1

    return run


def _decided(values: Any, test: Callable[[Any], Any], *, until: bool) -> bool:
    """What the first test that gives `until` decides, else the opposite; an error counts only if none decides."""
    failed: EvaluationError | None = None
    for value in values:
        try:
            if _truth(test(value)) is until:
                return until
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return not until
