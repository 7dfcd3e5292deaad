"""The API server's operations on objects, without HTTP: read, create, update, patch and delete.

One operation runs to its end without a pause, so each is atomic. Everything that HTTP clients and in-process callers
may do goes through here: decoding, defaults, admission, validation, preconditions, storage. Faults are `StatusError`.
"""

from collections.abc import Callable
from typing import Any, Final

from t9ksched.devcluster.apiserver import admission, deletion, metadata, options, ownership, selectors
from t9ksched.devcluster.apiserver.decoding import (
    check_name,
    check_namespace,
    decode,
    invalid_object,
    report_unknown,
    set_defaults,
)
from t9ksched.devcluster.apiserver.kinds import Kind, Registry
from t9ksched.devcluster.apiserver.listing import Listing, first_after, page_of, stale
from t9ksched.devcluster.apiserver.options import DeleteOptions, ListOptions, WriteOptions
from t9ksched.devcluster.apiserver.patching import apply_patch, general_refusal
from t9ksched.devcluster.apiserver.policies import Policies
from t9ksched.devcluster.apiserver.schema import WrongType
from t9ksched.devcluster.apiserver.selectors import Matches
from t9ksched.devcluster.apiserver.status import (
    Cause,
    already_exists,
    bad_value,
    conflict,
    forbidden,
    internal,
    invalid,
    not_found,
    success,
    unknown_path,
)
from t9ksched.devcluster.apiserver.storage import Collection, Entry, Storage, TooOld
from t9ksched.devcluster.apiserver.strategy import check_metadata
from t9ksched.model.whole import whole_number

Object = dict[str, Any]

_DEFAULT: Final = WriteOptions()


