"""Creating the objects of a submission: all or none.

Several objects are first sent to the API server as a dry run. Then the intent is written into the outbox, and the
objects are created one after the other; when one is refused, those created before are deleted again, each by its UID.
A creation whose answer was lost is looked up: the mark of this submission on the object tells whether it happened.

A process that is lost in between leaves the entry in the outbox behind. A repeat of the request with its
`Idempotency-Key` goes on from there, else any replica completes or removes it (`t9ksched/api/submission/recovery.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import structlog

from t9ksched.api.auth import Caller
from t9ksched.api.clusterrights import cluster_allows
from t9ksched.api.http.aside import aside
from t9ksched.api.http.problems import Problem, from_kube
from t9ksched.api.http.responses import Json
from t9ksched.api.services import Services
from t9ksched.api.submission.files import keep_files, try_out_files
from t9ksched.api.submission.findings import carries, find, remove
from t9ksched.api.submission.recording import Records, answered, intents, records
from t9ksched.api.submission.submission import Item, Object
from t9ksched.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import FieldError
from t9ksched.model.names import SUBMISSION_ANNOTATION, SUBMITTED_BY_ANNOTATION
from t9ksched.store import outbox
from t9ksched.store.errors import StoreError
from t9ksched.store.outbox import Entry
from t9ksched.store.repeats import Attempt, Busy
from t9ksched.workloads.registry import KINDS
from t9ksched.workloads.shape import Workload

log = structlog.get_logger(__name__)

_NOTED_EACH: Final = 32
"""Objects after which the UIDs of those that are there are written down."""
_LATER: Final = "what is there is completed or removed by itself within a minute: look with GET before you repeat"


async def try_out(services: Services, items: Sequence[Item]) -> list[Object]:
    """What the API server would make of the objects; nothing is created.

    Raises:
        Problem: it would refuse one of them.
    """
    tried = []
    for item in items:
        try:
            tried.append(await services.kube.create(item.resource, item.obj, item.workload.namespace, dry_run=True))
        except ApiError as error:
            raise _refused(error, item) from error
        await try_out_files(services, item)
    return tried


class Creation:
    """The work on one submission. `left` are objects that an earlier attempt created, in the order of `items`."""

    def __init__(self, services: Services, caller: Caller, items: Sequence[Item], attempt: Attempt | None) -> None:
        self._services = services
        self._caller = caller
        self._items = items
        self._attempt = attempt
        self._entry: Entry | None = None
        self._made: list[Object | None] = [None] * len(items)
        self._certain = True
        self._lost = False
        self._until = 0.0

    @property
    def left(self) -> list[Object | None]:
        """What is there already."""
        return list(self._made)

    async def resume(self) -> None:
        """Find what an earlier attempt at this request created, and keep every other replica from completing or
        removing it.

        Raises:
            Problem: the cluster does not answer, or another replica is completing or removing it.
            StoreError: the database does not answer.
        """
        attempt = self._attempt
        if attempt is None or not attempt.resumed:
            return
        found = await self._services.store.outbox.resume(attempt.owner, attempt.key, datetime.now(UTC))
        if isinstance(found, Busy):
            raise _in_other_hands(found)
        try:
            if found is None:
                self._made = [await self._earlier(item, attempt.mark) for item in self._items]
            elif [(one.kind, one.namespace, one.name) for one in found.objects] == [
                (item.workload.kind, item.workload.namespace, item.workload.name) for item in self._items
            ]:
                self._entry, self._made = found, await find(self._services, found)
        except ApiError as error:
            raise from_kube(error, "what an earlier attempt created") from error

    async def undo(self, problem: Problem) -> Problem:
        """Delete what is there; the problem, telling what could not be deleted."""
        if self._entry is None:
            if not any(self._made):
                return problem
            await self._begin()
        return await self._undone(problem)

    async def run(self, warnings: list[Json]) -> str:
        """Create the objects and record their acceptance; what the user is told.

        With an attempt that is stored as its answer (status 201), and what is left of an earlier one is not made again.

        Raises:
            Problem: something was refused or failed; nothing of this request is left, or the problem says what is.
            StoreError: nothing was created.
        """
        if len(self._items) > 1:
            missing = [item for item, obj in zip(self._items, self._made, strict=True) if obj is None]
            # Elements of an array have one document, and differ in their numbers only: the first is tried.
            differing = list({item.prefix: item for item in reversed(missing)}.values())[::-1]
            try:
                await try_out(self._services, differing)
            except Problem as problem:
                raise await self.undo(problem) from problem
        if self._entry is None:
            await self._begin()
        assert self._entry is not None
        for place, item in enumerate(self._items):
            notes = {
                SUBMITTED_BY_ANNOTATION: self._caller.user,
                SUBMISSION_ANNOTATION: self._entry.mark(place),
            }
            item.obj["metadata"]["annotations"] = {**(item.obj["metadata"].get("annotations") or {}), **notes}
        try:
            async with self._alive():
                for place, item in enumerate(self._items):
                    if self._made[place] is None:
                        self._see_that_it_is_mine()
                        self._made[place] = await self._create_one(item, self._entry.mark(place))
                        if place % _NOTED_EACH == _NOTED_EACH - 1:
                            await self._note()
                self._see_that_it_is_mine()
                await keep_files(self._services, self._items, self._made)
            self._see_that_it_is_mine()
        except Problem as problem:
            raise await self._undone(problem) from problem
        return await self._record(warnings)

    async def _begin(self) -> None:
        now, attempt = datetime.now(UTC), self._attempt
        groups = sorted(self._caller.groups)
        objects = await aside(self._services, len(self._items), intents, self._items, self._caller, now)
        entry = outbox.new_entry(self._caller.user, groups, objects, now, attempt.key if attempt else None)
        for place, obj in enumerate(self._made):
            entry.uids[place] = obj["metadata"]["uid"] if obj else None
        await self._services.store.outbox.begin(entry)
        self._entry = entry

    async def _record(self, warnings: list[Json]) -> str:
        services, entry = self._services, self._entry
        assert entry is not None
        made = [obj for obj in self._made if obj is not None]
        workloads = [item.workload for item in self._items]
        told, recorded = await aside(self._services, len(made), _written, entry, made, workloads, warnings)
        answer = [services.store.repeats.answering(self._attempt, 201, told)] if self._attempt else []
        closing = services.store.outbox.closing(entry, datetime.now(UTC))
        try:
            await services.store.submissions.put(*recorded, answer, closing)
        except StoreError as error:
            log.warning("a submission could not be recorded", error=str(error))
            if await self._is_recorded():
                return told
            raise await self._removed(
                Problem("Unavailable", f"the submission was not recorded: {error.public}")
            ) from error
        return told

    async def _is_recorded(self) -> bool:
        """Whether the submission was recorded though the database did not say so; if not, it never will be by this
        attempt, and this attempt must remove its objects.

        Raises:
            Problem: that is not known, or another replica completes or removes it.
        """
        store, entry = self._services.store.outbox, self._entry
        assert entry is not None
        try:
            turned = await store.turn(entry, outbox.REMOVING, datetime.now(UTC) + outbox.LEASE)
            if turned is not None:
                self._entry = turned
                return False
            if (state := await store.state(entry)) in (None, outbox.RECORDED):
                return True
        except StoreError as error:
            text = f"the objects were created, and it is not known whether the submission was recorded: {error.public}"
            raise _half_done(text) from error
        if state == outbox.REMOVED:
            raise await self._removed(Problem("Unavailable", "the submission took too long and was given up"))
        raise _half_done("the submission took too long, and another replica settles it")

    async def _undone(self, problem: Problem) -> Problem:
        """Say that all of it is removed, then remove it."""
        entry = self._entry
        assert entry is not None
        try:
            turned = await self._services.store.outbox.turn(entry, outbox.REMOVING, datetime.now(UTC) + outbox.LEASE)
            if turned is None:
                if await self._services.store.outbox.state(entry) != outbox.REMOVED:
                    return _left_to_others(problem)
                turned = entry
        except StoreError:
            return _left_to_others(problem)
        self._entry = turned
        return await self._removed(problem)

    async def _removed(self, problem: Problem) -> Problem:
        """Remove the objects that exist, and then the entry; any replica later removes what cannot be removed now."""
        entry, store = self._entry, self._services.store.outbox
        assert entry is not None
        left = await remove(self._services, entry, self._made)
        with suppress(StoreError):  # its lease ends, and a replica looks again
            if left or not self._certain:
                await store.turn(entry, outbox.REMOVING, datetime.now(UTC))
            else:
                await store.drop(entry)
        if left:
            problem.half_done = True
            names = ", ".join(left)
            problem.detail += f"; {names} was created before and could not be deleted again: that is tried until it is"
        return problem

    async def _create_one(self, item: Item, mark: str) -> Object:
        try:
            return await self._services.kube.create(item.resource, item.obj, item.workload.namespace)
        except ApiError as error:
            if error.unknown or isinstance(error, AlreadyExists):
                try:
                    found = await self._earlier(item, mark)
                except ApiError:
                    self._certain = False
                    text = f"the cluster stopped answering: {item.what} may have been created or not"
                    raise _half_done(text, "it is removed if it was: look before you repeat") from error
                if found is not None:
                    return found
            raise _refused(error, item) from error

    async def _earlier(self, item: Item, mark: str) -> Object | None:
        """The object of that name if it carries that mark and is not being deleted."""
        try:
            found = await self._services.kube.get(item.resource, item.workload.name, item.workload.namespace)
        except NotFound:
            return None
        return found if carries(found, mark) else None

    @asynccontextmanager
    async def _alive(self) -> AsyncIterator[None]:
        """Renew the claim while objects are created."""
        self._renewed()

        async def renew() -> None:
            while True:
                await asyncio.sleep(outbox.LEASE.total_seconds() / 3)
                await self._note()

        renewing = asyncio.create_task(renew(), name="outbox-lease")
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    async def _note(self) -> None:
        """Renew the claim, and write down which objects are there."""
        assert self._entry is not None
        uids = [obj["metadata"]["uid"] if obj else None for obj in self._made]
        try:
            if await self._services.store.outbox.renew(self._entry, datetime.now(UTC) + outbox.LEASE, uids):
                self._renewed()
            else:
                self._lost = True
        except StoreError as error:
            log.warning("the claim of a submission could not be renewed", error=error.public)

    def _renewed(self) -> None:
        self._until = asyncio.get_running_loop().time() + outbox.LEASE.total_seconds()

    def _see_that_it_is_mine(self) -> None:
        """By this process's own clock: a process that was paused is too late even before it asks the database."""
        if self._lost or asyncio.get_running_loop().time() > self._until:
            raise Problem("Unavailable", "the submission took too long and was given up", headers={"Retry-After": "5"})


