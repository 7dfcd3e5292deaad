"""Sees every write at the moment it is stored, and checks it against what must always be true.

It sits where the dev cluster's storage records its writes, so nothing is missed between two looks. It shares no code
with the scheduler: amounts come from the auditor's own reading of the documents, sums are made here anew.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import msgspec

from t9ksched.devcluster.audit.auditor import Books, amount, occupied, partial_gangs, placed
from tests.chaos.ledger import CardLedger
from tests.chaos.precedence import Precedence

Object = dict[str, Any]
GROUP = "scheduler.tensorstack.dev/group-name"
QUEUE = "scheduler.tensorstack.dev/queue"
OURS = "t9k-scheduler"
ENDED = ("Succeeded", "Failed")
GPU = "nvidia.com/gpu"
CORDONED = "node.kubernetes.io/unschedulable"
"""The taint that follows `spec.unschedulable`, which alone says whether a node is open."""
MADE, KEPT = "made-for-it", "kept-on-nodes"
"""Storage classes: one whose volumes are made where the pod goes, one with volumes that lie on nodes."""
LAG = 90.0
"""Seconds for which a decision taken under an earlier quota, or on an earlier state of a node, may still be bound."""


@dataclass
class QueueFacts:
    """A queue as the history made it: quotas with the time from which each was in force."""

    zone: str = ""
    quotas: list[tuple[float, int | None]] = field(default_factory=list)
    strict: bool = False
    closed_since: float | None = None
    """None while it is open."""
    accepted: dict[str, int | None] = field(default_factory=dict)
    """What was accepted in it when it was closed: pods by the owner's UID, None where that is not written."""

    def most(self, now: float) -> int | None:
        """The largest number of cards that a binding made now may lead to; None without limit."""
        counted = [quota for since, quota in self.quotas if since >= now - LAG]
        before = [quota for since, quota in self.quotas if since < now - LAG]
        counted += before[-1:]
        numbers = [quota for quota in counted if quota is not None]
        return None if len(numbers) < len(counted) else max(numbers)


def _lies_on(volume: Object, hostname: str | None) -> bool:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return any(hostname in term["matchExpressions"][0]["values"] for term in terms)


def _shunned(pod: Object) -> set[str]:
    """The apps that a pod wants away from its node."""
    affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return {term["labelSelector"]["matchLabels"]["app"] for term in terms}


