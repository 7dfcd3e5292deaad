"""Media types: what a request's body is written in, and in which form its answer is wanted."""

import json
from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver import protobuf
from t9ksched.devcluster.apiserver.status import StatusError, bad_request
from t9ksched.model.text import read

Object = dict[str, Any]
JSON: Final = "application/json"
YAML: Final = "application/yaml"
_OFFERED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_decode: Final = msgspec.json.Decoder().decode


class Form(msgspec.Struct, frozen=True):
    """How an answer is shown: whole objects, a Table, or metadata only; as JSON or YAML."""

    view: str = ""
    """Empty, `Table`, `PartialObjectMetadata` or `APIGroupDiscoveryList`."""
    yaml: bool = False


PLAIN: Final = Form()
_VIEWS: Final = {
    ("Table", "v1", "meta.k8s.io"): "Table",
    ("PartialObjectMetadata", "v1", "meta.k8s.io"): "PartialObjectMetadata",
    ("PartialObjectMetadataList", "v1", "meta.k8s.io"): "PartialObjectMetadata",
    ("APIGroupDiscoveryList", "v2", "apidiscovery.k8s.io"): "APIGroupDiscoveryList",
}


def negotiate(accept: str | None) -> Form:
    """The first form of an Accept header that this server has; 406 when it has none."""
    if not accept or accept in ("*/*", JSON):
        return PLAIN
    viewed = False
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        wants = dict(part.split("=", 1) for part in rest if "=" in part)
        if media in (JSON, "application/*", "*/*", YAML):
            if "as" not in wants:
                return Form(yaml=media == YAML)
            viewed = True
            view = _VIEWS.get((wants["as"], wants.get("v", ""), wants.get("g", "")))
            if view is not None:
                return Form(view, yaml=media == YAML)
    if viewed:
        raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {_OFFERED}")
    text = f"406: Not Acceptable\n\nAvailable representations: {_OFFERED}"
    raise StatusError(406, "NotAcceptable", text, {})


def _media(content_type: str | None) -> str:
    return (content_type or JSON).split(";", 1)[0].strip().lower()


def read_object(raw: bytes, content_type: str | None, kind: str, *, strict: bool = False) -> Any:
    """The body of a create or update as plain data.

    Raises:
        StatusError: 415 for a form this server does not read, 400 for a text that is not in its form.
    """
    media = _media(content_type)
    if media == protobuf.MEDIA:
        return _message(raw)
    if media not in (JSON, YAML, "application/x-yaml"):
        text = f"the body of the request was in an unknown format - accepted media types include: {_OFFERED}"
        raise StatusError(415, "UnsupportedMediaType", text)
    prefix = (
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
    )
    if not raw.strip():
        raise bad_request(f"{prefix}unexpected end of JSON input (<empty>)")
    body = _parse(raw, media, prefix)
    if not isinstance(body, dict):
        raise bad_request(f"{prefix}the body is no object")
    if strict and media == JSON and (repeated := _repeated(raw)):
        text = f'strict decoding error: duplicate field "{repeated}"'
        raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {text}')
    return body


def _message(raw: bytes) -> Object:
    try:
        return protobuf.read(raw)
    except (protobuf.Unreadable, UnicodeDecodeError) as error:
        raise StatusError(415, "UnsupportedMediaType", str(error)) from None


def _parse(raw: bytes, media: str, prefix: str) -> Any:
    try:
        if media == JSON:
            return _decode(raw)
        return read(raw, repeated=True)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise bad_request(f"{prefix}{error}") from None


def _repeated(raw: bytes) -> str:
    """The first key that occurs twice in one object of a JSON text."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> Object:
        seen = set()
        for key, _ in pairs:
            if key in seen:
                found.append(key)
            seen.add(key)
        return dict(pairs)

    json.loads(raw, object_pairs_hook=collect)
    return found[0] if found else ""


PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def read_patch(raw: bytes, content_type: str | None) -> tuple[str, Any]:
    """The language of a patch and the patch itself."""
    media = _media(content_type or "application/octet-stream")
    if media not in PATCHES:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        if media.endswith("yaml"):
            return media, read(raw, repeated=True)
        return media, _decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None


def read_options(raw: bytes, content_type: str | None) -> Object | None:
    """The body of a delete, if there is one."""
    if not raw.strip():
        return None
    media = _media(content_type)
    if media == protobuf.MEDIA:
        return _message(raw)
    if media not in (JSON, YAML):
        text = f"the body of the request was in an unknown format - accepted media types include: {_OFFERED}"
        raise StatusError(415, "UnsupportedMediaType", text)
    body = _parse(raw, media, "couldn't get version/kind; json parse error: ")
    if not isinstance(body, dict):
        raise bad_request("DeleteOptions must be an object")
    return body
