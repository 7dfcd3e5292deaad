"""Label and field selectors as written in a query string.

`labels` takes the whole grammar (`a=b,c!=d,e in (x,y),f notin (z),g,!h,n>1`), `fields` equality on the few fields that
a kind offers. Both answer with a function from an object to a truth value, or None when everything matches.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from t9ksched.devcluster.apiserver.names import label_key_fault, label_value_fault
from t9ksched.devcluster.apiserver.status import StatusError, bad_request

Matches = Callable[[dict[str, Any]], bool]
Fields = Mapping[str, Callable[[dict[str, Any]], str]]

_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_SYMBOLS: Final = frozenset({"==", "!=", "=", "!", ",", "(", ")", "<", ">"})


class _Tokens:
    def __init__(self, text: str) -> None:
        self.items = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token


def _fault(text: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {text}")


def labels(text: str) -> Matches | None:
    """The predicate of a label selector.

    Raises:
        StatusError: 400, the text does not follow the grammar.
    """
    if not text.strip():
        return None
    tokens = _Tokens(text)
    tests = [_requirement(tokens)]
    while tokens.peek():
        if tokens.take() != ",":
            raise bad_request(f"found '{tokens.items[tokens.at - 1]}', expected: ',' or 'end of string'")
        if tokens.peek() in ("", ","):
            raise bad_request(f"found '{tokens.peek()}', expected: identifier after ','")
        tests.append(_requirement(tokens))
    if len(tests) == 1:
        only = tests[0]
        return lambda obj: only(obj["metadata"].get("labels") or {})

    def matches(obj: dict[str, Any]) -> bool:
        found = obj["metadata"].get("labels") or {}
        return all(test(found) for test in tests)

    return matches


def _requirement(tokens: _Tokens) -> Callable[[dict[str, str]], bool]:
    negated = tokens.peek() == "!"
    if negated:
        tokens.take()
    key = tokens.take()
    if not key or key in _SYMBOLS:
        raise bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
    if fault := label_key_fault(key):
        raise _fault(f'key: Invalid value: "{key}": {fault}')
    if negated:
        return lambda found: key not in found
    operator = tokens.peek()
    if operator in ("", ","):
        return lambda found: key in found
    tokens.take()
    if operator in ("in", "notin"):
        values = _values(tokens)
        if operator == "in":
            return lambda found: found.get(key) in values
        return lambda found: found.get(key) not in values
    if operator not in ("=", "==", "!=", "<", ">"):
        raise _fault(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    value = _value(tokens)
    if operator == "!=":
        return lambda found: found.get(key) != value
    if operator in ("=", "=="):
        return lambda found: found.get(key) == value
    bound = _integer(value)
    if bound is None:
        raise _fault(f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer")
    if operator == ">":
        return lambda found: (number := _integer(found.get(key))) is not None and number > bound
    return lambda found: (number := _integer(found.get(key))) is not None and number < bound


def _integer(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch(r"[+-]?[0-9]{1,19}", value) else None


def _value(tokens: _Tokens) -> str:
    token = tokens.peek()
    if token in ("", ",", ")"):
        return ""
    if token in _SYMBOLS:
        raise _fault(f"found '{token}', expected: identifier")
    tokens.take()
    _check(token)
    return token


def _values(tokens: _Tokens) -> frozenset[str]:
    if (opening := tokens.take()) != "(":
        raise _fault(f"found '{opening}' expected: '('")
    found = [_value(tokens)]
    while (token := tokens.take()) == ",":
        found.append(_value(tokens))
    if token != ")":
        raise _fault(f"found '{token}', expected: ',' or ')'")
    return frozenset(found)


def _check(value: str) -> None:
    if fault := label_value_fault(value):
        raise _fault(f'values[0]: Invalid value: "{value}": {fault}')


def fields(text: str, known: Fields) -> Matches | None:
    """The predicate of a field selector over the fields that a kind offers.

    Raises:
        StatusError: 400, the text is no selector or names another field.
    """
    if not text:
        return None
    tests: list[tuple[Callable[[dict[str, Any]], str], str, bool]] = []
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        match = re.match(r"([^!=]+?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = match[1], match[2], re.sub(r"\\([\\,=])", r"\1", match[3])
        read = known.get(name)
        if read is None:
            raise bad_request(
                f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
                if known is METADATA_FIELDS  # a kind without fields of its own has other words for it
                else f"field label not supported: {name}"
            )
        tests.append((read, value, operator != "!="))
    if not tests:
        return None
    return lambda obj: all((read(obj) == value) is wanted for read, value, wanted in tests)


def both(first: Matches | None, second: Matches | None) -> Matches | None:
    """Objects that satisfy the two predicates."""
    if first is None or second is None:
        return first or second
    return lambda obj: first(obj) and second(obj)


def at(*path: str) -> Callable[[dict[str, Any]], str]:
    """A reader of a nested text field; empty when it is not there."""

    def read(obj: dict[str, Any]) -> str:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read


METADATA_FIELDS: Final = {"metadata.name": at("metadata", "name"), "metadata.namespace": at("metadata", "namespace")}
