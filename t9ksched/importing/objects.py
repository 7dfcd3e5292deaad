"""Documents as objects of one scheduler: sorted by kind, each with the place it was read from.

A `Fields` hands out the fields of an object and keeps count of them: what nobody asked for is told as unknown, so that
no field is passed over in silence.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from t9ksched.importing.report import Json, Line, Outcome, Report
from t9ksched.model.errors import child, shown
from t9ksched.model.quantity import QuantityError, parse, to_units

PRIORITY_CLASSES: Final = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class Document:
    """One document, and where it stands: `queues.yaml[2]`."""

    place: str
    value: Any


@dataclass(frozen=True, slots=True)
class Kinds:
    """What is read of one API group: `kinds` by name, with their plural and whether they are in namespaces."""

    group: str
    versions: tuple[str, ...]
    kinds: Mapping[str, tuple[str, bool]]


class Fields:
    """The fields of one object. Values are asked for by path below `spec`; what became of each is told by path."""

    def __init__(self, document: Document, report: Report) -> None:
        value = document.value
        metadata = value["metadata"]
        self.place = document.place
        self.kind: str = value["kind"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace") or ""
        self.annotations: Mapping[str, Any] = metadata.get("annotations") or {}
        self.labels: Mapping[str, Any] = metadata.get("labels") or {}
        self.status: Mapping[str, Any] = value.get("status") or {}
        self.spec: Mapping[str, Any] = value.get("spec") or {}
        self.whole: Mapping[str, Any] = value
        self._report = report
        self._read: set[str] = set()

    @property
    def title(self) -> str:
        """Kind and name, of objects in namespaces with it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def origin(self) -> str:
        """Where it stands and what it is, for faults."""
        return f"{self.place}: {self.title}"

    def text(self, key: str) -> str:
        """A text of the spec, empty if it is not there."""
        value = self.spec.get(key)
        if value is not None and not isinstance(value, str):
            self.fault(f"spec.{key}", f"must be a text, not {shown(value)}")
        return value if isinstance(value, str) else ""

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A mapping of the spec, empty if it is not there."""
        return self.inner(self.spec, key, "spec")

    def inner(self, outer: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
        """A mapping in another, which is at `path`."""
        value = outer.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.fault(child(path, key), f"must be a mapping, not {shown(value)}")
        return value if isinstance(value, Mapping) else {}

    def items(self, outer: Mapping[str, Any], key: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The mappings of a list, each with its path."""
        value = outer.get(key)
        if value is not None and not isinstance(value, list):
            self.fault(child(path, key), f"must be a list, not {shown(value)}")
            return
        for index, one in enumerate(value or ()):
            place = f"{child(path, key)}[{index}]"
            if isinstance(one, Mapping):
                yield place, one
            else:
                self.fault(place, f"must be a mapping, not {shown(one)}")

    def whole_number(self, outer: Mapping[str, Any], key: str, path: str) -> int | None:
        """A whole number, None if it is not there."""
        value = outer.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.fault(child(path, key), f"must be a whole number, not {shown(value)}")
            return None
        return value

    def units(self, resource: str, value: Any, path: str) -> int | None:
        """A quantity in the units it is counted in; None if it is none, or negative."""
        try:
            if parse(value) < 0:
                self.fault(path, f"{shown(value)} is negative: a quota is 0 or more")
                return None
            return to_units(resource, value)
        except QuantityError as error:
            self.fault(path, str(error))
            return None

    def fault(self, path: str, message: str) -> None:
        """Something that prevents the import."""
        self._report.faults.append(f"{self.origin}: {path}: {message}")

    def told(self, path: str, outcome: Outcome, here: str, value: Any = None) -> None:
        """Say what became of the field at `path`."""
        self._read.add(path)
        self._report.lines.append(Line(self.place, self.title, path, value, outcome, here))

    def none(self, key: str, here: str) -> None:
        """Say of a field of the spec, if it is there, that it has no counterpart."""
        if (value := self.spec.get(key)) is not None:
            self.told(f"spec.{key}", "none", here, value)

    def rest(self) -> None:
        """Say of each field of the spec that nothing was said of that it is unknown."""
        for key, value in self.spec.items():
            path = child("spec", str(key))
            if not any(one == path or one.startswith((f"{path}.", f"{path}[")) for one in self._read):
                self.told(path, "none", "this field is not known, and left out", value)


@dataclass(slots=True)
class Objects:
    """The objects that concern a scheduler, by kind, in the order they were read."""

    by_kind: dict[str, list[Fields]] = field(default_factory=dict)
    others: int = 0
    """Objects of other groups, which are passed over."""

    def of(self, kind: str) -> list[Fields]:
        """All of one kind."""
        return self.by_kind.get(kind, [])


def sort(documents: Iterable[Document], groups: Iterable[Kinds], report: Report) -> Objects:
    """Find the objects that are read; what is wrong with a document is a fault of the report."""
    known = {one.group: one for one in groups}
    found = Objects()
    seen: dict[tuple[str, str, str], str] = {}
    for document in _each(documents):
        value = document.value
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            report.faults.append(f"{document.place}: is no object: it has no kind; take the file away, or mend it")
            continue
        api, kind = str(value.get("apiVersion") or ""), value["kind"]
        group, _, version = api.rpartition("/")
        own = known.get(group)
        if own is None:
            found.others += 1
            continue
        if version not in own.versions:
            versions = ", ".join(f"{group}/{one}" for one in own.versions)
            remedy = "read the objects from the cluster (--from-cluster), which serves another version"
            report.faults.append(f"{document.place}: apiVersion: {api!r} is not known, only {versions}: {remedy}")
            continue
        if fault := _malformed(value):
            report.faults.append(f"{document.place}: {kind}: {fault}")
            continue
        fields = Fields(document, report)
        if kind not in own.kinds:
            fields.told("", "none", "objects of this kind are not read")
            continue
        if own.kinds[kind][1] and not fields.namespace:
            fields.namespace = "default"
            fields.told("metadata.namespace", "same", "default, where kubectl creates what names none")
        key = (kind, fields.namespace, fields.name)
        if key in seen:
            report.faults.append(f"{fields.origin}: is in {seen[key]} too: take one of them away")
            continue
        seen[key] = document.place
        found.by_kind.setdefault(kind, []).append(fields)
    return found


def _each(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents, and of lists as `kubectl get` writes them each object."""
    for document in documents:
        value = document.value
        if isinstance(value, Mapping) and isinstance(value.get("items"), list):
            kind = str(value.get("kind") or "").removesuffix("List")
            common: Json = {"apiVersion": value.get("apiVersion"), "kind": kind} if kind else {}
            for index, item in enumerate(value["items"]):
                inner = {**common, **item} if isinstance(item, Mapping) else item
                yield Document(f"{document.place}.items[{index}]", inner)
        elif value is not None:
            yield document


def _malformed(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "metadata.name: is missing: an object has a name"
    for key in ("spec", "status"):
        if value.get(key) is not None and not isinstance(value[key], Mapping):
            return f"{key}: must be a mapping, not {shown(value[key])}"
    for key in ("labels", "annotations"):
        if metadata.get(key) is not None and not isinstance(metadata[key], Mapping):
            return f"metadata.{key}: must be a mapping, not {shown(metadata[key])}"
    return ""
