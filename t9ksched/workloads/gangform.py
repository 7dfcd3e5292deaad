"""How the pods of a kind that others turn into pods form a gang: facts of the kind, as a value.

A `GangForm` says where an object lists its groups of like pods, how many each has, and by which labels its pods say
what they are. `gangs.py` reads objects by it; the rows are in `foreign.py` and `registry.py`.
"""

from typing import Any, Literal

import msgspec

Keys = tuple[str, ...]
"""Keys that lead to a field."""


class Groups(msgspec.Struct, frozen=True):
    """Where an object lists groups of like pods.

    Attributes:
        path: to the mapping from role to group, to the list of groups, or to the one group.
        form: which of these it is.
        name: of a list, the key of an entry's role; of one group, the role itself.
        template: to the pod template, from the group; the first that is there counts.
        replicas: to the number of replicas, from the group; `default` if it is missing.
        added: added to that number.
        times: to a factor, from the group; 1 if it is missing.
        job: to the spec of a batch Job, from the group, which says how many pods a replica has; None: one.
        least: to the smallest number of replicas, from the group, where `elastic` of the form is on.
        off: to a flag, from the group, with which it has no pods.
        after: to the list of groups that must be ready before, from the group.
    """

    path: Keys
    form: Literal["mapping", "list", "one"] = "list"
    name: str = "name"
    template: tuple[Keys, ...] = (("template",),)
    replicas: Keys = ("replicas",)
    default: int = 1
    added: int = 0
    times: Keys = ()
    job: Keys | None = None
    least: Keys = ()
    off: Keys = ()
    after: Keys = ()


class Bounds(msgspec.Struct, frozen=True):
    """The smallest number of replicas of one role, kept apart from the groups."""

    path: Keys
    role: str


class Needed(msgspec.Struct, frozen=True):
    """A value without which an object's pods cannot wait for one another.

    Attributes:
        path: to the field.
        value: what it must be.
        why: what happens with another value, as the end of a sentence.
    """

    path: Keys
    value: Any
    why: str


class GangForm(msgspec.Struct, frozen=True):
    """How the pods of an object form a gang.

    Attributes:
        groups: all groups of pods that an object may list.
        role: the label by which a pod says its role, in lower case.
        roles: names of roles for values of that label, where they differ; `""` is for all other values.
        part: the label by which an object's pods are told apart into gangs of their own; empty for one gang.
        parts: to the number of these gangs.
        minimum: to the smallest number of pods that is worth starting, in all.
        elastic: to a flag with which `least` of the groups counts; empty where it always does.
        bounds: the smallest number of one role.
        staged: fields with values with which a group of pods is made when another one is ready: each is a gang of its
            own.
        annotated: an object asks to be a gang by the annotation `gang`; without it its pods are placed one by one.
        needed: what an object must say to be a gang.
        below: the pods are made by an object of another kind below this one, which is their gang.
    """

    groups: tuple[Groups, ...] = ()
    role: str = ""
    roles: tuple[tuple[str, str], ...] = ()
    part: str = ""
    parts: Keys = ()
    minimum: Keys = ()
    elastic: Keys = ()
    bounds: Bounds | None = None
    staged: tuple[tuple[Keys, Any], ...] = ()
    annotated: bool = False
    needed: tuple[Needed, ...] = ()
    below: bool = False


class Project(msgspec.Struct, frozen=True):
    """A project whose kinds of jobs are placed here.

    Attributes:
        name: as in names of files and roles.
        title: for people.
    """

    name: str
    title: str


class Foreign(msgspec.Struct, frozen=True):
    """What is particular to a kind of another project.

    Attributes:
        project: whose it is.
        deadline: to the seconds after which its own controller ends it; empty if it has none.
        phase: to words of its status that say how it goes, from the status; the first that has a meaning counts. Empty
            where conditions say it.
        phases: meanings of these words.
        selector: the label by which its pods name it.
        named: to the value of that label, from the object; its name if empty.
        direct: whether it is the controller of its pods itself.
        apart: labels that tell apart pods of one role that have the same index.
        index: the label with a pod's index in its role.
    """

    project: Project
    deadline: Keys = ()
    phase: tuple[Keys, ...] = ()
    phases: tuple[tuple[str, str], ...] = ()
    selector: str = ""
    named: Keys = ()
    direct: bool = True
    apart: Keys = ()
    index: str = ""
