"""Pods with which the GPU operator tries a node: while they fail, it gets no pods with cards, and its words say so."""

from typing import Any

from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.scheduler.state.state import ClusterState

LABELS = {"feature.node.kubernetes.io/pci-10de.present": "true"}


def validator(
    uid: str, reason: str = "CrashLoopBackOff", namespace: str = "gpu-operator", kind: str = "operator"
) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": f"nvidia-{kind}-validator-{uid}", "namespace": namespace},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"initContainerStatuses": [{"name": "v", "state": {"waiting": {"reason": reason}}}]},
    }


def words(state: ClusterState) -> str:
    return str(state.node_objects["n"][1].unready)


def test_words_follow_the_validators() -> None:
    state = ClusterState()
    state.upsert_pod(decode_pod(validator("a")))
    state.upsert_node(decode_node({"metadata": {"name": "n", "labels": LABELS}}))
    assert words(state).endswith("yet; the pod nvidia-operator-validator-a fails (CrashLoopBackOff)")
    generation = state.nodes.generation[state.nodes.row("n")]
    state.upsert_pod(decode_pod(validator("a")))
    assert state.nodes.generation[state.nodes.row("n")] == generation
    state.upsert_pod(decode_pod(validator("b", "ImagePullBackOff", kind="cuda")))
    assert "cuda-validator-b fails (ImagePullBackOff), the pod nvidia-operator-validator-a fails (Crash" in words(state)
    state.upsert_pod(decode_pod(validator("a", "PodInitializing")))
    state.remove_pod("b")
    assert words(state).endswith("offers none of them yet: no GPU operator works there")
    state.upsert_pod(decode_pod(validator("c", namespace="ml")))
    assert "fails" not in words(state)


def test_a_node_that_offers_cards_gets_none_while_a_validation_fails() -> None:
    state = ClusterState()
    offers = {"metadata": {"name": "n", "labels": LABELS}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    state.upsert_node(decode_node(offers))

    def mode() -> str:
        return state.node_objects["n"][1].mode

    assert mode() == "Whole"
    state.upsert_pod(decode_pod(validator("a")))
    assert mode() == "NotReady"
    assert (
        words(state) == "a validation of its GPUs failed: the pod nvidia-operator-validator-a fails (CrashLoopBackOff)"
    )
    state.upsert_pod(decode_pod(validator("a", "ImagePullBackOff")))
    assert mode() == "Whole"
    state.upsert_pod(decode_pod(validator("a")))
    state.upsert_pod(decode_pod(validator("a") | {"status": {"phase": "Succeeded"}}))
    assert mode() == "Whole"
    state.upsert_pod(decode_pod(validator("a")))
    moved = validator("a")
    moved["spec"]["nodeName"] = "another"
    state.upsert_pod(decode_pod(moved))
    assert mode() == "Whole"
    state.upsert_pod(decode_pod(validator("b")))
    assert mode() == "NotReady"
    state.remove_pod("b")
    assert mode() == "Whole"
