"""The simulated kubelet: one object that simulates all nodes, one pod event at a time.

It runs the pods bound to its nodes for as long as their annotation says (or until deleted), and restarts containers by
the pod's restartPolicy. What it knows is in the pods' own status: a new kubelet on the same objects goes on where the
last one stopped, and nothing restarts.
"""

from collections.abc import Collection
from typing import Any, Final

from t9ksched.devcluster.controllers.follow import Follower
from t9ksched.devcluster.controllers.timers import Timers
from t9ksched.devcluster.names import STOP_SECONDS_ANNOTATION
from t9ksched.devcluster.nodes import gpushareplugin, hamiplugin, images, podstatus
from t9ksched.devcluster.nodes.deviceplugin import CardsRefused
from t9ksched.devcluster.nodes.noderoom import PodRefused
from t9ksched.devcluster.nodes.podagent import BACKOFF, Life, PodAgent
from t9ksched.devcluster.nodes.podstatus import Run
from t9ksched.devcluster.nodes.wishes import BadAnnotation, number, timing
from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import ClusterPort

Object = dict[str, Any]

STOP_SECONDS: Final = 0.05


class _Life(Life):
    """The life of a pod whose containers are simulated."""

    run: Run | None = None
    asked: bool = False
    """The device plugins of HAMi and gpushare were asked for its cards."""
    refused: str = ""
    """Why one of them gave none."""
    stop_at: float | None = None


class Kubelet(PodAgent[_Life]):
    """Simulates the containers of the pods on its nodes."""

    def __init__(
        self,
        port: ClusterPort,
        follower: Follower,
        timers: Timers,
        nodes: Collection[str] | None = None,
        silent: Collection[str] = (),
        broken: Collection[str] = (),
    ) -> None:
        self._addresses: set[str] = set()
        self._next_address = 0
        super().__init__(port, follower, timers, nodes, silent, broken)

    def _life_of(self, pod: Object) -> _Life:
        life = _Life(pod["metadata"]["uid"], run=podstatus.read_run(pod))
        if life.run is not None:
            life.ip = (pod.get("status") or {}).get("podIP", "")
            self._addresses.add(life.ip)
        return life

    def _left(self, life: _Life) -> None:
        self._addresses.discard(life.ip)

    async def _live(self, key: str, pod: Object, life: _Life) -> None:
        await self._ask(pod, life)
        self._go_on(key, pod, life)

    def _check(self, pod: Object, life: _Life) -> None:
        if life.refused:
            raise PodRefused("UnexpectedAdmissionError", life.refused)

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
            if not life.ip:
                if not self._admit(key, pod, life, now):
                    return
                room = self.rooms[pod["spec"]["nodeName"]]
                life.ip = room.address if pod["spec"].get("hostNetwork") and room.address else self._new_address()
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

    def _new_address(self) -> str:
        while True:
            self._next_address = self._next_address % 0xFF_FFFE + 1
            number = self._next_address
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            if address not in self._addresses:
                self._addresses.add(address)
                return address
