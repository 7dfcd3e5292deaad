"""The auditor: checks that the cluster's own objects are consistent.

It takes nodes and pods as Kubernetes has them and reports any card given twice, cards that are not there or not as many
as asked for, nodes charged beyond what they have, pods on nodes that do not exist, and gangs of which only a part has a
place. It decides nothing and, on purpose, shares no code with what it audits: amounts, effective requests and
annotations are read here anew, from the documents.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import msgspec

from t9ksched.devcluster.audit.parts import NodeParts, PodParts, read_parts
from t9ksched.devcluster.audit.shares import OF_EACH_CARD, asks_for_parts

Object = dict[str, Any]

_GIVEN: Final = "devcluster.tensorstack.dev/cards-container-"
_ASKED: Final = "scheduler.tensorstack.dev/gpu-index-container-"
_CARD_MODE: Final = "scheduler.tensorstack.dev/card-mode"
_GROUP: Final = "scheduler.tensorstack.dev/group-name"
_ROLE: Final = "scheduler.tensorstack.dev/role"
_ENDED: Final = ("Succeeded", "Failed")
_TURNED_AWAY: Final = re.compile(r"OutOf\w.*|UnexpectedAdmissionError|NodeAffinity|NodePorts|TaintToleration")
_ACCELERATOR: Final = re.compile(
    r".+/(\w*gpu|npu|mlu|dcu\w*|gcu|xpu|tpu|ipu|hpu|gaudi|neuron|accelerator|Ascend\w+|i915|xe)"
)
_AMOUNT: Final = re.compile(r"([+-]?[0-9.]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?")
_MOST: Final = Fraction(2**63 - 1)
_SCALE: Final = {
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", 1)},
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


class Finding(msgspec.Struct, frozen=True, order=True):
    """One inconsistency.

    Attributes:
        kind: `CardGivenTwice`, `CardOvershared`, `CardOutOfRange`, `CardCountMismatch`, `CardsUnreadable`,
            `CardsSwapped`, `OverAllocatable` or `NodeMissing`.
        node: where.
        pods: `namespace/name` of the pods concerned, sorted.
        detail: for people, with the numbers.
    """

    kind: str
    node: str
    pods: tuple[str, ...]
    detail: str


class PartialGang(msgspec.Struct, frozen=True, order=True):
    """A group of which only a part of the minimum has places, and never had all of them."""

    group: str
    placed: int
    minimum: int
    missing_roles: tuple[str, ...] = ()

    def __str__(self) -> str:
        lacking = f", too few of role {', '.join(self.missing_roles)}" if self.missing_roles else ""
        return f"PartialGang {self.group}: {self.placed} of {self.minimum} placed{lacking}"


class AuditReport(msgspec.Struct, frozen=True):
    """What an audit found; `ok` when nothing."""

    findings: tuple[Finding, ...] = ()
    partial_gangs: tuple[PartialGang, ...] = ()

    @property
    def cards_given_twice(self) -> int:
        """How many cards were given to two pods at the same time."""
        return sum(finding.kind == "CardGivenTwice" for finding in self.findings)

    @property
    def ok(self) -> bool:
        """Whether no inconsistency was found."""
        return not self.findings and not self.partial_gangs

    def __str__(self) -> str:
        lines = [f"{finding.kind} on {finding.node}: {finding.detail}" for finding in self.findings]
        lines += map(str, self.partial_gangs)
        return "\n".join(lines) or "nothing found"


def amount(value: object) -> Fraction:
    """The exact value of a Kubernetes quantity; what cannot be read counts as 0."""
    return _amount(str(value))


@lru_cache(maxsize=4096)
def _amount(text: str) -> Fraction:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return Fraction(0)
    number, suffix, exponent = match.groups()
    whole, _, part = number.partition(".")
    if len(whole.lstrip("+-0")) > 64:
        return _MOST
    number = f"{whole[:1] if whole.startswith(('+', '-')) else ''}{whole.lstrip('+-0') or '0'}.{part[:64] or '0'}"
    scale = Fraction(10) ** int(exponent) if exponent else _SCALE.get(suffix, Fraction(1))
    return min(_MOST, Fraction(number) * scale)


def _asks(container: Object) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(value) for name, value in merged.items()}


def _plus(left: Mapping[str, Fraction], right: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: left.get(name, Fraction(0)) + right.get(name, Fraction(0)) for name in {*left, *right}}


def occupied(spec: Object) -> dict[str, Fraction]:
    """What a pod occupies at its peak: while it runs, or during one of its init steps (Kubernetes: pod overhead,
    sidecar containers).
    """
    running: dict[str, Fraction] = {"pods": Fraction(1)}
    sidecars: dict[str, Fraction] = {}
    steps: list[dict[str, Fraction]] = []
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars = _plus(sidecars, _asks(container))
            steps.append(sidecars)
        else:
            steps.append(_plus(sidecars, _asks(container)))
    for container in spec.get("containers") or []:
        running = _plus(running, _asks(container))
    running = _plus(running, sidecars)
    for step in steps:
        running = {name: max(running.get(name, Fraction(0)), step.get(name, Fraction(0))) for name in {*running, *step}}
    running.update(_asks(spec))  # resources of the pod as a whole replace those of its containers
    overhead = {name: amount(value) for name, value in (spec.get("overhead") or {}).items()}
    return {name: value for name, value in _plus(running, overhead).items() if value}


def _accelerators(asks: Mapping[str, Fraction]) -> list[tuple[str, int]]:
    """Which resources of one container are cards, and how many of each, in order of their names.

    If no resource name is a known card's, a single extended resource is taken as the one that card indices refer to.
    """
    extended = [(name, int(asks[name])) for name in sorted(asks) if "/" in name and asks[name]]
    cards = [(name, count) for name, count in extended if _ACCELERATOR.fullmatch(name)]
    return cards or (extended if len(extended) == 1 else [])


def placed(pod: Object) -> bool:
    """Whether the pod has, or had, a place: bound and not turned away by its kubelet."""
    status = pod.get("status") or {}
    turned_away = status.get("phase") == "Failed" and _TURNED_AWAY.fullmatch(str(status.get("reason") or ""))
    return bool((pod.get("spec") or {}).get("nodeName")) and not turned_away


def _name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _occupies(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName")) and (pod.get("status") or {}).get("phase") not in _ENDED


class _Pod(msgspec.Struct):
    """What one bound pod takes from its node."""

    name: str
    node: str
    occupied: dict[str, Fraction]
    cards: set[tuple[str, int]] = msgspec.field(default_factory=set)
    parts: PodParts = msgspec.field(default_factory=PodParts)
    faults: list[tuple[str, str]] = msgspec.field(default_factory=list)


class _AuditedNode(msgspec.Struct):
    """What is known of one node: its object, if it was seen, and its pods by uid."""

    allocatable: dict[str, Fraction] | None = None
    honours: bool = False
    pods: dict[str, _Pod] = msgspec.field(default_factory=dict)
    used: dict[str, Fraction] = msgspec.field(default_factory=dict)
    holders: dict[tuple[str, int], set[str]] = msgspec.field(default_factory=dict)
    shared: NodeParts = msgspec.field(default_factory=NodeParts)


def _read(pod: Object, honours: bool) -> _Pod:
    """A pod's cards as recorded by the node, or as annotated where the node honours that."""
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    read = _Pod(_name(pod), spec["nodeName"], occupied(spec))
    main: set[tuple[str, int]] = set()
    phases = [(c, c.get("restartPolicy") == "Always") for c in spec.get("initContainers") or []]
    asks = {c["name"]: _asks(c) for c in (*(spec.get("containers") or []), *(spec.get("initContainers") or []))}
    read.parts, faults = read_parts(pod, asks)
    read.faults += [(kind, f"{read.name}: {detail}") for kind, detail in faults]
    for container, own in [*((c, True) for c in spec.get("containers") or []), *phases]:
        text = annotations.get(_GIVEN + container["name"])
        if text is None and honours:
            text = annotations.get(_ASKED + container["name"])
        if text is None or asks_for_parts(asks[container["name"]]):
            continue
        asked = _accelerators(asks[container["name"]])
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        if not all(re.fullmatch("[0-9]{1,19}", part) for part in parts):
            read.faults.append(("CardsUnreadable", f"{read.name}: {container['name']} has the card indices {text!r}"))
            continue
        indices = [int(part) for part in parts]
        total = sum(count for _, count in asked)
        if len(set(indices)) != total:
            fault = f"{read.name}: {container['name']} asks for {total} cards and has {text!r}"
            read.faults.append(("CardCountMismatch", fault))
        names = [name for name, count in asked for _ in range(count)]
        cards = set(zip(names, indices, strict=False))
        if own and (twice := cards & main):
            fault = f"{read.name}: two of its containers have {_list(twice)}"
            read.faults.append(("CardGivenTwice", fault))
        if own:
            main |= cards
        read.cards |= cards
    return read


