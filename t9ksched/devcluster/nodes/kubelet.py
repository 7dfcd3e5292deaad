"""The simulated kubelet: one object that simulates all nodes, one pod event at a time.

It admits or refuses pods bound to its nodes, runs them for as long as their annotation says (or until deleted),
restarts containers by the pod's restartPolicy, and removes deleted pods. What it knows is in the pods' own status: a
new kubelet on the same objects goes on where the last one stopped, and nothing restarts. Room is freed only when the
server's state says that a pod ended, so that no client ever sees a card held twice. `refusals` lists the pods that
others should not have bound.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from t9ksched.devcluster.controllers.follow import Follower, Reconciler, split_key
from t9ksched.devcluster.controllers.timers import Timers
from t9ksched.devcluster.names import STOP_SECONDS_ANNOTATION
from t9ksched.devcluster.nodes import gpushareplugin, hamiplugin, images, podstatus
from t9ksched.devcluster.nodes.deviceplugin import CardsRefused
from t9ksched.devcluster.nodes.noderoom import NodeRoom, PodRefused
from t9ksched.devcluster.nodes.podstatus import Run
from t9ksched.devcluster.nodes.wishes import BadAnnotation, number, timing
from t9ksched.kube.errors import ApiError, NotFound, Unprocessable
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, PODS
from t9ksched.model.ordered import OrderedSet

Object = dict[str, Any]

STOP_SECONDS: Final = 0.05
SILENCE_SECONDS: Final = 1.0
"""Seconds after which the kubelet looks again at a node that is silent."""
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
BACKOFF: Final = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""Pause before the first, second, … restart of a container, in seconds; the last one repeats."""


class Refusal(NamedTuple):
    """A pod that was bound to a node that could not take it."""

    pod: str
    reason: str
    node: str
    message: str


@dataclass
class _Life:
    """What the kubelet has decided about one pod, beyond what the pod's status says."""

    uid: str
    run: Run | None = None
    ip: str = ""
    record: dict[str, str] = field(default_factory=dict)
    asked: bool = False
    """The device plugins of HAMi and gpushare were asked for its cards."""
    refused: str = ""
    """Why one of them gave none."""
    unwritten: Object | None = None
    """The status still to be written."""
    over: bool = False
    stop_at: float | None = None
    removed: bool = False


