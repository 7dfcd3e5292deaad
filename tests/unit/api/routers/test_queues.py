"""Queues by REST: all verbs, ETags, and bad input each with its field."""

import asyncio
from typing import Any

import pytest

from tests.unit.api.world import World

ADMIN = "/apis/v1/admin/queues"
SPEC = {
    "priority": 20,
    "quota": {"requests": {"cpu": "64", "nvidia.com/gpu": "8"}},
    "nodeSelector": {"matchLabels": {"a": "b"}},
    "ordering": "Strict",
}


async def test_default_queue_exists_from_the_first_start(world: World) -> None:
    found = await world.admin("GET", f"{ADMIN}/default")
    assert (found.status, found.body["spec"]) == (200, {"ordering": "Backfill"})
    assert found.body["members"] == {"everyone": True, "users": [], "groups": [], "maxPriority": None}


async def test_life_of_a_queue(world: World) -> None:
    made = await world.admin("POST", ADMIN, {"name": "a100", "labels": {"team": "ml"}, "spec": SPEC})
    assert made.status == 201
    assert made.headers["Location"] == f"{ADMIN}/a100"
    got = await world.admin("GET", f"{ADMIN}/a100")
    assert (got.body["spec"], got.body["labels"], got.headers["ETag"]) == (SPEC, {"team": "ml"}, made.headers["ETag"])

    put = await world.admin(
        "PUT", f"{ADMIN}/a100", got.body | {"spec": SPEC | {"priority": 30}}, If_Match=got.headers["ETag"]
    )
    assert (put.status, put.body["spec"]["priority"]) == (200, 30)
    assert put.headers["ETag"] != got.headers["ETag"]

    change = {"spec": {"quota": {"requests": {"nvidia.com/gpu": 16, "cpu": None}}, "nodeSelector": None}}
    patched = await world.admin("PATCH", f"{ADMIN}/a100", change)
    assert patched.body["spec"] == {
        "priority": 30,
        "quota": {"requests": {"nvidia.com/gpu": "16"}},
        "ordering": "Strict",
    }
    assert patched.body["labels"] == {"team": "ml"}

    assert (await world.admin("POST", f"{ADMIN}/a100/actions/close")).body["spec"]["closed"] is True
    assert "closed" not in (await world.admin("POST", f"{ADMIN}/a100/actions/open")).body["spec"]
    assert [queue["name"] for queue in (await world.admin("GET", "/apis/v1/queues")).body["items"]] == [
        "a100",
        "default",
    ]

    assert (await world.admin("DELETE", f"{ADMIN}/a100")).status == 204
    gone = await world.admin("GET", f"{ADMIN}/a100")
    assert (gone.status, gone.body["code"]) == (404, "QueueNotFound")
    kinds = [event.event for event in await world.store.history.list(queue="a100")]
    assert kinds == ["queue-created", *["queue-changed"] * 4, "queue-deleted"]
    changed = (await world.store.history.list(event="queue-changed"))[0]
    assert (
        changed.actor,
        changed.detail["before"]["spec"]["priority"],
        changed.detail["after"]["spec"]["priority"],
    ) == ("admin", 20, 30)


async def test_the_ordering_of_a_new_queue_and_of_a_changed_one(world: World) -> None:
    """A change that leaves it out keeps it; null is the default of new queues."""

    async def ordering(method: str, path: str, body: Any) -> str:
        answer = await world.admin(method, ADMIN + path, body)
        assert answer.status in (200, 201)
        return str(answer.body["spec"]["ordering"])

    assert await ordering("POST", "", {"name": "q", "spec": {"priority": 1}}) == "Backfill"
    assert await ordering("POST", "", {"name": "r", "spec": {"ordering": "BestEffort"}}) == "BestEffort"
    assert await ordering("PUT", "/q", {"spec": {"ordering": "Strict"}}) == "Strict"
    for method, body in (
        ("PUT", {"spec": {"priority": 2}}),
        ("PUT", {"labels": {"a": "b"}}),
        ("PATCH", {"spec": {"priority": 3}}),
        ("PATCH", {"labels": {"a": None}}),
        ("POST", None),
    ):
        assert await ordering(method, "/q" if body else "/q/actions/close", body) == "Strict", (method, body)
    assert await ordering("PATCH", "/q", {"spec": {"ordering": None}}) == "Backfill"
    refused = await world.admin("PATCH", f"{ADMIN}/q", {"spec": {"ordering": "backfill"}})
    assert (refused.status, refused.paths) == (422, ["spec.ordering"])


async def test_stale_and_missing_preconditions(world: World) -> None:
    first = (await world.admin("POST", ADMIN, {"name": "q"})).headers["ETag"]
    second = (await world.admin("PATCH", f"{ADMIN}/q", {"spec": {"priority": 1}}, If_Match=first)).headers["ETag"]
    for method, body in (("PUT", {"spec": {}}), ("PATCH", {"spec": {"priority": 2}}), ("DELETE", None)):
        stale = await world.admin(method, f"{ADMIN}/q", body, If_Match=first)
        assert (stale.status, stale.body["code"], stale.headers["ETag"]) == (412, "PreconditionFailed", second), method
    for tag in ('W/"1"', "nonsense", '""'):
        assert (await world.admin("DELETE", f"{ADMIN}/q", If_Match=tag)).status == 412
    assert (
        await world.admin("PATCH", f"{ADMIN}/q", {"spec": {"priority": 3}}, If_Match=f'"999", {second}')
    ).status == 200
    assert (await world.admin("PATCH", f"{ADMIN}/q", {"spec": {"priority": 4}}, If_Match="*")).status == 200