def _list(cards: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"card {index} of {name}" for name, index in sorted(cards))


class Books:
    """The auditor's own account of a cluster, kept object by object. `findings` only grows.

    Pods are given to `enter` and `leave`; a pod that arrives is checked against everything that is there.
    """

    def __init__(self) -> None:
        self.findings: dict[Finding, None] = {}
        self._nodes: dict[str, _AuditedNode] = {}
        self._unseen: dict[str, dict[str, Object]] = {}
        self._where: dict[str, str] = {}

    def node(self, obj: Object) -> None:
        """A node is new or has changed; pods that came before it are checked now."""
        name = obj["metadata"]["name"]
        node = self._nodes.setdefault(name, _AuditedNode())
        allocatable = (obj.get("status") or {}).get("allocatable") or {}
        node.allocatable = {resource: amount(value) for resource, value in allocatable.items()}
        annotations = obj["metadata"].get("annotations") or {}
        node.honours = annotations.get(_CARD_MODE) == "honours-index"
        node.shared.update(node.allocatable, annotations)
        for pod in self._unseen.pop(name, {}).values():
            self.enter(pod)

    def node_gone(self, name: str) -> None:
        """A node was deleted; its pods, if any are left, are on no node now."""
        node = self._nodes.get(name)
        if node is not None:
            node.allocatable = None

    def enter(self, pod: Object) -> None:
        """A pod is new or has changed."""
        uid = pod["metadata"]["uid"]
        if not _occupies(pod):
            self.leave(uid)
            return
        name = pod["spec"]["nodeName"]
        node = self._nodes.get(name)
        if node is None or node.allocatable is None:
            self.leave(uid)
            self._unseen.setdefault(name, {})[uid] = pod
            self._where[uid] = name
            return
        read = _read(pod, node.honours)
        before = node.pods.get(uid)
        if before == read:
            return
        self.leave(uid)
        self._where[uid] = name
        self._add(name, node, uid, read, grown=before is None)

    def leave(self, uid: str) -> None:
        """A pod is gone, or has ended."""
        name = self._where.pop(uid, None)
        if name is None:
            return
        self._unseen.get(name, {}).pop(uid, None)
        node = self._nodes.get(name, _AuditedNode())
        read = node.pods.pop(uid, None)
        if read is None:
            return
        for resource, value in read.occupied.items():
            node.used[resource] -= value
        for card in read.cards:
            node.holders[card].discard(uid)
        node.shared.leave(uid)

    def _add(self, name: str, node: _AuditedNode, uid: str, read: _Pod, grown: bool) -> None:
        allocatable = node.allocatable or {}
        node.pods[uid] = read
        for resource, value in read.occupied.items():
            used = node.used[resource] = node.used.get(resource, Fraction(0)) + value
            has = allocatable.get(resource, Fraction(0))
            if grown and used > has and resource not in OF_EACH_CARD:
                pods = tuple(sorted(other.name for other in node.pods.values() if other.occupied.get(resource)))
                self._find("OverAllocatable", name, pods, f"{resource}: {_text(used)} used of {_text(has)}")
        for kind, detail in read.faults:
            self._find(kind, name, (read.name,), detail)
        for (kind, detail), pods in node.shared.enter(uid, read.name, read.parts):
            self._find(kind, name, pods, detail)
        for card in sorted(read.cards):
            resource, index = card
            if index >= allocatable.get(resource, Fraction(0)):
                has = allocatable.get(resource, Fraction(0))
                detail = f"{read.name} has card {index} of {resource}; the node has {_text(has)}"
                self._find("CardOutOfRange", name, (read.name,), detail)
            holders = node.holders.setdefault(card, set())
            holders.add(uid)
            if len(holders) > 1:
                pods = tuple(sorted(node.pods[holder].name for holder in holders))
                self._find("CardGivenTwice", name, pods, f"{_list([card])} is held by {' and '.join(pods)}")

    def _find(self, kind: str, node: str, pods: tuple[str, ...], detail: str) -> None:
        self.findings.setdefault(Finding(kind, node, pods, detail))

    def missing_nodes(self) -> list[Finding]:
        """Pods that are bound to a node that does not exist now."""
        return [
            Finding("NodeMissing", name, (_name(pod),), f"{_name(pod)} is bound to it and there is no such node")
            for name, pods in sorted(self._unseen.items())
            for pod in pods.values()
        ] + [
            Finding("NodeMissing", name, (pod.name,), f"{pod.name} is bound to it and the node was deleted")
            for name, node in sorted(self._nodes.items())
            if node.allocatable is None
            for pod in node.pods.values()
        ]


