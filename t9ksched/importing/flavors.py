"""What a ClusterQueue offers: quotas by group of resources and flavor, and the nodes of flavors.

One of our queues has one quota and one selector of nodes. Where one group has several flavors a ClusterQueue becomes a
queue for each of them, unless they are to stay together; flavors of further such groups are added up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from t9ksched.importing.cohorts import Cohorts, Group
from t9ksched.importing.objects import Fields
from t9ksched.importing.report import Choices, Json, Outcome
from t9ksched.importing.words import NO_SHARES
from t9ksched.model.errors import child
from t9ksched.model.quantity import from_units
from t9ksched.model.resources import is_card_resource


@dataclass(frozen=True, slots=True)
class Offer:
    """One queue to be: the end of its name, its quota in units, and the flavors of each group whose nodes it has."""

    suffix: str
    quota: dict[str, int]
    flavors: tuple[tuple[str, ...], ...] = field(default=())


_PATH: Final = "spec.resourceGroups"


def offers(
    fields: Fields, groups: Sequence[Group], cohorts: Cohorts, flavors: Mapping[str, Fields], choices: Choices
) -> list[Offer]:
    """The queues that a ClusterQueue becomes."""
    lacking = sorted({name for group in groups for name in group if name not in flavors})
    for name in lacking:
        text = f"the ResourceFlavor {name!r} was not read, and without it the queue had all nodes: add its file"
        fields.fault(_PATH, text)
    many = [index for index, group in enumerate(groups) if len(group) > 1]
    split = None
    if many and not choices.together:
        split = next((index for index in many if _has_cards(groups[index])), many[0])
    _told(fields, groups, split, cohorts, choices)
    if split is None:
        return [Offer("", _sum(fields, groups, cohorts, choices), tuple(tuple(group) for group in groups))]
    found = []
    for name in groups[split]:
        own = [({name: group[name]} if index == split else group) for index, group in enumerate(groups)]
        found.append(Offer(f"-{name}", _sum(fields, own, cohorts, choices), tuple(tuple(group) for group in own)))
    return found


def _has_cards(group: Group) -> bool:
    return any(is_card_resource(resource) for amounts in group.values() for resource in amounts)


def _sum(fields: Fields, groups: Sequence[Group], cohorts: Cohorts, choices: Choices) -> dict[str, int]:
    """The quota: for each resource the sum over the flavors."""
    found: dict[str, int] = {}
    for group in groups:
        for flavor, resources in group.items():
            for resource, amounts in resources.items():
                most = amounts.nominal if choices.own else cohorts.most(fields.name, flavor, resource, amounts)
                found[resource] = found.get(resource, 0) + most
    return dict(sorted(found.items()))


def _told(fields: Fields, groups: Sequence[Group], split: int | None, cohorts: Cohorts, choices: Choices) -> None:
    """Say of each amount what became of it."""
    lends = cohorts.root(fields.name) is not None
    for index, group in enumerate(groups):
        together = len(group) > 1 and index != split
        for flavor, resources in group.items():
            for resource, amounts in resources.items():
                here = child("quota.requests", resource)
                if index == split:
                    here += f" of the queue {fields.name}-{flavor}"
                if together:
                    here += ", the sum over all flavors: no flavor has a quota of its own"
                elif split is not None and index != split:
                    here += ", of each of the queues: their quotas add up to more"
                outcome: Outcome = "changed" if together or (split is not None and index != split) else "same"
                if lends and not choices.own and amounts.borrowing is None:
                    outcome, here = "changed", f"{here}, with all that its cohort may lend"
                fields.told(f"{amounts.path}.nominalQuota", outcome, here, from_units(resource, amounts.nominal))
                if amounts.borrowing is not None:
                    added = not choices.own
                    text = (
                        f"added to {child('quota.requests', resource)}, as the most it may hold" if added else NO_SHARES
                    )
                    fields.told(
                        f"{amounts.path}.borrowingLimit", "changed" if added else "none", text, amounts.borrowing
                    )
                if amounts.lending is not None:
                    fields.told(
                        f"{amounts.path}.lendingLimit", "none", NO_SHARES, from_units(resource, amounts.lending)
                    )


def node_selector(fields: Fields, offer: Offer, flavors: Mapping[str, Fields], *, first: bool) -> Json | None:
    """The nodes of all the flavors of an offer: of each group those of one of its flavors. With the `first` offer of a
    ClusterQueue it is said what that means.
    """
    labels: dict[str, str] = {}
    choice: dict[str, list[str]] = {}
    for group in offer.flavors:
        sets = [dict(flavors[name].mapping("nodeLabels")) for name in group if name in flavors]
        common = {
            key: value for key, value in (sets[0] if sets else {}).items() if all(one.get(key) == value for one in sets)
        }
        for key, value in common.items():
            if labels.setdefault(key, value) != value:
                text = (
                    f"the flavors ask for {key}={labels[key]} and {key}={value}, and no node has both: mend nodeLabels"
                )
                fields.fault(_PATH, text)
        rests = [{key: value for key, value in one.items() if key not in common} for one in sets]
        keys = {key for rest in rests for key in rest}
        if len(keys) == 1 and all(rests):
            (key,) = keys
            choice[key] = sorted({rest[key] for rest in rests})
        elif any(rests):
            here = "nodeSelector: the labels that all flavors of the group have; more nodes than before may be used"
            fields.told(f"{_PATH}.flavors", "changed", here, list(group))
    if len(offer.flavors) > 1 and (labels or choice) and first:
        here = "nodeSelector: all pods of the queue are placed on these nodes, also those that ask for less"
        fields.told(f"{_PATH}.coveredResources", "changed", here, sorted(labels | choice))
    found: Json = {}
    if labels:
        found["matchLabels"] = labels
    if choice:
        found["matchExpressions"] = [
            {"key": key, "operator": "In", "values": values} for key, values in sorted(choice.items())
        ]
    return found or None
