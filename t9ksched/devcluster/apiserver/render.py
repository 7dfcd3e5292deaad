"""Stored objects as bytes of an answer: one object, a list, or the lines of a watch, in the form the client asked for.

An object's JSON is made once and shared by reads, lists and watches.
"""

from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver import tables
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.listing import Listing
from t9ksched.devcluster.apiserver.media import Form
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.devcluster.apiserver.storage import Entry
from t9ksched.devcluster.apiserver.watch import BOOKMARK, Event

Object = dict[str, Any]
encode: Final = msgspec.json.Encoder().encode


def visible(kind: Kind, entry: Entry) -> Object:
    """The object as this kind's version shows it."""
    return kind.from_stored(entry.object) if kind.from_stored else entry.object


def raw(kind: Kind, entry: Entry) -> bytes:
    """The object's JSON as this kind's version shows it."""
    return encode(kind.from_stored(entry.object)) if kind.from_stored else entry.raw


def one(kind: Kind, entry: Entry, form: Form, include: str, version: int) -> bytes:
    """The answer to a read or write of one object."""
    if form.view == "Table":
        return encode(tables.table(kind, [tables.row(kind, visible(kind, entry), include)], str(version)))
    if form.view == "PartialObjectMetadata":
        return encode(tables.partial(visible(kind, entry)))
    return raw(kind, entry)


def listing(kind: Kind, found: Listing, form: Form, include: str) -> bytes:
    """The answer to a list."""
    if form.view == "Table":
        rows = [tables.row(kind, visible(kind, entry), include) for entry in found.entries]
        body = tables.table(kind, rows, str(found.version), token=found.token, remaining=found.remaining)
        return encode(body)
    meta: Object = {"resourceVersion": str(found.version)}
    if found.token:
        meta["continue"] = found.token
    elif kind.custom is not None and not form.view:
        meta["continue"] = ""
    if found.remaining is not None:
        meta["remainingItemCount"] = found.remaining
    if form.view == "PartialObjectMetadata":
        items = [tables.partial(visible(kind, entry)) for entry in found.entries]
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return encode(head | {"items": items or None})
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta}
    return encode(head)[:-1] + b',"items":[' + b",".join(_item(kind, entry) for entry in found.entries) + b"]}"


def _item(kind: Kind, entry: Entry) -> bytes:
    """An object inside a list: built-in kinds leave out kind and version there."""
    if kind.custom is not None:
        return raw(kind, entry)
    if kind.from_stored is not None:
        return encode({k: v for k, v in visible(kind, entry).items() if k not in ("kind", "apiVersion")})
    whole = entry.raw
    head = kind.head
    return b"{" + whole[len(head) :] if whole.startswith(head) else whole


def error_line(error: StatusError) -> bytes:
    """The last line of a watch that cannot go on."""
    return encode({"type": "ERROR", "object": error.to_dict()}) + b"\n"


class Lines:
    """The lines of one watch."""

    def __init__(self, kind: Kind, form: Form, include: str) -> None:
        self._kind = kind
        self._form = form
        self._include = include
        self._headed = False

    def line(self, event: Event) -> bytes:
        """One event as a line of JSON."""
        if self._form.view:
            return encode({"type": event.type, "object": self._viewed(event)}) + b"\n"
        body = event.entry.raw if event.type == BOOKMARK else raw(self._kind, event.entry)
        return b'{"type":"%s","object":%s}\n' % (event.type.encode(), body)

    def _viewed(self, event: Event) -> Object:
        if event.type == BOOKMARK:
            obj = event.entry.object
            rows: list[Object] = []
        else:
            obj = visible(self._kind, event.entry)
            rows = [tables.row(self._kind, obj, self._include)] if self._form.view == "Table" else []
        if self._form.view != "Table":
            return tables.partial(obj)
        head, self._headed = not self._headed, True
        body = tables.table(self._kind, rows, obj["metadata"]["resourceVersion"], head=head)
        if event.type == BOOKMARK:
            body["rows"] = [{"cells": [], "object": tables.partial(obj)}]
        return body
