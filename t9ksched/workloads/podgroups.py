"""Groups that pods name in the ways of other schedulers: by labels, annotations and fields of theirs. Pure.

Most name an object that says how many belong together; some say it themselves. Such a group is a gang here if its pods
name this scheduler, and no object above them makes them a gang already.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import msgspec

from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import FieldError, child, faulty
from t9ksched.model.pod import Pod
from t9ksched.model.whole import whole_number
from t9ksched.workloads.fields import Field
from t9ksched.workloads.gangform import Keys, Project
from t9ksched.workloads.gangs import at

_MOST: Final = 1_000_000


class Place(NamedTuple):
    """Where a pod says something: a label, an annotation, or a field of its spec."""

    kind: Literal["label", "annotation", "spec"]
    keys: Keys


class GroupSystem(msgspec.Struct, frozen=True):
    """How pods name their group in one system.

    Attributes:
        name: behind the names of its groups here.
        project: whose it is, for people and for the file of its rights.
        named: where pods name the group; the first that is there counts.
        resource: the object that they name; None where the pods say all.
        newer: further versions of it, the first of which counts before the others and before that of `resource`.
        minimum: to the number of pods that start together, from the object, or from an entry of `entries`.
        may_lack: whether a number of 0, or none, means that the pods are placed one by one; else they are where nothing
            stands where the number would be.
        entries: to a list in the object; the pods name an entry of it at `entry`, and perhaps one of its copies.
        count: where pods say how many they are, without an object.
        roles: to a mapping from role to minimum, from the object.
        role: where pods say their role.
    """

    name: str
    project: Project
    named: tuple[Place, ...]
    resource: Resource | None = None
    newer: tuple[str, ...] = ()
    minimum: Keys = ()
    may_lack: bool = False
    entries: Keys = ()
    entry: tuple[Place, ...] = ()
    count: tuple[Place, ...] = ()
    roles: Keys = ()
    role: tuple[Place, ...] = ()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The object in all its versions, the one that counts first being the first."""
        own = self.resource
        return () if own is None else (*(replace(own, version=version) for version in self.newer), own)


class NamedGroup(NamedTuple):
    """The group that a pod names: `part` tells apart groups of one object, `members` is how many the pod says they are,
    0 where it does not, `fault` why that cannot be read.
    """

    system: GroupSystem
    name: str
    part: tuple[str, ...]
    members: int
    role: str
    fault: str = ""

    @property
    def title(self) -> str:
        """The name of the group here; no object of Kubernetes can have it."""
        return "~".join((self.name, *filter(None, self.part), self.system.name))


class GroupMinimum(NamedTuple):
    """What an object asks for: the members that start together, in all and of each role; or why nothing can start."""

    minimum: int
    roles: tuple[tuple[str, int], ...] = ()
    fault: str = ""


def _label(*keys: str) -> tuple[Place, ...]:
    return tuple(Place("label", (key,)) for key in keys)


def _annotation(*keys: str) -> tuple[Place, ...]:
    return tuple(Place("annotation", (key,)) for key in keys)


_SIG_GROUP, _SIG_COUNT = "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"
KUBERNETES: Final = Project("kubernetes-groups", "Kubernetes' own groups of pods")
SYSTEMS: Final = (
    GroupSystem(
        "scheduling.k8s.io",
        KUBERNETES,
        named=(Place("spec", ("schedulingGroup", "podGroupName")),),
        resource=Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup.scheduling.k8s.io"),
        newer=("v1beta1", "v1alpha3"),
        minimum=("spec", "schedulingPolicy", "gang", "minCount"),
    ),
    GroupSystem(
        "workload.scheduling.k8s.io",
        KUBERNETES,
        named=(Place("spec", ("workloadRef", "name")),),
        resource=Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload.scheduling.k8s.io"),
        minimum=("policy", "gang", "minCount"),
        entries=("spec", "podGroups"),
        entry=(Place("spec", ("workloadRef", "podGroup")), Place("spec", ("workloadRef", "podGroupReplicaKey"))),
    ),
    GroupSystem(
        "volcano.sh",
        Project("volcano", "Volcano"),
        named=_annotation("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"),
        resource=Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup.scheduling.volcano.sh"),
        minimum=("spec", "minMember"),
        may_lack=True,
        roles=("spec", "minTaskMember"),
        role=_annotation("volcano.sh/task-spec"),
    ),
    GroupSystem(
        "scheduling.x-k8s.io",
        Project("coscheduling", "coscheduling of scheduler-plugins"),
        named=_label("scheduling.x-k8s.io/pod-group"),
        resource=Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup.scheduling.x-k8s.io"),
        minimum=("spec", "minMember"),
        may_lack=True,
    ),
    GroupSystem(
        "scheduling.sigs.k8s.io",
        Project("arena", "arena, and coscheduling by labels alone"),
        named=(*_label(_SIG_GROUP), *_annotation(_SIG_GROUP)),
        count=(*_label(_SIG_COUNT), *_annotation(_SIG_COUNT)),
    ),
    GroupSystem(
        "kueue.x-k8s.io",
        Project("kueue", "Kueue's groups of plain pods"),
        named=_label("kueue.x-k8s.io/pod-group-name"),
        count=_annotation("kueue.x-k8s.io/pod-group-total-count"),
    ),
)
"""In the order in which they are asked."""
GROUP_OBJECTS: Final = tuple(system for system in SYSTEMS if system.resource is not None)
_KEYS: Final = frozenset(place.keys[0] for system in SYSTEMS for place in system.named)
_BY_NAME: Final = {system.name: system for system in SYSTEMS}
_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
"""A name of an object, or the value of a label."""


