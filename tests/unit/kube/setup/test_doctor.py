"""Each trouble on a cluster is found, says where it is, and has a remedy."""

from typing import Any

import pytest

from t9ksched.kube.setup.crds import VERSION_LABEL
from t9ksched.kube.setup.doctor import judge_definitions, judge_nodes, judge_pods, judge_version
from t9ksched.kube.setup.findings import Finding, Level
from t9ksched.model.card_size import CardSize
from t9ksched.model.hami import Registered

GPU = "nvidia.com/gpu"
PCI = {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}
DEPLOY, MIG = "nvidia.com/gpu.deploy.driver", "nvidia.com/mig.config.state"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
PRODUCT = {"nvidia.com/gpu.product": "A100"}


def node(gpus: int = 0, *, ready: str = "True", cordoned: bool = False, labels: Any = None, **notes: str) -> Any:
    return {
        "metadata": {
            "name": "n",
            "labels": labels or {},
            "annotations": {k.replace("__", "/"): v for k, v in notes.items()},
        },
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": {"cpu": "8", GPU: str(gpus)}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def registered(text: str, offered: int = 10) -> Any:
    return node(offered, labels=PRODUCT, **{"hami.io__node-nvidia-register": text})


def divided(capacity: str, allocatable: str) -> Any:
    def amounts(core: str) -> dict[str, str]:
        return {"cpu": "8", "vke.volcengine.com/mgpu-core": core, "vke.volcengine.com/mgpu-memory": "130040"}

    made = node(labels={"vke.volcengine.com/mgpu-compute-policy": "fixed-share"})
    return made | {"status": made["status"] | {"capacity": amounts(capacity), "allocatable": amounts(allocatable)}}


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    for finding in findings:
        assert finding.subject
        assert bool(finding.remedy) == (finding.level is not Level.OK), "what is not well has a remedy"
    return [(str(finding.level), finding.message) for finding in findings]


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        (node(8, labels=PCI | PRODUCT), "ok", "1 nodes offer 8 cards"),
        (
            node(0, labels=PCI),
            "warning",
            "offers none of them yet: no GPU operator works there",
        ),
        (node(0, labels={"feature.node.kubernetes.io/pci-10de.present": "true"}), "warning", "offers none of them"),
        (node(0, labels=PCI | {DEPLOY: "true"}), "warning", f"installs driver and device plugin there ({DEPLOY}=true)"),
        (node(0, labels=PCI | {DEPLOY: "false"}), "warning", f"was told to leave parts out there ({DEPLOY}=false)"),
        (
            node(8, labels=PRODUCT | {MIG: "rebooting"}),
            "warning",
            f"for another MIG layout ({MIG}=rebooting)",
        ),
        (node(8, labels=PRODUCT | {MIG: "failed"}), "warning", "its MIG layout could not be changed"),
        (node(8, labels=PRODUCT | {UPGRADE: "drain-required"}), "warning", "its driver is being upgraded"),
        (node(8, labels=PRODUCT | {UPGRADE: "upgrade-failed"}), "warning", "its driver could not be upgraded"),
        (node(8, labels=PRODUCT | {UPGRADE: "upgrade-required"}), "note", "waits for its turn to get another driver"),
        (
            node(
                8,
                labels=PRODUCT | {UPGRADE: "upgrade-required"},
                **{"nvidia.com__gpu-driver-upgrade.driver-wait-for-safe-load": "true"},
            ),
            "warning",
            "its driver is to be loaded as soon as the GPU operator has emptied the node",
        ),
        (
            node(8, labels=PRODUCT, **{"scheduler.tensorstack.dev__cordoned-cards": "5,1"}),
            "note",
            "cards 1, 5 of it",
        ),
        (
            node(8, labels=PRODUCT, **{"scheduler.tensorstack.dev__gpu-links": '[["X","NV1"],["NV1","X"]]'}),
            "warning",
            "not followed: scheduler.tensorstack.dev/gpu-links has 2 rows: the node has 8 of nvidia.com/gpu",
        ),
        (
            node(8, labels=PRODUCT, **{"scheduler.tensorstack.dev__gpu-links": "NV12"}),
            "warning",
            "not followed: scheduler.tensorstack.dev/gpu-links is no JSON",
        ),
        (node(0, labels={"feature.node.kubernetes.io/pci-8086.present": "true"}), "warning", "no node offers cards"),
        (node(8), "note", "no label nvidia.com/gpu.product"),
        (node(65, labels=PRODUCT), "note", "offers 65 of nvidia.com/gpu: of more than 64 cards none has an index"),
        (node(8, labels=PRODUCT, ready="Unknown"), "warning", "is not ready"),
        (node(8, labels=PRODUCT, cordoned=True), "note", "is cordoned"),
        (registered("[]"), "warning", "its annotation hami.io/node-nvidia-register cannot be read: it names 0 cards"),
        (registered('[{"id": "GPU-a", "devmem": 9, "health": true}]', 0), "warning", "offers no nvidia.com/gpu now"),
        (registered('[{"id": "GPU-a", "devmem": 9, "health": true}]'), "ok", "1 nodes offer 1 cards"),
        (registered('[{"id": "GPU-a", "devmem": 9}]'), "note", "of its cards 0 (its device plugin says"),
        (registered('[{"id": "GPU-a", "devmem": 9}, 3]'), "warning", "card 1 of the list cannot be read"),
        (divided("400", "400"), "ok", "1 nodes offer 4 cards"),
        (divided("400", "300"), "warning", "offers 300 of its 400 of vke.volcengine.com/mgpu-core"),
        (divided("250", "250"), "warning", "offers 250 of vke.volcengine.com/mgpu-core"),
    ],
)
def test_nodes(given: Any, level: str, words: str) -> None:
    assert any(found == level and words in message for found, message in told(judge_nodes([given])))


