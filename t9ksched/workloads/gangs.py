"""The gangs of an object that others turn into pods, as its `GangForm` reads it; and which of them a pod is in. Pure.

Only pods that name this scheduler are members: what another scheduler places is not waited for.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from t9ksched.model.names import DEFAULT_QUEUE, GANG_ANNOTATION, QUEUE_LABEL, SCHEDULER_NAME
from t9ksched.workloads.fields import Field
from t9ksched.workloads.gangform import GangForm, Groups, Keys
from t9ksched.workloads.kind import Kind

_LARGEST: Final = 1_000_000
Labelled = tuple[Mapping[str, str] | None, Mapping[str, str] | None]
"""Labels and annotations of an object."""


class Counted(msgspec.Struct, frozen=True):
    """One group of like pods: its role, how many it has now and at least, where its template is."""

    role: str
    replicas: int
    least: int
    template: Field

    @property
    def ours(self) -> bool:
        """Whether its pods are placed here."""
        spec = at(self.template.value, ("spec",))
        return isinstance(spec, Mapping) and spec.get("schedulerName") == SCHEDULER_NAME


class ForeignGang(msgspec.Struct, frozen=True):
    """A gang of an object.

    Attributes:
        part: tells it apart from other gangs of the object; empty where there is but one.
        minimum: how many members start together.
        roles: how many of each role.
        fault: why nothing of it can start, as a sentence; empty where it can.
    """

    part: str
    minimum: int
    roles: tuple[tuple[str, int], ...]
    fault: str = ""


def at(value: Any, keys: Keys) -> Any:
    """The value at these keys; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def counted(form: GangForm, root: Field) -> list[Counted]:
    """Every group of an object, those without pods too; what is wrong with their numbers is noted as faults."""
    return [one for groups in form.groups for one in _of(form, groups, root)]


def _of(form: GangForm, groups: Groups, root: Field) -> Iterator[Counted]:
    for role, entry in _entries(groups, root.at(*groups.path)):
        count = max(0, entry.at(*groups.replicas).whole(groups.default) + groups.added)
        elastic = not form.elastic or at(root.value, form.elastic) is True
        least = count
        if groups.least:
            named = entry.at(*groups.least).whole(0)
            count = max(count, named)
            least = named if elastic else count
        most = count
        if form.bounds is not None and role == form.bounds.role:
            least = min(root.at(*form.bounds.path).whole(least), most)
        each = entry.at(*groups.times).whole(1, low=1) if groups.times else 1
        if groups.job is not None:
            each = _pods_of_job(entry.at(*groups.job))
        if groups.off and entry.at(*groups.off).flag():
            count = least = 0
        yield Counted(role, count * each, least * each, _template(groups, entry))


def _entries(groups: Groups, place: Field) -> Iterator[tuple[str, Field]]:
    if groups.form == "one":
        if place.present:
            yield groups.name, place
    elif groups.form == "mapping":
        for key, entry in place.entries():
            if entry.present:
                yield key.lower(), entry
    else:
        for entry in place.items():
            yield entry[groups.name].text().lower(), entry


def _template(groups: Groups, entry: Field) -> Field:
    places = [entry.at(*keys) for keys in groups.template]
    return next((place for place in places if place.present), places[-1])


def _pods_of_job(spec: Field) -> int:
    """How many pods a batch Job has at once: `parallelism`, and no more than its completions."""
    parallelism = spec["parallelism"].whole(1)
    return min(parallelism, spec["completions"].whole(parallelism)) if spec["completions"].present else parallelism


def asks_for_gang(form: GangForm, annotations: Mapping[str, str] | None) -> bool:
    """Whether the pods of an object with these annotations are a gang."""
    if form.below:
        return False
    return not form.annotated or str((annotations or {}).get(GANG_ANNOTATION, "")).lower() == "true"


