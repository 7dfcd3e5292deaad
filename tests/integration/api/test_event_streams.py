"""Events over two replicas of PostgreSQL, of which one is restarted: nothing is missed and nothing comes twice, however
slowly a client reads and however often its connection breaks.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.store import Store
from t9ksched.store.history import Event, record
from tests.unit.api.events.test_stream import EVENTS, listening
from tests.unit.api.world import Client, MemoryCluster, ScriptedLeader

pytestmark = pytest.mark.postgres
TOTAL = 10_000
WRITERS = 4


@dataclass
class Replica:
    """One service with connections of its own, which can be stopped and started again at the same port."""

    address: str
    session: aiohttp.ClientSession
    stack: AsyncExitStack
    client: Client | None = None
    port: int = 0

    async def start(self, token: str) -> Store:
        store = await self.stack.enter_async_context(await Store.open(self.address))
        app = create_app(Services(store, MemoryCluster(), ScriptedLeader()))  # type: ignore[arg-type]
        server = await self.stack.enter_async_context(Server(app, listen("127.0.0.1", self.port)))
        self.port = int(server.url.rpartition(":")[2])
        self.client = Client(server.url, self.session, token)
        return store

    async def stop(self) -> None:
        await self.stack.aclose()
        self.stack = AsyncExitStack()


@pytest.fixture
async def replicas(postgres_with_tables: str) -> AsyncIterator[tuple[list[Replica], str, Store]]:
    async with (
        await Store.open(postgres_with_tables) as store,
        aiohttp.ClientSession() as session,
        AsyncExitStack() as first,
        AsyncExitStack() as second,
    ):
        token = await store.tokens.ensure_admin()
        assert token is not None
        both = [Replica(postgres_with_tables, session, stack) for stack in (first, second)]
        for one in both:
            await one.start(token)
        yield both, token, store
        for one in both:
            await one.stop()


async def write(store: Store, writer: int, dice: random.Random, committed: list[str]) -> None:
    """A writer's share, in transactions of any size; some are undone, and some end after others that began later."""
    number = 0
    while number < TOTAL // WRITERS:
        names = [f"{writer}-{number + part}" for part in range(min(dice.randint(1, 60), TOTAL // WRITERS - number))]
        with suppress(_Undone):
            async with store.database.write() as connection:
                for name in names:
                    await record(connection, Event(event="started", kind="Pod", namespace="default", name=name))
                await asyncio.sleep(dice.choice((0, 0, 0.005)))
                if dice.random() < 0.1:
                    raise _Undone
            committed += names
            number += len(names)


class _Undone(Exception):
    """The transaction is not to be committed."""


async def follow(
    replicas: list[Replica], dice: random.Random, enough: Callable[[int], bool], pause: Callable[[], Awaitable[Any]]
) -> list[tuple[int, str]]:
    """What a client gets that comes again when its connection breaks, or by itself, to either replica."""
    seen, last = list[tuple[int, str]](), "0"
    while not enough(len(seen)):
        client = dice.choice(replicas).client
        if client is None:
            await asyncio.sleep(0.01)
            continue
        with suppress(aiohttp.ClientError, EOFError, AssertionError, ConnectionError):
            async with listening(client, f"{EVENTS}?about=job", Last_Event_ID=last) as reader:
                for _ in range(dice.randint(1, 2500)):
                    if enough(len(seen)):
                        break
                    kind, data = await reader.next()
                    if kind == "end":
                        break
                    seen.append((data["id"], data["name"]))
                    last = str(data["id"])
                    await pause()
    return seen


async def test_nothing_is_missed_and_nothing_comes_twice(replicas: tuple[list[Replica], str, Store]) -> None:
    both, token, store = replicas
    dice, committed = random.Random(5), list[str]()
    count = 0

    async def slowly() -> None:
        nonlocal count
        count += 1
        if count % 200 == 0:
            await asyncio.sleep(0.02)

    async def at_once() -> None:
        pass

    def enough(seen: int) -> bool:
        return seen >= TOTAL

    async def restart() -> None:
        for _ in range(3):
            while len(committed) < TOTAL and dice.random() < 0.9:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            one = dice.choice(both)
            one.client = None
            await one.stop()
            await one.start(token)

    async with asyncio.timeout(240):
        *readers, _, _ = await asyncio.gather(
            follow(both, random.Random(1), enough, slowly),
            follow(both, random.Random(2), enough, at_once),
            restart(),
            asyncio.gather(*(write(store, number, dice, committed) for number in range(WRITERS))),
        )
    assert len(committed) == TOTAL
    for seen in readers:
        ids = [number for number, _ in seen]
        assert ids == sorted(set(ids)), "in order, and each once"
        assert sorted(name for _, name in seen) == sorted(committed)
