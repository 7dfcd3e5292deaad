"""Schemas of custom resources: pruning, defaults, validation, and rules in CEL."""

from typing import Any

import pytest

from t9ksched.devcluster.apiserver import cel, structural
from t9ksched.devcluster.apiserver.crd import DefinitionStrategy

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "share": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "amounts": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 2},
        "roles": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        "maybe": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
    },
}


@pytest.mark.parametrize(
    ("value", "field", "reason"),
    [
        ({"size": 0}, "size", "FieldValueInvalid"),
        ({"size": 10}, "size", "FieldValueInvalid"),
        ({"size": "1"}, "size", "FieldValueTypeInvalid"),
        ({"size": True}, "size", "FieldValueTypeInvalid"),
        ({"mode": "c"}, "mode", "FieldValueNotSupported"),
        ({"name": "A"}, "name", "FieldValueInvalid"),
        ({"name": "abcdef"}, "name", "FieldValueTooLong"),
        ({"share": 0}, "share", "FieldValueInvalid"),
        ({"amounts": {"cpu": 1.5}}, "amounts.cpu", "FieldValueTypeInvalid"),
        ({"tags": ["x", "x"]}, "tags[1]", "FieldValueDuplicate"),
        ({"tags": ["x", "y", "z"]}, "tags", "FieldValueTooMany"),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "roles[1]", "FieldValueDuplicate"),
        ({"roles": [{}]}, "roles[0].name", "FieldValueRequired"),
        ({"when": "today"}, "when", "FieldValueInvalid"),
        ({"tags": {}}, "tags", "FieldValueTypeInvalid"),
    ],
)
def test_faults(value: dict[str, Any], field: str, reason: str) -> None:
    causes = structural.validate(value, SCHEMA)
    assert (field, reason) in [(cause.field, cause.reason) for cause in causes]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"size": 1, "mode": "b", "name": "abc", "share": 0.5},
        {"size": 9.0},
        {"amounts": {"cpu": 1, "memory": "1Gi"}},
        {"free": {"any": [1, {"thing": None}]}},
        {"maybe": None},
        {"when": "2026-01-01T00:00:00Z"},
        {"roles": [{"name": "a"}, {"name": "b"}]},
    ],
)
def test_no_faults(value: dict[str, Any]) -> None:
    assert structural.validate(value, SCHEMA) == []


def test_unknown_fields_go_and_are_named() -> None:
    unknown: list[str] = []
    value = {"size": 1, "bogus": 2, "roles": [{"name": "a", "more": 1}], "free": {"kept": 1}, "amounts": {"cpu": 1}}
    pruned = structural.prune(value, SCHEMA, "", unknown)
    assert pruned == {"size": 1, "roles": [{"name": "a"}], "free": {"kept": 1}, "amounts": {"cpu": 1}}
    assert unknown == ["bogus", "roles[0].more"]


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ({}, {"mode": "a"}),
        ({"mode": "b"}, {"mode": "b"}),
        ({"mode": None}, {"mode": "a"}),
        ({"maybe": None, "mode": "b"}, {"maybe": None, "mode": "b"}),
    ],
)
def test_defaults(value: dict[str, Any], filled: dict[str, Any]) -> None:
    assert structural.fill_defaults(value, SCHEMA) == filled


@pytest.mark.parametrize(
    ("rule", "self", "holds"),
    [
        ("self.a > 1", {"a": 2}, True),
        ("self.a + 1 == 3 && self.b in ['x', 'y']", {"a": 2, "b": "x"}, True),
        ("!has(self.a) || self.a != 'bad'", {}, True),
        ("!has(self.a) || self.a != 'bad'", {"a": "bad"}, False),
        ("has(self.a.b)", {"a": {}}, False),
        ("self.list.all(x, x > 0)", {"list": [1, 2]}, True),
        ("self.list.exists(x, x == 2) ? size(self.list) == 2 : false", {"list": [1, 2]}, True),
        ("self.list.map(x, x * 2) == [2, 4]", {"list": [1, 2]}, True),
        ("self.list.filter(x, x > 1).size() == 1", {"list": [1, 2]}, True),
        ("self.list.exists_one(x, x == 2)", {"list": [2, 2]}, False),
        ("self.name.startsWith('a') && self.name.matches('^[a-z]+$')", {"name": "abc"}, True),
        ("self.map['k.v'] == 7 / 2", {"map": {"k.v": 3}}, True),
        ("-self.a == -2 && 7 % 4 == 3", {"a": 2}, True),
        ("self.a == null", {"a": None}, True),
        ("self.missing == 1 || true", {}, True),
    ],
)
def test_rules(rule: str, self: Any, holds: bool) -> None:
    assert cel.parse(rule).evaluate({"self": self}) is holds


