"""What happens seldom to the objects of a small cluster: volumes, owners that are written into objects later, objects
that are recorded as jobs of their own, promised room, limits, and bindings of another process.
"""

from typing import Any

from msgspec import structs

from t9ksched.model import names
from t9ksched.model.reasons import Code
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.volumes import SELECTED_NODE, Claim, CsiNode, PersistentVolume, StorageClass
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.records import job_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.runs import Run
from tests.property.stateobjects import ENDED, GPU, NODES, SECOND, Objects, row_time

CLAIMS, CLASSES = ("c0", "c1"), ("local", "made")


class Seldom(Objects):
    """Happenings that `World` chooses among. `promises` are owners, nodes and ends of promised room."""

    def __init__(self, seed: int, name: str = "state") -> None:
        self.storage: dict[tuple[str, str], dict[str, Any]] = {}
        """Claims, volumes, classes and what nodes can attach, by kind and name."""
        self.promises: dict[str, tuple[frozenset[str], int]] = {}
        self.idle: dict[str, int] = {}
        """Since when no pod has been leaving promised room, by owner."""
        self.back: set[str] = set()
        """UIDs of groups whose places were taken back in this step."""
        super().__init__(seed, name)

    def _new(self) -> ClusterState:
        self.promises, self.idle = {}, {}
        return super()._new()

    # Volumes

    def volume(self) -> None:
        """A claim, a volume, a class or the limits of a node appear, change or go."""
        rng = self.rng
        kind = rng.choice(("claim", "claim", "claim", "volume", "volume", "class", "csi"))
        if kind == "claim":
            name = rng.choice(CLAIMS)
            spec: dict[str, Any] = {"storageClassName": rng.choice((*CLASSES, "none"))}
            spec |= {"volumeName": rng.choice(("v0", "v1"))} if rng.random() < 0.4 else {}
            spec |= {"accessModes": [rng.choice(("ReadWriteOnce", "ReadWriteOncePod"))]}
            meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name}
            meta |= {"annotations": {SELECTED_NODE: rng.choice(NODES)}} if rng.random() < 0.2 else {}
            meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if rng.random() < 0.1 else {}
            obj = {"metadata": meta, "spec": spec, "status": {"phase": rng.choice(("Pending", "Bound", "Bound"))}}
        elif kind == "volume":
            name, host = rng.choice(("v0", "v1", "v2")), rng.choice(NODES)
            term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
            spec = {"storageClassName": rng.choice(CLASSES), "accessModes": ["ReadWriteOnce"]}
            spec |= {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if rng.random() < 0.8 else {}
            spec |= {"csi": {"driver": "d"}} if rng.random() < 0.5 else {}
            phase = rng.choice(("Available", "Available", "Bound"))
            obj = {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}
        elif kind == "class":
            name = rng.choice(CLASSES)
            provisioner = "kubernetes.io/no-provisioner" if name == "local" else "d"
            waits = rng.choice(("WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate"))
            obj = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": waits}
        else:
            name = rng.choice(NODES)
            drivers = [{"name": "d", "nodeID": name, "allocatable": {"count": rng.randrange(3)}}]
            obj = {"metadata": {"name": name}, "spec": {"drivers": drivers if rng.random() < 0.8 else []}}
        if (kind, name) in self.storage and rng.random() < 0.25:
            self._volume(kind, self.storage.pop((kind, name)), "remove")
        else:
            self.storage[kind, name] = obj
            self._volume(kind, obj, "upsert")

    def _volume(self, kind: str, obj: dict[str, Any], how: str) -> None:
        types: dict[str, Any] = {
            "claim": ("claim", Claim),
            "volume": ("volume", PersistentVolume),
            "class": ("class", StorageClass),
            "csi": ("csi_node", CsiNode),
        }
        name, of = types[kind]
        getattr(self.state.storage, f"{how}_{name}")(decoder(of)(obj))

    def tell_storage(self) -> None:
        for (kind, _), obj in self.storage.items():
            self._volume(kind, obj, "upsert")

    # Whose objects are

    def claimed(self) -> None:
        """A controller is written into a pod or a group that has none."""
        rng, owned = self.rng, self._owned(1)
        if rng.random() < 0.5 and (uid := self._some()):
            self.pods[uid]["metadata"].setdefault("ownerReferences", owned)
            self.send(uid)
        elif self.groups:
            name = rng.choice(sorted(self.groups))
            meta = self.groups[name]["metadata"]
            if rng.random() < 0.3:
                meta.pop("ownerReferences", None)
            else:
                meta.setdefault("ownerReferences", owned)
            self._send_group(name)

    def alone(self) -> None:
        """SQL says that a pod or a group was accepted as a job of its own."""
        groups = {group["metadata"]["uid"]: name for name, group in self.groups.items()}
        uid = self.rng.choice([*self.pods, *groups, "x"])
        of = self.pods.get(uid, {}).get("metadata", {}).get("labels", {}).get(names.GROUP_LABEL)
        told = Acceptance(
            uid=uid,
            kind="Pod" if uid in self.pods else "PodGroup",
            namespace="ns",
            name=uid,
            queue=self.rng.choice(("q", "r")),
            group_name=groups.get(uid, of),
            replicas=1,
            accepted_at=row_time(self.now),
        )
        if uid in self.acceptances:
            told = structs.replace(self.acceptances[uid], replicas=self.acceptances[uid].replicas or 1)
        self.acceptances[uid] = told
        self.state.accept(told)

    # What was decided

    def bound_late(self) -> None:
        """What a former scheduler decided comes true."""
        former = [uid for uid, row in self.rows.items() if self.restored.get(uid) is row and uid in self.pods]
        those = [uid for uid in former if not self.pods[uid]["spec"].get("nodeName")]
        those = [uid for uid in those if "deletionTimestamp" not in self.pods[uid]["metadata"]]
        those = [uid for uid in those if uid not in self.assumed and self.pods[uid]["status"]["phase"] not in ENDED]
        those = [uid for uid in those if not self.contested(uid, self.rows[uid].node)]
        if those:
            uid = self.rng.choice(those)
            self.bind(uid, self.rows[uid].node)

    def contested(self, uid: str, node: str) -> bool:
        """Whether a former scheduler's word about a pod contradicts what was decided since: its fence keeps it from
        binding then.
        """
        row = self.rows.get(uid)
        if row is None or row.node != node:
            return False
        others = [charge for charge in self.state.charges.on_node(node) if charge.uid != uid]
        return any(set(one.cards.indices(GPU)) & set(row.grant.indices(GPU)) for one in others)

    def did_not_start(self) -> None:
        """A job was taken back because it did not start in time, and is to rest."""
        if (gang := self._gang()) is not None and gang.queue in self.state.queues:
            job = job_of(gang)
            clock = self.state.clocks.begin(Clock(Run(uid=job)))
            clock.set(missed=1, missed_at=self.now, retry_at=self.now + self.rng.choice((2, 60)) * SECOND, why="slow")
            self.woken = True

    def limit_reached(self) -> None:
        """The job of a group is told to end."""
        if (gang := self._gang()) is not None:
            self.back = {one.uid for one in self.state.gangs.values() if job_of(one) == job_of(gang)}
            self.state.note_end(gang, Code.MAX_DURATION_EXCEEDED, "too long", self.now)

    def _gang(self) -> Any:
        those = [gang for gang in self.state.gangs.values() if gang.uid]
        return self.rng.choice(those) if those else None

    # Promised room

    def promise(self) -> None:
        """Victims are leaving room for one of those that wait, or a restart finds that they were."""
        waiting = [gang for gang in self.state.pending if gang.uid]
        if not waiting:
            return
        rng = self.rng
        made: dict[str, list[Reservation]] = {}
        for gang in rng.sample(waiting, min(len(waiting), rng.randint(1, 2))):
            pod = next(pod for pod in gang.members.values() if pod.waiting)
            if pod.pod_class is not None:
                holds = [
                    Reservation(gang.uid, node, pod.pod_class, kind=ReservationKind.VICTIMS)
                    for node in rng.sample(NODES, rng.randint(1, 2))
                ]
                made[gang.uid] = holds
        until = self.now + rng.choice((2, 30)) * SECOND
        if rng.random() < 0.3:
            holds = [structs_until(hold, until) for those in made.values() for hold in those]
            self.state.reservations.restore(holds)
            fresh = {owner: those for owner, those in made.items() if owner not in self.promises}
        else:
            told = self.state.reservations.promise([hold for those in made.values() for hold in those], until)
            assert told.keys() == made.keys()
            for owner, those in told.items():
                assert [(hold.node, hold.until) for hold in those] == [(hold.node, until) for hold in made[owner]]
                assert self.state.reservations.stands(owner, those)
                assert not self.state.reservations.stands(owner, tuple(those[:0]))
            fresh = made
        for owner, those in fresh.items():
            self.promises[owner] = frozenset(hold.node for hold in those), until

    def promises_end(self) -> None:
        """Promised room that no pod is leaving any more is given up after five seconds, and at its time in any case."""
        evicting = self.rng.random() < 0.2
        left = {owner: those for owner, those in self.promises.items() if self.now < those[1]}
        idle: dict[str, int] = {}
        if left and not evicting:
            idle = {owner: self.idle.get(owner, self.now) for owner in left if not self._leaves(owner, left[owner][0])}
        over = {owner for owner, since in idle.items() if self.now - since >= 5 * SECOND}
        self.promises = {owner: those for owner, those in left.items() if owner not in over}
        self.idle = {owner: since for owner, since in idle.items() if owner not in over}
        before, self.woken = self.woken, False
        self.state.end_idle_promises(self.now, evicting=evicting)
        assert self.woken >= bool(over), "room comes free, and the loop sleeps on"
        self.woken = self.woken or before

    def given_up(self) -> None:
        """A victim may not be evicted."""
        owner = self.rng.choice([*self.promises, "nobody"])
        woken, self.woken = self.woken, False
        self.state.reservations.give_up(owner)
        assert self.woken == (self.promises.pop(owner, None) is not None)
        self.woken |= woken

    def _leaves(self, owner: str, nodes: frozenset[str]) -> bool:
        """Whether a pod is leaving one of these nodes, or the queue of the group."""
        gang = self.state.gangs_by_uid.get(owner)
        for uid, pod in self.pods.items():
            record, place = self.state.pods[uid], pod["spec"].get("nodeName", "")
            if "deletionTimestamp" not in pod["metadata"] or pod["status"]["phase"] in ENDED or not place:
                continue
            if place in nodes and record.pod_class is not None:
                return True
            if gang is not None and record.gang is not None and record.gang.queue == gang.queue:
                return True
        return False


def structs_until(hold: Reservation, until: int) -> Reservation:
    return Reservation(hold.owner, hold.node, hold.pod_class, hold.kind, until=until)
