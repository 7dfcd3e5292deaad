"""Who may do what: tokens, roles, and that nothing is open by mistake."""

from datetime import datetime

import pytest

from tests.unit.api.world import Client, World


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (None, "needs a token"),
        ("Basic YTpi", "needs a token"),
        ("Bearer", "needs a token"),
        ("Bearer t9k_wrong", "unknown or was revoked, or its time is over"),
        ("Bearer " + "x" * 5000, "unknown or was revoked, or its time is over"),
    ],
)
async def test_wrong_tokens(world: World, header: str | None, told: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    refused = await world.nobody("GET", "/apis/v1/queues", **headers)
    assert (refused.status, refused.body["code"]) == (401, "Unauthenticated")
    assert refused.headers["WWW-Authenticate"].startswith('Bearer realm="t9ksched"')
    assert told in refused.body["detail"]
    assert refused.body["remedy"]


async def test_a_token_works_until_it_is_revoked(world: World) -> None:
    made = await world.admin("POST", "/apis/v1/admin/tokens", {"name": "ci", "user": "bob"})
    assert (made.status, made.body["user"], made.body["role"]) == (201, "bob", "user")
    assert made.headers["Cache-Control"] == "no-store"
    bob = Client(world.user.url, world.user.session, made.body["token"])
    assert (await bob("GET", "/apis/v1/queues")).status == 200
    listed = (await world.admin("GET", "/apis/v1/admin/tokens")).body["items"]
    assert [token["name"] for token in listed] == ["admin", "ann-laptop", "ci"]
    assert made.body["token"] not in str(listed)
    assert (await world.admin("DELETE", "/apis/v1/admin/tokens/ci")).status == 204
    assert (await bob("GET", "/apis/v1/queues")).status == 401
    assert made.body["token"] not in str(await world.store.history.list())


@pytest.mark.parametrize(
    ("body", "status", "code", "paths"),
    [
        ({"name": "admin"}, 409, "AlreadyExists", None),
        ({}, 422, "InvalidField", ["name"]),
        ({"name": "Not A Name"}, 422, "InvalidField", ["name"]),
        ({"name": "x", "role": "god"}, 422, "InvalidField", ["role"]),
        ({"name": "x", "role": ["admin"]}, 422, "InvalidField", ["role"]),
        ({"name": "x", "user": "a b"}, 422, "InvalidField", ["user"]),
        ({"name": "x", "rolle": "admin"}, 422, "InvalidField", ["rolle"]),
        ({"name": "x", "role": "manager"}, 422, "InvalidField", ["queues"]),
        ({"name": "x", "role": "admin", "queues": ["a"]}, 422, "InvalidField", ["queues"]),
        ({"name": "x", "groups": "ml"}, 422, "InvalidField", ["groups"]),
        ({"name": "x", "duration": "soon"}, 422, "InvalidField", ["duration"]),
        ({"name": "x", "duration": "9000y"}, 422, "InvalidField", ["duration"]),
        *(
            ({"name": "x", "duration": text}, 422, "InvalidField", ["duration"])
            for text in ("0", "0s", "", "Never", " never", "1h 2m", "9" * 5000 + "d", 0, 3600, True, ["never"])
        ),
    ],
)
async def test_faulty_tokens(
    world: World, body: dict[str, object], status: int, code: str, paths: list[str] | None
) -> None:
    refused = await world.admin("POST", "/apis/v1/admin/tokens", body)
    assert (refused.status, refused.body["code"]) == (status, code)
    if paths:
        assert refused.paths == paths


async def test_a_token_ends_unless_it_says_never(world: World) -> None:
    made = await world.admin("POST", "/apis/v1/admin/tokens", {"name": "usual"})
    days = datetime.fromisoformat(made.body["expiresAt"]) - datetime.fromisoformat(made.body["createdAt"])
    assert 89 <= days.total_seconds() / 86_400 <= 91
    made = await world.admin("POST", "/apis/v1/admin/tokens", {"name": "lasting", "duration": "never"})
    assert made.body["expiresAt"] is None


async def test_a_token_that_ends(world: World) -> None:
    made = await world.admin("POST", "/apis/v1/admin/tokens", {"name": "brief", "duration": "1ms"})
    assert made.body["expiresAt"] is not None
    brief = Client(world.user.url, world.user.session, made.body["token"])
    refused = await brief("GET", "/apis/v1/queues")
    assert (refused.status, "its time is over" in refused.body["detail"]) == (401, True)


async def test_revoking(world: World) -> None:
    last = await world.admin("DELETE", "/apis/v1/admin/tokens/admin")
    assert (last.status, last.body["code"]) == (409, "Conflict")
    assert (await world.admin("DELETE", "/apis/v1/admin/tokens/nobody")).body["code"] == "NotFound"
