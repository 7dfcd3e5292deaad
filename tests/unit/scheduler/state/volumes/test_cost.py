"""What events of volumes cost: what they change, each thing once, and never in one piece."""

from typing import Any

import pytest

from t9ksched.model.volumes import CsiNode
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.volumes.claimants import Claimants
from t9ksched.scheduler.state.volumes.claims import Claim, Claims, PersistentVolume, StorageClass
from tests.unit.scheduler.state.test_state import decide, node, pod, state_with

MANY = 250


class Cluster:
    """Pods that wait with a claim each; counts what is looked at, and how often the loop is woken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = state_with(*(node(f"n{at}") for at in range(MANY)))
        self.local()
        for at in range(MANY):
            self.claim(at)
            uses = [{"name": "data", "persistentVolumeClaim": {"claimName": f"c{at}"}}]
            self.state.upsert_pod(pod(f"p{at}", 1, queue="q", volumes=uses))
        self.settle()
        self.work = self.wakes = 0
        self.state.wake = self._woken
        self._count(monkeypatch, Claims, "meaning")
        self._count(monkeypatch, Claimants, "meaning")
        self._count(monkeypatch, Claims, "limit")

    def _woken(self) -> None:
        self.wakes += 1

    def _count(self, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        method = getattr(kind, name)

        def counted(*given: Any) -> Any:
            self.work += 1
            return method(*given)

        monkeypatch.setattr(kind, name, counted)

    def local(self, **annotations: str) -> None:
        meta = {"name": "local", "annotations": annotations}
        kind = {
            "metadata": meta,
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self.state.storage.upsert_class(decoder(StorageClass)(kind))

    def claim(self, at: int) -> None:
        spec = {"storageClassName": "local", "resources": {"requests": {"storage": "2Gi"}}}
        meta = {"name": f"c{at}", "namespace": "ns", "uid": f"c{at}"}
        self.state.storage.upsert_claim(decoder(Claim)({"metadata": meta, "spec": spec}))

    def volume(self, name: str, on: str = "", size: str = "2Gi") -> PersistentVolume:
        spec: dict[str, Any] = {"storageClassName": "local", "capacity": {"storage": size}}
        if on:
            terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        obj = {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}
        found = decoder(PersistentVolume)(obj)
        self.state.storage.upsert_volume(found)
        return found

    def settle(self) -> list[int]:
        """How much was looked at in each step."""
        found, before = [], getattr(self, "work", 0)
        for _ in self.state.changes.settling():
            found.append(getattr(self, "work", 0) - before)
            before = getattr(self, "work", 0)
        return found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_burst_of_free_volumes_is_looked_at_once_and_in_steps(cluster: Cluster) -> None:
    for at in range(20):
        cluster.volume(f"v{at}", f"n{at}")
    assert cluster.work == 0, "an event looks at nothing itself"
    assert cluster.wakes > 0
    steps = cluster.settle()
    assert cluster.work == 2 * MANY + 20, "each claim, each pod and each of 20 nodes once"
    assert max(steps) <= 100
    classes = {record.pod_class for record in cluster.state.pods.values()}
    assert len(classes) == 1, "claims that ask alike share an answer"
    assert len(decide(cluster.state)) == 20


def test_what_changes_no_answer_looks_at_nothing_and_wakes_nobody(cluster: Cluster) -> None:
    cluster.volume("v", "n1")
    cluster.volume("far", "elsewhere")
    cluster.settle()
    cluster.work = cluster.wakes = 0
    cluster.volume("small", "n2", "1Gi")
    cluster.volume("faulty", "n3 of no value")
    cluster.settle()
    cluster.work = cluster.wakes = 0
    cluster.local(note="said")
    cluster.claim(7)
    seen = cluster.work
    assert not cluster.state.storage.unsettled
    assert (seen, cluster.wakes) == (1, 0), "the claim itself was seen again"


def test_a_volume_too_small_for_all_concerns_its_node_alone(cluster: Cluster) -> None:
    cluster.volume("small", "n2", "1Gi")
    cluster.settle()
    assert cluster.work == 1


def test_a_second_volume_beside_another_concerns_its_node_alone(cluster: Cluster) -> None:
    cluster.volume("v", "n1")
    cluster.settle()
    cluster.work = 0
    second = cluster.volume("w", "n1")
    cluster.settle()
    cluster.state.storage.remove_volume(second)
    cluster.settle()
    assert cluster.work == 2


def test_all_nodes_are_looked_at_in_steps_and_not_read_anew(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(cluster.state.node_events), "upsert", None)
    nodes = cluster.state.nodes
    anywhere = cluster.volume("v")
    assert cluster.work == 0
    assert max(cluster.settle()) <= 100
    assert all(nodes.facts(name).allocatable["free-volumes-local"] > MANY for name in nodes.names)
    cluster.state.storage.remove_volume(anywhere)
    cluster.work = 0
    drivers = [{"name": "disks", "allocatable": {"count": 3}}]
    said = decoder(CsiNode)({"metadata": {"name": "n5"}, "spec": {"drivers": drivers}})
    cluster.state.storage.upsert_csi_node(said)
    assert cluster.work == 0
    assert max(cluster.settle()) <= 100
    assert cluster.work == 3 * MANY, "both events concern each node, which is looked at once; each claim and pod too"
    assert nodes.facts("n5").allocatable["attachable-volumes-csi-disks"] == 3
    assert all(nodes.facts(name).allocatable["free-volumes-local"] == 0 for name in nodes.names)
    cluster.work = cluster.wakes = 0
    cluster.state.storage.upsert_csi_node(said)
    cluster.settle()
    assert (cluster.work, cluster.wakes) == (0, 0), "a heartbeat"


def test_a_first_limit_concerns_the_claims_of_its_driver(cluster: Cluster) -> None:
    drivers = [{"name": "disks", "allocatable": {"count": 3}}]
    cluster.state.storage.upsert_csi_node(decoder(CsiNode)({"metadata": {"name": "n5"}, "spec": {"drivers": drivers}}))
    cluster.settle()
    assert cluster.work == MANY, "each node; no claim is of that driver"
