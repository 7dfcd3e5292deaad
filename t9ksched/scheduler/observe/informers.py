"""From the watches into the state: one reflector a kind, each decoding only what is read."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog

from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import ClusterPort, Payload
from t9ksched.kube.resources import (
    CSINODES,
    DEVICECLASSES,
    KOORDINATOR_DEVICES,
    NAMESPACES,
    NODES,
    PDBS,
    PODGROUPS,
    PODS,
    PVCS,
    PVS,
    QUEUES,
    RESOURCESLICES,
    STORAGECLASSES,
)
from t9ksched.kube.watch.identity import Identity
from t9ksched.kube.watch.reflector import Reflector, WatchOptions
from t9ksched.model import names
from t9ksched.model.api_resource import Resource
from t9ksched.model.dra import DeviceClass, ResourceSlice
from t9ksched.model.koordinator import DeviceReport
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.scheduler.keep.queue_sync import QueueSync
from t9ksched.scheduler.observe.ahead import Gate, LeanGate
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.observe.stepwise import Stepwise
from t9ksched.scheduler.observe.unheard import read_unheard
from t9ksched.scheduler.observe.versions import Versions
from t9ksched.scheduler.state.budgets import DisruptionBudget
from t9ksched.scheduler.state.namespaces import NamespaceObject
from t9ksched.scheduler.state.objects import JobObject, PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, CsiNode, PersistentVolume, StorageClass
from t9ksched.store.bindings import CardBinding
from t9ksched.workloads import registry
from t9ksched.workloads.addons import ADDONS
from t9ksched.workloads.podgroups import GROUP_OBJECTS, GroupSystem
from t9ksched.workloads.registry import row_of

log = structlog.get_logger(__name__)
T = TypeVar("T")
_OWNERS = frozenset(row.resource for row in registry.OWNERS)
_BETWEEN = {kind: addon.project for addon in ADDONS for kind in addon.between}
"""Kinds of other projects' objects that stand between a workload and its pods."""
_FOREIGN = frozenset(row.resource for row in registry.JOBS if row.foreign is not None)
_MANY = WatchOptions(initial_events=True)
_MANY_PERHAPS = WatchOptions(initial_events=True, optional=True)
_DEFAULT = WatchOptions()
_PERHAPS = WatchOptions(optional=True)


class Informer:
    """Hands objects of one kind to two functions."""

    def __init__(
        self,
        upsert: Callable[[Any], None],
        remove: Callable[[Any], None],
        after: Callable[[], None],
        after_piece: Callable[[], None] = lambda: None,
    ) -> None:
        self._after_piece = after_piece
        self._upsert = upsert
        self._remove = remove
        self._after = after

    def on_replace(self, items: list[Any]) -> None:
        """The first list."""
        for item in items:
            self._upsert(item)
        self._after()

    def on_piece(self, items: list[Any]) -> None:
        """A piece of the first list; the last one is empty."""
        for item in items:
            self._upsert(item)
        self._after_piece()
        if not items:
            self._after()

    def on_upsert(self, obj: Any) -> None:
        """New or changed."""
        self._upsert(obj)
        self._after()

    def on_delete(self, obj: Any) -> None:
        """Gone."""
        self._remove(obj)
        self._after()


def decoder(kind: type[T]) -> Callable[[Payload], T]:
    """Decodes JSON text or a plain dict into a struct."""
    text = msgspec.json.Decoder(kind)

    def decode(payload: Payload) -> T:
        return text.decode(payload) if isinstance(payload, bytes) else msgspec.convert(payload, kind)

    return decode


