"""The same table for tokens that are no longer good, or good for some queues; and no route stands beside the table."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from t9ksched.api import auth
from t9ksched.api.routers import trialresults
from t9ksched.store.tokens import digest
from tests.unit.api.test_matrix import JOB, JOBS, PUBLIC, QUEUE, QUEUES, ROLES, TABLE, ask, callers, cells, operations
from tests.unit.api.world import Client, World, pytorch

__all__ = ["callers"]
RULES = {auth.administrator, auth.manager, auth.ruler, auth.actor, auth.authenticate, trialresults.sender}
ASSETS = {"/openapi.json", "/", "/docs", "/docs-assets"}
"""What the documentation page is made of; it tells nothing that the source does not."""


def own(role: str) -> dict[tuple[str, str], str]:
    """The cells of a role for what is its own."""
    return {row: both[0][ROLES.index(role)] for row, both in TABLE.items()}


def asked(dependant: Dependant) -> set[Any]:
    """Everything an endpoint depends on by name, itself left out."""
    found = {dependant.call} if dependant.call else set()
    for inner in dependant.dependencies:
        found |= asked(inner)
    return found


async def test_no_route_stands_beside_the_document(world: World) -> None:
    paths = {path for _, path in operations(world)} | ASSETS
    served = {str(route.path) for route in iter_route_contexts(world.app.routes)}
    assert served - paths == set(), "routes without a row in the table"
    assert set(paths) - served == set(), "what is documented is served"


async def test_every_endpoint_names_its_rule(world: World) -> None:
    """Not only that the user is known, but what the user may do: a parameter of the endpoint itself, not of its
    router."""
    without, seen = [], set()
    for route in iter_route_contexts(world.app.routes):
        if not isinstance(route.original_route, APIRoute) or route.path in {*PUBLIC, "/"}:
            continue
        seen.add(route.path)
        named = {one.call for one in route.dependant.dependencies if one.name is not None}
        if not RULES & named:
            without.append(route.path)
        assert {auth.authenticate, trialresults.sender} & asked(route.dependant), route.path
    assert not without
    assert seen == {path for _, path in TABLE}


BAD_TOKENS = ("none", "unknown", "expired", "revoked", "empty", "endless", "basic", "its hash", "query")


@pytest.mark.parametrize("kind", BAD_TOKENS)
async def test_without_a_good_token_nothing_is_open(world: World, callers: dict[str, Client], kind: str) -> None:
    tokens = world.store.tokens
    ended = await tokens.create("ended", "admin", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    gone = await tokens.create("gone", "admin")
    assert (await Client(world.admin.url, world.admin.session, gone)("GET", QUEUES)).status == 200
    await tokens.revoke("gone")
    header = {
        "none": None,
        "unknown": "Bearer t9k_" + "x" * 43,
        "expired": f"Bearer {ended}",
        "revoked": f"Bearer {gone}",
        "empty": "Bearer ",
        "endless": "Bearer " + "x" * 5000,
        "basic": f"Basic {world.admin.token}",
        "its hash": f"Bearer {digest(str(world.admin.token))}",
        "query": None,
    }[kind]
    headers = {} if header is None else {"Authorization": header}
    wrong = []
    for method, path in operations(world):
        asking = Client(world.admin.url, world.admin.session, None)
        if kind == "query":
            asking = _InQuery(asking.url, asking.session, None, str(world.admin.token))
        answer = await ask(_With(asking, headers), method, path, "own", "of-ann")
        if (answer.status == 401) is (path in PUBLIC):
            wrong.append((method, path, answer.status))
        if answer.status == 401:
            assert answer.body["code"] == "Unauthenticated"
            assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
    assert not wrong
    assert len(await world.store.queues.list()) == 3, "nothing was changed"


class _With(Client):
    """A client that sends these headers."""

    def __init__(self, client: Client, headers: dict[str, str]) -> None:
        self._client, self._headers = client, headers

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return await self._client(method, path, body, **self._headers, **headers)


class _InQuery(Client):
    """A client that puts the token where servers log it."""

    def __init__(self, url: str, session: Any, token: None, secret: str) -> None:
        super().__init__(url, session, token)
        self._secret = secret

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return await super().__call__(
            method, f"{path}?access_token={self._secret}&token={self._secret}", body, **headers
        )


async def client_of(world: World, name: str, role: str, owner: str, **scope: Any) -> Client:
    """A client with a new token."""
    secret = await world.store.tokens.create(name, role, owner, **scope)
    return Client(world.admin.url, world.admin.session, secret)


@pytest.mark.parametrize("role", ["ann", "eye"])
async def test_a_token_limited_to_the_queue_does_what_it_did(
    world: World, callers: dict[str, Client], role: str
) -> None:
    kind = {"ann": "user", "eye": "viewer"}[role]
    narrow = await client_of(world, "narrow", kind, role, queues=["own"])
    assert await cells(narrow, "own", f"of-{role}") == own(role)


@pytest.mark.parametrize("role", ["ann", "eye"])
async def test_a_token_limited_to_another_queue_is_good_for_nothing_here(
    world: World, callers: dict[str, Client], role: str
) -> None:
    """A user who finds it in a script of one team neither sees nor ends what its owner has elsewhere."""
    kind = {"ann": "user", "eye": "viewer"}[role]
    narrow = await client_of(world, "narrow", kind, role, queues=["default"])
    expected = own(role) | {row: "-" for row in TABLE if row[1].startswith(JOB)}
    expected |= {("POST", JOBS): "F", ("POST", f"{JOB}/results"): "?"}
    if role == "eye":
        actions = ("update", "pause", "resume", "scale", "resubmit")  # a viewer is told before anything is looked at
        expected |= {("DELETE", JOB): "F", ("POST", f"{JOB}/exec"): "F"} | {
            ("POST", f"{JOB}/actions/{one}"): "F" for one in actions
        }
    assert await cells(narrow, "own", f"of-{role}") == expected
    assert [one["name"] for one in (await narrow("GET", "/apis/v1/queues")).body["items"]] == ["default"]
    assert (await narrow("GET", JOBS)).body["items"] == []
    if role == "ann":
        refused = await narrow("POST", JOBS, pytorch("x", queue="own"))
        assert (refused.status, refused.body["code"]) == (403, "QueueNotPermitted")
        assert "narrow" in refused.body["detail"]


async def test_a_manager_of_two_queues_rules_both(world: World, callers: dict[str, Client]) -> None:
    both = await client_of(world, "both", "manager", "both", queues=["own", "other"])
    expected = own("boss")
    assert await cells(both, "own", "of-ann") == expected
    assert await cells(both, "other", "of-bob") == expected
    assert [one["name"] for one in (await both("GET", QUEUES)).body["items"]] == ["other", "own"]


async def test_a_group_of_the_token_counts_as_membership(world: World, callers: dict[str, Client]) -> None:
    await world.store.queues.set_members("other", {"groups": ["team"]})
    member = await client_of(world, "member", "user", "zoe", groups=["team"])
    stranger = await client_of(world, "stranger", "user", "zoe", groups=["teams"])
    assert (await member("POST", JOBS, pytorch("a", queue="other"))).status == 201
    assert (await stranger("POST", JOBS, pytorch("b", queue="other"))).body["code"] == "QueueNotPermitted"


async def test_a_token_ends_between_two_requests(world: World, callers: dict[str, Client]) -> None:
    manager = await client_of(world, "brief", "manager", "brief", queues=["own"])
    address = QUEUE.format(name="own")
    assert (await manager("GET", address)).status == 200
    await world.store.tokens.revoke("brief")
    assert (await manager("GET", address)).status == 401
    assert (await manager("POST", f"{address}/actions/close")).status == 401


async def test_what_no_route_serves_is_refused(world: World, callers: dict[str, Client]) -> None:
    """Other verbs of known addresses, and addresses near known ones, do nothing for any user."""
    for method, path in (
        ("POST", QUEUE.format(name="own")),
        ("DELETE", QUEUES),
        ("PATCH", f"{QUEUE.format(name='own')}/members"),
        ("GET", f"{QUEUE.format(name='own')}/actions/close"),
        ("TRACE", QUEUES),
        ("GET", f"{QUEUES}/"),
        ("GET", "/apis/v1/Admin/queues"),
        ("GET", "/apis/v1/../v1/admin/queue"),
        ("GET", "/internal/v1/jobs"),
    ):
        for role in ("admin", "ann", "nobody"):
            assert (await callers[role](method, path)).status in (404, 405), (role, method, path)
