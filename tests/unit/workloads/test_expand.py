"""What the three kinds become: names, labels, environment, commands, services, groups."""

from typing import Any

import pytest

from t9ksched.model.errors import Invalid
from t9ksched.workloads.actions import Expansion
from t9ksched.workloads.keypair import with_keys
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import (
    colossal_v1,
    colossal_v2,
    container,
    mpi_v1,
    mpi_v2,
    notebook,
    obj,
    pytorch,
    template,
)

GROUP, QUEUE, ROLE = (f"scheduler.tensorstack.dev/{key}" for key in ("group-name", "queue", "role"))
OWNER = {"controller": True, "blockOwnerDeletion": True}


def env(pod: dict[str, Any], index: int = 0) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][index].get("env", [])}


def names(expansion: Expansion) -> list[str]:
    return [pod["metadata"]["name"] for pod in expansion.pods]


def everything(expansion: Expansion) -> list[dict[str, Any]]:
    return [*expansion.companions, *expansion.pods]


def two_types(**spec: Any) -> dict[str, Any]:
    types = [
        {"type": "Master", "template": template(container("helper"), container("pytorch"))},
        {"type": "worker", "replicas": 2, "template": template(container("python"))},
    ]
    return pytorch(replicaSpecs=types, **spec)


@pytest.mark.parametrize("job", [pytorch(), mpi_v1(), mpi_v2(), notebook()])
def test_everything_belongs_to_the_workload(job: dict[str, Any]) -> None:
    for each in everything(expand(job)):
        assert each["metadata"]["namespace"] == "lab"
        if each["kind"] == "Secret":
            continue  # it belongs to the job's ConfigMap
        assert each["metadata"]["ownerReferences"] == [
            {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"],
             "uid": job["metadata"]["uid"], **OWNER}
        ]  # fmt: skip
        labels = each["metadata"]["labels"]
        assert labels["tensorstack.dev/component"] == job["kind"].lower()
        assert labels["tensorstack.dev/owner-name"] == job["metadata"]["name"]


@pytest.mark.parametrize(
    ("job", "group", "pods"),
    [
        (pytorch(replicas=4), {"minMember": 4, "priority": 5, "queue": "a100"}, [f"net-worker-{i}" for i in range(4)]),
        (
            two_types(),
            {
                "minMember": 3,
                "priority": 5,
                "queue": "a100",
                "roles": [{"name": "Master", "minMember": 1}, {"name": "worker", "minMember": 2}],
            },
            ["net-master-0", "net-worker-0", "net-worker-1"],
        ),
        (
            pytorch(
                elastic={"enabled": True, "minReplicas": 2, "maxReplicas": 6, "expectedReplicas": 3},
                torchrunConfig={"enabled": True},
            ),
            {"minMember": 2, "priority": 5, "queue": "a100"},
            ["net-worker-0", "net-worker-1", "net-worker-2"],
        ),
        (
            mpi_v1(replicas=2),
            {
                "minMember": 3,
                "priority": 2,
                "queue": "a40",
                "roles": [{"name": "launcher", "minMember": 1}, {"name": "worker", "minMember": 2}],
            },
            ["walk-launcher-0", "walk-worker-0", "walk-worker-1"],
        ),
        (notebook(), None, ["managed-notebook-lab-0"]),
        (pytorch(queue=None), None, ["net-worker-0", "net-worker-1"]),
    ],
)
def test_group_and_pods(job: dict[str, Any], group: dict[str, Any] | None, pods: list[str]) -> None:
    expansion = expand(job)
    assert names(expansion) == pods
    assert (expansion.podgroup["spec"] if expansion.podgroup else None) == group


def test_labels_of_a_training_pod() -> None:
    pods = expand(two_types()).pods
    labels = pods[0]["metadata"]["labels"]
    assert labels == {
        "pytorchtrainingjob": "net",
        "pytorchtrainingjob-replica": "net-master-0",
        "replica-type": "Master",
        "replica-index": "0",
        "job-role": "master",
        "tensorstack.dev/component": "pytorchtrainingjob",
        "tensorstack.dev/component-type": "user",
        "tensorstack.dev/owner-name": "net",
        GROUP: "net",
        QUEUE: "a100",
        ROLE: "Master",
    }
    assert "job-role" not in pods[1]["metadata"]["labels"]
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"t9k-scheduler"}
    assert {pod["spec"]["restartPolicy"] for pod in pods} == {"Never"}


