"""Jobs from words: which object they become, and what is said of words that contradict each other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.model.dns import is_label
from t9ksched.model.errors import Invalid
from t9ksched.model.names import GPU_MEMORY_ANNOTATION, GPU_MODEL_ANNOTATION, QUEUE_LABEL, SCHEDULER_NAME
from t9ksched.workloads.compose.asked import Asked, Mount, read_environment, read_mounts, stem_of
from t9ksched.workloads.compose.job import compose
from t9ksched.workloads.compose.torchrun import torchrun_call
from t9ksched.workloads.read import read, validate


def asked(*command: str, **more: Any) -> Asked:
    return Asked(**({"name": "j", "command": command or ("true",), "image": "i"} | more))


def test_one_pod_is_a_job_that_is_not_tried_again() -> None:
    obj = compose(asked("python", "train.py", gpus=4, cpu="8", memory="64Gi", queue="a100")).obj
    assert (obj["apiVersion"], obj["kind"]) == ("batch/v1", "Job")
    spec = obj["spec"]["template"]["spec"]
    assert obj["spec"]["backoffLimit"] == 0
    assert spec["restartPolicy"] == "Never"
    assert spec["schedulerName"] == SCHEDULER_NAME
    assert obj["spec"]["template"]["metadata"]["labels"] == {QUEUE_LABEL: "a100"}
    assert spec["containers"][0]["command"] == ["python", "train.py"]
    assert spec["containers"][0]["resources"] == {
        "requests": {"cpu": "8", "memory": "64Gi"},
        "limits": {"memory": "64Gi", "nvidia.com/gpu": 4},
    }
    workload = read(obj | {"metadata": obj["metadata"] | {"namespace": "lab"}})
    assert workload.queue == "a100"
    assert workload.totals["nvidia.com/gpu"] == 4


@pytest.mark.parametrize(
    ("more", "replicas"),
    [({"replicas": 3}, 3), ({"torchrun": True}, 1), ({"priority": 7}, 1), ({"replicas": 2, "retries": 3}, 2)],
)
def test_what_a_job_of_kubernetes_cannot_be_is_a_training_job(more: dict[str, Any], replicas: int) -> None:
    obj = compose(asked("python", "train.py", gpus=2, **more)).obj
    assert obj["kind"] == "PyTorchTrainingJob"
    assert validate(obj) == []
    worker = obj["spec"]["replicaSpecs"][0]
    assert worker["replicas"] == replicas
    assert worker["restartPolicy"] == ("OnFailure" if more.get("retries") else "Never")
    assert obj["spec"]["runPolicy"]["backoffLimit"] == more.get("retries", 0)
    assert obj["spec"]["scheduler"]["t9kScheduler"].get("priority") == more.get("priority")
    assert ("torchrunConfig" in obj["spec"]) == bool(more.get("torchrun"))


def test_cards_are_chosen_by_annotations_of_the_pods() -> None:
    found = compose(asked(gpus=1, gpu_model="A100,H100", gpu_memory="20Gi", replicas=2))
    template = found.obj["spec"]["replicaSpecs"][0]["template"]
    assert template["metadata"]["annotations"] == {GPU_MODEL_ANNOTATION: "A100,H100", GPU_MEMORY_ANNOTATION: "20Gi"}
    path = f"spec.replicaSpecs[0].template.metadata.annotations[{GPU_MODEL_ANNOTATION}]"
    assert found.fields[path] == "gpu-model"


def test_faults_of_amounts_are_about_the_words_that_gave_them() -> None:
    fields = compose(asked(gpus=1, gpu_resource="amd.com/gpu")).fields
    container = "spec.template.spec.containers[0]"
    assert fields[f"{container}.resources.limits[amd.com/gpu]"] == "gpus"
    assert fields[f"{container}.resources.requests.memory"] == "memory"


@pytest.mark.parametrize(("command", "notes"), [("python", 1), ("torchrun", 0)])
def test_a_kind_that_the_priority_decides_is_told(command: str, notes: int) -> None:
    assert len(compose(asked(command, "fit.py", priority=3)).notes) == notes


def test_claims_are_volumes_one_for_each_claim() -> None:
    mounts = (Mount("data", "/data", read_only=True), Mount("home", "/home"), Mount("data", "/again"))
    spec = compose(asked(mounts=mounts)).obj["spec"]["template"]["spec"]
    assert [one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"]] == ["data", "home"]
    assert [(one["name"], one["mountPath"], one.get("readOnly")) for one in spec["containers"][0]["volumeMounts"]] == [
        ("claim-0", "/data", True),
        ("claim-1", "/home", None),
        ("claim-0", "/again", None),
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"image": ""}, ["image"]),
        ({"command": ()}, ["command"]),
        ({"gpus": -1, "retries": -2}, ["gpus", "retries"]),
        ({"replicas": 0}, ["replicas"]),
        ({"gpu_model": "A100", "gpu_cores": "50"}, ["gpu-model", "gpu-cores"]),
    ],
)
def test_words_that_make_no_job(more: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(Invalid) as caught:
        compose(asked(**more))
    assert [fault.path for fault in caught.value.errors] == words


@pytest.mark.parametrize(
    ("command", "gpus", "args", "config", "left_out"),
    [
        ("python train.py -x", 2, ["train.py", "-x"], {"procPerNode": "gpu"}, []),
        ("python3.11 -m pkg.train", 2, ["-m", "pkg.train"], {"procPerNode": "gpu"}, []),
        ("train.py 1", 0, ["train.py", "1"], {"procPerNode": 1}, []),
        ("./solve --fast", 1, ["--no_python", "./solve", "--fast"], {"procPerNode": "gpu"}, []),
        (
            "torchrun --nnodes=2 --nproc_per_node 8 --rdzv-endpoint h:1 --max-restarts=3 --tee 3 train.py --nnodes 9",
            8,
            ["train.py", "--nnodes", "9"],
            {"procPerNode": 8, "maxRestarts": 3, "extraOptions": ["--tee=3"]},
            ["--nnodes", "--rdzv-endpoint"],
        ),
        ("torchrun --standalone -m pkg", 1, ["-m", "pkg"], {"procPerNode": "gpu"}, ["--standalone"]),
        ("torchrun", 1, [], {"procPerNode": "gpu"}, []),
    ],
)
def test_commands_of_torchrun(command: str, gpus: int, args: list[str], config: Any, left_out: list[str]) -> None:
    call = torchrun_call(command.split(), gpus)
    assert (list(call.args), list(call.left_out)) == (args, left_out)
    assert call.config == {"enabled": True} | config


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        ("python train.py", "train"),
        ("/usr/bin/python3 -u /src/My_Train.v2.py --x", "my-train-v2"),
        ("env A=b bash ./go.sh", "go"),
        ("torchrun --nproc_per_node=4 fit.py", "fit"),
        ("nvidia-smi", "nvidia-smi"),
        ("python -c import\u00a0os;print(1)", "python"),
        ("torchrun --nproc-per-node 4 fit.py", "fit"),
        ("./7zip", "run-7zip"),
        ("--", "run"),
    ],
)
def test_jobs_without_a_name_are_called_after_what_they_run(command: str, stem: str) -> None:
    assert stem_of(command.split(" ")) == stem


@given(st.lists(st.text(), max_size=5))
def test_every_generated_name_is_a_name(command: list[str]) -> None:
    assert is_label(stem_of(command))


def test_variables_and_claims_are_read() -> None:
    assert read_environment(["A=b=c", "E=", "HOME"], {"HOME": "/h"}) == {"A": "b=c", "E": "", "HOME": "/h"}
    assert read_mounts(["c:/d:ro", "e:/f"]) == (Mount("c", "/d", True), Mount("e", "/f"))


@pytest.mark.parametrize("texts", [["=x"], ["1A=x"], ["MISSING"], ["a b=c"]])
def test_what_is_no_variable(texts: list[str]) -> None:
    with pytest.raises(Invalid):
        read_environment(texts, {})


@pytest.mark.parametrize("texts", [["c"], ["c:d"], [":/d"], ["c:/d:rx"], ["c:/d", "e:/d"]])
def test_what_is_no_mount(texts: list[str]) -> None:
    with pytest.raises(Invalid):
        read_mounts(texts)