class Kubelet(Reconciler):
    """Plays the nodes of the given names; None plays every node of the cluster. Nodes named in `silent` are not
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
        self._lives: dict[str, _Life] = {}
        self._by_node: dict[str, OrderedSet[str]] = {}
        self._addresses: set[str] = set()
        self._next_address = 0
        follower.cache(NODES).listen(self._node_changed)
        self._pods.listen(self._pod_changed)

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
        life = self._lives[key] = _Life(pod["metadata"]["uid"])
        if podstatus.is_terminal(pod):
            life.over = True
        else:
            life.run = podstatus.read_run(pod)
            if life.run is not None:
                life.ip = (pod.get("status") or {}).get("podIP", "")
                self._addresses.add(life.ip)
                room.restore(pod)
            else:
                room.promise(pod)
        self.mark(key)

    def _leave(self, key: str, node: str) -> None:
        life = self._lives.pop(key, None)
        if life is None:
            return
        self.timers.cancel((type(self).__name__, key))
        self._addresses.discard(life.ip)
        if node in self.rooms:
            self.rooms[node].release(life.uid)

    # -- what the kubelet does -----------------------------------------------------------------------------------------

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
            await self._ask(pod, life)
            self._go_on(key, pod, life)
        if life.unwritten is not None:
            await self._write(key, pod, life)

    async def _ask(self, pod: Object, life: _Life) -> None:
        """Ask the device plugins for the cards of a pod that look into the API before they answer."""
        room = self.rooms[pod["spec"]["nodeName"]]
        if life.asked or life.run is not None or room.facts.name in self._broken:
            return
        by_hami = bool(room.hami.cards) and hamiplugin.asks(pod)
        by_gpushare = bool(room.gpushare.count) and gpushareplugin.asks(pod)
        if not by_hami and not by_gpushare:
            return
        life.asked = True
        try:
            if by_hami:
                life.record |= await room.hami.allocate(self._port, pod)
            if by_gpushare:
                life.record |= await room.gpushare.allocate(self._port, pod)
        except (CardsRefused, ApiError) as error:
            life.refused = f"Allocate failed: {error}"

    def _go_on(self, key: str, pod: Object, life: _Life) -> None:
        now = self.timers.clock()
        if life.run is None:
            if not life.ip and not self._admit(key, pod, life, now):
                return
            if fault := images.fault_of(pod):
                life.unwritten = podstatus.unstartable(pod, now, *fault)
                return
            try:
                timing(pod)
            except BadAnnotation as error:
                life.unwritten = podstatus.unstartable(pod, now, "CreateContainerConfigError", str(error))
                return
            life.run = Run(now, now)
            life.unwritten = self._running(pod, life)
        self._advance(key, pod, life, now)

    def _admit(self, key: str, pod: Object, life: _Life, now: float) -> bool:
        room = self.rooms[pod["spec"]["nodeName"]]
        try:
            if room.facts.name in self._broken:
                raise PodRefused("UnexpectedAdmissionError", "Allocate failed: the device plugin does not answer")
            if life.refused:
                raise PodRefused("UnexpectedAdmissionError", life.refused)
            life.record |= room.admit(pod)
        except PodRefused as error:
            self.refusals.append(Refusal(key, error.reason, room.facts.name, error.message))
            life.unwritten = podstatus.refused(pod, now, error.reason, error.message)
            life.over = True
            return False
        life.ip = room.address if pod["spec"].get("hostNetwork") and room.address else self._new_address()
        return True

    def _advance(self, key: str, pod: Object, life: _Life, now: float) -> None:
        """Bring the pod's run up to the present, and set the timer for the next step."""
        assert life.run is not None
        try:
            seconds, code = timing(pod)
        except BadAnnotation:
            seconds, code = None, 0  # the annotation became invalid after the start: runs until deleted
        policy = pod["spec"].get("restartPolicy") or "Always"
        limit = pod["spec"].get("activeDeadlineSeconds")
        if limit is not None and life.run.started + limit <= now:
            text = f"the pod was active longer than its activeDeadlineSeconds of {limit}"
            life.unwritten = podstatus.finished(pod, life.run, now, 137, "DeadlineExceeded", text)
            life.over = True
            return
        due: float | None = None
        while True:
            run = life.run
            if run.stopped is not None:
                due = run.stopped + BACKOFF[min(run.restarts, len(BACKOFF) - 1)]
                if due > now:
                    break
                life.run = run.restart(now)
            else:
                due = None if seconds is None else run.since + seconds
                if due is None or due > now:
                    break
                if policy == "Never" or (policy == "OnFailure" and code == 0):
                    life.unwritten = podstatus.finished(pod, run, due, code)
                    life.over = True
                    return
                life.run = run.stop(due, code)
            life.unwritten = self._running(pod, life)
        if limit is not None:
            due = min(due or life.run.started + limit, life.run.started + limit)
        if due is not None:
            self.mark_at(due, key)
        else:
            self.timers.cancel((type(self).__name__, key))

    def _running(self, pod: Object, life: _Life) -> Object:
        assert life.run is not None
        room = self.rooms[pod["spec"]["nodeName"]]
        return podstatus.running(pod, life.run, life.ip, room.address)

    async def _stop(self, key: str, pod: Object, life: _Life) -> None:
        now = self.timers.clock()
        seconds = number(pod, STOP_SECONDS_ANNOTATION, STOP_SECONDS) if life.run else 0.0
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        due = now + (seconds if grace is None else min(seconds, grace))
        life.stop_at = due = due if life.stop_at is None else min(due, life.stop_at)
        if due > now:
            self.mark_at(due, key)
        else:
            await self._remove(key, pod, life)

    async def _remove(self, key: str, pod: Object, life: _Life) -> None:
        if life.removed:
            return  # a finalizer keeps it
        namespace, name = split_key(key)
        with suppress(NotFound):
            await self._port.delete(PODS, name, namespace, uid=pod["metadata"]["uid"], grace=0)
        life.removed = True

    async def _write(self, key: str, pod: Object, life: _Life) -> None:
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

    def _new_address(self) -> str:
        while True:
            self._next_address = self._next_address % 0xFF_FFFE + 1
            number = self._next_address
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            if address not in self._addresses:
                self._addresses.add(address)
                return address


def _will(pod: Object) -> tuple[Any, ...]:
    """The fields of a pod on which the kubelet's decisions depend."""
    metadata = pod["metadata"]
    return metadata.get("deletionTimestamp"), metadata.get("annotations"), pod["spec"].get("activeDeadlineSeconds")
