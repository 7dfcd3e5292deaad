"""A submission whose process ends at any moment is there whole and its user's, or not at all; on both databases."""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI

from t9ksched.api import Services
from t9ksched.api.http.server import Server, listen
from t9ksched.api.submission.findings import SKEW
from t9ksched.api.submission.recovery import Recovery
from t9ksched.kube.errors import ServerError, Unprocessable
from t9ksched.model.names import SUBMISSION_ANNOTATION
from t9ksched.store import Store, history, outbox, repeats
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.outbox import KEPT, LEASE, Entry, Intent, new_entry
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.api.world import (
    Client,
    Json,
    MemoryCluster,
    ScriptedLeader,
    World,
    config_map,
    documents,
    mounting,
    pod,
    pod_group,
    pytorch,
)

JOBS = "/apis/v1/workloads"


class Death(RuntimeError):
    """The process is gone."""


@dataclass
class Process:
    """Ends before its step number `last`; every step after that fails as well, for nothing of it works any more.

    Steps lie before and after each request to the cluster and each transaction.
    """

    last: int | None = None
    steps: Iterator[int] = field(default_factory=itertools.count)
    taken: int = 0

    def step(self) -> None:
        self.taken = next(self.steps)
        if self.last is not None and self.taken >= self.last:
            raise Death(f"the process ends at step {self.last}")

    def wrapped(self, act: Callable[..., Any]) -> Callable[..., Any]:
        async def doing(*args: Any, **options: Any) -> Any:
            self.step()
            done = await act(*args, **options)
            self.step()
            return done

        return doing

    @contextmanager
    def runs(self, world: World) -> Iterator[None]:
        """The service in `world` is this process."""
        database = world.store.database
        with pytest.MonkeyPatch.context() as patch:
            for verb in ("create", "get", "delete"):
                patch.setattr(world.kube, verb, self.wrapped(getattr(world.kube, verb)))
            for door in ("write_all", "transact"):
                patch.setattr(database, door, self.wrapped(getattr(database, door)))
            write = database.write

            @asynccontextmanager
            async def writing() -> AsyncIterator[Any]:
                self.step()
                async with write() as connection:
                    yield connection
                self.step()

            patch.setattr(database, "write", writing)
            yield


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def world(
    app: FastAPI, request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path
) -> AsyncIterator[World]:
    if request.param == "sqlite":
        address = f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'store.db')}"
    else:
        address = str(request.getfixturevalue("postgres_with_tables"))
    kube, leader = MemoryCluster(), ScriptedLeader()
    async with (
        await Store.open(address, migrate=False) as store,
        aiohttp.ClientSession() as session,
    ):
        app.state.services = Services(store, kube, leader, max_body_bytes=64 * 1024)
        await store.queues.create("a100", {}, {}, {"everyone": True})
        async with Server(app, listen("127.0.0.1", 0)) as server:
            user = await store.tokens.create("ann-laptop", "user", owner="ann", groups=["g"])
            clients = [Client(server.url, session, user) for _ in range(3)]
            yield World(store, kube, leader, *clients, app, [user])


def later(by: timedelta = LEASE + timedelta(seconds=1)) -> Callable[[], datetime]:
    """A clock that is ahead."""
    return lambda: datetime.now(UTC) + by


def recovery(world: World, by: timedelta = LEASE + timedelta(seconds=1)) -> Recovery:
    """Another replica, so much later."""
    return Recovery(world.app.state.services, later(by))


async def rows(world: World) -> list[tuple[str, str]]:
    """Entries of the outbox: state and owner."""
    return [(row.state, row.owner) for row in await world.store.database.fetch(outbox.outbox.select())]


def several(prefix: str) -> list[Json]:
    """A PodGroup with its pods, a job, and a pod of another scheduler with a file."""
    pods = [pod(f"{prefix}-{number}", group=prefix) for number in range(2)]
    other = mounting(pod(f"{prefix}-other", ours=False), f"{prefix}-file")
    return [config_map(f"{prefix}-file"), pod_group(prefix), *pods, pytorch(f"{prefix}-job"), other]


JOB_NAMES = {"": "PodGroup", "-job": "PyTorchTrainingJob", "-other": "Pod"}
OUTCOMES: dict[str, Callable[[str, str], Exception | None]] = {
    "all is well": lambda verb, name: None,
    "the last is refused": lambda verb, name: (
        Unprocessable(422, "Invalid", "bad") if verb == "create" and name.endswith("-other") else None
    ),
    "the last is refused and nothing can be deleted": lambda verb, name: (
        ServerError(500, "InternalError", "broken")
        if (verb == "create" and name.endswith("-other")) or verb == "delete"
        else None
    ),
}


