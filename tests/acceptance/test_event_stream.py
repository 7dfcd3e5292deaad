"""Events from outside: a program that follows a service over its stop and its next start misses nothing, and gets
nothing twice, on both databases.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.conftest import EXAMPLES, TIMEOUT_SECONDS, Json, Up, queue, until

NODE = "/api/v1/nodes/a100-0"


@contextmanager
def stream(up: Up, path: str, last: int | None = None) -> Iterator[HTTPResponse]:
    """The answer that brings the events, read to its `ready`."""
    connection = HTTPConnection(urlsplit(up.server).netloc, timeout=TIMEOUT_SECONDS)
    headers = {"Authorization": f"Bearer {up.token}"} | ({} if last is None else {"Last-Event-ID": str(last)})
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    try:
        assert (answer.status, answer.getheader("Content-Type")) == (200, "text/event-stream; charset=utf-8")
        assert next(events(answer))[0] == "ready"
        yield answer
    finally:
        answer.close()
        connection.close()


def events(answer: HTTPResponse) -> Iterator[tuple[str, Json]]:
    """The type of each event ("" if it has none) and its data, until the stream ends."""
    kind = ""
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)
        elif not name:
            kind = ""


def upto(answer: HTTPResponse, name: str, type_: str) -> list[Json]:
    """The events until the first of that type about that name."""
    found: list[Json] = []
    for _, event in events(answer):
        found.append(event)
        if (event["name"], event["type"]) == (name, type_):
            return found
    raise AssertionError(f"the stream ended: {found}")


def cordon(up: Up) -> bool:
    """Whether the node could be cordoned."""
    node = up.kube("GET", NODE)[1]
    node["spec"]["unschedulable"] = True
    return up.kube("PUT", NODE, node)[0] == 200


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Options of `up` for each database."""
    return () if request.param == "sqlite" else ("--db", request.getfixturevalue("postgres"))


def test_events_over_a_restart(tmp_path: Path, database: tuple[str, ...]) -> None:
    first = Up(tmp_path / "data", *database)
    try:
        with stream(first, "/apis/v1/events?after=0") as answer:
            assert first.rest("POST", "/apis/v1/admin/queues", queue("a100", 32, "NVIDIA-A100-PCIE-80GB"))[0] == 201
            first.must("submit", "-f", str(EXAMPLES / "pytorch.yaml"))
            seen = upto(answer, "resnet", "started")
            with stream(first, "/apis/v1/nodes?watch=true") as nodes:
                assert until(lambda: cordon(first), "an update without a concurrent one")
                assert [one["type"] for one in upto(nodes, "a100-0", "node-cordoned")] == ["node-cordoned"]
            seen += upto(answer, "a100-0", "node-cordoned")
            # The service waits for nobody who listens, and says so.
            first.process.terminate()
            rest = list(events(answer))
            first.process.wait(TIMEOUT_SECONDS)
            assert (rest[-1][0], rest[-1][1]["code"]) == ("end", "Unavailable")
            seen += [event for kind, event in rest if kind != "end"]
    finally:
        assert first.stop() == 0
    assert ("queue-created", "a100") in [(one["type"], one["name"]) for one in seen]
    assert "submitted" in [one["type"] for one in seen if one["name"] == "resnet"]

    second = Up(tmp_path / "data", *database)
    try:
        with stream(second, "/apis/v1/events", seen[-1]["id"]) as answer:
            second.must("cancel", "pj/resnet", "--yes")
            seen += upto(answer, "resnet", "deleted")
        with stream(second, "/apis/v1/events?after=0") as again:
            assert upto(again, "resnet", "deleted") == seen
        with stream(second, "/apis/v1/workloads?watch=true&after=0&queue=a100") as jobs:
            of_jobs = upto(jobs, "resnet", "deleted")
            assert of_jobs == [one for one in seen if one["about"] == "job" and one["queue"] == "a100"]
    finally:
        assert second.stop() == 0
    ids = [one["id"] for one in seen]
    assert ids == sorted(set(ids))
