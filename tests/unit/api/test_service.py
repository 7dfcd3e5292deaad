"""The service itself: health, documentation without internet, unforeseen errors, logs without secrets."""

import asyncio
import base64
import hashlib
import re
import socket
import sqlite3
from collections.abc import Iterator
from typing import cast

import aiohttp
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from t9ksched.api.http.server import PortInUse, listen
from t9ksched.api.probe import WRITE_SECONDS, Probe
from t9ksched.kube.errors import ApiError, ServerError, TimedOut, Unreachable
from t9ksched.store import Store
from t9ksched.store.errors import DatabaseFull, DatabaseUnreachable, StoreError
from tests.unit.api.world import World, pytorch


async def test_ready_when_everything_answers(world: World) -> None:
    assert (await world.nobody("GET", "/healthz")).body == {"status": "ok"}
    ready = await world.nobody("GET", "/readyz")
    assert (ready.status, ready.body["parts"]) == (200, dict.fromkeys(("database", "kubernetes", "scheduler"), "ok"))
    assert ready.body["warnings"] == []


async def test_readyz_names_what_the_scheduler_may_not_watch(world: World) -> None:
    world.leader.denied = ["it may not watch replicasets.apps"]
    ready = await world.nobody("GET", "/readyz")
    assert (ready.status, ready.body["status"]) == (200, "ready")
    assert ready.body["warnings"] == [{"path": "scheduler", "message": world.leader.denied[0], "nearest": None}]


@pytest.mark.parametrize(
    ("path", "fault", "hint"),
    [
        ("/apis/v1/workloads?fase=Running", "query.fase", "did you mean phase?"),
        (
            "/apis/v1/workloads?phase=Running&zzz=1",
            "query.zzz",
            "the parameters are after, continue, deleted, kind, label, limit",
        ),
        ("/apis/v1/queues?namespce=default", "query.namespce", "did you mean namespace?"),
        ("/apis/v1/stops?name=n1", "query.name", "there are no parameters here"),
        ("/apis/v1/admin/audit?acter=ann", "query.acter", "did you mean actor?"),
    ],
)
async def test_an_unknown_parameter_of_a_question_is_refused(world: World, path: str, fault: str, hint: str) -> None:
    refused = await world.admin("GET", path)
    assert (refused.status, refused.body["code"], refused.paths) == (422, "InvalidField", [fault])
    assert hint in refused.body["errors"][0]["message"]


