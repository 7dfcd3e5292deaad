"""Launchers that the user left open: defaults fill them, from the workers beside them."""

import copy
from typing import Any

import pytest

from t9ksched.workloads.read import read, validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import BATCH, block, container, mpi_v2, obj, template

Object = dict[str, Any]
SMALL = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m", "memory": "200Mi"}}


def with_launcher(launcher: Object, **worker: Any) -> Object:
    pod = template(container("worker", gpu=2, image="example/mpi:1", ports=[{"containerPort": 1}]), **worker)
    job = mpi_v2(worker={"template": pod})
    job["spec"]["replicaSpecs"][0] = {"type": "launcher", **launcher}
    return job


def colossal(launcher: Object) -> Object:
    types = with_launcher(launcher)["spec"]["replicaSpecs"]
    spec = {"scheduler": block(), "torchConfig": {"script": ["train.py"]}, "replicaSpecs": types}
    return obj("ColossalAIJob", spec, BATCH, "palm")


@pytest.mark.parametrize("make", [with_launcher, colossal])
@pytest.mark.parametrize(
    "launcher",
    [
        {"template": {}},
        {"template": {"spec": {}}},
        {"template": {"spec": {"containers": []}}},
        {"template": None},
        {},
        {"template": {"metadata": {"labels": {"a": "b"}}}, "restartPolicy": {"policy": "OnFailure", "limit": 3}},
    ],
)
def test_an_open_launcher_is_like_the_workers_but_small(make: Any, launcher: Object) -> None:
    job = make(launcher)
    first = read(job).templates[0]
    assert (first.role, first.replicas) == ("launcher", 1)
    (only,) = first.spec["containers"]
    assert (only["name"], only["image"], only["resources"]) == ("launcher", "example/mpi:1", SMALL)
    assert "ports" not in only
    assert first.requests == {"cpu": 100, "memory": 100 << 20}
    assert first.metadata == ((launcher.get("template") or {}).get("metadata") or {})


def test_the_job_runs_with_it() -> None:
    job = with_launcher({"template": {}}, nodeSelector={"zone": "a"})
    before = copy.deepcopy(job)
    launcher = expand(job).pods[0]
    assert launcher["metadata"]["name"] == "walk-launcher-0"
    assert launcher["spec"]["nodeSelector"] == {"zone": "a"}
    assert launcher["spec"]["containers"][0]["command"][0] == "/opt/mpi/bin/mpirun"
    assert launcher["spec"]["initContainers"][0]["image"] == "example/mpi:1"
    assert job == before, "the user's object is not changed"


def test_what_the_user_says_of_it_wins() -> None:
    own = {"spec": {"nodeSelector": {"zone": "b"}, "priorityClassName": "high"}}
    spec = read(with_launcher({"template": own}, nodeSelector={"zone": "a"})).templates[0].spec
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"zone": "b"}, "high")


def test_a_container_without_image_has_the_workers() -> None:
    own = {"name": "launcher", "resources": {"requests": {"cpu": "1"}}}
    (found,) = read(with_launcher({"template": {"spec": {"containers": [own]}}})).templates[0].spec["containers"]
    assert found == {**own, "image": "example/mpi:1"}


@pytest.mark.parametrize(
    "launcher", [{"template": "x"}, {"template": {"spec": []}}, {"template": {"spec": {"containers": "x"}}}]
)
def test_what_cannot_be_read_is_reported_where_it_stands(launcher: Object) -> None:
    assert any(fault.path.startswith("spec.replicaSpecs[0].template") for fault in validate(with_launcher(launcher)))


def test_without_workers_there_is_nothing_to_go_by() -> None:
    job = with_launcher({"template": {}})
    del job["spec"]["replicaSpecs"][1]
    paths = {fault.path for fault in validate(job)}
    assert paths == {"spec.replicaSpecs", "spec.replicaSpecs[0].template.spec.containers"}


@pytest.mark.parametrize("make", [with_launcher, colossal])
@pytest.mark.parametrize(
    ("launcher", "worker", "paths"),
    [
        ({"template": {}}, {"image": ""}, ["1.containers[0].image"]),
        ({"template": {}}, {"image": "", "name": "B"}, ["1.containers[0].image", "1.containers[0].name"]),
        ({"template": {"spec": {"containers": [{"name": "l"}]}}}, {"image": ""}, ["1.containers[0].image"]),
        (
            {"template": {"spec": {"containers": [{"name": "B", "image": "x"}]}}},
            {"name": "B"},
            ["0.containers[0].name", "1.containers[0].name"],
        ),
    ],
)
def test_a_fault_of_the_workers_is_told_of_them_alone(
    make: Any, launcher: Object, worker: Any, paths: list[str]
) -> None:
    job = make(launcher)
    job["spec"]["replicaSpecs"][1]["template"]["spec"]["containers"][0].update(worker)
    told = [fault.path.removeprefix("spec.replicaSpecs[").replace("].template.spec", "", 1) for fault in validate(job)]
    assert sorted(told) == paths
