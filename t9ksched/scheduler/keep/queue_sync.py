"""Queues in SQL and as objects in the cluster.

SQL is the record; the leader projects spec and status into Queue objects. Each object carries the revision and a
fingerprint of what was projected, so that an edit from outside is told from our own: a valid one is taken into SQL, an
invalid one, or one that collides with a newer change in SQL, is reverted with an event.
"""

import asyncio
import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from t9ksched.admission.access import Members, parse_members
from t9ksched.admission.oddities import odd_queue
from t9ksched.kube.errors import Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import QUEUES
from t9ksched.model import names
from t9ksched.model.errors import Invalid
from t9ksched.model.queue import ORDERINGS, Queue, QueueSpec, parse_queue_spec, validate_queue_name
from t9ksched.model.whole import whole_number
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.report.queuestatus import QueueStatuses
from t9ksched.scheduler.report.vocabulary import Names
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import RevisionChanged, RowExists, RowMissing
from t9ksched.store.queues import QueueRecord
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

REVISION_ANNOTATION: Final = f"{names.SCHEDULER_GROUP}/revision"
PROJECTED_ANNOTATION: Final = f"{names.SCHEDULER_GROUP}/projected"
_ACTOR: Final = "kubernetes"
_EVERYONE: Final = Members(everyone=True)


