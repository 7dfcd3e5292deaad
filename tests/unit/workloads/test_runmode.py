"""Pausing, resuming and scaling jobs that run, and what is submitted again of a job that was."""

from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.workloads.read import validate
from t9ksched.workloads.registry import KINDS
from t9ksched.workloads.resubmission import anew, another_name
from t9ksched.workloads.runmode import NotScalable, can_pause, is_paused, scaled
from tests.unit.workloads.builders import colossal_v2, deepspeed, generic, mpi_v1, pytorch, tensorflow

Object = dict[str, Any]
ELASTIC = {"enabled": True, "minReplicas": 2, "maxReplicas": 6, "expectedReplicas": 4}


def obj(
    kind: str, name: str = "a", labels: Object | None = None, annotations: Object | None = None, **spec: Any
) -> Object:
    meta = {
        "name": name,
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "7",
        "ownerReferences": [{"uid": "x"}],
        "labels": labels or {},
        "annotations": annotations or {},
    }
    return {"kind": kind, "metadata": meta, "spec": spec, "status": {"phase": "Failed"}}


@pytest.mark.parametrize(
    ("kind", "paused", "running"),
    [
        ("PyTorchTrainingJob", {"runMode": {"pause": {"enabled": True}, "debug": {}}}, {"runMode": {"debug": {}}}),
        ("MPIJob", {"runMode": {"pause": {"enabled": True}}}, {"runMode": {"pause": {"enabled": False}}}),
        ("Notebook", {"suspend": True}, {}),
        ("Job", {"suspend": True}, {"suspend": False}),
    ],
)
def test_what_can_be_paused(kind: str, paused: Object, running: Object) -> None:
    row = KINDS[kind]
    assert can_pause(row)
    assert is_paused(obj(kind, **paused), row)
    assert not is_paused(obj(kind, **running), row)
    again = anew(obj(kind, **paused), row, "b")["spec"]
    assert not is_paused({"spec": again}, row), "a copy runs"
    assert ("debug" in again.get("runMode", {})) == ("debug" in paused.get("runMode", {}))


@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "Deployment", "SimpleMLService"])
def test_what_cannot_be_paused(kind: str) -> None:
    assert not can_pause(KINDS[kind])


def test_sizes() -> None:
    pytorch, job = KINDS["PyTorchTrainingJob"], KINDS["Job"]
    patch, before = scaled(obj("PyTorchTrainingJob", elastic=ELASTIC), pytorch, 6)
    assert (patch, before) == ({"spec": {"elastic": {"expectedReplicas": 6}}}, 4)
    assert scaled(obj("Job", parallelism=2), job, 9) == ({"spec": {"parallelism": 9}}, 2)
    assert scaled(obj("Job"), job, 1) == ({"spec": {"parallelism": 1}}, None)
    for kind, spec, replicas, told in (
        ("PyTorchTrainingJob", {"elastic": ELASTIC}, 7, "7 is out of range: this job may have from 2 to 6"),
        ("PyTorchTrainingJob", {"elastic": ELASTIC}, 1, "from 2 to 6"),
        ("Job", {"completions": 3}, 4, "from 1 to 3"),
        ("Job", {}, 0, "1 or more"),
    ):
        with pytest.raises(Invalid, match=told):
            scaled(obj(kind, **spec), KINDS[kind], replicas)
    for kind, spec in (
        ("PyTorchTrainingJob", {}),
        ("PyTorchTrainingJob", {"elastic": ELASTIC | {"enabled": False}}),
        ("MPIJob", {}),
        ("Pod", {}),
    ):
        with pytest.raises(NotScalable):
            scaled(obj(kind, **spec), KINDS[kind], 3)


