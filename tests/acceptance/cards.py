"""Who holds cards at each version of the cluster: one list, and every change of a pod after it, in the server's order.

A look now and then at several lists shows what was at several moments; here nothing between two looks is missed, and
nothing is counted that was never there together.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from t9ksched.devcluster.audit.auditor import audit, occupied
from t9ksched.kube.errors import ApiError
from t9ksched.kube.resources import NODES, PODS
from t9ksched.kube.transport.client import Client
from t9ksched.store import Store, history
from tests.chaos.invariant_checker import QUEUE

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
_AUDIT_SECONDS = 3.0
_ENDED = ("Succeeded", "Failed")


class Step(NamedTuple):
    """At this version a pod holds so many cards more, or fewer. `label` is the queue that its label named then."""

    at: float
    version: str
    pod: str
    label: str
    cards: int

    def __str__(self) -> str:
        return f"{self.at:.3f} version {self.version} {self.pod} {self.cards:+d} ({self.label})"


class CardBook:
    """What each pod holds, change by change. Names of pods are not used again in one run."""

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        self.steps: list[Step] = []
        self.changes = 0
        self._holds: dict[str, int] = {}

    def take(self, change: str, pod: Object) -> None:
        """One event of the watch, in the order of the server. A pod holds its cards until it ended or is gone."""
        meta = pod["metadata"]
        self.changes += 1
        over = change == "DELETED" or pod["status"].get("phase") in _ENDED or not pod["spec"].get("nodeName")
        holds, before = 0 if over else int(occupied(pod["spec"]).get(GPU, 0)), self._holds.get(meta["uid"], 0)
        if change == "DELETED":
            self.pods.pop(meta["uid"], None)
            self._holds.pop(meta["uid"], None)
        else:
            self.pods[meta["uid"]] = pod
            self._holds[meta["uid"]] = holds
        if holds != before:
            label = (meta.get("labels") or {}).get(QUEUE, "")
            self.steps.append(Step(time.time(), meta["resourceVersion"], meta["name"], label, holds - before))

    def begin(self, pods: list[Object]) -> None:
        """All pods as they are at one version; those that are not among them went in between."""
        there = {pod["metadata"]["uid"] for pod in pods}
        for uid in self.pods.keys() - there:
            self.take("DELETED", self.pods[uid])
        for pod in pods:
            self.take("ADDED", pod)


def passed(
    steps: Sequence[Step], queues: Mapping[str, str], quotas: Mapping[str, int]
) -> tuple[Counter[str], list[str]]:
    """The most cards that each queue held at any version, and where one held more than its quota.

    Args:
        queues: the queue on record by name of pod; of one without a record its label counts.
        quotas: cards by queue.
    """
    held: Counter[str] = Counter()
    most: Counter[str] = Counter()
    faults = []
    for number, step in enumerate(steps):
        queue = queues.get(step.pod, step.label)
        held[queue] += step.cards
        most[queue] = max(most[queue], held[queue])
        if step.cards > 0 and held[queue] > quotas.get(queue, held[queue]):
            last = "; ".join(map(str, steps[max(0, number - 20) : number + 1]))
            faults.append(f"queue {queue} holds {held[queue]} cards, its quota is {quotas[queue]}: {last}")
    return most, faults


class CardWatch:
    """Follows all pods of a cluster and audits them as they are together."""

    def __init__(self, kube: Client) -> None:
        self._kube = kube
        self.book = CardBook()
        self.audits = 0
        self.crossed: list[str] = []

    async def follow(self) -> None:
        """Follow until cancelled; a stream that ends goes on where it was, one that breaks begins anew."""
        auditing = asyncio.create_task(self._audit())
        try:
            version = ""
            while True:
                try:
                    version = await self._changes(version or await self._begin())
                except ApiError:
                    version = ""
                    await asyncio.sleep(0.5)
        finally:
            auditing.cancel()

    async def _begin(self) -> str:
        found = await self._kube.list(PODS)
        self.book.begin(found.items)
        return found.resource_version

    async def _changes(self, version: str) -> str:
        async with aclosing(self._kube.watch(PODS, resource_version=version)) as events:
            async for event in events:
                version = event.object["metadata"]["resourceVersion"]
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    self.book.take(event.type, event.object)
        return version

    async def _audit(self) -> None:
        """No card is given twice, no node charged beyond what it has, no pod on a node that is not there."""
        while True:
            await asyncio.sleep(_AUDIT_SECONDS)
            try:
                nodes = (await self._kube.list(NODES)).items
            except ApiError:
                continue
            pods = [pod for pod in self.book.pods.values() if pod["spec"].get("nodeName")]
            self.crossed += [
                f"{one.kind} on {one.node}: {one.detail} {one.pods}" for one in audit(nodes, pods, []).findings
            ]
            self.audits += 1


async def queues_on_record(address: str) -> dict[str, str]:
    """The queue that history says each bound pod is charged to, by name of pod."""
    found: dict[str, str] = {}
    async with await Store.open(address, migrate=False) as store:
        after = 0
        while page := await store.history.list(events={history.BOUND}, after=after, limit=5000):
            found |= {str(event.detail["pod"]).rpartition("/")[2]: event.queue or "" for event in page}
            after = page[-1].id
    return found
