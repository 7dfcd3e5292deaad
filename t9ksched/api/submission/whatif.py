"""What-if questions: the objects are judged as a submission is, the change is checked and joined with what there is.

Nothing is created or written. A job that the rules refuse is told with its refusal, as it would be at submission.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from t9ksched.api.auth import Caller
from t9ksched.api.http.aside import aside
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.api.http.responses import Json
from t9ksched.api.queueshapes import patched_spec
from t9ksched.api.services import Services
from t9ksched.api.submission.advice import about_jobs, about_queue
from t9ksched.api.submission.creation import try_out
from t9ksched.api.submission.dependencies import see_dependencies
from t9ksched.api.submission.judging import judge
from t9ksched.api.submission.submission import Item, Wish, prepare
from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError, Invalid, shown
from t9ksched.model.queue import parse_queue_spec, validate_queue_name
from t9ksched.store.queues import QueueRecord

_FIELDS: Final = ("submit", "change", "horizon")
_CHANGES: Final = ("queues", "nodesGone", "nodesAdded", "policy")
_HORIZON: Final = timedelta(days=7)
_PARAMETERS: Final = {"time_limit": "timeLimit", "start_after": "startAfter", "after_cancel": "afterCancel"}
"""Parameters that are named otherwise than the fields of a `Wish`."""
_FARTHEST: Final = timedelta(days=90)
REFUSALS: Final = frozenset(
    {
        "QueueNotFound",
        "QueueClosed",
        "QueueNotPermitted",
        "SubmitterUnknown",
        "OverQuota",
        "ShapeExceeded",
        "PriorityAboveMaximum",
        "RateLimited",
    }
)
"""Codes of problems that are the verdict on a job, and no fault of the question."""
_BY_THE_CLUSTER: Final = frozenset({"AlreadyExists", "NotFound", "Forbidden", "InvalidField"})
"""The same, of what the API server says of its objects."""
_OBSERVED: Final = "ObserveOnly"


@dataclass(slots=True)
class Asked:
    """A question.

    Attributes:
        queues: queues with the spec that they would have, by name.
        others: the rest of the change, as the leader reads it.
    """

    documents: list[tuple[str, Any]]
    queues: dict[str, QueueRecord] = field(default_factory=dict)
    others: Json = field(default_factory=dict)
    horizon: timedelta = _HORIZON


@dataclass(slots=True)
class Judged:
    """A job that is submitted, and its refusal; None for one that would be accepted."""

    item: Item
    refusal: Problem | None


def read(body: Mapping[str, Any], caller: Caller, wish: Wish) -> Asked:
    """The question of a body, and of the parameters beside it.

    Raises:
        Problem: `InvalidField` naming every faulty field, or the caller may not ask about such a change.
    """
    faults = [
        FieldError(str(key), f"is unknown: the fields are {', '.join(_FIELDS)}") for key in body if key not in _FIELDS
    ]
    submit = body.get("submit")
    if submit is not None and not isinstance(submit, list):
        faults.append(FieldError("submit", "must be a list of objects"))
        submit = None
    change = body.get("change")
    if change is not None and not isinstance(change, Mapping):
        faults.append(FieldError("change", f"must be a mapping with some of {', '.join(_CHANGES)}"))
        change = None
    asked = Asked([(f"submit[{nth}].", each) for nth, each in enumerate(submit or ())])
    if not asked.documents:
        said = ((field.name, getattr(wish, field.name)) for field in fields(wish))
        names = [_PARAMETERS.get(name, name) for name, value in said if value is not None]
        faults += [FieldError(f"query.{name}", "is about objects to submit, and there are none") for name in names]
    asked.horizon = _horizon(body.get("horizon"), faults)
    _change(change or {}, asked, caller, faults)
    if not (faults or asked.documents or asked.queues or asked.others):
        faults.append(FieldError("", "asks nothing: write what to submit, or what to change"))
    if faults:
        raise invalid(faults)
    return asked


def _horizon(value: Any, faults: list[FieldError]) -> timedelta:
    if value is None:
        return _HORIZON
    try:
        found = parse_duration(value) if isinstance(value, str) else None
    except ValueError as error:
        faults.append(FieldError("horizon", str(error)))
        return _HORIZON
    if found is None or not timedelta(seconds=1) <= found <= _FARTHEST:
        faults.append(FieldError("horizon", f"{shown(value)} must be a length of time from 1s to {_FARTHEST.days}d"))
        return _HORIZON
    return found


def _change(change: Mapping[str, Any], asked: Asked, caller: Caller, faults: list[FieldError]) -> None:
    """Check the change, and that the caller may ask about it."""
    for key, value in change.items():
        path = f"change.{key}"
        if key not in _CHANGES:
            faults.append(FieldError(path, f"is unknown: the fields are {', '.join(_CHANGES)}"))
        elif value is None:
            continue
        elif key == "policy":
            if not isinstance(value, str | dict):
                faults.append(FieldError(path, "must be a scheduler.conf, as a text or as a mapping"))
                continue
            asked.others[key] = value if isinstance(value, str) else json.dumps(value, default=str)
        elif not isinstance(value, list):
            faults.append(FieldError(path, "must be a list"))
        elif key == "queues":
            for nth, each in enumerate(value):
                _queue(each, f"{path}[{nth}]", asked, caller, faults)
        elif value:
            asked.others[key] = value
    if asked.others and not caller.is_admin:
        named = ", ".join(f"change.{key}" for key in asked.others)
        raise Problem(
            "Forbidden",
            f"{named}: only administrators ask about nodes and the policy",
            remedy="ask an administrator, or leave it out",
        )


def _queue(raw: Any, path: str, asked: Asked, caller: Caller, faults: list[FieldError]) -> None:
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(name, str):
        faults.append(FieldError(path, "must be a mapping with the name of a queue, and a spec"))
        return
    if not caller.rules(name):
        raise Problem(
            "Forbidden",
            f"{path}.name: the user {caller.user!r} does not manage the queue {name!r}",
            remedy="ask an administrator or a manager of this queue",
        )
    unknown = [key for key in raw if key not in ("name", "spec")]
    faults += [FieldError(f"{path}.{key}", "is unknown: the fields are name, spec") for key in unknown]
    if name in asked.queues:
        faults.append(FieldError(f"{path}.name", f"the queue {name!r} is in the list twice"))
    known = caller.decided.queues.get(name)
    try:
        validate_queue_name(name, f"{path}.name")
        spec = patched_spec(known.spec if known is not None else None, raw.get("spec") or {})
        parse_queue_spec(spec, f"{path}.spec")
    except Invalid as error:
        faults += error.errors
        return
    now = datetime.now(UTC)
    record = known or QueueRecord(name, "", {}, {}, {}, draining=False, revision=0, created_at=now, updated_at=now)
    # Rules are read once for each UID and revision: this one is of no queue that there is.
    asked.queues[name] = replace(record, uid=f"what-if-{uuid.uuid4()}", spec=spec)


async def judged(services: Services, caller: Caller, asked: Asked, wish: Wish) -> list[Judged]:
    """The jobs that are submitted, each judged by itself, as if the queues were changed already.

    Raises:
        Problem: the objects are faulty, or cannot be judged.
    """
    documents = asked.documents
    services.allowances.objects(len(documents))
    items = await aside(services, len(documents), prepare, documents, wish)
    if asked.queues:
        queues = {**caller.decided.queues, **asked.queues}
        caller = replace(caller, decided=replace(caller.decided, queues=queues))
    await see_dependencies(services, caller, items)
    found = []
    for item in items:
        if item.group is not None:
            continue
        found.append(Judged(item, await _refusal(services, caller, [item, *item.members])))
    return found


async def _refusal(services: Services, caller: Caller, items: list[Item]) -> Problem | None:
    """Why a job with these objects would be refused, by the rules or by the API server; None for one that would not.

    Raises:
        Problem: that is not known, or the caller may not ask.
    """
    try:
        await judge(services, caller, items)
    except Problem as problem:
        if problem.code not in REFUSALS:
            raise
        return problem
    try:
        await try_out(services, items)
    except Problem as problem:
        if problem.code not in (*_BY_THE_CLUSTER, _OBSERVED):
            raise
        return None if problem.code == _OBSERVED else problem
    return None


async def oddities(services: Services, caller: Caller, asked: Asked, accepted: Sequence[Item]) -> list[Json]:
    """Warnings about what is asked, such as names that nothing has."""
    found = await about_jobs(services, caller, [one for item in accepted for one in (item, *item.members)])
    for nth, record in enumerate(asked.queues.values()):
        for warning in await about_queue(services, record.spec):
            found.append(warning | {"path": f"change.queues[{nth}].{warning['path']}"})
    return found


def question(caller: Caller, asked: Asked, accepted: Sequence[Item]) -> Json:
    """What the leader is asked."""
    return {
        "user": caller.user,
        "groups": sorted(caller.groups),
        "horizon": round(asked.horizon.total_seconds()),
        "items": [
            {
                "object": item.obj,
                "members": [member.obj for member in item.members],
                "queue": item.workload.queue,
                "priority": item.workload.priority,
                "ours": item.ours,
            }
            for item in accepted
        ],
        "change": {**asked.others, "queues": {name: record.spec for name, record in asked.queues.items()}},
    }
