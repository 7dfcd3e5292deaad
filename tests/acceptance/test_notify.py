"""Notifications from outside: `t9ksched notify`, a receiver on this machine, and a service that is killed."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import conftest
from tests.acceptance.conftest import Json, Up, until

NODES = """
nodes:
- name: gpu
  count: 1
  allocatable: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}
"""


class Hook:
    """A receiver on loopback: what came, by path; `status` is what it answers. It can be killed and begin again."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 204
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
                self.send_response(hook.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in list(self.got)]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    yield found
    found.stop()


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Up]]:
    """Starts a service on one data directory, which may send to these networks beyond public ones."""
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODES)
    begun: list[Up] = []

    def start(networks: str = "127.0.0.0/8") -> Up:
        def environment(data_dir: Path | None = None) -> dict[str, str]:
            return usual(data_dir) | {"T9KSCHED_NOTIFY_NETWORKS": networks}

        with monkeypatch.context() as patch:
            patch.setattr(conftest, "environment", environment)
            begun.append(Up(tmp_path / "data", "--nodes", str(nodes)))
        return begun[-1]

    usual = conftest.environment
    yield start
    for up in begun:
        if up.process.poll() is None:
            up.stop()


def job(name: str, code: int = 0) -> Json:
    """A job of one pod that runs for a moment."""
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    marks = {
        f"devcluster.tensorstack.dev/{key}": value for key, value in (("run-seconds", "1"), ("exit-code", str(code)))
    }
    labels = {"scheduler.tensorstack.dev/queue": "default"}
    pod = {"schedulerName": "t9k-scheduler", "restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels, "annotations": marks}, "spec": pod}},
    }


def submit(up: Up, *jobs: Json) -> None:
    for one in jobs:
        status, answer = up.rest("POST", "/apis/v1/workloads", one)
        assert status == 201, answer


def test_a_day_with_notifications(begin: Callable[..., Up], hook: Hook) -> None:
    up = begin()
    made = json.loads(up.must("notify", "add", f"{hook.url}/s3cret", "-o", "json"))
    piped = up.must("notify", "add", "-", "--on", "failed", stdin=f"{hook.url}/t0ken\n")
    assert "is told of jobs of admin: failed" in piped
    assert "t0ken" not in piped
    assert "was told" in up.must("notify", "test", made["id"])
    [(path, headers, body)] = hook.got
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(made["key"].removeprefix("whsec_"))
    mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert (path, headers["webhook-signature"]) == ("/s3cret", f"v1,{mac}")
    assert json.loads(body)["type"] == "test"
    submit(up, job("good"), job("bad", code=3))
    wanted = {("started", "good"), ("ended", "good"), ("failed", "bad")}
    until(lambda: wanted <= {(one["type"], one["name"]) for one in hook.told()}, "what happened")
    until(lambda: [1 for path, _, _ in hook.got if path == "/t0ken"], "the second address")
    assert [json.loads(body)["name"] for path, _, body in hook.got if path == "/t0ken"] == ["bad"]
    listed = up.must("notify", "list")
    assert listed.count("works") == 2
    hook.status = 302
    refused = up.cli("notify", "test", made["id"])
    assert (refused.code, "redirects are not followed" in refused.err) == (1, True)
    assert "failing" in up.must("notify", "list")
    assert up.must("notify", "delete", made["id"]) == f"{made['id']} is told no more\n"
    gone = up.cli("notify", "test", made["id"])
    assert (gone.code, "t9ksched notify list" in gone.err) == (1, True)
    for secret in ("s3cret", "t0ken", made["key"]):
        assert secret not in up.log + listed + refused.out + refused.err
    assert {path for path, _, _ in hook.got} == {"/s3cret", "/t0ken"}


def test_bad_addresses_are_told_by_the_word_that_was_typed(begin: Callable[..., Up], hook: Hook) -> None:
    up = begin(networks="")
    for words, why in (
        ((f"{hook.url}/s3cret",), "URL: its host is in no public network"),
        (("https://169.254.169.254/s3cret",), "URL: its host is in no public network"),
        (("json://s3cret/",), "URL: must begin with one of https, slack, dingtalk"),
        (("mailto:ann@example.org",), "T9KSCHED_NOTIFY_MAIL"),
        (("https://example.org/s3cret", "--on", "budget"), "--on: 'budget' is unknown"),
        (("https://example.org/s3cret", "--queue", "nowhere"), "there is no queue 'nowhere'"),
    ):
        done = up.cli("notify", "add", *words)
        assert (done.code, why in done.err) == (1, True), done.err
        assert "s3cret" not in done.err
    made = json.loads(up.must("notify", "add", hook.url.replace("http://127.0.0.1", "https://localhost"), "-o", "json"))
    refused = up.cli("notify", "test", made["id"])
    assert (refused.code, "in no public network" in refused.err) == (1, True)
    assert hook.got == []


def test_a_service_that_is_killed_tells_all_the_same(begin: Callable[..., Up], hook: Hook) -> None:
    """Killed while the receiver fails, and again while it takes what comes: each is told at least once, with one id."""
    up = begin()
    up.must("notify", "add", f"{hook.url}/hook", "--on", "ended")
    hook.status = 500
    names = [f"j{number}" for number in range(6)]
    submit(up, *(job(name) for name in names[:3]))
    until(lambda: hook.got, "the first attempt")
    done = {"Succeeded"}
    until(lambda: {one["phase"] for one in up.rest("GET", "/apis/v1/workloads")[1]["items"]} == done, "the ends")
    up.kill()
    hook.status = 204
    up = begin()
    submit(up, *(job(name) for name in names[3:]))
    seen = len(hook.got)
    until(lambda: len(hook.got) > seen, "the next attempt")
    up.kill()
    up = begin()
    until(lambda: {one["name"] for one in hook.told()} == set(names), "all of them")
    ids: dict[str, set[str]] = {}
    for one in hook.told():
        ids.setdefault(one["name"], set()).add(one["id"])
    assert all(len(each) == 1 for each in ids.values()), ids
