"""Whom a token speaks for, and which release answers."""

from datetime import UTC, datetime, timedelta

import pytest

from t9ksched import version
from tests.unit.api.world import Client, World


async def test_a_stranger_learns_the_release_and_nothing_else(world: World) -> None:
    told = await world.nobody("GET", "/version")
    assert (told.status, told.body) == (200, {"version": version()})
    assert (await world.nobody("GET", "/apis/v1/whoami")).status == 401


async def test_a_parameter_that_the_release_does_not_know_is_refused(world: World) -> None:
    refused = await world.nobody("GET", "/version?x=1")
    assert (refused.status, refused.paths) == (422, ["query.x"])


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/docs-assets/swagger-ui.css"])
async def test_a_page_for_machines_takes_any_query(world: World, path: str) -> None:
    """Kubelets, load balancers, Prometheus and browsers put into it what they like."""
    answers = [(await world.user("GET", path + query)).status for query in ("", "?verbose", "?x=1&name=..&_=7")]
    assert answers == [200, 200, 200]


@pytest.mark.parametrize("role", ["admin", "manager", "user", "viewer"])
async def test_whom_a_token_speaks_for(world: World, role: str) -> None:
    until = datetime.now(UTC) + timedelta(days=2) if role == "viewer" else None
    queues = [] if role == "admin" else ["q", "p"]
    secret = await world.store.tokens.create(
        f"of-{role}", role, owner="ann", groups=["nlp", "cv"], queues=queues, expires_at=until
    )
    told = await Client(world.user.url, world.user.session, secret)("GET", "/apis/v1/whoami")
    assert told.status == 200
    assert told.body == {
        "user": "ann",
        "role": role,
        "groups": ["cv", "nlp"],
        "queues": sorted(queues),
        "token": f"of-{role}",
        "expiresAt": f"{until.isoformat()[:19]}Z" if until else None,
        "exec": False,
    }
    odd = await Client(world.user.url, world.user.session, secret)("GET", "/apis/v1/whoami?user=bob")
    assert odd.status == 422
