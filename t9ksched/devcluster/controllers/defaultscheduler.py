"""A trivial default scheduler, so that a simulated cluster has foreign pods too.

It places pods whose schedulerName is `default-scheduler`, one at a time and on the node with most room left, by
nodeSelector, required node affinity, taints, volumes, host ports and resources. All bound pods are charged, whichever
scheduler bound them. A pod that fits nowhere stays Pending with `PodScheduled=False`, reason `Unschedulable`, and one
pod of each class is tried again when something changes.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from t9ksched.devcluster.controllers.follow import Follower, Reconciler, split_key
from t9ksched.devcluster.controllers.timers import Timers, to_text
from t9ksched.devcluster.controllers.volumes import (
    SELECTED_NODE,
    claim_names,
    is_bound,
    volume_affinity,
    waits_for_consumer,
)
from t9ksched.devcluster.nodes.podstatus import is_terminal
from t9ksched.kube.errors import Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, PODS, PVCS, PVS, STORAGECLASSES
from t9ksched.model.errors import Invalid
from t9ksched.model.labels import NodeSelector
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.pod import decode_pod, pod_class
from t9ksched.model.podclass import ClassTable, HostPort, PodClass
from t9ksched.model.quantity import QuantityError
from t9ksched.model.taints import untolerated

Object = dict[str, Any]

NAME: Final = "default-scheduler"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


class _Waits(Exception):
    """The pod cannot be placed now; the text says why."""


class _Node:
    """A node and what bound pods take of it."""

    def __init__(self, obj: Object) -> None:
        self.used: dict[str, int] = {}
        self.ports: dict[str, tuple[HostPort, ...]] = {}
        self.update(obj)

    def update(self, obj: Object) -> None:
        self.facts: NodeFacts = node_facts(decode_node(obj))

    def allows(self, wanted: PodClass) -> bool:
        """Whether the pod may run here at all, whatever is free."""
        facts = self.facts
        return (
            facts.ready
            and not facts.unschedulable
            and not facts.deleting
            and all(facts.labels.get(key) == value for key, value in wanted.node_selector)
            and (wanted.node_affinity is None or wanted.node_affinity.matches(facts.labels, facts.name))
            and all(affinity.matches(facts.labels, facts.name) for affinity in wanted.volume_affinity)
            and untolerated(facts.taints, wanted.tolerations) is None
        )

    def room(self, wanted: PodClass) -> int:
        """The smallest share, in thousandths, that is left of a resource once the pod is here; negative: no room."""
        least = 1000
        for resource, amount in wanted.requests:
            has = self.facts.allocatable.get(resource, 0)
            left = has - self.used.get(resource, 0) - amount
            if left < 0:
                return -1
            least = min(least, left * 1000 // has)
        taken = [port for ports in self.ports.values() for port in ports] if wanted.host_ports else []
        return -1 if any(port.conflicts(other) for port in wanted.host_ports for other in taken) else least


class DefaultScheduler(Reconciler):
    """Reconciles unbound pods by key, one at a time."""

    workers = 1

    def __init__(self, port: ClusterPort, follower: Follower, timers: Timers) -> None:
        super().__init__(timers)
        self._port = port
        self._table = ClassTable()
        self._nodes: dict[str, _Node] = {}
        self._charged: dict[str, tuple[str, PodClass]] = {}
        """By pod key: node and class of each bound pod that has not ended."""
        self._stuck: dict[PodClass, dict[str, None]] = {}
        self._parked: OrderedSet[str] = OrderedSet()
        """Pods that wait for a volume, a claim or the lifting of something else than room."""
        self._claims = follower.cache(PVCS)
        self._volumes = follower.cache(PVS)
        self._classes = follower.cache(STORAGECLASSES)
        self._pods = follower.cache(PODS)
        follower.cache(NODES).listen(self._node_changed)
        self._pods.listen(self._pod_changed)
        for cache in (self._claims, self._volumes, self._classes):
            cache.listen(lambda *_: self._unpark())

    def _node_changed(self, name: str, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._nodes.pop(name, None)
            return
        if name in self._nodes:
            self._nodes[name].update(new)
        else:
            self._nodes[name] = _Node(new)
            for key, (node, wanted) in self._charged.items():
                if node == name:
                    self._charge(key, name, wanted, 1)
        self._retry()

    def _pod_changed(self, key: str, old: Object | None, new: Object | None) -> None:
        if new is None or is_terminal(new):
            self._forget(key)
            charged = self._charged.pop(key, None)
            if charged is not None:
                self._charge(key, *charged, -1)
                self._retry()
        elif node := new["spec"].get("nodeName"):
            self._forget(key)
            if key not in self._charged and (wanted := self._class(new, ())) is not None:
                self._take(key, node, wanted)
        elif new["spec"].get("schedulerName", NAME) == NAME and (
            old is None or old["spec"] != new["spec"] or new["metadata"].get("deletionTimestamp")
        ):
            self.mark(key)

    def _take(self, key: str, node: str, wanted: PodClass) -> None:
        self._charged[key] = (node, wanted)
        self._charge(key, node, wanted, 1)

    def _charge(self, key: str, name: str, wanted: PodClass, sign: int) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        for resource, amount in wanted.requests:
            node.used[resource] = node.used.get(resource, 0) + sign * amount
        if sign > 0 and wanted.host_ports:
            node.ports[key] = wanted.host_ports
        elif sign < 0:
            node.ports.pop(key, None)

    def _class(self, pod: Object, affinity: Iterable[NodeSelector]) -> PodClass | None:
        try:
            return self._table.intern(pod_class(decode_pod(pod).spec, affinity))
        except (msgspec.ValidationError, QuantityError, Invalid):
            return None

    def _forget(self, key: str) -> None:
        self._parked.discard(key)
        for waiting in self._stuck.values():
            waiting.pop(key, None)

    def _retry(self) -> None:
        """Room has appeared: try one pod of each class of waiting pods."""
        for wanted in [wanted for wanted, keys in self._stuck.items() if not keys]:
            del self._stuck[wanted]
        for waiting in self._stuck.values():
            self.mark(next(iter(waiting)))

    def _unpark(self) -> None:
        for key in self._parked:
            self.mark(key)

    async def reconcile(self, key: str) -> None:
        """Place one pod, or say why not."""
        pod = self._pods.get(key)
        if pod is None or pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp") or is_terminal(pod):
            self._forget(key)
            return
        if pod["spec"].get("schedulingGates"):
            return  # the server itself sets the condition of a gated pod
        self._parked.discard(key)
        try:
            wanted, unbound = self._wants(pod)
        except _Waits as reason:
            self._parked.add(key)
            await self._say(key, pod, str(reason))
            return
        node = self._choose(wanted)
        if node is None:
            self._stuck.setdefault(wanted, {})[key] = None
            await self._say(key, pod, f"0/{len(self._nodes)} nodes have the room and the properties that the pod needs")
        elif unbound:
            await self._select_node(key, pod, unbound, node)
        elif await self._bind(key, pod, node, wanted):
            more = self._stuck.get(wanted, {})
            more.pop(key, None)
            if more:
                self.mark(next(iter(more)))

    def _wants(self, pod: Object) -> tuple[PodClass, list[Object]]:
        """The pod's class with its volumes' affinities, and its claims that wait for a node to be chosen."""
        affinities: list[NodeSelector] = []
        unbound: list[Object] = []
        for name in claim_names(pod):
            claim = self._claims.get(f"{pod['metadata']['namespace']}/{name}")
            if claim is None:
                raise _Waits(f"the claim {name!r} does not exist")
            volume = self._volumes.get(claim["spec"].get("volumeName") or "")
            if is_bound(claim) and volume is not None:
                affinity = volume_affinity(volume)
                affinities += [affinity] if affinity else []
            elif waits_for_consumer(self._classes.get(claim["spec"].get("storageClassName") or "")):
                if (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE):
                    raise _Waits(f"the claim {name!r} waits for its volume")
                unbound.append(claim)
            else:
                raise _Waits(f"the claim {name!r} has no volume yet")
        wanted = self._class(pod, affinities)
        if wanted is None:
            raise _Waits("the pod cannot be read")
        return wanted, unbound

    def _choose(self, wanted: PodClass) -> str | None:
        best, most = None, -1
        for name, node in self._nodes.items():
            room = node.room(wanted)
            if room > most and node.allows(wanted):
                best, most = name, room
        return best

    async def _select_node(self, key: str, pod: Object, claims: list[Object], node: str) -> None:
        self._parked.add(key)
        for claim in claims:
            body = {"metadata": {"uid": claim["metadata"]["uid"], "annotations": {SELECTED_NODE: node}}}
            name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
            self._claims.learn(await self._port.patch(PVCS, name, namespace, body))

    async def _bind(self, key: str, pod: Object, node: str, wanted: PodClass) -> bool:
        namespace, name = split_key(key)
        assert namespace is not None
        self._take(key, node, wanted)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._port.bind(namespace, name, binding)
        except BaseException as error:
            if self._charged.get(key) == (node, wanted) and not self._is_bound(key):
                del self._charged[key]
                self._charge(key, node, wanted, -1)
            if isinstance(error, NotFound | Conflict):
                return False  # gone, or bound by another meanwhile: the watch brings the news
            raise
        return True

    def _is_bound(self, key: str) -> bool:
        pod = self._pods.get(key)
        return pod is not None and bool(pod["spec"].get("nodeName"))

    async def _say(self, key: str, pod: Object, message: str) -> None:
        conditions = (pod.get("status") or {}).get("conditions") or []
        if any(c["type"] == "PodScheduled" and c.get("message") == message for c in conditions):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": to_text(self.timers.clock()),
        }
        namespace, name = split_key(key)
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
        try:
            written = await self._port.patch(
                PODS, name, namespace, body, content_type=STRATEGIC_PATCH, subresource="status"
            )
        except NotFound:
            return
        self._pods.learn(written)
