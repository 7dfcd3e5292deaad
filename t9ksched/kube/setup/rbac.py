"""What each process of t9ksched may do in a cluster, and why: the list behind `deploy/rbac.yaml` and `t9ksched doctor`.

A right is a verb on a resource, in all namespaces unless it names one. Tests hold the manifest equal to this list, and
see that a scenario needs every right of the scheduler and of the controllers, and no other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from t9ksched.model.names import BATCH_GROUP, PLATFORM_GROUP, SCHEDULER_GROUP, SYSTEM_NAMESPACE
from t9ksched.workloads.addons import ADDONS, Addon
from t9ksched.workloads.gangform import Project
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.podgroups import GROUP_OBJECTS
from t9ksched.workloads.registry import KINDS, OWNERS, ROWS
from t9ksched.workloads.tuning.experiment import TRIAL_KINDS

SCHEDULER, CONTROLLER, API = "t9k-scheduler", "t9ksched-controller", "t9ksched-api"
"""The roles: names of their accounts and Deployments, and of the leases of those that lead."""
LEADING: Final = (SCHEDULER, CONTROLLER)
LEASES: Final = "t9ksched-leases"

_FOLLOW = ("list", "watch")


@dataclass(frozen=True)
class Rule:
    """A rule of a role: every verb on every resource of the group. `why` is for people; `namespace` empty for all."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    namespace: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As a role's manifest has it."""
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource (`pods/binding` names a subresource)."""

    group: str
    resource: str
    verb: str
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {name}" + (f" in {self.namespace}" if self.namespace else "")


def _of_kinds(
    chosen: Callable[[Kind], object], verbs: tuple[str, ...], why: str, subresource: str = ""
) -> Iterator[Rule]:
    """A rule a group on the chosen kinds of the platform, or on a subresource of them."""
    suffix = f"/{subresource}" if subresource else ""
    for group in dict.fromkeys(row.resource.group for row in ROWS):
        rows = [row for row in ROWS if row.resource.group == group and row.foreign is None and chosen(row)]
        if rows and group not in _NATIVE:
            yield Rule(group, tuple(sorted(f"{row.resource.plural}{suffix}" for row in rows)), verbs, why)


def _controlled(row: Kind) -> bool:
    return row.controlled


_NATIVE: Final = ("", "apps", "batch", SCHEDULER_GROUP)
"""API groups of Kubernetes and of the scheduler: the rules for their kinds are listed one by one."""
_APPS: Final = tuple(sorted(row.resource.plural for row in OWNERS))
_APPS_SCALE: Final = tuple(f"{plural}/scale" for plural in _APPS)

_LEASE: Final = Rule(
    "coordination.k8s.io", ("leases",), ("get", "create", "update"), "one of several leads", SYSTEM_NAMESPACE
)

_CONFIG: Final = Rule("", ("configmaps",), _FOLLOW, "follows its configuration", SYSTEM_NAMESPACE)

_DEVICES: Final = "sees where cards are handed out by DRA"
_KOORDINATOR: Final = "sees which cards nodes of Koordinator have"
DISPENSABLE: Final = frozenset({_DEVICES, _KOORDINATOR})
"""What a process does without when the right to it is missing; servers before Kubernetes 1.34, or without Koordinator,
have no such objects."""

ROLES: Final[dict[str, tuple[Rule, ...]]] = {
    SCHEDULER: (
        Rule("", ("nodes",), ("get", *_FOLLOW), "sees where there is room"),
        Rule("", ("nodes",), ("patch",), "writes on a node which of its cards are cordoned, and the lock of HAMi"),
        Rule("", ("pods",), ("get", *_FOLLOW), "sees what waits and what runs"),
        Rule("", ("namespaces",), _FOLLOW, "sees what queues and rules about pods select namespaces by"),
        Rule("", ("persistentvolumeclaims", "persistentvolumes"), ("get", *_FOLLOW), "sees where volumes are"),
        Rule("storage.k8s.io", ("storageclasses",), ("get", *_FOLLOW), "sees where volumes can be made"),
        Rule("storage.k8s.io", ("csinodes",), _FOLLOW, "sees how many volumes a node can attach"),
        Rule("resource.k8s.io", ("deviceclasses", "resourceslices"), _FOLLOW, _DEVICES),
        Rule("scheduling.koordinator.sh", ("devices",), _FOLLOW, _KOORDINATOR),
        Rule("batch", ("jobs",), ("get", *_FOLLOW, "patch"), "lists them, suspends one over its time"),
        Rule("apps", _APPS, ("get", *_FOLLOW), "sees what pods belong to"),
        Rule("apps", _APPS_SCALE, ("patch",), "scales one over its time to nothing"),
        *_of_kinds(lambda row: row.followed == "job", _FOLLOW, "lists them with their state"),
        *_of_kinds(lambda row: row.stop, ("get", "patch"), "stops one over its time"),
        Rule("", ("pods/binding",), ("create",), "places pods"),
        Rule("", ("persistentvolumeclaims", "persistentvolumes"), ("patch",), "binds volumes for a pod it places"),
        Rule("", ("pods",), ("delete",), "takes back a gang that got stuck half-way"),
        Rule("", ("pods/status",), ("patch",), "says on a pod why it is evicted"),
        Rule("policy", ("poddisruptionbudgets",), _FOLLOW, "sees which pods it should rather not evict"),
        Rule(SCHEDULER_GROUP, ("podgroups",), _FOLLOW, "sees the gangs"),
        Rule(SCHEDULER_GROUP, ("podgroups/status",), ("patch",), "writes the status of gangs"),
        Rule("", ("events",), ("create", "patch"), "tells why something waits"),
        _LEASE,
        _CONFIG,
        Rule(
            SCHEDULER_GROUP,
            ("queues",),
            (*_FOLLOW, "create", "update", "delete"),
            "keeps Queue objects equal to the database",
            SYSTEM_NAMESPACE,
        ),
        Rule(SCHEDULER_GROUP, ("queues/status",), ("patch",), "writes the status of queues", SYSTEM_NAMESPACE),
    ),
    CONTROLLER: (
        *_of_kinds(_controlled, _FOLLOW, "sees the workloads"),
        *_of_kinds(_controlled, ("update",), "writes the status of workloads", "status"),
        *_of_kinds(_controlled, ("update",), "makes objects that block their owner's deletion", "finalizers"),
        Rule(
            "",
            ("configmaps", "pods", "services"),
            ("get", *_FOLLOW, "create"),
            "makes what a job consists of",
        ),
        Rule("", ("secrets",), ("create",), "makes SSH keys of jobs and tokens of trials, and never reads any"),
        Rule("", ("pods",), ("delete",), "makes failed pods anew, and stops paused jobs"),
        Rule(
            "",
            ("configmaps", "services"),
            ("update", "delete"),
            "follows what a job no longer needs, or needs otherwise",
        ),
        Rule(
            SCHEDULER_GROUP,
            ("podgroups",),
            ("get", *_FOLLOW, "create", "update", "delete"),
            "makes a job's gang, and keeps it; makes that of a service anew in another queue",
        ),
        Rule(
            PLATFORM_GROUP,
            ("tensorboards",),
            ("get", "create", "update", "delete"),
            "makes the TensorBoard of a job, and keeps it",
        ),
        Rule(
            BATCH_GROUP,
            tuple(sorted(KINDS[kind].resource.plural for kind in TRIAL_KINDS)),
            ("get", "create", "update", "delete"),
            "makes the trials of an experiment, pauses and stops them",
        ),
        Rule(
            "apps",
            ("deployments",),
            ("get", *_FOLLOW, "create", "update", "delete"),
            "makes the Deployments of a service, and keeps them",
        ),
        Rule(PLATFORM_GROUP, ("mlserviceruntimes",), _FOLLOW, "sees what releases of a service are made from"),
        Rule("", ("events",), ("create", "patch"), "tells how a job goes"),
        _LEASE,
    ),
    API: (
        Rule("", ("namespaces",), ("get", "list"), "sees which queues a namespace may use"),
        Rule("", ("pods",), ("get", "list", "create", "delete"), "submits, shows and cancels them"),
        Rule("", ("pods/log",), ("get",), "shows logs to users whom the cluster lets read them"),
        Rule("batch", ("jobs",), ("get", "create", "delete"), "submits, shows and cancels them"),
        Rule(SCHEDULER_GROUP, ("podgroups",), ("get", "create", "delete"), "submits, shows and cancels them"),
        Rule("", ("configmaps",), ("get", "create"), "keeps the script of a job, and sees whether it is there"),
        *_of_kinds(
            lambda row: row.controlled or row.submitted, ("get", "create", "delete"), "submits, shows and cancels them"
        ),
        Rule("batch", ("jobs",), ("patch",), "suspends, resumes and scales them"),
        *_of_kinds(
            lambda row: row.controlled and (row.stop or row.scale), ("patch",), "pauses, resumes and scales them"
        ),
        Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "asks what a user may do in the cluster"),
    ),
}
"""By service account."""


FOREIGN_ROLES: Final = (SCHEDULER, CONTROLLER, API)
"""Service accounts that have rights on the kinds of other projects, where these are installed."""
PROJECTS: Final = tuple(
    dict.fromkeys(
        [
            *(row.foreign.project for row in ROWS if row.foreign is not None),
            *(system.project for system in GROUP_OBJECTS),
            *(addon.project for addon in ADDONS),
        ]
    )
)
"""Other projects with kinds of jobs that are placed here, or whose objects our controllers make."""


def foreign_rules(project: Project, role: str) -> tuple[Rule, ...]:
    """What a service account may do with the kinds of another project, where that is installed."""
    addon = next((one for one in ADDONS if one.project == project), None)
    if addon is not None or role == CONTROLLER:
        return _addon_rules(addon, role) if addon is not None else ()
    rows = [row for row in ROWS if row.foreign is not None and row.foreign.project == project]
    groups = dict.fromkeys(row.resource.group for row in rows)

    def of(rows: list[Kind], verbs: tuple[str, ...], why: str) -> Iterator[Rule]:
        for group in groups:
            plurals = {row.resource.plural for row in rows if row.resource.group == group}
            if plurals:
                yield Rule(group, tuple(sorted(plurals)), verbs, why)

    stopped = [row for row in rows if row.stop is not None]
    named = [system.resource for system in GROUP_OBJECTS if system.project == project and system.resource is not None]
    if named:
        group, plurals = named[0].group, tuple(sorted(one.plural for one in named))
        return (Rule(group, plurals, _FOLLOW, "sees which pods start together"),) if role == SCHEDULER else ()
    if role == SCHEDULER:
        return (
            *of(rows, ("get", *_FOLLOW), "sees what pods belong to, and what starts together"),
            *of(stopped, ("patch",), "suspends one over its time"),
        )
    return (
        *of(rows, ("get", "create", "delete"), "submits, shows and cancels them"),
        *of(stopped, ("patch",), "suspends and resumes them"),
    )


def _addon_rules(addon: Addon, role: str) -> tuple[Rule, ...]:
    kinds = addon.between if role == SCHEDULER else addon.made if role == CONTROLLER else ()
    verbs: tuple[str, ...] = _FOLLOW
    why = "sees which workload pods belong to"
    if role == CONTROLLER:
        verbs, why = ("get", *_FOLLOW, "create", "update", "delete"), f"makes what {addon.kind}s consist of"
    groups = dict.fromkeys(kind.group for kind in kinds)
    return tuple(
        Rule(group, tuple(sorted({kind.plural for kind in kinds if kind.group == group})), verbs, why)
        for group in groups
    )


def rights(role: str) -> Iterator[tuple[Right, str]]:
    """Every single right of a role, with why it is needed."""
    for rule in ROLES[role]:
        for resource in rule.resources:
            for verb in rule.verbs:
                yield Right(rule.group, resource, verb, rule.namespace), rule.why


def manifest(role: str) -> list[dict[str, Any]]:
    """The rules of a role's ClusterRole: those that hold in all namespaces."""
    return [rule.to_dict() for rule in ROLES[role] if not rule.namespace]