def test_a_copy_of_a_batch_job_has_nothing_of_the_server() -> None:
    labels = {"team": "a", "controller-uid": "u", "batch.kubernetes.io/job-name": "a"}
    annotations = {
        "note": "x",
        "batch.kubernetes.io/job-tracking": "",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "scheduler.tensorstack.dev/submitted-by": "ann",
        "scheduler.tensorstack.dev/submission": "s",
        "scheduler.tensorstack.dev/time-limit": "4h",
    }
    pods = {
        "metadata": {"labels": {"job-name": "a", "app": "x"}, "creationTimestamp": None},
        "spec": {"containers": []},
    }
    selector = {"matchLabels": {"controller-uid": "u"}}
    made = anew(obj("Job", "a-k2x9c", labels, annotations, template=pods, selector=selector), KINDS["Job"], "b")
    assert made == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": "ml",
            "name": "b",
            "labels": {"team": "a"},
            "annotations": {"note": "x", "scheduler.tensorstack.dev/time-limit": "4h"},
        },
        "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}},
    }


def test_the_name_of_a_copy_has_another_end() -> None:
    first = another_name("a-k2x9c", 7)
    assert (first[:2], len(first), another_name("a", 7), another_name(first, 8)[:2]) == ("a-", 7, first, "a-")


def test_a_copy_names_itself_where_the_job_did() -> None:
    variables = [{"name": "SLURM_JOB_ID", "value": "a"}, {"name": "X", "value": "a"}]
    term = {"labelSelector": {"matchLabels": {"scheduler.tensorstack.dev/group-name": "a"}}}
    made = anew(
        obj("Job", "a", template={"spec": {"containers": [{"env": variables}], "affinity": [term]}}), KINDS["Job"], "b"
    )
    pod = made["spec"]["template"]["spec"]
    assert [one["value"] for one in pod["containers"][0]["env"]] == ["b", "a"]
    assert pod["affinity"] == [{"labelSelector": {"matchLabels": {"scheduler.tensorstack.dev/group-name": "b"}}}]
    assert variables[0]["value"] == "a", "the job is left as it was"


def test_a_copy_of_a_pod_has_no_node_no_cards_and_no_token() -> None:
    token = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    data = {"name": "data", "mountPath": "/data"}
    container = {"name": "main", "volumeMounts": [token, data]}
    cards = {"scheduler.tensorstack.dev/gpu-index-container-main": "0", "vke.volcengine.com/assumed": "1"}
    volumes = [{"name": "kube-api-access-x"}, {"name": "data"}]
    spec = {"nodeName": "n1", "containers": [container], "volumes": volumes}
    made = anew(obj("Pod", annotations=cards, **spec), KINDS["Pod"], "b")
    assert made["metadata"] == {"namespace": "ml", "name": "b"}
    assert made["spec"] == {"containers": [{"name": "main", "volumeMounts": [data]}], "volumes": [{"name": "data"}]}


def test_a_gang_made_by_hand_is_no_whole_job() -> None:
    member = obj("Pod", labels={"scheduler.tensorstack.dev/group-name": "g"})
    for kind, one in (("PodGroup", obj("PodGroup")), ("Pod", member)):
        with pytest.raises(Invalid, match="made by hand"):
            anew(one, KINDS[kind], "b")


@pytest.mark.parametrize("mode", ["debug", "pause"])
@pytest.mark.parametrize(
    ("make", "types"),
    [
        (pytorch, "worker"),
        (lambda **spec: tensorflow(spec, chief=1), "chief"),
        (generic, "lead, helper"),
        (deepspeed, "worker"),
        (mpi_v1, "launcher, worker"),
        (colossal_v2, "launcher, worker"),
    ],
)
def test_a_type_that_the_job_does_not_have_is_told(make: Any, types: str, mode: str) -> None:
    """On resumption the original command would run, and what was meant to replace it cannot be corrected then."""
    field = "replicaSpecs" if mode == "debug" else "resumeSpecs"
    given = [{"type": types.split(", ")[-1].title(), "command": ["a"]}, {"type": "nosuch", "command": ["a"]}]
    (fault,) = validate(make(runMode={mode: {"enabled": True, field: given}}))
    assert fault.path == f"spec.runMode.{mode}.{field}[1].type"
    assert fault.message == f"'nosuch' is no type of this job's replicas: use one of {types}"