def _written(
    entry: Entry, made: Sequence[Object], workloads: Sequence[Workload], warnings: list[Json]
) -> tuple[str, Records]:
    return answered(entry, made, workloads, warnings), records(entry, made, workloads)


def _half_done(text: str, remedy: str = _LATER) -> Problem:
    problem = Problem("Unavailable", text, remedy=remedy, headers={"Retry-After": "5"})
    problem.half_done = True
    return problem


def _left_to_others(problem: Problem) -> Problem:
    problem.half_done = True
    problem.detail += f"; {_LATER}"
    return problem


def _in_other_hands(busy: Busy) -> Problem:
    seconds = str(max(1, min(round(busy.remaining.total_seconds()), 5)))
    problem = Problem(
        "Conflict",
        "the first attempt at this request was lost, and what it created is being looked at",
        remedy="repeat it after the seconds that Retry-After says",
        headers={"Retry-After": seconds},
    )
    problem.half_done = True
    return problem


def _refused(error: ApiError, item: Item) -> Problem:
    """The cluster's refusal to create an object. It may have no such kind, if that is another project's."""
    foreign = KINDS[item.resource.kind].foreign
    if foreign is None or not isinstance(error, NotFound | Forbidden) or error.details.get("kind") == "namespaces":
        return from_kube(error, item.what, item.prefix)
    title, project = item.resource.kind, foreign.project
    if isinstance(error, NotFound):
        text = f"the cluster has no {title} ({item.resource.api_version})"
        fault = FieldError(f"{item.prefix}kind", text)
        return Problem("UnknownKind", text, [fault], remedy=f"ask an administrator to install {project.title}")
    problem = from_kube(error, item.what, item.prefix)
    problem.remedy = (
        problem.remedy or f"if t9ksched has no right to: kubectl apply -f deploy/foreign/{project.name}.yaml"
    )
    return problem


async def may_create(services: Services, caller: Caller, resource: Resource, namespace: str) -> None:
    """Check that the cluster lets the user create such objects in the namespace; administrators of the service may.

    Raises:
        Problem: the cluster does not.
    """
    if caller.is_admin:
        return
    if not await cluster_allows(services, caller, "create", resource, namespace):
        raise Problem(
            "Forbidden",
            f"the user {caller.user!r} may not create {resource} in the namespace {namespace!r}",
            remedy="use a namespace of yours, or ask its owner for the right",
        )
