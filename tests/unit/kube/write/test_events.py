from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from t9ksched.kube.errors import Forbidden, NotFound
from t9ksched.kube.resources import EVENTS
from t9ksched.kube.write.clock import Clock as Time
from t9ksched.kube.write.events import EventRecorder, Regarding
from tests.unit.kube.memory import MemoryPort

JOB = {
    "apiVersion": "batch.tensorstack.dev/v1beta1",
    "kind": "MPIJob",
    "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
}


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


def recorder(port: MemoryPort, **options: Any) -> tuple[EventRecorder, Clock]:
    clock = Clock()
    made = EventRecorder(port, "t9k-scheduler", clock=Time(clock, clock.now, clock.sleep), **options)  # type: ignore[arg-type]
    return made, clock


def written(port: MemoryPort) -> list[dict[str, Any]]:
    return [obj for (res, _, _), obj in port.objects.items() if res == str(EVENTS)]


async def test_an_event_says_its_object_reason_and_time() -> None:
    port = MemoryPort()
    events, _ = recorder(port)
    events.record(JOB, "Waiting", "0/4 nodes fit", type="Warning")
    await events.flush()
    (event,) = written(port)
    assert event["metadata"]["namespace"] == "ns"
    assert event["involvedObject"] == {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "name": "j",
        "namespace": "ns",
        "uid": "u",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Waiting", "0/4 nodes fit")
    assert (event["firstTimestamp"], event["count"]) == ("2026-01-01T00:00:00Z", 1)
    assert event["source"] == {"component": "t9k-scheduler"}


async def test_the_same_words_count_up_before_and_after_writing() -> None:
    port = MemoryPort()
    events, clock = recorder(port)
    for _ in range(3):
        events.record(JOB, "Waiting", "same")
    events.record(JOB, "Waiting", "other")
    await events.flush()
    clock.seconds = 60
    events.record(JOB, "Waiting", "same")
    await events.flush()
    found = {event["message"]: event for event in written(port)}
    assert {message: event["count"] for message, event in found.items()} == {"same": 4, "other": 1}
    assert found["same"]["lastTimestamp"] == "2026-01-01T00:01:00Z"
    assert found["same"]["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert port.calls == ["create", "create", "patch"]


async def test_an_event_that_had_its_time_is_written_anew() -> None:
    port = MemoryPort()
    events, _ = recorder(port)
    events.record(JOB, "Waiting", "same")
    await events.flush()
    port.fail["patch"] = [NotFound(404)]
    events.record(JOB, "Waiting", "same")
    await events.flush()
    assert port.calls == ["create", "patch", "create"]
    assert events.dropped == 0


async def test_writing_keeps_to_its_rate() -> None:
    port = MemoryPort()
    events, clock = recorder(port, rate=10.0, burst=5)
    for number in range(25):
        events.record(JOB, "Waiting", str(number))
    await events.flush()
    assert len(written(port)) == 25
    assert abs(clock.seconds - 2.0) < 1e-6


async def test_what_waits_is_written_a_second_at_a_time_and_no_later_than_that() -> None:
    port = MemoryPort()
    events, clock = recorder(port, rate=4.0, burst=20)
    for number in range(31):
        events.record(JOB, "Waiting", str(number))
    await events.flush()
    assert len(written(port)) == 31
    assert clock.slept == [1.0, 1.0, 0.75]
    events.record(JOB, "Waiting", "alone")
    await events.flush()
    assert clock.slept == [1.0, 1.0, 0.75, 0.25]


async def test_what_does_not_fit_or_is_refused_is_dropped_and_counted() -> None:
    port = MemoryPort()
    events, _ = recorder(port, waiting=2)
    for number in range(5):
        events.record(JOB, "Waiting", str(number))
    assert events.dropped == 3
    port.fail["create"] = [Forbidden(403)]
    await events.flush()
    assert events.dropped == 4
    assert len(written(port)) == 1


async def test_long_words_are_cut_and_cluster_wide_objects_use_default() -> None:
    port = MemoryPort()
    events, _ = recorder(port)
    events.record(Regarding("v1", "Node", "", "n" * 253), "CardDrift", "x" * 5000)
    await events.flush()
    (event,) = written(port)
    assert len(event["message"]) == 1024
    assert event["metadata"]["namespace"] == "default"
    assert len(event["metadata"]["name"]) == 253
