"""Warnings about what is accepted: fields and names that are probably misspelt.

The leader knows which names exist in the cluster; while no leader answers, only fields, labels and annotations are
checked, and
whether reservations exist.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from t9ksched.admission.misspelt import misspelt, misspelt_metadata
from t9ksched.admission.oddities import Vocabulary, nearest, odd_pods, odd_queue
from t9ksched.admission.podfields import NATIVE
from t9ksched.admission.signals import Annotated, vain_signals
from t9ksched.admission.vain import vain
from t9ksched.api.auth import Caller
from t9ksched.api.authorization import rules_of
from t9ksched.api.http.aside import FEW
from t9ksched.api.http.responses import Json
from t9ksched.api.leader import LeaderAway
from t9ksched.api.services import Services
from t9ksched.api.submission.submission import Item, waits
from t9ksched.kube.setup.schemas import schema_of
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import FieldWarning, child
from t9ksched.model.names import AFTER_ANNOTATION, AFTER_CANCEL_ANNOTATION, RESERVATION_ANNOTATION
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.store.errors import StoreError
from t9ksched.store.queues import QueueRecord

_SHOWN: Final = 100
"""Characters of a name that are shown."""
_schemas: dict[Resource, Mapping[str, Any]] = {}
"""Of the kinds that were submitted so far."""


async def about_queue(services: Services, spec: Json) -> list[Json]:
    """What is odd about a queue's spec."""
    known = await _known(services)
    return [] if known is None else [warning.to_dict() for warning in odd_queue(spec, known)]


def about_reservation(caller: Caller, queues: Iterable[str]) -> list[Json]:
    """The queues that a reservation is for and that do not exist. They may be created later, so this is no fault."""
    known = sorted(caller.decided.queues)
    text = "there is no queue {!r}: none of its jobs can use the reservation until there is one"
    missing = sorted(name for name in queues if name not in known)
    return [FieldWarning("for.queues", text.format(name), nearest(name, known)).to_dict() for name in missing]


async def about_deletion(services: Services, queue: str) -> list[Json]:
    """The reservations that are for a queue which is deleted, as far as they are not over: they stay."""
    found = []
    for record in await services.store.reservations.list():
        one = parse_reservation(record.spec)
        if queue not in one.queues or one.current(time.time_ns()) is None:
            continue
        rest = one.queues != {queue} or one.users or one.groups
        what = "for others only" if rest else "for no job: delete it, or say for whom it is"
        text = f"the reservation {record.name!r} is for the queue {queue!r}: without it, it stays {what}"
        found.append(FieldWarning(f"reservations.{record.name}", text).to_dict())
    return found


async def about_jobs(services: Services, caller: Caller, items: Sequence[Item]) -> list[Json]:
    """What is odd about the objects of a submission, document by document."""
    known = await _known(services)
    if known is not None:
        known = known.and_quotas(_named_by_quotas(caller.decided.queues))
    found: list[FieldWarning] = []
    for place, item in enumerate(items):
        if place % FEW == FEW - 1:
            await asyncio.sleep(0)
        schema = _schemas.get(item.resource)
        if schema is None:  # the first look at a kind reads a file
            schema = _schemas[item.resource] = await asyncio.to_thread(schema_of, item.resource)
        found += (replace(one, path=f"{item.prefix}{one.path}") for one in _misspelt(item, schema))
        if known is not None:
            for template in item.workload.templates:
                found += odd_pods(template.spec, f"{item.prefix}{template.path}", known)
        found += _vain_signals(caller, item)
        found += _vain_end(item)
        found += (replace(one, path=f"{item.prefix}{one.path}") for one in vain(item.obj))
    found += await _unknown_reservations(services, items)
    return [warning.to_dict() for warning in dict.fromkeys(found)]


def _vain_signals(caller: Caller, item: Item) -> Iterator[FieldWarning]:
    """Signals before a limit that none of the job's limits leaves time for."""
    if not item.ours:
        return
    record = caller.decided.queues.get(item.workload.queue)
    specs: dict[str, Any] = {"metadata": item.obj.get("spec")}
    specs |= {f"{each.path.removesuffix('spec')}metadata": each.spec for each in item.workload.templates}
    parts = []
    for path, metadata in _metadata(item):
        annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
        spec = specs.get(path)
        where = f"{item.prefix}{path}.annotations"
        parts.append(Annotated(where, _mapping(annotations), _mapping(spec)))
    yield from vain_signals(parts, rules_of(record)[0] if record is not None else None)


def _vain_end(item: Item) -> Iterator[FieldWarning]:
    """An end for what can never start, of a job that waits for no other."""
    annotations = item.obj["metadata"].get("annotations") or {}
    if item.is_job and not waits(item.obj) and str(annotations.get(AFTER_CANCEL_ANNOTATION)) == "true":
        path = child(f"{item.prefix}metadata.annotations", AFTER_CANCEL_ANNOTATION)
        yield FieldWarning(path, f"the job waits for no other: say for which with {AFTER_ANNOTATION}")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


async def _unknown_reservations(services: Services, items: Sequence[Item]) -> list[FieldWarning]:
    """The reservations that jobs name and that do not exist; asks the store only if any is named.

    It may be created later, so this is no fault. No similar name is given: a user need not see all reservations.
    """
    named: list[tuple[str, str]] = []
    for item in items:
        for path, metadata in _metadata(item) if item.ours else ():
            annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
            name = annotations.get(RESERVATION_ANNOTATION) if isinstance(annotations, Mapping) else None
            if name:
                named.append((child(f"{item.prefix}{path}.annotations", RESERVATION_ANNOTATION), str(name)))
    if not named:
        return []
    try:
        existing = await services.store.reservations.names()
    except StoreError:
        return []
    text = "there is no reservation {!r}: the job waits until there is one"
    return [FieldWarning(path, text.format(name[:_SHOWN])) for path, name in named if name not in existing]


def _metadata(item: Item) -> Iterator[tuple[str, Any]]:
    """The metadata that was written for an object and for its pods, with their paths."""
    yield "metadata", item.obj.get("metadata")
    for template in item.workload.templates:
        # A Pod's metadata is its own; of pods that are generated none was written.
        if template.path.endswith("template.spec"):
            yield f"{template.path.removesuffix('spec')}metadata", template.metadata


def _misspelt(item: Item, schema: Mapping[str, Any]) -> Iterator[FieldWarning]:
    for path, metadata in _metadata(item):
        yield from misspelt_metadata(metadata, path)
    yield from misspelt(item.obj, schema or NATIVE.get(item.workload.kind, {}), item.workload.templates)


class _QuotaNames(NamedTuple):
    """What quotas of these queues name."""

    queues: Mapping[str, QueueRecord]
    names: tuple[str, ...]


_latest = _QuotaNames({}, ())


def _named_by_quotas(queues: Mapping[str, QueueRecord]) -> tuple[str, ...]:
    """What quotas of these queues name, in order; looked for anew when one of the queues changed."""
    global _latest
    if _latest.queues is not queues:
        named = {name for record in queues.values() for name in rules_of(record)[0].spec.quota}
        _latest = _QuotaNames(queues, tuple(sorted(named)))
    return _latest.names


async def _known(services: Services) -> Vocabulary | None:
    try:
        return await services.leader.names()
    except LeaderAway:
        return None
