"""Queue and priority of workloads are read once for each generation of their objects."""

from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.workloads.reconcile import Owners
from tests.unit.workloads.builders import pytorch

KEY = ("PyTorchTrainingJob", "lab", "net")


def job(generation: int, queue: str = "a100", uid: str = "1", **annotations: str) -> dict[str, Any]:
    found = pytorch(queue=queue)
    found["metadata"] |= {"uid": uid, "generation": generation, "annotations": annotations}
    return found


def test_a_spec_is_read_once() -> None:
    owners = Owners()
    assert owners.of(job(1)).queue == "a100"
    again = owners.of(job(1, "never", note="x"))
    assert (again.queue, again.priority, again.annotations) == ("a100", 5, {"note": "x"}), "only the spec is remembered"
    assert owners.of(job(2, "a40")).queue == "a40"
    assert owners.of(job(2, "cpu", uid="2")).queue == "cpu", "another object of that name"
    owners.forget(KEY)
    assert owners.of(job(2, "new", uid="2")).queue == "new"


def test_faults_are_told_each_time_and_what_has_no_generation_is_read_each_time() -> None:
    owners = Owners()
    for _ in range(2):
        with pytest.raises(Invalid, match="queue"):
            owners.of(job(1, "a queue"))
    assert [owners.of(job(0, name)).queue for name in ("a", "b")] == ["a", "b"]
