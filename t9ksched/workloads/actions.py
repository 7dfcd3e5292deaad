"""What a workload's controller works with and what it decides: plain values, carried out elsewhere.

`Expansion` is what should exist, `Children` what does, `Actions` what to do about the difference. Actions are carried
out in one order: status, updates, deletions, creations, events. The status is written first because it records what has
been counted: after a crash at any step the next reconciliation leads to the same end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from t9ksched.workloads.answers import Activity

if TYPE_CHECKING:
    from t9ksched.workloads.addons import Usable

Object = dict[str, Any]
IDLE_AFTER: Final = timedelta(hours=1)
"""Without use for so long a workload is idle."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The objects a workload consists of, ready to be created."""

    podgroup: Object | None = None
    pods: tuple[Object, ...] = ()
    services: tuple[Object, ...] = ()
    configmaps: tuple[Object, ...] = ()
    secrets: tuple[Object, ...] = ()
    boards: tuple[Object, ...] = ()
    jobs: tuple[Object, ...] = ()
    makers: tuple[Object, ...] = ()
    """Objects of which other controllers make pods: Deployments, VirtualMachines."""

    @property
    def companions(self) -> tuple[Object, ...]:
        """Everything but the pods, in the order of creation: pods need these to be there."""
        group = (self.podgroup,) if self.podgroup else ()
        others = (*self.boards, *self.jobs, *self.makers)
        return (*group, *self.services, *self.configmaps, *self.secrets, *others)


@dataclass(frozen=True, slots=True)
class Children:
    """The objects a workload's controller owns now, as the API server shows them; and what its pod answered when it was
    asked whether anybody uses it, None if nobody asks it.
    """

    pods: tuple[Object, ...] = ()
    companions: tuple[Object, ...] = ()
    activity: Activity | None = None
    named: tuple[Object, ...] = ()
    """Objects of the namespace that it may name and does not own."""
    idle_after: timedelta = IDLE_AFTER
    """Without use for so long it is idle."""
    addons: Mapping[str, "Usable"] = field(default_factory=dict)
    """Which other projects its controller can use, by their names; one that is not here is not served."""

    @property
    def podgroup(self) -> Object | None:
        """The workload's PodGroup, if it exists."""
        return next((each for each in self.companions if each["kind"] == "PodGroup"), None)


NO_CHILDREN: Final = Children()


class Event(msgspec.Struct, frozen=True):
    """A line for people, shown with the workload."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


@dataclass(frozen=True, slots=True)
class Actions:
    """What to do, in this order.

    Attributes:
        status: the new status, None if it need not be written. If it cannot be written, nothing after it may be done.
        delete: objects to delete, as seen: only the very object (its UID) may go.
        create: objects to create; one that exists already with the same controller counts as created.
        events: written only after all other actions.
        again_in: seconds after which to reconcile again even without a change.
        update: objects to replace, whole, with the version that they were computed from. Done before deletions, so that
            a gang loses no member it still counts on, and before creations, so that pods find what they mount.
        tried: objects whose replacement is tried as a dry run before any update: what runs is not stopped for a change
            that the API server refuses.
    """

    status: Object | None = None
    delete: tuple[Object, ...] = ()
    create: tuple[Object, ...] = ()
    events: tuple[Event, ...] = ()
    again_in: float | None = None
    update: tuple[Object, ...] = ()
    tried: tuple[Object, ...] = ()

    def __bool__(self) -> bool:
        return self.status is not None or bool(self.update or self.delete or self.create)


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object's metadata, empty if it has none."""
    return obj.get("metadata") or {}


def name_of(obj: Mapping[str, Any]) -> str:
    """An object's name."""
    return str(metadata(obj).get("name", ""))


def uid_of(obj: Mapping[str, Any]) -> str:
    """An object's UID."""
    return str(metadata(obj).get("uid", ""))


def owned_by(obj: Mapping[str, Any], owner_uid: str) -> bool:
    """Whether the controller of `obj` is the object with that UID."""
    owners = metadata(obj).get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == owner_uid for owner in owners)


def key_of(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """What tells apart the objects of one namespace: API group, kind and name."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj["kind"]), name_of(obj)


def missing(wanted: tuple[Object, ...], present: tuple[Object, ...]) -> tuple[Object, ...]:
    """Those of `wanted` of whose kind and name nothing is present."""
    there = {key_of(each) for each in present}
    return tuple(each for each in wanted if key_of(each) not in there)
