"""OpenAPI version 2 of the same schemas, as JSON and as the Protocol Buffer that kubectl asks for.

kubectl reads it to validate a `kind: List` before it sends the items one by one. Field numbers are those of gnostic's
published `OpenAPIv2.proto`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

Object = dict[str, Any]
MEDIA: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED: Final = "application/com.github.proto-openapi.spec.v2"
"""How every spelling of the media type begins that clients send."""

_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
_KEPT: Final = ("type", "format", "description", "required", "enum")

_DOCUMENT: Final = {"swagger": 1, "info": 2, "paths": 8, "definitions": 9}
_INFO: Final = {"title": 1, "version": 2}
_SCHEMA: Final = {"$ref": 1, "format": 2, "description": 4, "required": 19, "enum": 20, "additionalProperties": 21}
_SCHEMA_TYPE, _SCHEMA_ITEMS, _SCHEMA_PROPERTIES, _SCHEMA_EXTENSION = 22, 23, 25, 31


def document(info: Mapping[str, str], schemas: Mapping[str, Object]) -> Object:
    """The version 2 document of version 3 schemas, by their names. It has no paths: they are in version 3."""
    definitions = {name: _schema(schema) for name, schema in schemas.items()}
    empty: Object = {"parameters": {}, "securityDefinitions": {}, "security": []}
    return {"swagger": "2.0", "info": dict(info), "paths": {}, "definitions": definitions} | empty


def _schema(schema: Any) -> Object:
    """One schema. A lone `allOf` with a reference, as version 3 writes a described field, becomes the reference."""
    if not isinstance(schema, dict):
        return {}
    parts: list[Object] = schema.get("allOf") or []
    reference = schema.get("$ref") or (len(parts) == 1 and parts[0].get("$ref"))
    if reference:
        found: Object = {"$ref": str(reference).replace(_V3, _V2)}
        return found | {key: schema[key] for key in ("description",) if key in schema}
    found = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
    if "items" in schema:
        found["items"] = _schema(schema["items"])
    if "properties" in schema:
        found["properties"] = {name: _schema(field) for name, field in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _schema(schema["additionalProperties"])
    return found | {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}


def encode(described: Object) -> bytes:
    """The document as a Protocol Buffer (`openapi.v2.Document`)."""
    return (
        _text(_DOCUMENT["swagger"], described["swagger"])
        + _field(_DOCUMENT["info"], b"".join(_text(_INFO[key], value) for key, value in described["info"].items()))
        + _field(_DOCUMENT["paths"], b"")
        + _field(_DOCUMENT["definitions"], _named(described["definitions"]))
    )


def _named(schemas: Mapping[str, Object]) -> bytes:
    """Properties or definitions: a list of `NamedSchema`."""
    return b"".join(_field(1, _text(1, name) + _field(2, _encode_schema(schema))) for name, schema in schemas.items())


def _encode_schema(schema: Object) -> bytes:
    written: list[bytes] = []
    for key, value in schema.items():
        if key == "type":
            written.append(_field(_SCHEMA_TYPE, _text(1, value)))
        elif key == "items":
            written.append(_field(_SCHEMA_ITEMS, _field(1, _encode_schema(value))))
        elif key == "properties":
            written.append(_field(_SCHEMA_PROPERTIES, _named(value)))
        elif key == "additionalProperties":
            written.append(_field(_SCHEMA["additionalProperties"], _field(1, _encode_schema(value))))
        elif key == "enum":
            written += [_field(_SCHEMA["enum"], _any(one)) for one in value]
        elif key == "required":
            written += [_text(_SCHEMA["required"], one) for one in value]
        elif key.startswith("x-"):
            written.append(_field(_SCHEMA_EXTENSION, _text(1, key) + _field(2, _any(value))))
        else:
            written.append(_text(_SCHEMA[key], str(value)))
    return b"".join(written)


def _any(value: Any) -> bytes:
    """A value of any shape travels as YAML, which JSON is."""
    return _text(2, msgspec.json.encode(value).decode())


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    def digits(left: int) -> Iterable[int]:
        while left > 0x7F:
            yield left & 0x7F | 0x80
            left >>= 7
        yield left

    return bytes(digits(value))
