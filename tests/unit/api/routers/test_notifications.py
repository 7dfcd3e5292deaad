"""Addresses for notifications by REST: whose they are, what is wrong with each bad one, and that secrets stay so."""

from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.store import history
from t9ksched.store.history import Event
from t9ksched.store.jobs import JobRecord
from t9ksched.store.notifications import MOST_FAILURES
from tests.unit.api.test_matrix_tokens import client_of
from tests.unit.api.world import Client, Json, World

PATH = "/apis/v1/notifications"
URL = "https://hooks.example.org/s3cret?token=t0ken"


async def add(client: Client, **body: Any) -> Json:
    answer = await client("POST", PATH, {"url": URL} | body)
    assert answer.status == 201, answer.body
    return dict(answer.body)


async def names(client: Client, query: str = "") -> list[str]:
    return [one["id"] for one in (await client("GET", PATH + query)).body["items"]]


async def test_an_address_is_added_shown_without_secrets_tested_and_deleted(world: World) -> None:
    made = await world.user("POST", PATH, {"url": URL, "events": ["failed", "ended"]})
    assert made.status == 201
    assert made.headers["Location"] == f"{PATH}/{made.body['id']}"
    assert made.headers["Cache-Control"] == "no-store"
    key = made.body.pop("key")
    assert key.startswith("whsec_")
    assert made.body | {"id": "", "createdAt": ""} == {
        "id": "",
        "user": "ann",
        "queue": None,
        "within": [],
        "kind": "webhook",
        "address": "https://hooks.example.org/…",
        "events": ["ended", "failed"],
        "createdAt": "",
        "failures": 0,
        "disabledAt": None,
        "lastAttemptAt": None,
        "lastError": None,
    }
    one = f"{PATH}/{made.body['id']}"
    for path in (PATH, one):
        for client in (world.user, world.admin):
            shown = str((await client("GET", path)).body)
            assert made.body["id"] in shown
            assert not any(secret in shown for secret in ("s3cret", "t0ken", key))
    test = await world.user("POST", f"{one}/actions/test")
    assert test.status == 202
    target = await world.store.notifications.get(made.body["id"])
    assert target is not None
    assert (target.url, target.key) == (URL, key), "the leader has what it needs"
    [waiting] = await world.store.notifications.due(target.id, datetime.now(UTC), 9)
    assert waiting.body["id"] == test.body["notification"]
    assert waiting.body["message"] == "a test of notifications, asked for by ann"
    assert (await world.user("DELETE", one)).status == 204
    assert (await world.user("GET", one)).status == 404
    assert await world.store.notifications.waiting() == 0
    told = str((await world.admin("GET", "/apis/v1/admin/audit")).body)
    assert "notification-added" in told
    assert not any(secret in told for secret in ("s3cret", "t0ken", key))


