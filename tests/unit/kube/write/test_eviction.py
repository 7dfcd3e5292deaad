from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.kube.errors import ApiError, Conflict, Forbidden, NotFound, ServerError, TimedOut, TooManyRequests
from t9ksched.kube.resources import PODS
from t9ksched.kube.write.eviction import AlreadyGone, Evicted, NotEvicted, Result, TryLater, Victim, evict
from tests.unit.kube.memory import MemoryPort

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VICTIM = Victim("ns", "p", "u1")
OTHER = {"type": "Ready", "status": "True"}


def port_with(uid: str = "u1", **metadata: Any) -> MemoryPort:
    port = MemoryPort()
    status = {"phase": "Running", "conditions": [OTHER]}
    port.put(PODS, {"metadata": {"name": "p", "namespace": "ns", "uid": uid} | metadata, "status": status})
    return port


async def test_the_pod_is_marked_and_then_deleted() -> None:
    port = port_with()
    port.fail["delete"] = [TooManyRequests(429, retry_after=4.0)]
    assert await evict(port, VICTIM, message="for job big", now=NOW, grace=5) == TryLater(4.0, "429")  # type: ignore[arg-type]
    assert port.one(PODS, "p", "ns")["status"]["conditions"] == [
        OTHER,
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "for job big",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        },
    ]
    assert await evict(port, VICTIM, message="again", now=NOW) == Evicted()  # type: ignore[arg-type]
    assert port.calls == ["get", "patch", "delete", "get", "delete"], "it is marked once"
    assert not port.objects


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        ({"get": [NotFound(404)]}, AlreadyGone()),
        ({"patch": [NotFound(404)]}, AlreadyGone()),
        ({"delete": [NotFound(404)]}, AlreadyGone()),
        ({"delete": [Conflict(409)]}, AlreadyGone()),
        ({"patch": [Conflict(409), None]}, Evicted()),
        ({"patch": [Conflict(409)] * 3}, Evicted()),
        ({"patch": [Forbidden(403)]}, Evicted()),
        ({"delete": [Forbidden(403, "Forbidden", "no")]}, NotEvicted(403, "403 Forbidden: no")),
        ({"delete": [TimedOut("silence")]}, TryLater(None, "TimedOut: silence")),
        ({"get": [ServerError(503, retry_after=1.0)]}, TryLater(1.0, "503")),
    ],
)
async def test_each_answer_has_its_result(fail: dict[str, list[ApiError | None]], expected: Result) -> None:
    port = port_with()
    port.fail = fail
    assert await evict(port, VICTIM, message="m", now=NOW) == expected  # type: ignore[arg-type]


async def test_a_successor_of_the_name_is_never_hit() -> None:
    port = port_with(uid="u2")
    assert await evict(port, VICTIM, message="m", now=NOW) == AlreadyGone()  # type: ignore[arg-type]
    assert port.calls == ["get"]
