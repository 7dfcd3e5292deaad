"""WorkflowRun: the shapes in which the platform's own examples write it, and what is refused."""

from typing import Any

import pytest

from t9ksched.devcluster.apiserver import structural
from t9ksched.kube.setup.crds import read as definitions
from t9ksched.packaged import folder
from t9ksched.workloads.read import read, validate
from tests.unit.workloads.builders import workflow_run

Object = dict[str, Any]
CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}
PUBLISHED: list[Object] = [
    {"workflowTemplateRef": "t", "params": [{"name": "token", "value": ""}], "workspaces": [{"name": "w", **CLAIM}]},
    {"workflowTemplateRef": "t", "workspaces": [{"name": "w", "secret": {"secretName": "s"}, "subPath": "a/b"}]},
    {"workflowTemplateRef": "t", "serviceAccountName": "", "timeout": "1h0m0s"},
    {"workflowTemplateSpec": {"type": "Pod", "pod": {"containers": [{"name": "a", "image": "i"}]}}},
]
"""What they say, in specs of our own."""
FAULTY: list[tuple[Object, str, str]] = [
    ({}, "spec.workflowTemplateRef", "name the WorkflowTemplate to run, or write one"),
    ({"workflowTemplateRef": ""}, "spec.workflowTemplateRef", "name the WorkflowTemplate to run"),
    ({"workflowTemplateRef": 1}, "spec.workflowTemplateRef", "must be a text"),
    ({"workflowTemplateSpec": []}, "spec.workflowTemplateSpec", ""),
    ({"workflowTemplateRef": "t", "params": [{"value": "x"}]}, "spec.params[0].name", ""),
    ({"workflowTemplateRef": "t", "workspaces": [CLAIM]}, "spec.workspaces[0].name", ""),
    ({"workflowTemplateRef": "t", "timeout": 3600}, "spec.timeout", "must be a text"),
    (
        {"workflowTemplateRef": "t", "scheduler": {"t9kScheduler": {"priority": 101}}},
        "spec.scheduler.t9kScheduler.priority",
        "",
    ),
]


def schema() -> Object:
    (found,) = (each for each in definitions(folder("crds")) if each["spec"]["names"]["kind"] == "WorkflowRun")
    whole: Object = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return whole


def run(spec: Object) -> Object:
    return {**workflow_run(), "spec": spec}


@pytest.mark.parametrize("spec", PUBLISHED)
def test_published_shapes_are_taken_with_a_queue_and_without(spec: Object) -> None:
    assert read(run(spec)).scheduler == "default-scheduler"
    found = read(workflow_run(**spec))
    assert (found.queue, found.replicas, found.totals) == ("a100", 0, {})
    assert structural.validate(run(spec), schema()) == []


@pytest.mark.parametrize(("spec", "path", "told"), FAULTY)
def test_what_cannot_be_is_told_by_rest_and_by_the_definition(spec: Object, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(run(spec))}
    assert faults.keys() == {path}
    assert told in faults[path]
    assert path in {cause.field for cause in structural.validate(run(spec), schema())}
