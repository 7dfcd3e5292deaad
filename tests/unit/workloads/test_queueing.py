"""`--queue` and `--priority` put into any kind."""

from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.workloads.queueing import with_queue
from t9ksched.workloads.read import UnknownKind, read
from tests.unit.workloads.builders import container, experiment, mpi_v1, notebook, obj, pytorch, template

POD = obj("Pod", {"containers": [container()]}, "v1")
JOB = obj("Job", {"template": template()}, "batch/v1")
GROUP = obj("PodGroup", {"minMember": 2, "queue": "old"}, "scheduler.tensorstack.dev/v1beta1")
TUNE = experiment(trainingConfig={"scheduler": None})


@pytest.mark.parametrize("given", [pytorch(queue=None), pytorch(), mpi_v1(), notebook(), POD, JOB, GROUP, TUNE])
def test_queue_wins_over_the_objects_own(given: dict[str, Any]) -> None:
    before = repr(given)
    workload = read(with_queue(given, "q"))
    assert (workload.scheduler, workload.queue) == ("t9k-scheduler", "q")
    assert repr(given) == before, "the caller's object is not touched"


@pytest.mark.parametrize("given", [pytorch(queue=None), mpi_v1(), notebook(), GROUP, TUNE])
def test_priority(given: dict[str, Any]) -> None:
    assert read(with_queue(given, priority=44)).priority == 44
    assert read(with_queue(given, priority=44)).queue == (read(given).queue or "default")


def test_nothing_named_changes_nothing() -> None:
    assert with_queue(pytorch(queue=None)) == pytorch(queue=None)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (POD, "priority"),
        (JOB, "priority"),
        ({**pytorch(), "spec": 3}, "spec"),
        ({**pytorch(), "spec": {"scheduler": "x"}}, "spec.scheduler"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], path: str) -> None:
    with pytest.raises(Invalid) as caught:
        with_queue(given, "q", 5)
    assert caught.value.errors[0].path == path


def test_unknown_kind() -> None:
    with pytest.raises(UnknownKind):
        with_queue({"kind": "Gadget"}, "q")
