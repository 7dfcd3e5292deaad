"""One leader among many: a Lease of coordination.k8s.io, held, renewed and given back.

Clocks of different machines are never compared: a lease counts as lapsed when *we* saw no renewal for its duration.
Our own leadership ends by our boot-time clock, which runs on while a machine sleeps: `holds()` turns false before
another process may take over, so every write asks it first. Requests to renew end before the renew deadline does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC
from enum import Enum
from random import Random

import msgspec
import structlog

from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import LEASES
from t9ksched.kube.write.clock import BOOT, Clock
from t9ksched.model.leadership import SKEW, Timing

log = structlog.get_logger(__name__)


_LEAST_SECONDS = 0.05


class Claim(Enum):
    """What may be done about a lease."""

    RENEW = "renew"
    TAKE = "take"
    WAIT = "wait"


class Sighting(msgspec.Struct, frozen=True):
    """A state of the lease, and when (by our clock) it was first seen."""

    version: str
    at: float


def judge(lease: Object, identity: str, sighting: Sighting, now: float) -> Claim:
    """Renew our own, take a free or lapsed one, else wait. Pure; times by the local boot-time clock."""
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if holder == identity:
        return Claim.RENEW
    if not holder or now >= sighting.at + float(spec.get("leaseDurationSeconds") or 0):
        return Claim.TAKE
    return Claim.WAIT


class LeaderElection:
    """Strives for the lease `name` as `identity` (unique among the processes). `run` until cancelled or `stop`.

    `holds()` is the question before each write; `epoch` counts the lease's changes of hands and stamps what the leader
    writes elsewhere. `on_change(leading)` is called when leadership comes and when it ends.
    """

    def __init__(
        self,
        port: ClusterPort,
        name: str,
        namespace: str,
        identity: str,
        *,
        timing: Timing | None = None,
        on_change: Callable[[bool], None] | None = None,
        clock: Clock = BOOT,
        random: Random | None = None,
    ) -> None:
        self.identity = identity
        self.epoch = 0
        self.holder = ""
        self._port, self._name, self._namespace = port, name, namespace
        self._timing = timing or Timing()
        self._on_change = on_change
        self._clock, self._now, self._sleep = clock.seconds, clock.now, clock.sleep
        self._random = random or Random()
        self._until: float | None = None
        self._sighting = Sighting("", clock.seconds())
        self._sent: float | None = None
        """When our last successful renewal was sent."""
        self._lapses: float | None = None
        """When the lease of the one that holds it lapses, if it is not renewed."""
        self._resigned = False
        self._leading = False
        self._heard: float | None = None

    def heard(self, within: float) -> bool:
        """Whether the server answered about the lease in the last `within` seconds, whatever it said."""
        return self._heard is not None and self._clock() - self._heard <= within

    def holds(self) -> bool:
        """Whether we lead at this very moment."""
        return self._until is not None and self._clock() < self._until

    def left(self) -> float:
        """Seconds that a write which begins now may take, so that it ends before another process may lead."""
        if self._sent is None or not self.holds():
            return self._timing.write_seconds
        return max(_LEAST_SECONDS, self._sent + self._timing.duration - SKEW - self._clock())

    async def run(self) -> None:
        """Acquire, renew, lose and acquire again; gives the lease back when cancelled."""
        try:
            while True:
                await self.attempt()
                await self._sleep(self._pause())
        finally:
            await asyncio.shield(self.release())

    def _pause(self) -> float:
        """Until the next attempt: sooner if the other one's lease lapses before."""
        pause = self._timing.retry
        if self._leading:
            return pause
        pause *= 1 + 0.2 * self._random.random()  # so that candidates do not ask in step
        if self._lapses is not None and (left := self._lapses - self._clock()) > 0:
            pause = min(pause, left + _LEAST_SECONDS * (1 + self._random.random()))
        return pause

    async def attempt(self) -> bool:
        """One try to acquire or renew; returns whether we lead."""
        if self._resigned:
            return False
        started = self._clock()
        try:
            async with asyncio.timeout(self._timing.renew_deadline / 2):
                renewed = await self._try(started)
            self._heard = self._clock()
        except TimeoutError:
            renewed = False
        except ApiError as error:
            renewed = False
            log.warning("lease request failed", lease=self._name, error=str(error))
        if renewed:
            self._sent = started
            self._until = started + self._timing.renew_deadline
        self._tell()
        return self._leading

    async def release(self) -> None:
        """Give the lease back if we hold it, so that the next leader need not wait; best effort."""
        held = self.holds()
        self._until = None
        self._tell()
        if held:
            await self._free()

    async def give_back(self) -> None:
        """Stop leading for good; the lease is free as soon as no write of ours can be under way."""
        left = self.left()
        self._resigned = True
        self._until = None
        self._tell()
        await self._sleep(left)
        await self._free()

    async def _free(self) -> None:
        try:
            async with asyncio.timeout(self._timing.retry):
                lease = await self._port.get(LEASES, self._name, self._namespace)
                if lease.get("spec", {}).get("holderIdentity") == self.identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
                    await self._port.replace(LEASES, lease)
        except (ApiError, TimeoutError) as error:
            log.info("lease not given back; it lapses by itself", lease=self._name, error=str(error))

    async def _try(self, started: float) -> bool:
        try:
            lease = await self._port.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        version = str(lease["metadata"].get("resourceVersion", ""))
        if version != self._sighting.version:
            self._sighting = Sighting(version, self._clock())
        self.holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        claim = judge(lease, self.identity, self._sighting, started)
        self._lapses = None
        if claim is Claim.WAIT:
            self._lapses = self._sighting.at + float((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
            # Another process holds it: this one does not lead, whatever it believed.
            self._until = None
            return False
        if claim is Claim.RENEW and self._until is None:
            # Held under the same identity before a restart: still a new term, because the old process may be running.
            claim = Claim.TAKE
        return await self._write(lease, claim)

    async def _create(self) -> bool:
        stamp = self._stamp()
        lease: Object = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self._timing.duration,
                "acquireTime": stamp,
                "renewTime": stamp,
                "leaseTransitions": 1,
            },
        }
        try:
            written = await self._port.create(LEASES, lease, self._namespace)
        except Conflict:
            return False
        return self._won(written)

    async def _write(self, lease: Object, claim: Claim) -> bool:
        spec = lease.setdefault("spec", {})
        stamp = self._stamp()
        if claim is Claim.TAKE:
            spec["acquireTime"] = stamp
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec |= {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.duration,
            "renewTime": stamp,
        }
        try:
            written = await self._port.replace(LEASES, lease)  # its resourceVersion is the precondition
        except Conflict:
            return False
        return self._won(written)

    def _won(self, lease: Object) -> bool:
        self._sighting = Sighting(str(lease["metadata"].get("resourceVersion", "")), self._clock())
        self.epoch = int(lease["spec"].get("leaseTransitions") or 0)
        self.holder = self.identity
        return True

    def _tell(self) -> None:
        leading = self.holds()
        if leading != self._leading:
            self._leading = leading
            log.info("leadership", lease=self._name, leading=leading, epoch=self.epoch)
            if self._on_change is not None:
                self._on_change(leading)

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
