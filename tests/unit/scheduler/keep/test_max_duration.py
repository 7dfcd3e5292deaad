"""When a pod's time in its queue is over: counted from its start or its creation, for whom not at all."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import QueueSpec, parse_queue_spec
from t9ksched.scheduler.state.end_rules import pod_deadline
from t9ksched.scheduler.state.records import PodRecord

SECOND = 1_000_000_000
CREATED, STARTED = 100 * SECOND, 500 * SECOND


Case = tuple[dict[str, str], int, int | None]
CASES: list[Case] = [
    ({"maxDuration": "10s"}, STARTED, STARTED + 10 * SECOND),
    ({"maxDuration": "10s", "maxDurationFrom": "Start"}, STARTED, STARTED + 10 * SECOND),
    ({"maxDuration": "10s", "maxDurationFrom": "Creation"}, STARTED, CREATED + 10 * SECOND),
    ({"maxDuration": "10s", "maxDurationFrom": "Creation"}, 0, CREATED + 10 * SECOND),
    ({"maxDuration": "10s"}, 0, None),
    ({"maxDuration": "0"}, STARTED, None),
    ({}, STARTED, None),
]


@pytest.mark.parametrize(("spec", "started", "end"), CASES)
def test_deadline(spec: dict[str, str], started: int, end: int | None) -> None:
    pod = PodRecord("p", "ns", "p", True, None, created=CREATED, started=started)
    assert pod_deadline(pod, parse_queue_spec(spec)) == end


def _always_from(since: Callable[[PodRecord], int]) -> Callable[[PodRecord, QueueSpec], int | None]:
    def counted(pod: PodRecord, spec: QueueSpec) -> int | None:
        return since(pod) + spec.duration // timedelta(seconds=1) * SECOND if spec.duration and since(pod) else None

    return counted


MUTANTS = {
    "counted from creation instead of start": _always_from(lambda pod: pod.created),
    "counted from start instead of creation": _always_from(lambda pod: pod.started),
}
"""Ways to break it on purpose: some case must turn red by each."""


@pytest.mark.parametrize("fault", MUTANTS)
def test_each_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "pod_deadline", MUTANTS[fault])
    red = []
    for case in CASES:
        try:
            test_deadline(*case)
        except AssertionError:
            red.append(case)
    assert red


@pytest.mark.parametrize("kind", ["DaemonSet", "system"])
def test_who_is_exempt(kind: str) -> None:
    pod = PodRecord("p", "ns", "p", True, None, created=CREATED, started=STARTED, system=kind == "system")
    if kind == "DaemonSet":
        pod.owner = OwnerReference(api_version="apps/v1", kind=kind, name="d", uid="d", controller=True)
    assert pod_deadline(pod, parse_queue_spec({"maxDuration": "10s"})) is None
