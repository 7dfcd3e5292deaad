"""Which states of the GPU operator keep pods from a node's accelerators, and the words for them."""

import pytest

from t9ksched.model.card_table import CardTable
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.readiness import Failing, unready

GPU = "nvidia.com/gpu"
PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
MIG, UPGRADE, DEPLOY = "nvidia.com/mig.config.state", "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu.deploy."
PAUSED = "paused-for-mig-change"
UPGRADING = (
    *(f"{step}-required" for step in ("cordon", "wait-for-jobs", "pod-deletion", "drain", "node-maintenance")),
    *(f"{step}-required" for step in ("post-maintenance", "pod-restart", "validation", "uncordon")),
)


@pytest.mark.parametrize("state", ["", "upgrade-required", "upgrade-done", "cordon-required"])
def test_a_driver_that_waits_until_the_node_is_empty_keeps_pods_away_in_every_state(state: str) -> None:
    safe = "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load"
    found = unready({UPGRADE: state}, {GPU: 8}, annotations={safe: "true"})
    assert found is not None
    assert str(found).startswith(f"{safe}=true: its driver is to be loaded")
    assert found.layout, "its cards keep their indices"
    node = {
        "metadata": {"name": "n", "labels": {UPGRADE: state}, "annotations": {safe: "true"}},
        "status": {"allocatable": {GPU: "8"}},
    }
    assert node_facts(decode_node(node)).mode == "NotReady"
    assert unready({}, {GPU: 8}, annotations={safe: ""}) is None


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


LOOPS = Failing("nvidia-operator-validator-x", "CrashLoopBackOff", tried=True)
NOT_PULLED = Failing("nvidia-cuda-validator-x", "ImagePullBackOff", tried=False)


@pytest.mark.parametrize(
    ("labels", "gpus", "failing", "says"),
    [
        (PCI, 0, [LOOPS], f"it has NVIDIA cards and offers none of them yet; {LOOPS}"),
        (PCI, 0, [NOT_PULLED], f"it has NVIDIA cards and offers none of them yet; {NOT_PULLED}"),
        (PCI, 8, [LOOPS], f"a validation of its GPUs failed: {LOOPS}"),
        ({}, 8, [LOOPS], f"a validation of its GPUs failed: {LOOPS}"),
        (PCI, 8, [NOT_PULLED], None),
        (PCI, 8, [NOT_PULLED, LOOPS], f"a validation of its GPUs failed: {LOOPS}"),
        ({}, 0, [LOOPS], None),
        (PCI | {MIG: "pending"}, 8, [LOOPS], f"{MIG}=pending: its MIG layout is being changed"),
        (PCI | {UPGRADE: "validation-required"}, 8, [LOOPS], f"{UPGRADE}=validation-required: its driver is being"),
        (PCI | {UPGRADE: "upgrade-required"}, 8, [LOOPS], "a validation of its GPUs failed"),
    ],
)
def test_a_validation_that_failed_keeps_pods_away(
    labels: dict[str, str], gpus: int, failing: list[Failing], says: str | None
) -> None:
    found = unready(labels, {GPU: gpus}, failing)
    assert found is None if says is None else str(found).startswith(says)
    assert found is None or found.remedy


def test_cards_of_a_node_that_failed_keep_their_indices() -> None:
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: "8"}}}
    found = node_facts(decode_node(node), failing=[LOOPS])
    assert (found.mode, found.layout, found.cards.counts) == ("NotReady", "Whole", {GPU: 8})


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
