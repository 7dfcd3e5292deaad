"""Several replicas of the service on one database: no edit is lost, and all of them reach the scheduler.

That is PostgreSQL; on SQLite all is one process, yet who changes the file beside it (a second `t9ksched`, a restore) is
followed too.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.api.leader import HttpLeader
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store import Store, changes, history
from tests.integration.scheduler.test_directions import until
from tests.integration.world import World
from tests.unit.api.world import Answer, Client, MemoryCluster, ScriptedLeader

pytestmark = pytest.mark.postgres
ADMIN = "/apis/v1/admin/queues"
SECRET = "s" * 20


@dataclass
class Replicas:
    """Two services, each with connections of its own to the same database."""

    address: str
    clients: list[Client]
    stores: list[Store]

    async def both(self, *requests: tuple[Any, ...], **headers: str) -> list[Answer]:
        """Each request to another replica, at once."""
        asked = [self.clients[at % 2](*request, **headers) for at, request in enumerate(requests)]
        return list(await asyncio.gather(*asked))


@pytest.fixture(params=["postgresql"])
async def replicas(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Replicas]:
    sqlite = request.param == "sqlite"
    address = f"sqlite:///{tmp_path / 'store.db'}" if sqlite else str(request.getfixturevalue("postgres_with_tables"))
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        stores = [await stack.enter_async_context(await Store.open(address)) for _ in range(2)]
        token, urls = await stores[0].tokens.ensure_admin(), []
        for store in stores:
            app = create_app(Services(store, MemoryCluster(), ScriptedLeader()))  # type: ignore[arg-type]
            urls.append((await stack.enter_async_context(Server(app, listen("127.0.0.1", 0)))).url)
        yield Replicas(address, [Client(url, session, token) for url in urls], stores)


async def test_two_edits_of_what_both_saw(replicas: Replicas) -> None:
    """One is made; the other is told 412 and what the revision is now, whichever replica it asked."""
    one, two = replicas.clients
    tag = (await one("POST", ADMIN, {"name": "a"})).headers["ETag"]
    changed = [("PATCH", f"{ADMIN}/a", {"labels": {f"l{at}": "x"}}) for at in range(6)]
    answers = await replicas.both(*changed, If_Match=tag)
    assert sorted(answer.status for answer in answers) == [200, *[412] * 5]
    (made,) = (answer for answer in answers if answer.status == 200)
    for answer in answers:
        if answer.status == 412:
            assert answer.body["code"] == "PreconditionFailed"
            assert answer.headers["ETag"] == made.headers["ETag"]
    assert len((await two("GET", f"{ADMIN}/a")).body["labels"]) == 1
    for method, path, body in (
        ("PUT", f"{ADMIN}/a", {"spec": {}}),
        ("PUT", f"{ADMIN}/a/members", {"everyone": True}),
        ("POST", f"{ADMIN}/a/actions/close", None),
        ("DELETE", f"{ADMIN}/a", None),
    ):
        assert (await two(method, path, body, If_Match=tag)).status == 412, (method, path)


async def test_edits_without_a_precondition_are_all_made(replicas: Replicas) -> None:
    """A patch is applied to what is there, not to what some replica remembers."""
    await replicas.clients[0]("POST", ADMIN, {"name": "a"})
    changed = [("PATCH", f"{ADMIN}/a", {"labels": {f"l{at}": "x"}}) for at in range(20)]
    answers = await replicas.both(*changed)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.headers["ETag"] for answer in answers}) == 20
    seen = [(await client("GET", f"{ADMIN}/a")).body["labels"].keys() for client in replicas.clients]
    assert seen[0] == seen[1] == {f"l{at}" for at in range(20)}
    noted = await replicas.stores[0].history.list(event=history.QUEUE_CHANGED, limit=100)
    assert [len(event.detail["after"]["labels"]) for event in noted] == list(range(1, 21))


async def test_a_change_that_is_impossible_is_409_whatever_was_seen(replicas: Replicas) -> None:
    """The name is taken, the last way in would be gone: looking again does not help, so it is not a 412."""
    answers = await replicas.both(*[("POST", ADMIN, {"name": "a"})] * 6)
    assert sorted(answer.status for answer in answers) == [201, *[409] * 5]
    assert {answer.body["code"] for answer in answers if answer.status == 409} == {"AlreadyExists"}
    tag = (await replicas.clients[1]("GET", f"{ADMIN}/default")).headers["ETag"]
    refused = await replicas.clients[1]("DELETE", f"{ADMIN}/default", If_Match=tag)
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    made = await replicas.both(*[("POST", "/apis/v1/admin/tokens", {"name": "ci"})] * 4)
    assert sorted(answer.status for answer in made) == [201, 409, 409, 409]
    last = await replicas.both(*[("DELETE", "/apis/v1/admin/tokens/admin")] * 2)
    assert {answer.status for answer in last} == {409}


async def test_a_token_revoked_at_one_replica_is_worthless_at_the_other(replicas: Replicas) -> None:
    one, two = replicas.clients
    secret = (await one("POST", "/apis/v1/admin/tokens", {"name": "ci"})).body["token"]
    theirs = Client(two.url, two.session, secret)
    assert (await theirs("GET", "/apis/v1/queues")).status == 200
    assert (await one("DELETE", "/apis/v1/admin/tokens/ci")).status == 204
    assert (await theirs("GET", "/apis/v1/queues")).status == 401


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("replicas", "woken"),
    [("postgresql", True), ("postgresql", False), ("sqlite", False)],
    ids=["notified", "polling", "sqlite"],
    indirect=["replicas"],
)
async def test_an_edit_through_any_replica_reaches_the_scheduler(
    world: World, replicas: Replicas, woken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a notification at once; without one (a pooler between, a lost listener) by asking, within a second."""
    assert changes.POLL_SECONDS < 1.0
    if not woken:
        monkeypatch.setattr(changes.Changes, "_listen", lambda _: None)
    async with (
        await Store.open(replicas.address) as mine,
        running(SchedulerService(await world.account(SCHEDULER), mine, internal_secret=SECRET)) as service,
        HttpLeader(mine.instances, SECRET) as leader,
    ):
        state = service.state  # its queues are a new mapping after each change
        name, address = world.run, f"{ADMIN}/{world.run}"
        one, two = replicas.clients
        assert (await one("POST", ADMIN, {"name": name, "spec": world.queue_spec})).status == 201
        await until(lambda: name in state.queues)
        assert (await two("PATCH", address, {"spec": {"priority": 42}})).status == 200
        await until(lambda: state.queues[name].spec.priority == 42)
        assert (await one("POST", f"{address}/actions/drain")).status == 200
        await until(lambda: state.queues[name].draining and state.queues[name].spec.closed)
        await world.play(1, 1)
        assert (await two("POST", f"{address}/actions/open")).status == 200
        await world.create(world.pod("a", 1, queue=name))
        await world.event(names.EVENT_REFUSED, "a")
        assert (await one("PUT", f"{address}/members", {"everyone": True})).status == 200
        await world.running("a")
        assert name in await leader.queues()
        assert (await two("DELETE", f"{address}?jobs=keep")).status == 204
        await until(lambda: name not in state.queues)
