"""Routes that are made when they are asked for: all of them are found, and the document is the same."""

import inspect
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi import FastAPI, routing
from fastapi.routing import APIRoute
from starlette.types import Message

from t9ksched.api import Services, create_app
from t9ksched.api.meters import ApiMeters
from t9ksched.api.routes import PARTS
from t9ksched.serving.overload import ConcurrencyLimiter

MOST_DATACLASSES = 90
"""How many dataclasses of ours a start may make."""


def paths(app: FastAPI) -> list[tuple[str, frozenset[str]]]:
    return sorted((route.path, frozenset(route.methods or ())) for route in app.routes if isinstance(route, APIRoute))


def module_of(route: APIRoute) -> str:
    return route.endpoint.__module__.rpartition(".")[2]


async def asked(app: FastAPI, path: str, root: str = "") -> int:
    """The status of a GET without a token."""
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": root + path,
        "raw_path": (root + path).encode(),
        "root_path": root,
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    await app(scope, receive, send)
    return statuses[0]


@pytest.fixture
def later() -> FastAPI:
    services = SimpleNamespace(meters=ApiMeters(), limiter=ConcurrencyLimiter(8))
    return create_app(cast(Services, services), at_once=False)


def test_every_route_is_of_a_part_that_serves_its_path(app: FastAPI) -> None:
    routes = [route for route in app.routes if isinstance(route, APIRoute) and module_of(route) != "docs"]
    by_module: dict[str, list[APIRoute]] = {}
    for route in routes:
        by_module.setdefault(module_of(route), []).append(route)
    assert by_module.keys() == {part.module for part in PARTS}
    for module, those in by_module.items():
        for route in those:
            for value in ("x", "actions", "-"):
                path = route.path_format.format_map(dict.fromkeys(route.param_convertors, value))
                assert any(part.serves(path) for part in PARTS if part.module == module)


def test_the_document_is_the_same(app: FastAPI, later: FastAPI) -> None:
    assert len(paths(later)) < len(paths(app))
    assert later.openapi() == app.openapi()
    assert sorted(paths(later)) == sorted(paths(app))


async def test_what_is_asked_for_is_there(later: FastAPI) -> None:
    before = len(paths(later))
    assert await asked(later, "/healthz") == 200
    assert len(paths(later)) == before + 2
    assert await asked(later, "/apis/v1/no-such-thing") == 404
    assert len(paths(later)) == before + 2
    assert await asked(later, "/apis/v1/access-reviews") == 405
    assert len(paths(later)) == before + 3


async def test_no_request_reads_the_source_of_its_endpoint(later: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def lines(of: object) -> tuple[list[str], int]:
        read.append(of)
        return [], 1

    monkeypatch.setattr(routing, "_endpoint_context_cache", {})
    monkeypatch.setattr(inspect, "getsourcelines", lines)
    assert await asked(later, "/healthz") == 200
    assert read == []


async def test_behind_a_proxy_with_a_path_of_its_own_too(later: FastAPI) -> None:
    assert await asked(later, "/healthz", root="/t9ksched") == 200


def test_what_the_first_answers_do_not_need_is_not_loaded() -> None:
    program = (
        "import sys, t9ksched.cli.runtime\n"
        "made = [value for name, module in list(sys.modules.items()) if name.startswith('t9ksched')\n"
        "    for value in vars(module).values() if '__dataclass_fields__' in getattr(value, '__dict__', ())]\n"
        "print(len({value for value in made if isinstance(value, type) and value.__module__.startswith('t9ksched')}))\n"
        "from fastapi import FastAPI\n"
        "from t9ksched.api.routes import Routes\n"
        "print(sorted(name for name in sys.modules if name.startswith('t9ksched.api.schemas.')))\n"
        "print('t9ksched.devcluster.local.kubelet' in sys.modules)\n"
        "Routes(FastAPI()).make()\n"
        "print(any(name.startswith('pydantic.v1') for name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    dataclasses, *loaded = done.stdout.splitlines()
    # A Struct is made in a fiftieth of the half millisecond that a dataclass takes.
    assert int(dataclasses) <= MOST_DATACLASSES
    assert loaded == ["['t9ksched.api.schemas.base']", "False", "False"]