def test_without_a_block_nothing_of_ours_is_stamped() -> None:
    pod = expand(pytorch(queue=None)).pods[0]
    assert "schedulerName" not in pod["spec"]
    assert not any(key.startswith("scheduler.") for key in pod["metadata"]["labels"])


def test_the_users_labels_and_annotations_are_carried() -> None:
    job = pytorch()
    meta = {"labels": {"team": "x", QUEUE: "cheat", "replica-index": "9"}, "annotations": {"a/b": "c"}}
    job["spec"]["replicaSpecs"][0]["template"]["metadata"] = meta
    pod = expand(job).pods[1]
    assert pod["metadata"]["annotations"] == {"a/b": "c"}
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["labels"][QUEUE] == "a100"
    assert pod["metadata"]["labels"]["replica-index"] == "1"
    assert meta["labels"][QUEUE] == "cheat", "the object itself is not touched"


def test_annotations_for_the_scheduler_go_to_the_group() -> None:
    limit = {"scheduler.tensorstack.dev/time-limit": "2h"}
    job = pytorch()
    job["metadata"]["annotations"] = {**limit, "other": "x"}
    group = expand(job).podgroup
    assert group is not None
    assert group["metadata"]["annotations"] == limit
    alone = notebook()
    alone["metadata"]["annotations"] = limit
    assert limit.items() <= expand(alone).pods[0]["metadata"]["annotations"].items()


def test_ranks_follow_the_order_of_the_types() -> None:
    pods = expand(two_types()).pods
    assert [env(pod)["RANK"] for pod in pods] == ["0", "1", "2"]
    for pod in pods:
        assert env(pod)["MASTER_ADDR"] == "net-master-0.net"
        assert env(pod)["MASTER_PORT"] == "29500"
        assert env(pod)["WORLD_SIZE"] == "3"
    assert env(pods[0], 1)["RANK"] == "0", "every container gets them"
    assert (pods[0]["spec"]["hostname"], pods[0]["spec"]["subdomain"]) == ("net-master-0", "net")


def test_the_address_is_that_of_the_service() -> None:
    (service,) = expand(pytorch()).services
    assert service["metadata"]["name"] == "net"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    selector = service["spec"]["selector"]
    assert all(selector.items() <= pod["metadata"]["labels"].items() for pod in expand(pytorch()).pods)


def test_a_variable_of_the_user_stays() -> None:
    job = pytorch()
    containers = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": "MASTER_PORT", "value": "1234"}, {"name": "X", "value": "$(RANK)"}]
    found = [each["name"] for each in expand(job).pods[0]["spec"]["containers"][0]["env"]]
    assert found == ["MASTER_ADDR", "RANK", "WORLD_SIZE", "MASTER_PORT", "X"]
    assert env(expand(job).pods[0])["MASTER_PORT"] == "1234"


@pytest.mark.parametrize(
    ("config", "elastic", "expected"),
    [
        (
            {"procPerNode": "gpu", "maxRestarts": 2},
            {},
            ["--nnodes=2", "--nproc_per_node=gpu", "--rdzv_backend=c10d", "--rdzv_id=uid-net",
             "--rdzv_endpoint=net-worker-0.net:29500", "--max_restarts=2"],
        ),
        (
            {"procPerNode": 4, "rdzvBackend": "etcd", "extraOptions": ["--rdzv_endpoint=etcd:2379"]},
            {},
            ["--nnodes=2", "--nproc_per_node=4", "--rdzv_backend=etcd", "--rdzv_id=uid-net",
             "--rdzv_endpoint=etcd:2379"],
        ),
        (
            {},
            {"enabled": True, "minReplicas": 1, "maxReplicas": 3},
            ["--nnodes=1:3", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_id=uid-net",
             "--rdzv_endpoint=net-worker-0.net:29500"],
        ),
    ],
)  # fmt: skip
def test_torchrun(config: dict[str, Any], elastic: dict[str, Any], expected: list[str]) -> None:
    job = pytorch(torchrunConfig={"enabled": True, **config}, elastic=elastic)
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0].update(command=["no"], args=["train.py"])
    pod = expand(job).pods[0]
    made = pod["spec"]["containers"][0]
    assert made["command"] == ["torchrun", *expected]
    assert made["args"] == ["train.py"]
    assert "RANK" not in env(pod)


