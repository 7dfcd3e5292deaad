"""What is accepted although it is probably a mistake: names that nothing in the cluster has.

A quota for `gpu`, a request for `nvidia.com/gpus` or a label that no node carries breaks no rule, because such nodes
may come; but more often it is misspelt. Each finding is a `FieldWarning` that names the most similar name there is.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any, Final

from t9ksched.model.card_requests import UNCOUNTED
from t9ksched.model.errors import FieldWarning, child
from t9ksched.model.labels import LabelSelector, Requirement
from t9ksched.model.quantity import CARDS

_ALWAYS_THERE: Final = ("cpu", "memory", "ephemeral-storage", "pods", "storage", CARDS)
_FAMILIES: Final = ("hugepages-", "attachable-volumes-")
_ALIKE: Final = 0.6
_BEGINNING: Final = 3
"""The first letters of a name stand for it if there are so many at least."""
_WITHOUT_DOMAIN: Final = 0.9
"""How much the similarity of the parts behind the slash counts, beside that of the whole names."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a cluster knows.

    Attributes:
        resources: what nodes offer, the most widespread first; empty if there are no nodes.
        labels: label keys of nodes with their values; None for a key with too many values to be listed.
        profiles: resource shape profiles; None if they could not be read.
        quotas: what quotas of queues name; nodes that offer it may come.
    """

    resources: tuple[str, ...] = ()
    labels: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    profiles: tuple[str, ...] | None = None
    quotas: tuple[str, ...] = ()

    def and_quotas(self, named: Iterable[str]) -> "Vocabulary":
        """The same with what quotas of queues name."""
        return replace(self, quotas=tuple(named))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most alike; of equally similar ones the first. None if none is similar.

    One of which `name` is the beginning, or the part behind the slash, is more alike than any other. A name of a domain
    is compared as a whole with names that have none: `example.com/dcu` is no misspelt `cpu`.
    """
    best, found = (False, _ALIKE), None
    for one in known:
        tails = name.rpartition("/")[2], one.rpartition("/")[2]
        ratio = _similarity(name, one)
        if "/" in one or "/" not in name or tails[0] == tails[1]:
            ratio = max(ratio, _WITHOUT_DOMAIN * _similarity(*tails))
        written = name.lower() == tails[1].lower() or (len(name) >= _BEGINNING and one.lower().startswith(name.lower()))
        alike = written, ratio
        if alike > best or (found is None and alike == best):
            best, found = alike, one
    return found


def _similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


def odd_queue(spec: Mapping[str, Any], known: Vocabulary) -> list[FieldWarning]:
    """What is odd about a queue's spec, which is known to be valid."""
    found = []
    for name in (spec.get("quota") or {}).get("requests") or {}:
        if _is_strange(name, known):
            path = child("spec.quota.requests", name)
            found.append(_warning(path, f"no node has the resource {name!r}", nearest(name, known.resources)))
    if spec.get("nodeSelector"):
        for requirement in LabelSelector.parse(spec["nodeSelector"]).requirements:
            found += _odd_label("spec.nodeSelector", requirement, known)
    profile = spec.get("resourceShapeProfile")
    if profile and known.profiles is not None and profile not in known.profiles:
        text = f"there is no resource shape profile {profile!r}: it limits nothing"
        found.append(_warning("spec.resourceShapeProfile", text, nearest(profile, known.profiles)))
    return found


def odd_pods(spec: Mapping[str, Any], path: str, known: Vocabulary) -> list[FieldWarning]:
    """What is odd about a pod's spec, which stands at `path` and is known to be readable."""
    found, told = [], set()
    for place, name in _requests(spec, path):
        if name in told or name in UNCOUNTED or not _is_strange(name, known):
            continue
        told.add(name)
        near = nearest(name, known.resources)
        # A quota is no proof that the name is right: it may be misspelt there alike.
        if name not in known.quotas or near is not None:
            text = f"no node has the resource {name!r}"
            found.append(_warning(place, text, near or nearest(name, known.quotas)))
    for key, value in (spec.get("nodeSelector") or {}).items():
        found += _odd_label(child(f"{path}.nodeSelector", key), Requirement(key, "In", (str(value),)), known)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for at, term in enumerate(required.get("nodeSelectorTerms") or ()):
        for index, one in enumerate(term.get("matchExpressions") or ()):
            requirement = Requirement(one["key"], one["operator"], tuple(map(str, one.get("values") or ())))
            found += _odd_label(f"{terms}[{at}].matchExpressions[{index}]", requirement, known)
    return found


def _requests(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Where each resource is asked for, and its name."""
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            for kind in ("limits", "requests"):
                for name in ((container.get("resources") or {}).get(kind)) or {}:
                    yield child(f"{path}.{part}[{index}].resources.{kind}", name), name


def _is_strange(resource: str, known: Vocabulary) -> bool:
    if not known.resources or resource in _ALWAYS_THERE or resource.startswith(_FAMILIES):
        return False
    return resource not in known.resources


def _odd_label(path: str, wanted: Requirement, known: Vocabulary) -> Iterator[FieldWarning]:
    """A label that must be there and that no node has; a label that must not be there is never odd."""
    if not known.labels or wanted.operator in ("NotIn", "DoesNotExist"):
        return
    if wanted.key not in known.labels:
        yield _warning(path, f"no node has the label {wanted.key!r}", nearest(wanted.key, known.labels))
        return
    values = known.labels[wanted.key]
    if wanted.operator != "In" or values is None:
        return
    for value in wanted.values:
        if value not in values:
            text = f"no node has the label {wanted.key!r} with the value {value!r}"
            yield _warning(path, text, nearest(value, sorted(values)))


def _warning(path: str, text: str, near: str | None) -> FieldWarning:
    return FieldWarning(path, f"{text}; did you mean {near!r}?" if near else text, near)
