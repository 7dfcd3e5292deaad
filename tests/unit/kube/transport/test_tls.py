"""Certificates and tokens that change while we run, over real TLS on loopback."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from t9ksched.kube.errors import Unauthorized, Unreachable
from t9ksched.kube.port import expiries_of
from t9ksched.kube.resources import NODES, PODS
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import credentials
from t9ksched.kube.transport.credentials import Access, Credentials, _expiries
from t9ksched.kube.write.leader_guard import LeaderGuard
from t9ksched.scheduler.report.metrics import MetricsPage, Sources
from t9ksched.scheduler.state.state import ClusterState
from tests import promql
from tests.unit.kube.authority import Authority

RULES = Path(__file__).parents[4] / "deploy/monitoring/rules.yaml"


class Secure:
    """An API server that says who its clients are, by certificate and by token, and refuses those in `refused`."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.asked = 0
        self._runner: web.ServerRunner | None = None
        self.port = 0

    async def start(self, tls: ssl.SSLContext) -> None:
        await self.stop()
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        self.asked += 1
        certificate = request.transport.get_extra_info("peercert") or {}
        names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
        who = {"certificate": names[0] if names else "", "token": request.headers.get("Authorization", "")}
        if self.refused & set(who.values()):
            return web.json_response({}, status=401)
        if "watch" not in request.query:
            return web.json_response(who)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(3):
            await response.write(json.dumps({"type": "ADDED", "object": who}).encode() + b"\n")
        return response


@pytest.fixture
async def server() -> AsyncIterator[Secure]:
    secure = Secure()
    yield secure
    await secure.stop()


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("trusted"), "trusted")


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("another"), "another")


class Place:
    """A kubeconfig with files beside it, and a clock for its credentials."""

    def __init__(self, folder: Path, url: str, authority: Authority, user: dict[str, Any]) -> None:
        self.folder = folder
        self.now = 0.0
        self.write("ca.crt", authority.cert.read_text())
        cluster = {"server": url, "certificate-authority": str(folder / "ca.crt")}
        document = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }
        self.write("config", yaml.safe_dump(document))

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def credentials(self) -> Credentials:
        found = credentials(self.folder / "config")
        found._clock = lambda: self.now
        return found


async def who(client: Client) -> dict[str, Any]:
    return await client.get(NODES, "n")


async def test_a_rotated_client_certificate_is_used_for_new_connections(
    server: Secure, trusted: Authority, tmp_path: Path
) -> None:
    await server.start(trusted.server(trusted))
    user = {"client-certificate": str(tmp_path / "client.crt"), "client-key": str(tmp_path / "client.key")}
    place = Place(tmp_path, server.url, trusted, user)
    (first, first_key), (second, second_key) = trusted.issue("first"), trusted.issue("second")
    place.write("client.crt", first)
    place.write("client.key", first_key)
    async with Client(place.credentials()) as client:
        assert (await who(client))["certificate"] == "first"
        async with aclosing(client.watch(PODS, resource_version="1")) as events:
            assert (await anext(events)).object["certificate"] == "first"
            place.write("client.crt", second)
            place.now = 61.0
            assert (await who(client))["certificate"] == "first", "certificate and key do not belong together yet"
            place.write("client.key", second_key)
            place.now = 80.0
            assert (await who(client))["certificate"] == "second"
            assert (await anext(events)).object["certificate"] == "first", "what was under way goes on"
        async with aclosing(client.watch(PODS, resource_version="1")) as events:
            assert (await anext(events)).object["certificate"] == "second"