def test_elastic_types_share_by_weight() -> None:
    types = [
        {"type": "a", "scalingWeight": 1, "template": template()},
        {"type": "b", "scalingWeight": 3, "template": template()},
    ]
    elastic = {"enabled": True, "minReplicas": 2, "maxReplicas": 8, "expectedReplicas": 5}
    expansion = expand(pytorch(replicaSpecs=types, elastic=elastic, torchrunConfig={"enabled": True}))
    assert names(expansion) == ["net-a-0", "net-b-0", "net-b-1", "net-b-2", "net-b-3"]
    assert expansion.podgroup is not None
    assert expansion.podgroup["spec"]["roles"] == [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]


def test_debug_mode_replaces_the_command() -> None:
    job = two_types(
        runMode={"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["sh"]}]}},
        torchrunConfig={"enabled": True},
    )
    master, worker, _ = expand(job).pods
    assert master["spec"]["containers"][1]["command"] == ["sleep", "inf"], "the training container, by its name"
    assert "command" not in master["spec"]["containers"][0]
    assert worker["spec"]["containers"][0]["command"] == ["sh"]


def test_after_a_pause_the_given_command_runs() -> None:
    resume = [{"type": "worker", "command": ["again"], "args": ["--resume"], "skipInitContainer": True}]
    job = pytorch(runMode={"pause": {"enabled": False, "resumeSpecs": resume}})
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["initContainers"] = [container("setup")]
    assert "command" not in expand(job).pods[0]["spec"]["containers"][0]
    job["status"] = {"conditions": [{"type": "Paused", "status": "False", "reason": "Resumed"}]}
    pod = expand(job).pods[0]["spec"]
    assert (pod["containers"][0]["command"], pod["containers"][0]["args"]) == (["again"], ["--resume"])
    assert "initContainers" not in pod


def test_mpi_launcher_of_the_first_generation() -> None:
    launcher = expand(mpi_v1(mca={"btl_tcp_if_include": "eth0"})).pods[0]
    (made,) = launcher["spec"]["containers"]
    assert (made["name"], made["image"]) == ("mpi-launcher", "busybox")
    assert made["resources"]["requests"] == {"cpu": "100m", "memory": "100Mi"}
    assert made["command"][0] == "/opt/mpi/bin/mpirun"
    assert made["command"][-2:] == ["./walk", "10"]
    text = " ".join(made["command"])
    assert "--hostfile /etc/mpi/hostfile" in text
    assert "--mca btl_tcp_if_include eth0" in text
    assert launcher["metadata"]["labels"]["mpi-job"] == "walk"
    (wait,) = launcher["spec"]["initContainers"]
    assert wait["image"] == "busybox"
    assert "until ssh" in wait["command"][2]
    assert {each["name"] for each in wait["volumeMounts"]} == {"mpi-config", "mpi-ssh"}


def test_mpi_launcher_takes_no_cards_of_its_workers() -> None:
    launcher, *workers = expand(mpi_v1(gpu=4)).pods
    assert "nvidia.com/gpu" not in str(launcher["spec"])
    assert workers[0]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 4}


def test_mpi_second_generation() -> None:
    launcher, *workers = expand(mpi_v2()).pods
    assert launcher["spec"]["containers"][0]["command"][-2:] == ["-v", "./walk"]
    assert [pod["metadata"]["name"] for pod in workers] == ["walk-worker-0", "walk-worker-1"]
    assert launcher["metadata"]["labels"][ROLE] == "launcher"


@pytest.mark.parametrize(("job", "slots"), [(mpi_v1(replicas=2), 1), (mpi_v1(replicas=2, gpu=4), 4), (mpi_v2(), 2)])
def test_hostfile_counts_cards(job: dict[str, Any], slots: int) -> None:
    (config,) = expand(job).configmaps
    assert config["data"]["hostfile"] == "".join(f"walk-worker-{i}.walk slots={slots}\n" for i in range(2))


def test_mpi_workers_run_sshd_with_the_jobs_keys() -> None:
    expansion = expand(mpi_v1(ssh={"sshAuthMountPath": "/keys"}))
    worker = expansion.pods[1]["spec"]
    command = worker["containers"][0]["command"][-1]
    assert "exec /usr/sbin/sshd -D" in command
    assert "AuthorizedKeysFile=/keys/authorized_keys" in command
    (secret,) = expansion.secrets
    assert "data" not in secret, "keys are random, so they are not made here"
    assert secret["metadata"]["name"] == "walk-uid-walk-ssh", "the name cannot be known before the job exists"
    filled = with_keys(secret, {"metadata": {"uid": "u9"}}, "PRIVATE", "PUBLIC")
    assert filled["stringData"]["ssh-privatekey"] == "PRIVATE"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "walk-mpi", "uid": "u9"}
    assert filled["metadata"]["ownerReferences"] == [owner]
    mounted = next(each for each in worker["volumes"] if each["name"] == "mpi-ssh")
    assert mounted["secret"]["secretName"] == secret["metadata"]["name"]


