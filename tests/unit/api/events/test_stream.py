"""The stream of events over HTTP: what comes, to whom, from where on, and how it ends."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from t9ksched.store.errors import DatabaseUnreachable
from t9ksched.store.history import Event
from tests.unit.api.world import Client, Json, World

EVENTS = "/apis/v1/events"
QUEUES = "/apis/v1/admin/queues"


class Reader:
    """A client that reads a stream of events, one after the other."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.last: str | None = None
        self.beats = 0

    async def next(self) -> tuple[str, Json]:
        """The type of the next event ('' if it has none), and its data. Raises EOFError at the end."""
        kind, data = "", ""
        async with asyncio.timeout(20):
            async for raw in self.answer.content:
                line = raw.decode().rstrip("\n")
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "id":
                    self.last = value
                elif name == "data":
                    data = value
                elif not line and data:
                    return kind, json.loads(data)
                elif not line:
                    self.beats += 1
        raise EOFError

    async def events(self, number: int) -> list[Json]:
        """The next events."""
        return [(await self.next())[1] for _ in range(number)]


@asynccontextmanager
async def listening(client: Client, path: str = EVENTS, **headers: str) -> AsyncIterator[Reader]:
    """A stream that says that it is ready."""
    sent = {"Authorization": f"Bearer {client.token}"} | {key.replace("_", "-"): val for key, val in headers.items()}
    timeout = aiohttp.ClientTimeout(total=None)
    async with client.session.get(client.url + path, headers=sent, timeout=timeout) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        reader = Reader(answer)
        assert (await reader.next())[0] == "ready"
        yield reader


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def started(name: str, **fields: Any) -> Event:
    return Event(event="started", **({"kind": "MPIJob", "namespace": "default", "name": name, "queue": "q"} | fields))


async def test_what_happens_comes_as_it_happens(world: World) -> None:
    async with listening(world.admin) as reader:
        assert (await world.admin("POST", QUEUES, {"name": "a100"})).status == 201
        (made,) = await reader.events(1)
        assert (made["type"], made["about"], made["kind"], made["name"]) == ("queue-created", "queue", "Queue", "a100")
        assert (made["actor"], made["detail"]["after"]["labels"], reader.last) == ("admin", {}, str(made["id"]))
        await world.store.history.append(started("walk", uid="u", detail={"x": 1}))
        (job,) = await reader.events(1)
        assert {key: job[key] for key in ("type", "about", "kind", "namespace", "name", "uid", "queue", "detail")} == {
            "type": "started",
            "about": "job",
            "kind": "MPIJob",
            "namespace": "default",
            "name": "walk",
            "uid": "u",
            "queue": "q",
            "detail": {"x": 1},
        }


async def test_who_comes_again_goes_on_where_the_stream_stopped(world: World) -> None:
    await world.store.history.append_many([started(str(number)) for number in range(10)])
    history = [event.id for event in await world.store.history.list()]
    async with listening(world.admin, f"{EVENTS}?after={history[3]}") as reader:
        assert [one["id"] for one in await reader.events(6)] == history[4:]
    async with listening(world.admin, f"{EVENTS}?after=0", Last_Event_ID=str(history[7])) as reader:
        assert [one["id"] for one in await reader.events(2)] == history[8:]
        await world.store.history.append(started("new"))
        assert [one["name"] for one in await reader.events(1)] == ["new"]


