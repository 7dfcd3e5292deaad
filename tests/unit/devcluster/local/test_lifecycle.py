"""What a kubelet of processes does for a pod, from what is known of its containers."""

from typing import Any

import pytest

from t9ksched.devcluster.local.lifecycle import PodStep, next_step
from t9ksched.devcluster.local.runtime import Attempt

Object = dict[str, Any]
NOW = 1_800_000_000.0


def pod(policy: str = "Never", inits: list[Object] | None = None, mains: str = "main", **spec: Any) -> Object:
    containers = [{"name": name, "command": ["x"]} for name in mains.split()]
    body = {"restartPolicy": policy, "containers": containers, "initContainers": inits or [], **spec}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": body, "status": {}}


def init(name: str, *, sidecar: bool = False) -> Object:
    return {"name": name, "command": ["x"], **({"restartPolicy": "Always"} if sidecar else {})}


def runs(number: int = 0, began: float = -100.0, code: int | None = None, ago: float = 0.0) -> list[Attempt]:
    ended = None if code is None else NOW - ago
    return [Attempt(f"local://u/x/{number}", number, NOW + began, ended, code or 0)]


def step(obj: Object, **seen: list[Attempt]) -> PodStep:
    return next_step(obj, seen, NOW, "127.64.0.1", "127.0.0.1", {})


def starts(found: PodStep) -> list[tuple[str, int]]:
    return [(container["name"], number) for container, number in found.start]


@pytest.mark.parametrize(
    ("policy", "code", "phase", "again"),
    [
        ("Never", 0, "Succeeded", []),
        ("Never", 1, "Failed", []),
        ("OnFailure", 0, "Succeeded", []),
        ("OnFailure", 1, "Running", [("main", 1)]),
        ("Always", 0, "Running", [("main", 1)]),
    ],
)
def test_who_starts_again(policy: str, code: int, phase: str, again: list[tuple[str, int]]) -> None:
    found = step(pod(policy), main=runs(code=code))
    assert (found.status["phase"], starts(found), found.over) == (phase, again, not again)


@pytest.mark.parametrize(("number", "ran", "wait"), [(0, 5, 0), (1, 5, 10), (2, 5, 20), (9, 5, 300), (9, 601, 0)])
def test_pauses_double_and_are_forgotten_after_ten_minutes(number: int, ran: float, wait: float) -> None:
    found = step(pod("Always"), main=runs(number, began=-ran, code=1))
    if wait:
        assert (starts(found), found.due) == ([], NOW + wait)
        assert found.status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    else:
        assert starts(found) == [("main", number + 1)]


def test_init_containers_come_one_after_the_other_and_sidecars_stay() -> None:
    obj = pod(inits=[init("one"), init("side", sidecar=True), init("two")])
    assert starts(step(obj)) == [("one", 0)]
    assert starts(step(obj, one=runs())) == []
    assert starts(step(obj, one=runs(code=0))) == [("side", 0), ("two", 0)]
    assert starts(step(obj, one=runs(code=0), side=runs())) == [("two", 0)]
    assert starts(step(obj, one=runs(code=0), side=runs(), two=runs(code=0))) == [("main", 0)]
    done = {"one": runs(code=0), "two": runs(code=0)}
    found = step(obj, **done, side=runs(code=3), main=runs())
    assert starts(found) == [("side", 1)], "a sidecar starts again whatever the policy says"
    assert found.status["phase"] == "Running"


def test_a_failed_init_container_ends_the_pod() -> None:
    found = step(pod(inits=[init("one")]), one=runs(code=1))
    assert (found.over, found.status["phase"], starts(found)) == (True, "Failed", [])
    assert starts(step(pod("OnFailure", inits=[init("one")]), one=runs(code=1))) == [("one", 1)]


def test_sidecars_end_after_the_last_main_container() -> None:
    obj = pod(inits=[init("side", sidecar=True)], mains="a b")
    assert step(obj, side=runs(), a=runs(code=0), b=runs()).stop == []
    found = step(obj, side=runs(), a=runs(code=0), b=runs(code=0))
    assert (found.stop, found.over) == ([("local://u/x/0", 2.0)], False)
    assert step(obj, side=runs(code=137), a=runs(code=0), b=runs(code=0)).status["phase"] == "Succeeded"


def test_a_deadline_ends_everything_with_the_grace_of_the_pod() -> None:
    obj = pod("Always", activeDeadlineSeconds=60, terminationGracePeriodSeconds=7)
    obj["status"]["startTime"] = "2027-01-15T08:00:00Z"  # which is NOW
    assert step(obj, main=runs()).due == NOW + 60
    obj["spec"]["activeDeadlineSeconds"] = 0
    found = step(obj, main=runs())
    assert (found.stop, found.over) == ([("local://u/x/0", 7.0)], False)
    found = step(obj, main=runs(code=137))
    assert (found.over, found.status["phase"], found.status["reason"]) == (True, "Failed", "DeadlineExceeded")


def test_what_cannot_be_created_is_told() -> None:
    trouble = {"main": {"waiting": {"reason": "CreateContainerConfigError", "message": "no"}}}
    found = next_step(pod(), {}, NOW, "127.64.0.1", "127.0.0.1", trouble)
    assert found.status["containerStatuses"][0]["state"] == trouble["main"]
    assert found.status["phase"] == "Pending"
