"""The witness sees every write at the moment it is stored, and holds it against what must always be true.

It sits where the dev cluster's storage records its writes, so nothing is missed between two looks. It shares no code
with the scheduler: amounts come from the auditor's own reading of the documents, sums are made here anew.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from t9ksched.devcluster.auditor import Books, amount, occupied, partial_gangs, placed

Object = dict[str, Any]
GROUP = "scheduler.tensorstack.dev/group-name"
QUEUE = "scheduler.tensorstack.dev/queue"
OURS = "t9k-scheduler"
ENDED = ("Succeeded", "Failed")
GPU = "nvidia.com/gpu"
LAG = 90.0
"""Seconds for which a decision taken under an earlier quota, or on an earlier state of a node, may still be bound."""


@dataclass
class QueueFacts:
    """A queue as the history made it: quotas with the time from which each was in force."""

    zone: str = ""
    quotas: list[tuple[float, int | None]] = field(default_factory=list)

    def most(self, now: float) -> int | None:
        """The largest number of cards that a binding made now may lead to; None without limit."""
        counted = [quota for since, quota in self.quotas if since >= now - LAG]
        before = [quota for since, quota in self.quotas if since < now - LAG]
        counted += before[-1:]
        numbers = [quota for quota in counted if quota is not None]
        return None if len(numbers) < len(counted) else max(numbers)


class Witness:
    """`faults` is what it saw that must not be; `bindings` counts what it judged."""

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
        self._books = Books()
        self._paid: dict[str, str] = {}

    def record(self, collection: str, key: str, version: int, obj: Object | None) -> None:
        """One write, before it takes effect."""
        resource = collection.rpartition("/")[2].partition(".")[0]
        if resource == "pods":
            self._pod(key, obj)
        elif resource == "nodes":
            self._node(key, obj)
        elif resource == "podgroups":
            if obj is None:
                self.groups.pop(key, None)
                self.ran.discard(key)
            else:
                self.groups[key] = obj

    def _node(self, name: str, obj: Object | None) -> None:
        if obj is None:
            self.nodes.pop(name, None)
            self._books.node_gone(name)
            return
        if (obj.get("spec") or {}).get("unschedulable") or (obj.get("spec") or {}).get("taints"):
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
            return
        self.pods[key] = obj
        if old is not None and old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._books.leave(old["metadata"]["uid"])
            old = None
        before = len(self._books.findings)
        self._books.enter(obj)
        for finding in list(self._books.findings)[before:]:
            if not any(self.pods.get(name, {}).get("spec", {}).get("schedulerName") != OURS for name in finding.pods):
                self.say(f"{finding.kind} on {finding.node}: {finding.detail}")
        bound_now = obj["spec"].get("nodeName") and not (old or {}).get("spec", {}).get("nodeName")
        if bound_now and obj["spec"].get("schedulerName") == OURS:
            self._bound(key, obj)

    def say(self, text: str) -> None:
        """Something is as it must not be."""
        self.faults.append(f"{self.now():8.1f}  {text}")

    def queue_of(self, pod: Object) -> str:
        """The queue that pays for a pod."""
        labels = pod["metadata"].get("labels") or {}
        group = labels.get(GROUP)
        if group:
            podgroup = self.groups.get(f"{pod['metadata']['namespace']}/{group}") or {}
            return str((podgroup.get("spec") or {}).get("queue") or "default")
        return str(labels.get(QUEUE) or "default")

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
        name, now = pod["spec"]["nodeName"], self.now()
        queue = self._paid[pod["metadata"]["uid"]] = self.queue_of(pod)
        facts = self.queues.get(queue)
        if facts is None:
            self.say(f"{key} was bound although its queue {queue} does not exist")
            return
        node = self.nodes.get(name)
        labels = node["metadata"].get("labels") or {} if node else {}
        wanted = dict(pod["spec"].get("nodeSelector") or {})
        if facts.zone:
            wanted["zone"] = facts.zone
        if node is not None and any(labels.get(label) != value for label, value in wanted.items()):
            self.say(f"{key} was bound to {name}, which does not have {wanted}")
        if name in self.closed_since and now - self.closed_since[name] > LAG:
            self.say(f"{key} was bound to {name}, closed for {now - self.closed_since[name]:.0f} s")
        most, used = facts.most(now), self.used(queue)
        if most is not None and used > most:
            self.say(f"{key} raised queue {queue} to {used} cards, its quota is {most}")
        group = (pod["metadata"].get("labels") or {}).get(GROUP)
        podgroup = self.groups.get(f"{pod['metadata']['namespace']}/{group}") if group else None
        if podgroup is not None:
            self.ran |= partial_gangs(self.pods.values(), [podgroup])[1]

    def partial(self) -> list[str]:
        """Gangs that never ran and have a part of their minimum bound now."""
        living = [pod for pod in self.pods.values() if placed(pod) and self.holds(pod)]
        found, _ = partial_gangs(living, self.groups.values(), self.ran)
        return [f"{gang.group}: {gang.placed} of {gang.minimum} bound" for gang in found if gang.group not in self.ran]

    def room(self, name: str) -> dict[str, Fraction]:
        """What is free on a node."""
        has = {key: amount(value) for key, value in self.nodes[name]["status"]["allocatable"].items()}
        taken: defaultdict[str, Fraction] = defaultdict(Fraction)
        for pod in self.pods.values():
            if self.holds(pod) and pod["spec"]["nodeName"] == name:
                for key, value in occupied(pod["spec"]).items():
                    taken[key] += value
        return {key: value - taken[key] for key, value in has.items()}

    def places(self, spec: Object, zone: str) -> int:
        """How many pods of a spec the open nodes have room for now."""
        asks, total = occupied(spec), 0
        wanted = dict(spec.get("nodeSelector") or {}) | ({"zone": zone} if zone else {})
        for name, node in self.nodes.items():
            labels = node["metadata"].get("labels") or {}
            if name in self.closed_since or any(labels.get(label) != value for label, value in wanted.items()):
                continue
            room = self.room(name)
            total += max(0, min(int(room.get(key, Fraction(0)) // value) for key, value in asks.items()))
        return total
