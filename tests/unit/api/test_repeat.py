"""A submission that is sent again with its `Idempotency-Key` creates nothing twice and is answered as before."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.kube.errors import ServerError
from t9ksched.store import Store, repeats
from t9ksched.store.errors import DatabaseUnreachable
from t9ksched.store.history import SUBMITTED
from t9ksched.store.tables import idempotency_key
from tests.unit.api.world import Client, World, documents, pytorch

JOBS = "/apis/v1/workloads"
HEADER = "header.Idempotency-Key"


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})


@pytest.fixture
async def replica(world: World) -> AsyncIterator[Client]:
    """Another process on the same database and cluster; the client of the same user."""
    async with await Store.open(world.store.database.shown_url, migrate=False) as store:
        app = create_app(Services(store, world.kube, world.leader))
        async with Server(app, listen("127.0.0.1", 0)) as server:
            yield Client(server.url, world.user.session, world.user.token)


async def submitted(world: World) -> int:
    return len(await world.store.history.list(event=SUBMITTED))


async def rows(world: World) -> int:
    return len(await world.store.database.fetch(idempotency_key.select()))


@pytest.mark.parametrize("text", [documents(pytorch()), documents(pytorch("a"), pytorch("b"))], ids=["one", "several"])
async def test_the_first_answer_again(world: World, replica: Client, text: str) -> None:
    first = await world.user("POST", JOBS, text, Idempotency_Key="k-1")
    assert first.status == 201, first.body
    assert "Idempotent-Replayed" not in first.headers
    there, told = dict(world.kube.objects), await submitted(world)
    await world.store.queues.edit("a100", lambda old: (old.labels, {"closed": True}), None)
    for client in (world.user, replica):
        again = await client("POST", JOBS, text, Idempotency_Key="k-1")
        assert (again.status, again.body, again.headers["Idempotent-Replayed"]) == (201, first.body, "true")
    assert (world.kube.objects, await submitted(world)) == (there, told)
    world.kube.objects.clear()
    gone = await world.user("POST", JOBS, text, Idempotency_Key="k-1")
    assert (gone.status, gone.body, world.kube.objects) == (201, first.body, {})


async def test_another_request_with_the_key_is_refused(world: World) -> None:
    assert (await world.user("POST", JOBS, pytorch(), Idempotency_Key="k")).status == 201
    for path, body in ((JOBS, pytorch("other")), (f"{JOBS}?priority=1", pytorch())):
        other = await world.user("POST", path, body, Idempotency_Key="k")
        assert (other.status, other.body["code"], other.paths) == (422, "InvalidField", [HEADER])
    assert world.kube.names() == {"PyTorchTrainingJob/resnet"}


async def test_a_key_is_its_users(world: World) -> None:
    assert (await world.user("POST", JOBS, pytorch(), Idempotency_Key="k")).status == 201
    bob = Client(world.user.url, world.user.session, await world.store.tokens.create("bob"))
    for client, headers in ((bob, {"Idempotency_Key": "k"}), (world.user, {"Idempotency_Key": "l"}), (world.user, {})):
        assert (await client("POST", JOBS, pytorch(), **headers)).body["code"] == "AlreadyExists"
    scoped = await world.store.tokens.create("ann-ci", "user", owner="ann", queues=["other"])
    ci = Client(world.user.url, world.user.session, scoped)
    assert (await ci("POST", JOBS, pytorch(), Idempotency_Key="k")).status == 403


async def test_what_a_key_may_be(world: World) -> None:
    for key in ("", "x" * 256, "n\u00e4h", "tab\there"):
        refused = await world.user("POST", JOBS, pytorch(), Idempotency_Key=key)
        assert (refused.status, refused.paths) == (422, [HEADER]), key
    assert world.kube.objects == {}
    for number, key in enumerate(("x" * 255, '"8e03978e-40d5"', "a b")):
        assert (await world.user("POST", JOBS, pytorch(f"j{number}"), Idempotency_Key=key)).status == 201


async def test_a_refusal_and_a_dry_run_keep_nothing(world: World) -> None:
    refused = await world.user("POST", JOBS, pytorch(queue="none"), Idempotency_Key="k")
    assert (refused.status, await rows(world)) == (422, 0)
    dry = await world.user("POST", f"{JOBS}?dryRun=true", pytorch(), Idempotency_Key="k")
    assert (dry.status, await rows(world)) == (200, 0)
    assert (await world.user("POST", JOBS, pytorch(), Idempotency_Key="k")).status == 201


async def test_a_request_with_a_key_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.api.submission.repeats.MAX_OBJECTS", 1)
    refused = await world.user("POST", JOBS, documents(pytorch("a"), pytorch("b")), Idempotency_Key="k")
    assert (refused.status, refused.paths, world.kube.objects) == (422, [HEADER], {})


async def test_while_it_is_in_progress(world: World, replica: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on, create = asyncio.Event(), asyncio.Event(), world.kube.create

    async def slow(*args: Any, **options: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await create(*args, **options)

    monkeypatch.setattr(world.kube, "create", slow)
    first = asyncio.create_task(world.user("POST", JOBS, pytorch(), Idempotency_Key="k"))
    await entered.wait()
    meanwhile = await replica("POST", JOBS, pytorch(), Idempotency_Key="k")
    go_on.set()
    assert (meanwhile.status, meanwhile.body["code"]) == (409, "Conflict")
    assert "in progress" in meanwhile.body["detail"]
    assert 1 <= int(meanwhile.headers["Retry-After"]) <= 5
    answered = await first
    assert (await replica("POST", JOBS, pytorch(), Idempotency_Key="k")).body == answered.body


class TestCrash:
    """The process ends at some moment of the first request; a repeat finishes it."""

    @pytest.fixture(autouse=True)
    def short_lease(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lost attempts are known as such at once."""
        monkeypatch.setattr(repeats, "LEASE", timedelta(0))

    @staticmethod
    async def crash(world: World, monkeypatch: pytest.MonkeyPatch, body: Any, after: int) -> None:
        """Break the first request off before the object after `after` others, or before it is recorded."""
        made, create, put = 0, world.kube.create, world.store.submissions.put

        async def breaking(res: Any, obj: Any, namespace: Any = None, *, dry_run: bool = False) -> Any:
            nonlocal made
            if not dry_run and res.plural != "subjectaccessreviews":
                if made == after:
                    raise RuntimeError("the process ends")
                made += 1
            return await create(res, obj, namespace, dry_run=dry_run)

        async def ending(*_: Any) -> None:
            raise RuntimeError("the process ends")

        with monkeypatch.context() as patch:
            patch.setattr(world.kube, "create", breaking)
            patch.setattr(world.store.submissions, "put", ending)
            assert (await world.user("POST", JOBS, body, Idempotency_Key="k")).status == 500
        assert put == world.store.submissions.put

    @pytest.mark.parametrize("after", [0, 1, 2])
    async def test_a_repeat_finishes(
        self, world: World, replica: Client, monkeypatch: pytest.MonkeyPatch, after: int
    ) -> None:
        body = documents(pytorch("a"), pytorch("b"))
        await self.crash(world, monkeypatch, body, after)
        there = dict(world.kube.objects)
        assert len(there) == after
        again = await replica("POST", JOBS, body, Idempotency_Key="k")
        assert (again.status, [job["name"] for job in again.body["items"]]) == (201, ["a", "b"]), again.body
        assert there.items() <= world.kube.objects.items()
        assert (len(await world.store.acceptances.all()), await submitted(world)) == (2, 2)
        assert (await world.user("POST", JOBS, body, Idempotency_Key="k")).body == again.body

    @pytest.mark.parametrize(("after", "status", "left"), [(1, 409, 0), (2, 201, 2)])
    async def test_after_the_queue_was_closed(
        self, world: World, monkeypatch: pytest.MonkeyPatch, after: int, status: int, left: int
    ) -> None:
        """What was created whole had been accepted; what is there in part is refused and undone."""
        body = documents(pytorch("a"), pytorch("b"))
        await self.crash(world, monkeypatch, body, after)
        await world.store.queues.edit("a100", lambda old: (old.labels, {"closed": True}), None)
        again = await world.user("POST", JOBS, body, Idempotency_Key="k")
        assert (again.status, len(world.kube.objects)) == (status, left), again.body

    async def test_anothers_object_is_not_taken_for_its_own(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        body = documents(pytorch("a"), pytorch("b"))
        await self.crash(world, monkeypatch, body, 1)
        world.kube.objects.clear()
        assert (await world.user("POST", JOBS, pytorch("a"))).status == 201
        again = await world.user("POST", JOBS, body, Idempotency_Key="k")
        assert (again.status, again.body["code"]) == (409, "AlreadyExists")
        assert world.kube.names() == {"PyTorchTrainingJob/a"}


async def test_what_could_not_be_undone_is_finished(world: World) -> None:
    body = documents(pytorch("a"), pytorch("b"))
    world.kube.faults = lambda verb, _, name: (
        ServerError(500, "InternalError", "gone") if (verb, name) == ("create", "b") or verb == "delete" else None
    )
    assert (await world.user("POST", JOBS, body, Idempotency_Key="k")).status >= 500
    assert world.kube.names() == {"PyTorchTrainingJob/a"}
    world.kube.faults = lambda *_: None
    again = await world.user("POST", JOBS, body, Idempotency_Key="k")
    assert (again.status, [job["name"] for job in again.body["items"]]) == (201, ["a", "b"]), again.body


async def test_a_record_that_failed_leaves_nothing_and_is_made_by_the_repeat(world: World) -> None:
    fault = "CREATE TRIGGER fault BEFORE INSERT ON acceptance BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    async with world.store.database.write() as connection:
        await connection.execute(text(fault))
    assert (await world.user("POST", JOBS, pytorch(), Idempotency_Key="k")).status == 503
    assert world.kube.objects == {}
    async with world.store.database.write() as connection:
        await connection.execute(text("DROP TRIGGER fault"))
    assert (await world.user("POST", JOBS, pytorch(), Idempotency_Key="k")).status == 201


async def test_an_answer_that_was_stored_though_the_database_did_not_say_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = world.store.submissions.put

    async def cut_off(*args: Any) -> None:
        await put(*args)
        raise DatabaseUnreachable("the connection was lost")

    monkeypatch.setattr(world.store.submissions, "put", cut_off)
    first = await world.user("POST", JOBS, pytorch(), Idempotency_Key="k")
    assert (first.status, len(world.kube.objects)) == (201, 1)
    assert (await world.user("POST", JOBS, pytorch(), Idempotency_Key="k")).body == first.body


async def test_neither_keys_nor_requests_are_stored(world: World) -> None:
    await world.user("POST", JOBS, pytorch(annotations={"note": "hush-hush"}), Idempotency_Key="my-own-key")
    (row,) = await world.store.database.fetch(idempotency_key.select())
    assert "my-own-key" not in str(row)
    assert "hush-hush" not in str(row)
    assert str(world.user.token) not in str(row)
