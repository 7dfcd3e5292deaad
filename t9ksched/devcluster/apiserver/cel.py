"""The part of the Common Expression Language that validation rules of custom resources use in practice.

Literals, field access, indexing, `has`, `dyn`, comparison, arithmetic, logic, the conditional, `in`, `size`, the text
methods `startsWith`, `endsWith`, `contains`, `matches`, those of `Methods`, and the macros `all`, `exists`,
`exists_one`, `filter`, `map`.
`parse` turns a rule into a program once; whatever it does not know is a `SyntaxFault`, never a wrong answer.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec

from t9ksched.devcluster.apiserver import celvalues as values
from t9ksched.devcluster.apiserver.celvalues import METHODS, EvaluationError, Methods, Node, NoSuchKey

__all__ = ["EvaluationError", "Methods", "NoSuchKey", "Program", "SyntaxFault", "parse"]


class SyntaxFault(ValueError):
    """The rule is not in the part of the language that is known here."""


class Program(msgspec.Struct, frozen=True):
    """A parsed rule.

    Attributes:
        names: the variables it names.
        chains: a variable and the fields that are read one out of the other, such as `("self", "spec", "queue")`.
    """

    evaluate: Node
    names: frozenset[str]
    chains: frozenset[tuple[str, ...]] = frozenset()


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
    return Program(node, frozenset(parser.names), frozenset(parser.chains))


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
        self.chains: set[tuple[str, ...]] = set()

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
        return lambda scope: yes(scope) if values.truth_of(test(scope)) else no(scope)

    def either(self) -> Node:
        node = self.both()
        while self.accept("||"):
            node = values.either(node, self.both())
        return node

    def both(self) -> Node:
        node = self.level(0)
        while self.accept("&&"):
            node = values.both(node, self.level(0))
        return node

    def level(self, depth: int) -> Node:
        if depth == len(_LEVELS):
            return self.unary()
        node = self.level(depth + 1)
        while self.peek() in _LEVELS[depth]:
            node = values.binary(self.take(), node, self.level(depth + 1))
        return node

    def unary(self) -> Node:
        if self.accept("!"):
            inner = self.unary()
            return lambda scope: not values.truth_of(inner(scope))
        if self.accept("-"):
            inner = self.unary()
            return lambda scope: -inner(scope)
        start = self.peek()
        return self.postfix(self.primary(), (start,) if start[:1].isalpha() else ())

    def postfix(self, node: Node, chain: tuple[str, ...]) -> Node:
        """`chain` is the variable that the node is, as long as fields alone are read from it."""
        while True:
            if self.accept("."):
                name = self.take()
                if self.accept("("):
                    node, chain = self.call(node, name), ()
                    continue
                node = values.field_of(node, name)
                if chain:
                    chain = (*chain, name)
                    self.chains.add(chain)
            elif self.accept("["):
                index = self.conditional()
                self.take("]")
                node, chain = values.index(node, index), ()
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
            return values.macro(name, target, variable, body)
        arguments = self.arguments()
        if name == "size" and not arguments:
            return lambda scope: values.size_of(target(scope))
        if name in METHODS:
            return lambda scope: values.call_method(target(scope), name, [argument(scope) for argument in arguments])
        if name in values.TEXT and len(arguments) == 1:
            test, other = values.TEXT[name], arguments[0]
            return lambda scope: test(values.text_of(target(scope)), values.text_of(other(scope)))
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
        return values.variable(token)

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
            return lambda scope: values.has_field(inner, scope)
        if name == "size":
            return lambda scope: values.size_of(inner(scope))
        if name == "dyn":
            return inner
        if name in ("int", "double", "string"):
            convert = {"int": int, "double": float, "string": str}[name]
            return lambda scope: values.convert(convert, inner(scope))
        raise SyntaxFault(f"unknown function {name}")


def _unquote(token: str) -> str:
    if token[0] == "r":
        return token[2:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])