class Informers:
    """All reflectors of the scheduler."""

    def __init__(
        self, client: ClusterPort, state: ClusterState, projection: QueueSync, after: Callable[[], None]
    ) -> None:
        self._client = client
        self._owners = state.owners
        self._reflectors: list[Reflector[Any]] = []
        self._gates: dict[Reflector[Any], Gate] = {}
        self._ahead: dict[Reflector[Any], asyncio.Task[None]] = {}

        def keep(reflector: Reflector[Any], gate: Gate) -> None:
            self._reflectors.append(reflector)
            self._gates[reflector] = gate

        def follow(
            kind: Resource,
            decode: Callable[[Payload], Any] | None,
            upsert: Callable[[Any], None],
            remove: Callable[[Any], None],
            namespace: str | None = None,
            options: WatchOptions = _DEFAULT,
        ) -> None:
            gate = Gate(Informer(upsert, remove, after, state.settle))
            keep(Reflector(client, kind, gate, namespace, decode=decode, options=options), gate)

        def follow_many(
            kind: Resource,
            decode: Callable[[Payload], Any],
            upsert: Callable[[Any], None],
            remove: Callable[[Identity], None],
        ) -> None:
            gate = LeanGate(Informer(upsert, remove, after, state.settle))
            options = _MANY_PERHAPS if kind in _FOREIGN or kind in _BETWEEN else _MANY
            keep(Reflector(client, kind, gate, decode=decode, options=options), gate)

        storage = state.storage
        follow(NAMESPACES, decoder(NamespaceObject), state.namespaces.upsert, state.namespaces.remove)
        follow(CSINODES, decoder(CsiNode), storage.upsert_csi_node, storage.remove_csi_node)
        dra = state.dra
        self.steps = Stepwise(after)
        dra.in_steps = self.steps.begin
        follow(DEVICECLASSES, decoder(DeviceClass), dra.upsert_class, dra.remove_class, options=_PERHAPS)
        follow(RESOURCESLICES, decoder(ResourceSlice), dra.upsert_slice, dra.remove_slice, options=_PERHAPS)
        own = state.reported_cards
        follow(KOORDINATOR_DEVICES, decoder(DeviceReport), own.upsert, own.remove, options=_PERHAPS)
        follow_many(NODES, decode_node, state.upsert_node, lambda node: state.remove_node(node.name))
        follow(STORAGECLASSES, decoder(StorageClass), storage.upsert_class, storage.remove_class)
        follow(PVS, decoder(PersistentVolume), storage.upsert_volume, storage.remove_volume)
        follow(PDBS, decoder(DisruptionBudget), state.budgets.upsert, state.budgets.remove)
        follow(PVCS, decoder(Claim), storage.upsert_claim, storage.remove_claim)
        follow(
            QUEUES,
            None,
            projection.upsert,
            lambda queue: projection.remove(queue["metadata"]["name"]),
            names.SYSTEM_NAMESPACE,
        )
        state.refills.kinds = frozenset((row.api_version, row.name) for row in registry.JOBS)
        shown = Counter((row.resource.group, row.resource.plural) for row in registry.JOBS)
        versions: dict[tuple[str, str], Versions] = {}
        for kind in (row.resource for row in registry.JOBS):
            of, take = (kind.group, kind.plural), job_upsert(state, kind)
            if shown[of] == 1:  # its objects, which may be very many, need not be kept
                follow_many(kind, decoder(JobObject), take, lambda job: state.remove_job(job.uid))
                continue
            job = versions.setdefault(of, Versions(lambda obj: state.remove_job(obj.metadata.uid)))
            follow_many(kind, decoder(JobObject), *self._version(job, kind, take))
        for kind in (row.resource for row in registry.OWNERS):
            follow_many(kind, decoder(JobObject), owner_upsert(state, kind), lambda job: state.remove_owner(job.uid))
        for kind in _BETWEEN:
            link = partial(state.owners.upsert_link, kind=kind)
            follow_many(kind, decoder(JobObject), link, lambda obj: state.owners.remove_link(obj.uid))
        state.owners.ask_rights_of(self._refused)
        follow(PODGROUPS, decoder(PodGroupObject), state.upsert_group, state.remove_group)
        state.named_groups.ask_followed(self._followed)
        for system in GROUP_OBJECTS:
            group = Versions(partial(_take, state.named_groups.remove, system))
            for kind in system.resources:
                take, drop = self._version(group, kind, partial(_take, state.named_groups.upsert, system))
                follow(kind, decoder(JobObject), take, drop, options=_PERHAPS)
        follow_many(
            PODS, partial(decode_pod, known=state.pods), state.upsert_pod, lambda pod: state.remove_pod(pod.uid)
        )

    def _followed(self, name: str) -> bool:
        """Whether the kind of that name is read now."""
        return any(one.synced.is_set() and not one.denied.is_set() for one in self._reflectors if one.res.kind == name)

    def _version(
        self, versions: Versions, kind: Resource, upsert: Callable[[JobObject], None]
    ) -> tuple[Callable[[JobObject], None], Callable[[JobObject | Identity], None]]:
        """What takes objects in one of their versions in, and what lets them go."""
        place = versions.add(upsert)

        def remove(last: JobObject | Identity) -> None:
            uid = last.uid if isinstance(last, Identity) else last.metadata.uid
            served = not any(one.absent.is_set() for one in self._reflectors if one.res == kind)
            versions.remove(place, uid, served=served)

        return partial(versions.upsert, place), remove

    def _refused(self, name: str) -> bool:
        """Whether the kind of another project of that name may not be read."""
        return any(one.denied.is_set() for one in self._reflectors if one.res in _FOREIGN and one.res.kind == name)

    def reflectors(self) -> Iterable[Reflector[Any]]:
        """In the order in which they should be read first: pods last, when everything they point at is known."""
        return tuple(self._reflectors)

    def follow_ahead(self) -> None:
        """Follow everything before the turn to lead; what comes is kept until `read_first`."""
        for reflector in self._reflectors:
            self._gates[reflector].close()
            self._ahead[reflector] = asyncio.create_task(reflector.run())

    async def run(self, reflector: Reflector[Any]) -> None:
        """Follow one kind until cancelled, from where `follow_ahead` is."""
        await (self._ahead.get(reflector) or reflector.run())

    async def stop(self) -> None:
        """End what was begun ahead."""
        for task in self._ahead.values():
            task.cancel()
        await asyncio.gather(*self._ahead.values(), return_exceptions=True)

    async def read_first(self, reflector: Reflector[Any]) -> None:
        """Wait for the first list of a running reflector, and for all of it to be handed on.

        Kinds of owners and devices are skipped if they may not be read, as after an upgrade without its new rights, and
        devices if the server does not serve them: pods are then judged without them until the first list comes.
        """
        await self._first(reflector)
        await self._gates[reflector].open(complete=reflector.synced.is_set())

    async def _first(self, reflector: Reflector[Any]) -> None:
        kind = reflector.res
        if kind not in _OWNERS and not reflector.optional:
            await reflector.synced.wait()
            return
        if kind in _OWNERS:
            self._owners.unread.add(kind.kind)
        events = (reflector.synced, reflector.denied, reflector.absent)
        waits = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if reflector.synced.is_set():
            self._owners.unread.discard(kind.kind)

    async def read_unheard(self, rows: Iterable[CardBinding]) -> None:
        """If the kinds were followed by a standby: read the pods of these rows that the watches do not show as bound
        yet. Otherwise every list was read after the last of them was bound, and nothing is to be done.
        """
        pods = next((one for one in self._reflectors if one.res is PODS), None)
        if pods is not None and pods in self._ahead:
            await read_unheard(self._client, pods, rows)

    def lacking(self) -> list[str]:
        """A sentence for each kind that may not be listed or watched now."""
        return [
            f"the scheduler does not follow {one.res}: {one.error}; kubectl apply -f"
            f" {_rights_on(one.res)} of this release, and see t9ksched doctor"
            for one in self._reflectors
            if one.denied.is_set() and one.error is not None  # without an error it is being read at last
        ]

    async def read_late(self) -> None:
        """Wait for the first lists of the kinds that were skipped at the start."""
        for reflector in self._reflectors:
            if reflector.res.kind in self._owners.unread:
                await reflector.synced.wait()
                self._owners.unread.discard(reflector.res.kind)

    async def leave_out_unknown(self) -> None:
        """Leave out the kinds that the server does not serve: an observer installs none.

        Raises:
            ApiError: the server does not answer.
        """
        known = []
        for reflector in self._reflectors:
            if reflector.optional:
                known.append(reflector)
                continue
            try:
                await self._client.list(
                    reflector.res, reflector.namespace, field_selector="metadata.name=t9ksched-is-it-served", limit=1
                )
            except NotFound:
                log.info("the cluster does not know this kind, it is left out", kind=str(reflector.res))
                continue
            known.append(reflector)
        self._reflectors = known


