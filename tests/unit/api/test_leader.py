"""Asking a leader over HTTP: answers, and each way in which there is none."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from t9ksched.api import leader as module
from t9ksched.api.http.problems import Problem
from t9ksched.api.leader import HttpLeader, LeaderAway
from t9ksched.store import Store
from t9ksched.store.errors import DatabaseUnreachable
from t9ksched.store.history import Visibility
from t9ksched.store.instance import Instance

SECRET = "a shared secret"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


@pytest.fixture(autouse=True)
def succession(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SUCCESSION_SECONDS", 0.2)


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A leader that knows one node whose name needs quoting, one job, and misbehaves where it is told to."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/metrics":
            return web.Response(text="page", headers={"Content-Type": request.headers["Accept"]})
        if request.headers["Authorization"] != f"Bearer {SECRET}":
            return web.json_response({}, status=401)
        match request.path.removeprefix("/internal/v1/"):
            case "nodes":
                return web.json_response({"nodes": [{"name": "a/b"}]})
            case "nodes/a/b" if "%2F" in request.raw_path:
                return web.json_response({"name": "a/b"})
            case "jobs":
                return web.json_response({"jobs": [{"asked": [*request.query.items()]}]})
            case "jobs/ml/MPIJob/walk":
                return web.json_response({"name": "walk"})
            case "jobs/ml/MPIJob/walk/explanation":
                return web.json_response({"verdict": "Waiting"})
            case "timeline":
                return web.json_response({"at": "now", "nodes": [], "items": [request.query["hours"]]})
            case "queues":
                return web.json_response({"queues": {"q": {}}})
            case "nodes/other-leader":
                return web.json_response({}, status=421)
            case "nodes/broken":
                return web.Response(text="<html>")
        return web.json_response({}, status=404)

    async def question(request: web.Request) -> web.Response:
        asked = await request.json()
        if "status" not in asked:
            return web.json_response({"asked": asked})
        body = {key: value for key, value in asked.items() if key != "status"}
        return web.json_response(body, status=asked["status"])

    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", answer)
    app.router.add_route("POST", "/internal/v1/simulate", question)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_answers(store: Store, address: str) -> None:
    await store.instances.lead(address, "one")
    async with HttpLeader(store.instances, SECRET) as leader:
        assert await leader.nodes() == [{"name": "a/b"}]
        assert await leader.node("a/b") == {"name": "a/b"}
        assert await leader.node("c") is None
        assert await leader.job("ml", "MPIJob", "walk") == {"name": "walk"}
        assert await leader.job("ml", "MPIJob", "run") is None
        assert await leader.explanation("ml", "MPIJob", "walk") == {"verdict": "Waiting"}
        assert await leader.queues() == {"q": {}}
        assert await leader.timeline(7) == {"at": "now", "nodes": [], "items": ["7"]}
        assert await leader.jobs() == [{"asked": []}]
        visibility = Visibility("ann", frozenset({"q"}), frozenset({"ml"}))
        assert await leader.jobs(visibility) == [{"asked": [["submitter", "ann"], ["queue", "q"], ["namespace", "ml"]]}]


async def test_a_successor_is_found_at_once(store: Store, address: str) -> None:
    await store.instances.lead("http://127.0.0.1:1", "one")
    async with HttpLeader(store.instances, SECRET) as leader:
        with pytest.raises(LeaderAway, match="does not answer"):
            await leader.nodes()
        await store.instances.lead(address, "two")
        assert await leader.nodes() == [{"name": "a/b"}]
        await store.instances.lead("http://127.0.0.1:1", "three")
        assert await leader.nodes() == [{"name": "a/b"}], "a process that answers as a leader is believed for a moment"


@pytest.mark.parametrize("resigns", [True, False])
async def test_a_successor_that_is_on_its_way_is_waited_for(
    store: Store, address: str, resigns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that stopped is followed in a moment: no request is refused for that."""
    monkeypatch.setattr(module, "_SUCCESSION_SECONDS", 60.0)
    epoch = await store.instances.lead("http://127.0.0.1:9", "one")
    if resigns:
        await store.instances.resign(epoch)
    async with HttpLeader(store.instances, SECRET) as leader:
        asking = asyncio.create_task(leader.nodes())
        await asyncio.sleep(0.05)
        assert not asking.done()
        await store.instances.lead(address, "next")
        assert await asking == [{"name": "a/b"}]


