"""A queue's JSON: what is written, what it holds now, what is free of its quota or above it, and who may use it.

Lists have thousands of queues, of which few change between two requests, so each is kept in pieces of finished JSON.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from t9ksched.admission.access import Access, Members
from t9ksched.api.auth import Caller
from t9ksched.api.authorization import rules_of
from t9ksched.api.http.responses import Json, answer, at
from t9ksched.api.leader import LeaderAway
from t9ksched.api.services import Services
from t9ksched.api.slices import answer_encoded
from t9ksched.model.quantity import from_units, to_units
from t9ksched.model.queue import Queue, with_ordering
from t9ksched.store.job_overrides import Stop
from t9ksched.store.queues import QueueRecord

Held = Mapping[str, Json]
"""What queues hold, by name, as the leader says."""
_MOST_KEPT = 20_000


class _Text:
    """The JSON of one revision of a queue, in pieces; that of its status until the leader says something else."""

    __slots__ = ("_held", "_status", "head", "members", "queue", "tail", "who")

    def __init__(self, record: QueueRecord) -> None:
        self.queue, self.who = rules_of(record)
        head = {"name": record.name, "uid": record.uid, "labels": record.labels, "spec": record.spec}
        times = {"createdAt": at(record.created_at), "updatedAt": at(record.updated_at)}
        tail = {"draining": record.draining, "revision": record.revision} | times
        self.head = msgspec.json.encode(head)[:-1]
        self.members = msgspec.json.encode(self.who.to_dict())
        self.tail = msgspec.json.encode(tail)[1:-1]
        self._held: Json | None = None
        self._status = b"null"

    def status(self, held: Json | None) -> bytes:
        """The status, given what the queue holds."""
        if held is not self._held and held != self._held:
            self._status = msgspec.json.encode(_status(self.queue, held))
        self._held = held
        return self._status


_texts: dict[tuple[str, int], _Text] = {}


def text(record: QueueRecord, held: Held, caller: Caller, access: Access | None = None) -> bytes:
    """A queue as the caller may see it: other members are shown to its managers alone.

    `access` is the rule by which the caller may use it, where that was asked.
    """
    key = (record.uid, record.revision)
    kept = _texts.get(key)
    if kept is None:
        if len(_texts) >= _MOST_KEPT:
            _texts.clear()
        kept = _texts[key] = _Text(record)
    members = kept.members if caller.rules(record.name) else msgspec.json.encode(_seen_by(kept.who, caller).to_dict())
    more = b""
    if access is not None:
        more = b',"access":' + msgspec.json.encode({"rule": access.rule, "maxPriority": access.max_priority})
    status = kept.status(held.get(record.name))
    return b'%b,"status":%b,"members":%b,%b%b}' % (kept.head, status, members, kept.tail, more)


def one(
    record: QueueRecord,
    caller: Caller,
    headers: dict[str, str],
    held: Held | None = None,
    code: int = 200,
    warnings: list[Json] | None = None,
) -> Response:
    """The answer about a single queue, with its ETag; `warnings` says what is odd about a change."""
    body = text(record, held or {}, caller)
    if warnings is not None:
        body = b'%b,"warnings":%b}' % (body[:-1], msgspec.json.encode(warnings))
    return answer(msgspec.Raw(body), code, headers | {"ETag": f'"{record.revision}"'})


def several(texts: Iterable[bytes], caller: Caller, headers: dict[str, str], more: str | None) -> Response:
    """The answer about several queues, each as `text` gives it; `more` continues the list."""
    return answer_encoded(texts, {"continue": more, "stopped": stops_now(caller)}, headers)


async def held_now(services: Services) -> tuple[Held, dict[str, str]]:
    """What queues hold; without a leader nothing, and the header that says so."""
    try:
        return await services.leader.queues(), {}
    except LeaderAway as away:
        return {}, away.age_header(away.age)


def stop_shape(stop: Stop) -> Json:
    """A stop in force."""
    return {"what": stop.what, "until": at(stop.until), "by": stop.by, "at": at(stop.at), "why": stop.why}


def stops_now(caller: Caller) -> list[Json]:
    """The stops in force."""
    return [stop_shape(stop) for stop in caller.stops]


def _status(queue: Queue, held: Json | None) -> Json | None:
    """The leader's figures, what is free of the quota, and by how much a lowered quota is exceeded."""
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


def merge_patch(target: Any, change: Any) -> Any:
    """The target with the change applied, as RFC 7396 says."""
    if not isinstance(change, Mapping):
        return change
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def patched_spec(before: Json | None, change: Any) -> Any:
    """A queue's spec with a merge patch applied; None is a queue that there is not yet.

    An ordering that is set to null is that of new queues: without it the queue would keep the one it has.
    """
    merged = merge_patch(before or {}, change)
    if isinstance(merged, dict) and (before is None or (isinstance(change, Mapping) and "ordering" in change)):
        return with_ordering(merged, None)
    return merged