def fingerprint(spec: QueueSpec) -> str:
    """A short text that is equal for specs of equal meaning, whatever their spelling."""
    text = repr(
        (
            sorted(spec.quota.items()),
            (spec.priority, spec.preemptible, spec.closed, spec.max_duration, spec.max_duration_from),
            (spec.resource_shape_profile, str(spec.node_selector), str(spec.namespace_selector)),
            (spec.over_quota, spec.ordering),
            # Without them the text is the one of versions that knew no such fields: an upgrade looks like no edit.
            *([spec.start_windows] if spec.start_windows else ()),
            *([str(spec.starvation)] if spec.starvation else ()),
        )
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_object(item: dict[str, Any]) -> QueueSpec:
    """The spec of a Queue object; one without an ordering has the one that it was projected with.

    So an object that an earlier release projected, or whose ordering was left out or pruned since, is no edit.

    Raises:
        Invalid: naming every faulty field.
    """
    spec = parse_queue_spec(item.get("spec"))
    if "ordering" in spec.source or PROJECTED_ANNOTATION not in _annotations(item):
        return spec
    candidates = (replace(spec, ordering=one) for one in ORDERINGS)
    mark = _annotations(item)[PROJECTED_ANNOTATION]
    return next((one for one in candidates if fingerprint(one) == mark), spec)


class QueueSync:
    """Keeps Queue objects and SQL in step, one queue at a time."""

    def __init__(
        self,
        client: ClusterPort,
        store: Store,
        state: ClusterState,
        events: EventWriter,
        statuses: QueueStatuses,
        vocabulary: Names,
        *,
        observe: bool = False,
    ) -> None:
        self._observe = observe
        self._observed: dict[str, str] = {}
        self._client = client
        self._store = store
        self._state = state
        self._events = events
        self._statuses = statuses
        self._vocabulary = vocabulary
        self._records: dict[str, QueueRecord] = {}
        self._head: int | None = None
        """The newest revision there was when we first looked."""
        self._read_at = 0
        """The newest revision there was when the queues were last read."""
        self._reading = asyncio.Lock()
        self._met: set[str] = set()
        """Names of the queues that we have seen in SQL."""
        self._members: dict[str, Members] = {}
        self.objects: dict[str, dict[str, Any]] = {}

    @property
    def loaded(self) -> bool:
        """Whether the queues have been read from SQL since the start."""
        return self._head is not None

    async def load(self) -> None:
        """Read the queues from SQL and hand them to the state.

        Raises:
            StoreError: the database is away; the queues known last stay.
        """
        async with self._reading:  # an earlier read must not overwrite a later one
            await self._load()

    async def catch_up(self) -> None:
        """Read the queues again if one of them changed since they were read last; a single small query if none did.

        Raises:
            StoreError: the database is away; the queues known last stay.
        """
        async with self._reading:
            head = await self._store.changes.head()
            if head != self._read_at and await self._store.changes.touched("queue", self._read_at):
                await self._load()
            else:
                self._read_at = head

    async def _load(self) -> None:
        head = await self._store.changes.head()
        records = await self._store.queues.list()
        self._read_at, self._head = head, head if self._head is None else self._head
        self._records = {record.name: record for record in records}
        self._met |= self._records.keys()
        queues, members = [], {}
        for record in records:
            try:
                # Queue objects do not hold members, so an observer does not know them.
                members[record.name] = _EVERYONE if self._observe else parse_members(record.members)
                queues.append(Queue(record.name, parse_queue_spec(record.spec), record.labels, record.draining))
            except Invalid as error:
                log.error("a queue in the database cannot be read, it is left out", queue=record.name, error=str(error))
        self._members = members
        self._permit()
        self._state.set_queues(queues)
        self._statuses.keep(self._records)

    def serve_objects(self) -> None:
        """With the database away at the start, the objects of the last projection serve as queues."""
        queues = []
        for name, item in self.objects.items():
            try:
                queues.append(Queue(name, read_object(item), item["metadata"].get("labels") or {}))
            except Invalid:
                continue
        self._state.set_queues(queues)

    def upsert(self, item: dict[str, Any]) -> None:
        """A Queue object as the watch shows it."""
        name = item["metadata"]["name"]
        self.objects[name] = item
        self._statuses.meet(name, item)
        if name == names.DEFAULT_QUEUE and self._default_outlived():
            self._permit()
        self._state.feed.queues.note(name)
        if self._edited_outside(item):
            self._state.feed.edited_queues.note(name)

    def remove(self, name: str) -> None:
        """A Queue object is gone; it is projected again while SQL has the queue."""
        self.objects.pop(name, None)
        self._state.feed.queues.note(name)

    async def write(self, name: str) -> None:
        """Bring one queue's object and SQL in step, then its status up to date.

        Raises:
            StoreError: the database is away; try again later.
            ApiError: the API server did not take it; try again later.
        """
        if not self.loaded:
            return  # the database was away at the start: its queues are unknown, the objects stay as they are
        item = self.objects.get(name)
        try:
            if self._observe:
                await self._copy(name, item)
                return
            if name == names.DEFAULT_QUEUE and item is not None and self._default_outlived():
                await self._close_default(item)
            if item is not None and (self._edited_outside(item) or self._outlived(name, item)):
                await self._take_in(name, item)
            record = self._records.get(name)
            if record is None:
                if item is not None and PROJECTED_ANNOTATION in _annotations(item):
                    await self._client.delete(QUEUES, name, names.SYSTEM_NAMESPACE, uid=item["metadata"]["uid"])
                    self.objects.pop(name, None)
                return
            item = await self._project(record, item)
            await self._write_status(name, item)
        except (Conflict, NotFound):
            self._state.feed.queues.note(name)  # the watch brings what changed meanwhile

    async def _copy(self, name: str, item: dict[str, Any] | None) -> None:
        """For an observer: a Queue object that is new or changed is copied into SQL, and never written."""
        try:
            spec = read_object(item) if item else None
        except Invalid:
            return
        if item is None or spec is None or self._observed.get(name) == fingerprint(spec):
            return
        labels, written = dict(item["metadata"].get("labels") or {}), _written(item, spec)
        if name not in self._records:
            await self._store.queues.create(name, labels, written)
        else:
            await self._store.queues.edit(name, lambda _: (labels, written), None)
        self._observed[name] = fingerprint(spec)
        await self.load()

    def _edited_outside(self, item: dict[str, Any]) -> bool:
        try:
            return fingerprint(read_object(item)) != _annotations(item).get(PROJECTED_ANNOTATION)
        except Invalid:
            return True

    def _outlived(self, name: str, item: dict[str, Any]) -> bool:
        """Whether the object comes from a database that is no more: it is newer than all that SQL had when we began.

        Then it is the latest record of that queue. Its members are not written in it, so no user may use the queue.
        """
        base = whole_number(_annotations(item).get(REVISION_ANNOTATION, ""))
        return name not in self._met and base is not None and self._head is not None and base > self._head

    def _permit(self) -> None:
        shut = {names.DEFAULT_QUEUE: Members()} if self._default_outlived() else {}
        self._state.permit(self._members | shut)

    def _default_outlived(self) -> bool:
        """Whether `default` is as every new database makes it, though the cluster had one before that was changed.

        The members of that one are unknown, so no user may use it. A restored backup is older than the object.
        """
        item, record = self.objects.get(names.DEFAULT_QUEUE), self._records.get(names.DEFAULT_QUEUE)
        if item is None or record is None or self._observe:
            return False
        base = whole_number(_annotations(item).get(REVISION_ANNOTATION, ""))
        created = item["metadata"].get("creationTimestamp")
        untouched = record.members == {"everyone": True} and record.updated_at == record.created_at
        newer = base is not None and base > record.revision
        return untouched and newer and bool(created) and datetime.fromisoformat(created) < record.created_at

    async def _close_default(self, item: dict[str, Any]) -> None:
        """Take the object's spec into SQL, without members."""
        try:
            spec = _written(item, read_object(item))
        except Invalid:
            spec = {}
        labels = dict(item["metadata"].get("labels") or {})
        seen = self._records[names.DEFAULT_QUEUE].revision
        try:
            await self._store.queues.edit(names.DEFAULT_QUEUE, lambda _: (labels, spec), seen, members={}, by=_ACTOR)
        except (RevisionChanged, RowMissing):
            pass  # an administrator changed it meanwhile
        else:
            message = "the database is new: this queue admits no user until an administrator names its members"
            self._events.event(item, names.EVENT_QUEUE_EDITED_OUTSIDE, message, warning=True)
        await self.load()

    async def _take_in(self, name: str, item: dict[str, Any]) -> None:
        record = self._records.get(name)
        base = _annotations(item).get(REVISION_ANNOTATION, "")
        try:
            validate_queue_name(name, "metadata.name")
            spec = read_object(item)
            labels = dict(item["metadata"].get("labels") or {})
            if record is None and base and not self._outlived(name, item):
                raise RowMissing(f"the queue {name!r} was deleted meanwhile")
            if record is None:
                await self._store.queues.create(name, labels, _written(item, spec), by=_ACTOR)
            else:
                seen = whole_number(base)
                expected = record.revision if seen is None else seen
                await self._store.queues.edit(name, lambda _: (labels, spec.to_dict()), expected, by=_ACTOR)
        except (Invalid, RevisionChanged, RowExists, RowMissing) as error:
            refused, odd = str(error), ""
        else:
            refused = ""
            odd = "".join(
                f"; {one.path}: {one.message}" for one in odd_queue(spec.to_dict(), await self._vocabulary.known())
            )
        await self.load()
        if refused:
            message = f"the edit was refused, the queue stays as it was: {refused}"
            self._events.event(item, names.EVENT_QUEUE_EDITED_OUTSIDE, message, warning=True)
        else:
            self._events.event(
                item, names.EVENT_QUEUE_EDITED_OUTSIDE, f"the edit was taken over{odd}", warning=bool(odd)
            )

    async def _project(self, record: QueueRecord, item: dict[str, Any] | None) -> dict[str, Any]:
        queue = self._state.queues.get(record.name)
        spec = queue.spec if queue else QueueSpec()
        marks = {REVISION_ANNOTATION: str(record.revision), PROJECTED_ANNOTATION: fingerprint(spec)}
        wanted = {"priority": spec.priority, "preemptible": spec.preemptible, "closed": spec.closed} | spec.to_dict()
        if item is None:
            body = {
                "apiVersion": names.SCHEDULER_API,
                "kind": "Queue",
                "metadata": {
                    "name": record.name,
                    "namespace": names.SYSTEM_NAMESPACE,
                    "labels": dict(record.labels),
                    "annotations": marks,
                },
                "spec": wanted,
            }
            return self._answered(record.name, None, await self._client.create(QUEUES, body, names.SYSTEM_NAMESPACE))
        if not self._edited_outside(item) and {key: _annotations(item).get(key) for key in marks} == marks:
            return item
        fresh = msgspec.json.decode(msgspec.json.encode(item))
        fresh["spec"] = wanted
        fresh["metadata"]["annotations"] = _annotations(item) | marks
        fresh["metadata"]["labels"] = dict(record.labels)
        return self._answered(record.name, item, await self._client.replace(QUEUES, fresh))

    def _answered(self, name: str, before: dict[str, Any] | None, answer: dict[str, Any]) -> dict[str, Any]:
        """Store the answer to a write, unless the watch brought a newer object since."""
        if self.objects.get(name) is before:
            self.objects[name] = answer
        return answer

    async def _write_status(self, name: str, item: dict[str, Any]) -> None:
        before = item.get("status") or {}
        status = self._statuses.of(name)
        if status == before:
            return
        body = {"metadata": {"uid": item["metadata"]["uid"]}, "status": _replacing(before, status)}
        answer = await self._client.patch(QUEUES, name, names.SYSTEM_NAMESPACE, body, subresource="status")
        self._answered(name, item, answer)


def _annotations(item: dict[str, Any]) -> dict[str, str]:
    return dict(item["metadata"].get("annotations") or {})


def _written(item: dict[str, Any], spec: QueueSpec) -> dict[str, Any]:
    """The spec of an object for a database that does not know the queue: what was projected has its ordering already,
    though not every release wrote it.
    """
    known = {"ordering": spec.ordering} if PROJECTED_ANNOTATION in _annotations(item) else {}
    return known | spec.to_dict()


def _replacing(before: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that leaves exactly `status`: keys of `allocated` that are no more are set to null."""
    gone = dict.fromkeys(set(before.get("allocated") or {}) - set(status["allocated"]))
    return status | {"allocated": gone | status["allocated"]}
