import pytest
import yaml

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import parse_target
from t9ksched.packaged import folder


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ptj/a", "PyTorchTrainingJob"),
        ("pj/a", "PyTorchTrainingJob"),
        ("PyTorchTrainingJob/a", "PyTorchTrainingJob"),
        ("pytorchtrainingjobs/a", "PyTorchTrainingJob"),
        ("MJ/a", "MPIJob"),
        ("mpijobs/a", "MPIJob"),
        ("nb/a", "Notebook"),
        ("pods/a", "Pod"),
        ("job/a", "Job"),
        ("PodGroup/a", "PodGroup"),
        ("mpijob.kubeflow.org/a", "MPIJob.kubeflow.org"),
        ("MPIJobs.kubeflow.org/a", "MPIJob.kubeflow.org"),
        ("mpijob.v1.kubeflow.org/a", "MPIJob.v1.kubeflow.org"),
        ("mpijobs.v2beta1.kubeflow.org/a", "MPIJob.kubeflow.org"),
        ("mpijob.batch.tensorstack.dev/a", "MPIJob"),
        ("pytorchjobs.kubeflow.org/a", "PyTorchJob"),
        ("sts.apps/a", "StatefulSet"),
        ("SomethingElse/a", "SomethingElse"),
    ],
)
def test_short_names_in_any_case(text: str, kind: str) -> None:
    target = parse_target(text, "vision")
    assert (target.namespace, target.kind, target.name) == ("vision", kind, "a")
    assert target.path == f"/apis/v1/workloads/vision/{kind}/a"


def test_kubectl_and_the_command_line_know_the_same_short_names() -> None:
    for file in sorted(folder("crds").glob("*.yaml")):
        names = yaml.safe_load(file.read_text())["spec"]["names"]
        if "t9k" in names.get("categories", ()):  # jobs; queues have commands of their own
            for short in names.get("shortNames", ()):
                assert parse_target(f"{short}/a", "default").kind == names["kind"], file.name


@pytest.mark.parametrize("text", ["", "resnet", "ptj/", "/resnet", "ptj/a/b"])
def test_what_names_no_object_is_bad_usage(text: str) -> None:
    with pytest.raises(Failure) as failure:
        parse_target(text, "default")
    assert failure.value.code == BAD_USAGE
    assert "KIND/NAME" in failure.value.remedy
