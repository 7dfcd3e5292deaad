"""Which states of the GPU operator keep pods from a node's accelerators, and the words for them."""

import pytest

from t9ksched.model.cards import CardTable
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.readiness import is_validator, unready

GPU = "nvidia.com/gpu"
PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
MIG, UPGRADE, DEPLOY = "nvidia.com/mig.config.state", "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu.deploy."
PAUSED = "paused-for-mig-change"
UPGRADING = (
    *(f"{step}-required" for step in ("cordon", "wait-for-jobs", "pod-deletion", "drain", "node-maintenance")),
    *(f"{step}-required" for step in ("post-maintenance", "pod-restart", "validation", "uncordon")),
)


@pytest.mark.parametrize(
    ("labels", "gpus", "says"),
    [
        ({}, 8, None),
        ({}, 0, None),
        ({MIG: "success"}, 8, None),
        ({MIG: ""}, 8, None),
        ({MIG: "pending"}, 8, f"{MIG}=pending: its MIG layout is being changed"),
        ({MIG: "rebooting"}, 8, f"{MIG}=rebooting: it is restarted for another MIG layout"),
        ({MIG: "failed"}, 8, f"{MIG}=failed: its MIG layout could not be changed"),
        ({MIG: "new-word"}, 8, f"{MIG}=new-word: its MIG layout is not settled"),
        ({f"{DEPLOY}device-plugin": PAUSED}, 8, f"{DEPLOY}device-plugin={PAUSED}: its MIG layout is being changed"),
        ({f"{DEPLOY}dcgm": PAUSED}, 8, None),
        *(({UPGRADE: state}, 8, None) for state in ("", "upgrade-done", "upgrade-required")),
        *(({UPGRADE: state}, 8, f"{UPGRADE}={state}: its driver is being upgraded") for state in UPGRADING),
        ({UPGRADE: "upgrade-failed"}, 8, f"{UPGRADE}=upgrade-failed: its driver could not be upgraded"),
        ({UPGRADE: "new-word"}, 8, f"{UPGRADE}=new-word: its driver is being upgraded"),
        (PCI, 8, None),
        (PCI, 0, "it has NVIDIA cards and offers none of them yet: no GPU operator works there"),
        (PCI | {f"{DEPLOY}operands": "false"}, 0, None),
        (
            PCI | {f"{DEPLOY}driver": "true", f"{DEPLOY}device-plugin": "true"},
            0,
            f"{DEPLOY}driver=true: it has NVIDIA cards and offers none of them yet: the GPU operator installs driver"
            " and device plugin there",
        ),
        (
            PCI | {f"{DEPLOY}driver": "true", f"{DEPLOY}device-plugin": "false"},
            0,
            f"{DEPLOY}device-plugin=false: it has NVIDIA cards and offers none of them yet: the GPU operator was told"
            " to leave parts out there",
        ),
        (
            PCI | {f"{DEPLOY}driver": "true", f"{DEPLOY}gpu-feature-discovery": PAUSED},
            0,
            f"{DEPLOY}gpu-feature-discovery={PAUSED}: it has NVIDIA cards and offers none of them yet: its MIG layout"
            " is being changed",
        ),
    ],
)
def test_states(labels: dict[str, str], gpus: int, says: str | None) -> None:
    found = unready(labels, {"cpu": 4, GPU: gpus})
    assert (None if found is None else str(found)) == says
    assert found is None or found.remedy


def test_failing_validators_are_in_the_words_of_what_is_not_ready_only() -> None:
    fails = ["the pod nvidia-operator-validator-x fails (CrashLoopBackOff)"]
    found = unready(PCI | {f"{DEPLOY}driver": "true"}, {}, fails)
    assert found is not None
    assert str(found) == f"it has NVIDIA cards and offers none of them yet; {fails[0]}"
    assert unready(PCI, {GPU: 8}, fails) is None


def facts(gpus: int, **labels: str) -> NodeFacts:
    named = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    node = {"metadata": {"name": "n", "labels": named}, "status": {"allocatable": {GPU: str(gpus)}}}
    return node_facts(decode_node(node))


def test_a_driver_upgrade_leaves_the_cards_their_indices() -> None:
    node = {"metadata": {"name": "n", "labels": {UPGRADE: "drain-required"}}, "status": {"allocatable": {GPU: "8"}}}
    found = node_facts(decode_node(node))
    assert (found.mode, found.cards.counts) == ("NotReady", {GPU: 8})
    found = facts(8, mig_config_state="pending")
    assert (found.mode, found.cards) == ("NotReady", CardTable())


@pytest.mark.parametrize(
    ("namespace", "name", "is_one"),
    [
        ("gpu-operator", "nvidia-operator-validator-abcde", True),
        ("gpu-operator-resources", "nvidia-driver-validation", True),
        ("nvidia-gpu-operator", "nvidia-device-plugin-validation-x", True),
        ("gpu-operator", "nvidia-driver-daemonset-x", False),
        ("gpu-operator", "nvidia-operator-validators", False),
        ("ml", "nvidia-operator-validator-abcde", False),
    ],
)
def test_validators(namespace: str, name: str, is_one: bool) -> None:
    assert is_validator(namespace, name) is is_one
