"""Free volumes that lie on nodes: a gang goes where there are enough, and no victim goes for one that has too few."""

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Running, RunningPod
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, PersistentVolume, StorageClass
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
