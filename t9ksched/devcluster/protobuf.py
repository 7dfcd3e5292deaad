"""The few objects that kubectl sends as Protocol Buffers: what `kubectl create namespace|configmap|…` makes from flags.

Bodies begin with a magic word, then an envelope with apiVersion, kind and the object's own message. Field numbers are
those of Kubernetes' published `generated.proto` files. Answers stay JSON, which kubectl reads as well.
"""

import base64
from collections.abc import Iterator
from typing import Any, Final

Object = dict[str, Any]
MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"

Shape = dict[int, tuple[str, Any]]
"""Field number to name and type: `str`, `bytes` (shown as base64), a Shape, or `(type,)` for a map from text."""

_META: Final[Shape] = {
    1: ("name", str),
    2: ("generateName", str),
    3: ("namespace", str),
    11: ("labels", (str,)),
    12: ("annotations", (str,)),
}
_RESOURCE: Final[Shape] = {
    number: (name, str)
    for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), start=1)
}
_ACCESS: Final[Shape] = {
    1: ("resourceAttributes", _RESOURCE),
    2: ("nonResourceAttributes", {1: ("path", str), 2: ("verb", str)}),
}
_KINDS: Final[dict[str, Shape]] = {
    "Namespace": {1: ("metadata", _META)},
    "ServiceAccount": {1: ("metadata", _META)},
    "ConfigMap": {1: ("metadata", _META), 2: ("data", (str,)), 3: ("binaryData", (bytes,))},
    "Secret": {1: ("metadata", _META), 2: ("data", (bytes,)), 3: ("type", str), 4: ("stringData", (str,))},
    "SelfSubjectAccessReview": {1: ("metadata", _META), 2: ("spec", _ACCESS)},
}


class Unreadable(ValueError):
    """A message of a kind that is not known here, or no message at all."""


def read(raw: bytes) -> Object:
    """The object in a body.

    Raises:
        Unreadable: its kind is not among those that kubectl sends this way and we read.
    """
    if not raw.startswith(_MAGIC):
        raise Unreadable("the body does not begin as a Kubernetes message does")
    envelope = dict(_fields(raw[len(_MAGIC) :]))
    about = dict(_fields(_bytes(envelope.get(1, b""))))
    kind = _bytes(about.get(2, b"")).decode()
    shape = _KINDS.get(kind)
    if shape is None:
        raise Unreadable(f"a {kind or 'nameless kind'} cannot be read as a Protocol Buffer: send JSON or YAML")
    return {
        "apiVersion": _bytes(about.get(1, b"")).decode(),
        "kind": kind,
        **_message(_bytes(envelope.get(2, b"")), shape),
    }


def _message(raw: bytes, shape: Shape) -> Object:
    found: Object = {}
    for number, value in _fields(raw):
        if number not in shape:
            continue
        name, kind = shape[number]
        if isinstance(kind, tuple):
            pair = dict(_fields(_bytes(value)))
            key = _bytes(pair.get(1, b"")).decode()
            found.setdefault(name, {})[key] = _value(_bytes(pair.get(2, b"")), kind[0])
        else:
            found[name] = _value(_bytes(value), kind)
    return {name: value for name, value in found.items() if value != ""}


def _value(raw: bytes, kind: Any) -> Any:
    if isinstance(kind, dict):
        return _message(raw, kind)
    return raw.decode() if kind is str else base64.b64encode(raw).decode()


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise Unreadable("a number stands where a text was expected")
    return value


def _fields(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Numbers and values of a message's fields, in their order."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(raw, at)
            yield number, value
            continue
        size, at = _varint(raw, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, len(raw) + 1), at)
        if at + size > len(raw):
            raise Unreadable("the message ends in the middle of a field")
        yield number, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw):
            raise Unreadable("the message ends in the middle of a number")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
