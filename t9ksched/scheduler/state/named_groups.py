"""The gangs of pods that name a group in the way of another scheduler: `workloads/podgroups.py` says which.

Like the gangs of `foreign_gangs.py` they are groups without a PodGroup of ours. A group whose pods all belong to one
job is that job's; any other is a job of its own, which pods may join as they may join a PodGroup made by hand.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from t9ksched.model.names import QUEUE_LABEL
from t9ksched.model.pod import Metadata, OwnerReference, Pod
from t9ksched.scheduler.state.objects import JobObject, PodGroupObject
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.workloads.gangs import queue_named
from t9ksched.workloads.podgroups import GroupMinimum, GroupSystem, NamedGroup, asked_of, named_group

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class _Known(msgspec.Struct):
    """A group, as far as its pods and its object tell of it."""

    named: NamedGroup
    created: str
    queue: str
    count: int = 0
    fault: str = ""
    """Why the number that its pods say cannot be read; of no account once one of them says it."""
    tops: dict[str, OwnerReference | None] = msgspec.field(default_factory=dict)
    """The topmost owners of its pods, by UID; under an empty one None for a pod without any."""

    @property
    def owner(self) -> OwnerReference | None:
        """The topmost owner of all its pods; None if they have several, or one has none."""
        return next(iter(self.tops.values())) if len(self.tops) == 1 else None

    def told(self) -> tuple[object, ...]:
        """All that its pods tell of it."""
        return self.count, self.fault, self.queue, self.owner


class NamedGroups:
    """Groups by namespace and name, and what each pod names, by its UID."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._pods: dict[str, tuple[NamedGroup, str]] = {}
        self._groups: dict[tuple[str, str], _Known] = {}
        self._objects: dict[tuple[str, str, str], JobObject] = {}
        """By system, namespace and name."""
        self._of_object: defaultdict[tuple[str, str, str], dict[tuple[str, str], _Known]] = defaultdict(dict)
        """The groups of each object, there or not, by the same."""
        self._followed: Callable[[str], bool] = lambda _: True

    def ask_followed(self, followed: Callable[[str], bool]) -> None:
        """Whether the objects of a kind, by its name, are followed now, is known there."""
        self._followed = followed

    def read(self, pod: Pod) -> None:
        """A pod of this scheduler is seen for the first time."""
        if (named := named_group(pod)) is not None:
            self._pods[pod.metadata.uid] = named, pod.metadata.creation_timestamp

    def gone(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)

    def ended(self, gang: GangRecord) -> None:
        """The last member of a group is gone."""
        known = self._groups.get((gang.namespace, gang.name))
        if known is not None and not gang.members:
            del self._groups[gang.namespace, gang.name]
            named = _object_of(gang.namespace, known.named)
            del self._of_object[named][gang.namespace, gang.name]
            if not self._of_object[named]:
                del self._of_object[named]
            self._state.remove_group(PodGroupObject(Metadata(gang.name, gang.namespace, gang.uid)))

    def place(self, pod: PodRecord) -> tuple[str, str]:
        """Name of the group and role of a pod; empty for one that names none, or none that is a gang."""
        named, created = self._pods.get(pod.uid, (None, ""))
        if named is None or (named.system.resource is not None and not self._followed(named.system.resource.kind)):
            return "", ""
        key = (pod.namespace, named.title)
        obj = self._object(pod.namespace, named)
        if obj is not None and asked_of(named, {"spec": obj.spec}) is None:
            return "", ""
        known, before = self._groups.get(key), None
        if known is None:
            known = self._groups[key] = _Known(named, created, pod.labels.get(QUEUE_LABEL, ""))
            self._of_object[_object_of(pod.namespace, named)][key] = known
        else:
            before = known.told()
        known.count, known.fault = max(known.count, named.members), named.fault or known.fault
        known.queue = known.queue or pod.labels.get(QUEUE_LABEL, "")
        top = self._state.owners.top(pod.owner) if pod.owner is not None else None
        known.tops[top.uid if top is not None else ""] = top
        if known.told() != before or key not in self._state.gangs:
            self._keep(key, known)
        return named.title, named.role

    def upsert(self, obj: JobObject, system: GroupSystem) -> None:
        """The object of groups appeared or changed."""
        self._objects[system.name, obj.metadata.namespace, obj.metadata.name] = obj
        self._look_again(obj, system)

    def remove(self, obj: JobObject, system: GroupSystem) -> None:
        """The object of groups is gone; their members wait for it to appear again."""
        self._objects.pop((system.name, obj.metadata.namespace, obj.metadata.name), None)
        self._look_again(obj, system)

    def _look_again(self, obj: JobObject, system: GroupSystem) -> None:
        groups = self._of_object.get((system.name, obj.metadata.namespace, obj.metadata.name), {})
        for key, known in list(groups.items()):
            self._keep(key, known)
            gang = self._state.gangs.get(key)
            if gang is not None and self._is_none(key, known):
                for pod in [pod for pod in gang.members.values() if pod.waiting]:
                    self._state.joining.join_anew(pod)

    def _is_none(self, key: tuple[str, str], known: _Known) -> bool:
        """Whether the pods of a group are placed one by one."""
        obj = self._object(key[0], known.named)
        return obj is not None and self._asked(known, obj) is None

    def _object(self, namespace: str, named: NamedGroup) -> JobObject | None:
        return self._objects.get(_object_of(namespace, named))

    @staticmethod
    def _asked(known: _Known, obj: JobObject | None) -> GroupMinimum | None:
        if known.named.system.resource is not None:
            return asked_of(known.named, {"spec": obj.spec}) if obj is not None else None
        if known.count:
            return GroupMinimum(known.count)
        return GroupMinimum(1, fault=f"its pods do not say how many start together: {known.fault}")

    def _keep(self, key: tuple[str, str], known: _Known) -> None:
        """Make the group, or bring it up to date."""
        state, named = self._state, known.named
        obj = self._object(key[0], named)
        gang = state.gangs.get(key)
        if gang is None:
            gang = state.gangs[key] = GangRecord(*key)
        kind = "group of pods" if named.system.resource is None else named.system.resource.api_kind
        gang.foreign = f"the {kind} {key[0]}/{named.name} ({named.system.project.title})"
        asked = self._asked(known, obj)
        if asked is None:
            if gang.uid:
                state.remove_group(PodGroupObject(Metadata(gang.name, gang.namespace, gang.uid)))
            return
        labelled = (obj.metadata.labels, obj.metadata.annotations) if obj is not None else (None, None)
        spec: Mapping[str, Any] = {
            "minMember": asked.minimum,
            "roles": [{"name": role, "minMember": least} for role, least in asked.roles],
            "queue": queue_named(labelled) or known.queue,
        }
        metadata = Metadata(
            name=key[1],
            namespace=key[0],
            uid=str(uuid5(NAMESPACE_OID, f"{obj.metadata.uid if obj is not None else ''}/{key[0]}/{key[1]}")),
            creation_timestamp=obj.metadata.creation_timestamp if obj is not None else known.created,
            annotations=obj.metadata.annotations if obj is not None else None,
            owner_references=[known.owner] if known.owner is not None else None,
        )
        state.group_events.upsert(PodGroupObject(metadata, dict(spec), gang.status))
        if gang.foreign_fault != asked.fault:
            gang.foreign_fault = asked.fault
            state.changes.gang_changed(gang)
            state.wake()


def _object_of(namespace: str, named: NamedGroup) -> tuple[str, str, str]:
    """The object that a group is named after: its system, namespace and name."""
    return named.system.name, namespace, named.name
