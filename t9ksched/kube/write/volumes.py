"""The part of the binding protocol that comes before the pod: its volumes.

A claim that waits for its first consumer is told the node, by the annotation `volume.kubernetes.io/selected-node`, or
is given a free volume that the node reaches, and then is waited for until it is Bound. What was written is taken back
when that fails, as long as the claim is unbound. All pods of a gang are prepared before the first is bound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import structlog

from t9ksched.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TimedOut,
    TooManyRequests,
    Unreachable,
)
from t9ksched.kube.port import ClusterPort, Object
from t9ksched.kube.resources import NODES, PVCS, PVS, STORAGECLASSES
from t9ksched.kube.write.binding import Binding, Conflicted, Gone, Outcome, Protocol, Refusal, Refused
from t9ksched.model.api_resource import Resource
from t9ksched.model.volumes import (
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    Claim,
    PersistentVolume,
    StorageClass,
    fits,
    rank,
)

log = structlog.get_logger(__name__)
T = TypeVar("T")

FIRST_LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class VolumeBinding(Protocol):
    """Prepares the claims of a binding (`Binding.claims`) within `timeout` seconds, the rest as for most nodes."""

    timeout: float = 45.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    name: str = field(default="volumes", init=False)

    async def prepare(self, port: ClusterPort, binding: Binding) -> Outcome | None:
        """Have every claim bound to a volume that the node reaches; None when all are."""
        ends = self.clock() + self.timeout
        for claim in binding.claims:
            if (outcome := await self._one(port, binding, claim, ends)) is not None:
                return outcome
        return None

    async def _one(self, port: ClusterPort, binding: Binding, name: str, ends: float) -> Outcome | None:
        """One claim: ask for its volume once, then look until it is bound."""
        pause, trouble, asked = FIRST_LOOK_SECONDS, "no volume was bound to it", False
        while True:
            try:
                claim = await _read(port, PVCS, Claim, name, binding.namespace)
                if claim.metadata.deletion_timestamp:
                    return _refused(name, "is being deleted")
                if claim.bound:
                    return await _reached(port, binding, claim)
                if not asked:
                    outcome = await self._ask(port, binding, claim)
                    if outcome is not None:
                        return outcome
                    asked = True
                elif claim.selected_node not in ("", binding.node):
                    return _elsewhere(name, claim.selected_node)
                elif not claim.selected_node and claim.status.phase == "Pending" and not claim.spec.volume_name:
                    storage = await _class_of(port, claim)
                    if storage is None or storage.provisioner != NO_PROVISIONER:
                        return _refused(name, f"got no volume for node {binding.node}: its provisioner gave up there")
            except NotFound:
                return _refused(name, "does not exist any more")
            except Forbidden as error:
                return _refused(name, f"cannot be bound by this scheduler: {error.message}")
            except Conflict as error:  # another client wrote it in between: read again
                trouble = str(error)
            except ApiError as error:
                if not isinstance(error, TooManyRequests | ServerError | Unreachable | TimedOut):
                    return _refused(name, str(error))
                trouble = str(error)
            if self.clock() + pause > ends:
                return _refused(name, f"was not bound for node {binding.node} within {self.timeout:g} s: {trouble}")
            await self.sleep(pause)
            pause = min(LONGEST_LOOK_SECONDS, pause * 2)

    async def _ask(self, port: ClusterPort, binding: Binding, claim: Claim) -> Outcome | None:
        """Tell the claim its node, or reserve a free volume for it where none is made on demand."""
        name = claim.metadata.name
        if claim.selected_node and claim.selected_node != binding.node:
            return _elsewhere(name, claim.selected_node)
        storage = await _class_of(port, claim)
        if storage is not None and not storage.provisions:
            return await _reserve(port, binding, claim, storage.metadata.name)
        if not claim.selected_node:
            await port.patch(PVCS, name, binding.namespace, _annotation(claim, binding.node))
        return None

    async def undo(self, port: ClusterPort, binding: Binding) -> None:
        """Take the annotation off claims that are still unbound, and give volumes back that were reserved for them."""
        for name in binding.claims:
            try:
                claim = await _read(port, PVCS, Claim, name, binding.namespace)
                if claim.bound or claim.spec.volume_name:
                    continue
                if claim.selected_node == binding.node:
                    await port.patch(PVCS, name, binding.namespace, _annotation(claim, None))
                await _give_back(port, claim)
            except (NotFound, Conflict):
                continue  # gone, or changed by another client, whose change counts
            except ApiError as error:
                log.info("claim not given back", claim=f"{binding.namespace}/{name}", error=str(error))


def _annotation(claim: Claim, node: str | None) -> Object:
    metadata = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
    return {"metadata": {**metadata, "annotations": {SELECTED_NODE: node}}}


async def _reserve(port: ClusterPort, binding: Binding, claim: Claim, storage_class: str) -> Outcome | None:
    node = await port.get(NODES, binding.node)
    labels = node["metadata"].get("labels") or {}
    listed = (await port.list(PVS)).items
    volumes = [msgspec.convert(item, PersistentVolume) for item in listed]
    chosen = min(
        (v for v in volumes if fits(v, claim, storage_class) and v.reachable(labels, binding.node)),
        key=rank,
        default=None,
    )
    if chosen is None:
        return _refused(claim.metadata.name, f"finds no free volume of the class {storage_class!r} on {binding.node}")
    reference = {
        "apiVersion": PVCS.api_version,
        "kind": PVCS.kind,
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
    }
    metadata = {
        "resourceVersion": chosen.metadata.resource_version,  # of two clients that want it, one gets it
        "annotations": {BOUND_BY_CONTROLLER: "yes"},
    }
    await port.patch(PVS, chosen.metadata.name, None, {"metadata": metadata, "spec": {"claimRef": reference}})
    return None


async def _give_back(port: ClusterPort, claim: Claim) -> None:
    """Free the volumes that were reserved for an unbound claim by a program."""
    for item in (await port.list(PVS)).items:
        volume = msgspec.convert(item, PersistentVolume)
        reference, notes = volume.spec.claim_ref, volume.metadata.annotations or {}
        if reference is not None and reference.uid == claim.metadata.uid and BOUND_BY_CONTROLLER in notes:
            metadata = {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {BOUND_BY_CONTROLLER: None},
            }
            await port.patch(PVS, volume.metadata.name, None, {"metadata": metadata, "spec": {"claimRef": None}})


async def _reached(port: ClusterPort, binding: Binding, claim: Claim) -> Outcome | None:
    """Whether the node reaches the volume that the claim was bound to."""
    try:
        volume = await _read(port, PVS, PersistentVolume, claim.spec.volume_name)
        node = await port.get(NODES, binding.node)
    except NotFound as error:
        return _refused(claim.metadata.name, f"cannot be used on {binding.node}: {error.message}")
    if volume.reachable(node["metadata"].get("labels") or {}, binding.node):
        return None
    return _refused(claim.metadata.name, f"was bound to a volume that {binding.node} cannot reach")


async def _class_of(port: ClusterPort, claim: Claim) -> StorageClass | None:
    name = claim.spec.storage_class_name
    if not name:
        return None
    try:
        return await _read(port, STORAGECLASSES, StorageClass, name)
    except NotFound:
        return None


async def _read(port: ClusterPort, res: Resource, kind: type[T], name: str, namespace: str | None = None) -> T:
    return msgspec.convert(await port.get(res, name, namespace), kind)


def _refused(claim: str, what: str) -> Refused:
    return Refused(Refusal(0, "VolumeNotBound", f"the volume claim {claim!r} {what}"))


def _elsewhere(claim: str, node: str) -> Refused:
    return _refused(claim, f"is being bound for node {node}, which another pod chose")


async def prepare_all(
    port: ClusterPort, bindings: list[Binding], protocol: Protocol, *, at_once: int = 64
) -> dict[str, Outcome]:
    """Prepare every pod of a gang, and take all of it back when one fails.

    Returns:
        What went wrong, by the pods' UIDs; empty when every pod may be bound now.
    """
    places = asyncio.Semaphore(at_once)
    failed: dict[str, Outcome] = {}

    async def one(binding: Binding) -> None:
        async with places:
            if failed:
                return
            try:
                outcome = await protocol.prepare(port, binding)
            except ApiError as error:
                outcome = Gone() if isinstance(error, NotFound) else Conflicted("unclear", str(error))
            if outcome is not None:
                failed[binding.uid] = outcome

    async with asyncio.TaskGroup() as tasks:
        for binding in bindings:
            tasks.create_task(one(binding))
    if failed:
        for binding in bindings:
            await protocol.undo(port, binding)
    return failed
