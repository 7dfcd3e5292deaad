"""Which kinds can be submitted now, how users may write their names, and in which field each names its queue."""

from collections.abc import Mapping
from typing import Any, Final

from t9ksched.admission.oddities import nearest
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.kube.resources import MLSERVICERUNTIMES
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import FieldError, child
from t9ksched.model.names import QUEUE_LABEL
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.registry import CONTROLLED, KINDS, OWNERS, ROWS, kind_of, spelled

ACCEPTED: Final[dict[str, Resource]] = {
    row.name: row.resource for row in (*CONTROLLED, *(row for row in ROWS if row.submitted))
}
"""Kinds our controllers turn into pods, and those Kubernetes and the scheduler handle by themselves."""

_FOLLOWED: Final = {row.name: row.resource for row in OWNERS}
"""Kinds of which the scheduler places the pods: users may list and hold their jobs here, and neither create nor delete
them."""
_ADDRESSED: Final = ACCEPTED | _FOLLOWED


def accepted(kind: str, prefix: str = "") -> Resource:
    """The resource of a kind that can be submitted.

    Raises:
        Problem: UnknownKind, naming those that can.
    """
    row = ACCEPTED.get(kind)
    if kind == MLSERVICERUNTIMES.kind:
        message = f"a {kind} is no job, and is not submitted here: kubectl apply makes it"
        raise Problem("UnknownKind", message, [FieldError(f"{prefix}kind", message)])
    if row is None:
        text = (
            f"{kind!r} cannot be submitted yet: there is no controller for it"
            if kind in KINDS
            else f"{kind!r} is unknown"
        )
        message = f"{text}; kinds that can are {', '.join(sorted(ACCEPTED))}"
        raise Problem("UnknownKind", message, [FieldError(f"{prefix}kind", message)])
    return row


def addressed(kind: str) -> Resource:
    """The resource that an address names, in any way to write a kind.

    Raises:
        Problem: UnknownKind.
    """
    name = spelled(kind)
    if name is None or name not in _ADDRESSED:
        message = f"{kind!r} is no kind of workload; these are {', '.join(sorted(_ADDRESSED))}"
        raise Problem("UnknownKind", message, [FieldError("kind", message)], status=404)
    return _ADDRESSED[name]


def kind_named(text: str) -> str:
    """The kind that a filter names: any kind that jobs may have, in any case, singular, plural or short.

    Raises:
        Problem: InvalidField.
    """
    name = spelled(text)
    if name is None:
        near = nearest(text, sorted(KINDS))
        hint = f"did you mean {near}?" if near else f"these are {', '.join(sorted(KINDS))}"
        raise invalid([FieldError("query.kind", f"{text!r} is no kind of workload: {hint}")])
    return name


def owner_reference(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The controlling owner reference of an object, of whatever kind; None where it has none."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)


def owner_of(obj: Mapping[str, Any]) -> tuple[Resource, str] | None:
    """Resource and name of the job that owns an object, as its controlling owner reference says."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        kind = kind_of(reference)
        if kind is None or not reference.get("controller") or reference.get("apiVersion") != kind.api_version:
            continue
        if kind.name in ACCEPTED:
            return kind.resource, str(reference["name"])
    return None


def queue_path(kind: Kind) -> str:
    """Where an object of the kind names its queue."""
    if kind.foreign is not None:
        return child("metadata.labels", QUEUE_LABEL)
    if kind.pod is not None:
        return child(".".join((*kind.pod, "metadata", "labels")), QUEUE_LABEL)
    return ".".join((*kind.block, "t9kScheduler", "queue")) if kind.block else "spec.queue"
