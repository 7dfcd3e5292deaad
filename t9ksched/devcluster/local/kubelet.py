"""The kubelet of this machine: the containers of its pods are processes here.

It goes by what is on file of each container (`runtime.py`) and on the API server of each pod, so that one that is made
anew goes on where the last one stopped: containers that still run are not started again, and those that ended meanwhile
are told. A container is started only once the pod's status says that it has its room and its cards.
"""

import asyncio
import os
import secrets
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog

from t9ksched.devcluster.controllers.follow import Follower
from t9ksched.devcluster.controllers.timers import Timers, to_seconds, to_text
from t9ksched.devcluster.local.environment import BadConfig
from t9ksched.devcluster.local.lifecycle import containers_of, next_step
from t9ksched.devcluster.local.logfile import last_words
from t9ksched.devcluster.local.machine import ADDRESS, Machine
from t9ksched.devcluster.local.podfiles import fault_of
from t9ksched.devcluster.local.runtime import Attempt, folder_of
from t9ksched.devcluster.local.specs import Specs, group_of
from t9ksched.devcluster.nodes.noderoom import PodRefused
from t9ksched.devcluster.nodes.podagent import Life, PodAgent
from t9ksched.kube.errors import ApiError
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import EVENTS

Object = dict[str, Any]

UNSUPPORTED: Final = "PodFeatureUnsupported"
"""The reason of a pod that asks for what this node cannot do."""
RETRY_SECONDS: Final = 10.0
"""Between two looks whether a container can be created that could not be."""
_OOM: Final = "OOMKilled"
_log = structlog.get_logger(__name__)


class _ProcessLife(Life):
    """The life of a pod that is processes."""

    troubles: dict[str, Object] = msgspec.field(default_factory=dict)
    """The waiting state of each container that could not be created."""
    told: Object = msgspec.field(default_factory=dict)
    """The status as it was written last."""