@pytest.mark.parametrize(
    "rule", ["self.a >", "self.a ==== 1", "frobnicate(self)", "self.a.frob()", "(self.a", "", "self a"]
)
def test_rules_that_cannot_be_read(rule: str) -> None:
    with pytest.raises(cel.SyntaxFault):
        cel.parse(rule)


@pytest.mark.parametrize(
    "rule",
    ["self.missing > 1", "has(self.missing.b)", "self.a + 'x' == 1", "1 / 0 == 1", "self.a", "self.a.all(x, true)"],
)
def test_rules_that_cannot_be_evaluated_are_faults(rule: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": rule}]}
    assert structural.validate({"a": 1}, schema)


def test_rules_compare_with_the_old_object_only_when_there_is_one() -> None:
    rule = {"rule": "self.a >= oldSelf.a", "message": "may only grow"}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    assert structural.validate({"a": 1}, schema) == []
    assert structural.validate({"a": 2}, schema, {"a": 1}) == []
    assert [cause.message for cause in structural.validate({"a": 0}, schema, {"a": 1})] == [
        "Invalid value: may only grow"
    ]


def test_a_definition_whose_schema_is_not_structural_is_refused() -> None:
    free = {"x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "array"}}}
    metadata = {"type": "object", "description": "x", "properties": {"name": {"type": "string"}}}
    fields = {"b": {"description": "x"}, "free": free, "c": {"type": "array", "items": {}}, "metadata": metadata}
    version = {
        "name": "v1",
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
    }
    spec = {"group": "x.io", "scope": "Namespaced", "names": {"plural": "xs", "kind": "X"}, "versions": [version]}
    root = "spec.versions[0].schema.openAPIV3Schema"
    causes = DefinitionStrategy().validate({"metadata": {"name": "xs.x.io"}, "spec": spec})
    assert [(cause.field.removeprefix(root), cause.message.partition(": ")[2]) for cause in causes] == [
        (".properties[b].type", "must not be empty for specified object fields"),
        (".properties[free].properties[a].items", "must be specified"),
        (".properties[c].items.type", "must not be empty for specified array items"),
        (
            ".properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
    ]
    metadata.pop("description")
    left = DefinitionStrategy().validate({"metadata": {"name": "xs.x.io"}, "spec": spec})
    assert [cause.field for cause in left] == [cause.field for cause in causes[:3]]


@pytest.mark.parametrize(
    ("rule", "unknown"),
    [
        ("self.spec.size > 0 && has(self.status) && has(oldSelf.metadata.name)", []),
        ("has(self.status.queue) || self.spec.size > 0", ["queue"]),
        ("self.spec.by.any.size() > 0 && self.spec.all(x, x.gone == 1)", []),
        ("oldSelf.spec.length == self.spec.size", ["length"]),
    ],
)
def test_a_rule_that_reads_fields_which_the_schema_does_not_name_is_refused(rule: str, unknown: list[str]) -> None:
    by = {"type": "object", "additionalProperties": {"type": "string"}}
    fields = {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "by": by}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    schema = {"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]}
    version = {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "x.io", "scope": "Namespaced", "names": {"plural": "xs", "kind": "X"}, "versions": [version]}
    causes = DefinitionStrategy().validate({"metadata": {"name": "xs.x.io"}, "spec": spec})
    assert [cause.message.rpartition("compilation failed: ")[2] for cause in causes] == [
        f"undefined field '{name}'" for name in unknown
    ]