SLICED = {"nvidia.com/gpu.product": "A100-SHARED", "nvidia.com/gpu.replicas": "4"}


@pytest.mark.parametrize(
    ("gpus", "labels", "marked", "cordoned", "none"),
    [
        (8, PRODUCT, "1,9", "card 1 of it is cordoned", "names '9', which is no card of it (it has 8,"),
        (32, SLICED, "1", "", "names '1', which is no card of it (it has 0,"),
        (8, PRODUCT, "x", "", "names 'x', which is no card of it (it has 8,"),
    ],
)
def test_cordons_are_told_as_the_scheduler_follows_them(
    gpus: int, labels: Any, marked: str, cordoned: str, none: str
) -> None:
    found = told(judge_nodes([node(gpus, labels=labels, **{"scheduler.tensorstack.dev__cordoned-cards": marked})]))
    assert any(level == "warning" and none in message for level, message in found)
    notes = [message for level, message in found if level == "note" and "cordoned" in message]
    assert [message.startswith(cordoned) for message in notes] == [True] * bool(cordoned)


@pytest.mark.parametrize(
    ("own", "level", "words"),
    [
        (None, "warning", "no Device (scheduling.koordinator.sh) of its name says which cards it has"),
        (Registered((CardSize(9, 9),)), "ok", "1 nodes offer 1 cards"),
        (Registered((CardSize(9, 9),), {0: "Xid 79"}), "note", "of its cards 0 (Xid 79) take no work"),
        (Registered((CardSize(9, 9),), {}, ("spec.devices[1]: it has no minor",)), "warning", "it has no minor"),
        (Registered((), {}, ("spec.devices is no list",)), "warning", "cannot be read: spec.devices is no list"),
    ],
)
def test_nodes_of_koordinator(own: Registered | None, level: str, words: str) -> None:
    offers = {"metadata": {"name": "k"}, "status": {"allocatable": {"koordinator.sh/gpu-core": "100"}}}
    reports = {} if own is None else {"k": own}
    assert any(found == level and words in message for found, message in told(judge_nodes([offers], own=reports)))


def validator(name: str, namespace: str = "gpu-operator", **state: Any) -> Any:
    status = {"phase": "Pending", "initContainerStatuses": [{"name": "v", "state": state}]}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"nodeName": "n"}, "status": status}