async def test_an_authority_without_the_extensions_that_newer_pythons_ask_for_is_trusted(
    server: Secure, trusted: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever Python runs this: contexts are made as by 3.13."""
    made = ssl.create_default_context

    def strict(**given: Any) -> ssl.SSLContext:
        context = made(**given)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    await server.start(trusted.server())
    place = Place(tmp_path, server.url, trusted, {"token": "t"})
    with monkeypatch.context() as patch:
        patch.setattr(ssl, "create_default_context", strict)
        found = place.credentials()
    async with Client(found) as client:
        assert (await who(client))["token"] == "Bearer t"


async def near_end(ends: Mapping[str, int], now: float) -> set[str]:
    """The certificates about which the alert is, at that time, on the page that tells when they end."""
    groups = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    rules = {rule.get("alert"): rule["expr"] for group in groups for rule in group["rules"]}
    page = await MetricsPage(ClusterState(), Sources(expiries=lambda: ends)).exposition(False)
    database = promql.Database()
    database.scrape(page.decode(), now)
    return {one.get("certificate") for one in promql.evaluate(rules["T9kschedCertificateNearEnd"], now, database)}


async def test_it_is_known_when_certificates_end(
    server: Secure, trusted: Authority, another: Authority, tmp_path: Path
) -> None:
    await server.start(trusted.server(trusted))
    user = {"client-certificate": str(tmp_path / "client.crt"), "client-key": str(tmp_path / "client.key")}
    place = Place(tmp_path, server.url, trusted, user)
    for name, text in zip(("client.crt", "client.key"), trusted.issue("first"), strict=True):
        place.write(name, text)
    async with Client(place.credentials()) as client:
        await who(client)
        ends = expiries_of(LeaderGuard(client, lambda: True))
        assert ends.keys() == {"client", "authority"}
        now = datetime.now(UTC).timestamp()
        assert {round((end - now) / 86400) for end in ends.values()} == {2}
        assert await near_end(ends, now) == {"client", "authority"}
        assert await near_end(ends, now - 30 * 86400) == set()
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert dict(_expiries(Access(server.url, ca_file=str(tmp_path / "ca.crt")))) == {}
    assert dict(_expiries(Access("http://127.0.0.1"))) == {}


async def test_a_certificate_that_is_refused_is_read_again_at_once(
    server: Secure, trusted: Authority, tmp_path: Path
) -> None:
    await server.start(trusted.server(trusted))
    user = {"client-certificate": str(tmp_path / "client.crt"), "client-key": str(tmp_path / "client.key")}
    place = Place(tmp_path, server.url, trusted, user)
    for name, text in zip(("client.crt", "client.key"), trusted.issue("first"), strict=True):
        place.write(name, text)
    async with Client(place.credentials()) as client:
        assert (await who(client))["certificate"] == "first"
        for name, text in zip(("client.crt", "client.key"), trusted.issue("second"), strict=True):
            place.write(name, text)
        server.refused = {"first"}
        assert (await who(client))["certificate"] == "second"


async def test_a_rotated_authority_is_trusted_and_the_old_one_no_more(
    server: Secure, trusted: Authority, another: Authority, tmp_path: Path
) -> None:
    await server.start(trusted.server())
    place = Place(tmp_path, server.url, trusted, {"token": "t"})
    async with Client(place.credentials()) as client:
        await who(client)
        await server.start(another.server())
        with pytest.raises(Unreachable):
            await who(client)
        place.write("ca.crt", another.cert.read_text())
        place.now = 61.0
        assert (await who(client))["token"] == "Bearer t"
        await server.start(trusted.server())
        with pytest.raises(Unreachable):
            await who(client)


PLUGIN = """
import json, pathlib
folder = pathlib.Path(__file__).parent
runs = folder / "runs"
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print((folder / "credential.json").read_text())
"""


def plugin(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    api_version = "client.authentication.k8s.io/v1"
    command = {"command": sys.executable, "args": [str(tmp_path / "plugin.py")], "apiVersion": api_version}
    return {"exec": command | {"interactiveMode": "Never"}}


def credential(tmp_path: Path, **status: str) -> None:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (tmp_path / "credential.json").write_text(json.dumps(answer))


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


def expiry(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("certificates", [True, False])
async def test_a_plugin_is_asked_again_before_what_it_gave_ends(
    server: Secure, trusted: Authority, tmp_path: Path, certificates: bool
) -> None:
    await server.start(trusted.server(trusted))
    place = Place(tmp_path, server.url, trusted, plugin(tmp_path))

    def give(name: str, seconds: float) -> None:
        status = {"token": name}
        if certificates:
            status = dict(zip(("clientCertificateData", "clientKeyData"), trusted.issue(name), strict=True))
        credential(tmp_path, expirationTimestamp=expiry(seconds), **status)

    def shown(name: str) -> dict[str, str]:
        return {"certificate": name, "token": ""} if certificates else {"certificate": "", "token": f"Bearer {name}"}

    give("first", 3600)
    async with Client(place.credentials()) as client:
        assert await who(client) == shown("first")
        give("second", 7200)
        place.now = 200.0 if certificates else 3000.0
        assert await who(client) == shown("first")
        place.now = 301.0 if certificates else 3590.0
        assert await who(client) == shown("second")
    assert runs(tmp_path) == 2


async def test_a_token_that_stays_refused_is_asked_for_once_and_then_left_alone(
    server: Secure, trusted: Authority, tmp_path: Path
) -> None:
    await server.start(trusted.server())
    place = Place(tmp_path, server.url, trusted, plugin(tmp_path))
    credential(tmp_path, token="expired")
    server.refused = {"Bearer expired"}
    async with Client(place.credentials()) as client:
        for _ in range(5):
            with pytest.raises(Unauthorized):
                await who(client)
        assert runs(tmp_path) == 2
        credential(tmp_path, token="renewed")
        place.now = 11.0
        assert (await who(client))["token"] == "Bearer renewed"
    assert runs(tmp_path) == 3


async def test_a_pods_token_is_read_again(
    server: Secure, trusted: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.aio.config import incluster_config

    await server.start(trusted.server())
    (tmp_path / "token").write_text("one")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(trusted.cert))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    now = 0.0
    found = credentials()
    found._clock = lambda: now
    async with Client(found) as client:
        assert (await who(client))["token"].endswith("one")
        (tmp_path / "token").write_text("two")
        assert (await who(client))["token"].endswith("one")
        now = 61.0
        assert (await who(client))["token"].endswith("two")
