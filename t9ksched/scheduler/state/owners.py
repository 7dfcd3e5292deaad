"""The objects that make pods: what they want now, and which of them is the root owner of a pod.

A pod of a Deployment is owned by a ReplicaSet, and that by the Deployment: the root owner is what a user made. Other
kinds are roots themselves; a Job of a CronJob too, for each Job is work of its own. Only objects whose pods are ours
are kept, each as the text of its spec, which is parsed when it is first needed.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import Invalid
from t9ksched.model.names import SCHEDULER_API, SCHEDULER_NAME
from t9ksched.model.ordered import OrderedSet
from t9ksched.model.pod import OwnerReference
from t9ksched.model.quantity import QuantityError
from t9ksched.scheduler.state.asks import NOTHING_ASKED, Asks, asks_of
from t9ksched.scheduler.state.objects import JobObject, nanoseconds
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.workloads.read import read
from t9ksched.workloads.registry import JOBS, OWNERS, ROWS

_REPLICATED: Final = frozenset(row.name for row in OWNERS)
_UNCOPIED: Final = _REPLICATED | {"Job"}
"""Kinds whose controllers do not copy the annotations of an object to its pods."""
_MOST_GONE: Final = 4096
"""How many deleted owners are remembered: their last pods are seen for a while."""
_MOST_LEVELS: Final = 8
"""The most owners above one another that are followed: users write the references, which may form a cycle."""
_BETWEEN: Final = "ReplicaSet"
"""The kind that another owner may stand above."""
_FOLLOWED: Final = frozenset(row.name for row in (*JOBS, *OWNERS))
_FOREIGN: Final = {
    (row.api_version, kind): row.name
    for row in JOBS
    if row.foreign is not None
    for kind in (row.resource.api_kind, row.name)
}
"""Names of the kinds of other projects, by version and kind."""
_OF_GROUP: Final = {(version.rpartition("/")[0], kind): name for (version, kind), name in reversed(_FOREIGN.items())}
"""The same by group and kind, of several versions the first."""
_MAKERS: Final = frozenset(row.name for row in ROWS if row.controlled or row.steps)
"""Kinds of jobs to which other jobs belong: trials to an experiment, runs and jobs of its steps to a WorkflowRun."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def is_followed(reference: OwnerReference) -> bool:
    """Whether objects of the kind that is referred to are meant to be read."""
    return reference.kind in _FOLLOWED


class Wanted(NamedTuple):
    """What an owner requests now, in pods and in units by resource; `needs` is the least it needs to start."""

    replicas: int
    amounts: Mapping[str, int]
    needs: Mapping[str, int]


class Owner(msgspec.Struct, eq=False):
    """An object that makes pods of ours."""

    uid: str
    api_version: str
    kind: str
    namespace: str
    name: str
    above: OwnerReference | None
    text: bytes
    """Its spec as JSON."""
    created: int = 0
    """Nanoseconds since 1970; 0 if it is not known."""
    asks: Asks = NOTHING_ASKED
    """What its annotations ask."""
    _wanted: Wanted | None = None
    _read: bool = False

    @property
    def reference(self) -> OwnerReference:
        """As objects below it refer to it."""
        return OwnerReference(self.api_version, self.kind, self.name, self.uid, True)

    @property
    def wanted(self) -> Wanted | None:
        """What it requests; None when its spec cannot be read."""
        if not self._read:
            self._read, self._wanted = True, self._look()
        return self._wanted

    def _look(self) -> Wanted | None:
        kind = "Deployment" if self.kind == _BETWEEN else self.kind  # the same spec, as far as it is read
        meta = {"name": self.name, "namespace": self.namespace}
        obj = {"apiVersion": self.api_version, "kind": kind, "metadata": meta, "spec": msgspec.json.decode(self.text)}
        try:
            found = read(obj)
        except (Invalid, QuantityError):
            return None
        if not found.templates:
            return None  # its pods are made by an object below it
        return Wanted(found.replicas, found.totals, found.min_totals)


class Root(NamedTuple):
    """The root owner of a group: what a user made. `owner` is its object; None if it is not known, or the group itself
    is the root. `certain` is False while the object of a followed kind has not been seen yet.
    """

    uid: str
    api_version: str
    kind: str
    namespace: str
    name: str
    owner: Owner | None = None
    certain: bool = True

    @property
    def title(self) -> str:
        """For people: `Kind/name`."""
        return f"{self.kind}/{self.name}"


