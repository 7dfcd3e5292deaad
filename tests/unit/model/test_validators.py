"""Which pods try a node for the GPU operator, and which of them say that its cards do not work."""

from typing import Any

import pytest

from t9ksched.model.pod import Pod, decode_pod
from t9ksched.model.readiness import Failing
from t9ksched.model.validators import failing, validation

NAME = "nvidia-operator-validator-x"
RUNS, DONE = {"running": {}}, {"terminated": {"exitCode": 0}}
LOST = {"terminated": {"exitCode": 1}}


def waits(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def pod(
    name: str = NAME,
    namespace: str = "gpu-operator",
    node: str = "n",
    phase: str = "Pending",
    init: dict[str, Any] | None = None,
    main: dict[str, Any] | None = None,
    reason: str = "",
    **meta: Any,
) -> Pod:
    """A pod with an init container and a main one of these statuses."""
    status = {
        "phase": phase,
        "reason": reason,
        "initContainerStatuses": [{"name": "cuda-validation", **(init or {})}],
        "containerStatuses": [{"name": "main", **(main or {})}],
    }
    return decode_pod(
        {"metadata": {"name": name, "namespace": namespace, **meta}, "spec": {"nodeName": node}, "status": status}
    )


@pytest.mark.parametrize(
    ("of", "kind"),
    [
        (pod(), "nvidia-operator-validator"),
        (pod("nvidia-driver-validation", "gpu-operator-resources"), "nvidia-driver-validation"),
        (pod("nvidia-device-plugin-validation-x", "nvidia-gpu-operator"), "nvidia-device-plugin-validation"),
        (pod("nvidia-cuda-validator-abcde"), "nvidia-cuda-validator"),
        (pod("validator-abcde", labels={"app": "nvidia-operator-validator"}), "nvidia-operator-validator"),
        (pod("nvidia-driver-daemonset-x", labels={"app": "nvidia-driver-daemonset"}), None),
        (pod("nvidia-operator-validators"), None),
        (pod(namespace="ml"), None),
        (pod("x", "ml", labels={"app": "nvidia-operator-validator"}), None),
        (pod(node=""), None),
        (pod(deletionTimestamp="2026-01-01T00:00:00Z"), None),
    ],
)
def test_which_pods_are_validations(of: Pod, kind: str | None) -> None:
    found = validation(of)
    assert (None if found is None else found.kind) == kind


@pytest.mark.parametrize(
    ("of", "how", "tried"),
    [
        (pod(phase="Failed"), "Failed", True),
        (pod(phase="Failed", reason="UnexpectedAdmissionError"), "Failed", True),
        (pod(phase="Failed", reason="Evicted", main={"state": LOST}), "", False),
        (pod(phase="Failed", reason="NodeShutdown"), "", False),
        (pod(phase="Succeeded", init={"state": DONE}, main={"state": DONE}), "", False),
        (pod(), "", False),
        (pod(init={"state": waits("PodInitializing")}), "", False),
        (pod(init={"state": RUNS}), "", False),
        (pod(init={"state": waits("CrashLoopBackOff"), "lastState": LOST}), "CrashLoopBackOff", True),
        (pod(init={"state": LOST}), "exit code 1", True),
        # Between two tries it runs, and has not got further than before.
        (pod(init={"state": RUNS, "lastState": LOST}), "exit code 1, tried again", True),
        (pod(init={"state": DONE, "lastState": LOST, "ready": True}, main={"state": RUNS, "ready": True}), "", False),
        (pod(init={"state": DONE, "lastState": LOST}, main={"state": RUNS}), "", False),
        (
            pod(phase="Running", init={"state": DONE}, main={"state": RUNS, "lastState": LOST}),
            "exit code 1, tried again",
            True,
        ),
        (pod(phase="Running", init={"state": DONE}, main={"state": RUNS, "lastState": LOST, "ready": True}), "", False),
        (pod(init={"state": waits("ImagePullBackOff")}), "ImagePullBackOff", False),
        (pod(init={"state": waits("CreateContainerConfigError")}), "CreateContainerConfigError", False),
        (pod(init={"state": waits("RunContainerError")}), "RunContainerError", True),
        (pod(init={"state": waits("ErrImagePull")}, main={"state": LOST}), "exit code 1", True),
    ],
)
def test_how_a_validation_fails(of: Pod, how: str, tried: bool) -> None:
    found = validation(of)
    assert found is not None
    assert found.failing == (Failing(NAME, how, tried) if how else None)


def told(*pods: Pod) -> list[str]:
    return [one.pod for one in failing(one for one in map(validation, pods) if one is not None)]


def test_of_one_kind_the_youngest_counts() -> None:
    old, new = {"creationTimestamp": "2026-01-01T00:00:00Z"}, {"creationTimestamp": "2026-01-01T00:00:01Z"}
    lost, won = pod(phase="Failed", **old), pod(f"{NAME}2", phase="Succeeded", **new)
    assert told(lost, won) == told(won, lost) == []
    again = pod(f"{NAME}2", phase="Failed", **new)
    assert told(lost, again) == told(again, lost) == [f"{NAME}2"]
    other = pod("nvidia-cuda-validator-x", phase="Failed", **old)
    assert told(other, lost, won) == ["nvidia-cuda-validator-x"]
    same = pod(f"{NAME}2", phase="Succeeded", **old)
    assert told(lost, same) == told(same, lost) == [NAME]
