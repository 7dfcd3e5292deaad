"""What an API server refuses about the schema of a CustomResourceDefinition, with its sentences."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from t9ksched.devcluster.apiserver import cel
from t9ksched.devcluster.apiserver.status import Cause, bad_value, required
from t9ksched.devcluster.apiserver.strategy import Object

_RULES: Final = "x-kubernetes-validations"


def schema_causes(schema: Object, root: str) -> list[Cause]:
    """Why a schema is not structural, and which of its rules cannot be compiled."""
    return [*_structure_causes(schema, root), *_rule_causes(schema, root)]


def _structure_causes(schema: Object, root: str) -> list[Cause]:
    """Why a schema is not structural, with the sentences of the API server."""
    properties = schema.get("properties") or {}
    causes = [cause for name, inner in properties.items() for cause in _untyped(inner, f"{root}.properties[{name}]")]
    about = {key: value for key, value in (properties.get("metadata") or {}).items() if key != "type"}
    if about.keys() - {"properties"} or (about.get("properties") or {}).keys() - {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        causes.append(Cause("FieldValueForbidden", f"Forbidden: {text}", f"{root}.properties[metadata]"))
    return causes


def _untyped(schema: Object, path: str, what: str = "object fields") -> Iterator[Cause]:
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free:
        yield required(f"{path}.type", f"must not be empty for specified {what}")
    if schema.get("type") == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _untyped(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _untyped(schema["additionalProperties"], f"{path}.additionalProperties")
    if isinstance(schema.get("items"), dict):
        yield from _untyped(schema["items"], f"{path}.items", "array items")


def _rule_causes(schema: Object, root: str, *, whole: bool = True) -> list[Cause]:
    """Why rules of a schema, which is that of `whole` objects, cannot be compiled."""
    causes = []
    for number, rule in enumerate(schema.get(_RULES) or []):
        try:
            chains = cel.parse(rule.get("rule", "")).chains
            told = [f"undefined field '{name}'" for name in sorted(_undefined(chains, schema, whole=whole))]
        except cel.SyntaxFault as fault:
            told = [str(fault)]
        for why in told:
            text = f"compilation failed: {why}"
            causes.append(bad_value(f"{root}.{_RULES}[{number}].rule", rule.get("rule", ""), text))
    for name, inner in (schema.get("properties") or {}).items():
        causes += _rule_causes(inner, f"{root}.properties[{name}]", whole=False)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            causes += _rule_causes(schema[name], f"{root}.{name}", whole=False)
    return causes


def _undefined(chains: Iterable[tuple[str, ...]], schema: Object, *, whole: bool) -> set[str]:
    """Fields that rules read and the schema does not name; what it preserves without naming it cannot be read."""
    found = set()
    for variable, *fields in chains:
        if variable not in ("self", "oldSelf") or (whole and fields[0] in ("apiVersion", "kind", "metadata")):
            continue
        within: Any = schema
        for name in fields:
            more = within.get("additionalProperties")
            known = within.get("properties") or {}
            if name in known:
                within = known[name]
            elif isinstance(more, dict):
                within = more
            else:
                if "__" not in name and not within.get("x-kubernetes-embedded-resource"):  # other names are escaped
                    found.add(name)
                break
    return found
