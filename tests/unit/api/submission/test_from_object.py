"""What a job's own object says of it, where the scheduler cannot be asked."""

from typing import Any

import pytest

from t9ksched.api.job_from_object import from_object
from t9ksched.workloads.read import read

POD = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}


@pytest.mark.parametrize(
    ("status", "phase", "running"),
    [
        ({}, "Pending", 0),
        ({"active": 1, "ready": 0}, "Pending", 0),
        ({"active": 2, "ready": 1}, "Running", 1),
        ({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}, "Succeeded", 0),
    ],
)
def test_pods_of_a_batch_job_that_wait_do_not_run(status: dict[str, Any], phase: str, running: int) -> None:
    """Its `active` pods may wait for a place, as after a restart of the scheduler."""
    obj = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"template": {"spec": {**POD, "schedulerName": "t9k-scheduler", "restartPolicy": "Never"}}},
        "status": status,
    }
    found = from_object(obj, read(obj))
    assert (found["phase"], found["members"]["running"]) == (phase, running)