@pytest.mark.parametrize(
    ("body", "path", "why"),
    [
        ({}, "url", "is missing"),
        ({"url": 7}, "url", "must be a text"),
        ({"url": "ftp://example.org/s3cret"}, "url", "must begin with one of https"),
        ({"url": "http://example.org/s3cret"}, "url", "must be https"),
        ({"url": "https://127.0.0.1/s3cret"}, "url", "in no public network"),
        ({"url": "https://[::ffff:10.0.0.1]/s3cret"}, "url", "in no public network"),
        ({"url": "slack://s3cret"}, "url", "must begin with"),
        ({"url": "mailto:ann@example.org"}, "url", "T9KSCHED_NOTIFY_MAIL"),
        ({"url": URL, "events": []}, "events", "must be a list"),
        ({"url": URL, "events": "ended"}, "events", "must be a list"),
        ({"url": URL, "events": ["ended", "budget"]}, "events[1]", "'budget' is unknown: use started"),
        ({"url": URL, "events": [{}]}, "events[0]", "a mapping is unknown"),
        ({"url": URL, "queue": 7}, "queue", "must be the name"),
        ({"url": URL, "secret": "x"}, "secret", "is unknown: the fields are url, events, queue"),
    ],
)
async def test_what_is_wrong_is_said_with_its_field_and_not_repeated(
    world: World, body: Json, path: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await world.user("POST", PATH, body)
    assert (answer.status, answer.body["code"]) == (422, "InvalidField")
    [fault] = answer.body["errors"]
    assert fault["path"] == path
    assert why in fault["message"]
    said = capsys.readouterr()
    assert "s3cret" not in str(answer.body) + said.out + said.err


async def test_users_have_their_own_and_managers_those_of_their_queues(world: World) -> None:
    await world.store.queues.create("q", {}, {}, {"everyone": True})
    boss = await client_of(world, "boss", "manager", "boss", queues=["q"])
    second = await client_of(world, "second", "manager", "second", queues=["q"])
    own, of_queue = (await add(world.user))["id"], (await add(boss, queue="q"))["id"]
    private = (await add(boss))["id"]
    assert await names(world.user) == [own]
    assert sorted(await names(boss)) == sorted([of_queue, private])
    assert await names(second) == [of_queue], "of the queue, whoever added it"
    assert sorted(await names(world.admin)) == sorted([own, of_queue, private])
    assert await names(world.admin, "?queue=q") == [of_queue]
    assert (await second("DELETE", f"{PATH}/{private}")).status == 404
    assert (await second("DELETE", f"{PATH}/{of_queue}")).status == 204
    refused = await world.user("POST", PATH, {"url": URL, "queue": "q"})
    assert (refused.status, refused.body["code"]) == (403, "Forbidden")
    missing = await world.admin("POST", PATH, {"url": URL, "queue": "nowhere"})
    assert (missing.status, missing.body["code"]) == (422, "QueueNotFound")


async def test_a_token_for_some_queues_adds_and_sees_what_is_of_these_alone(world: World) -> None:
    for name in ("q", "other"):
        await world.store.queues.create(name, {}, {}, {"everyone": True})
    limited = await client_of(world, "ci", "user", "ann", queues=["q"])
    whole, part = (await add(world.user))["id"], (await add(limited))["id"]
    assert await names(limited) == [part]
    assert sorted(await names(world.user)) == sorted([whole, part])
    assert (await limited("DELETE", f"{PATH}/{whole}")).status == 404
    about: Json = {"kind": "Job", "namespace": "ns"}
    shape, now = {"submitter": "ann"}, datetime.now(UTC)
    records = [JobRecord(uid=q, name=q, queue=q, submitted_at=now, shape=shape, **about) for q in ("q", "other")]
    events = [Event(event=history.STARTED, name=q, uid=q, queue=q, **about) for q in ("q", "other")]
    await world.store.tell([], events, records)
    told = await world.store.notifications.due(part, datetime.now(UTC), 9)
    assert [one.body["queue"] for one in told] == ["q"]


async def test_there_is_a_limit_and_odd_ids_are_no_addresses(world: World) -> None:
    for _ in range(20):
        await add(world.user)
    full = await world.user("POST", PATH, {"url": URL})
    assert (full.status, full.body["code"]) == (409, "Conflict")
    assert "delete one" in full.body["remedy"]
    page = (await world.user("GET", f"{PATH}?limit=15")).body
    rest = (await world.user("GET", f"{PATH}?limit=15&continue={page['continue']}")).body
    assert len({one["id"] for one in page["items"] + rest["items"]}) == 20
    for odd in ("nothing", "%00", "x" * 1000):
        assert (await world.user("GET", f"{PATH}/{odd}")).status in (400, 404)


async def test_one_that_was_disabled_says_why_and_a_test_tries_it_again(world: World) -> None:
    id_ = (await add(world.user))["id"]
    now = datetime.now(UTC)
    for count in range(MOST_FAILURES):
        await world.user("POST", f"{PATH}/{id_}/actions/test")
        [row] = await world.store.notifications.due(id_, datetime.now(UTC), 9)
        outcome = await world.store.notifications.failed(row, now, "it answered 500")
        assert outcome.disabled is (count == MOST_FAILURES - 1)
    shown = (await world.user("GET", f"{PATH}/{id_}")).body
    assert (shown["failures"], shown["lastError"]) == (MOST_FAILURES, "it answered 500")
    assert shown["disabledAt"] is not None
    await world.user("POST", f"{PATH}/{id_}/actions/test")
    assert (await world.user("GET", f"{PATH}/{id_}")).body["disabledAt"] is None
