"""The dev cluster answers as a real kube-apiserver did, recorded conversation by recorded conversation.

None is left out. Scenarios that were recorded without controllers play against a cluster without them. Texts of
refusals are compared too, but for those of the scenarios in `OTHER_WORDS`.
"""

import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from t9ksched.devcluster.apiserver.auth import User
from t9ksched.devcluster.cluster import DevCluster
from tests.integration.replay import Player

FOLDER = Path(__file__).parent / "transcripts"
SCENARIOS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
OTHER_WORDS = {
    "bad-body": "the words of another JSON decoder",
    "crd-status": "a path in a status begins at the object",
    "dry-run-validation": "the patch as JSON, not as Go prints a map",
    "invalid-422": "a body of another kind: no conversion is told",
    "job-lifecycle": "the template as it is in the API, not as it is inside the server",
    "paging": "the words of another JSON decoder",
    "patch-merge": "the patch as JSON, and no names of Go types",
    "pod-gated-update": "without the difference of the two specs",
    "pod-immutable-422": "without the difference of the two specs",
    "pod-resources-422": "the quantity's path is told too",
    "secret-lifecycle": "without the byte at which base64 ends",
}
"""Scenarios in which a message differs on purpose, and how."""

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]


async def _player(*, controllers: bool) -> AsyncIterator[Player]:
    nobody = secrets.token_hex(8)
    cluster = DevCluster(None, [], users={nobody: User("nobody")}, controllers=controllers)
    await cluster.start()
    cluster.frontend.requests.version_wait = 0.1

    async def compact() -> None:
        cluster.api.storage.compact()

    tokens = {"admin": cluster.token, "bad": "not-a-token", "nobody": nobody}
    async with aiohttp.ClientSession() as http:
        yield Player(http, cluster.url, tokens, compact)
    await cluster.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain() -> AsyncIterator[Player]:
    async for player in _player(controllers=False):
        yield player


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def collecting() -> AsyncIterator[Player]:
    async for player in _player(controllers=True):
        yield player


@pytest.mark.parametrize("name", SCENARIOS)
async def test_scenario(name: str, plain: Player, collecting: Player) -> None:
    scenario = SCENARIOS[name]
    player = collecting if "gc" in scenario.get("needs", ()) else plain
    messages = name not in OTHER_WORDS
    assert await player.play(scenario, f"t-{secrets.token_hex(4)}", messages=messages) == []
