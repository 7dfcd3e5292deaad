"""Labels and what selects by them.

`LabelSelector` is read from the form that Kubernetes objects have: `matchLabels` and `matchExpressions`.
`NodeSelector` is required node affinity with its further operators `Gt` and `Lt` and with `matchFields`. All are
frozen, hashable values, so that whatever depends on a selector can be cached by it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, cast

import msgspec

from t9ksched.model.errors import FieldError, Invalid, child, faulty

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_SET_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_SET_OPERATORS, "Gt", "Lt")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FEW_TERMS: Final = 4
"""Up to so many terms of a node selector are asked one after the other."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
"""As much as Kubernetes reads."""


def key_fault(key: str, of: Literal["label", "annotation"] = "label") -> str:
    """Why the key of a label or annotation is not valid, or an empty text."""
    prefix, slash, name = key.rpartition("/")
    a = "a label" if of == "label" else "an annotation"
    if not _NAME.fullmatch(name):
        return f"{key!r} is not {a} key: the name part takes 1 to 63 letters, digits, '-', '_' or '.'"
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return f"{key!r} is not {a} key: the part before '/' must be a DNS name"
    return ""


def value_fault(value: str) -> str:
    """Why a label value is not valid, or an empty text."""
    if value and not _NAME.fullmatch(value):
        return f"{value!r} is not a label value: use at most 63 letters, digits, '-', '_' or '.'"
    return ""


class Requirement(msgspec.Struct, frozen=True, cache_hash=True):
    """One expression about one key. `values` are sorted, each once; they are empty for Exists and DoesNotExist."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it. An absent key satisfies NotIn and DoesNotExist, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == "Gt" else int(value) < bound

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key} {'>' if self.operator == 'Gt' else '<'} {self.values[0]}"
        if self.operator == "In" and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"


def _expression(raw: object, path: str, operators: tuple[str, ...], faults: list[FieldError]) -> Requirement | None:
    if not isinstance(raw, Mapping):
        faults.append(FieldError(path, "must be a mapping with key, operator and values"))
        return None
    before = len(faults)
    key, operator, values = raw.get("key"), raw.get("operator"), raw.get("values") or []
    if not isinstance(key, str) or not key:
        faults.append(FieldError(child(path, "key"), "is required and must be a label key"))
    elif operators is not _FIELD_OPERATORS and (fault := key_fault(key)):
        faults.append(FieldError(child(path, "key"), fault))
    if operator not in operators:
        faults.append(
            FieldError(child(path, "operator"), f"{faulty(operator, 'is unknown')}: use one of {', '.join(operators)}")
        )
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        faults.append(FieldError(child(path, "values"), "must be a list of texts"))
    elif operator in ("In", "NotIn") and not values:
        faults.append(FieldError(child(path, "values"), f"{operator} needs at least one value"))
    elif operator in ("Exists", "DoesNotExist") and values:
        faults.append(FieldError(child(path, "values"), f"{operator} takes no values"))
    elif operator in ("Gt", "Lt") and not (len(values) == 1 and _INTEGER.fullmatch(values[0])):
        faults.append(FieldError(child(path, "values"), f"{operator} needs exactly one whole number"))
    if len(faults) > before:
        return None
    return Requirement(str(key), cast(Operator, operator), tuple(sorted(set(values))))


class LabelSelector(msgspec.Struct, frozen=True):
    """All requirements must hold. Without any it matches everything; callers decide what an absent selector means."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, raw: object, path: str = "") -> "LabelSelector":
        """From the object form.

        Raises:
            Invalid: naming every faulty field below `path`.
        """
        if not isinstance(raw, Mapping):
            raise Invalid.at(path, "must be a mapping with matchLabels and matchExpressions")
        faults = [
            FieldError(child(path, str(key)), "is unknown: use matchLabels or matchExpressions")
            for key in raw
            if key not in ("matchLabels", "matchExpressions")
        ]
        found: list[Requirement] = []
        labels = raw.get("matchLabels") or {}
        if not isinstance(labels, Mapping):
            faults.append(FieldError(child(path, "matchLabels"), "must be a mapping of label keys to texts"))
            labels = {}
        for key, value in labels.items():
            fault = key_fault(str(key)) or ("must be a text" if not isinstance(value, str) else value_fault(value))
            if fault:
                faults.append(FieldError(child(child(path, "matchLabels"), str(key)), fault))
            else:
                found.append(Requirement(key, "In", (value,)))
        expressions = raw.get("matchExpressions") or []
        if not isinstance(expressions, list):
            faults.append(FieldError(child(path, "matchExpressions"), "must be a list"))
            expressions = []
        for index, expression in enumerate(expressions):
            place = f"{child(path, 'matchExpressions')}[{index}]"
            if (requirement := _expression(expression, place, _SET_OPERATORS, faults)) is not None:
                found.append(requirement)
        if faults:
            raise Invalid(faults)
        return cls(tuple(sorted(found, key=lambda r: (r.key, r.operator, r.values))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements)) or "everything"


