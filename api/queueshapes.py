"""A queue's JSON: what is written, what it holds now, what is free of its quota or above it, and who may use it."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from api.answers import Json, answer, at
from api.auth import Caller
from api.leader import LeaderAway
from api.permits import rules_of
from api.services import Services
from t9ksched.admission.access import Members
from t9ksched.model.quantity import from_units, to_units
from t9ksched.model.queue import Queue
from t9ksched.store.controls import Stop
from t9ksched.store.queues import QueueRecord


def shape(record: QueueRecord, held: Mapping[str, Json], caller: Caller) -> Json:
    """A queue as the caller may see it: who else is a member is told to its managers alone."""
    queue, members = rules_of(record)
    return {
        "name": record.name,
        "uid": record.uid,
        "labels": record.labels,
        "spec": record.spec,
        "status": _status(queue, held.get(record.name)),
        "members": (members if caller.rules(record.name) else _seen_by(members, caller)).to_dict(),
        "draining": record.draining,
        "revision": record.revision,
        "createdAt": at(record.created_at),
        "updatedAt": at(record.updated_at),
    }


def one(
    record: QueueRecord, caller: Caller, headers: dict[str, str], held: dict[str, Json] | None = None, code: int = 200
) -> Response:
    """The answer about a single queue, with its ETag."""
    return answer(shape(record, held or {}, caller), code, headers | {"ETag": f'"{record.revision}"'})


async def held_now(services: Services) -> tuple[dict[str, Json], dict[str, str]]:
    """What queues hold, by name; without a leader nothing, and the header that says so."""
    try:
        return await services.leader.queues(), {}
    except LeaderAway as away:
        return {}, away.age_header(away.age)


def stop_shape(stop: Stop) -> Json:
    """A stop in force."""
    return {"what": stop.what, "until": at(stop.until), "by": stop.by, "at": at(stop.at), "why": stop.why}


async def stops_now(services: Services) -> list[Json]:
    """The stops in force."""
    return [stop_shape(stop) for stop in await services.store.stops.list()]


def _status(queue: Queue, held: Json | None) -> Json | None:
    """The leader's word; beside it what is free of the quota, and by how much a lowered quota is exceeded."""
    if held is None:
        return None
    quota = queue.spec.quota
    allocated: Mapping[str, Any] = held.get("allocated") or {}
    left = {name: limit - to_units(name, allocated.get(name, "0")) for name, limit in quota.items()}
    free = {name: from_units(name, max(0, amount)) for name, amount in left.items()}
    excess = {name: from_units(name, -amount) for name, amount in left.items() if amount < 0}
    return held | {"free": free} | ({"excess": excess} if excess else {})


def _seen_by(members: Members, caller: Caller) -> Members:
    return Members(members.everyone, members.users & {caller.user}, members.groups & caller.groups)
