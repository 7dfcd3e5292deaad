"""CustomResourceDefinitions: their own rules, and the kinds that they add.

A definition is established in the same moment it is stored, as a second write that a watch sees. Deleting one deletes
its objects first. Versions of one definition share their objects; they differ in `apiVersion` only (no conversion).
"""

from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver import structural
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.approval import approval_causes, approval_words
from t9ksched.devcluster.apiserver.cells import age
from t9ksched.devcluster.apiserver.crdschema import schema_causes
from t9ksched.devcluster.apiserver.deletion import CRD_FINALIZER
from t9ksched.devcluster.apiserver.jsonpath import Path
from t9ksched.devcluster.apiserver.kinds import ALL_VERBS, Column, Kind
from t9ksched.devcluster.apiserver.metadata import now
from t9ksched.devcluster.apiserver.options import DeleteOptions
from t9ksched.devcluster.apiserver.schema import decoder
from t9ksched.devcluster.apiserver.selectors import METADATA_FIELDS
from t9ksched.devcluster.apiserver.status import Cause, StatusError, bad_value, forbidden, required
from t9ksched.devcluster.apiserver.storage import Entry
from t9ksched.devcluster.apiserver.strategy import Context, Strategy

Object = dict[str, Any]
GROUP: Final = "apiextensions.k8s.io"
_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class Custom(msgspec.Struct):
    """What a definition's version says: whose objects it has, their schema and their scale subresource."""

    group: str
    plural: str
    schema: Object
    scale: Object | None = None
    fields: list[str] = msgspec.field(default_factory=list)


class CustomStrategy(Strategy):
    """Objects of a definition; none are made once that `leaves`."""

    counts_generation = True
    unconditional_update = False
    twice = False

    def __init__(self, custom: Custom, has_status: bool, leaves: bool) -> None:
        self.custom = custom
        self.leaves = leaves
        self.has_status = has_status
        self.fields = METADATA_FIELDS | {path.lstrip("."): Path(path).text for path in custom.fields}

    def default(self, obj: Object) -> None:
        structural.fill_defaults(obj, self.custom.schema)

    def admit(self, obj: Object, context: Context) -> StatusError | None:
        """Refuse what would keep a definition that is being deleted."""
        if not self.leaves:
            return None
        text = "create not allowed while custom resource definition is terminating"
        return forbidden(self.custom.plural, self.custom.group, obj["metadata"].get("name", ""), text)

    def prepare_create(self, obj: Object) -> None:
        obj["metadata"]["generation"] = 1
        if self.has_status:
            obj.pop("status", None)

    def count_generation(self, new: Object, old: Object) -> None:
        ignored = {"metadata", "status"} if self.has_status else {"metadata"}
        before = {key: value for key, value in old.items() if key not in ignored}
        after = {key: value for key, value in new.items() if key not in ignored}
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + (before != after)

    def validate(self, obj: Object) -> list[Cause]:
        return structural.validate(obj, self.custom.schema)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return structural.validate(new, self.custom.schema, old)

    def prepare_status(self, new: Object, old: Object) -> Object:
        result = {**old, "metadata": dict(old["metadata"])}
        if "managedFields" in new["metadata"]:
            result["metadata"]["managedFields"] = new["metadata"]["managedFields"]
        if "status" in new:
            result["status"] = new["status"]
        else:
            result.pop("status", None)
        return result

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return structural.validate(new, self.custom.schema, old)


class CustomKind(Kind):
    """A kind that a definition adds; the schema decides which fields of an object are kept."""

    def decode(self, body: Object, unknown: list[str]) -> Object:
        """A client's object without what the schema does not know."""
        meta = decoder("V1ObjectMeta")(body.get("metadata"), "metadata", [])
        rest = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
        pruned = structural.prune(rest, self.custom.schema, "", unknown)
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta, **pruned}


