"""What claims mean for pods is kept until it changes: after each event it is what a look at everything says.

The model asks fresh tables about every claim, and says by itself which claims are shared and which pod comes first.
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.reasons import Code, Reason
from t9ksched.model.volumes import Claim, CsiNode, PersistentVolume, StorageClass
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.records import PodRecord
from t9ksched.scheduler.state.volumes.claims import ClaimMeaning, Claims
from tests.unit.scheduler.state.test_state import decide, node, pod, state_with

CLAIMS, VOLUMES, CLASSES, NODES, PODS = ("c0", "c1", "c2"), ("v0", "v1", "v2"), ("local", "made"), ("n1", "n2"), 5
MODES = ("ReadWriteMany", "ReadWriteOncePod")


class World:
    """Pods, claims, volumes, classes and nodes that change at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.state = state_with(node("n1"))
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.limits: list[CsiNode] = []

    def claim(self) -> None:
        rng = self.rng
        name = rng.choice(CLAIMS)
        if name in self.claims and rng.random() < 0.2:
            self.state.storage.remove_claim(self.claims.pop(name))
            return
        kind = rng.choice((None, *CLASSES))
        spec: dict[str, Any] = {"accessModes": [rng.choice(MODES)], "storageClassName": kind}
        status: dict[str, Any] = {}
        if rng.random() < 0.4:
            spec["volumeName"] = rng.choice(VOLUMES)
            status["phase"] = rng.choice(("Bound", "Pending", "Lost"))
        spec["resources"] = {"requests": {"storage": rng.choice(("1Gi", "5Gi"))}}
        meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name}
        if rng.random() < 0.3:
            meta["annotations"] = {"volume.kubernetes.io/selected-node": rng.choice(NODES)}
        if rng.random() < 0.1:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.claims[name] = decoder(Claim)({"metadata": meta, "spec": spec, "status": status})
        self.state.storage.upsert_claim(self.claims[name])

    def volume(self) -> None:
        rng = self.rng
        name = rng.choice(VOLUMES)
        if name in self.volumes and rng.random() < 0.2:
            self.state.storage.remove_volume(self.volumes.pop(name))
            return
        hosts = rng.choice((["n1"], ["n2"], ["n1", "n2"], None, "faulty"))
        terms: Any = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}]}]
        spec: dict[str, Any] = {
            "storageClassName": rng.choice(CLASSES),
            "accessModes": list(MODES),
            "capacity": {"storage": rng.choice(("1Gi", "9Gi"))},
        }
        if hosts is not None:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if rng.random() < 0.3:
            spec["claimRef"] = {"namespace": "ns", "name": rng.choice(CLAIMS)}
        if rng.random() < 0.3:
            spec["csi"] = {"driver": "disks", "volumeHandle": rng.choice(("", "h0", "h1"))}
        phase = {"phase": rng.choice(("Available", "Available", "Bound", "Released"))}
        self.volumes[name] = decoder(PersistentVolume)({"metadata": {"name": name}, "spec": spec, "status": phase})
        self.state.storage.upsert_volume(self.volumes[name])

    def kind(self) -> None:
        rng = self.rng
        name = rng.choice(CLASSES)
        if name in self.classes and rng.random() < 0.2:
            self.state.storage.remove_class(self.classes.pop(name))
            return
        meta: dict[str, Any] = {"name": name}
        if rng.random() < 0.5:
            meta["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        obj: dict[str, Any] = {
            "metadata": meta,
            "provisioner": "disks" if name == "made" else "kubernetes.io/no-provisioner",
            "volumeBindingMode": rng.choice(("WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate")),
        }
        if rng.random() < 0.3:
            expression = {"key": "kubernetes.io/hostname", "values": [rng.choice(NODES)]}
            obj["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
        self.classes[name] = decoder(StorageClass)(obj)
        self.state.storage.upsert_class(self.classes[name])

    def pod(self) -> None:
        rng = self.rng
        name = f"p{rng.randrange(PODS)}"
        known = self.state.pods.get(f"pod-{name}")
        if known is not None and rng.random() < 0.3:
            self.state.remove_pod(known.uid)
            return
        used = known.claims if known is not None else tuple(rng.sample(CLAIMS, rng.randint(1, 2)))
        volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in used]
        on = known.node if known is not None and known.node else rng.choice(("", "", "n1"))
        phase = rng.choice(("Running", "Succeeded")) if on else "Pending"
        self.state.upsert_pod(pod(name, 0, node=on, phase=phase, volumes=volumes))

    def node(self) -> None:
        name = self.rng.choice(NODES)
        if name in self.state.nodes and self.rng.random() < 0.5:
            self.state.remove_node(name)
        else:
            self.state.upsert_node(node(name))

    def limit(self) -> None:
        drivers = [{"name": "disks", "allocatable": {"count": self.rng.randint(1, 9)}}]
        one = decoder(CsiNode)({"metadata": {"name": self.rng.choice(NODES)}, "spec": {"drivers": drivers}})
        self.limits.append(one)
        self.state.storage.upsert_csi_node(one)

    def decide(self) -> None:
        decide(self.state)

    def refuse(self) -> None:
        assumed = sorted(uid for uid, record in self.state.pods.items() if record.assumed)
        if assumed:
            self.state.withdraw([self.rng.choice(assumed)], Reason(Code.INSUFFICIENT_RESOURCES, "changed"), 0)

    # ---- the model

    def check(self) -> None:
        """Each pod that waits has what a look at everything says, once what was noted is settled."""
        for _ in self.state.changes.settling():
            pass
        assert not self.state.storage.unsettled
        fresh = Claims()
        for limit in self.limits:
            fresh.add_limits(limit)
        for claim in self.claims.values():
            fresh.claims["ns", claim.metadata.name] = claim
        for kind in self.classes.values():
            fresh.add_class(kind)
        for volume in self.volumes.values():
            fresh.add_volume(volume)
        fresh.counted = self.state.storage._claims.counted  # it only grows
        for record in self.state.pods.values():
            if record.pod_class is not None and not (record.node or record.assumed or record.finished):
                self._check(record, fresh)
        for name in self.state.nodes.names:
            attached: dict[str, set[str]] = {}
            for record in self.state.pods.values():
                if (record.node or record.assumed) == name and not record.finished:
                    for of in record.claims:
                        one = fresh.meaning(("ns", of), self.state.nodes.__contains__)
                        if one.attach:
                            attached.setdefault(one.attach, set()).add(one.volume)
            used = self.state.nodes.used(name)
            counted = {resource: amount for resource, amount in used.items() if resource.startswith("attachable")}
            assert counted == {resource: len(volumes) for resource, volumes in attached.items()}

    def _check(self, record: PodRecord, fresh: Claims) -> None:
        found = {name: fresh.meaning(("ns", name), self.state.nodes.__contains__) for name in record.claims}
        affinity = {one.affinity for one in found.values() if one.affinity is not None}
        assert record.pod_class is not None
        assert set(record.pod_class.volume_affinity) == affinity
        own = [one for name, one in found.items() if one.attach and not (one.shared or self._shared(name, record))]
        attached = [amount for name, amount in record.pod_class.requests if name.startswith("attachable")]
        assert sum(attached) == len(own)
        others = {(one.attach, one.volume) for one in found.values() if one.attach and one not in own}
        assert set(record.pod_class.volumes) == others
        texts = []
        for name, one in found.items():
            if one.exclusive and self._first(name) is not record:
                texts.append(f"the volume claim {name!r} is ReadWriteOncePod and in use by another pod")
            if one.reason is not None:
                texts.append(one.reason.message)
        assert [reason.message for reason in record.unbound] == texts
        assert record.to_bind == tuple(
            (name, "" if self._shared(name, record) else one.free) for name, one in found.items() if one.unbound
        )

    def _users(self, name: str) -> list[PodRecord]:
        return [one for one in self.state.pods.values() if name in one.claims and not one.finished]

    def _first(self, name: str) -> PodRecord:
        return min(self._users(name), key=lambda one: (not (one.node or one.assumed), one.created, one.uid))

    def _shared(self, name: str, record: PodRecord) -> bool:
        return any(one is not record for one in self._users(name))