class InvariantChecker:
    """`faults` are the violations that it saw; `bindings` counts the bindings that it checked."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.faults: list[str] = []
        self.bindings = 0
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.groups: dict[str, Object] = {}
        self.queues: dict[str, QueueFacts] = {}
        self.ran: set[str] = set()
        self.closed_since: dict[str, float] = {}
        self.volumes: dict[str, Object] = {}
        self.claims: dict[str, Object] = {}
        self.born: dict[str, float] = {}
        """By uid, when an object was first stored."""
        self.decided: dict[str, str] = {}
        """By uid, where a plan put a pod."""
        self.bound_at: dict[str, float] = {}
        """By uid, when a pod was bound."""
        self.to_go: set[str] = set()
        """Uids of pods that the scheduler set out to evict."""
        self.bypassing: set[str] = set()
        """Uids of pods of ours that their creator put on a node."""
        self.on_bound: list[tuple[int, Callable[[str], None]]] = []
        """Called with the node once so many pods were bound."""
        self.loose: set[str] = set()
        """Keys of groups whose least number of members is forged for now: what a part of them is, their users say."""
        self.whole: Callable[[Object], bool] = lambda pod: False
        """Whether there is no reason to evict a pod; asked when an eviction is requested."""
        self._agreed: dict[str, Object] = {}
        """By uid, labels and fields of a spec that were agreed before they were forged."""
        self._apps: dict[str, tuple[str, float]] = {}
        """By uid, a pod's label `app` and since when it has it."""
        self.ledger = CardLedger(self.say)
        self.precedence = Precedence(now, LAG)
        self._books = Books()
        self._paid: dict[str, str] = {}
        self._journal = blake2b(digest_size=16)
        self.keep: list[bytes] | None = None
        """Where every write is kept as text, to see where two runs of one history part."""

    @property
    def digest(self) -> str:
        """Of every write to the cluster, in order and to the byte."""
        return self._journal.hexdigest()

    def record(self, collection: str, key: str, version: int, obj: Object | None) -> None:
        """One write, before it takes effect."""
        line = msgspec.json.encode((collection, key, version, obj))
        self._journal.update(line)
        if self.keep is not None:
            self.keep.append(line)
        if obj is not None:
            self.born.setdefault(obj["metadata"]["uid"], self.now())
            obj = self._as_agreed(obj)
        resource = collection.rpartition("/")[2].partition(".")[0]
        if resource == "pods":
            self._pod(key, obj)
        elif resource == "nodes":
            self._node(key, obj)
        elif resource in ("persistentvolumes", "persistentvolumeclaims"):
            known = self.volumes if resource == "persistentvolumes" else self.claims
            if obj is None:
                known.pop(key, None)
            else:
                known[key] = obj
        elif resource == "queues":
            if obj is None and (name := key.rpartition("/")[2]) in self.queues:
                self.say(f"the object of queue {name} is deleted, and the queue is not")
        elif resource == "podgroups":
            if obj is None:
                self.groups.pop(key, None)
                self.ran.discard(key)
            else:
                self.groups[key] = obj

    def agree(self, obj: Object) -> None:
        """What an object says of its job counts from now on as it is, whatever is written into it later."""
        meta, spec = obj["metadata"], obj.get("spec") or {}
        labels = {key: (meta.get("labels") or {}).get(key) for key in (GROUP, QUEUE)}
        spec = {key: spec.get(key) for key in ("queue", "priority") if obj.get("kind") == "PodGroup"}
        self._agreed.setdefault(meta["uid"], {"labels": labels, "spec": spec})

    def _as_agreed(self, obj: Object) -> Object:
        agreed = self._agreed.get(obj["metadata"]["uid"])
        if agreed is None:
            return obj
        labels = {
            key: value for key, value in ((obj["metadata"].get("labels") or {}) | agreed["labels"]).items() if value
        }
        more = {"spec": obj["spec"] | agreed["spec"]} if agreed["spec"] else {}
        return obj | {"metadata": obj["metadata"] | {"labels": labels}} | more

    def sets_out(self, uid: str) -> None:
        """The scheduler is about to evict a pod."""
        self.to_go.add(uid)
        pod = next((pod for pod in self.pods.values() if pod["metadata"]["uid"] == uid), None)
        if pod is not None and self.whole(pod):
            self.say(f"{pod['metadata']['name']} is evicted, and no gang needs its room or lacks members")

    def _node(self, name: str, obj: Object | None) -> None:
        if obj is None:
            self.nodes.pop(name, None)
            self._books.node_gone(name)
            return
        spec = obj.get("spec") or {}
        if spec.get("unschedulable") or any(taint["key"] != CORDONED for taint in spec.get("taints") or ()):
            self.closed_since.setdefault(name, self.now())
        else:
            self.closed_since.pop(name, None)
        self.nodes[name] = obj
        self._books.node(obj)

    def _pod(self, key: str, obj: Object | None) -> None:
        old = self.pods.get(key)
        if obj is None:
            gone = self.pods.pop(key, None)
            if gone is not None:
                self._books.leave(gone["metadata"]["uid"])
                self.ledger.gone(gone["metadata"]["uid"])
                self._apps.pop(gone["metadata"]["uid"], None)
                self._place(gone, there=False)
            return
        self.pods[key] = obj
        uid, app = obj["metadata"]["uid"], (obj["metadata"].get("labels") or {}).get("app", "")
        if self._apps.get(uid, ("", 0.0))[0] != app:
            self._apps[uid] = app, self.now()
        if old is not None and old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._books.leave(old["metadata"]["uid"])
            self.ledger.gone(old["metadata"]["uid"])
            self._place(old, there=False)
            old = None
        self._place(obj, there=True)
        bound_now = obj["spec"].get("nodeName") and not (old or {}).get("spec", {}).get("nodeName")
        if bound_now and old is not None and obj["spec"].get("schedulerName") == OURS:
            living = [pod for pod in self.pods.values() if self.holds(pod)]
            self.ledger.bound(key, obj, living, in_part=self._in_part(obj))
        before = len(self._books.findings)
        self._books.enter(self.ledger.as_bound(obj))
        for finding in list(self._books.findings)[before:]:
            if not any(self.pods.get(name, {}).get("spec", {}).get("schedulerName") != OURS for name in finding.pods):
                self.say(f"{finding.kind} on {finding.node}: {finding.detail}")
        if bound_now and obj["spec"].get("schedulerName") == OURS:
            if old is None:
                self.bypassing.add(obj["metadata"]["uid"])
            else:
                self._bound(key, obj)

    def _place(self, pod: Object, *, there: bool) -> None:
        """A pod is there, or is not any more: its group holds a place with it, or lost one."""
        if group := self.group_of(pod):
            uid, holds = pod["metadata"]["uid"], there and self.holds(pod)
            self.precedence.changed(group["metadata"]["uid"], uid, holds=holds, evicted=uid in self.to_go)

    def say(self, text: str) -> None:
        """Something is as it must not be."""
        self.faults.append(f"{self.now():8.1f}  {text}")

    def group_of(self, pod: Object) -> Object | None:
        """The PodGroup that a pod names; empty when there is none, None for a pod that names none."""
        group = (pod["metadata"].get("labels") or {}).get(GROUP)
        return self.groups.get(f"{pod['metadata']['namespace']}/{group}", {}) if group else None

    def queue_of(self, pod: Object) -> str:
        """The queue that pays for a pod."""
        group = self.group_of(pod)
        if group is not None:
            return str((group.get("spec") or {}).get("queue") or "default")
        return str((pod["metadata"].get("labels") or {}).get(QUEUE) or "default")

    def roots(self, pod: Object) -> set[str]:
        """UIDs by which a pod may have been accepted: its own, its group's, and those of their owners."""
        group = self.group_of(pod) or {"metadata": {}}
        metas = [meta for meta in (pod["metadata"], group["metadata"]) if meta]
        owners = {owner["uid"] for meta in metas for owner in meta.get("ownerReferences") or ()}
        return owners | {meta["uid"] for meta in metas}

    def new_work(self, pod: Object, facts: QueueFacts) -> bool:
        """Whether nothing that the pod belongs to was there before its queue was closed, or a while after."""
        if facts.closed_since is None:
            return False
        roots, end = self.roots(pod), facts.closed_since + LAG
        return not roots & facts.accepted.keys() and all(self.born.get(uid, 0.0) > end for uid in roots)

    @staticmethod
    def cards(pod: Object) -> int:
        """The cards that a pod asks for."""
        return int(occupied(pod["spec"]).get(GPU, 0))

    def used(self, queue: str) -> int:
        """The cards that a queue's bound pods hold."""
        return sum(
            int(occupied(pod["spec"]).get(GPU, 0))
            for pod in self.pods.values()
            if self._paid.get(pod["metadata"]["uid"]) == queue and self.holds(pod)
        )

    def holds(self, pod: Object) -> bool:
        """Whether a pod takes room on a node."""
        return bool(pod["spec"].get("nodeName")) and (pod.get("status") or {}).get("phase") not in ENDED

    def _bound(self, key: str, pod: Object) -> None:
        """A pod was bound by us: may it be there, and may its queue pay?"""
        self.bindings += 1
        self.bound_at[pod["metadata"]["uid"]] = self.now()
        name, now = pod["spec"]["nodeName"], self.now()
        if self.decided.get(pod["metadata"]["uid"]) != name:
            self.say(f"{key} was bound to {name}, which no plan decided")
        for count, act in [entry for entry in self.on_bound if entry[0] <= self.bindings]:
            self.on_bound.remove((count, act))
            act(name)
        queue = self._paid[pod["metadata"]["uid"]] = self.queue_of(pod)
        facts = self.queues.get(queue)
        if facts is None:
            self.say(f"{key} was bound although its queue {queue} does not exist")
            return
        node = self.nodes.get(name)
        labels = node["metadata"].get("labels") or {} if node else {}
        wanted = dict(pod["spec"].get("nodeSelector") or {})
        if self.new_work(pod, facts):
            self.say(
                f"{key} was bound, new work of queue {queue}, closed for {now - (facts.closed_since or now):.0f} s"
            )
        if facts.zone:
            wanted["zone"] = facts.zone
        if node is not None and any(labels.get(label) != value for label, value in wanted.items()):
            self.say(f"{key} was bound to {name}, which does not have {wanted}")
        if name in self.closed_since and now - self.closed_since[name] > LAG:
            self.say(f"{key} was bound to {name}, closed for {now - self.closed_since[name]:.0f} s")
        for other_key, other in self.pods.items():
            if other is not pod and other["spec"].get("nodeName") == name and self.holds(other):
                for one, near in ((pod, other), (other, pod)):
                    app, since = self._apps.get(near["metadata"]["uid"], ("", now))
                    if app in _shunned(one) and now - since > LAG:
                        self.say(f"{key} was bound to {name} beside {other_key}: one shuns app {app} of the other")
        most, used = facts.most(now), self.used(queue)
        if most is not None and used > most:
            self.say(f"{key} raised queue {queue} to {used} cards, its quota is {most}")
        group = (pod["metadata"].get("labels") or {}).get(GROUP)
        podgroup = self.groups.get(f"{pod['metadata']['namespace']}/{group}") if group else None
        if podgroup is not None:
            self.ran |= partial_gangs(self._members(), [podgroup])[1]

    def deleted_by_us(self, key: str, uid: str | None) -> None:
        """The scheduler asks for a pod's deletion, perhaps with its uid as precondition: was that pod to go?"""
        pod = self.pods.get(key)
        if pod is not None and uid in (None, pod["metadata"]["uid"]) and pod["metadata"]["uid"] not in self.to_go:
            self.say(f"{key} is deleted, and it was not the pod that was to go")

    def _in_part(self, pod: Object) -> bool:
        """Whether other members of a pod's group are bound."""
        group = (pod["metadata"].get("labels") or {}).get(GROUP)
        return any(
            other is not pod and self.holds(other) and (other["metadata"].get("labels") or {}).get(GROUP) == group
            for other in self._members()
            if group
        )

    def _members(self) -> list[Object]:
        """Pods that count as members of their groups."""
        return [pod for pod in self.pods.values() if pod["metadata"]["uid"] not in self.bypassing]

    def partial(self) -> list[str]:
        """Gangs that never ran and have a part of their minimum bound now."""
        living = [pod for pod in self._members() if placed(pod) and self.holds(pod)]
        found, _ = partial_gangs(living, self.groups.values(), self.ran)
        done = self.ran | self.loose
        return [f"{gang.group}: {gang.placed} of {gang.minimum} bound" for gang in found if gang.group not in done]

    def half_bound(self) -> set[str]:
        """The gangs of `partial`, each with the pods that are bound."""
        bound: defaultdict[str, list[str]] = defaultdict(list)
        for pod in self._members():
            group = (pod["metadata"].get("labels") or {}).get(GROUP)
            if group and self.holds(pod):
                bound[f"{pod['metadata']['namespace']}/{group}"].append(pod["metadata"]["uid"])
        return {f"{text} ({sorted(bound[text.partition(':')[0]])})" for text in self.partial()}

    def room(self, name: str) -> dict[str, Fraction]:
        """What is free on a node."""
        has = {key: amount(value) for key, value in self.nodes[name]["status"]["allocatable"].items()}
        taken: defaultdict[str, Fraction] = defaultdict(Fraction)
        for pod in self.pods.values():
            if self.holds(pod) and pod["spec"]["nodeName"] == name:
                for key, value in occupied(pod["spec"]).items():
                    taken[key] += value
        return {key: value - taken[key] for key, value in has.items()}

    def reaches(self, pod: Object, node: Object) -> bool:
        """Whether the pod's volumes can be used on the node: those that its claims are bound to, or being bound to, or,
        where volumes lie on nodes, one that no claim has yet.
        """
        hostname = (node["metadata"].get("labels") or {}).get("kubernetes.io/hostname")
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            claim = self.claims.get(f"{pod['metadata']['namespace']}/{name}")
            if name and claim is None:
                return False
            bound = self.volumes.get((claim or {}).get("spec", {}).get("volumeName", ""))
            if bound is not None:
                if not _lies_on(bound, hostname):
                    return False
            elif claim is not None:
                free = (one for one in self.volumes.values() if not one["spec"].get("claimRef"))
                if claim["spec"]["storageClassName"] == KEPT and not any(_lies_on(one, hostname) for one in free):
                    return False
                chosen = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
                if chosen not in (None, node["metadata"]["name"]):
                    return False
        return True

    def unsure(self, name: str) -> list[str]:
        """Keys of the pods on a node whose cards are unknown: it gives none of them to others."""
        return self.ledger.lost(name, [pod for pod in self.pods.values() if self.holds(pod)])

    def places(self, pod: Object, zone: str) -> int:
        """How many pods like this one the open nodes have room for now."""
        spec = pod["spec"]
        asks, total = occupied(spec), 0
        wanted = dict(spec.get("nodeSelector") or {}) | ({"zone": zone} if zone else {})
        for name, node in self.nodes.items():
            labels = node["metadata"].get("labels") or {}
            if name in self.closed_since or any(labels.get(label) != value for label, value in wanted.items()):
                continue
            if not self.reaches(pod, node) or (self.cards(pod) and self.unsure(name)):
                continue
            room = self.room(name)
            total += max(0, min(int(room.get(key, Fraction(0)) // value) for key, value in asks.items()))
        return total
