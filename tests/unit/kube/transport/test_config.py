"""Kubeconfigs, good and bad: a good one gives access, a bad one an error with file and field."""

from __future__ import annotations

import copy
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.kube.resources import NODES
from t9ksched.kube.transport import config
from t9ksched.kube.transport.config import ConfigError, connect, credentials, load_file, load_pod
from tests.unit.kube.scripted import ScriptedApi

GOOD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
}


def write(tmp_path: Path, change: Any = None) -> Path:
    document = copy.deepcopy(GOOD)
    if change is not None:
        change(document)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def user(body: Any) -> Any:
    def change(document: dict[str, Any]) -> None:
        document["users"][0]["user"] = body

    return change


def cluster(**body: Any) -> Any:
    def change(document: dict[str, Any]) -> None:
        document["clusters"][0]["cluster"] |= body

    return change


async def test_a_token(tmp_path: Path) -> None:
    access = await load_file(str(write(tmp_path)))
    assert (access.host, access.authorization, access.fresh_for) == ("http://127.0.0.1:1", "Bearer secret", None)


@pytest.mark.parametrize("body", [{"token": "secret"}, {"token": " padded\n"}, {"token": ""}, {}])
@pytest.mark.parametrize("server", ["http://127.0.0.1:1/", "https://host:6443", "http://h/some/path"])
async def test_an_address_and_a_token_are_read_as_the_loader_reads_them(
    tmp_path: Path, monkeypatch: Any, body: dict[str, str], server: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["clusters"][0]["cluster"]["server"] = server
        document["users"][0]["user"] = body

    path = str(write(tmp_path, change))
    plain = config._plain(*config.check(path))
    assert plain == await load_file(path)
    monkeypatch.setattr(config, "_plain", lambda *_: None)
    assert await load_file(path) == plain


async def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    path = write(tmp_path, user({"tokenFile": str(token)}))
    access = await load_file(str(path))
    assert (access.authorization, access.fresh_for) == ("Bearer one", 60.0)
    token.write_text("two")
    assert (await load_file(str(path))).authorization == "Bearer two"


async def test_a_user_may_be_empty(tmp_path: Path) -> None:
    assert (await load_file(str(write(tmp_path, user({}))))).authorization is None


async def test_name_and_password(tmp_path: Path) -> None:
    access = await load_file(str(write(tmp_path, user({"username": "a", "password": "b"}))))
    assert access.authorization == "Basic YTpi"


async def test_tls_settings(tmp_path: Path) -> None:
    settings = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True, "tls-server-name": "api"}
    access = await load_file(str(write(tmp_path, cluster(**settings))))
    assert (access.verify, access.server_name) == (False, "api")


def plugin(tmp_path: Path, script: str) -> dict[str, Any]:
    path = tmp_path / "plugin.py"
    path.write_text(script)
    return {"exec": {"command": sys.executable, "args": [str(path)], "apiVersion": "client.authentication.k8s.io/v1"}}


def credential(**status: str) -> str:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"import json; print(json.dumps({answer!r}))"


async def test_an_exec_plugin_gives_a_token_for_its_time(tmp_path: Path) -> None:
    end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = write(tmp_path, user(plugin(tmp_path, credential(token="fresh", expirationTimestamp=end))))
    access = await load_file(str(path))
    assert access.authorization == "Bearer fresh"
    assert access.fresh_for is not None
    assert 3400 < access.fresh_for < 3600


@pytest.mark.parametrize("script", ["raise SystemExit(3)", "print('no json')", credential(other="x")])
async def test_an_exec_plugin_that_fails_is_named(tmp_path: Path, script: str) -> None:
    with pytest.raises(ConfigError, match=r"exec.*plugin\.py"):
        await load_file(str(write(tmp_path, user(plugin(tmp_path, script)))))


def drop(*keys: Any) -> Any:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        del document[keys[-1]]

    return change


def put(value: Any, *keys: Any) -> Any:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (drop("current-context"), "current-context"),
        (put("there", "current-context"), "current-context"),
        (put("text", "contexts"), "contexts"),
        (drop("contexts", 0, "name"), "contexts[0].name"),
        (drop("contexts", 0, "context"), "contexts[name=here].context"),
        (drop("contexts", 0, "context", "cluster"), "contexts[name=here].context.cluster"),
        (put("nobody", "contexts", 0, "context", "user"), "contexts[name=here].context.user"),
        (drop("clusters"), "contexts[name=here].context.cluster"),
        (drop("clusters", 0, "cluster", "server"), "clusters[name=c].cluster.server"),
        (put("host:1", "clusters", 0, "cluster", "server"), "clusters[name=c].cluster.server"),
        (
            cluster(**{"certificate-authority-data": "%%%"}),
            "clusters[name=c].cluster.certificate-authority-data",
        ),
        (
            cluster(**{"certificate-authority": "/nowhere/ca"}),
            "clusters[name=c].cluster.certificate-authority",
        ),
        (user({"tokenFile": "/nowhere/token"}), "users[name=u].user.tokenFile"),
        (user(None), "users[name=u].user"),
        (user({"exec": {"command": "x"}}), "users[name=u].user.exec.apiVersion"),
        (user({"exec": "x"}), "users[name=u].user.exec.command"),
        (
            lambda document: (
                drop("contexts", 0, "context", "user")(document),
                cluster(server="https://x")(document),
            ),
            "contexts[name=here].context.user",
        ),
    ],
)
async def test_a_fault_is_named_with_file_and_field(tmp_path: Path, change: Any, field: str) -> None:
    path = write(tmp_path, change)
    with pytest.raises(ConfigError) as caught:
        await load_file(str(path))
    assert caught.value.field == field
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("text", "words"), [("a: [", "not YAML"), ("just text", "not a kubeconfig"), ("", "not a")])
async def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        await load_file(str(path))


async def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    path = write(tmp_path, cluster(**{"server": "https://x", "certificate-authority-data": "bm9uZQ=="}))
    with pytest.raises(ConfigError, match="certificate"):
        await load_file(str(path))


async def test_a_missing_file_is_named_on_opening(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        async with connect(tmp_path / "nothing"):
            pass


async def test_without_a_path_the_usual_place_and_then_the_pod(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path)))
    found = credentials()
    await found.open()
    assert found.access.authorization == "Bearer secret"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="--kubeconfig"):
        await credentials().open()


async def test_two_files_are_merged(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = write(tmp_path / "a", lambda document: document.pop("users"))
    second = write(tmp_path / "b", lambda document: [document.pop(key) for key in ("clusters", "contexts")])
    access = await load_file(f"{first}:{second}")
    assert access.authorization == "Bearer secret"


async def test_a_service_account(tmp_path: Path, monkeypatch: Any) -> None:
    from kubernetes.aio.config import incluster_config

    for name, content in (("TOKEN", "pod-token\n"), ("CERT", "ca")):
        file = tmp_path / name
        file.write_text(content)
        monkeypatch.setattr(incluster_config, f"SERVICE_{name}_FILENAME", str(file))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = load_pod()
    assert (access.host, access.authorization) == ("https://[fd00::1]:443", "bearer pod-token")
    assert (access.ca_file, access.fresh_for) == (str(tmp_path / "CERT"), 60.0)


async def test_connect_speaks_to_the_server_it_names(tmp_path: Path, api: ScriptedApi) -> None:
    api.then(200, {"kind": "Node"})
    async with connect(write(tmp_path, cluster(server=api.url))) as client:
        await client.get(NODES, "n")
        assert client.server == api.url
    assert api.seen[0].headers["Authorization"] == "Bearer secret"