def _take(act: Callable[[JobObject, GroupSystem], None], system: GroupSystem, obj: JobObject) -> None:
    act(obj, system)


def _rights_on(kind: Resource) -> str:
    """The file with the right to follow a kind."""
    foreign = row_of(kind).foreign if kind in _FOREIGN else None
    project = foreign.project if foreign is not None else _BETWEEN.get(kind)
    return f"deploy/foreign/{project.name}.yaml" if project is not None else "deploy/rbac.yaml"


def _announce(state: ClusterState, job: JobObject) -> None:
    uid = job.metadata.uid
    if uid not in state.acceptances:
        state.announced.note(uid, job.metadata.annotations)


def job_upsert(state: ClusterState, kind: Resource) -> Callable[[JobObject], None]:
    """Takes in jobs of a kind."""
    row = row_of(kind)

    def upsert(job: JobObject) -> None:
        record = job_record(job, kind)
        above = job.metadata.controller
        part = above is not None and state.owners.is_foreign(above)
        if part:
            state.job_events.hide(record.uid)
        else:
            state.upsert_job(record)
        if job.metadata.deletion_timestamp and not part:
            state.deletion(record.uid)
        _announce(state, job)
        if row.gang is not None:
            state.foreign.upsert(job, row)  # before those that wait for it are told that it is there
        state.owners.upsert(job, kind, ours=record.queue is not None or part or row.foreign is not None)

    return upsert


def owner_upsert(state: ClusterState, kind: Resource) -> Callable[[JobObject], None]:
    """Takes in owners of a kind."""
    row = row_of(kind)

    def upsert(job: JobObject) -> None:
        _announce(state, job)
        if row.gang is not None:
            state.foreign.upsert(job, row)
        state.owners.upsert_replicated(job, kind)
        if job.metadata.deletion_timestamp and state.gangs_of_owner(job.metadata.uid):
            state.deletion(job.metadata.uid)

    return upsert