async def test_filters(world: World) -> None:
    await world.store.history.append_many(
        [
            Event(event="submitted", uid="u1", actor="ann", name="a", kind="MPIJob", namespace="default", queue="q"),
            started("a", uid="u1"),
            started("b", uid="u2", kind="PyTorchTrainingJob", namespace="ml"),
            Event(event="queue-changed", queue="p", actor="root", detail={}),
            Event(event="card-cordoned", name="n1", actor="root", detail={"node": "n1", "card": 3}),
        ]
    )
    expected = {
        "": ["a", "a", "b", "p", "n1"],
        "about=queue&about=node": ["p", "n1"],
        "type=started": ["a", "b"],
        "kind=pj": ["b"],
        "queue=p": ["p"],
        "user=ann": ["a", "a"],
        "namespace=ml": ["b"],
        "name=n1": ["n1"],
        "about=job&type=submitted&name=a": ["a"],
    }
    for query, names in expected.items():
        async with listening(world.admin, f"{EVENTS}?after=0&{query}") as reader:
            assert [one["name"] for one in await reader.events(len(names))] == names, query
            await world.store.history.append(Event(event="stopped", name="end", actor="admin"))
    lists = {
        "/apis/v1/workloads?kind=pj": ["b"],
        "/apis/v1/workloads?queue=q&user=ann": ["a", "a"],
        "/apis/v1/nodes?": ["n1"],
        QUEUES + "?": ["p"],
        "/apis/v1/queues?": ["p"],
    }
    for address, names in lists.items():
        async with listening(world.admin, f"{address}&watch=true&after=0") as reader:
            assert [one["name"] for one in await reader.events(len(names))] == names, address


async def test_each_sees_what_is_the_users_own(world: World) -> None:
    """From history and as it happens alike: jobs of the user's own, of queues and namespaces the user rules, usable
    queues and nodes; without names and details of others."""
    store = world.store
    await store.queues.create("own", {}, {}, {"users": ["ann"]})
    await store.queues.create("other", {}, {}, {"users": ["bob"]})
    world.kube.namespace_meta["ml"] = {"annotations": {"tensorstack.dev/owner": "eve"}}
    clients = {"admin": world.admin, "ann": world.user}
    for name, role, queues in (("boss", "manager", ["own"]), ("eve", "user", []), ("limited", "user", ["other"])):
        owner = "ann" if name == "limited" else name
        secret = await store.tokens.create(name, role, owner, queues=queues)
        clients[name] = Client(world.user.url, world.user.session, secret)
    await store.history.append(started("before"))
    before = (await store.history.list(newest_first=True, limit=1))[0].id
    readers = {}
    happened = [
        Event(event="submitted", uid="u1", actor="ann", name="mine", queue="own", namespace="default"),
        started("mine-on", uid="u1", queue="own"),
        started("bobs", uid="u2", queue="other"),
        started("in-space", uid="u3", queue="third", namespace="ml"),
        Event(event="queue-changed", queue="own", actor="root", detail={"after": {"members": {"users": ["ann"]}}}),
        Event(event="queue-changed", queue="other", actor="root", detail={"after": {}}),
        Event(
            event="card-cordoned", name="n1", actor="root", detail={"node": "n1", "card": 3, "after": {"by": "root"}}
        ),
        Event(event="token-created", name="t", actor="root"),
        Event(event="preempted", name="mine", uid="u1", queue="own", detail={"by": "x/Job/y", "byQueue": "other"}),
        Event(event="stopped", name="end", actor="admin"),
    ]
    seen = {
        "admin": ["mine", "mine-on", "bobs", "in-space", "own", "other", "n1", "t", "mine", "end"],
        "ann": ["mine", "mine-on", "own", "n1", "mine"],
        "boss": ["mine", "mine-on", "own", "n1", "mine"],
        "eve": ["in-space", "n1"],
        "limited": ["n1"],
    }
    async with AsyncExitStack() as stack:
        for name, client in clients.items():
            readers[name] = await stack.enter_async_context(listening(client))
        await store.history.append_many(happened)
        for name, client in clients.items():
            live = await readers[name].events(len(seen[name]))
            past = await stack.enter_async_context(listening(client, f"{EVENTS}?after={before}"))
            assert live == await past.events(len(seen[name])), name
            assert [one["name"] for one in live] == seen[name], name
            of_node = next(one for one in live if one["name"] == "n1")
            assert (of_node["actor"], of_node["detail"].get("after")) == (
                ("root", {"by": "root"}) if name == "admin" else (None, None)
            )
            if name == "ann":
                assert live[2]["detail"] == {}, "nor who else may use the queue"
                assert live[4]["detail"]["by"] is None


