"""The objects that kubectl sends as Protocol Buffers: what `kubectl create deployment|job|role|…` makes from flags.

Bodies begin with a magic word, then an envelope with apiVersion, kind and the object's own message. Field numbers are
those of Kubernetes' published `generated.proto` files; fields that kubectl has no flags for are passed over. Answers
stay JSON, which kubectl reads as well.
"""

import base64
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

Object = dict[str, Any]
MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"


class _Form(Enum):
    """Values that are written otherwise in JSON than as their own message."""

    QUANTITY = "a message around a text"
    PORT = "a number or a text"
    COUNT = "a number that is left out when it is 0"


Shape = dict[int, tuple[str, Any]]
"""Field number to name and type: `str`, `int`, `bool`, `bytes` (shown as base64), a `_Form`, a Shape, `[type]` for a
list, or `(type,)` for a map from text."""

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
_SELECTOR: Final[Shape] = {
    1: ("matchLabels", (str,)),
    2: ("matchExpressions", [{1: ("key", str), 2: ("operator", str), 3: ("values", [str])}]),
}
_CONTAINER: Final[Shape] = {
    1: ("name", str),
    2: ("image", str),
    3: ("command", [str]),
    4: ("args", [str]),
    6: (
        "ports",
        [{1: ("name", str), 2: ("hostPort", _Form.COUNT), 3: ("containerPort", int), 4: ("protocol", str)}],
    ),
    7: ("env", [{1: ("name", str), 2: ("value", str)}]),
    8: ("resources", {1: ("limits", (_Form.QUANTITY,)), 2: ("requests", (_Form.QUANTITY,))}),
    14: ("imagePullPolicy", str),
}
_TEMPLATE: Final[Shape] = {
    1: ("metadata", _META),
    2: (
        "spec",
        {2: ("containers", [_CONTAINER]), 3: ("restartPolicy", str), 7: ("nodeSelector", (str,))}
        | {8: ("serviceAccountName", str)},
    ),
}
_JOB: Final[Shape] = {
    1: ("parallelism", int),
    2: ("completions", int),
    3: ("activeDeadlineSeconds", int),
    4: ("selector", _SELECTOR),
    6: ("template", _TEMPLATE),
    7: ("backoffLimit", int),
    8: ("ttlSecondsAfterFinished", int),
    9: ("completionMode", str),
    10: ("suspend", bool),
}
_RULES: Final[Shape] = {
    1: ("metadata", _META),
    2: (
        "rules",
        [
            {1: ("verbs", [str]), 2: ("apiGroups", [str]), 3: ("resources", [str])}
            | {4: ("resourceNames", [str]), 5: ("nonResourceURLs", [str])}
        ],
    ),
}
_GRANT: Final[Shape] = {
    1: ("metadata", _META),
    2: ("subjects", [{1: ("kind", str), 2: ("apiGroup", str), 3: ("name", str), 4: ("namespace", str)}]),
    3: ("roleRef", {1: ("apiGroup", str), 2: ("kind", str), 3: ("name", str)}),
}
_SERVICE_PORT: Final[Shape] = {
    1: ("name", str),
    2: ("protocol", str),
    3: ("port", int),
    4: ("targetPort", _Form.PORT),
    5: ("nodePort", _Form.COUNT),
}
_SERVICE: Final[Shape] = {
    1: ("ports", [_SERVICE_PORT]),
    2: ("selector", (str,)),
    3: ("clusterIP", str),
    4: ("type", str),
    10: ("externalName", str),
}
_DELETE: Final[Shape] = {
    1: ("gracePeriodSeconds", int),
    2: ("preconditions", {1: ("uid", str), 2: ("resourceVersion", str)}),
    3: ("orphanDependents", bool),
    4: ("propagationPolicy", str),
    5: ("dryRun", [str]),
}


def _kind(**spec: Any) -> Shape:
    """A kind with metadata and a spec of these fields, named `f<number>`."""
    return {1: ("metadata", _META), 2: ("spec", {int(key[1:]): value for key, value in spec.items()})}


_KINDS: Final[dict[str, Shape]] = {
    "Namespace": {1: ("metadata", _META)},
    "ServiceAccount": {1: ("metadata", _META)},
    "ConfigMap": {1: ("metadata", _META), 2: ("data", (str,)), 3: ("binaryData", (bytes,))},
    "Secret": {1: ("metadata", _META), 2: ("data", (bytes,)), 3: ("type", str), 4: ("stringData", (str,))},
    "Service": {1: ("metadata", _META), 2: ("spec", _SERVICE)},
    "ResourceQuota": _kind(f1=("hard", (_Form.QUANTITY,)), f2=("scopes", [str])),
    "Deployment": _kind(f1=("replicas", int), f2=("selector", _SELECTOR), f3=("template", _TEMPLATE)),
    "Job": {1: ("metadata", _META), 2: ("spec", _JOB)},
    "CronJob": _kind(
        f1=("schedule", str),
        f3=("concurrencyPolicy", str),
        f4=("suspend", bool),
        f5=("jobTemplate", {1: ("metadata", _META), 2: ("spec", _JOB)}),
    ),
    "PodDisruptionBudget": _kind(
        f1=("minAvailable", _Form.PORT), f2=("selector", _SELECTOR), f3=("maxUnavailable", _Form.PORT)
    ),
    "PriorityClass": {
        1: ("metadata", _META),
        2: ("value", int),
        3: ("globalDefault", bool),
        4: ("description", str),
        5: ("preemptionPolicy", str),
    },
    "Role": _RULES,
    "ClusterRole": _RULES,
    "RoleBinding": _GRANT,
    "ClusterRoleBinding": _GRANT,
    "Eviction": {1: ("metadata", _META), 2: ("deleteOptions", _DELETE)},
    "DeleteOptions": _DELETE,
    "TokenRequest": _kind(f1=("audiences", [str]), f4=("expirationSeconds", int)),
    "SelfSubjectReview": {1: ("metadata", _META)},
    "SelfSubjectAccessReview": {1: ("metadata", _META), 2: ("spec", _ACCESS)},
    "SelfSubjectRulesReview": _kind(f1=("namespace", str)),
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
    for number, field in _fields(raw):
        if number not in shape:
            continue
        name, kind = shape[number]
        if isinstance(kind, tuple):
            pair = dict(_fields(_bytes(field)))
            key = _bytes(pair.get(1, b"")).decode()
            found.setdefault(name, {})[key] = _value(pair.get(2, b""), kind[0])
        elif isinstance(kind, list):
            found.setdefault(name, []).append(_value(field, kind[0]))
        elif (value := _value(field, kind)) != "" and value is not None:
            found[name] = value
    return found


def _value(field: bytes | int, kind: Any) -> Any:
    if kind is int or kind is bool or kind is _Form.COUNT:
        return _number(field, kind)
    raw = _bytes(field)
    if kind is _Form.QUANTITY:
        return _bytes(dict(_fields(raw)).get(1, b"")).decode()
    if kind is _Form.PORT:
        parts = dict(_fields(raw))
        return _bytes(parts.get(3, b"")).decode() if parts.get(1) == 1 else _number(parts.get(2, 0), int)
    if isinstance(kind, dict):
        return _message(raw, kind)
    return raw.decode() if kind is str else base64.b64encode(raw).decode()


def _number(field: bytes | int, kind: Any) -> int | bool | None:
    if not isinstance(field, int):
        raise Unreadable("a text stands where a number was expected")
    if kind is bool:
        return field != 0 or None
    signed = field - (1 << 64) if field >> 63 else field
    return None if kind is _Form.COUNT and not signed else signed


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