def system_titled(title: str) -> GroupSystem | None:
    """The system of the group that has this title; None if it can be the title of none."""
    *parts, system = title.split("~")
    return _BY_NAME.get(system) if parts and all(map(_PART.fullmatch, parts)) else None


def selector_of(title: str) -> str:
    """A selector of labels that all pods of the group of this title have; empty where labels do not tell."""
    system = system_titled(title)
    if system is None or len(system.named) > 1 or system.named[0].kind != "label":
        return ""
    return f"{system.named[0].keys[0]}={title.partition('~')[0]}"


def named_group(pod: Pod) -> NamedGroup | None:
    """The group that a pod names in the way of another system; None if it names none."""
    meta, spec = pod.metadata, pod.spec
    labels, annotations = meta.labels or {}, meta.annotations or {}
    if spec.scheduling_group is None and spec.workload_ref is None and _KEYS.isdisjoint((*labels, *annotations)):
        return None
    fields = {"schedulingGroup": spec.scheduling_group, "workloadRef": spec.workload_ref}

    def said(places: tuple[Place, ...]) -> str:
        for kind, keys in places:
            source: Mapping[str, Any] = fields if kind == "spec" else labels if kind == "label" else annotations
            text = at(source, keys)
            if isinstance(text, str) and text:
                return text
        return ""

    found: NamedGroup | None = None
    for system in SYSTEMS:
        name = said(system.named)
        if not name:
            continue
        part = tuple(said((place,)) for place in system.entry)
        count, fault = _counted(system.count, said(system.count)) if system.count else (0, "")
        group = NamedGroup(system, name, part, count, said(system.role), fault)
        if not fault:
            return group
        found = found or group  # unless the pod names another one that can be read
    return found


def _counted(places: tuple[Place, ...], text: str) -> tuple[int, str]:
    """How many pods a pod says that its group has, and what is wrong with that."""
    count = whole_number(text)
    if count:
        return min(count, _MOST), ""
    path = child(f"metadata.{places[0].kind}s", places[0].keys[0])
    what = faulty(text or None, "is no number of pods")
    return 0, str(FieldError(path, f"{what}: write how many start together, 1 or more"))


def asked_of(group: NamedGroup, obj: Mapping[str, Any]) -> GroupMinimum | None:
    """What the object that the pods of a group name asks for; None if they are placed one by one."""
    system, root = group.system, Field(obj)
    place = root
    if system.entries:
        listed = [one for one in root.at(*system.entries).items() if one["name"].value == group.part[0]]
        if not listed and not root.faults:
            return GroupMinimum(
                1, fault=f"its pods name the pod group {group.part[0]!r}, which {group.name} does not have"
            )
        place = listed[0] if listed else Field(None, faults=root.faults)
    said = place.at(*system.minimum)
    if not (said.present or system.may_lack) and place.at(*system.minimum[:-1]).present:
        said.fault("is missing: write how many pods start together, 1 or more")
    minimum = said.whole(0, low=0 if system.may_lack else 1, high=_MOST)
    named = root.at(*system.roles).entries() if system.roles else ()
    roles = tuple(sorted((role, count) for role, least in named if (count := least.whole(0, high=_MOST))))
    if root.faults:
        kind = system.resource.api_kind if system.resource is not None else "group"
        return GroupMinimum(1, fault=f"the {kind} {group.name} cannot be read: {root.faults[0]}")
    return GroupMinimum(minimum, roles) if minimum else None
