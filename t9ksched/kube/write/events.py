"""Kubernetes events, which users read with `kubectl describe`: best effort, and never delaying other work.

`record` only puts a value into memory; `run` writes in the background within a rate (an event costs a server more than
a binding), a second's worth at a time where many wait: ten wakings cost more than ten events. The same words about the
same object become one event with a count. What does not fit (too many waiting, the server refuses) is dropped and
counted in `dropped`: truth lives in objects and in the store, not in events.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import EVENTS
from t9ksched.kube.write.clock import MONOTONIC, Clock

log = structlog.get_logger(__name__)

_MESSAGE_LIMIT = 1024
"""Characters the API accepts in an event's message."""
_REMEMBERED = 4096
"""Events whose names are remembered so that a repetition counts up instead of making a new one."""


class Regarding(msgspec.Struct, frozen=True, gc=False):
    """The object an event is about. Cluster-wide objects have no namespace; their events are in `default`."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of(cls, obj: Object) -> Regarding:
        """From any object that says its kind."""
        metadata = obj.get("metadata", {})
        return cls(
            str(obj.get("apiVersion", "")),
            str(obj.get("kind", "")),
            str(metadata.get("namespace") or ""),
            str(metadata.get("name", "")),
            str(metadata.get("uid", "")),
        )


class _Key(msgspec.Struct, frozen=True, gc=False):
    regarding: Regarding
    type: str
    reason: str
    message: str


class _Pending(msgspec.Struct):
    first: datetime
    last: datetime
    count: int


class _Written(msgspec.Struct):
    namespace: str
    name: str
    count: int


class EventRecorder:
    """Records events as `component`. `rate` events a second, `burst` at once; at most `waiting` kept back."""

    def __init__(
        self,
        port: ClusterPort,
        component: str,
        *,
        instance: str = "",
        rate: float = 10.0,
        burst: int = 50,
        waiting: int = 2000,
        clock: Clock = MONOTONIC,
    ) -> None:
        self.dropped = 0
        self._port = port
        self._component = component
        self._instance = instance or component
        self._rate, self._burst, self._waiting = rate, burst, waiting
        self._now, self._clock, self._sleep = clock.now, clock.seconds, clock.sleep
        self._tokens, self._filled_at = float(burst), clock.seconds()
        self._pending: dict[_Key, _Pending] = {}
        self._written: dict[_Key, _Written] = {}
        self._wake = asyncio.Event()
        self._serial = 0

    def record(self, regarding: Regarding | Object, reason: str, message: str, *, type: str = "Normal") -> None:
        """Note that this happened to that object; returns at once. `type` is Normal or Warning."""
        about = Regarding.of(regarding) if isinstance(regarding, dict) else regarding
        if len(message) > _MESSAGE_LIMIT:
            message = message[: _MESSAGE_LIMIT - 1] + "…"
        key = _Key(about, type, reason, message)
        pending = self._pending.get(key)
        if pending is not None:
            pending.count += 1
            pending.last = self._now()
        elif len(self._pending) >= self._waiting:
            self.dropped += 1
        else:
            now = self._now()
            self._pending[key] = _Pending(now, now, 1)
            self._wake.set()

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        while True:
            await self._wake.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write everything recorded so far, at the allowed rate."""
        while self._pending:
            await self._take_token()
            key = next(iter(self._pending))
            await self._write(key, self._pending.pop(key))
        self._wake.clear()

    async def _take_token(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1:
            wanted = float(max(1, min(len(self._pending), int(self._rate), self._burst)))
            await self._sleep((wanted - self._tokens) / self._rate)
            self._tokens, self._filled_at = wanted, self._clock()
        self._tokens -= 1

    async def _write(self, key: _Key, pending: _Pending) -> None:
        written = self._written.pop(key, None)
        try:
            if written is not None:
                written = await self._count_up(written, pending)
            if written is None:
                written = await self._create(key, pending)
        except ApiError as error:
            self.dropped += pending.count
            log.debug("event dropped", reason=key.reason, regarding=key.regarding.name, error=str(error))
            return
        self._written[key] = written
        if len(self._written) > _REMEMBERED:
            del self._written[next(iter(self._written))]

    async def _count_up(self, written: _Written, pending: _Pending) -> _Written | None:
        count = written.count + pending.count
        patch = {"count": count, "lastTimestamp": _rfc3339(pending.last)}
        try:
            await self._port.patch(EVENTS, written.name, written.namespace, patch)
        except NotFound:  # events live an hour; this one has had its time
            return None
        return _Written(written.namespace, written.name, count)

    async def _create(self, key: _Key, pending: _Pending) -> _Written:
        about = key.regarding
        namespace = about.namespace or "default"
        self._serial += 1
        # Unique over restarts by the time, within one process by the serial; the object's name helps people.
        suffix = f".{int(pending.first.timestamp() * 1e6):x}{self._serial:x}"
        name = about.name[: 253 - len(suffix)] + suffix
        involved: dict[str, Any] = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name}
        if about.namespace:
            involved["namespace"] = about.namespace
        if about.uid:
            involved["uid"] = about.uid
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": _rfc3339(pending.first),
            "lastTimestamp": _rfc3339(pending.last),
            "count": pending.count,
        }
        await self._port.create(EVENTS, event, namespace)
        return _Written(namespace, name, pending.count)


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