STEP_BY_STEP = [
    *(pytest.param("sqlite", key) for key in (False, True)),
    pytest.param("postgresql", True, marks=pytest.mark.postgres),
    pytest.param("postgresql", False, marks=[pytest.mark.postgres, pytest.mark.soak]),
]
"""Databases, and whether requests have a key; with one, all tables are written."""


@pytest.mark.parametrize(("world", "key"), STEP_BY_STEP, indirect=["world"])
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_process_that_ends_between_any_two_steps(
    world: World, outcome: str, key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "LEASE", timedelta(0))  # a repeat comes when that is over
    whole = none = 0
    for last in itertools.count(1):
        prefix = f"s{last}"
        body, process = documents(*several(prefix)), Process(last)
        sent = {"Idempotency_Key": prefix} if key else {}
        world.kube.faults = lambda verb, _, name: OUTCOMES[outcome](verb, name)  # type: ignore[assignment,return-value]
        with process.runs(world):
            first = await world.user("POST", JOBS, body, **sent)
        world.kube.faults = lambda *_: None
        await recovery(world).sweep()
        there = {name for name in world.kube.names() if name.partition("/")[2].startswith((f"{prefix}-", prefix))}
        there = {name for name in there if name.partition("/")[2].split("-")[0] == prefix}
        assert len(there) in (0, 6), (last, there)
        there -= {f"ConfigMap/{prefix}-file"}
        if first.status == 201:
            assert there, last
        told = [one.name for one in await world.store.history.list(event=history.SUBMITTED, limit=9999)]
        assert len([name for name in told if name and name.split("-")[0] == prefix]) == len(there), last
        if there:
            whole += 1
            await it_is_hers(world, prefix)
        else:
            none += 1
        again = await world.user("POST", JOBS, body, **sent)
        if there and not key:
            assert again.status == 409, (last, again.body)
        else:
            assert again.status == 201, (last, again.body)
        if there:
            for suffix, kind in JOB_NAMES.items():
                gone = await world.user("DELETE", f"{JOBS}/default/{kind}/{prefix}{suffix}")
                assert gone.status == 200, (last, gone.body)
        if process.taken < last:
            break
    assert none, "it ended before the first object"
    assert whole or outcome != "all is well", "it ended after the last"
    await recovery(world, 2 * KEPT).sweep()
    assert await rows(world) == []


async def it_is_hers(world: World, prefix: str) -> None:
    """The user sees each job, as her own, and it is on record."""
    for suffix, kind in JOB_NAMES.items():
        job = await world.user("GET", f"{JOBS}/default/{kind}/{prefix}{suffix}")
        assert (job.status, job.body["submitter"]) == (200, "ann"), (prefix, job.body)
    accepted = [one for one in await world.store.acceptances.all() if one.name.split("-")[0] == prefix]
    assert sorted(one.name for one in accepted) == [prefix, f"{prefix}-0", f"{prefix}-1", f"{prefix}-job"]
    assert {(one.submitter, *one.groups) for one in accepted} == {("ann", "g")}
    assert {one.queue for one in accepted} == {"a100"}
    jobs = {record.name for record in await world.store.jobs.list() if record.name.split("-")[0] == prefix}
    assert jobs == {prefix, f"{prefix}-job"}


async def end_after(world: World, objects: int, body: Any, **headers: str) -> None:
    """A submission whose process ends when so many objects are there."""
    made, create = 0, world.kube.create

    async def breaking(res: Any, obj: Any, namespace: Any = None, *, dry_run: bool = False) -> Any:
        nonlocal made
        if not dry_run and res.plural != "subjectaccessreviews":
            if made == objects:
                raise Death("the process ends")
            made += 1
        return await create(res, obj, namespace, dry_run=dry_run)

    async def ending(*_: Any) -> None:
        raise Death("the process ends")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.kube, "create", breaking)
        patch.setattr(world.store.submissions, "put", ending)
        assert (await world.user("POST", JOBS, body, **headers)).status == 500


async def test_what_is_removed_is_told(world: World) -> None:
    await end_after(world, 1, documents(pytorch("a"), pytorch("b")))
    await recovery(world).sweep()
    assert world.kube.objects == {}
    (event,) = (await world.user("GET", f"{JOBS}/default/PyTorchTrainingJob/a/history")).body["items"]
    assert (event["event"], event["actor"], event["detail"]["objects"]) == ("refused", "ann", 2)
    assert "nothing is left" in event["detail"]["message"]