class LocalKubelet(PodAgent[_ProcessLife]):
    """Runs the pods of one machine."""

    def __init__(self, port: ClusterPort, follower: Follower, timers: Timers, machine: Machine) -> None:
        self._machine = machine
        self._runtime = machine.runtime
        self._specs = Specs(port, machine, follower)
        self._keys: dict[str, str] = {}
        self._ends: set[asyncio.Task[None]] = set()
        super().__init__(port, follower, timers, [machine.name])
        self._runtime.changed = self._container_ended
        self._pods.listen(self._seen)

    async def run(self) -> None:
        """Work until cancelled; first end what no pod stands for any more."""
        known = {pod["metadata"]["uid"] for pod in self._pods.objects.values()}
        for uid in self._runtime.pods():
            if uid not in known:
                _log.warning("containers of a pod that is gone are ended", uid=uid)
                await self._end(uid)
        try:
            await super().run()
        finally:
            self._runtime.close()

    def _seen(self, key: str, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._machine.names.learn(new)
        elif old is not None and old["metadata"]["uid"] in self._keys:
            task = asyncio.ensure_future(self._end(old["metadata"]["uid"]))
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)

    async def _end(self, uid: str) -> None:
        """End what runs of a pod that is gone, and forget it."""
        self._keys.pop(uid, None)
        for name in self._groups_of(uid):
            self._machine.limits.remove(name)
        await self._runtime.end(uid)

    def _groups_of(self, uid: str) -> list[str]:
        folder = self._runtime.root / "pods" / uid / "containers"
        return [group_of(uid, run.parent.name, int(run.name)) for run in folder.glob("*/[0-9]*")]

    def _container_ended(self, uid: str) -> None:
        if key := self._keys.get(uid):
            self.mark(key)

    # -- the steps of a pod --------------------------------------------------------------------------------------------

    def _life_of(self, pod: Object) -> _ProcessLife:
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        self._keys[uid] = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        return _ProcessLife(uid, ip=status.get("podIP") or "")

    def _check(self, pod: Object, life: _ProcessLife) -> None:
        if fault := fault_of(pod, os.getuid(), os.getgid(), self._machine.no_mounts):
            raise PodRefused(UNSUPPORTED, fault)

    async def _live(self, key: str, pod: Object, life: _ProcessLife) -> None:
        now = self.timers.clock()
        if not life.ip:
            if not self._admit(key, pod, life, now):
                return
            life.ip = self._machine.names.learn(pod)
            self._tell(life, next_step(pod, {}, now, life.ip, ADDRESS, {}).status)
            await self._say(
                pod, "ImageIgnored", "images are not used on this node: the command runs on the machine itself"
            )
            self.mark(key)  # goes on once that is written
            return
        step = next_step(pod, self._runs(pod, life), now, life.ip, ADDRESS, life.troubles)
        for container, number in step.start:
            await self._begin(key, pod, life, container, number)
        if step.start:
            step = next_step(pod, self._runs(pod, life), self.timers.clock(), life.ip, ADDRESS, life.troubles)
            if step.start and not life.troubles:
                self.mark(key)
        for container_id, grace in step.stop:
            self._runtime.stop_container(container_id, grace)
        life.over = step.over
        self._tell(life, step.status)
        if step.due is not None:
            self.mark_at(step.due if not life.troubles else min(step.due, now + RETRY_SECONDS), key)
        elif life.troubles:
            self.mark_at(now + RETRY_SECONDS, key)

    def _tell(self, life: _ProcessLife, status: Object) -> None:
        """Have a status written that says something new."""
        without = {name: value for name, value in status.items() if name != "conditions"}
        if without != life.told or status["conditions"]:
            life.told, life.unwritten = without, status

    def _runs(self, pod: Object, life: _ProcessLife) -> dict[str, list[Attempt]]:
        """What is known of the containers, with the end of a failed one's log where it is wanted."""
        found = {}
        for container in containers_of(pod):
            runs = self._runtime.attempts(life.uid, container["name"])
            found[container["name"]] = [self._explained(life.uid, container, run) for run in runs]
        return found

    def _explained(self, uid: str, container: Object, run: Attempt) -> Attempt:
        if not run.code or run.ended is None or run.message:
            return run
        if not run.reason and self._machine.limits.out_of_memory(group_of(uid, container["name"], run.number)):
            return replace(run, reason=_OOM)
        if container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return run
        return replace(run, message=last_words(folder_of(self._runtime.root, run.id)))

    async def _stop(self, key: str, pod: Object, life: _ProcessLife) -> None:
        metadata = pod["metadata"]
        grace = metadata.get("deletionGracePeriodSeconds")
        if grace:
            until = to_seconds(metadata["deletionTimestamp"]) or 0.0
            grace = max(1.0, min(float(grace), until - self.timers.clock()))
        if self._runtime.stop(life.uid, float(grace or 0)):
            return  # goes on when it has ended
        await self._remove(key, pod, life)

    # -- starting a container ------------------------------------------------------------------------------------------

    async def _begin(self, key: str, pod: Object, life: _ProcessLife, container: Object, number: int) -> None:
        name = container["name"]
        if number > 0:
            self._machine.limits.remove(group_of(life.uid, name, number - 1))
        try:
            spec = await self._specs.of(pod, container, life.ip, group_of(life.uid, name, number))
        except (BadConfig, PodRefused, OSError) as error:
            state = {"reason": "CreateContainerConfigError", "message": str(error)}
            life.troubles[name] = {"waiting": state}
            return
        life.troubles.pop(name, None)
        await self._runtime.start(life.uid, name, number, spec)

    async def _say(self, pod: Object, reason: str, message: str) -> None:
        """Put an event on a pod."""
        metadata, now = pod["metadata"], to_text(self.timers.clock())
        event = {
            "metadata": {
                "name": f"{metadata['name'][:200]}.{secrets.token_hex(8)}",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "reason": reason,
            "message": message,
            "type": "Normal",
            "source": {"component": "kubelet", "host": self._machine.name},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with suppress(ApiError):  # the pod runs without it
            await self._port.create(EVENTS, event)
