"""Cohorts of Kueue: trees of queues that lend to each other, and the most that each of them may hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from t9ksched.importing.objects import Fields
from t9ksched.importing.parents import ancestors


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of one resource of one flavor, in units; `path` is where it stands."""

    nominal: int
    borrowing: int | None
    lending: int | None
    path: str


Group = dict[str, dict[str, Amounts]]
"""One group of resources: amounts by flavor and resource."""


def groups_of(fields: Fields) -> list[Group]:
    """The groups of resources of a ClusterQueue or Cohort."""
    found: list[Group] = []
    for path, group in fields.items(fields.spec, "resourceGroups", "spec"):
        flavors: Group = {}
        for place, flavor in fields.items(group, "flavors", path):
            name = flavor.get("name")
            if not isinstance(name, str) or not name:
                fields.fault(f"{place}.name", "is missing: a flavor has a name")
                continue
            amounts = flavors.setdefault(name, {})
            for spot, resource in fields.items(flavor, "resources", place):
                if not isinstance(resource.get("name"), str):
                    fields.fault(f"{spot}.name", "is missing: a resource has a name")
                elif (found_amounts := _amounts(fields, resource, spot)) is not None:
                    amounts[resource["name"]] = found_amounts
        found.append(flavors)
    return found


def _amounts(fields: Fields, resource: Mapping[str, object], path: str) -> Amounts | None:
    values = []
    for key in ("nominalQuota", "borrowingLimit", "lendingLimit"):
        value = resource.get(key)
        if value is None and key == "nominalQuota":
            fields.fault(f"{path}.{key}", "is missing: each resource of a flavor has a quota")
            return None
        values.append(None if value is None else fields.units(str(resource["name"]), value, f"{path}.{key}"))
    nominal, borrowing, lending = values
    return None if nominal is None else Amounts(nominal, borrowing, lending, path)


class Cohorts:
    """Which queues lend to each other. Limits of cohorts inside a tree are not counted: what it gives is a bound."""

    def __init__(self, queues: Sequence[Fields], cohorts: Sequence[Fields], groups: Mapping[str, list[Group]]) -> None:
        self._groups = groups
        self._of = {fields.name: fields.text("cohortName") or fields.text("cohort") for fields in queues}
        self._parents = {fields.name: fields.text("parentName") for fields in cohorts}
        self._pools = {fields.name: groups_of(fields) for fields in cohorts}

    def root(self, queue: str) -> str | None:
        """The name of the tree that a queue belongs to, None for none."""
        name = self._of.get(queue) or ""
        return self._top(name) if name else None

    def _top(self, cohort: str) -> str:
        return [cohort, *ancestors(cohort, self._parents)][-1]

    def most(self, queue: str, flavor: str, resource: str, own: Amounts) -> int:
        """The most that a queue may hold of a resource of a flavor: its own and what it may borrow."""
        root = self.root(queue)
        if root is None:
            return own.nominal
        lent = sum(
            amounts.nominal if amounts.lending is None else min(amounts.nominal, amounts.lending)
            for other in self._of
            if other != queue and self.root(other) == root
            for amounts in _those(self._groups.get(other, ()), flavor, resource)
        )
        lent += sum(
            amounts.nominal
            for name, pool in self._pools.items()
            if self._top(name) == root
            for amounts in _those(pool, flavor, resource)
        )
        return own.nominal + (lent if own.borrowing is None else min(lent, own.borrowing))


def _those(groups: Sequence[Group], flavor: str, resource: str) -> list[Amounts]:
    return [group[flavor][resource] for group in groups if resource in group.get(flavor, {})]