class Api:
    """The operations, over one storage and one table of kinds."""

    def __init__(self, storage: Storage, registry: Registry) -> None:
        self.storage = storage
        self.registry = registry
        self.context = admission.StorageContext(storage)
        self.policies = Policies(storage)
        self.observers: list[Callable[[Kind, Entry, bool], None]] = []
        """Called after each write with the kind, the entry and whether it was a removal."""

    # ---- reading

    def kind(self, group: str, version: str, plural: str) -> Kind:
        """The kind at a path; 404 when the server has none there."""
        found = self.registry.find(group, version, plural)
        if found is None:
            raise unknown_path()
        return found

    def collection(self, kind: Kind) -> Collection:
        """Where the objects of a kind are kept."""
        return self.storage.collection(kind.collection)

    def get(self, kind: Kind, namespace: str | None, name: str) -> Entry:
        """One object; 404 when there is none."""
        entry = self.collection(kind).entries.get(kind.key(namespace, name))
        if entry is None:
            raise not_found(kind.plural, kind.group, name)
        return entry

    def matcher(self, kind: Kind, labels: str, fields: str) -> Matches | None:
        """The predicate of the two selectors of a request."""
        return selectors.both(selectors.labels(labels), selectors.fields(fields, kind.strategy.fields))

    def listing(self, kind: Kind, namespace: str | None, opts: ListOptions) -> Listing:
        """A list or one page of it.

        Without a version it shows the present; with `Exact`, or a version and a limit, exactly that version; a token
        goes on at the version of its first page.
        """
        matches = self.matcher(kind, opts.labels, opts.fields)
        collection = self.collection(kind)
        prefix = f"{namespace}/" if namespace and kind.namespaced else ""
        version, after, limit = self.storage.version, "", max(0, opts.limit)
        asked = options.parse_version(opts.version)
        if opts.token:
            version, after = options.read_token(opts.token)
            version = self.storage.version if version < 0 else version
        elif opts.match == "Exact" or (asked and limit and not opts.match):
            version = asked
        elif opts.version == "0" and not opts.match:
            limit = 0
        try:
            entries = collection.range_at(version, prefix)
        except TooOld:
            raise stale(opts, after) from None
        if after:
            first = first_after(entries, prefix + after)
            entries = entries[first:]
        return page_of(entries, matches, limit, version, prefix)

    # ---- writing

    def create(self, kind: Kind, namespace: str | None, body: Object, opts: WriteOptions = _DEFAULT) -> Entry:
        """A new object; its name is generated when only `generateName` is given."""
        obj = decode(kind, body, opts)
        return self._insert(kind, namespace, obj, opts)

    def _insert(self, kind: Kind, namespace: str | None, obj: Object, opts: WriteOptions) -> Entry:
        meta = obj["metadata"]
        check_namespace(kind, namespace, meta)
        if meta.get("resourceVersion") not in (None, "", "0"):
            raise internal("resourceVersion should not be set on objects to be created", "")
        if namespace and kind.namespaced:
            self._check_open(kind, namespace, meta.get("name", ""))
        managed = meta.get("managedFields") if opts.applies else None
        metadata.fill_in(meta, namespace if kind.namespaced else None)
        if managed:
            meta["managedFields"] = managed
        strategy = kind.strategy
        set_defaults(kind, obj)
        refused = strategy.admit(obj, self.context)
        if refused is not None:
            raise refused
        strategy.prepare_create(obj)
        causes = check_metadata(strategy, obj) + strategy.validate(obj)
        if causes:
            raise invalid_object(kind, meta.get("name", ""), causes)
        self.policies.check("CREATE", kind.path, "", obj, None)
        if kind.to_stored is not None:
            obj = kind.to_stored(obj)
        key = kind.key(namespace, meta["name"])
        collection = self.collection(kind)
        if key in collection.entries:
            raise already_exists(kind.plural, kind.group, meta["name"])
        if opts.dry_run:
            return Entry(key, obj, 0)
        entry = self.storage.put(collection, key, obj)
        self._notify(kind, entry, removed=False)
        return entry

    def replace(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Object,
        opts: WriteOptions = _DEFAULT,
        subresource: str = "",
    ) -> tuple[Entry, bool]:
        """PUT: the whole object, or its status; also whether it was created by this."""
        obj = decode(kind, body, opts)
        meta = obj["metadata"]
        check_name(kind, namespace, name, meta)
        old = self.collection(kind).entries.get(kind.key(namespace, name))
        if old is None:
            if kind.strategy.create_on_update and not subresource:
                return self._insert(kind, namespace, obj, opts), True
            raise not_found(kind.plural, kind.group, name)
        self._check_version(kind, name, meta, old)
        if meta.get("uid", old.object["metadata"]["uid"]) != old.object["metadata"]["uid"]:
            text = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/{old.key}, ResourceVersion: 0,"
                f" AdditionalErrorMsg: Precondition failed: UID in precondition: {meta['uid']}, UID in object meta:"
                f" {old.object['metadata']['uid']}"
            )
            raise conflict(kind.plural, kind.group, name, text)
        return self._store(kind, old, obj, opts, subresource), False

    def _check_version(self, kind: Kind, name: str, meta: Object, old: Entry) -> None:
        version = meta.get("resourceVersion", "")
        if version in ("", "0"):
            if not kind.strategy.unconditional_update:
                cause = bad_value("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid(kind.plural, kind.group, name, [cause])
        elif whole_number(version) is None:
            raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax', "")
        elif int(version) != old.version:
            raise conflict(kind.plural, kind.group, name)

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Any,
        content_type: str,
        opts: WriteOptions = _DEFAULT,
        subresource: str = "",
    ) -> Entry:
        """A patch of the object or of its status, in one of three languages."""
        entry = self.get(kind, namespace, name)
        current = kind.from_stored(entry.object) if kind.from_stored else entry.object
        patched = apply_patch(kind, current, body, content_type)
        if not isinstance(patched, dict):
            raise general_refusal()
        return self.update(kind, entry, patched, opts, subresource, source=body)

    def update(
        self,
        kind: Kind,
        entry: Entry,
        changed: Object,
        opts: WriteOptions,
        subresource: str = "",
        *,
        source: Any = None,
    ) -> Entry:
        """Store what a patch made of an object; `source` is the patch, for messages."""
        unknown: list[str] = []
        try:
            obj = kind.decode(changed, unknown)
        except WrongType as error:
            raise invalid("", "", "", [bad_value("patch", source, str(error))]) from None
        report_unknown(unknown, opts, patch_body=source)
        meta = obj["metadata"]
        name = entry.object["metadata"]["name"]
        check_name(kind, entry.object["metadata"].get("namespace"), name, meta)
        version = meta.get("resourceVersion", "")
        if version and version != str(entry.version):
            raise conflict(kind.plural, kind.group, name)
        return self._store(kind, entry, obj, opts, subresource)

    def _store(self, kind: Kind, old: Entry, obj: Object, opts: WriteOptions, subresource: str) -> Entry:
        """Check a changed object against the old one, and store it if it differs."""
        before = kind.from_stored(old.object) if kind.from_stored else old.object
        strategy = kind.strategy
        set_defaults(kind, obj)
        meta = obj["metadata"]
        if not opts.applies:
            meta.pop("managedFields", None)
        metadata.carry_over(meta, before["metadata"])
        if subresource == "status":
            obj = strategy.prepare_status(obj, before)
            meta = obj["metadata"]
            causes = metadata.validate_update(meta, before["metadata"]) + strategy.validate_status(obj, before)
        else:
            strategy.prepare_update(obj, before)
            faults = metadata.validate_update(meta, before["metadata"])
            causes = faults * (2 if strategy.twice else 1) + strategy.validate_update(obj, before)
        if causes:
            raise invalid_object(kind, before["metadata"]["name"], causes)
        if not subresource and (refused := strategy.admit_update(obj, self.context)) is not None:
            raise refused
        self.policies.check("UPDATE", kind.path, subresource, obj, before)
        if "managedFields" in meta and not opts.applies:
            ownership.steal(meta, before, obj, ownership.shape_of(kind))
        if kind.to_stored is not None:
            obj = kind.to_stored(obj)
        return self.write(kind, old, obj, opts.dry_run)

    def write(self, kind: Kind, old: Entry, obj: Object, dry_run: bool = False) -> Entry:
        """Store a checked object in place of an old one; an equal one is not written.

        An object whose deletion waited only for finalizers that are gone now is removed.
        """
        if obj == old.object:
            return old
        meta = obj["metadata"]
        if dry_run:
            return Entry(old.key, obj, old.version)
        collection = self.collection(kind)
        if deletion.is_over(kind, obj):
            last = Entry(old.key, {**obj, "metadata": dict(meta)}, old.version)
            self._notify(kind, self.storage.remove(collection, old.key), removed=True)
            return last
        entry = self.storage.put(collection, old.key, obj)
        self._notify(kind, entry, removed=False)
        return entry

    def edit(self, kind: Kind, entry: Entry, change: Callable[[Object], None]) -> Entry:
        """A write of the server itself: `change` gets a copy with its own top level, metadata, spec and status."""
        obj = dict(entry.object)
        for part in ("metadata", "spec", "status"):
            if isinstance(obj.get(part), dict):
                obj[part] = dict(obj[part])
        change(obj)
        return self.write(kind, entry, obj)

    def finalize(self, kind: Kind, name: str, body: Object, opts: WriteOptions = _DEFAULT) -> Entry:
        """Replace a namespace's own finalizers; without any, one that is being deleted ends."""
        obj = decode(kind, body, opts)
        check_name(kind, None, name, obj["metadata"])
        old = self.get(kind, None, name)
        self._check_version(kind, name, obj["metadata"], old)
        spec = {**old.object.get("spec", {}), "finalizers": obj.get("spec", {}).get("finalizers") or []}
        if not spec["finalizers"]:
            del spec["finalizers"]
        return self.write(
            kind, old, {**old.object, "metadata": dict(old.object["metadata"]), "spec": spec}, opts.dry_run
        )

    def delete(
        self, kind: Kind, namespace: str | None, name: str, opts: DeleteOptions | None = None
    ) -> tuple[Object, bool]:
        """Delete one object; the answer's body, and whether the object is gone."""
        entry = self.get(kind, namespace, name)
        last, gone = self.delete_entry(kind, entry, opts or DeleteOptions())
        if gone and not kind.strategy.answers_object:
            return success(name, kind.group, kind.plural, entry.object["metadata"]["uid"]), gone
        return (kind.from_stored(last.object) if kind.from_stored else last.object), gone

    def delete_entry(self, kind: Kind, entry: Entry, opts: DeleteOptions) -> tuple[Entry, bool]:
        """Delete an object that was just read; its last state, and whether it is gone."""
        deletion.check_preconditions(kind, entry, opts)
        self.policies.check("DELETE", kind.path, "", None, entry.object)
        step = deletion.plan(kind, entry, opts)
        if opts.dry_run:
            return Entry(entry.key, step.obj or entry.object, entry.version), step.remove
        collection = self.collection(kind)
        last = entry
        if step.obj is not None:
            last = self.storage.put(collection, entry.key, step.obj)
            self._notify(kind, last, removed=False)
        if step.remove:
            last = self.storage.remove(collection, entry.key)
            self._notify(kind, last, removed=True)
        return last, step.remove

    def delete_collection(self, kind: Kind, namespace: str | None, which: ListOptions, opts: DeleteOptions) -> Listing:
        """Delete all objects that the selectors match; the list as it was before."""
        found = self.listing(kind, namespace, which)
        for entry in found.entries:
            self.delete_entry(kind, entry, opts)
        return found

    def _notify(self, kind: Kind, entry: Entry, *, removed: bool) -> None:
        for observer in self.observers:
            observer(kind, entry, removed)

    # ---- checks

    def _check_open(self, kind: Kind, namespace: str, name: str) -> None:
        found = self.storage.collection("namespaces").entries.get(namespace)
        if found is None:
            raise not_found("namespaces", "", namespace)
        if "deletionTimestamp" in found.object["metadata"]:
            cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind.plural, kind.group, name, text, [cause])
