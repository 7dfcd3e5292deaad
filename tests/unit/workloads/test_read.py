"""One row a kind: who schedules it, which queue and priority, its templates and what they ask for in all."""

from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.workloads.read import UnknownKind, read
from t9ksched.workloads.registry import KINDS
from tests.unit.workloads.builders import (
    BATCH,
    PLATFORM,
    block,
    container,
    mpi_v1,
    mpi_v2,
    notebook,
    obj,
    pytorch,
    template,
)

GI = 1024**3
MI = 1024**2
SELECTOR = {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-80GB"}


def amounts(cpu: int, memory: int, gpu: int = 0) -> dict[str, int]:
    return {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": gpu} if gpu else {})


def roles(workload: Any) -> list[tuple[str, int, int]]:
    return [(each.role, each.replicas, each.min_replicas) for each in workload.templates]


def typed(role: str, replicas: int | None = None, gpu: int = 0, **more: Any) -> dict[str, Any]:
    counted = {} if replicas is None else {"replicas": replicas}
    return {"type": role, **counted, "template": template(container(gpu=gpu)), **more}


FLINK = {
    "image": {"name": "i"},
    "jobManager": {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
    "taskManager": {"replicas": 3, "resources": {"limits": {"cpu": 1, "memory": "2Gi"}}},
}
PREDICTOR = {
    "minReplicas": 2,
    "maxReplicas": 5,
    "model": {"runtime": "serve"},
    "containersResources": [{"name": "user-container", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
}

# kind, object, queue, priority, [(role, replicas, minimum)], totals, minimal totals (None: the same)
TABLE: list[Any] = [
    (
        "GenericJob",
        obj("GenericJob", {"scheduler": block("q", 7), "replicaSpecs": [typed("lead"), typed("helper", 2, 1)]}),
        ("q", 7),
        [("lead", 1, 1), ("helper", 2, 2)],
        amounts(3000, 3 * GI, 2),
        None,
    ),
    (
        "PyTorchTrainingJob",
        pytorch(replicas=4, gpu=4),
        ("a100", 5),
        [("worker", 4, 4)],
        amounts(4000, 4 * GI, 16),
        None,
    ),
    (
        "PyTorchTrainingJob",
        pytorch(
            gpu=2,
            elastic={"enabled": True, "minReplicas": 2, "maxReplicas": 6, "expectedReplicas": 4},
            torchrunConfig={"enabled": True, "procPerNode": "gpu"},
        ),
        ("a100", 5),
        [("worker", 4, 2)],
        amounts(4000, 4 * GI, 8),
        amounts(2000, 2 * GI, 4),
    ),
    (
        "TensorFlowTrainingJob",
        obj("TensorFlowTrainingJob", {"scheduler": block("q"), "replicaSpecs": [typed("chief"), typed("ps", 2)]}),
        ("q", 0),
        [("chief", 1, 1), ("ps", 2, 2)],
        amounts(3000, 3 * GI),
        None,
    ),
    (
        "XGBoostTrainingJob",
        obj("XGBoostTrainingJob", {"scheduler": block("q", 1), "replicaSpecs": [typed("master"), typed("worker", 3)]}),
        ("q", 1),
        [("master", 1, 1), ("worker", 3, 3)],
        amounts(4000, 4 * GI),
        None,
    ),
    (
        "DeepSpeedJob",
        obj(
            "DeepSpeedJob",
            {
                "scheduler": block("q", 60),
                "config": {"slotsPerWorker": 4, "run": {"python": ["sft.py"]}},
                "worker": {"replicas": 2, "template": template(container("worker", gpu=4))},
            },
        ),
        ("q", 60),
        [("worker", 2, 2)],
        amounts(2000, 2 * GI, 8),
        None,
    ),
    (
        "DeepSpeedJob",
        obj(
            "DeepspeedJob",
            {
                "scheduler": block("q"),
                "config": {"slotPerWorker": 1, "run": {"exec": ["./fit"]}},
                "elastic": {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "expectedReplicas": 3},
                "worker": {"replicas": 9, "template": template()},
            },
        ),
        ("q", 0),
        [("worker", 3, 1)],
        amounts(3000, 3 * GI),
        amounts(1000, GI),
    ),
    (
        "ColossalAIJob",
        obj(
            "ColossalAIJob",
            {
                "scheduler": block("q"),
                "launcher": {"image": "x", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
                "worker": {"replicas": 2, "command": ["x"], "template": template(container("worker", gpu=1))},
            },
        ),
        ("q", 0),
        [("launcher", 1, 1), ("worker", 2, 2)],
        amounts(3000, 3 * GI, 2),
        None,
    ),
    (
        "ColossalAIJob",
        obj(
            "ColossalAIJob",
            {
                "scheduler": block("q"),
                "torchConfig": {"script": ["x"]},
                "replicaSpecs": [typed("launcher"), typed("worker", 2, 1)],
            },
        ),
        ("q", 0),
        [("launcher", 1, 1), ("worker", 2, 2)],
        amounts(3000, 3 * GI, 2),
        None,
    ),
    ("MPIJob", mpi_v1(), ("a40", 2), [("launcher", 1, 1), ("worker", 3, 3)], amounts(3100, 3 * GI + 100 * MI), None),
    (
        "MPIJob",
        mpi_v2(),
        ("a40", 0),
        [("launcher", 1, 1), ("worker", 2, 2)],
        amounts(2100, 2 * GI + 100 * MI, 4),
        None,
    ),
    (
        "BeamJob",
        obj(
            "BeamJob",
            {
                "scheduler": block("q"),
                "flinkClusterTemplate": {"spec": FLINK},
                "jobTemplate": {"spec": {"template": template()}},
            },
        ),
        ("q", 0),
        [("flinkcluster-jobmanager", 1, 1), ("flinkcluster-taskmanager", 3, 3), ("batchjob", 1, 1)],
        amounts(4500, 8 * GI),
        None,
    ),
    (
        "AutoTuneExperiment",
        obj(
            "AutoTuneExperiment",
            {
                "trialConcurrency": 3,
                "maxTrialNum": 9,
                "searchSpace": '{"lr": {"_type": "choice", "_value": [1, 2]}}',
                "trainingConfig": {"type": "pytorch", "scheduler": block("q", 3), "tasks": [typed("worker", 2)]},
            },
            PLATFORM,
        ),
        ("q", 3),
        [("worker", 6, 6)],
        amounts(6000, 6 * GI),
        None,
    ),
    ("Notebook", notebook(), ("a100", 0), [("", 1, 1)], amounts(1000, GI, 1), None),
    ("Notebook", notebook(suspend=True), ("a100", 0), [("", 0, 0)], {}, None),
    ("Notebook", notebook(runMode="paused"), ("a100", 0), [("", 0, 0)], {}, None),
    (
        "SimpleMLService",
        obj("SimpleMLService", {"replicas": 2, "scheduler": block("q"), "custom": template()}, PLATFORM),
        ("q", 0),
        [("", 2, 2)],
        amounts(2000, 2 * GI),
        None,
    ),
    (
        "SimpleMLService",
        obj("SimpleMLService", {"scheduler": block("q"), "custom": template()["spec"]}, PLATFORM),
        ("q", 0),
        [("", 1, 1)],
        amounts(1000, GI),
        None,
    ),
    (
        "SimpleMLService",
        obj(
            "SimpleMLService",
            {"scheduler": block("q"), "pytorch": {"image": "i", "resources": {"requests": {"cpu": 2}}}},
            PLATFORM,
        ),
        ("q", 0),
        [("", 1, 1)],
        {"cpu": 2000},
        None,
    ),
    (
        "MLService",
        obj(
            "MLService",
            {
                "scheduler": block("q"),
                "releases": [{"name": "one", "predictor": PREDICTOR}],
                "transformer": {"template": template(container())},
            },
            PLATFORM,
        ),
        ("q", 0),
        [("predictor-one", 2, 2), ("transformer", 1, 1)],
        amounts(2000, 3 * GI),
        None,
    ),
    (
        "TensorBoard",
        obj(
            "TensorBoard",
            {
                "scheduler": block("q", 4),
                "trainingLogFilesets": ["t9k://pvc/runs"],
                "resources": {"limits": {"cpu": 1}},
            },
            PLATFORM,
        ),
        ("q", 4),
        [("", 1, 1)],
        {"cpu": 1000},
        None,
    ),
    (
        "Explorer",
        obj("Explorer", {"scheduler": block(None), "storageName": "a"}, PLATFORM),
        ("default", 0),
        [("", 1, 1)],
        {"cpu": 200, "memory": 200 * MI},
        None,
    ),
    (
        "VirtualServer",
        obj("VirtualServer", {"scheduler": block("q"), "resources": {"requests": {"memory": "2Gi"}}}, PLATFORM),
        ("q", 0),
        [("", 1, 1)],
        {"memory": 2 * GI},
        None,
    ),
    (
        "WorkflowRun",
        obj("WorkflowRun", {"scheduler": block("q", 3), "workflowTemplateRef": "t"}),
        ("q", 3),
        [],
        {},
        None,
    ),
    ("Project", obj("Project", {"defaultScheduler": block("q")}, PLATFORM), ("q", 0), [], {}, None),
    (
        "PodGroup",
        obj("PodGroup", {"queue": "q", "priority": 9, "minMember": 2}, "scheduler.tensorstack.dev/v1beta1"),
        ("q", 9),
        [],
        {},
        None,
    ),
    (
        "Pod",
        obj(
            "Pod",
            {"schedulerName": "t9k-scheduler", "containers": [container(gpu=2)]},
            "v1",
            labels={"scheduler.tensorstack.dev/queue": "q"},
        ),
        ("q", 0),
        [("", 1, 1)],
        amounts(1000, GI, 2),
        None,
    ),
    *[
        (
            kind,
            obj(
                kind,
                {
                    **count,
                    "template": template(
                        metadata={"labels": {"scheduler.tensorstack.dev/queue": "q"}}, schedulerName="t9k-scheduler"
                    ),
                },
                api,
            ),
            ("q", 0),
            [("", replicas, replicas)],
            amounts(1000 * replicas, replicas * GI) if replicas else {},
            None,
        )
        for kind, api, count, replicas in [
            ("Job", "batch/v1", {"parallelism": 3}, 3),
            ("Job", "batch/v1", {"parallelism": 3, "completions": 2}, 2),
            ("Job", "batch/v1", {"parallelism": 3, "suspend": True}, 0),
            ("Deployment", "apps/v1", {"replicas": 2}, 2),
            ("StatefulSet", "apps/v1", {}, 1),
        ]
    ],
]


@pytest.mark.parametrize(("kind", "given", "asks", "expected", "totals", "minima"), TABLE)
def test_every_kind(kind: str, given: Any, asks: Any, expected: Any, totals: Any, minima: Any) -> None:
    workload = read(given)
    assert workload.kind == kind
    assert workload.scheduler == "t9k-scheduler"
    assert (workload.queue, workload.priority) == asks
    assert roles(workload) == expected
    assert workload.totals == totals
    assert workload.min_totals == (totals if minima is None else minima)
    assert (workload.namespace, workload.name) == ("lab", given["metadata"]["name"])


def test_the_table_names_every_kind() -> None:
    assert {row[0] for row in TABLE} == {name for name, row in KINDS.items() if row.foreign is None}


def test_without_a_block_another_scheduler_places_it() -> None:
    assert (read(pytorch(queue=None)).scheduler, read(pytorch(queue=None)).queue) == ("default-scheduler", "")
    pod = obj("Pod", {"containers": [container()]}, "v1", labels={"scheduler.tensorstack.dev/queue": "q"})
    assert (read(pod).scheduler, read(pod).queue) == ("default-scheduler", "")
    pod["spec"]["schedulerName"] = "volcano"
    assert read(pod).scheduler == "volcano"


def test_a_block_without_a_queue_means_the_default_queue() -> None:
    job = pytorch()
    job["spec"]["scheduler"] = {"t9kScheduler": {}}
    assert read(job).queue == "default"
    job["spec"]["scheduler"] = {"t9kScheduler": {"queue": ""}}
    assert read(job).queue == "default"
    job["spec"]["scheduler"] = {}
    assert read(job).scheduler == "default-scheduler"


def test_a_pod_in_a_group_says_so() -> None:
    labels = {"scheduler.tensorstack.dev/group-name": "g"}
    pod = obj("Pod", {"schedulerName": "t9k-scheduler", "containers": [container()]}, "v1", labels=labels)
    assert (read(pod).group, read(pod).queue) == ("g", "default")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (pytorch(), "spec.replicaSpecs[0].template.spec.nodeSelector"),
        (mpi_v1(), "spec.worker.template.spec.nodeSelector"),
        (mpi_v2(), "spec.replicaSpecs[1].template.spec.nodeSelector"),
        (notebook(), "spec.template.spec.nodeSelector"),
    ],
)
def test_node_selectors_come_with_their_path(given: Any, path: str) -> None:
    for step in (given["spec"].get("replicaSpecs") or [given["spec"].get("worker") or given["spec"]])[-1:]:
        step["template"]["spec"]["nodeSelector"] = SELECTOR
    assert (path, SELECTOR) in read(given).node_selectors


def test_requests_are_what_the_pod_occupies() -> None:
    """Containers and sidecars together, or the largest init container; overhead on top; limits fill requests."""
    pod = {
        "schedulerName": "t9k-scheduler",
        "containers": [
            {"name": "a", "image": "x", "resources": {"limits": {"cpu": 2}}},
            container("b", cpu="500m", memory="1Gi"),
        ],
        "initContainers": [
            container("side", cpu="250m", memory="1Gi", restartPolicy="Always"),
            container("setup", cpu=4, memory="512Mi"),
        ],
        "overhead": {"cpu": "50m"},
    }
    assert read(obj("Pod", pod, "v1")).totals == {"cpu": 4250 + 50, "memory": 2 * GI}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"kind": "Gadget"}, "kind"),
        ({"kind": None}, "kind"),
        ({"kind": ["Pod"]}, "kind"),
        ({"apiVersion": "v1"}, "apiVersion"),
        ({"apiVersion": None}, "apiVersion"),
    ],
)
def test_unknown_kinds(change: dict[str, Any], path: str) -> None:
    with pytest.raises(UnknownKind) as caught:
        read({**pytorch(), **change})
    assert caught.value.errors[0].path == path


@pytest.mark.parametrize("given", [None, 3, "text", [], [pytorch()]])
def test_what_is_no_object(given: Any) -> None:
    with pytest.raises(Invalid, match="is no object"):
        read(given)


def test_kinds_live_in_their_groups() -> None:
    assert {kind.api_version for kind in KINDS.values() if kind.foreign is None} == {
        BATCH, PLATFORM, "scheduler.tensorstack.dev/v1beta1", "v1", "batch/v1", "apps/v1"
    }  # fmt: skip