async def test_a_successor_is_waited_for_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.instances.lead("http://127.0.0.1:9", "one")
    reads = 0
    current = store.instances.current

    async def counted() -> Instance | None:
        nonlocal reads
        reads += 1
        return await current()

    monkeypatch.setattr(store.instances, "current", counted)
    async with HttpLeader(store.instances, SECRET) as leader:
        for most in (range(3, 9), range(1, 3)):
            reads = 0
            with pytest.raises(LeaderAway):
                await leader.nodes()
            assert reads in most


async def test_no_scheduler_leads(store: Store) -> None:
    async with HttpLeader(store.instances, SECRET) as leader:
        with pytest.raises(LeaderAway, match="never heard of") as away:
            await leader.nodes()
        assert (away.value.code, away.value.age, away.value.status) == ("NotLeader", None, 503)
        await store.instances.resign(await store.instances.lead("http://127.0.0.1:1", "one"))
        with pytest.raises(LeaderAway, match="no scheduler leads now") as away:
            await leader.nodes()
        assert away.value.age == 0


async def test_a_leader_that_does_not_answer(store: Store) -> None:
    await store.instances.lead("http://127.0.0.1:1", "one")
    async with HttpLeader(store.instances, SECRET) as leader:
        with pytest.raises(LeaderAway, match="does not answer") as away:
            await leader.nodes()
        assert (away.value.code, away.value.headers["T9ksched-Leader-Age"]) == ("Unavailable", "0")


@pytest.mark.parametrize(
    ("secret", "node", "code", "told"),
    [
        ("wrong", "a", "Unavailable", "T9KSCHED_INTERNAL_SECRET"),
        (SECRET, "other-leader", "NotLeader", "421"),
        (SECRET, "broken", "Unavailable", "DecodeError"),
    ],
)
async def test_strange_answers(store: Store, address: str, secret: str, node: str, code: str, told: str) -> None:
    await store.instances.lead(address, "one")
    async with HttpLeader(store.instances, secret) as leader:
        with pytest.raises(LeaderAway, match=told) as away:
            await leader.node(node)
    assert away.value.code == code
    assert secret not in str(away.value)


async def test_the_metrics_page_is_of_the_type_that_the_scraper_asked_for(store: Store, address: str) -> None:
    await store.instances.lead(address, "one")
    async with HttpLeader(store.instances, SECRET) as leader:
        for accept in ("application/openmetrics-text; version=1.0.0", "text/plain; version=0.0.4"):
            assert await leader.metrics(accept) == (b"page", f"{accept}; charset=utf-8")


async def test_the_error_of_a_question_that_all_have_left_is_nobodys(
    store: Store, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the database hangs: `/readyz` answers before the leader's address is read in vain. Who comes next asks
    anew.
    """
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    await store.instances.lead(address, "one")
    async with HttpLeader(store.instances, SECRET) as leader:
        answers = asyncio.Event()

        async def away() -> None:
            await answers.wait()
            raise DatabaseUnreachable("connection timeout expired")

        with monkeypatch.context() as hanging:
            hanging.setattr(store.instances, "current", away)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await leader.queues()
            assert leader._queues_read is not None
            answers.set()
            await asyncio.wait({leader._queues_read}, timeout=60)
            gc.collect()
            with pytest.raises(DatabaseUnreachable):
                await leader.queues()
        assert await leader.queues() == {"q": {}}
    assert told == []


async def test_questions(store: Store, address: str) -> None:
    await store.instances.lead(address, "one")
    async with HttpLeader(store.instances, SECRET) as leader:
        assert await leader.simulate({"user": "ann"}) == {"asked": {"user": "ann"}}
        limited = {"status": 429, "code": "RateLimited", "detail": "too often", "again": 7}
        with pytest.raises(Problem, match="too often") as error:
            await leader.simulate(limited)
        assert (error.value.status, error.value.headers) == (429, {"Retry-After": "7"})
        faulty = [{"path": "change.policy", "message": "is no YAML"}]
        with pytest.raises(Problem) as error:
            await leader.simulate({"status": 422, "code": "InvalidField", "detail": "", "errors": faulty})
        assert (error.value.code, error.value.errors[0].path) == ("InvalidField", "change.policy")
        with pytest.raises(Problem, match="failed") as error:
            await leader.simulate({"status": 503, "code": "Unavailable", "detail": "it failed"})
        assert error.value.status == 503
        with pytest.raises(LeaderAway, match="another version"):
            await leader.simulate({"status": 404})
        with pytest.raises(LeaderAway, match="500"):
            await leader.simulate({"status": 500})
