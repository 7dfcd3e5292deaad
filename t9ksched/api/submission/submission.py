"""From a body to checked objects: what a submission asks for, before anything is created.

Every document is read, given its namespace, queue and priority, and judged; pods of a PodGroup in the same request are
judged together with it. Either all can be created, or the error lists the faults of all.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from t9ksched.admission import Request, judge
from t9ksched.admission.access import Access
from t9ksched.admission.identity import Identity
from t9ksched.admission.judge import FORM
from t9ksched.admission.mistyped import mistyped_fields
from t9ksched.admission.podfields import POD_SPEC
from t9ksched.admission.request import JoinedGroup, least_requests
from t9ksched.admission.verdict import INVALID_FIELD
from t9ksched.api.http.problems import Problem, invalid, refused
from t9ksched.api.submission.configmaps import File, give_files, is_config_map, read_file
from t9ksched.api.submission.kinds import accepted, queue_path
from t9ksched.model.api_resource import Resource
from t9ksched.model.dns import ended
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.model.names import (
    AFTER_ANNOTATION,
    AFTER_CANCEL_ANNOTATION,
    QUEUE_LABEL,
    RESERVATION_ANNOTATION,
    SCHEDULER_NAME,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.queue import Queue
from t9ksched.workloads.queueing import annotate, with_queue
from t9ksched.workloads.read import UnknownKind, read
from t9ksched.workloads.registry import KINDS, kind_of
from t9ksched.workloads.shape import Template, Workload

Object = dict[str, Any]

_SET_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the request says besides the objects; it wins over their own queue and fills a missing namespace."""

    namespace: str | None = None
    queue: str | None = None
    priority: int | None = None
    time_limit: str | None = None
    start_after: str | None = None
    reservation: str | None = None
    after: str | None = None
    after_cancel: bool | None = None

    def annotations(self) -> dict[str, str]:
        """What it asks for by annotations of the jobs."""
        asked = {
            TIME_LIMIT_ANNOTATION: self.time_limit,
            START_AFTER_ANNOTATION: self.start_after,
            RESERVATION_ANNOTATION: self.reservation,
            AFTER_ANNOTATION: self.after,
            AFTER_CANCEL_ANNOTATION: None if self.after_cancel is None else str(self.after_cancel).lower(),
        }
        return {annotation: text for annotation, text in asked.items() if text is not None}


class Item(msgspec.Struct):
    """One object to be created.

    `members` of a PodGroup are the pods of it in the same request; `joins` is the PodGroup of the cluster that a pod
    names. `access` says whether the caller may use the queue; None for what another object pays for, or nothing.
    `files` are ConfigMaps of the same request that belong to it.
    """

    prefix: str
    obj: Object
    resource: Resource
    workload: Workload
    queue_path: str
    priority_path: str = "priority"
    access: Access | None = None
    joins: JoinedGroup | None = None
    members: list["Item"] = msgspec.field(default_factory=list)
    group: "Item | None" = None
    files: list[File] = msgspec.field(default_factory=list)

    @property
    def what(self) -> str:
        """For sentences."""
        return f"{self.workload.kind}/{self.workload.name}"

    @property
    def ours(self) -> bool:
        """Whether our scheduler places its pods."""
        return self.workload.scheduler == SCHEDULER_NAME

    @property
    def is_job(self) -> bool:
        """Whether users see it as a job of its own; a pod of a group is part of that group."""
        return self.ours and self.workload.group is None

    @property
    def permitted_by(self) -> str | None:
        """The rule that lets the caller use the queue."""
        access = (self.group or self).access
        return access.rule if access is not None else None

    @property
    def limits(self) -> list[str]:
        """The time limits that it asks for in annotations, of Kubernetes' own kinds also in those of their pods."""
        found = [self.obj["metadata"].get("annotations") or {}]
        if KINDS[self.resource.kind].pod:
            found += [template.metadata.get("annotations") or {} for template in self.workload.templates]
        return [str(text) for each in found if (text := each.get(TIME_LIMIT_ANNOTATION))]

    @property
    def needs(self) -> dict[str, int]:
        """The least that it needs to start; of a PodGroup the cheapest members that make up its minimum."""
        if not self.members:
            return self.workload.min_totals
        minimum = PodGroupSpec.parse(self.obj.get("spec")).min_member
        return least_requests([member.workload.totals for member in self.members], minimum)

    @property
    def totals(self) -> dict[str, int]:
        """Everything it asks for now."""
        total: dict[str, int] = {}
        for part in self.members or (self,):
            for name, amount in part.workload.totals.items():
                total[name] = total.get(name, 0) + amount
        return total


