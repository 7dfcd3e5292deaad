"""What a delete does to an object: mark it and wait, or remove it.

An object with finalizers is marked and stays until they are gone; a pod bound to a node is marked with the moment at
which its grace ends and stays until its kubelet deletes it with grace 0. `plan` decides, the caller writes.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver import metadata
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.options import DeleteOptions
from t9ksched.devcluster.apiserver.status import StatusError, details
from t9ksched.devcluster.apiserver.storage import Entry

Object = dict[str, Any]
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
CRD_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


class Step(msgspec.Struct, frozen=True):
    """A changed object to store (or None), and whether the object is to be removed afterwards."""

    obj: Object | None
    remove: bool


def is_over(kind: Kind, obj: Object) -> bool:
    """Whether an object that is being deleted has no finalizers and no grace period left."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if kind.kind == "Namespace" and not kind.group:
        return not obj.get("spec", {}).get("finalizers")
    return not meta.get("deletionGracePeriodSeconds")


def check_preconditions(kind: Kind, entry: Entry, opts: DeleteOptions) -> None:
    """Refuse with 409 when the object is not the one, or not the version, that the client means."""
    meta = entry.object["metadata"]
    text = ""
    if opts.uid and opts.uid != meta["uid"]:
        text = (
            f"the UID in the precondition ({opts.uid}) does not match the UID in record ({meta['uid']})."
            " The object might have been deleted and then recreated"
        )
    elif opts.version and opts.version != str(entry.version):
        text = (
            f"the ResourceVersion in the precondition ({opts.version}) does not match the ResourceVersion in record"
            f" ({entry.version}). The object might have been modified"
        )
    if text:
        shown = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
        message = f'Operation cannot be fulfilled on {shown} "{meta["name"]}": {text}'
        raise StatusError(409, "Conflict", message, details(meta["name"], kind.group, kind.kind))


def plan(kind: Kind, entry: Entry, opts: DeleteOptions) -> Step:
    """What this delete does to the object."""
    obj = entry.object
    meta = obj["metadata"]
    if kind.kind == "Namespace" and not kind.group:
        return _namespace(obj)
    finalizers = _finalizers(kind, meta, opts.propagation)
    grace = kind.strategy.deletion_grace(obj, opts.grace)
    if "deletionTimestamp" in meta:
        return _again(obj, finalizers, grace)
    if grace is None and not finalizers:
        return Step(None, True)
    marked = _mark(obj, grace or 0, finalizers)
    kind.strategy.mark_deleted(marked)
    return Step(marked, not grace and not finalizers)


def _finalizers(kind: Kind, meta: Object, propagation: str | None) -> list[str]:
    finalizers = list(meta.get("finalizers") or [])
    if kind.kind == "CustomResourceDefinition" and CRD_FINALIZER not in finalizers:
        finalizers.append(CRD_FINALIZER)
    if propagation is None:
        return finalizers
    wanted = {"Orphan": metadata.ORPHAN, "Foreground": metadata.FOREGROUND}.get(propagation)
    finalizers = [name for name in finalizers if name not in (metadata.ORPHAN, metadata.FOREGROUND) or name == wanted]
    if wanted and wanted not in finalizers:
        finalizers.append(wanted)
    return finalizers


def _mark(obj: Object, grace: int, finalizers: list[str]) -> Object:
    meta = dict(obj["metadata"])
    meta["deletionTimestamp"] = (datetime.now(UTC) + timedelta(seconds=grace)).strftime(_TIME)
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    _set_finalizers(meta, finalizers)
    return {**obj, "metadata": meta}


def _set_finalizers(meta: Object, finalizers: list[str]) -> None:
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _again(obj: Object, finalizers: list[str], grace: int | None) -> Step:
    """A further delete: it may only shorten the grace or add what must happen first."""
    meta = obj["metadata"]
    before = meta.get("deletionGracePeriodSeconds", 0)
    changed = finalizers != (meta.get("finalizers") or [])
    shorter = grace is not None and grace < before
    if not changed and not shorter:
        return Step(None, not finalizers and not before and grace is not None)
    fresh = dict(meta)
    _set_finalizers(fresh, finalizers)
    if shorter and grace is not None:
        ends = datetime.strptime(meta["deletionTimestamp"], _TIME).replace(tzinfo=UTC)
        fresh["deletionTimestamp"] = (ends - timedelta(seconds=before - grace)).strftime(_TIME)
        fresh["deletionGracePeriodSeconds"] = grace
    done = not finalizers and not fresh.get("deletionGracePeriodSeconds")
    return Step({**obj, "metadata": fresh}, done)


def _namespace(obj: Object) -> Step:
    if "deletionTimestamp" in obj["metadata"]:
        return Step(None, is_empty_of_finalizers(obj))
    meta = {**obj["metadata"], "deletionTimestamp": datetime.now(UTC).strftime(_TIME)}
    marked = {**obj, "metadata": meta, "status": {**obj.get("status", {}), "phase": "Terminating"}}
    return Step(marked, is_empty_of_finalizers(obj))


def is_empty_of_finalizers(obj: Object) -> bool:
    """Whether neither the namespace's own nor its metadata's finalizers are left."""
    return not obj.get("spec", {}).get("finalizers") and not obj["metadata"].get("finalizers")
