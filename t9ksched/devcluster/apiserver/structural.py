"""Structural schemas of custom resources: pruning, defaults and validation, as a CustomResourceDefinition gives them.

A `Schema` wraps the JSON of `openAPIV3Schema`. Pruning drops fields that the schema does not name, defaulting fills in
its defaults, validation answers every fault with its path. Rules in CEL are checked last, and only on objects that are
otherwise of the right shape.
"""

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from t9ksched.devcluster.apiserver import cel
from t9ksched.devcluster.apiserver.status import Cause, bad_value, required, unsupported

Object = dict[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_RULES: Final = "x-kubernetes-validations"
_BLOCKING: Final = frozenset(
    {"FieldValueRequired", "FieldValueTypeInvalid", "FieldValueNotSupported", "FieldValueTooLong", "FieldValueTooMany"}
)
_FORMATS: Final = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "byte": re.compile(r"[A-Za-z0-9+/]*={0,2}"),
}
UNCHECKED: Final = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing"
    " errors to complete validation",
    "<nil>",
)
_CHECKED: Final = 'Invalid value: "": Checked value must be of type integer (default format) in {}'


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def prune(value: Any, schema: Object, path: str, unknown: list[str], *, root: bool = False) -> Any:
    """A copy without the fields that the schema does not know; their paths are added to `unknown`."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        kept = items if items else {_PRESERVE: True}
        return [prune(element, kept, f"{path}[{number}]", unknown) for number, element in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    preserve = schema.get(_PRESERVE)
    embedded = schema.get(_EMBEDDED) or root
    result: Object = {}
    for name, element in value.items():
        where = f"{path}.{name}" if path else name
        if embedded and name in ("apiVersion", "kind", "metadata"):
            result[name] = element
        elif name in properties:
            result[name] = prune(element, properties[name], where, unknown)
        elif isinstance(others, dict):
            result[name] = prune(element, others, where, unknown)
        elif others or preserve:
            result[name] = prune(element, {_PRESERVE: True}, where, unknown)
        else:
            unknown.append(where)
    return result


def fill_defaults(value: Any, schema: Object) -> Any:
    """Fill in the defaults in place, and drop nulls where the schema has a default and does not allow null."""
    if isinstance(value, list):
        items = schema.get("items")
        if items:
            for element in value:
                fill_defaults(element, items)
    elif isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, inner in properties.items():
            if "default" in inner and (name not in value or (value[name] is None and not inner.get("nullable"))):
                value[name] = _copy(inner["default"])
            elif value.get(name, 0) is None and not inner.get("nullable"):
                del value[name]
            if name in value:
                fill_defaults(value[name], inner)
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            for name, element in value.items():
                if name not in properties:
                    fill_defaults(element, others)
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(element) for key, element in value.items()}
    return [_copy(element) for element in value] if isinstance(value, list) else value


def validate(value: Any, schema: Object, old: Any = None, path: str = "") -> list[Cause]:
    """All faults of a value; `old` is the value before an update, for rules that compare."""
    causes = _check(value, schema, path)
    if not has_rules(schema):
        return causes
    if any(cause.reason in _BLOCKING for cause in causes):
        return [*causes, UNCHECKED]
    return causes + _rules(value, old, schema, path)


def type_faults(value: Any, schema: Object) -> list[Cause]:
    """Only what has another type than the schema says."""
    return [cause for cause in _check(value, schema, "") if cause.reason == "FieldValueTypeInvalid"]


def has_rules(schema: Object) -> bool:
    """Whether any part of a schema has rules in CEL."""
    if schema.get(_RULES):
        return True
    parts = list((schema.get("properties") or {}).values())
    parts += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return any(has_rules(part) for part in parts)


def _type_of(value: Any) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return kinds.get(type(value), "null")


def _wrong_type(value: Any, schema: Object) -> str:
    """The type that the value should have had, or an empty text when it fits."""
    if value is None:
        return "" if schema.get("nullable") or not schema.get("type") else str(schema["type"])
    found = _type_of(value)
    if schema.get(_INT_OR_STRING):
        return "" if found in ("integer", "string") else "integer,string"
    wanted = schema.get("type", "")
    if not wanted or wanted == found or (wanted == "number" and found == "integer"):
        return ""
    if wanted == "integer" and found == "number" and float(value).is_integer():
        return ""
    return str(wanted)


def _check(value: Any, schema: Object, path: str) -> list[Cause]:
    if wanted := _wrong_type(value, schema):
        shown = _type_of(value)
        text = f'Invalid value: "{shown}": {path or "<nil>"} in body must be of type {wanted}: "{shown}"'
        faults = [Cause("FieldValueTypeInvalid", text, path or "<nil>")]
        if shown == "number" and wanted == "integer":
            faults.append(Cause("FieldValueInvalid", _CHECKED.format(path), "<nil>"))
        return faults
    if value is None:
        return []
    causes: list[Cause] = []
    if (known := schema.get("enum")) is not None and value not in known:
        causes.append(unsupported(path, value, tuple(str(entry) for entry in known)))
    if isinstance(value, str):
        causes += _check_text(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _check_number(value, schema, path)
    elif isinstance(value, list):
        causes += _check_list(value, schema, path)
    elif isinstance(value, dict):
        causes += _check_object(value, schema, path)
    for inner in schema.get("allOf") or []:
        causes += _check(value, inner, path)
    for word, count in (("anyOf", 1), ("oneOf", 1)):
        choices = schema.get(word)
        if choices and not schema.get(_INT_OR_STRING):
            fitting = sum(not _check(value, choice, path) for choice in choices)
            if fitting < count or (word == "oneOf" and fitting > 1):
                text = f"must validate {'at least' if word == 'anyOf' else 'exactly'} one schema ({word})"
                causes.append(bad_value(path, value, text))
    if "not" in schema and not _check(value, schema["not"], path):
        causes.append(bad_value(path, value, "must not validate the schema (not)"))
    return causes


def _check_text(value: str, schema: Object, path: str) -> list[Cause]:
    causes = []
    if len(value) > schema.get("maxLength", len(value)):
        text = f"Too long: may not be more than {schema['maxLength']} bytes"
        causes.append(Cause("FieldValueTooLong", text, path))
    if len(value) < schema.get("minLength", 0):
        text = f"{path} in body should be at least {schema['minLength']} chars long"
        causes.append(bad_value(path, value, text))
    if (pattern := schema.get("pattern")) and not _pattern(pattern).search(value):
        causes.append(bad_value(path, value, f"{path} in body should match '{pattern}'"))
    if (form := schema.get("format")) in _FORMATS and not _FORMATS[form].fullmatch(value):
        causes.append(bad_value(path, value, f'{path} in body must be of type {form}: "{value}"'))
    return causes


def _check_number(value: float, schema: Object, path: str) -> list[Cause]:
    causes = []
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(bad_value(path, value, f"{path} in body should be {word} {low}"))
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        causes.append(bad_value(path, value, f"{path} in body should be {word} {high}"))
    if (step := schema.get("multipleOf")) and value % step:
        causes.append(bad_value(path, value, f"{path} in body should be a multiple of {step}"))
    return causes


def _check_list(value: list[Any], schema: Object, path: str) -> list[Cause]:
    causes = []
    if len(value) > schema.get("maxItems", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        causes.append(Cause("FieldValueTooMany", text, path))
    if len(value) < schema.get("minItems", 0):
        text = f"{path} in body should have at least {schema['minItems']} items"
        causes.append(bad_value(path, len(value), text))
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set" or schema.get("uniqueItems"):
        for number, element in enumerate(value):
            if element in value[:number]:
                causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{element}"', f"{path}[{number}]"))
    elif kind == "map":
        causes += _check_keys(value, schema.get("x-kubernetes-list-map-keys") or [], path)
    items = schema.get("items")
    if items:
        for number, element in enumerate(value):
            causes += _check(element, items, f"{path}[{number}]")
    return causes


def _check_keys(value: list[Any], keys: list[str], path: str) -> list[Cause]:
    causes = []
    seen: list[list[Any]] = []
    for number, element in enumerate(value):
        identity = [element.get(key) if isinstance(element, dict) else None for key in keys]
        if identity in seen:
            shown = dict(zip(keys, identity, strict=True))
            causes.append(Cause("FieldValueDuplicate", f"Duplicate value: {shown}", f"{path}[{number}]"))
        seen.append(identity)
    return causes


def _check_object(value: Object, schema: Object, path: str) -> list[Cause]:
    causes = []
    prefix = f"{path}." if path else ""
    for name in schema.get("required") or []:
        if name not in value:
            causes.append(required(f"{prefix}{name}"))
    if len(value) > schema.get("maxProperties", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        causes.append(Cause("FieldValueTooMany", text, path))
    if len(value) < schema.get("minProperties", 0):
        text = f"{path} in body should have at least {schema['minProperties']} properties"
        causes.append(bad_value(path, len(value), text))
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name, element in value.items():
        if name in properties:
            causes += _check(element, properties[name], f"{prefix}{name}")
        elif isinstance(others, dict):
            causes += _check(element, others, f"{prefix}{name}")
    return causes


def _rules(value: Any, old: Any, schema: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for rule in schema.get(_RULES) or []:
        causes += _rule(rule, value, old, path)
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for name, element in value.items():
            inner = properties.get(name, others)
            if isinstance(inner, dict) and has_rules(inner):
                causes += _rules(element, before.get(name), inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, element in enumerate(value):
            causes += _rules(element, None, schema["items"], f"{path}[{number}]")
    return causes


def _rule(rule: Object, value: Any, old: Any, path: str) -> list[Cause]:
    program = cel.parse(rule["rule"])
    if "oldSelf" in program.names and old is None and not rule.get("optionalOldSelf"):
        return []
    try:
        holds = program.evaluate({"self": value, "oldSelf": old})
    except cel.EvaluationError as error:
        return [bad_value(path, _type_of(value), f"{error} evaluating rule: {rule['rule']}")]
    if holds is True:
        return []
    text = rule.get("message") or f"failed rule: {rule['rule']}"
    where = (path + (rule.get("fieldPath") or "")).removeprefix(".")
    reason = rule.get("reason", "FieldValueInvalid")
    if reason == "FieldValueForbidden":
        return [Cause(reason, f"Forbidden: {text}", where)]
    if reason == "FieldValueRequired":
        return [required(where, text)]
    if isinstance(value, dict | list):
        return [Cause(reason, f"Invalid value: {text}", where)]
    return [replace(bad_value(where, value, text), reason=reason)]