FAILS = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("gpus", "pods", "words"),
    [
        (0, [validator("nvidia-operator-validator-x7", **FAILS)], "pod nvidia-operator-validator-x7 fails (CrashLoop"),
        (
            0,
            [validator("nvidia-driver-validation", terminated={"exitCode": 3})],
            "validation fails (exit code 3)",
        ),
        (
            8,
            [validator("nvidia-device-plugin-validation", **FAILS)],
            "are not ready and get no pods: a validation of its GPUs failed: the pod nvidia-device",
        ),
        (
            8,
            [validator("nvidia-device-plugin-validation", waiting={"reason": "ErrImagePull"})],
            "offers cards, but the pod nvidia-device",
        ),
    ],
)
def test_validators_that_fail_are_named(gpus: int, pods: list[Any], words: str) -> None:
    assert any(words in message for _, message in told(judge_nodes([node(gpus, labels=PCI | PRODUCT)], pods)))


@pytest.mark.parametrize(
    "pod",
    [
        validator("nvidia-operator-validator-x7", "ml", **FAILS),
        validator("nvidia-operator-validators", **FAILS),
        validator("nvidia-operator-validator-x7", waiting={"reason": "PodInitializing"}),
        validator("nvidia-operator-validator-x7", terminated={"exitCode": 0}),
        {"metadata": {"name": "nvidia-operator-validator-x7", "namespace": "gpu-operator"}, "spec": 7},
    ],
)
def test_other_pods_say_nothing_of_a_node(pod: Any) -> None:
    assert not any("fails" in message for _, message in told(judge_nodes([node(0, labels=PCI)], [pod])))


def test_a_healthy_node_has_no_other_finding() -> None:
    assert told(judge_nodes([node(8, labels=PCI | PRODUCT)])) == [("ok", "1 nodes offer 8 cards")]


def pod(scheduler: str, gpus: int, at: str = "n", phase: str = "Running") -> Any:
    container = {"name": "c", "resources": {"limits": {GPU: gpus} if gpus else {}}}
    spec = {"schedulerName": scheduler, "nodeName": at, "containers": [container]}
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "level", "words"),
    [
        ([pod("t9k-scheduler", 8), pod("default-scheduler", 0)], "ok", "no other scheduler"),
        ([pod("volcano", 4), pod("volcano", 2, at="m")], "warning", "2 pods with 6 cards on 2 of the nodes"),
        ([pod("default-scheduler", 1, at="")], "warning", "1 pod with 1 cards that wait"),
        ([pod("volcano", 4, phase="Succeeded")], "ok", "no other scheduler"),
        ([{"metadata": {}, "spec": 7}], "ok", "no other scheduler"),
    ],
)
def test_who_else_places_cards(pods: list[Any], level: str, words: str) -> None:
    ((found, message),) = told(judge_pods(pods))
    assert found == level
    assert words in message


def kind(name: str, version: str) -> Any:
    return {"metadata": {"name": name, "labels": {VERSION_LABEL: version}}}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("0.2.0", [("ok", "are installed and current")]),
        ("0.10.0", [("ok", "are installed and current")]),
        ("0.1.9", [("warning", "is of release 0.1.9, this is 0.2.0")]),
        ("", [("warning", "names no release, this is 0.2.0")]),
    ],
)
def test_kinds_by_release(there: str, expected: list[tuple[str, str]]) -> None:
    name = "queues.scheduler.tensorstack.dev"
    assert told(judge_definitions([kind(name, "0.2.0")], {name: kind(name, there)})) == expected


def test_missing_kinds_block_only_where_nothing_goes_without_them() -> None:
    wanted = [kind("queues.scheduler.tensorstack.dev", "1"), kind("tensorboards.tensorstack.dev", "1")]
    assert [level for level, _ in told(judge_definitions(wanted, {}))] == ["blocks", "warning"]


@pytest.mark.parametrize(("version", "level"), [("v1.36.1", "ok"), ("v1.27.16-eks-1", "warning"), ("", "ok")])
def test_versions(version: str, level: str) -> None:
    assert told([judge_version({"gitVersion": version})])[0][0] == level