_FIELD_OPERATORS: Final = ("In", "NotIn")


class NodeSelectorTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """One alternative of a node selector: all label and field requirements hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node of these labels and this name fits; a term without requirements fits none (Kubernetes API)."""
        if not self.labels and not self.fields:
            return False
        own = {"metadata.name": name}
        return all(r.matches(labels) for r in self.labels) and all(r.matches(own) for r in self.fields)

    def __str__(self) -> str:
        return ",".join(map(str, (*self.labels, *self.fields)))


class NodeSelector(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """Required node affinity: one of the terms must hold (Kubernetes `NodeSelector`). Of many terms, such as the places
    of local volumes, a node is asked only those that name one of its labels.
    """

    terms: tuple[NodeSelectorTerm, ...]

    @classmethod
    def parse(cls, raw: object, path: str = "nodeSelectorTerms") -> "NodeSelector":
        """From the list `nodeSelectorTerms`.

        Raises:
            Invalid: naming every faulty field below `path`.
        """
        if not isinstance(raw, list):
            raise Invalid.at(path, "must be a list of terms")
        faults: list[FieldError] = []
        terms = tuple(_node_term(term, f"{path}[{index}]", faults) for index, term in enumerate(raw))
        if faults:
            raise Invalid(faults)
        return cls(terms)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node of these labels and this name satisfies one of the terms."""
        terms = self.terms if len(self.terms) <= _FEW_TERMS else self._index.near(labels, name)
        return any(term.matches(labels, name) for term in terms)

    @cached_property
    def _index(self) -> "_TermIndex":
        return _TermIndex(self.terms)

    @cached_property
    def label_keys(self) -> tuple[str, ...] | None:
        """The label keys that it reads, each once; None when it reads the node's name."""
        if any(term.fields for term in self.terms):
            return None
        return tuple(dict.fromkeys(r.key for term in self.terms for r in term.labels))

    def __str__(self) -> str:
        return " or ".join(map(str, self.terms))


class _TermIndex:
    """Terms by a value that each of them asks for, so that a node is told the few that may match it."""

    def __init__(self, terms: Iterable[NodeSelectorTerm]) -> None:
        self._by_label: defaultdict[str, defaultdict[str, list[NodeSelectorTerm]]]
        self._by_label = defaultdict(lambda: defaultdict(list))
        self._by_name: defaultdict[str, list[NodeSelectorTerm]] = defaultdict(list)
        self._others: list[NodeSelectorTerm] = []
        """Those that ask for no value in particular."""
        terms = list(terms)
        shared = Counter((r.key, value) for term in terms for r in _named(term.labels) for value in r.values)
        for term in terms:
            if names := next(_named(term.fields), None):  # the only field is `metadata.name`
                self._put(self._by_name, names, term)
            elif named := min(_named(term.labels), key=lambda r: sum(shared[r.key, v] for v in r.values), default=None):
                self._put(self._by_label[named.key], named, term)
            else:
                self._others.append(term)

    def _put(self, table: defaultdict[str, list[NodeSelectorTerm]], named: Requirement, term: NodeSelectorTerm) -> None:
        for value in named.values:
            table[value].append(term)

    def near(self, labels: Mapping[str, str], name: str) -> Iterator[NodeSelectorTerm]:
        """The terms that may match a node: all that do are among them."""
        yield from self._by_name.get(name, ())
        for key, by_value in self._by_label.items():
            if (value := labels.get(key)) is not None:
                yield from by_value.get(value, ())
        yield from self._others


def _named(requirements: Iterable[Requirement]) -> Iterator[Requirement]:
    return (one for one in requirements if one.operator == "In")


def _node_term(raw: Any, path: str, faults: list[FieldError]) -> NodeSelectorTerm:
    if not isinstance(raw, Mapping):
        faults.append(FieldError(path, "must be a mapping with matchExpressions or matchFields"))
        return NodeSelectorTerm()
    parts: list[tuple[Requirement, ...]] = []
    for name, operators in (("matchExpressions", _NODE_OPERATORS), ("matchFields", _FIELD_OPERATORS)):
        expressions = raw.get(name) or []
        if not isinstance(expressions, list):
            faults.append(FieldError(child(path, name), "must be a list"))
            expressions = []
        found = (
            _expression(expression, f"{child(path, name)}[{index}]", operators, faults)
            for index, expression in enumerate(expressions)
        )
        parts.append(tuple(requirement for requirement in found if requirement is not None))
    return NodeSelectorTerm(parts[0], parts[1])
