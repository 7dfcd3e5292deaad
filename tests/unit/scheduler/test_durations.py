"""When a pod's time in its queue is over: counted from its start or its creation, for whom not at all."""

import pytest

from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import parse_queue_spec
from t9ksched.scheduler.durations import deadline
from t9ksched.scheduler.records import PodRecord

SECOND = 1_000_000_000
CREATED, STARTED = 100 * SECOND, 500 * SECOND


@pytest.mark.parametrize(
    ("spec", "started", "end"),
    [
        ({"maxDuration": "10s"}, STARTED, STARTED + 10 * SECOND),
        ({"maxDuration": "10s", "maxDurationFrom": "Start"}, STARTED, STARTED + 10 * SECOND),
        ({"maxDuration": "10s", "maxDurationFrom": "Creation"}, STARTED, CREATED + 10 * SECOND),
        ({"maxDuration": "10s", "maxDurationFrom": "Creation"}, 0, CREATED + 10 * SECOND),
        ({"maxDuration": "10s"}, 0, None),
        ({"maxDuration": "0"}, STARTED, None),
        ({}, STARTED, None),
    ],
)
def test_deadline(spec: dict[str, str], started: int, end: int | None) -> None:
    pod = PodRecord("p", "ns", "p", True, None, created=CREATED, started=started)
    assert deadline(pod, parse_queue_spec(spec)) == end


@pytest.mark.parametrize("kind", ["DaemonSet", "system"])
def test_who_is_exempt(kind: str) -> None:
    pod = PodRecord("p", "ns", "p", True, None, created=CREATED, started=STARTED, system=kind == "system")
    if kind == "DaemonSet":
        pod.owner = OwnerReference(api_version="apps/v1", kind=kind, name="d", uid="d", controller=True)
    assert deadline(pod, parse_queue_spec({"maxDuration": "10s"})) is None