CHANGES = ("claim", "claim", "volume", "volume", "kind", "pod", "pod", "pod", "node", "limit", "decide", "refuse")


@given(st.integers(0, 10**9), st.lists(st.sampled_from(CHANGES), min_size=5, max_size=60))
@settings(max_examples=150, deadline=None)
def test_what_is_kept_is_what_a_look_at_everything_says(seed: int, changes: list[str]) -> None:
    world = World(seed)
    for change in ("kind", "claim", *changes):
        getattr(world, change)()
        world.check()


@pytest.mark.parametrize("mode", MODES)
def test_events_look_only_at_pods_to_which_they_make_a_difference(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0)
    state = world.state
    spec = {"accessModes": [mode], "volumeName": "v", "storageClassName": ""}
    meta = {"name": "data", "namespace": "ns"}
    claim = decoder(Claim)({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}})
    volume = decoder(PersistentVolume)({"metadata": {"name": "v"}, "status": {"phase": "Bound"}})
    state.storage.upsert_claim(claim)
    state.storage.upsert_volume(volume)
    uses = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    for at in range(50):
        state.upsert_pod(pod(f"p{at:02}", 0, volumes=uses))
    judged: list[str] = []
    asked: list[object] = []
    meaning, of = type(state.storage.claimants).meaning, Claims.meaning

    def judge(self: Any, record: PodRecord) -> Any:
        judged.append(record.name)
        return meaning(self, record)

    def ask(self: Claims, key: tuple[str, str], exists: Any) -> ClaimMeaning:
        asked.append(key)
        return of(self, key, exists)

    monkeypatch.setattr(type(state.storage.claimants), "meaning", judge)
    monkeypatch.setattr(Claims, "meaning", ask)
    state.storage.upsert_claim(claim)
    state.storage.upsert_volume(volume)
    state.storage.upsert_volume(decoder(PersistentVolume)({"metadata": {"name": "w"}, "status": {"phase": "Bound"}}))
    state.upsert_node(node("n9"))
    state.upsert_pod(pod("p00", 0, node="n1", phase="Running", volumes=uses))
    state.upsert_pod(pod("z-late", 0, volumes=uses))
    assert judged == ["z-late"]
    assert len(asked) == 1, "the claim itself was seen again"
    judged.clear()
    state.remove_pod("pod-p00")
    assert judged == ([] if mode == MODES[0] else ["p01"])


def test_a_claim_that_no_pod_uses_is_forgotten() -> None:
    world = World(0)
    uses = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    world.state.upsert_pod(pod("a", 0, volumes=uses))
    world.state.upsert_pod(pod("a", 0, node="n1", phase="Succeeded", volumes=uses))
    storage = world.state.storage
    assert [*storage._meanings._known, *storage._meanings._concerned, *storage.claimants._users] == []