def prepare(documents: Sequence[tuple[str, Any]], wish: Wish, seed: str | None = None) -> list[Item]:
    """The objects of a request, complete and sound in themselves, in the order in which they must be created.

    Objects with a `generateName` get their names here, so that they can be found again whatever happens while they are
    created. With a `seed` the same request gets the same names.

    Raises:
        Problem: anything is wrong with any of them.
    """
    faults: list[FieldError] = []
    items: list[Item] = []
    files: list[File] = []
    seed = secrets.token_hex() if seed is None else seed
    for prefix, document in documents:
        try:
            if is_config_map(document):
                files.append(read_file(prefix, document, wish.namespace))
                continue
            items.append(_item(prefix, named(document, f"{seed}:{prefix}"), wish))
        except UnknownKind as error:
            raise Problem("UnknownKind", str(error), _prefixed(prefix, error.errors)) from None
        except Invalid as error:
            faults += _prefixed(prefix, error.errors)
    seen: set[tuple[str, str, str]] = set()
    for item in items:
        key = (item.workload.kind, item.workload.namespace, item.workload.name)
        if key in seen:
            faults.append(FieldError(f"{item.prefix}metadata.name", f"{item.what} is in the request twice"))
        seen.add(key)
    _join_groups(items)
    if items or not files:
        faults += give_files(items, files)
    elif not faults:
        faults.append(FieldError(f"{files[0].prefix}kind", "a ConfigMap is submitted with the job that mounts it"))
    for item in items:
        for annotation, text in wish.annotations().items():
            if item.is_job:
                annotate(item.obj, annotation, text)
        if (
            wish.priority is not None
            and item.ours
            and not KINDS[item.resource.kind].has_priority
            and item.group is None
        ):
            text = f"a {item.resource.kind} has no priority: leave it out, or put its pods in a PodGroup"
            faults.append(FieldError("priority", text))
    if wish.after_cancel and not any(waits(item.obj) for item in items if item.is_job):
        faults.append(
            FieldError("afterCancel", "is about what a job waits for, and none waits for another: name one with after")
        )
    if faults:
        raise invalid(dict.fromkeys(faults))
    return sorted(items, key=lambda item: item.resource.kind != "PodGroup")


def waits(obj: Mapping[str, Any]) -> bool:
    """Whether a job waits for others."""
    return AFTER_ANNOTATION in (obj["metadata"].get("annotations") or {})


def entering(item: Item, submitter: Identity) -> Request:
    """What is asked of the queue, as far as it is known before the queue's own rules are looked at."""
    return Request(
        what=item.what,
        namespace=item.workload.namespace,
        queue_name=item.workload.queue,
        queue_path=item.queue_path,
        submitter=submitter,
        access=item.access,
        group=item.joins,
        priority=item.workload.priority,
        priority_path=item.priority_path,
    )


