"""What is recorded of a submission: its submitter, what was accepted, and the answer to the user. The same code serves
the process that created the objects and a process that finds them after the first was lost: both work from the
submission's entry in the outbox, which was written before the first object.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import structs

from t9ksched.api.auth import Caller
from t9ksched.api.http.responses import Json
from t9ksched.api.job_from_object import from_object
from t9ksched.api.submission.submission import Item, Object
from t9ksched.model.resources import is_card_resource
from t9ksched.model.timelimit import limit_seconds, shortest
from t9ksched.store import history
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from t9ksched.store.jobs import JobRecord
from t9ksched.store.outbox import Entry, Intent
from t9ksched.workloads.shape import Workload

Records = tuple[list[Acceptance], list[JobRecord], list[Event]]


def intents(items: Sequence[Item], caller: Caller, now: datetime) -> list[Intent]:
    """What the objects will be, in their order."""
    places = {id(item): place for place, item in enumerate(items)}
    return [
        Intent(
            kind=item.workload.kind,
            namespace=item.workload.namespace,
            name=item.workload.name,
            acceptance=_acceptance(item, caller, now),
            ours=item.ours,
            group=None if item.group is None else places[id(item.group)],
            files=tuple(file.name for file in item.files),
        )
        for item in items
    ]


def records(entry: Entry, made: Sequence[Object], workloads: Sequence[Workload]) -> Records:
    """The rows to write once the objects of an entry exist."""
    accepted, jobs, events = [], [], []
    members = _members(entry, workloads)
    for place, (intent, obj) in enumerate(zip(entry.objects, made, strict=True)):
        acceptance = structs.replace(intent.acceptance, uid=obj["metadata"]["uid"], groups=entry.groups)
        about: dict[str, Any] = {
            "at": acceptance.accepted_at,
            "kind": acceptance.kind,
            "namespace": acceptance.namespace,
            "name": acceptance.name,
            "uid": acceptance.uid,
            "queue": acceptance.queue,
            "actor": entry.owner,
        }
        events.append(Event(event=history.SUBMITTED, **about))
        if not intent.ours:
            continue
        accepted.append(acceptance)
        if workloads[place].group is None:
            shape = from_object(obj, workloads[place], acceptance, members.get(place, ()))
            events.append(
                Event(event=history.ACCEPTED, detail={"gpus": shape["gpus"], "cards": shape["cards"]}, **about)
            )
            row = {key: about[key] for key in ("kind", "namespace", "name", "uid", "queue")}
            jobs.append(JobRecord(**row, submitted_at=acceptance.accepted_at, shape=shape))
    return accepted, jobs, events


def answered(entry: Entry, made: Sequence[Object], workloads: Sequence[Workload], warnings: list[Json]) -> str:
    """The answer to the user about a submission."""
    members = _members(entry, workloads)
    jobs = [
        from_object(obj, workloads[place], None, members.get(place, ())) | {"submitter": entry.owner}
        for place, (intent, obj) in enumerate(zip(entry.objects, made, strict=True))
        if intent.group is None
    ]
    return msgspec.json.encode({"items": jobs, "warnings": warnings}).decode()


def _members(entry: Entry, workloads: Sequence[Workload]) -> dict[int, list[Workload]]:
    """Of each PodGroup, by its place, the pods that were submitted with it."""
    found: dict[int, list[Workload]] = {}
    for intent, workload in zip(entry.objects, workloads, strict=True):
        if intent.group is not None:
            found.setdefault(intent.group, []).append(workload)
    return found


def _acceptance(item: Item, caller: Caller, now: datetime) -> Acceptance:
    payer = item.group or item
    totals = item.totals
    limit = shortest(map(limit_seconds, item.limits))
    return Acceptance(
        uid="",
        kind=item.workload.kind,
        namespace=item.workload.namespace,
        name=item.workload.name,
        group_name=item.workload.group or (item.workload.name if item.resource.kind == "PodGroup" else None),
        submitter=caller.user,
        permitted_by=item.permitted_by,
        queue=payer.workload.queue or None,
        priority=payer.workload.priority,
        time_limit=None if limit is None else timedelta(seconds=limit),
        cards={name: amount for name, amount in totals.items() if is_card_resource(name)},
        requests={name: amount for name, amount in totals.items() if not is_card_resource(name)},
        accepted_at=now,
        replicas=sum(part.workload.replicas for part in item.members or (item,)),
    )
