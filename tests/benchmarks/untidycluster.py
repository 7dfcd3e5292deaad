"""The cluster of `untidy.py`: everything that makes clusters untidy, at once, and the events that never end.

On `nodes` nodes of 8 cards, in racks of 16, run ten pods a node: as many of ours with one card each as there are cards,
pods of Deployments of another scheduler that keep apart by host, and pods without cards. Pods of ours share claims for
data sets, and disruption budgets select them. One gang waits for each node, all unlike: two pods of 8 cards, of which
two in five mount a shared claim, one in five would like to be in one rack, and one in fifty near pods of a Deployment.
"""

import asyncio
import os
import random
from collections import deque
from pathlib import Path
from time import monotonic
from typing import Any

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.options import DeleteOptions
from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.nodes.nodefile import nodes_from
from t9ksched.model import names

Object = dict[str, Any]

CARDS = names.GPU_INDEX_PREFIX + "main"
CARDS_A_NODE = 8
PODS_A_NODE = 10
RACK = "topology.example.com/rack"
HOST = "kubernetes.io/hostname"
COMES = "come-"
"""Begins the names of pods that come while figures are taken; they end with the time, in µs of the clock that all
processes share.
"""
DEPLOYMENTS, CLAIMS, BUDGETS, QUEUES = 100, 50, 50, 5
MODES = ["ReadWriteMany"]
GRACE_SECONDS, LEAVE_SECONDS = 30, 1.0
"""How long pods that are evicted may take to end, and how long they do."""
RUNNING: Object = {
    "phase": "Running",
    "startTime": "2026-01-01T00:00:00Z",
    "conditions": [{"type": "PodScheduled", "status": "True"}],
}


def node_objects(count: int) -> list[Object]:
    """Nodes with their racks."""
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(CARDS_A_NODE)}
    made = nodes_from({"nodes": [{"name": "bench", "count": count, "allocatable": allocatable}]})
    for at, node in enumerate(made):
        node["metadata"]["labels"][RACK] = f"r{at // 16}"
    return made


def pod(name: str, amounts: Object, labels: Object, *, ours: bool = True, **spec: Any) -> Object:
    """A pod that waits."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    scheduler = names.SCHEDULER_NAME if ours else "default-scheduler"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            **spec,
        },
    }


def runs(waiting: Object, node: str, card: int | None = None) -> Object:
    """The pod after its binding and its start."""
    cards = {} if card is None else {"annotations": {CARDS: str(card)}}
    return {
        **waiting,
        "metadata": waiting["metadata"] | cards,
        "spec": waiting["spec"] | {"nodeName": node},
        "status": RUNNING,
    }


def one_card(name: str, queue: str, claim: int | None = None) -> Object:
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    labels = {names.QUEUE_LABEL: queue, "team": f"t{sum(name.encode()) % BUDGETS}"}
    return pod(name, amounts, labels, **_mounting(claim))


def of_deployment(name: str, app: str) -> Object:
    """A pod that keeps apart from its like by host, as Helm charts make them."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(name, {"cpu": "500m", "memory": "1Gi"}, {"app": app}, ours=False, affinity=affinity)


def _mounting(claim: int | None) -> Object:
    if claim is None:
        return {}
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{claim}"}}]}


