"""ClusterQueues of Kueue (`kueue.x-k8s.io`), with the LocalQueues that lead to them and the ResourceFlavors they name.

A ClusterQueue becomes a queue, or one for each flavor where a group of its resources has several (`flavors.py`). The
namespaces of its LocalQueues become its `namespaceSelector`, as far as its own selector admits them.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from t9ksched.importing.cohorts import Cohorts, groups_of
from t9ksched.importing.flavors import Offer, node_selector, offers
from t9ksched.importing.objects import Fields, Objects
from t9ksched.importing.parents import report_circles
from t9ksched.importing.priorities import classes
from t9ksched.importing.report import Json, Report
from t9ksched.importing.words import NO_PREEMPTION, NO_SHARES, NO_TREE
from t9ksched.model.errors import Invalid
from t9ksched.model.labels import LabelSelector
from t9ksched.model.names import QUEUE_LABEL
from t9ksched.model.quantity import from_units

_NAMESPACE: Final = "kubernetes.io/metadata.name"
_ORDERINGS: Final = {"StrictFIFO": "Strict", "BestEffortFIFO": "BestEffort"}
_STOPPED: Final = ("Hold", "HoldAndDrain")
_NONE: Final = {
    "flavorFungibility": "a queue has its nodes, and no order among kinds of nodes",
    "preemption": NO_PREEMPTION,
    "admissionChecks": "nothing else is asked before a job starts; hold and release keep a single job back",
    "admissionChecksStrategy": "nothing else is asked before a job starts; hold and release keep a single job back",
    "fairSharing": NO_SHARES,
    "admissionScope": "the order in a queue is by priority and age",
    "concurrentAdmissionPolicy": "a job starts once, and stays where it is",
}


def translate(objects: Objects, report: Report) -> None:
    """All ClusterQueues, with what they refer to, and the classes of priorities."""
    flavors = {fields.name: fields for fields in objects.of("ResourceFlavor")}
    queues = objects.of("ClusterQueue")
    groups = {fields.name: groups_of(fields) for fields in queues}
    cohorts = Cohorts(queues, objects.of("Cohort"), groups)
    doors: defaultdict[str, list[Fields]] = defaultdict(list)
    for door in objects.of("LocalQueue"):
        doors[door.text("clusterQueue")].append(door)
    made = {}
    for fields in queues:
        found = offers(fields, groups[fields.name], cohorts, flavors, report.choices)
        made[fields.name] = _queues(fields, found, flavors, doors[fields.name], report)
        fields.rest()
    for name, those in doors.items():
        for door in those:
            _door(door, name, made.get(name))
    trees = {fields.name: fields.text("parentName") for fields in objects.of("Cohort")}
    report_circles(objects.of("Cohort"), "parentName", trees)
    for cohort in objects.of("Cohort"):
        parent = trees[cohort.name]
        # Kueue takes a cohort without an object for one that has nothing of its own.
        unread = f"no Cohort {parent} was read, so it is taken to have no amounts of its own"
        cohort.none("parentName", NO_TREE if parent in trees else unread)
        cohort.none("resourceGroups", f"what it has for all its queues bounds each of them; {NO_SHARES}")
        cohort.none("fairSharing", NO_SHARES)
        cohort.rest()
    for flavor in flavors.values():
        _flavor(flavor)
    classes([*objects.of("WorkloadPriorityClass"), *objects.of("PriorityClass")], report)


def _queues(
    fields: Fields, found: Sequence[Offer], flavors: dict[str, Fields], doors: Sequence[Fields], report: Report
) -> list[str]:
    """The names of the queues that a ClusterQueue becomes."""
    common: Json = {"ordering": "BestEffort"}
    if (strategy := fields.text("queueingStrategy")) in _ORDERINGS:
        common["ordering"] = _ORDERINGS[strategy]
        fields.told("spec.queueingStrategy", "same", f"ordering: {common['ordering']}", strategy)
    elif strategy:
        fields.fault("spec.queueingStrategy", f"{strategy!r} is unknown: use one of {', '.join(_ORDERINGS)}")
    stop = fields.text("stopPolicy")
    if stop in _STOPPED:
        common["closed"] = True
        here = "closed: true" if stop == "Hold" else "closed: true; what runs goes on, nothing is evicted"
        fields.told("spec.stopPolicy", "same" if stop == "Hold" else "changed", here, stop)
    elif stop:
        fields.told("spec.stopPolicy", "same", "the queue is open", stop)
    for key in ("cohort", "cohortName"):
        fields.none(key, NO_SHARES)
    for key, here in _NONE.items():
        fields.none(key, here)
    if (namespaces := _namespaces(fields, doors)) is not None:
        common["namespaceSelector"] = namespaces
    names = []
    for offer in found:
        spec = dict(common)
        if offer.quota:
            spec["quota"] = {"requests": {name: from_units(name, units) for name, units in offer.quota.items()}}
        if (nodes := node_selector(fields, offer, flavors, first=offer is found[0])) is not None:
            spec["nodeSelector"] = nodes
        if name := report.queue(f"{fields.name}{offer.suffix}", spec, fields.origin):
            names.append(name)
    return names


def _namespaces(fields: Fields, doors: Sequence[Fields]) -> Json | None:
    """The selector of the namespaces that may use the queue; None for none."""
    selector = fields.spec.get("namespaceSelector")
    open_doors = sorted({door.namespace for door in doors if door.text("stopPolicy") not in _STOPPED})
    if selector is None or not open_doors:
        why = "no namespaceSelector" if selector is None else "no LocalQueue that is open leads to it"
        here = f"{why}: nobody may use it yet; t9ksched queues members NAME"
        fields.told("spec.namespaceSelector", "changed", here, selector)
        return None
    try:
        LabelSelector.parse(selector, "spec.namespaceSelector")
    except Invalid as error:
        for fault in error.errors:
            fields.fault(fault.path, fault.message)
        return None
    expressions: list[Any] = [
        *(selector.get("matchExpressions") or ()),
        {"key": _NAMESPACE, "operator": "In", "values": open_doors},
    ]
    here = f"namespaceSelector: of these the namespaces with a LocalQueue: {', '.join(open_doors)}"
    fields.told("spec.namespaceSelector", "same", here, selector)
    labels = selector.get("matchLabels")
    return {**({"matchLabels": dict(labels)} if labels else {}), "matchExpressions": expressions}


def _door(door: Fields, queue: str, made: list[str] | None) -> None:
    if made:
        here = f"label {QUEUE_LABEL}: {' or '.join(made)} on jobs of namespace {door.namespace}"
        door.told("spec.clusterQueue", "same" if len(made) == 1 else "changed", here, queue)
    else:
        door.told("spec.clusterQueue", "none", "no such ClusterQueue was read", queue)
    if (stop := door.text("stopPolicy")) in _STOPPED:
        door.told("spec.stopPolicy", "changed", "its namespace is left out of the namespaceSelector", stop)
    elif stop:
        door.told("spec.stopPolicy", "same", "its namespace is admitted", stop)
    door.none("fairSharing", NO_SHARES)
    door.rest()


def _flavor(flavor: Fields) -> None:
    if labels := flavor.mapping("nodeLabels"):
        flavor.told("spec.nodeLabels", "same", "nodeSelector of the queues that name it", dict(labels))
    flavor.none("nodeTaints", "the taints of the nodes themselves count, and the tolerations of pods")
    flavor.none("tolerations", "queues add no tolerations to pods: write them into the jobs")
    flavor.none("topologyName", "a job names its domain: topologyPolicy and the annotation topology-key")
    flavor.rest()
