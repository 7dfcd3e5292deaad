"""A service that answers what a test tells it to, over real HTTP on loopback."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from t9ksched.cli.main import main


@dataclass
class Service:
    """`answers` maps `METHOD /path` to (status, body); `seen` is every request as (method, path, headers, body)."""

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def service() -> Iterator[Service]:
    told = Service()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            missing = (404, {"code": "NotFound", "detail": f"nothing at {self.path}"})
            status, answer = told.answers.get(f"{self.command} {self.path.partition('?')[0]}", missing)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"7"')
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


Call = Callable[..., tuple[int, str, str]]
"""Runs a command with these arguments against the service; its exit code and what it wrote to stdout and stderr."""


@pytest.fixture
def call(service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["t9ksched", *arguments, "--server", service.url, "--token", "t"])
        code = 0
        try:
            main()
        except SystemExit as exit:
            code = int(exit.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command