def gang(at: int) -> tuple[Object, list[Object]]:
    """A PodGroup that is unlike all others, and its two pods of 8 cards."""
    name, queue = f"w{at}", f"b{at % QUEUES}"
    annotations = {"scheduler.tensorstack.dev/topology-key": RACK} if at % 5 == 0 else {}
    group = {
        "apiVersion": names.SCHEDULER_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"minMember": 2, "queue": queue, **({"topologyPolicy": "Preferred"} if annotations else {})},
    }
    amounts = {"cpu": f"{32_000 + at}m", "memory": "64Gi", "nvidia.com/gpu": "8"}
    more = _mounting(at % CLAIMS if at % 5 < 2 else None)
    if at % 50 == 0:
        term = {"labelSelector": {"matchLabels": {"app": f"d{at % DEPLOYMENTS}"}}, "topologyKey": RACK}
        more["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {names.QUEUE_LABEL: queue, names.GROUP_LABEL: name}
    return group, [pod(f"{name}-{member}", amounts, labels, **more) for member in range(2)]


class Untidy:
    """The cluster's contents and its events. All writes go straight into the dev cluster's API, without HTTP."""

    def __init__(self, api: Api, nodes: int) -> None:
        self._api, self._nodes = api, nodes
        self._pods = api.kind("", "v1", "pods")
        self._running: deque[str] = deque()
        self._coming: deque[str] = deque()
        self._leaving: deque[tuple[float, str]] = deque()
        """Pods that were evicted, and when they will have ended."""
        self._left: set[str] = set()
        self._random = random.Random(1)
        self._made = 0

    async def fill(self) -> None:
        """Everything that is there at the start."""
        api = self._api
        claims, volumes = api.kind("", "v1", "persistentvolumeclaims"), api.kind("", "v1", "persistentvolumes")
        for at in range(CLAIMS):
            spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}}
            claim = {
                "metadata": {"name": f"data-{at}"},
                "spec": spec | {"volumeName": f"pv-{at}", "storageClassName": ""},
            }
            source = {"nfs": {"server": "nfs.example", "path": f"/data/{at}"}}
            reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": f"data-{at}"}
            volume = {
                "metadata": {"name": f"pv-{at}"},
                "spec": {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Ti"}, "claimRef": reference}
                | source,
            }
            made = api.create(volumes, None, volume)
            api.write(volumes, made, made.object | {"status": {"phase": "Bound"}})
            made = api.create(claims, "default", claim)
            api.write(claims, made, made.object | {"status": {"phase": "Bound", "accessModes": MODES}})
        budgets = api.kind("policy", "v1", "poddisruptionbudgets")
        for at in range(BUDGETS):
            spec = {"minAvailable": "50%", "selector": {"matchLabels": {"team": f"t{at}"}}}
            made = api.create(budgets, "default", {"metadata": {"name": f"b{at}"}, "spec": spec})
            status = {
                "observedGeneration": 1,
                "disruptionsAllowed": 10,
                "currentHealthy": 20,
                "desiredHealthy": 10,
                "expectedPods": 20,
            }
            api.write(budgets, made, made.object | {"status": status})
        for at in range(self._nodes):
            self._fill_node(at)
            if at % 50 == 0:
                await asyncio.sleep(0)
        api_group, _, version = names.SCHEDULER_API.partition("/")
        groups = api.kind(api_group, version, "podgroups")
        for at in range(self._nodes):
            group, members = gang(at)
            api.create(groups, "default", group)
            for member in members:
                api.create(self._pods, "default", member)
            if at % 50 == 0:
                await asyncio.sleep(0)
        api.storage.compact()
        api.observers.append(self._see)

    def _see(self, kind: Any, entry: Any, removed: bool) -> None:
        """Pods that are evicted end a second later; others are ended at once."""
        metadata = entry.object["metadata"]
        name = metadata["name"]
        if kind is self._pods and not removed and metadata.get("deletionGracePeriodSeconds") and name not in self._left:
            self._left.add(name)
            self._leaving.append((monotonic() + LEAVE_SECONDS, name))

    def _fill_node(self, at: int) -> None:
        host = f"bench-{at}"
        for card in range(CARDS_A_NODE):
            claim = at % CLAIMS if card == 0 else None
            self._start(one_card(f"r{at}-{card}", "default", claim), host, card)
            self._running.append(f"r{at}-{card}")
        if at * 5 < self._nodes * 2:
            self._start(of_deployment(f"d{at}", f"d{at % DEPLOYMENTS}"), host)
        else:
            self._start(pod(f"c{at}", {"cpu": "1", "memory": "1Gi"}, {names.QUEUE_LABEL: "default"}), host)
        self._start(pod(f"s{at}", {"cpu": "100m"}, {"app": "agent"}, ours=False), host)

    def _start(self, waiting: Object, node: str, card: int | None = None) -> None:
        made = self._api.create(self._pods, "default", waiting)
        self._api.write(self._pods, made, runs(made.object, node, card))

    async def events(self, a_second: int, done: asyncio.Event) -> None:
        """So many events a second, evenly: of ten, three pods end, three come, two are patched, one node and one claim,
        volume or budget change. Pods that were bound start to run.
        """
        due = monotonic()
        self._random.shuffle(self._running)
        count = 0
        while not done.is_set():
            self._event(count)
            count += 1
            due += 1 / a_second
            await asyncio.sleep(max(0.0, due - monotonic()))

    def _event(self, count: int) -> None:
        kind = count % 10
        if kind in (0, 3, 6):
            self._end(self._next_running())
        elif kind in (1, 4, 7):
            self._come()
        elif kind in (2, 5):
            self._patch_pod()
        elif kind == 8:
            self._touch(self._api.kind("", "v1", "nodes"), None, f"bench-{self._random.randrange(self._nodes)}")
        else:
            self._patch_other()
        self._let_run()
        while self._leaving and self._leaving[0][0] <= monotonic():
            self._end(self._leaving.popleft()[1])

    def _next_running(self) -> str:
        while (name := self._running.popleft()) in self._left:
            self._left.discard(name)
        return name

    def _end(self, name: str) -> None:
        self._api.delete(self._pods, "default", name, DeleteOptions(grace=0))

    def _come(self) -> None:
        name = f"{COMES}{self._made}-{monotonic() * 1e6:.0f}"
        self._made += 1
        claim = self._made % CLAIMS if self._made % 3 == 0 else None
        self._api.create(self._pods, "default", one_card(name, "quick", claim))
        self._coming.append(name)

    def _patch_pod(self) -> None:
        name = self._running[self._random.randrange(len(self._running))]
        if name not in self._left:
            self._touch(self._pods, "default", name)

    def _patch_other(self) -> None:
        one = self._random.randrange(3)
        at = self._random.randrange(min(CLAIMS, BUDGETS))
        if one == 0:
            self._touch(self._api.kind("", "v1", "persistentvolumeclaims"), "default", f"data-{at}")
        elif one == 1:
            self._touch(self._api.kind("", "v1", "persistentvolumes"), None, f"pv-{at}")
        else:
            self._touch(self._api.kind("policy", "v1", "poddisruptionbudgets"), "default", f"b{at}")

    def _touch(self, kind: Any, namespace: str | None, name: str) -> None:
        """An object changes in an annotation that decides nothing."""
        entry = self._find(kind, namespace, name)
        metadata = entry.object["metadata"]
        notes = metadata.get("annotations", {}) | {"example.com/touched": repr(monotonic())}
        self._api.write(kind, entry, entry.object | {"metadata": metadata | {"annotations": notes}})

    def _find(self, kind: Any, namespace: str | None, name: str) -> Any:
        return self._api.collection(kind).entries[f"{namespace}/{name}" if namespace else name]

    def _let_run(self) -> None:
        for _ in range(len(self._coming)):
            name = self._coming.popleft()
            entry = self._find(self._pods, "default", name)
            if not entry.object["spec"].get("nodeName"):
                self._coming.append(name)
                continue
            self._api.write(self._pods, entry, entry.object | {"status": RUNNING})
            self._running.append(name)


def serve(kubeconfig: Path, nodes: int, rate: int, up: Any, go: Any, done: Any) -> None:
    """The child: the cluster, with events from `go` to `done`."""

    async def main() -> None:
        os.nice(5)
        cluster = DevCluster(None, node_objects(nodes), controllers=False)
        await cluster.start()
        untidy = Untidy(cluster.api, nodes)
        await untidy.fill()
        cluster.write_kubeconfig(kubeconfig)
        up.set()
        await asyncio.to_thread(go.wait)
        ended = asyncio.Event()
        work = asyncio.create_task(untidy.events(rate, ended))
        waits = asyncio.create_task(asyncio.to_thread(done.wait))
        await asyncio.wait({work, waits}, return_when=asyncio.FIRST_COMPLETED)
        ended.set()
        await work
        await cluster.stop()

    asyncio.run(main())
