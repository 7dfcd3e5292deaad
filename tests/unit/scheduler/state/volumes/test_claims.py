"""Free volumes that lie on nodes: a gang goes where there are enough, and no victim goes for one that has too few.

What is wrong with a claim that cannot be used, and what helps.
"""

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Running, RunningPod
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, Claims, PersistentVolume, StorageClass
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, group, node, pod, state_with


def lying(state: ClusterState, name: str, on: str, phase: str = "Available") -> None:
    """A volume of the class `disks` on a node."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]
    spec = {"storageClassName": "disks", "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    volume = {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}
    state.storage.upsert_volume(decoder(PersistentVolume)(volume))


def disks(state: ClusterState, *pods: str, claim: str = "", queue: str = "q") -> None:
    """A gang whose pods have a claim of the class `disks` each, or one together."""
    kind = {
        "metadata": {"name": "disks"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    state.storage.upsert_class(decoder(StorageClass)(kind))
    state.upsert_group(group("d", len(pods), queue=queue))
    for name in pods:
        used = claim or name
        wanted = {"metadata": {"name": used, "namespace": "ns"}, "spec": {"storageClassName": "disks"}}
        state.storage.upsert_claim(decoder(Claim)(wanted))
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": used}}]
        state.upsert_pod(pod(name, 1, group="d", volumes=volumes))


def test_a_node_gets_no_more_pods_than_it_has_volumes_for() -> None:
    state = state_with(node("n1"), node("n2"))
    for name, on in (("v1", "n1"), ("v2", "n1"), ("v3", "n2")):
        lying(state, name, on)
    disks(state, "a", "b", "c")
    assert sorted(a.node for a in decide(state)) == ["n1", "n1", "n2"]
    assert state.charges.queue_used["q"].keys() == {"cpu", "pods", GPU}, "what is free is not charged"


def test_volumes_that_come_and_go_are_counted() -> None:
    state = state_with(node("n1"), node("n2"))
    disks(state, "a", "b")
    lying(state, "v1", "n1")
    lying(state, "v2", "n1", "Bound")
    assert decide(state) == []
    lying(state, "v2", "n1", "Available")
    lying(state, "v1", "n1", "Bound")
    assert decide(state) == []
    lying(state, "v3", "n2")
    assert sorted(a.node for a in decide(state)) == ["n1", "n2"]


def test_pods_that_share_a_claim_need_one_volume() -> None:
    state = state_with(node("n1"), node("n2"))
    lying(state, "v1", "n1")
    disks(state, "a", "b", claim="data")
    assert [a.node for a in decide(state)] == ["n1", "n1"]


def test_no_victim_goes_for_a_gang_whose_volumes_are_too_few() -> None:
    queues = {"high": {"priority": 10}, "low": {}}
    state = state_with(node("n1", 3), queues=queues)
    state.upsert_pod(pod("victim", 3, queue="low", node="n1", phase="Running"))
    state.accept_running(NOW)
    lying(state, "v1", "n1")
    lying(state, "v2", "n1")
    disks(state, "a", "b", "c", queue="high")
    victim = Running("pod-victim", "ns/victim", "low", (_running(state, "pod-victim"),))
    view, policy = state.view(NOW, (victim,)), Policy(("allocate", "preempt"))
    assert plan(view, policy, NOW).evictions == ()
    lying(state, "v3", "n1")
    view = state.view(NOW, (victim,))
    assert [one.pod for one in plan(view, policy, NOW).evictions] == ["pod-victim"]


def _running(state: ClusterState, uid: str) -> RunningPod:
    record = state.pods[uid]
    assert record.pod_class is not None
    return RunningPod(uid, record.key, "", record.pod_class, record.node)


@pytest.mark.parametrize(
    ("spec", "phase", "what", "helps"),
    [
        ({"volumeName": "gone"}, "Bound", "has lost its volume: the PersistentVolume 'gone' does not exist", "again"),
        ({"volumeName": "gone"}, "Lost", "has lost its volume: the PersistentVolume 'gone' does not exist", "again"),
        ({"volumeName": "v"}, "Lost", "is Lost: the PersistentVolume 'v' is not bound to it", "create it anew"),
        ({"volumeName": "gone"}, "Pending", "asks for the PersistentVolume 'gone', which does not exist", "create"),
        ({"volumeName": "v"}, "Pending", "is Pending: the PersistentVolume 'v' that it asks for", "bind the claim"),
        ({"storageClassName": "fast"}, "Pending", "is Pending, and there is no StorageClass 'fast'", "'fast'"),
        ({}, "Pending", "is Pending", "bind the claim ns/data"),
    ],
)
def test_what_is_wrong_with_a_claim_and_what_helps(spec: dict[str, str], phase: str, what: str, helps: str) -> None:
    claims = Claims()
    claims.add_volume(decoder(PersistentVolume)({"metadata": {"name": "v"}, "status": {"phase": "Bound"}}))
    meta = {"name": "data", "namespace": "ns"}
    claims.claims["ns", "data"] = decoder(Claim)({"metadata": meta, "spec": spec, "status": {"phase": phase}})
    reason = claims.meaning(("ns", "data")).reason
    assert reason is not None
    assert reason.message.startswith(f"the volume claim 'data' {what}")
    assert helps in reason.unblocks[0]