def test_mpi_debug_mode() -> None:
    mode = {"debug": {"enabled": True, "replicaSpecs": [{"type": "launcher", "skipInitContainer": True}]}}
    launcher, worker, *_ = expand(mpi_v1(runMode=mode)).pods
    assert launcher["spec"]["containers"][0]["command"] == ["sleep", "inf"]
    assert "initContainers" not in launcher["spec"]
    sshd = worker["spec"]["containers"][0]
    assert "args" not in sshd
    assert sshd["command"][2].startswith("mkdir -p /run/sshd && exec /usr/sbin/sshd -D"), "images may lack the folder"
    assert {"-e", "AuthorizedKeysFile=/root/.ssh/authorized_keys"} <= set(sshd["command"][2].split())
    worker = expand(mpi_v1(ssh={}, runMode=mode)).pods[1]
    assert "exec /usr/bin/sshd -D" in worker["spec"]["containers"][0]["command"][2], "as the platform documents"
    mode["debug"]["replicaSpecs"].append({"type": "worker", "command": ["sleep", "inf"]})
    worker = expand(mpi_v1(runMode=mode)).pods[1]
    assert worker["spec"]["containers"][0]["command"] == ["sleep", "inf"]
    assert "args" not in worker["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("make", "command", "waits"),
    [
        (mpi_v2, None, True),
        (mpi_v2, ["sleep", "inf"], False),
        (mpi_v2, ["/bin/sh", "-c", "exec /opt/sshd -D"], True),
        (colossal_v1, None, False),
        (colossal_v2, None, False),
        (colossal_v2, ["/usr/sbin/sshd", "-D"], True),
    ],
)
@pytest.mark.parametrize("mode", ["debug", "resumed"])
def test_a_launcher_waits_only_for_workers_that_run_sshd(make: Any, command: Any, waits: bool, mode: str) -> None:
    given = [{"type": "worker", **({"command": command} if command else {})}]
    if mode == "debug":
        job = make(runMode={"debug": {"enabled": True, "replicaSpecs": given}})
    else:
        job = make(runMode={"pause": {"enabled": False, "resumeSpecs": given}})
        job["status"] = {"conditions": [{"type": "Paused", "status": "False", "reason": "Resumed"}]}
        waits = waits or command is None  # they run what they ran before
    launcher = expand(job).pods[0]["spec"]
    assert [one["name"] for one in launcher.get("initContainers", ())] == ["wait-for-workers"] * waits


@pytest.mark.parametrize("make", [mpi_v1, mpi_v2])
def test_pods_of_an_mpi_job_are_labelled_with_it(make: Any) -> None:
    for pod in expand(make()).pods:
        assert (pod["metadata"]["labels"]["app"], pod["metadata"]["labels"]["mpi-job"]) == ("walk", "walk")


def test_a_label_app_of_the_template_stays() -> None:
    job = mpi_v1()
    job["spec"]["worker"]["template"]["metadata"] = {"labels": {"app": "mine"}}
    assert {pod["metadata"]["labels"]["app"] for pod in expand(job).pods} == {"mine"}


def test_notebook() -> None:
    expansion = expand(notebook(ssh={"enabled": True, "authorized_keys": ["ssh-ed25519 AAAA me"]}))
    (pod,) = expansion.pods
    assert env(pod) == {"NB_PREFIX": "/notebook/lab/lab/", "ENABLE_SSH_SERVER": "true"}
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod["metadata"]["labels"][QUEUE] == "a100"
    assert GROUP not in pod["metadata"]["labels"]
    assert pod["metadata"]["labels"]["notebook.tensorstack.dev/name"] == "lab"
    assert [each["metadata"]["name"] for each in expansion.services] == [
        "managed-notebook-lab",
        "managed-notebook-lab-ssh",
    ]
    assert expansion.configmaps[0]["data"]["authorized_keys"] == "ssh-ed25519 AAAA me\n"


def test_expanding_twice_gives_the_same() -> None:
    for job in (two_types(), mpi_v1(), mpi_v2(), notebook()):
        assert expand(job) == expand(job)


def test_other_kinds_have_no_controller() -> None:
    with pytest.raises(Invalid, match="no controller"):
        expand(obj("Pod", {"containers": [container()]}, "v1"))