async def test_of_concurrent_edits_of_one_revision_one_wins(world: World) -> None:
    tag = (await world.admin("POST", ADMIN, {"name": "q"})).headers["ETag"]
    edits = [world.admin("PUT", f"{ADMIN}/q", {"spec": {"priority": p}}, If_Match=tag) for p in range(1, 9)]
    assert sorted(edit.status for edit in await asyncio.gather(*edits)) == [200] + [412] * 7


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["name"]),
        ({"name": "Has Blanks"}, ["name"]),
        ({"name": 5}, ["name"]),
        ({"name": "x" * 64}, ["name"]),
        ({"name": "q", "sepc": {}}, ["sepc"]),
        ({"name": "q", "labels": {"bad key!": "x", "ok": "also bad!"}}, ["labels.bad key!", "labels.ok"]),
        ({"name": "q", "spec": {"priority": 101}}, ["spec.priority"]),
        ({"name": "q", "spec": {"priority": True}}, ["spec.priority"]),
        ({"name": "q", "spec": {"requests": {"cpu": 1}}}, ["spec.requests"]),
        ({"name": "q", "spec": {"maxDuration": "1.5h"}}, ["spec.maxDuration"]),
        ({"name": "q", "spec": {"startWindows": "20:00-06:00"}}, ["spec.startWindows"]),
        (
            {"name": "q", "spec": {"startWindows": [{"from": "20:00", "to": "6", "timeZone": "Mars/Olympus"}]}},
            ["spec.startWindows[0].timeZone", "spec.startWindows[0].to"],
        ),
        ({"name": "q", "spec": {"quota": {"requests": {"cpu": "-1"}}}}, ["spec.quota.requests.cpu"]),
        (
            {"name": "q", "spec": {"quota": {"requests": {"nvidia.com/gpu": "many"}}}},
            ["spec.quota.requests[nvidia.com/gpu]"],
        ),
        ({"name": "q", "spec": {"overQuota": "Maybe", "preemptible": "yes"}}, ["spec.overQuota", "spec.preemptible"]),
        ({"spec": {"priority": -1}}, ["name", "spec.priority"]),
    ],
)
async def test_faulty_queues(world: World, body: dict[str, Any], paths: list[str]) -> None:
    refused = await world.admin("POST", ADMIN, body)
    assert (refused.status, refused.body["code"]) == (422, "InvalidField")
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert sorted(refused.paths) == sorted(paths)
    assert [queue.name for queue in await world.store.queues.list()] == ["default"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "", {"name": "default"}, 409, "AlreadyExists"),
        ("POST", "", [1], 400, "Malformed"),
        ("POST", "", "a: [", 400, "Malformed"),
        ("POST", "", "", 400, "Malformed"),
        ("GET", "/nope", None, 404, "QueueNotFound"),
        ("PUT", "/nope", {"spec": {}}, 404, "QueueNotFound"),
        ("PATCH", "/nope", {"spec": {}}, 404, "QueueNotFound"),
        ("DELETE", "/nope", None, 404, "QueueNotFound"),
        ("POST", "/nope/actions/close", None, 404, "QueueNotFound"),
        ("PUT", "/default", {"name": "other"}, 422, "InvalidField"),
        ("PATCH", "/default", {"spec": {"priority": 1000}}, 422, "InvalidField"),
        ("DELETE", "/default", None, 409, "Conflict"),
        ("POST", "/default/actions/explode", None, 404, "NotFound"),
        ("DELETE", "", None, 405, "Malformed"),
        ("GET", "/a%00b", None, 400, "Malformed"),
        ("GET", "/", None, 404, "NotFound"),
    ],
)
async def test_refusals(world: World, method: str, path: str, body: Any, status: int, code: str) -> None:
    refused = await world.admin(method, ADMIN + path, body)
    assert (refused.status, refused.body["code"]) == (status, code)
    default = await world.store.queues.get("default")
    assert default is not None
    assert default.spec == {"ordering": "Backfill"}


async def test_a_queue_in_use_stays(world: World) -> None:
    await world.admin("POST", ADMIN, {"name": "q"})
    world.leader.job_list = [{"queue": "q", "phase": "Running"}, {"queue": "q", "phase": "Failed"}]
    refused = await world.admin("DELETE", f"{ADMIN}/q")
    assert (refused.status, refused.body["code"]) == (409, "Conflict")
    assert "1 unfinished job" in refused.body["detail"]
    world.leader.job_list = []
    assert (await world.admin("DELETE", f"{ADMIN}/q")).status == 204


async def test_status_is_the_leaders_word(world: World) -> None:
    world.leader.queue_status = {"default": {"allocated": {"cpu": "4"}, "pods": {"running": 1}}}
    assert (await world.admin("GET", f"{ADMIN}/default")).body["status"]["allocated"] == {"cpu": "4"}
    world.leader.away = True
    alone = await world.user("GET", "/apis/v1/queues")
    assert (alone.status, alone.body["items"][0]["status"]) == (200, None)
    assert alone.headers["T9ksched-Leader-Age"] == "0"


async def test_yaml_is_read_too(world: World) -> None:
    made = await world.admin("POST", ADMIN, "name: q\nspec:\n  priority: 7\n")
    assert (made.status, made.body["spec"]) == (201, {"priority": 7, "ordering": "Backfill"})
