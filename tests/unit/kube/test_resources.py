import pytest

from t9ksched.kube import resources
from t9ksched.kube.resources import ALL, LEASES, NODES, PODS, QUEUES, by_kind, of


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path("ns", "p", "binding"), "/api/v1/namespaces/ns/pods/p/binding"),
        (NODES.path(None, "n1"), "/api/v1/nodes/n1"),
        (LEASES.path("ns", "l"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
        (
            QUEUES.path("t9k-system", "q", "status"),
            "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/t9k-system/queues/q/status",
        ),
        (PODS.path("ns", "a/b?c"), "/api/v1/namespaces/ns/pods/a%2Fb%3Fc"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(("namespace", "name"), [(None, "p"), ("ns", ""), ("ns", "..")])
def test_a_path_that_would_reach_something_else_is_refused(namespace: str | None, name: str) -> None:
    with pytest.raises(ValueError, match=r"Pod"):
        PODS.path(namespace, name)


def test_every_row_is_found_by_its_kind_and_none_twice() -> None:
    assert len({(row.api_version, row.kind) for row in ALL}) == len(ALL)
    for row in ALL:
        assert by_kind(row.api_version, row.kind) is row
        assert of({"apiVersion": row.api_version, "kind": row.kind}) is row


BATCH = (
    "GenericJob PyTorchTrainingJob TensorFlowTrainingJob XGBoostTrainingJob DeepSpeedJob ColossalAIJob MPIJob BeamJob "
    "WorkflowRun"
)
PLATFORM = "AutoTuneExperiment Notebook SimpleMLService MLService TensorBoard Explorer VirtualServer Project"


@pytest.mark.parametrize(
    ("group", "kinds"), [("batch.tensorstack.dev", BATCH), ("tensorstack.dev", PLATFORM)], ids=["batch", "platform"]
)
def test_kinds_that_name_a_queue(group: str, kinds: str) -> None:
    for kind in kinds.split():
        found = by_kind(f"{group}/v1beta1", kind)
        assert (found.plural, found.namespaced) == (kind.lower() + "s", True)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(KeyError, match="Gizmo"):
        resources.by_kind("v1", "Gizmo")
