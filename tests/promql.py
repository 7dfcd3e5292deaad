"""Evaluates the part of PromQL that our rules use, on series given by tests. Expressions are read by promql-parser.

Known are: selectors with matchers, `rate` and `increase` (extrapolated as Prometheus does), `absent`, `time`,
`histogram_quantile`, aggregations `sum`, `max`, `min`, `count` with `by`, arithmetic and comparisons with numbers and
one-to-one between vectors, `and` and `unless`. Whatever else a rule uses fails the test. The same cases run through
`promtool test rules` where that is installed.
"""

import operator
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import promql_parser as parser
from prometheus_client.parser import text_string_to_metric_families

LOOKBACK: Final = 300.0
NAME: Final = "__name__"
_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else float("nan"),
}
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_AGGREGATES: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "count": lambda values: float(len(values)),
}
_MATCH: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "MatchOp.Equal": lambda value, asked: value == asked,
    "MatchOp.NotEqual": lambda value, asked: value != asked,
    "MatchOp.Re": lambda value, asked: re.fullmatch(asked, value) is not None,
    "MatchOp.NotRe": lambda value, asked: re.fullmatch(asked, value) is None,
}
Labels = tuple[tuple[str, str], ...]


class One(NamedTuple):
    """An element of a vector."""

    labels: Labels
    value: float

    def get(self, name: str) -> str:
        return dict(self.labels).get(name, "")


class Database:
    """Samples by series and time in seconds."""

    def __init__(self) -> None:
        self._samples: defaultdict[Labels, list[tuple[float, float]]] = defaultdict(list)

    def add(self, labels: Mapping[str, str], at: float, value: float) -> None:
        self._samples[tuple(sorted(labels.items()))].append((at, value))

    def scrape(self, page: str, at: float, **target: str) -> None:
        """The samples of a page in the text format, as if it had been read then."""
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                self.add({NAME: sample.name, **sample.labels, **target}, at, float(sample.value))

    def select(self, selector: Any) -> Iterable[tuple[Labels, list[tuple[float, float]]]]:
        for labels, samples in self._samples.items():
            known = dict(labels)
            if selector.name and known.get(NAME) != selector.name:
                continue
            if all(_MATCH[str(one.op)](known.get(one.name, ""), one.value) for one in selector.matchers.matchers):
                yield labels, samples


def without_name(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] != NAME)


def evaluate(expression: str, at: float, database: Database) -> list[One]:
    """The vector that the expression is at that time."""
    found = _value(_parsed(expression), at, database)
    assert isinstance(found, list), f"{expression} is a number"
    return found


@lru_cache
def _parsed(expression: str) -> Any:
    return parser.parse(expression)


def names(expression: str) -> set[str]:
    """The names of metrics in an expression."""
    found: set[str] = set()

    def look(node: Any) -> None:
        match node:
            case parser.VectorSelector():
                found.add(node.name)
            case parser.MatrixSelector():
                look(node.vector_selector)
            case parser.BinaryExpr():
                look(node.lhs)
                look(node.rhs)
            case parser.Call():
                for each in node.args:
                    look(each)
            case parser.AggregateExpr() | parser.ParenExpr() | parser.UnaryExpr():
                look(node.expr)
            case parser.NumberLiteral() | parser.StringLiteral():
                pass
            case _:
                raise NotImplementedError(type(node).__name__)

    look(_parsed(expression))
    return found


def _value(node: Any, at: float, database: Database) -> list[One] | float:
    match node:
        case parser.NumberLiteral():
            return float(node.val)
        case parser.ParenExpr():
            return _value(node.expr, at, database)
        case parser.VectorSelector():
            recent = ((labels, _last(samples, at)) for labels, samples in database.select(node))
            return [One(labels, value) for labels, value in recent if value is not None]
        case parser.AggregateExpr():
            return _aggregate(node, _vector(node.expr, at, database))
        case parser.BinaryExpr():
            return _binary(node, _value(node.lhs, at, database), _value(node.rhs, at, database))
        case parser.Call():
            return _call(node, at, database)
    raise NotImplementedError(type(node).__name__)


def _vector(node: Any, at: float, database: Database) -> list[One]:
    found = _value(node, at, database)
    assert isinstance(found, list)
    return found