async def test_the_answer_of_a_finished_submission_is_given_to_a_repeat(world: World) -> None:
    body = documents(pytorch("a"), pytorch("b"))
    await end_after(world, 2, body, Idempotency_Key="k")
    await recovery(world).sweep()
    again = await world.user("POST", JOBS, body, Idempotency_Key="k")
    assert (again.status, again.headers.get("Idempotent-Replayed")) == (201, "true")
    assert [(job["name"], job["submitter"]) for job in again.body["items"]] == [("a", "ann"), ("b", "ann")]


async def test_a_live_submission_is_not_touched(world: World) -> None:
    entered, go_on, create = asyncio.Event(), asyncio.Event(), world.kube.create

    async def slow(res: Any, obj: Any, *args: Any, **options: Any) -> Any:
        if obj["metadata"].get("name") == "b" and not options.get("dry_run"):
            entered.set()
            await go_on.wait()
        return await create(res, obj, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.kube, "create", slow)
        asked = asyncio.create_task(world.user("POST", JOBS, documents(pytorch("a"), pytorch("b"))))
        await entered.wait()
        assert await recovery(world, timedelta(0)).sweep() == 0
        assert world.kube.names() == {"PyTorchTrainingJob/a"}
        go_on.set()
        assert (await asked).status == 201


