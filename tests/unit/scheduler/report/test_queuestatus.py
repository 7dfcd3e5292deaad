"""A queue's status: what it holds, when it is under pressure, and since when."""

from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.report import queuestatus
from t9ksched.scheduler.report.queuestatus import QueueStatuses
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import Stop
from tests.unit.scheduler.state.test_state import GPU, NOW, node, pod, state_with

EARLY, LATE, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"


def spec(closed: bool = False, **quota: str) -> dict[str, Any]:
    return {
        "quota": {"requests": {name.replace("gpu", GPU): amount for name, amount in quota.items()}},
        "closed": closed,
    }


def running(state: ClusterState, *gpus: int) -> ClusterState:
    for index, count in enumerate(gpus):
        cards = ",".join(map(str, range(count)))
        state.upsert_pod(pod(f"p{index}", count, queue="q", node=f"n{index + 1}", phase="Running", cards=cards))
    state.accept_running(NOW)
    return state


class Clock:
    def __init__(self) -> None:
        self.now = EARLY

    def __call__(self) -> str:
        return self.now


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["lastTransitionTime"]) for one in status["conditions"]}


PRESSURE = [
    (spec(gpu="10"), (8, 1), []),
    (spec(gpu="10"), (8, 2), [GPU]),
    (spec(gpu="20"), (8, 8, 2), []),
    (spec(gpu="20"), (8, 8, 3), [GPU]),
    (spec(pods="2"), (1, 1), ["pods"]),
    (spec(pods="3", cpu="2"), (1, 1), ["cpu"]),
    (spec(gpu="0"), (), []),
    (spec(gpu="0"), (1,), [GPU]),
    (spec(cpu="1100m"), (1,), ["cpu"]),
    (spec(cpu="1112m"), (1,), []),
    ({}, (8, 8), []),
]
"""The queue's spec, the cards of its running pods, and the resources that are short: above 90 %, not at it."""


@pytest.mark.parametrize(("queue", "gpus", "short"), PRESSURE)
def test_pressure_begins_above_nine_tenths(queue: dict[str, Any], gpus: tuple[int, ...], short: list[str]) -> None:
    state = running(state_with(*(node(f"n{at}") for at in range(1, 5)), queues={"q": queue, "default": {}}), *gpus)
    (found,) = (one for one in QueueStatuses(state, Clock()).of("q")["conditions"] if one["type"] == "ResourcePressure")
    assert (found["status"], found["reason"]) == (
        ("True", "QueueHasResourcePressure") if short else ("False", "QueueHasNoResourcePressure")
    )
    assert found["message"].endswith(", ".join(short))


@pytest.mark.parametrize("percent", [89, 80, 91, 95, 100])
def test_another_bound_is_noticed(monkeypatch: pytest.MonkeyPatch, percent: int) -> None:
    monkeypatch.setattr(queuestatus, "PRESSURE_PERCENT", percent)

    def every_case() -> None:
        for case in PRESSURE:
            test_pressure_begins_above_nine_tenths(*case)

    with pytest.raises(AssertionError):
        every_case()


@pytest.mark.parametrize(
    ("queue", "allocated"),
    [
        (spec(pods="5", gpu="8"), {"pods": "2", GPU: "3", "cpu": "2"}),
        (spec(gpu="8"), {GPU: "3", "cpu": "2"}),
        ({}, {GPU: "3", "cpu": "2"}),
        (spec(memory="1Gi"), {GPU: "3", "cpu": "2", "memory": "0"}),
    ],
    ids=["pods in the quota", "pods not in the quota", "no quota", "not used"],
)
def test_allocated_is_what_the_quota_is_enforced_on(queue: dict[str, Any], allocated: dict[str, str]) -> None:
    state = running(state_with(node("n1"), node("n2"), queues={"q": queue, "default": {}}), 2, 1)
    state.charges.queue_used["q"]["attachable-volumes-csi-disk"] = 3
    assert QueueStatuses(state, Clock()).of("q")["allocated"] == allocated


def test_asking_again_moves_no_transition_time() -> None:
    state, clock = state_with(), Clock()
    statuses = QueueStatuses(state, clock)
    statuses.settle()
    first = statuses.of("q")
    clock.now = LATE
    assert statuses.of("q") == first
    state.set_queues([Queue("q", parse_queue_spec(spec(closed=True)))])
    statuses.keep(["q"])
    clock.now = LATER
    assert conditions(statuses.of("q")) == {"QueueClosed": ("True", LATE), "ResourcePressure": ("False", EARLY)}


def test_a_restart_moves_none_either() -> None:
    state, clock = state_with(queues={"q": spec(closed=True, gpu="8"), "default": {}}), Clock()
    clock.now = LATER
    statuses = QueueStatuses(state, clock)
    statuses.of("q")  # asked before anything is read
    told = [
        {"type": "QueueClosed", "status": "True", "lastTransitionTime": EARLY},
        {"type": "ResourcePressure", "status": "True", "lastTransitionTime": LATE},
    ]
    statuses.meet("q", {"status": {"conditions": told}})
    statuses.keep(["q"])
    statuses.of("q")  # asked while pods are being read
    running(state, 8)
    statuses.settle()
    assert conditions(statuses.of("q")) == {"QueueClosed": ("True", EARLY), "ResourcePressure": ("True", LATE)}


def test_a_change_while_no_scheduler_ran_counts_from_when_it_was_seen() -> None:
    state, clock = state_with(), Clock()
    clock.now = LATE
    statuses = QueueStatuses(state, clock)
    told = {"type": "QueueClosed", "status": "True", "lastTransitionTime": EARLY}
    statuses.meet("q", {"status": {"conditions": [told]}})
    statuses.settle()
    statuses.meet("q", {"status": {"conditions": [told | {"status": "False"}]}})
    assert conditions(statuses.of("q"))["QueueClosed"] == ("False", LATE), "a late event of the watch says nothing new"


def test_a_queue_made_anew_begins_anew() -> None:
    state, clock = state_with(), Clock()
    statuses = QueueStatuses(state, clock)
    statuses.settle()
    statuses.keep(["default"])
    clock.now = LATE
    statuses.keep(["q", "default"])
    assert conditions(statuses.of("q"))["QueueClosed"] == ("False", LATE)
    assert conditions(statuses.of("default"))["QueueClosed"] == ("False", EARLY)


def test_a_stop_is_a_condition_since_it_was_ordered() -> None:
    state, clock = state_with(), Clock()
    state.stops = (Stop("scheduling", None, "ann", datetime(2026, 1, 1, tzinfo=UTC), "repair"),)
    clock.now = LATER
    status = QueueStatuses(state, clock).of("q")
    assert conditions(status)["SchedulingStopped"] == ("True", EARLY)
    assert status["conditions"][-1]["message"] == "by ann: repair"
