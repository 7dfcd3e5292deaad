"""Pods with which the GPU operator tries a node: while they fail, the words for the node say so."""

from typing import Any

from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.scheduler.state.state import ClusterState

LABELS = {"feature.node.kubernetes.io/pci-10de.present": "true"}


def validator(uid: str, reason: str = "CrashLoopBackOff", namespace: str = "gpu-operator") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": f"nvidia-operator-validator-{uid}", "namespace": namespace},
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
    state.upsert_pod(decode_pod(validator("b", "ImagePullBackOff")))
    assert "validator-a fails (CrashLoopBackOff), the pod nvidia-operator-validator-b fails (Image" in words(state)
    state.upsert_pod(decode_pod(validator("a", "PodInitializing")))
    state.remove_pod("b")
    assert words(state).endswith("offers none of them yet: no GPU operator works there")
    state.upsert_pod(decode_pod(validator("c", namespace="ml")))
    assert "fails" not in words(state)