def check(
    items: Sequence[Item],
    submitter: Identity,
    queues: Mapping[str, Queue],
    allocated: Mapping[str, Mapping[str, int]] | None,
    suggested: Sequence[str] = (),
) -> None:
    """Apply the rules to every gang. `allocated` is what queues hold now, in units; None if it is unknown. `suggested`
    are the queues that the error may name to a user who asked for one that does not exist.

    Raises:
        Problem: the first refusal.
    """
    for item in items:
        if not item.ours or item.group is not None:
            continue
        name = item.workload.queue
        request = replace(
            entering(item, submitter),
            queue=queues.get(name),
            queue_names=tuple(suggested),
            templates=[
                _placed(template, part) for part in (item, *item.members) for template in part.workload.templates
            ],
            needs=item.needs,
            annotations=(item.obj["metadata"].get("annotations") or {}),
            annotations_path=f"{item.prefix}metadata.annotations",
            allocated=None if allocated is None else allocated.get(name, {}),
        )
        verdict = judge(request)
        if not verdict.allowed:
            raise refused(verdict)


def _item(prefix: str, document: Any, wish: Wish) -> Item:
    if not isinstance(document, dict):
        raise Invalid.at("", "is no object: write a mapping with apiVersion, kind, metadata and spec")
    kind = document.get("kind")
    if not isinstance(kind, str):
        raise UnknownKind.at("kind", "is missing: say what the object is, such as PyTorchTrainingJob")
    known = kind_of(document)
    resource = accepted(known.name if known else kind, prefix)
    kind_row = KINDS[resource.kind]
    priority = wish.priority if kind_row.has_priority else None
    document = {**document, "kind": resource.api_kind}  # it may be an older spelling
    obj = with_queue(document, wish.queue, priority)
    obj.pop("status", None)
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        obj["metadata"] = meta = {key: value for key, value in meta.items() if key not in _SET_BY_SERVER}
        meta["namespace"] = meta.get("namespace") or wish.namespace or "default"
    workload = read(obj)
    assert isinstance(meta, dict), "read() refuses objects without metadata"
    if not workload.name:
        raise Invalid.at("metadata.name", "is missing: give the object a name, or a generateName")
    if meta.get("ownerReferences"):
        raise Invalid.at("metadata.ownerReferences", "is set by controllers: leave it out")
    form = judge(Request(workload.kind, namespace=workload.namespace, templates=workload.templates), FORM)
    if form.code == INVALID_FIELD:
        raise Invalid(form.errors)
    if not form.allowed:
        raise refused(replace(form, errors=tuple(_prefixed(prefix, form.errors))))
    # Of the kinds defined here the API server judges the pods only when the controller creates them, after the job.
    if wrong := [one for each in workload.templates for one in mistyped_fields(each.spec, POD_SPEC, each.path)]:
        raise Invalid(wrong)
    written = f"{prefix}{queue_path(kind_row)}"
    path = "queue" if wish.queue is not None else written
    priority_path = "priority" if wish.priority is not None else f"{written.removesuffix('queue')}priority"
    return Item(prefix, obj, resource, workload, path, priority_path)


def named(document: Any, seed: str) -> Any:
    """The document with the name that its `generateName` stands for, where it has no name."""
    meta = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(meta, dict) or meta.get("name") or not isinstance(begin := meta.get("generateName"), str):
        return document
    if not begin:
        return document
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])
    rest = {key: value for key, value in meta.items() if key != "generateName"}
    return document | {"metadata": rest | {"name": ended(begin, number)}}


def _join_groups(items: list[Item]) -> None:
    groups = {(item.workload.namespace, item.workload.name): item for item in items if item.resource.kind == "PodGroup"}
    for item in items:
        group = groups.get((item.workload.namespace, item.workload.group or ""))
        if group is not None and item.ours:
            item.group = group
            group.members.append(item)
            if item.workload.queue != group.workload.queue:
                # The group's queue pays; the pod says the same, so that its label and its group do not differ.
                item.obj["metadata"].setdefault("labels", {})[QUEUE_LABEL] = group.workload.queue


def _placed(template: Template, part: Item) -> Template:
    """The template with the document's prefix before its path."""
    return replace(template, path=f"{part.prefix}{template.path}")


def _prefixed(prefix: str, errors: Sequence[FieldError]) -> list[FieldError]:
    return [
        FieldError(f"{prefix}{error.path}" if error.path else prefix.rstrip("."), error.message) for error in errors
    ]