async def test_a_job_that_others_accept_stays_its_submitters(world: World) -> None:
    """Also if nobody listened when it was submitted: the scheduler's acceptance is the first that is heard."""
    await world.store.history.append(Event(event="submitted", uid="u1", actor="ann", name="mine", queue="q"))
    async with listening(world.user) as reader:
        await world.store.history.append(Event(event="accepted", uid="u1", actor="scheduler", name="mine", queue="q"))
        await world.store.history.append(started("mine", uid="u1", actor="scheduler"))
        await world.store.history.append(started("end", actor="ann"))
        assert [(one["type"], one["name"]) for one in await reader.events(3)] == [
            ("accepted", "mine"),
            ("started", "mine"),
            ("started", "end"),
        ]


async def test_who_has_nothing_to_be_told_hears_that_the_stream_lives(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t9ksched.api.events.listener.BEAT_SECONDS", 0.05)
    async with listening(world.user) as reader:
        first = reader.last
        await world.store.history.append(started("of bob", actor="bob"))
        waiting = asyncio.create_task(reader.next())
        await until(lambda: reader.last != first and reader.beats >= 3)
        assert not waiting.done(), "a place that moves is no event"
        waiting.cancel()


async def test_a_long_search_without_a_find_says_that_the_stream_lives(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t9ksched.api.events.listener.BEAT_SECONDS", 0.0)
    monkeypatch.setattr("t9ksched.api.events.listener._AT_ONCE", 2)
    await world.store.history.append_many([started(str(number)) for number in range(9)])
    async with listening(world.admin, f"{EVENTS}?after=0&name=8") as reader:
        assert (await reader.events(1))[0]["name"] == "8"
        assert reader.beats >= 4


async def test_a_namespace_that_is_lost_counts_while_the_stream_is_busy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t9ksched.api.events.listener.NAMESPACES_SECONDS", 0.0)
    monkeypatch.setattr("t9ksched.api.namespaces.KEPT_SECONDS", 0.0)
    world.kube.namespace_meta["ml"] = {"annotations": {"tensorstack.dev/owner": "ann"}}
    async with listening(world.user) as reader:
        await world.store.history.append(started("before", namespace="ml", actor="bob"))
        assert [one["name"] for one in await reader.events(1)] == ["before"]
        del world.kube.namespace_meta["ml"]
        await world.store.history.append(started("own", actor="ann"))
        assert [one["name"] for one in await reader.events(1)] == ["own"]
        await world.store.history.append_many(
            [started("lost", namespace="ml", actor="bob"), started("end", actor="ann")]
        )
        assert [one["name"] for one in await reader.events(1)] == ["end"]


async def test_a_stop_does_not_wait_for_those_that_just_came(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for the first look at history is refused, and told no place to go on from."""
    hub = world.app.state.services.events

    async def away(*_: object) -> None:
        raise DatabaseUnreachable("gone")

    monkeypatch.setattr("t9ksched.store.feed.HistoryFeed.begin", away)
    asking = asyncio.create_task(world.user("GET", EVENTS))
    await until(lambda: bool(hub._listeners))
    await hub.close()
    refused = await asking
    assert (refused.status, refused.body["detail"]) == (503, "the service stops")


async def test_a_stream_ends_with_its_token(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.api.events.listener.BEAT_SECONDS", 3600.0)
    for name, ends in (("revoked", None), ("expires", datetime.now(UTC) + timedelta(seconds=0.8))):
        secret = await world.store.tokens.create(name, "user", "bob", expires_at=ends)
        async with listening(Client(world.user.url, world.user.session, secret)) as reader:
            if ends is None:
                await world.store.tokens.revoke(name)
            kind, data = await reader.next()
            assert (kind, data["code"]) == ("end", "Unauthenticated")
            assert "token" in data["message"]
            assert ends is None or datetime.now(UTC) >= ends
            with pytest.raises(EOFError):
                await reader.next()


async def test_rights_that_change_count_at_once(world: World) -> None:
    secret = await world.store.tokens.create("bob", "user", "bob")
    await world.store.queues.create("open", {}, {}, {})
    async with listening(Client(world.user.url, world.user.session, secret), f"{EVENTS}?about=queue") as reader:
        await world.admin("PATCH", f"{QUEUES}/open", {"spec": {"priority": 1}})
        await world.admin("PUT", f"{QUEUES}/open/members", {"users": ["bob"]})
        told = await reader.events(1)
        assert [one["type"] for one in told] == ["queue-members-changed"]


async def test_a_stop_ends_streams_with_a_word(world: World) -> None:
    async with listening(world.user) as reader:
        await world.app.state.services.events.close()
        kind, data = await reader.next()
        assert (kind, data["code"], "ask again" in data["message"]) == ("end", "Unavailable", True)
    refused = await world.user("GET", EVENTS)
    assert (refused.status, refused.body["code"]) == (503, "Unavailable")


async def test_a_user_has_so_many_streams(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.api.events.hub.MOST_A_USER", 2)
    async with listening(world.user), listening(world.user):
        refused = await world.user("GET", EVENTS)
        assert (refused.status, refused.body["code"]) == (429, "RateLimited")
        async with listening(world.admin):
            pass
    hub = world.app.state.services.events
    await until(lambda: not hub._listeners)
    async with listening(world.user):
        pass


@pytest.mark.parametrize(
    ("path", "where", "told"),
    [
        (f"{EVENTS}?after=-1", "query.after", "less than 0"),
        (f"{EVENTS}?after=x", "query.after", "no whole number"),
        (f"{EVENTS}?after=99999999", "query.after", "is no event of this service"),
        (f"{EVENTS}?about=jobs", "query.about", "is no thing that an event is about"),
        (f"{EVENTS}?type=began", "query.type", "'began' is no type of events: they are accepted, admitted,"),
        (f"{EVENTS}?type=started&type=finish", "query.type", "did you mean finished?"),
        (f"{EVENTS}?kind=unicorn", "query.kind", "no kind of workload"),
        (f"{EVENTS}?zzz=1", "query.zzz", "is unknown"),
        ("/apis/v1/workloads?watch=true&phase=Running", "query.phase", "goes not with watch"),
        ("/apis/v1/nodes?watch=true&limit=3", "query.limit", "goes not with watch"),
        ("/apis/v1/queues?watch=true&namespace=ml", "query.namespace", "goes not with watch"),
        ("/apis/v1/workloads?watch=true&queue=q&order=newest", "query.order", "goes not with watch"),
    ],
)
async def test_bad_questions(world: World, path: str, where: str, told: str) -> None:
    refused = await world.user("GET", path)
    assert (refused.status, refused.paths) == (422, [where])
    assert told in refused.body["errors"][0]["message"]
    bad = await world.user("GET", EVENTS, Last_Event_ID="x")
    assert (bad.status, bad.paths) == (422, ["header.Last-Event-ID"])


async def test_while_the_database_is_away_streams_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.api.events.hub.POLL_SECONDS", 0.02)
    async with listening(world.admin) as reader:
        fetch, failures = world.store.database.fetch, 0

        async def away(query: Any) -> Any:
            nonlocal failures
            failures += 1
            if failures < 5:
                raise DatabaseUnreachable("gone")
            return await fetch(query)

        monkeypatch.setattr(world.store.database, "fetch", away)
        await world.store.history.append(started("later"))
        assert [one["name"] for one in await reader.events(1)] == ["later"]
        assert failures >= 5


async def test_a_slow_reader_gets_everything_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is not kept in memory any more when it comes to it, and over connections that break."""
    monkeypatch.setattr("t9ksched.api.events.hub.KEPT", 50)
    world.app.state.services.events._kept = deque(maxlen=50)
    total, seen, last = 3000, list[int](), "0"

    async def write() -> None:
        for start in range(0, total, 25):
            await world.store.history.append_many(
                [started(str(number), detail={"x": "y" * 200}) for number in range(start, start + 25)]
            )

    writing = asyncio.create_task(write())
    while len(seen) < total:
        async with listening(world.admin, f"{EVENTS}?after={last}&about=job") as reader:
            for _ in range(min(700, total - len(seen))):
                _, data = await reader.next()
                seen.append(int(data["name"]))
                if len(seen) % 100 == 0:
                    await asyncio.sleep(0.01)
            assert reader.last is not None
            last = reader.last
    await writing
    assert seen == list(range(total))