def gangs_of(kind: Kind, obj: Mapping[str, Any], *, title: str) -> list[ForeignGang]:
    """The gangs of an object. Of one whose pods are told apart by a label only the first is told: the others are like
    it. Empty if none of its pods is placed here.
    """
    form = kind.gang
    assert form is not None
    root = Field(obj)
    mine = [one for one in counted(form, root) if one.ours and one.replicas]
    if not mine:
        return []
    fault = next((_lack(title, obj, form, place) for place in range(len(form.needed)) if _lacks(obj, form, place)), "")
    if root.faults:
        fault = f"{title} cannot be read: {root.faults[0]}"
    least = {
        role: sum(one.least for one in mine if one.role == role) for role in dict.fromkeys(one.role for one in mine)
    }
    if staged(form, obj):
        return [ForeignGang(role, max(1, count), _named(((role, count),)), fault) for role, count in least.items()]
    roles, total = _named(least.items()), sum(least.values())
    named = at(obj, form.minimum) if form.minimum else None
    if isinstance(named, int) and not isinstance(named, bool) and 0 < named <= _LARGEST:
        minimum = min(named, sum(one.replicas for one in mine))  # one that is larger than all could never be there
        return [ForeignGang("", minimum, roles if minimum == total else (), fault)]
    return [ForeignGang("", max(1, total), roles, fault)]


def staged(form: GangForm, obj: Mapping[str, Any]) -> bool:
    """Whether groups of an object's pods are made one after the other, each when the one before is ready."""
    if any(at(obj, path) == value for path, value in form.staged):
        return True
    for groups in form.groups:
        entries = at(obj, groups.path) if groups.after else None
        if isinstance(entries, list) and any(at(entry, groups.after) for entry in entries):
            return True
    return False


def place_of(form: GangForm, obj: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str]:
    """Part and role of a pod of an object, by its labels."""
    role = role_of(form, labels)
    part = labels.get(form.part, "") if form.part else ""
    if staged(form, obj):
        return (f"{part}.{role}" if part else role), role
    return part, role


def role_of(form: GangForm, labels: Mapping[str, str]) -> str:
    """The role of a pod by its labels; of a kind with one group the role of that group."""
    if not form.role:
        return form.groups[0].name if form.groups and form.groups[0].form == "one" else ""
    text = labels.get(form.role, "").lower()
    known = dict(form.roles)
    return known.get(text, known.get("", text))


def like_part(gangs: list[ForeignGang], part: str) -> ForeignGang | None:
    """Of an object's gangs the one for that part: where labels tell them apart, all of one stage are alike."""
    stage = part.rpartition(".")[2]
    return next((one for one in gangs if one.part in (part, stage)), None) or next(
        (one for one in gangs if not one.part), None
    )


def queue_named(metadata: Labelled) -> str:
    """The queue that an object names itself; empty if it names none."""
    named = (source.get(QUEUE_LABEL) for source in metadata if isinstance(source, Mapping))
    return next((str(queue) for queue in named if queue), "")


def queue_asked(kind: Kind, metadata: Labelled, spec: Mapping[str, Any]) -> str:
    """The queue that an object names, by label or annotation, else by a label of its pods."""
    if queue := queue_named(metadata):
        return queue
    if kind.gang is not None:
        for one in counted(kind.gang, Field({"spec": spec})):
            labels = at(one.template.value, ("metadata", "labels"))
            if one.ours and isinstance(labels, Mapping) and labels.get(QUEUE_LABEL):
                return str(labels[QUEUE_LABEL])
    return DEFAULT_QUEUE


def is_ours(kind: Kind, metadata: Labelled, spec: Mapping[str, Any]) -> bool:
    """Whether pods of an object are placed here, as far as the object itself says: of one that has no templates of
    pods, whether it names a queue.
    """
    form = kind.gang
    if form is None:
        return False
    if not form.groups:
        return bool(queue_named(metadata))
    return any(one.ours for one in counted(form, Field({"spec": spec})))


def _named(roles: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """The roles that have a name and a minimum."""
    return tuple((role, count) for role, count in roles if role and count)


def _lacks(obj: Mapping[str, Any], form: GangForm, place: int) -> bool:
    needed = form.needed[place]
    return bool(at(obj, needed.path) != needed.value)


def _lack(title: str, obj: Mapping[str, Any], form: GangForm, place: int) -> str:
    needed = form.needed[place]
    said = at(obj, needed.path)
    told = f"is {said}" if said is not None else "is missing"
    return f"{title} asks for a gang, but its {'.'.join(needed.path)} {told}, not {needed.value}: {needed.why}"