def _text(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else str(float(value))


def partial_gangs(
    pods: Iterable[Object], podgroups: Iterable[Object], ran: Collection[str] = ()
) -> tuple[list[PartialGang], set[str]]:
    """The groups with a place for some of their minimum only; and those (`namespace/name`) that have all of it now.

    A group that had its whole minimum (it is in `ran`, or its status says so: `GroupScheduled` and not `Evicted`) is
    not partial: it lost members and is being refilled. Members that ended count as placed.
    """
    members: dict[str, list[Object]] = {}
    for pod in pods:
        group = (pod["metadata"].get("labels") or {}).get(_GROUP)
        if group and placed(pod):
            members.setdefault(f"{pod['metadata'].get('namespace', '')}/{group}", []).append(pod)
    partial: list[PartialGang] = []
    whole: set[str] = set()
    for obj in podgroups:
        name = _name(obj)
        spec = obj.get("spec") or {}
        roles = {role["name"]: int(role.get("minMember") or 0) for role in spec.get("roles") or []}
        minimum = int(spec.get("minMember") or max(1, sum(roles.values())))
        having = members.get(name, [])
        short = tuple(
            sorted(
                role
                for role, least in roles.items()
                if sum((pod["metadata"].get("labels") or {}).get(_ROLE) == role for pod in having) < least
            )
        )
        if len(having) >= minimum and not short:
            whole.add(name)
        elif having and name not in ran and not _says_it_ran(obj):
            partial.append(PartialGang(name, len(having), minimum, short))
    return sorted(partial), whole


def _says_it_ran(podgroup: Object) -> bool:
    conditions = (podgroup.get("status") or {}).get("conditions") or []
    true = {entry.get("type") for entry in conditions if entry.get("status") == "True"}
    return "GroupScheduled" in true and "Evicted" not in true


def audit(nodes: Iterable[Object], pods: Iterable[Object], podgroups: Iterable[Object] = ()) -> AuditReport:
    """Check one state of a cluster, given as its own objects."""
    pods = list(pods)
    books = Books()
    for node in nodes:
        books.node(node)
    for pod in pods:
        books.enter(pod)
    partial, _ = partial_gangs(pods, podgroups)
    return AuditReport((*books.findings, *books.missing_nodes()), tuple(partial))
