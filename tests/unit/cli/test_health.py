"""What a kubelet is told about a process that leads or waits to, and the time limit of a leader's writes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from t9ksched.api.http.server import PortInUse
from t9ksched.cli import roles
from t9ksched.cli.health import probed
from t9ksched.model.leadership import Timing
from t9ksched.scheduler.report.families import OPENMETRICS, TEXT
from t9ksched.scheduler.report.metrics import standby
from t9ksched.settings import Settings


async def answers(url: str) -> tuple[int, int]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/healthz") as alive,
        session.get(f"{url}/readyz") as ready,
    ):
        return alive.status, ready.status


async def test_alive_is_not_yet_ready() -> None:
    state = SimpleNamespace(ready=False)
    async with probed("127.0.0.1", 0, lambda: state.ready) as url:
        assert url is not None
        assert await answers(url) == (200, 503)
        state.ready = True
        assert await answers(url) == (200, 200)
    with pytest.raises(aiohttp.ClientConnectionError):
        await answers(url)


async def test_without_a_port_no_server_listens() -> None:
    async with probed("127.0.0.1", None, lambda: True) as url:
        assert url is None


async def test_a_port_that_is_taken_is_told() -> None:
    async with probed("127.0.0.1", 0, lambda: True) as url:
        assert url is not None
        with pytest.raises(PortInUse, match="in use"):
            async with probed("127.0.0.1", int(url.rpartition(":")[2]), lambda: True):
                pass


class Enough(Exception):
    """The client is made."""


@pytest.mark.parametrize("role", [roles.scheduler, roles.controller])
async def test_a_leaders_writes_end_before_its_lease(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: Any
) -> None:
    given: dict[str, Any] = {}

    def connect(_: Path | None, **options: Any) -> None:
        given.update(options)
        raise Enough

    async def opened(_: str, **options: Any) -> Any:
        assert options == {"timing": Timing()}
        return NoStore()

    class NoStore:
        async def __aenter__(self) -> None: ...
        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr(roles, "connect", connect)
    monkeypatch.setattr(roles.Store, "open", opened)
    with pytest.raises(Enough):
        await role(Settings.load(db="postgresql://nowhere/x", internal_secret="s" * 16))
    timing = Timing()
    assert given["write_timeout"] == timing.write_seconds < timing.duration - timing.renew_deadline


async def test_the_metrics_page_is_served_where_there_is_one() -> None:
    async def page(openmetrics: bool) -> bytes:
        return standby(openmetrics)

    async with probed("127.0.0.1", 0, lambda: True, page) as url, aiohttp.ClientSession() as session:
        for accept, kind in (("text/plain", TEXT), ("application/openmetrics-text; version=1.0.0", OPENMETRICS)):
            async with session.get(f"{url}/metrics", headers={"Accept": accept}) as answer:
                assert answer.headers["Content-Type"] == kind
                assert "t9ksched_leading 0" in await answer.text()
    async with (
        probed("127.0.0.1", 0, lambda: True) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics") as answer,
    ):
        assert answer.status == 404
