"""Lists of objects as a server sends them: each object stays its own undecoded JSON."""

from __future__ import annotations

import msgspec

from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import Object, Page, Payload
from t9ksched.kube.transport.deep import shallow
from t9ksched.model.api_resource import Resource


class _ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, gc=False):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_List)
_ANY = msgspec.json.Decoder()


def read_page(path: str, body: bytes) -> tuple[Page, str]:
    """A page of the list at `path`, and the token of the next one, empty at the end. Raises ApiError."""
    try:
        found = _page(body)
    except msgspec.MsgspecError as failure:
        raise ApiError(200, "Malformed", f"GET {path}: the list cannot be read: {failure}") from None
    more = found.metadata.continue_
    return Page([bytes(item) for item in found.items or ()], found.metadata.resource_version, not more), more


def _page(body: bytes) -> _List:
    try:
        return _LIST.decode(body)
    except RecursionError:
        return _LIST.decode(shallow(body))


def named(res: Resource, payload: Payload) -> Object:
    """A list item as a dict that says its own kind and apiVersion, which servers leave out of lists."""
    obj: Object = _ANY.decode(payload) if isinstance(payload, bytes) else payload
    obj.setdefault("apiVersion", res.api_version)
    obj.setdefault("kind", res.api_kind)
    return obj
