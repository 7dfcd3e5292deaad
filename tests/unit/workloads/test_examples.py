"""Every example is valid, names a queue of the demo cluster, and fits it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.model.queue import parse_queue_spec
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.packaged import folder
from t9ksched.workloads.read import read
from t9ksched.workloads.reconcile import expand
from t9ksched.workloads.registry import CONTROLLED

EXPECTED = {
    "pytorch.yaml": ("a100", 16, 4),
    "mpi.yaml": ("a100", 8, 5),
    "generic.yaml": ("a100", 0, 4),
    "tensorflow.yaml": ("a100", 4, 6),
    "xgboost.yaml": ("a100", 0, 4),
    "deepspeed.yaml": ("a100", 8, 2),
    "colossalai.yaml": ("a100", 8, 3),
    "beam.yaml": ("a100", 0, 4),
    "notebook.yaml": ("a100", 1, 1),
    "tensorboard.yaml": ("a100", 0, 1),
    "autotune.yaml": ("a100", 3, 3),
    "explorer.yaml": ("a100", 0, 1),
    "mlservice.yaml": ("a100", 2, 3),
    "simpleml.yaml": ("a100", 0, 2),
    "virtualserver.yaml": ("a100", 0, 1),
    "pod.yaml": ("a100", 1, 1),
    "mgpu.yaml": ("a100", 0, 1),
    "mgpu-several.yaml": ("a100", 0, 1),
    "gpu-model.yaml": ("a100", 2, 1),
    "gpu-memory.yaml": ("a100", 1, 1),
    "mig-mixed.yaml": ("a100", 0, 1),
    "mig-single.yaml": ("a100", 1, 1),
    "time-slicing.yaml": ("a100", 0, 1),
    "mps.yaml": ("a100", 1, 1),
    "hami.yaml": ("a100", 1, 1),
    "gpushare.yaml": ("a100", 0, 1),
    "koordinator.yaml": ("a100", 0, 1),
    "podgroup.yaml": ("a100", 2, 3),
    "job.yaml": ("a100", 4, 4),
    "workflow.yaml": ("a100", 0, 0),
}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def test_all_of_them_are_named_here() -> None:
    assert {path.name for path in folder("examples").glob("*.yaml")} == {*EXPECTED, "queue.yaml", "reservation.yaml"}


def test_the_example_of_a_queue_is_valid() -> None:
    (queue,) = documents(folder("examples") / "queue.yaml")
    assert queue["name"] == "nlp"
    assert parse_queue_spec(queue["spec"]).priority == 10


def test_the_example_of_a_reservation_is_valid() -> None:
    (reservation,) = documents(folder("examples") / "reservation.yaml")
    assert parse_reservation(reservation).every == "weekly"


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_are_valid(name: str) -> None:
    queue, gpus, pods = EXPECTED[name]
    workloads = [read(document) for document in documents(folder("examples") / name)]
    assert workloads[0].queue == queue
    assert all(workload.scheduler == "t9k-scheduler" for workload in workloads)
    assert sum(workload.totals.get("nvidia.com/gpu", 0) for workload in workloads) == gpus
    assert sum(workload.replicas for workload in workloads) == pods
    assert all({"cpu", "memory"} <= each.requests.keys() for workload in workloads for each in workload.templates)


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_expand(name: str) -> None:
    for document in documents(folder("examples") / name):
        if document["kind"] in {row.name for row in CONTROLLED}:
            made = expand(document)
            assert made.pods or all(expand(job).pods for job in made.jobs)
            assert made.pods or made.jobs or made.makers