class DefinitionStrategy(Strategy):
    """The definitions themselves."""

    has_status = True
    counts_generation = True
    answers_object = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})  # validation says what it lacks
        names = spec.setdefault("names", {})
        kind = names.get("kind", "")
        if kind:
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})
        for version in spec.get("versions") or []:
            version.setdefault("served", False)
            version.setdefault("storage", False)
            for column in version.get("additionalPrinterColumns") or []:
                if not column.get("priority"):
                    column.pop("priority", None)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        stored = [version.get("name", "") for version in obj["spec"].get("versions") or [] if version.get("storage")]
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}

    def validate(self, obj: Object) -> list[Cause]:
        return [*approval_causes(obj), *self._spec_causes(obj)]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return [*approval_causes(new, old), *self._spec_causes(new)]

    def _spec_causes(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        names = spec.get("names") or {}
        causes: list[Cause] = []
        for name in ("group", "scope"):
            if not spec.get(name):
                causes.append(required(f"spec.{name}"))
        for name in ("plural", "kind"):
            if not names.get(name):
                causes.append(required(f"spec.names.{name}"))
        wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != wanted and not causes:
            text = 'must be spec.names.plural+"."+spec.group'
            causes.append(bad_value("metadata.name", obj["metadata"].get("name", ""), text))
        versions = spec.get("versions") or []
        if sum(bool(version.get("storage")) for version in versions) != 1:
            text = "must have exactly one version marked as storage version"
            causes.append(bad_value("spec.versions", [version.get("name") for version in versions], text))
        for number, version in enumerate(versions):
            root = f"spec.versions[{number}].schema.openAPIV3Schema"
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if not schema:
                causes.append(required(root))
            elif schema.get("type") != "object":
                causes.append(bad_value(f"{root}.type", schema.get("type", ""), "must be object at the root"))
            else:
                causes += schema_causes(schema, root)
        return causes

    def mark_deleted(self, obj: Object) -> None:
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["metadata"]["generation"] = max(1, obj["metadata"].get("generation", 1) - 1)
        _mark_terminating(obj)


DEFINITIONS: Final = Kind(
    GROUP,
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    model="V1CustomResourceDefinition",
    strategy=DefinitionStrategy(),
    subresources=("status",),
    verbs=ALL_VERBS,
)


class Definitions:
    """Keeps the table of kinds in step with the stored definitions."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._finishing = False
        api.registry.add(DEFINITIONS)
        api.observers.append(self._observe)
        for entry in list(api.collection(DEFINITIONS).entries.values()):
            self._serve(entry.object)

    def _observe(self, kind: Kind, entry: Entry, removed: bool) -> None:
        if kind is not DEFINITIONS:
            if removed and kind.custom is not None:
                definition = self._api.collection(DEFINITIONS).entries.get(kind.qualified)
                if definition is not None and "deletionTimestamp" in definition.object["metadata"]:
                    self._finish(definition)  # perhaps the last object that kept its definition
            return
        if removed:
            self._stop(entry.object)
        elif "deletionTimestamp" in entry.object["metadata"]:
            self._serve(entry.object)
            self._finish(entry)
        elif not _is_established(entry.object):
            self._api.edit(DEFINITIONS, entry, _establish)
        else:
            self._serve(entry.object)

    def _serve(self, crd: Object) -> None:
        spec = crd["spec"]
        if not _is_established(crd):
            return
        self._api.registry.remove(spec["group"], spec["names"]["plural"])
        stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
        for version in spec["versions"]:
            if version.get("served"):
                self._api.registry.add(_kind(crd, version, stored))
        self._api.storage.collection(crd["metadata"]["name"]).wake()  # of a version that goes, watches end

    def _stop(self, crd: Object) -> None:
        self._api.registry.remove(crd["spec"]["group"], crd["spec"]["names"]["plural"])
        self._api.storage.collection(crd["metadata"]["name"]).wake()

    def _finish(self, entry: Entry) -> None:
        """Delete the definition's objects, then the definition; finalizers may keep some of the objects until later."""
        if CRD_FINALIZER not in (entry.object["metadata"].get("finalizers") or []):
            return
        if self._finishing:
            return
        self._finishing = True
        try:
            empty = self._empty(entry.object["spec"])
        finally:
            self._finishing = False
        current = self._api.collection(DEFINITIONS).entries.get(entry.key)
        if empty and current is not None:
            self._api.edit(DEFINITIONS, current, _release)

    def _empty(self, spec: Object) -> bool:
        """Delete all objects of a definition; whether none is left."""
        for version in spec["versions"]:
            kind = self._api.registry.find(spec["group"], version["name"], spec["names"]["plural"])
            if kind is not None:
                for item in list(self._api.collection(kind).entries.values()):
                    if "deletionTimestamp" not in item.object["metadata"]:
                        self._api.delete_entry(kind, item, DeleteOptions())
                if self._api.collection(kind).entries:
                    return False
        return True


def _is_established(crd: Object) -> bool:
    conditions = crd["status"].get("conditions") or []
    return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)


