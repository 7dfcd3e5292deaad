"""The objects of a small cluster, as the API server and SQL have them, and a scheduler's state that hears of them."""

import random
from datetime import UTC, datetime
from typing import Any

from t9ksched.admission.access import Members
from t9ksched.kube.resources import DEPLOYMENTS, JOBS, REPLICASETS
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.state.namespaces import NamespaceObject
from t9ksched.scheduler.state.objects import JobObject, PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.bindings import CardBinding
from t9ksched.store.job_overrides import JobControl

GPU = "nvidia.com/gpu"
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
NODES, GROUPS, QUEUES = ("n0", "n1", "n2"), ("g0", "g1", "g2"), ("q", "r", "s")
OTHERS = ("app-0", "thing-0", "set-0")
"""Owners that are not seen: an App may stand above a Deployment, a StatefulSet cannot be read."""
KINDS = {
    "job": "Job",
    "rs": "ReplicaSet",
    "web": "Deployment",
    "app": "App",
    "thing": "Thing",
    "set": "StatefulSet",
}
ENDED = ("Succeeded", "Failed")
REFUSED = Reason(Code.BIND_REFUSED, "refused")


def against(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def stamp(rng: random.Random) -> str:
    return f"2026-01-01T00:{rng.randrange(60):02}:{rng.randrange(60):02}Z"


def moment(rng: random.Random, now: int) -> str:
    """When a job asks to start: a time that is past, or comes soon or late, or what cannot be read."""
    if rng.random() < 0.1:
        return "soon"
    return datetime.fromtimestamp(now // SECOND + rng.choice((-60, 2, 30, 600)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def row_time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)


class Objects:
    """What there is. `assumed` has the nodes of decisions that are not seen bound yet, by UID of the pod."""

    def __init__(self, seed: int, name: str = "state") -> None:
        self.rng = random.Random(f"{name} {seed}")
        self.now = START
        self.serial = 0
        self.apart = self.rng.choice((0, 0.15))
        """Share of the pods that want others of an app away from their node."""
        self.steady = self.rng.random() < 0.6
        """Whether most pods belong to two groups that get their places and run for a while."""
        self.stored = self.rng.choice((0, 0.3))
        """Share of the pods that use a claim."""
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.owners: dict[str, dict[str, Any]] = {}
        self.queues: dict[str, dict[str, Any]] = {name: {} for name in QUEUES[:2]}
        self.members: dict[str, Members] = {"q": Members(everyone=True), "r": Members(users=frozenset({"ann"}))}
        self.spaces: dict[str, Any] = {}
        self.controls: dict[str, JobControl] = {}
        self.acceptances: dict[str, Acceptance] = {}
        self.rows: dict[str, CardBinding] = {}
        self.restored: dict[str, CardBinding] = {}
        """Rows that this scheduler read when it started."""
        self.compared: set[str] = set()
        """Bound pods that were seen while the state knew their node, without which cards mean nothing."""
        self.assumed: dict[str, str] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        """What a pod said when this scheduler saw it first, by UID: its metadata, the group it is in by then, and the
        role that it had when its place was chosen or seen.
        """
        self.woken = False
        self.log: list[str] = []
        self.state = self._new()
        for node in NODES[: self.rng.randint(1, 3)]:
            self.node(node)
        self.begin()

    def begin(self) -> None:
        """What is there at first."""

    def _new(self) -> ClusterState:
        self.assumed.clear()
        self.seen.clear()
        self.restored = {}
        self.compared = set()
        state = ClusterState(self._wake)
        state.set_queues(Queue(name, parse_queue_spec(spec)) for name, spec in self.queues.items())
        state.permit(dict(self.members))
        state.direct(self.controls)
        state.owners.unread = {"StatefulSet"}
        state.refills.kinds = frozenset({("batch/v1", "Job")})
        self.evictable = EvictableGangs(state, ())
        self.evictable._evicted["nobody"].append(("", 0))
        return state

    def _wake(self) -> None:
        self.woken = True

    def _group(self, name: str, uid: str, created: str, owned: Any) -> dict[str, Any]:
        rng = self.rng
        spec: dict[str, Any] = {"minMember": rng.choice((1, 2, 2, 3)), "queue": rng.choice(("q", "q", "r", "s"))}
        if self.steady and rng.random() < 0.8:
            spec["queue"] = "q"
        if rng.random() < 0.3:
            spec |= {"roles": [{"name": role, "minMember": rng.randint(0, 2)} for role in "ab"[: rng.randint(1, 2)]]}
        if rng.random() < 0.5:
            spec |= {"priority": rng.randrange(5), "topologyPolicy": rng.choice(("None", "Preferred", "Required"))}
        if rng.random() < 0.05:
            spec["minMember"] = 0  # no such number
        conditions = [
            {"type": kind, "status": rng.choice(("True", "False")), "reason": "r", "message": "m"}
            for kind in ("GroupScheduled", "Evicted")
            if rng.random() < 0.3
        ]
        notes = {names.TOPOLOGY_KEY_ANNOTATION: rng.choice(("zone", " zone , kubernetes.io/hostname", ","))}
        notes |= {names.TIME_LIMIT_ANNOTATION: "1h"} if rng.random() < 0.2 else {}
        notes |= {names.START_AFTER_ANNOTATION: moment(rng, self.now)} if rng.random() < 0.2 else {}
        notes |= {names.ARRAY_ANNOTATION: rng.choice(("a%1", "a[3]%2", "b%1"))} if rng.random() < 0.3 else {}
        meta = {"name": name, "namespace": "ns", "uid": uid, "creationTimestamp": created}
        meta |= {"annotations": notes} if rng.random() < 0.5 else {}
        meta |= {"ownerReferences": owned} if owned else {}
        return {"metadata": meta, "spec": spec, "status": {"conditions": conditions} if rng.random() < 0.7 else {}}

    def _send_group(self, name: str) -> None:
        self.state.upsert_group(decoder(PodGroupObject)(self.groups[name]))

    def _labels(self) -> dict[str, str]:
        rng = self.rng
        return {
            names.GROUP_LABEL: rng.choice(
                ("g0", "g0", "g0", "g1", "g1", "") if self.steady else (*GROUPS, *GROUPS, "g3", "", "")
            ),
            names.ROLE_LABEL: rng.choice(("", "a", "a", "b")),
            names.QUEUE_LABEL: rng.choice(("q", "q", "r", "s", "")),
            "app": rng.choice("xy"),
        }

    def _owned(self, share: float) -> list[dict[str, Any]] | None:
        rng = self.rng
        if rng.random() > share:
            return None
        uid = rng.choice(("job-0", "job-0", "job-1", "rs-0", "rs-1", "rs-1", "web-0", "web-0", *OTHERS))
        kind = KINDS[uid.partition("-")[0]]
        api = {"Job": "batch/v1", "App": "x/v1", "Thing": "x/v1"}.get(kind, "apps/v1")
        return [{"apiVersion": api, "kind": kind, "name": uid, "uid": uid, "controller": True}]

    def _number(self) -> int:
        self.serial += 1
        return self.serial

    def says(self, uid: str) -> dict[str, str]:
        """The group, the role and the queue of a pod without a place: as was agreed with it, else as its labels say."""
        agreed, labels = self.state.acceptances.get(uid), self.pods[uid]["metadata"].get("labels", {})
        group = labels.get(names.GROUP_LABEL, "")
        group = (agreed.group_name or "") if agreed is not None and agreed.kind == "Pod" else group
        asked = labels.get(names.QUEUE_LABEL) or names.DEFAULT_QUEUE
        return {"group": group, "role": labels.get(names.ROLE_LABEL, ""), "asked": asked}

    def send(self, uid: str, *, expected: bool = False) -> None:
        """Tell of a pod; `expected` when this scheduler decided to bind it."""
        meta, node = self.pods[uid]["metadata"], self.pods[uid]["spec"].get("nodeName", "")
        fresh = dict(meta) | self.says(uid) | {"node": "", "queue": ""}
        seen = self.seen.setdefault(uid, fresh)
        if not (seen["node"] or expected or uid in self.assumed):
            seen |= self.says(uid)
        if node and not seen["node"] and not expected:
            self._placed(uid, node)
        seen["node"] = node
        if node in self.state.node_objects:
            self.compared.add(uid)
        self.state.upsert_pod(decode_pod(self.pods[uid]))

    def _placed(self, uid: str, node: str) -> None:
        """A pod is on a node where another process bound it: it is what is on record of it there."""
        row = self.restored.get(uid)
        if row is not None and row.node == node and row.group_name is not None:
            self.seen[uid] |= {"group": row.group_name, "role": row.role or "", "queue": row.queue or ""}

    def undecided(self, uid: str) -> None:
        """A decision is taken back: what a former scheduler decided about the pod is on record again."""
        self.assumed.pop(uid, None)
        self.rows.pop(uid, None)
        if uid in self.restored:
            self.rows[uid] = self.restored[uid]

    def _forget(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.seen.pop(uid, None)
        self.assumed.pop(uid, None)

    def _some(self, *, bound: bool | None = None) -> str:
        those = [
            uid
            for uid, pod in self.pods.items()
            if bound is None or bool(pod["spec"].get("nodeName") and pod["status"]["phase"] not in ENDED) == bound
        ]
        return self.rng.choice(those) if those else ""

    def _ends_unbound(self, uid: str) -> None:
        if not self.pods[uid]["spec"].get("nodeName") or self.pods[uid]["status"]["phase"] in ENDED:
            self.assumed.pop(uid, None)

    def bind(self, uid: str, node: str, cards: Any = ()) -> None:
        pod = self.pods[uid]
        pod["spec"]["nodeName"] = node
        pod["status"]["conditions"] = [
            *pod["status"].get("conditions", ()),
            {"type": "PodScheduled", "status": "True"},
        ]
        for container, _, indices in cards:
            pod["metadata"]["annotations"][names.GPU_INDEX_PREFIX + container] = ",".join(map(str, indices))
        self.send(uid, expected=self.assumed.pop(uid, None) is not None)

    def _send_owner(self, uid: str) -> None:
        obj = decoder(JobObject)(self.owners[uid])
        if uid.startswith("job"):
            self.state.owners.upsert(obj, JOBS, ours=True)
            self.state.upsert_job(job_record(obj, JOBS))
            if obj.metadata.deletion_timestamp:
                self.state.deletion(uid)
        else:
            self.state.owners.upsert_replicated(obj, REPLICASETS if uid.startswith("rs") else DEPLOYMENTS)

    def _send_queues(self) -> None:
        rng = self.rng
        self.state.set_queues(
            Queue(name, parse_queue_spec(spec), draining=rng.random() < 0.1) for name, spec in self.queues.items()
        )

    def _send_space(self) -> None:
        for name, (labels, notes) in self.spaces.items():
            meta = {"name": name, "labels": labels, "annotations": notes}
            self.state.namespaces.upsert(decoder(NamespaceObject)({"metadata": meta}))

    def tell_storage(self) -> None:
        """Claims, volumes and classes."""

    def tell_all(self) -> None:
        parts = [
            self._send_space,
            self.tell_storage,
            lambda: [self.state.upsert_node(decode_node(node)) for node in self.nodes.values()],
            lambda: [self._send_group(name) for name in self.groups],
            lambda: [self._send_owner(uid) for uid in self.owners],
            lambda: [self.send(uid) for uid in self.rng.sample(list(self.pods), len(self.pods))],
        ]
        self.rng.shuffle(parts)
        for part in parts:
            part()
