"""BeamJob: its Flink cluster, the pod that waits for it and submits, and what is refused."""

from typing import Any

import pytest

from t9ksched.workloads.read import validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import World, beam

Object = dict[str, Any]
MANAGER, SUBMIT = "count-flinkcluster-jobmanager", "count-batchjob-0"


def test_cluster_and_submission_are_one_gang() -> None:
    made = expand(beam())
    names = [pod["metadata"]["name"] for pod in made.pods]
    workers = [f"count-flinkcluster-taskmanager-{nth}" for nth in range(2)]
    assert names == [f"{MANAGER}-0", *workers, SUBMIT]
    assert made.podgroup is not None
    assert made.podgroup["spec"]["minMember"] == 4
    head, *_, submit = (pod["spec"] for pod in made.pods)
    assert head["containers"][0]["args"] == ["jobmanager"]
    env = {each["name"]: each["value"] for each in head["containers"][0]["env"]}
    assert f"jobmanager.rpc.address: {MANAGER}" in env["FLINK_PROPERTIES"].splitlines()
    assert "a.b: 1" in env["FLINK_PROPERTIES"].splitlines()
    (waits,) = submit["initContainers"]
    assert (waits["image"], "-ge 2 ]" in waits["command"][2], MANAGER in waits["command"][2]) == (
        "example/flink:1",
        True,
        True,
    )
    assert {"name": "FLINK_MASTER", "value": f"{MANAGER}:8081"} in submit["containers"][0]["env"]
    door = next(each for each in made.services if each["metadata"]["name"] == MANAGER)
    assert door["spec"]["selector"].items() <= made.pods[0]["metadata"]["labels"].items()
    assert not door["spec"]["selector"].items() <= made.pods[1]["metadata"]["labels"].items()


def test_it_ends_as_the_submission_and_the_cluster_goes_with_it() -> None:
    world = World(beam(1, runPolicy={"cleanUpCluster": True}))
    world.settle()
    assert (world.condition("ClusterRunning"), world.condition("JobRunning")) == ("False", "False")
    world.run_all()
    world.settle()
    assert (world.condition("ClusterRunning"), world.condition("JobRunning")) == ("True", "True")
    assert world.status["jobURL"] == f"http://{MANAGER}.lab.svc:8081/"
    world.set_phase(SUBMIT, "Succeeded", 0)
    world.settle()
    assert (world.status["phase"], world.pods()) == ("Succeeded", [SUBMIT])
    assert world.condition("JobRunning") == "False"


@pytest.mark.parametrize(
    ("job", "path", "told"),
    [
        (beam(submit={"parallelism": 2}), "spec.jobTemplate.spec.parallelism", "one pod submits the pipeline"),
        (beam(0), "spec.flinkClusterTemplate.spec.taskManager.replicas", "0 is out of range"),
        (
            beam(flinkClusterTemplate={"spec": {"jobManager": {"accessScope": "All"}}}),
            "spec.flinkClusterTemplate.spec.jobManager.accessScope",
            "use one of Cluster",
        ),
        (
            beam(flinkClusterTemplate={"spec": {}}),
            "spec.flinkClusterTemplate.spec.image.name",
            "name the image of Flink",
        ),
        (beam(submit={"template": {"spec": {}}}), "spec.jobTemplate.spec.template.spec.containers", "at least one"),
    ],
)
def test_what_cannot_be(job: Object, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(job)}
    assert told in faults[path]