def _condition(kind: str, reason: str, message: str, status: bool = True) -> Object:
    return {"type": kind, "status": str(status), "lastTransitionTime": now(), "reason": reason, "message": message}


def _establish(crd: Object) -> None:
    crd["status"]["acceptedNames"] = crd["spec"]["names"]
    words = approval_words(crd)
    approval = [_condition(words.type, words.reason, words.message, words.status)] if words else []
    crd["status"]["conditions"] = [
        *approval,
        _condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]


def _mark_terminating(crd: Object) -> None:
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    fresh = _condition("Terminating", "InstanceDeletionPending", text)
    crd["status"] = {**crd["status"], "conditions": [*(crd["status"].get("conditions") or []), fresh]}


def _release(crd: Object) -> None:
    kept = [name for name in crd["metadata"].get("finalizers") or [] if name != CRD_FINALIZER]
    if kept:
        crd["metadata"]["finalizers"] = kept
    else:
        crd["metadata"].pop("finalizers", None)


def _kind(crd: Object, version: Object, stored: str) -> Kind:
    spec, leaves = crd["spec"], "deletionTimestamp" in crd["metadata"]
    names = spec["names"]
    subresources = version.get("subresources") or {}
    schema = version["schema"]["openAPIV3Schema"]
    fields = [entry["jsonPath"] for entry in version.get("selectableFields") or []]
    custom = Custom(spec["group"], names["plural"], schema, subresources.get("scale"), fields)
    api_version = f"{spec['group']}/{version['name']}"
    stored_version = f"{spec['group']}/{stored}"
    same = version["name"] == stored
    return CustomKind(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        strategy=CustomStrategy(custom, "status" in subresources, leaves),
        verbs=_CUSTOM_VERBS,
        subresources=tuple(name for name in ("scale", "status") if name in subresources),
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        to_stored=None if same else lambda obj: {**obj, "apiVersion": stored_version},
        from_stored=None if same else lambda obj: {**obj, "apiVersion": api_version},
        columns=_columns(version.get("additionalPrinterColumns") or []),
        custom=custom,
    )


def _columns(given: list[Object]) -> tuple[Column, ...]:
    name = Column("Name", lambda obj: obj["metadata"]["name"], format="name", description="Name of the object.")
    if not given:
        created = Column("Age", lambda obj: age(obj["metadata"].get("creationTimestamp")), "date")
        return (name, created)
    return (
        name,
        *(
            Column(
                column["name"],
                _reader(column),
                column["type"],
                column.get("priority", 0),
                column.get(
                    "description", f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
                ),
                column.get("format", ""),
            )
            for column in given
        ),
    )


def _reader(column: Object) -> Any:
    path = Path(column["jsonPath"])
    if column["type"] == "date":
        return lambda obj: age(path.first(obj)) if path.first(obj) else "<unknown>"
    if column["type"] == "string":
        return path.printed
    return path.first