class Owners:
    """The owners by UID. `on_change` is called with the UID of one that appeared, wants something else or is gone."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._known: dict[str, Owner] = {}
        self._below: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._works: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Jobs of their own that belong to another job, by its UID."""
        self._gone: OrderedSet[str] = OrderedSet()
        self.unread: set[str] = set()
        """Followed kinds of which nothing was read yet, for want of the right."""
        self._refused: Callable[[str], bool] = lambda _: False
        self.owner_of_pod: Callable[[str], OwnerReference | None] = lambda _: None
        """The owner of the pod of that UID."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def ask_rights_of(self, refused: Callable[[str], bool]) -> None:
        """Which kinds may not be read now, by their names, is known there."""
        self._refused = refused

    def shows(self, reference: OwnerReference) -> bool:
        """Whether objects of the kind that is referred to are read, so that one that is not known is not there."""
        return is_followed(reference) and reference.kind not in self.unread

    def upsert(self, obj: JobObject, kind: Resource, *, ours: bool) -> None:
        """An object appeared or changed."""
        meta = obj.metadata
        if not ours:
            self.remove(meta.uid)
            return
        text = _encode(obj.spec)
        asks = asks_of(meta.annotations)
        known = self._known.get(meta.uid)
        above = meta.controller
        if known is not None:
            was = (known.kind, known.text, known.asks, known.above)
            if was == (kind.kind, text, asks, above):
                return
        if known is not None and known.above != above:
            self._not_below(known)
        owner = Owner(
            meta.uid,
            kind.api_version,
            kind.kind,
            meta.namespace,
            meta.name,
            above,
            text,
            nanoseconds(meta.creation_timestamp),
            asks,
        )
        self._known[meta.uid] = owner
        if above is not None and (owner.kind == _BETWEEN or _foreign(above)):
            self._below[above.uid][meta.uid] = None
        elif above is not None and above.kind in _MAKERS:
            self._works[above.uid][meta.uid] = None
        self._on_change(meta.uid)

    def upsert_replicated(self, obj: JobObject, kind: Resource) -> None:
        """The same for a kind that is followed as an owner: its pods are ours if their template says so."""
        spec = (obj.spec.get("template") or {}).get("spec") or {}
        self.upsert(obj, kind, ours=spec.get("schedulerName") == SCHEDULER_NAME)

    def upsert_link(self, obj: JobObject, kind: Resource) -> None:
        """The same for an object that stands between a workload and its pods: who its own owner is counts alone."""
        self.upsert(structs.replace(obj, spec={}), kind, ours=obj.metadata.controller is not None)

    def remove_link(self, uid: str) -> None:
        """Such an object is gone."""
        self.remove(uid)

    def remove(self, uid: str) -> None:
        """An object is gone."""
        owner = self._known.pop(uid, None)
        if owner is not None:
            self._gone.add(uid)
            for oldest in list(islice(self._gone, max(0, len(self._gone) - _MOST_GONE))):
                self._gone.discard(oldest)
            self._not_below(owner)
            self._on_change(uid)

    def _not_below(self, owner: Owner) -> None:
        """The object is not below another any more."""
        if owner.above is None:
            return
        for kept in (self._below, self._works):
            if (below := kept.get(owner.above.uid)) is not None:
                below.pop(owner.uid, None)
                if not below:
                    del kept[owner.above.uid]

    def is_read(self, name: str) -> bool:
        """Whether objects of the kind of that name are read."""
        return name not in self.unread and not self._refused(name)

    def is_foreign(self, reference: OwnerReference) -> bool:
        """Whether an object of a kind of another project is referred to, which is read."""
        name = _foreign(reference)
        return bool(name) and self.is_read(name)

    def is_expected(self, reference: OwnerReference) -> bool:
        """Whether the object that is referred to will be seen, if it is there."""
        if _foreign(reference):
            return self.is_foreign(reference)  # what is left of one that is gone does not start either
        return reference.uid not in self._gone and self.shows(reference)

    def above(self, uid: str) -> OwnerReference | None:
        """The controller of a known object."""
        owner = self._known.get(uid)
        return owner.above if owner is not None else None

    def below(self, uid: str) -> tuple[str, ...]:
        """UIDs of the known objects that have this one above them."""
        return tuple(self._below.get(uid, ()))

    def top(self, reference: OwnerReference) -> OwnerReference:
        """The topmost job of another project above an owner; the owner itself if there is none."""
        here, found = reference, reference
        for _ in range(_MOST_LEVELS):
            owner = self._known.get(here.uid)
            if self.is_foreign(here):
                name = owner.kind if owner is not None else _foreign(here)
                found = here if here.kind == name else structs.replace(here, kind=name)
            above = owner.above if owner is not None else self.owner_of_pod(here.uid)
            if above is None:
                break
            here = above
        return found

    def controllers(self, root: str) -> tuple[str, ...]:
        """UIDs of the objects that own pods of this root directly."""
        return (root, *self._below.get(root, ()))

    def roots(self, controller: str) -> tuple[str, ...]:
        """UIDs of the objects that have this one among their `controllers`."""
        above = self.above(controller)
        if above is not None and controller in self._below.get(above.uid, ()):
            return controller, above.uid
        return (controller,)

    def works(self, uid: str) -> tuple[str, ...]:
        """UIDs of jobs that belong to that one, such as the trials of an experiment, each a job of its own, and of
        those below them.
        """
        level, found = [uid], dict[str, None]()
        for _ in range(_MOST_LEVELS):
            level = [work for one in level for work in self._works.get(one, ()) if work not in found]
            found |= dict.fromkeys(level)
        return tuple(found)

    def maker(self, reference: OwnerReference) -> OwnerReference | None:
        """The topmost job to which a job of its own belongs: whoever submitted that submitted both."""
        here, found = reference, None
        for _ in range(_MOST_LEVELS):
            above = self.above(here.uid)
            if above is None or above.kind not in _MAKERS:
                break
            here = found = above
        return found

    def root_uid(self, reference: OwnerReference) -> str:
        """The UID of the root above an owner."""
        owner = self._known.get(reference.uid)
        if owner is not None and owner.kind == _BETWEEN and owner.above is not None:
            reference = owner.above
        return self.top(reference).uid

    def leads_to(self, reference: OwnerReference, uid: str) -> bool:
        """Whether the object of that UID is the owner that is referred to, or stands above it."""
        for _ in range(_MOST_LEVELS):
            if reference.uid == uid:
                return True
            owner = self._known.get(reference.uid)
            above = owner.above if owner is not None else self.owner_of_pod(reference.uid)
            if above is None:
                return False
            reference = above
        return False

    def root(self, gang: GangRecord) -> Root:
        """The root owner of a group; the group itself if it has no owner."""
        reference, space = gang.owner, gang.namespace
        if reference is None:
            api_version, kind = ("v1", "Pod") if gang.virtual else (SCHEDULER_API, "PodGroup")
            return Root(gang.uid, api_version, kind, space, gang.name)
        owner = self._known.get(reference.uid)
        if owner is not None and owner.kind == _BETWEEN and owner.above is not None:
            reference = owner.above
            owner = self._known.get(reference.uid)
        certain = owner is not None or not is_followed(reference)
        return Root(reference.uid, reference.api_version, reference.kind, space, reference.name, owner, certain)

    def awaited(self, gang: GangRecord) -> bool:
        """Whether the user's object above the group has not been seen yet, so that its annotations are unknown: the
        watches may bring pods and the objects above them in any order.
        """
        root = self.root(gang)
        return not root.certain and root.kind in _UNCOPIED and self.is_read(root.kind) and not self.gone(root.uid)

    def gone(self, uid: str) -> bool:
        """Whether an owner was there and is gone."""
        return uid in self._gone

    def wants(self, reference: OwnerReference, living: int) -> bool:
        """Whether an owner wants another pod beside so many present ones; True for one that was never seen.

        One that was seen and is gone wants none.
        """
        if reference.uid in self._gone:
            return False
        owner = self._known.get(reference.uid)
        if owner is None or (owner.kind not in _REPLICATED) or owner.wanted is None:
            return True
        return living < owner.wanted.replicas

    def named(self, namespace: str, kind: str, name: str) -> Owner | None:
        """The object of that name, the kind in any case. A search over all objects, for explanations only."""
        wanted = (namespace, kind.lower(), name)
        known = self._known.values()
        return next((one for one in known if (one.namespace, one.kind.lower(), one.name) == wanted), None)

    def titled(self, uid: str) -> Owner | None:
        """The object of that UID, if it is followed."""
        return self._known.get(uid)


def _foreign(reference: OwnerReference) -> str:
    """The name of the kind that is referred to, if it is of another project; else empty."""
    version, kind = reference.api_version, reference.kind
    return _FOREIGN.get((version, kind)) or _OF_GROUP.get((version.rpartition("/")[0], kind), "")


def exceeds(amounts: Mapping[str, Any], limits: Mapping[str, Any]) -> bool:
    """Whether any amount is above its limit; a resource without a limit has the limit 0."""
    return any(amount > limits.get(name, 0) for name, amount in amounts.items())


def alike(amounts: Mapping[str, int], count: int, others: Mapping[str, int], limit: int) -> bool:
    """Whether one replica asks for the same as one did at acceptance."""
    return all(amounts.get(name, 0) * limit == others.get(name, 0) * count for name in {**amounts, **others})
