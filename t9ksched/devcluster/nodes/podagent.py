"""What the kubelets of the dev cluster have in common: one object for all its nodes, one pod event at a time.

It follows the pods bound to its nodes, gives them room or refuses them, writes their status, and removes deleted pods.
How their containers run is for those that build on it. Room is freed only when the server's state says that a pod
ended, so that no client ever sees a card held twice. `refusals` lists the pods that others should not have bound.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from t9ksched.devcluster.controllers.follow import Follower, Reconciler, split_key
from t9ksched.devcluster.controllers.timers import Timers
from t9ksched.devcluster.nodes import podstatus
from t9ksched.devcluster.nodes.noderoom import NodeRoom, PodRefused
from t9ksched.kube.errors import NotFound, Unprocessable
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, PODS
from t9ksched.model.ordered import OrderedSet

Object = dict[str, Any]

SILENCE_SECONDS: Final = 1.0
"""Seconds after which a kubelet looks again at a node that is silent."""
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
BACKOFF: Final = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""Pause before the first, second, … restart of a container, in seconds; the last one repeats."""


class Refusal(NamedTuple):
    """A pod that was bound to a node that could not take it."""

    pod: str
    reason: str
    node: str
    message: str


class Life(msgspec.Struct):
    """What a kubelet has decided about one pod, beyond what the pod's status says."""

    uid: str
    ip: str = ""
    record: dict[str, str] = msgspec.field(default_factory=dict)
    unwritten: Object | None = None
    """The status still to be written."""
    over: bool = False
    removed: bool = False


Lived = TypeVar("Lived", bound=Life)