@pytest.mark.parametrize("there", [False, True], ids=["before the last object", "before it is recorded"])
async def test_a_process_that_stood_still_writes_nothing(world: World, there: bool) -> None:
    """Another replica took its submission for lost and settled it; what it does then is refused or removed."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    create, put = world.kube.create, world.store.submissions.put

    async def stand_still() -> None:
        entered.set()
        await go_on.wait()

    async def creating(res: Any, obj: Any, *args: Any, **options: Any) -> Any:
        if not there and obj["metadata"].get("name") == "b" and not options.get("dry_run"):
            await stand_still()
        return await create(res, obj, *args, **options)

    async def putting(*args: Any) -> None:
        if there and not entered.is_set():
            await stand_still()
        await put(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.kube, "create", creating)
        patch.setattr(world.store.submissions, "put", putting)
        asked = asyncio.create_task(world.user("POST", JOBS, documents(pytorch("a"), pytorch("b"))))
        await entered.wait()
        assert await recovery(world).sweep() == 1
        assert [state for state, _ in await rows(world)] == [outbox.RECORDED if there else outbox.REMOVED]
        go_on.set()
        answer = await asked
    told = await world.store.history.list(event=history.SUBMITTED)
    if there:
        assert (answer.status, len(world.kube.objects), len(told)) == (201, 2, 2), answer.body
    else:
        assert (answer.status, world.kube.objects, told) == (503, {}, []), answer.body


async def test_of_replicas_at_the_same_moment_one_settles(world: World) -> None:
    await end_after(world, 2, documents(pytorch("a"), pytorch("b")))
    url = world.store.database.url.render_as_string(hide_password=False)
    async with await Store.open(url, migrate=False) as other:
        theirs = Recovery(Services(other, world.kube, world.leader), later())  # type: ignore[arg-type]
        settled = await asyncio.gather(*(one.sweep() for one in (recovery(world), theirs) * 3))
    assert sum(settled) == 1
    assert len(await world.store.history.list(event=history.SUBMITTED)) == 2


async def test_a_replica_that_is_lost_while_it_settles(world: World) -> None:
    await end_after(world, 1, documents(pytorch("a"), pytorch("b")))
    process = Process(4)
    with process.runs(world), pytest.raises(Death):
        await recovery(world).sweep()
    assert await recovery(world).sweep() == 0, "its claim has not ended"
    assert await recovery(world, 3 * LEASE).sweep() == 1
    assert world.kube.objects == {}


async def test_an_object_that_reached_the_cluster_late_is_removed_too(world: World) -> None:
    await end_after(world, 1, documents(pytorch("a"), pytorch("b")))
    late = dict(world.kube.objects)
    await recovery(world).sweep()
    world.kube.objects.update(late)
    assert await recovery(world).sweep() == 0
    assert await recovery(world, 2 * KEPT).sweep() == 1
    assert (world.kube.objects, await rows(world)) == ({}, [])


async def test_one_that_cannot_be_settled_keeps_no_other(world: World) -> None:
    for names in ("ab", "cd"):
        await end_after(world, 1, documents(*map(pytorch, names)))
    world.kube.faults = lambda verb, _, name: ServerError(500, "InternalError", "broken") if name in "ab" else None
    with pytest.raises(ServerError):
        await recovery(world).sweep()
    assert world.kube.names() == {"PyTorchTrainingJob/a"}


async def test_without_the_cluster_it_waits(world: World) -> None:
    await end_after(world, 1, documents(pytorch("a"), pytorch("b")))
    world.kube.faults = lambda *_: ServerError(500, "InternalError", "broken")
    with pytest.raises(ServerError):
        await recovery(world).sweep()
    world.kube.faults = lambda *_: None
    assert await recovery(world, 3 * LEASE).sweep() == 1
    assert world.kube.objects == {}


class TestForgery:
    """A mark on another's object gets it neither deleted nor attributed: the row decides."""

    @staticmethod
    async def lost(world: World) -> Entry:
        """A submission of jobs a and b by ann that is lost, of which a is there."""
        await end_after(world, 1, documents(pytorch("a"), pytorch("b")))
        (row,) = await world.store.database.fetch(outbox.outbox.select())
        return outbox._entry(row._mapping)

    @staticmethod
    async def make(world: World, name: str, mark: str, created: datetime | None = None) -> str:
        """Bob's object of that name; its UID."""
        meta: Json = {"annotations": {SUBMISSION_ANNOTATION: mark}}
        made = await world.kube.create(PYTORCHTRAININGJOBS, pytorch(name, **meta), "default")
        if created is not None:
            obj = world.kube.objects[str(PYTORCHTRAININGJOBS), "default", name]
            obj["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
        return str(made["metadata"]["uid"])

    async def bobs(self, world: World, uid: str) -> None:
        """Bob's object stays, and no other user gets it."""
        assert [obj["metadata"]["uid"] for obj in world.kube.objects.values()] == [uid]
        assert [one.submitter for one in await world.store.acceptances.all()] in ([], ["bob"])

    async def test_the_mark_of_an_object_that_was_seen(self, world: World) -> None:
        entry = await self.lost(world)
        uid = await self.make(world, "b", entry.mark(0))
        await recovery(world).sweep()
        await self.bobs(world, uid)

    async def test_the_right_mark_on_another_users_object(self, world: World) -> None:
        entry = await self.lost(world)
        uid = await self.make(world, "b", entry.mark(1))
        about = {"uid": uid, "kind": "PyTorchTrainingJob", "namespace": "default", "name": "b"}
        await world.store.acceptances.put_many([Acceptance(**about, submitter="bob", queue="a100")])
        await recovery(world).sweep()
        await self.bobs(world, uid)

    @pytest.mark.parametrize("by", [-SKEW * 2, LEASE + SKEW * 2], ids=["before", "after"])
    async def test_the_right_mark_on_what_was_created_at_another_time(self, world: World, by: timedelta) -> None:
        entry = await self.lost(world)
        uid = await self.make(world, "b", entry.mark(1), datetime.now(UTC) + by)
        await recovery(world).sweep()
        await self.bobs(world, uid)

    async def test_the_right_mark_on_another_object_in_place_of_one_that_is_on_record(self, world: World) -> None:
        entry = await self.lost(world)
        (mine,) = world.kube.objects.values()
        assert await world.store.outbox.renew(entry, entry.until, [mine["metadata"]["uid"], None])
        world.kube.objects.clear()
        uid = await self.make(world, "a", entry.mark(0))
        await recovery(world).sweep()
        await self.bobs(world, uid)

    async def test_marks_cannot_be_told_from_each_other(self) -> None:
        about = {"kind": "Pod", "namespace": "default"}
        objects = [Intent(**about, name=name, acceptance=Acceptance(**about, name=name, uid="")) for name in "ab"]
        entries = [new_entry("ann", [], objects, datetime.now(UTC), None) for _ in range(2)]
        assert len({entry.mark(place) for entry in entries for place in range(2)}) == 4


async def test_an_attempt_from_before_the_upgrade_is_finished(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its objects carry the mark of the request, and the outbox knows nothing of it."""
    monkeypatch.setattr(repeats, "LEASE", timedelta(0))
    body = documents(pytorch("a"), pytorch("b"))
    await end_after(world, 0, body, Idempotency_Key="k")
    await world.store.database.transact(lambda connection: connection.execute(outbox.outbox.delete()))
    (row,) = await world.store.database.fetch(repeats.idempotency_key.select())
    uid = await TestForgery.make(world, "a", row.mark)
    again = await world.user("POST", JOBS, body, Idempotency_Key="k")
    assert again.status == 201, again.body
    assert again.body["items"][0]["uid"] == uid
    assert await rows(world) == []
