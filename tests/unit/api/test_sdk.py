"""The Python client speaks to the service itself: both clients, each method, over HTTP."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched import version
from t9ksched.client import AsyncClient, Client, Event, NotFound, Refused, Retries, Unreachable, WaitTimeout
from t9ksched.store.history import Event as Stored
from tests.unit.api.world import World, documents, pytorch

QUEUES = "/apis/v1/admin/queues"
FEW = Retries(times=1, first_seconds=0.01)


@dataclass
class Program:
    """Calls methods of either client."""

    client: Client | AsyncClient

    async def __call__(self, method: str, *arguments: Any, **named: Any) -> Any:
        called = getattr(self.client, method)
        if inspect.iscoroutinefunction(called):
            return await called(*arguments, **named)
        return await asyncio.to_thread(called, *arguments, **named)

    async def events(self, number: int, **named: Any) -> list[Event]:
        """The first events of a stream."""
        if isinstance(self.client, AsyncClient):
            return await _first(self.client.events(**named), number)
        return await asyncio.to_thread(_taken, self.client.events(**named), number)


async def _first(stream: AsyncGenerator[Event, None], number: int) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(20):
        async for event in stream:
            found.append(event)
            if len(found) == number:
                break
    await stream.aclose()
    return found


def _taken(stream: Iterator[Event], number: int) -> list[Event]:
    found = [next(stream) for _ in range(number)]
    stream.close()  # type: ignore[attr-defined]
    return found


@pytest.fixture(params=[Client, AsyncClient])
async def program(request: pytest.FixtureRequest, world: World) -> AsyncIterator[Program]:
    made = await world.admin("POST", QUEUES, {"name": "a100", "labels": {"team": "ml"}, "members": {"everyone": True}})
    assert made.status == 201
    client = request.param(world.user.url, world.tokens[1], retries=FEW)
    yield Program(client)
    closed = client.close()
    if inspect.isawaitable(closed):
        await closed


async def test_jobs_from_submission_to_end(world: World, program: Program) -> None:
    tried = await program("submit", pytorch(), dry_run=True)
    assert [str(job) for job in tried.items] == ["PyTorchTrainingJob/resnet"]
    assert await program("jobs") == []
    (job,) = (await program("submit", documents(pytorch(), pytorch("other")), key="mine")).items[:1]
    again = (await program("submit", documents(pytorch(), pytorch("other")), key="mine")).items[0]
    assert (again.uid, job.queue, job.submitter) == (job.uid, "a100", (await program("whoami")).user)
    assert [one.name for one in await program("jobs", queue="a100", phase=["Pending", "Running"])] == [
        "other",
        "resnet",
    ]
    assert [one.name for one in await program("jobs", limit=1, newest_first=True)] == ["resnet"]
    assert (await program("job", "pj/resnet")).uid == (await program("job", job)).uid == job.uid
    with pytest.raises(WaitTimeout):
        await program("wait", job, "running", timeout=0)
    assert (await program("cancel", job)).uid == job.uid
    assert (await program("wait", job, "deleted", timeout=20)).uid == job.uid
    with pytest.raises(NotFound) as refused:
        await program("job", "pj/resnet")
    assert (refused.value.status, refused.value.code) == (404, "NotFound")


async def test_a_command_becomes_a_job(world: World, program: Program) -> None:
    job = await program("run", "python train.py --lr 1e-3", image="i", gpus=2, queue="a100", mounts=["data:/d:ro"])
    assert (job.kind, job.name.rpartition("-")[0], job.gpus) == ("Job", "train", 2)
    gang = await program("run", ["a"], image="i", replicas=2, name="gang", queue="a100", time_limit="4h")
    assert (gang.kind, gang.members.min, gang.time_limit.seconds) == ("PyTorchTrainingJob", 2, 4 * 3600)
    with pytest.raises(ValueError, match="gpu-model"):
        await program("run", "x", image="i", gpu_model="A100")


async def test_what_is_refused_says_where(program: Program) -> None:
    with pytest.raises(Refused) as refused:
        await program("submit", pytorch(queue="nowhere"))
    assert (refused.value.code, refused.value.status) == ("QueueNotFound", 422)
    with pytest.raises(Refused) as refused:
        await program("jobs", phase="Runing")
    assert (refused.value.errors[0].path, "Running" in refused.value.errors[0].message) == ("query.phase", True)


async def test_lists_and_anything_else(world: World, program: Program) -> None:
    assert [one.name for one in await program("queues", label="team=ml")] == ["a100"]
    assert [one.name for one in await program("queues", label=["team!=ml"])] == ["default"]
    assert isinstance(await program("nodes"), list)
    with pytest.raises(NotFound):
        await program("node", "nowhere")
    assert await program("version") == version()
    told = await program("request", "GET", "/apis/v1/queues", query={"label": "team=ml"})
    assert [one["name"] for one in told["items"]] == ["a100"]
    with pytest.raises(Refused, match="Forbidden"):
        await program("queues", managed=True)


async def test_events_go_on_over_a_service_that_stops(world: World, program: Program) -> None:
    user = (await program("whoami")).user
    await world.store.history.append(Stored(event="started", name="0", actor=user))
    place = (await world.store.history.list())[-1].id
    listening = asyncio.create_task(program.events(3, after=place - 1, about="job"))
    hub = world.app.state.services.events
    async with asyncio.timeout(20):
        while not hub._listeners:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for listener in list(hub._listeners):  # as when the service stops, and is there again
        hub.closed = True
        listener.wake()
    async with asyncio.timeout(20):
        while hub._listeners:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await world.store.history.append(Stored(event="started", name="1", actor=user))
    hub.closed = False
    await world.store.history.append(Stored(event="finished", name="2", actor=user))
    assert [one.name for one in await listening] == ["0", "1", "2"]


async def test_events_of_a_token_that_ends(world: World, program: Program) -> None:
    secret = await world.store.tokens.create("short", "user", "bob")
    client = type(program.client)(world.user.url, secret)
    listening = asyncio.create_task(Program(client).events(1))
    hub = world.app.state.services.events
    async with asyncio.timeout(20):
        while not hub._listeners:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await world.store.tokens.revoke("short")
    with pytest.raises(Refused) as refused:
        await listening
    assert refused.value.code == "Unauthenticated"
    with suppress(TypeError):
        await client.close()  # type: ignore[misc]


async def test_nothing_answers(program: Program) -> None:
    gone = type(program.client)("http://127.0.0.1:9", "x", retries=FEW)
    with pytest.raises(Unreachable, match=r"nothing answers at http://127\.0\.0\.1:9"):
        await Program(gone)("whoami")
    with pytest.raises(Unreachable):
        await Program(gone).events(1, patience=0)
    if isinstance(gone, AsyncClient):
        await gone.close()


async def test_addresses_for_notifications(program: Program, world: World) -> None:
    told = Program(program.client.notifications)  # type: ignore[arg-type]
    made = await told("add", "https://example.org/s3cret", events=["failed"])
    assert (made.address, made.events, made.queue) == ("https://example.org/…", ["failed"], None)
    assert made.key.startswith("whsec_")
    [listed] = await told("list")
    assert listed.id == made.id
    assert not hasattr(listed, "key")
    assert await told("list", queue="a100") == []
    with pytest.raises(Refused, match="must begin with one of https"):
        await told("add", "json://intranet/")

    async def deliver() -> None:
        while not (rows := await world.store.notifications.due(made.id, datetime.now(UTC), 9)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await world.store.notifications.failed(rows[0], datetime.now(UTC), "it answered 500")

    leader = asyncio.create_task(deliver())
    tried = await told("test", made)
    await leader
    assert (tried.last_error, tried.failures) == ("it answered 500", 1)
    assert (await told("test", made.id, patience=0)).last_attempt_at == tried.last_attempt_at
    await told("delete", made)
    with pytest.raises(NotFound):
        await told("delete", made.id)