class PodAgent(Reconciler, Generic[Lived]):
    """Takes the pods of the given nodes; None takes those of every node of the cluster. Nodes named in `silent` are not
    played while they are in it, those in `broken` turn every new pod away; both may change at any time.
    """

    workers = 8

    def __init__(
        self,
        port: ClusterPort,
        follower: Follower,
        timers: Timers,
        nodes: Collection[str] | None = None,
        silent: Collection[str] = (),
        broken: Collection[str] = (),
    ) -> None:
        super().__init__(timers)
        self._silent = silent
        self._broken = broken
        self.refusals: list[Refusal] = []
        self.rooms: dict[str, NodeRoom] = {}
        self._port = port
        self._names = None if nodes is None else frozenset(nodes)
        self._pods = follower.cache(PODS)
        self._lives: dict[str, Lived] = {}
        self._by_node: dict[str, OrderedSet[str]] = {}
        follower.cache(NODES).listen(self._node_changed)
        self._pods.listen(self._pod_changed)

    # -- what kubelets do differently ----------------------------------------------------------------------------------

    def _life_of(self, pod: Object) -> Lived:
        """The life of a pod that is new to the kubelet; `ip` is set if the pod runs here already."""
        raise NotImplementedError

    def _check(self, pod: Object, life: Lived) -> None:
        """Raises PodRefused for a pod that this kubelet cannot take for reasons of its own."""

    async def _live(self, key: str, pod: Object, life: Lived) -> None:
        """Admit, run, restart or end one pod, whatever is due: what is to be written goes to `life.unwritten`."""
        raise NotImplementedError

    async def _stop(self, key: str, pod: Object, life: Lived) -> None:
        """End the containers of a pod that is being deleted, and remove it once they have ended."""
        raise NotImplementedError

    def _left(self, life: Lived) -> None:
        """A pod is gone, or has ended for good."""

    # -- what the watch tells ------------------------------------------------------------------------------------------

    def _node_changed(self, name: str, old: Object | None, new: Object | None) -> None:
        if self._names is not None and name not in self._names:
            return
        if new is None:
            self.rooms.pop(name, None)
            for key in self._by_node.get(name, ()):
                self.mark(key)  # a node that is gone takes its pods with it
        elif name in self.rooms:
            self.rooms[name].update(new)
        else:
            self.rooms[name] = NodeRoom(new)
            for key in self._by_node.get(name, ()):
                self._enter(key, self._pods.objects[key])

    def _pod_changed(self, key: str, old: Object | None, new: Object | None) -> None:
        node = ((new or old or {}).get("spec") or {}).get("nodeName")
        if not node or (self._names is not None and node not in self._names):
            return
        if new is None:
            self._leave(key, node)
            self._by_node.get(node, OrderedSet()).discard(key)
            return
        if podstatus.is_terminal(new) and not new["metadata"].get("deletionTimestamp"):
            self._leave(key, node)
            return
        self._by_node.setdefault(node, OrderedSet()).add(key)
        if key not in self._lives:
            self._enter(key, new)
        elif old is None or _will(old) != _will(new):
            self.mark(key)

    def _enter(self, key: str, pod: Object) -> None:
        """A pod that is new to the kubelet: a running one keeps what it holds, before any other pod is admitted."""
        room = self.rooms.get(pod["spec"]["nodeName"])
        if room is None:
            return  # until the node is there
        life = self._lives[key] = self._life_of(pod)
        if podstatus.is_terminal(pod):
            life.over = True
        elif life.ip:
            room.restore(pod)
        else:
            room.promise(pod)
        self.mark(key)

    def _leave(self, key: str, node: str) -> None:
        life = self._lives.pop(key, None)
        if life is None:
            return
        self.timers.cancel((type(self).__name__, key))
        self._left(life)
        if node in self.rooms:
            self.rooms[node].release(life.uid)

    # -- what all kubelets do -----------------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> None:
        """Admit, run, restart, end or remove one pod, whatever is due."""
        pod, life = self._pods.get(key), self._lives.get(key)
        if pod is None:
            return
        if pod["spec"].get("nodeName") in self.rooms.keys() & set(self._silent):
            self.mark_at(self.timers.clock() + SILENCE_SECONDS, key)
            return
        if pod["spec"].get("nodeName") not in self.rooms:
            if pod["spec"].get("nodeName") in self._by_node and life is not None:
                await self._remove(key, pod, life)
            return
        if life is None or life.uid != pod["metadata"]["uid"]:
            return
        if pod["metadata"].get("deletionTimestamp"):
            await self._stop(key, pod, life)
            return
        if not life.over:
            await self._live(key, pod, life)
        if life.unwritten is not None:
            await self._write(key, pod, life)

    def _admit(self, key: str, pod: Object, life: Lived, now: float) -> bool:
        """Give a pod its room and its cards; False if the node cannot."""
        room = self.rooms[pod["spec"]["nodeName"]]
        try:
            if room.facts.name in self._broken:
                raise PodRefused("UnexpectedAdmissionError", "Allocate failed: the device plugin does not answer")
            self._check(pod, life)
            life.record |= room.admit(pod)
        except PodRefused as error:
            self.refusals.append(Refusal(key, error.reason, room.facts.name, error.message))
            life.unwritten = podstatus.refused(pod, now, error.reason, error.message)
            life.over = True
            return False
        return True

    async def _remove(self, key: str, pod: Object, life: Lived) -> None:
        if life.removed:
            return  # a finalizer keeps it
        namespace, name = split_key(key)
        with suppress(NotFound):
            await self._port.delete(PODS, name, namespace, uid=pod["metadata"]["uid"], grace=0)
        life.removed = True

    async def _write(self, key: str, pod: Object, life: Lived) -> None:
        status = life.unwritten
        namespace, name = split_key(key)
        metadata: Object = {"uid": life.uid}
        if life.record:
            metadata["annotations"] = life.record
        body = {"metadata": metadata, "status": status}
        try:
            written = await self._port.patch(
                PODS, name, namespace, body, content_type=STRATEGIC_PATCH, subresource="status"
            )
        except (NotFound, Unprocessable) as error:
            if isinstance(error, Unprocessable) and self._lives.get(key) is life:
                raise
            return  # the pod is gone, and perhaps another has its name
        if life.unwritten is status:
            life.unwritten = None
        self._pods.learn(written)


def _will(pod: Object) -> tuple[Any, ...]:
    """The fields of a pod on which the kubelet's decisions depend."""
    metadata = pod["metadata"]
    return metadata.get("deletionTimestamp"), metadata.get("annotations"), pod["spec"].get("activeDeadlineSeconds")