def _last(samples: list[tuple[float, float]], at: float) -> float | None:
    index = bisect_right(samples, (at, float("inf"))) - 1
    return samples[index][1] if index >= 0 and samples[index][0] > at - LOOKBACK else None


def _aggregate(node: Any, vector: list[One]) -> list[One]:
    by = node.modifier
    assert by is None or "By" in str(by.type), f"only `by` is known: {node}"
    kept = () if by is None else tuple(by.labels)
    groups: defaultdict[Labels, list[float]] = defaultdict(list)
    for one in vector:
        groups[tuple((name, one.get(name)) for name in sorted(kept) if one.get(name))].append(one.value)
    return [One(labels, _AGGREGATES[str(node.op)](values)) for labels, values in groups.items()]


def _key(one: One, modifier: Any) -> Labels:
    if modifier is None or modifier.matching is None:
        return without_name(one.labels)
    assert "Include" in str(modifier.matching.type), "only `on` is known"
    return tuple((name, one.get(name)) for name in modifier.matching.labels)


def _binary(node: Any, left: list[One] | float, right: list[One] | float) -> list[One] | float:
    op = str(node.op)
    if op in ("and", "unless"):
        assert isinstance(left, list)
        assert isinstance(right, list)
        there = {_key(one, node.modifier) for one in right}
        return [one for one in left if (_key(one, node.modifier) in there) == (op == "and")]
    if isinstance(left, float):
        assert isinstance(right, float), "a number stands on the right"
        return _ARITHMETIC[op](left, right)
    others = right if isinstance(right, float) else {_key(one, node.modifier): one.value for one in right}
    found = []
    for one in left:
        other = others if isinstance(others, float) else others.get(_key(one, node.modifier))
        if other is None:
            continue
        if op in _COMPARISONS:
            if _COMPARISONS[op](one.value, other):
                found.append(one)
        else:
            found.append(One(without_name(one.labels), _ARITHMETIC[op](one.value, other)))
    return found


def _call(node: Any, at: float, database: Database) -> list[One] | float:
    name, arguments = node.func.name, node.args
    if name == "time":
        return at
    if name == "absent":
        return [] if _vector(arguments[0], at, database) else [One((), 1.0)]
    if name == "histogram_quantile":
        assert isinstance(arguments[0], parser.NumberLiteral)
        return _quantile(float(arguments[0].val), _vector(arguments[1], at, database))
    if name in ("rate", "increase"):
        window = arguments[0].range.total_seconds()
        found = []
        for labels, samples in database.select(arguments[0].vector_selector):
            first, last = bisect_left(samples, (at - window,)), bisect_right(samples, (at, float("inf")))
            grown = _increase(samples[first:last], at - window, at)
            if grown is not None:
                found.append(One(without_name(labels), grown / window if name == "rate" else grown))
        return found
    raise NotImplementedError(name)


def _increase(samples: list[tuple[float, float]], start: float, end: float) -> float | None:
    """The growth of a counter, with resets, extrapolated to the window as Prometheus does."""
    if len(samples) < 2:
        return None
    grown = samples[-1][1] - samples[0][1]
    grown += sum(before[1] for before, after in pairwise(samples) if after[1] < before[1])
    span = samples[-1][0] - samples[0][0]
    between = span / (len(samples) - 1)
    first, last = samples[0][0] - start, end - samples[-1][0]
    if grown > 0 and samples[0][1] >= 0:
        first = min(first, span * samples[0][1] / grown)
    reach = span + sum(gap if gap < between * 1.1 else between / 2 for gap in (first, last))
    return grown * reach / span


def _quantile(part: float, vector: list[One]) -> list[One]:
    groups: defaultdict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for one in vector:
        rest = tuple(pair for pair in without_name(one.labels) if pair[0] != "le")
        groups[rest].append((float(one.get("le").replace("+Inf", "inf")), one.value))
    found = []
    for labels, several in groups.items():
        buckets = sorted(several)
        total = buckets[-1][1]
        if not total:
            continue  # Prometheus gives NaN, which no comparison takes
        rank = part * total
        at = next(index for index, (_, count) in enumerate(buckets) if count >= rank)
        if at == len(buckets) - 1:
            found.append(One(labels, buckets[-2][0]))
            continue
        low, below = buckets[at - 1] if at else (0.0, 0.0)
        high, count = buckets[at]
        found.append(One(labels, low + (high - low) * (rank - below) / (count - below)))
    return found