@pytest.mark.parametrize("part", ["database", "kubernetes", "scheduler"])
async def test_not_ready_names_what_is_down(world: World, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if part == "database":
        await world.store.database.close()
        monkeypatch.setattr(world.store, "check_writable", _locked)
    elif part == "kubernetes":
        world.kube.faults = lambda *_: Unreachable("connection refused")
    else:
        world.leader.away = True
    found = await world.nobody("GET", "/readyz")
    assert (found.status, found.body["code"], found.paths) == (503, "Unavailable", [part])
    assert (await world.nobody("GET", "/healthz")).status == 200


async def test_not_ready_while_nothing_can_be_written(world: World) -> None:
    """And strangers do not learn where the database is."""
    path = str(world.store.database.url.database)
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    try:
        found = await world.nobody("GET", "/readyz")
        assert (found.status, found.paths) == (503, ["database"])
        assert path not in str(found.body)
        assert (await world.nobody("GET", "/healthz")).status == 200
    finally:
        other.close()
    assert (await world.nobody("GET", "/readyz")).status == 200


async def test_not_ready_after_a_write_found_no_space(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the write says so too, and neither names a file."""
    async with world.store.database.read() as connection:
        pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
    limited = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"max_page_count={pages}")
    monkeypatch.setattr("t9ksched.store.sqlite_file.PRAGMAS", limited)
    await world.store.database.close()  # it is opened again; as on a full disk, a little still has room
    for number in range(200):
        refused = await world.admin("POST", "/apis/v1/admin/queues", {"name": f"full-{number}"})
        if refused.status != 201:
            break
    assert (refused.status, refused.body["detail"]) == (503, "the database has no space left")
    assert refused.body["remedy"] == "tell an administrator: the disk of the database is full"
    for _ in range(3):
        found = await world.nobody("GET", "/readyz")
        assert (found.status, found.paths) == (503, ["database"])
        assert "the database has no space left" in str(found.body)
    monkeypatch.undo()
    await world.store.database.close()
    assert (await world.nobody("GET", "/readyz")).status == 200


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Unreachable("connect to 10.0.0.7 refused"), "the Kubernetes API cannot be reached now"),
        (TimedOut("10.0.0.7"), "the Kubernetes API did not answer in time"),
        (
            ServerError(500, "", "etcdserver: mvcc: database space exceeded"),
            "the Kubernetes API cannot store objects: it has no space left",
        ),
        (ServerError(503, "ServiceUnavailable", "10.0.0.7"), "the Kubernetes API failed (HTTP 503)"),
    ],
)
async def test_a_cancellation_says_how_the_cluster_failed(world: World, fault: ApiError, says: str) -> None:
    assert (await world.user("POST", "/apis/v1/workloads", pytorch("job", queue=None))).status == 201
    world.kube.faults = lambda verb, *_: fault if verb == "delete" else None
    refused = await world.user("DELETE", "/apis/v1/workloads/default/pytorchtrainingjob/job")
    assert (refused.status, refused.body["detail"]) == (503, says)


class _Counted:
    """A database that counts what it is asked, and answers while it is not away."""

    def __init__(self) -> None:
        self.write_fault: StoreError | None = None
        self.writes = self.reads = 0
        self.away = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def check_writable(self) -> None:
        self.writes += 1
        await self._answer()

    async def ping(self) -> None:
        self.reads += 1
        await self._answer()

    async def _answer(self) -> None:
        await self.answers.wait()
        if self.away:
            raise DatabaseUnreachable("refused")


async def test_writing_is_tried_seldom_and_reading_each_time() -> None:
    database, now = _Counted(), 0.0
    probe = Probe(cast(Store, database), lambda: now)
    await probe.look()
    await probe.look()
    assert (database.writes, database.reads) == (1, 1)
    database.away = True
    with pytest.raises(DatabaseUnreachable):
        await probe.look()
    database.away, now = False, WRITE_SECONDS
    await probe.look()
    assert (database.writes, database.reads) == (2, 2)


async def test_a_failed_write_is_followed_by_a_probe_that_writes() -> None:
    database = _Counted()
    probe = Probe(cast(Store, database), lambda: 0.0)
    await probe.look()
    database.write_fault = DatabaseFull("no space left")
    await probe.look()
    assert (database.writes, database.reads) == (2, 0)


async def test_a_write_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.api.probe.PATIENCE_SECONDS", 0.01)
    database = _Counted()
    probe = Probe(cast(Store, database), lambda: 0.0)
    database.answers.clear()
    with pytest.raises(StoreError) as refused:
        await probe.look()
    assert refused.value.public == "the database does not complete a write in time: it is locked, or slow"
    database.write_fault = DatabaseFull("no space left")
    with pytest.raises(DatabaseFull):
        await probe.look()


async def test_who_comes_while_another_asks_asks_once_more_for_all() -> None:
    database = _Counted()
    probe = Probe(cast(Store, database), lambda: 0.0)
    database.answers.clear()
    asked = [asyncio.create_task(probe.look())]
    async with asyncio.timeout(60):
        while not database.writes:  # noqa: ASYNC110
            await asyncio.sleep(0)
    asked += [asyncio.create_task(probe.look()) for _ in range(20)]
    await asyncio.sleep(0)  # all of them wait
    database.answers.set()
    await asyncio.gather(*asked)
    assert (database.writes, database.reads) == (1, 1)


async def test_an_outage_tells_strangers_nothing_of_the_database(
    logged: list[structlog.types.EventDict], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise DatabaseUnreachable("the database postgresql://t9k@db.internal:5432/x cannot be reached (refused)")

    monkeypatch.setattr(world.store.read_cache, "now", away)
    for client in (world.nobody, world.user):
        headers = {"Authorization": "Bearer guess"} if client is world.nobody else {}
        failed = await client("GET", "/apis/v1/queues", **headers)
        assert (failed.status, failed.body["detail"]) == (503, "the database cannot be reached now")
    assert any("db.internal" in str(line.get("error")) for line in logged)


async def test_browsers_are_told_what_to_do_with_answers(world: World) -> None:
    for path in ("/docs", "/openapi.json", "/apis/v1/queues", "/nothing", "/docs-assets/swagger-ui.css"):
        headers = (await world.nobody("GET", path)).headers
        assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY"), path
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"], path
    page = await world.nobody("GET", "/docs")
    policy = page.headers["Content-Security-Policy"]
    (script,) = re.findall(rb"<script>(.*?)</script>", page.body, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(script).digest()).decode() in policy


async def test_a_line_of_the_log_is_one_line(logged: list[structlog.types.EventDict], world: World) -> None:
    await world.nobody("GET", "/a%0aevil%1b[2J%00" + "x" * 1000)
    (line,) = [line for line in logged if line["event"] == "request"]
    assert line["path"].startswith(r"/a\x0aevil\x1b[2J\x00xx")
    assert len(line["path"]) < 400


async def _locked() -> None:
    from t9ksched.store.errors import DatabaseBusy

    raise DatabaseBusy("the database is locked")


async def test_docs_need_no_internet(world: World) -> None:
    page = (await world.nobody("GET", "/docs")).body.decode()
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert links
    for link in links:
        assert link.startswith("/"), link
        asset = await world.nobody("GET", link)
        assert (asset.status, len(asset.body) > 1000) == (200, True), link
    assert "openapi.json" in page
    document = (await world.nobody("GET", "/openapi.json")).body
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= set(document["components"]["schemas"])


async def test_a_mistake_of_ours_is_a_500_with_an_id(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(world.store.queues, "list", broken)
    failed = await world.user("GET", "/apis/v1/queues")
    assert (failed.status, failed.body["code"]) == (500, "Internal")
    assert failed.body["id"] == failed.headers["x-request-id"]
    assert "secret detail" not in str(failed.body)
    assert (await world.nobody("GET", "/healthz")).status == 200


async def test_a_broken_database_is_503_without_traceback(world: World) -> None:
    async with world.store.database.write() as connection:
        await connection.execute(text("DROP TABLE queue"))
    failed = await world.user("GET", "/apis/v1/queues")
    assert (failed.status, failed.body["code"]) == (503, "Unavailable")
    assert "db upgrade" in failed.body["detail"]


@pytest.fixture
def logged() -> Iterator[list[structlog.types.EventDict]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


async def test_no_secret_is_logged(logged: list[structlog.types.EventDict], world: World) -> None:
    await world.admin("POST", "/apis/v1/admin/tokens", {"name": "ci"})
    await world.user("GET", "/apis/v1/queues?namespace=hunter2")
    await world.user("GET", "/apis/v1/queues?token=hunter2")
    await world.nobody("GET", "/apis/v1/queues", Authorization="Bearer hunter2")
    await world.user("POST", "/apis/v1/workloads", pytorch(annotations={"x": "hunter2"}))
    assert [entry["status"] for entry in logged if entry["event"] == "request"] == [201, 200, 422, 401, 422]
    for secret in (*world.tokens, "hunter2", "t9k_"):
        assert secret not in str(logged)


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_bodies_are_not_read(world: World, chunked: bool) -> None:
    async def pieces():
        for _ in range(100):
            yield b"#" * 1024

    body = pieces() if chunked else "#" * 100_000
    refused = await world.user("POST", "/apis/v1/workloads", body)
    assert (refused.status, refused.body["code"]) == (413, "Malformed")
    assert "64 KiB" in refused.body["detail"]


async def test_nodes_come_from_the_leader(world: World) -> None:
    world.leader.node_list = [{"name": "n1", "gpus": []}]
    assert (await world.user("GET", "/apis/v1/nodes")).body == {
        "items": [{"name": "n1", "gpus": []}],
        "continue": None,
    }
    assert (await world.user("GET", "/apis/v1/nodes/n1")).body["name"] == "n1"
    assert (await world.user("GET", "/apis/v1/nodes/n2")).body["code"] == "NotFound"
    world.leader.away = True
    away = await world.user("GET", "/apis/v1/nodes")
    assert (away.status, away.body["code"], away.body["age"]) == (503, "NotLeader", 0)


async def test_the_timeline_comes_from_the_leader_up_to_the_hour_that_is_asked_for(world: World) -> None:
    def item(job: str, since: str | None) -> dict[str, str | None]:
        return {"kind": "planned start", "namespace": "ml", "job": job, "queue": "q", "from": since, "until": None}

    items = [item("a", None), item("b", "2031-05-01T11:59:59Z"), item("c", "2031-05-01T12:00:00Z")]
    world.leader.timeline_now = {"at": "2031-05-01T10:00:00Z", "nodes": [{"name": "n1", "gpus": 8}], "items": items}
    day = await world.admin("GET", "/apis/v1/timeline")
    assert day.body == world.leader.timeline_now | {"to": "2031-05-02T10:00:00Z"}
    near = (await world.admin("GET", "/apis/v1/timeline?hours=2")).body
    assert (near["to"], near["items"]) == ("2031-05-01T12:00:00Z", items[:2])
    assert world.leader.timeline_hours == [24, 2]
    for hours in ("0", "8761", "soon"):
        assert (await world.admin("GET", f"/apis/v1/timeline?hours={hours}")).paths == ["query.hours"]
    world.leader.away = True
    assert (await world.admin("GET", "/apis/v1/timeline")).status == 503


def test_answers_are_sent_at_once() -> None:
    """A socket that is not named as TCP would wait for the client's acknowledgement of each part of an answer."""
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_a_port_in_use_says_so() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PortInUse, match=r"in use by another program: choose another with --port"):
            listen("127.0.0.1", other.getsockname()[1])


async def test_a_scraper_gets_the_format_that_it_asks_the_leader_for(world: World) -> None:
    page = await world.user("GET", "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert page.headers["Content-Type"] == "text/plain; asked=application/openmetrics-text; version=1.0.0"


async def test_requests_are_counted_by_the_template_of_their_path(world: World) -> None:
    for name in ("one", "two"):
        await world.user("GET", f"/apis/v1/nodes/{name}")
    await world.store.ping()
    await world.nobody("GET", "/apis/v1/queues")
    await world.admin("GET", "/no/such/path")
    async with aiohttp.ClientSession() as session:
        async with session.request("BREW", f"{world.user.url}/no/such/path") as answer:
            assert answer.status in (404, 405)
        async with session.get(f"{world.user.url}/healthz") as answer:
            assert answer.status == 200
    page = (await world.user("GET", "/metrics")).body.decode()
    counted = {
        (sample.labels["method"], sample.labels["route"], sample.labels["code"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "t9ksched_api_requests_total"
    }
    assert counted["GET", "/apis/v1/nodes/{name}", "404"] == 2
    assert counted["GET", "/apis/v1/queues", "401"] == 1
    assert counted["GET", "(unknown)", "404"] == 1
    assert any(method == "(other)" and route == "(unknown)" for method, route, _ in counted)
    assert not any("no/such" in route or "one" in route.split("/") for _, route, _ in counted)
    assert 't9ksched_api_request_duration_seconds_count{route="/apis/v1/nodes/{name}"} 2' in page
    assert 't9ksched_api_database_duration_seconds_count{kind="read",outcome="ok"}' in page
    assert 't9ksched_api_streams{what="events"} 0' in page


@pytest.mark.parametrize(
    ("query", "path", "told"),
    [
        ("workloads?phase=running", "query.phase", "'running' is no phase: did you mean Running?"),
        ("workloads?phase=Nope", "query.phase", "'Nope' is no phase: they are Pending, Running,"),
        ("workloads?phase=", "query.phase", "'' is no phase"),
        ("workloads?deleted=perhaps", "query.deleted", "'perhaps' is neither true nor false"),
        ("usage?month=2026-13", "query.month", "'2026-13' is no month: write it such as 2031-05"),
        ("usage?by=queue&by=foo", "query.by", "'foo' is none of queue, user, namespace"),
        ("usage?since=yesterday", "query.since", "'yesterday' is no time: write it such as"),
        ("workloads/ns/pod/p/history?limit=0", "query.limit", "'0' is less than 1"),
        ("workloads/ns/pod/p/history?limit=1001", "query.limit", "'1001' is more than 1000"),
        ("workloads/ns/pod/p/history?limit=abc", "query.limit", "'abc' is no whole number"),
    ],
)
async def test_values_that_mean_nothing_are_refused_in_words(world: World, query: str, path: str, told: str) -> None:
    refused = await world.user("GET", f"/apis/v1/{query}")
    (fault,) = refused.body["errors"]
    assert (refused.status, refused.body["code"], fault["path"]) == (422, "InvalidField", path)
    assert fault["message"].startswith(told), fault["message"]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("queue-change", "'queue-change' is no event of the audit: did you mean queue-changed?"),
        ("finished", "'finished' is no event of the audit: they are card-cordoned,"),
    ],
)
async def test_the_audit_knows_its_events(world: World, event: str, told: str) -> None:
    refused = await world.admin("GET", f"/apis/v1/admin/audit?event={event}")
    (fault,) = refused.body["errors"]
    assert (refused.status, fault["path"]) == (422, "query.event")
    assert fault["message"].startswith(told), fault["message"]


async def test_an_unknown_kind_is_told_once(world: World) -> None:
    refused = await world.user("GET", "/apis/v1/workloads/ns/foo/p1/explanation")
    assert [fault["message"] for fault in refused.body["errors"]] == [refused.body["detail"]]
