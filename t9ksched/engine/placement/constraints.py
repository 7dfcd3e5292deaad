"""What makes a node allowed for a pod, whatever room it has: one small class a constraint, one answer a node.

`constraints` lists those of a pod class in a queue; each has a label by which reasons count the nodes it excludes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from t9ksched.model.card_filter import CardFilter
from t9ksched.model.cardchoice import KINDS, MPS, POLICIES, PRODUCTS, card_memory, card_model, is_model, kind_of, kinds
from t9ksched.model.cardmode import NOT_READY, SHARING
from t9ksched.model.dra import NOT_SUPPORTED
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.names import MGPU_POLICY
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.taints import Taint, Toleration, untolerated

CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""What an unschedulable node stands for (Kubernetes adds this taint itself, a moment later)."""
CARD_HOLDERS: Final = "card holders"
DATABASE: Final = "database"
CARD_TYPE: Final = "CardTypeMismatch"
CARD_UUID: Final = "CardUuidMismatch"
ONE_EACH: Final = "one card each"
OTHER_SYSTEM: Final = "another system's parts of cards"
CARD_MEMORY: Final = "CardInsufficientMemory"
COMPUTE_POLICY: Final = "compute policy"
NOT_PREPARED: Final = "accelerators not ready"


@dataclass(frozen=True, slots=True)
class Usable:
    """Nodes that take work: ready and not being deleted."""

    label: str = "not ready"

    def keys(self) -> None:
        """Reads no labels; not worth sharing between nodes."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.ready and not facts.deleting


@dataclass(frozen=True, slots=True)
class QueueNodes:
    """Nodes of a queue."""

    selector: LabelSelector | None
    label: str = "queue"

    def keys(self) -> tuple[str, ...]:
        return tuple(r.key for r in self.selector.requirements) if self.selector else ()

    def allows(self, facts: NodeFacts) -> bool:
        return self.selector is None or self.selector.matches(facts.labels)


@dataclass(frozen=True, slots=True)
class Selected:
    """Nodes that a pod's nodeSelector and required node affinity name."""

    node_selector: tuple[tuple[str, str], ...]
    affinity: NodeSelector | None
    label: str = "selector"

    def keys(self) -> tuple[str, ...] | None:
        return _affinity_keys(self.affinity, tuple(key for key, _ in self.node_selector))

    def allows(self, facts: NodeFacts) -> bool:
        if any(facts.labels.get(key) != value for key, value in self.node_selector):
            return False
        return self.affinity is None or self.affinity.matches(facts.labels, facts.name)


@dataclass(frozen=True, slots=True)
class Schedulable:
    """Nodes that are not cordoned; those are for pods that tolerate it."""

    tolerated: bool
    label: str = "unschedulable"

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return self.tolerated or not facts.unschedulable


@dataclass(frozen=True, slots=True)
class Tolerated:
    """Nodes whose taints a pod tolerates, apart from the one that stands for a cordoned node (`Schedulable`)."""

    tolerations: tuple[Toleration, ...]
    label: str = "taints"

    def keys(self) -> None:
        """Reads no labels; the common node without taints is answered at once."""

    def allows(self, facts: NodeFacts) -> bool:
        if not facts.taints:
            return True
        taints = [taint for taint in facts.taints if taint.key != CORDONED.key]
        return untolerated(taints, self.tolerations) is None


@dataclass(frozen=True, slots=True)
class Reachable:
    """Nodes from which all bound volumes of a pod can be reached."""

    affinities: tuple[NodeSelector, ...]
    label: str = "volumes"

    def keys(self) -> tuple[str, ...] | None:
        found: tuple[str, ...] | None = ()
        for affinity in self.affinities:
            found = _affinity_keys(affinity, found)
        return found

    def allows(self, facts: NodeFacts) -> bool:
        return all(affinity.matches(facts.labels, facts.name) for affinity in self.affinities)


@dataclass(frozen=True, slots=True)
class NotByDra:
    """Nodes where none of these resources stands for devices of DRA, which are not given out yet: a pod that is bound
    without a claim runs there without its device.
    """

    resources: tuple[str, ...]
    label: str = NOT_SUPPORTED

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.by_dra or facts.by_dra.keys().isdisjoint(self.resources)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Nodes whose accelerators are ready; applies to pods that ask for accelerators."""

    label: str = NOT_PREPARED

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.mode != NOT_READY and facts.unready is None


@dataclass(frozen=True, slots=True)
class OfModel:
    """Nodes with cards of a model that will do."""

    models: tuple[tuple[str, ...], ...]
    label: str = CARD_TYPE

    def keys(self) -> tuple[str, ...]:
        return PRODUCTS

    def allows(self, facts: NodeFacts) -> bool:
        product = card_model(facts.labels)
        return product is not None and all(any(is_model(product, one) for one in any_of) for any_of in self.models)


@dataclass(frozen=True, slots=True)
class OfCards:
    """Nodes that have single cards which will do, at least so many of a resource. What a node does not say of single
    cards is what its labels say of all.
    """

    only: CardFilter
    least: tuple[tuple[str, int], ...]
    label: str

    def keys(self) -> None:
        """What nodes register of their cards decides."""

    def allows(self, facts: NodeFacts) -> bool:
        by_uuid, model = self.label == CARD_UUID, card_model(facts.labels) or ""
        for resource, count in self.least:
            sizes = facts.cards.divided.get(resource)
            if sizes is None:
                if not (self.only.of_uuid("") if by_uuid else self.only.of_type(model)):
                    return False
                continue
            fits = (
                self.only.allows(size.model or model, size.uuid) if by_uuid else self.only.of_type(size.model or model)
                for size in sizes
                if size.memory
            )
            if sum(fits) < count:
                return False
        return True


@dataclass(frozen=True, slots=True)
class OfKind:
    """Nodes where one unit is what the pod takes: a whole card, a slice, or a share of the time. `plain` as in
    `kind_of`.
    """

    kinds: tuple[str, ...]
    plain: bool
    label: str = CARD_TYPE

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return kind_of(facts.mode, plain=self.plain) in self.kinds


@dataclass(frozen=True, slots=True)
class OneEach:
    """Nodes that give a container more than one unit; `crowded` pods get them nowhere."""

    crowded: bool
    label: str = ONE_EACH

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return not self.crowded and facts.mode != MPS


@dataclass(frozen=True, slots=True)
class GivesParts:
    """Nodes that give whole cards, or parts of cards by index, to pods that ask for a part of an `nvidia.com/gpu`. All
    others divide cards in words of a system of their own.
    """

    label: str = OTHER_SYSTEM

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        # Of a node that divides cards and cannot now, another constraint says why.
        return bool(facts.cards.divided) or facts.layout not in SHARING or facts.unready is not None


@dataclass(frozen=True, slots=True)
class CardMemory:
    """Nodes whose cards have this memory, in MiB. Where cards are divided, room is counted card by card anyway."""

    memory: int
    label: str = CARD_MEMORY

    def keys(self) -> None:
        """Labels decide, and whether cards are divided."""

    def allows(self, facts: NodeFacts) -> bool:
        return bool(facts.cards.divided) or (card_memory(facts.labels) or 0) >= self.memory


@dataclass(frozen=True, slots=True)
class OfPolicy:
    """Nodes of mGPU that share the cores of a card in this way; applies to pods that ask for parts of cards."""

    policy: str
    label: str = COMPUTE_POLICY

    def keys(self) -> tuple[str, ...]:
        return (MGPU_POLICY,)

    def allows(self, facts: NodeFacts) -> bool:
        return (facts.labels.get(MGPU_POLICY) or POLICIES[0]) == self.policy


@dataclass(frozen=True, slots=True)
class CardsKnown:
    """Nodes where the holder of each card is on record."""

    label: str = CARD_HOLDERS

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.unsure


@dataclass(frozen=True, slots=True)
class CardsCounted:
    """Nodes whose cards are given by number: nothing must be written down before."""

    label: str = DATABASE

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.honours


Constraint = (
    Usable
    | QueueNodes
    | Selected
    | Schedulable
    | Tolerated
    | Reachable
    | NotByDra
    | Prepared
    | OfModel
    | OfCards
    | OfKind
    | OneEach
    | GivesParts
    | CardMemory
    | OfPolicy
    | CardsKnown
    | CardsCounted
)


def _affinity_keys(affinity: NodeSelector | None, keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The label keys an affinity reads besides `keys`; None when it reads the node's name."""
    if affinity is None or keys is None:
        return keys
    if any(term.fields for term in affinity.terms):
        return None
    return (*keys, *(r.key for term in affinity.terms for r in term.labels))


def constraints(selector: LabelSelector | None, pod_class: PodClass) -> tuple[Constraint, ...]:
    """Everything that decides where pods of this class may run in a queue, in the order in which it is explained."""
    found: list[Constraint] = [QueueNodes(selector), Selected(pod_class.node_selector, pod_class.node_affinity)]
    if pod_class.volume_affinity:
        found.append(Reachable(pod_class.volume_affinity))
    if pod_class.extended:
        found.append(NotByDra(pod_class.extended))
    if pod_class.accelerated:
        found += [*_of_cards(selector, pod_class), Prepared()]
    # A node that is not ready, or cordoned, has a taint that says so, too: the plainer reason comes first.
    tolerated = untolerated((CORDONED,), pod_class.tolerations) is None
    found += [Usable(), Schedulable(tolerated), Tolerated(pod_class.tolerations)]
    if pod_class.cards:
        found.append(CardsKnown())
        if pod_class.unrecorded:
            found.append(CardsCounted())
    return tuple(found)


def _of_cards(selector: LabelSelector | None, pod_class: PodClass) -> Iterable[Constraint]:
    choice = pod_class.choice
    if choice is not None and choice.models:
        yield OfModel(choice.models)
    if choice is not None and choice.only is not None:
        least = tuple(pod_class.card_counts.items())
        if choice.only.types or choice.only.no_types:
            yield OfCards(choice.only, least, CARD_TYPE)
        if choice.only.uuids or choice.only.no_uuids:
            yield OfCards(choice.only, least, CARD_UUID)
    wanted = kinds(choice, pod_class.plain, pod_class.node_selector, pod_class.node_affinity, selector)
    if wanted != KINDS:
        yield OfKind(wanted, pod_class.plain)
    crowded = choice is not None and choice.crowded
    if crowded or pod_class.several:
        yield OneEach(crowded)
    if pod_class.part_memory is not None:
        yield GivesParts()
        yield CardMemory(pod_class.part_memory)
    if pod_class.policy:
        yield OfPolicy(pod_class.policy)


def evaluate(constraint: Constraint, facts: Iterable[NodeFacts]) -> Iterable[bool]:
    """Ask the constraint once per combination of the labels it reads: nodes of a pool are alike."""
    keys = constraint.keys()
    if keys is None:
        return map(constraint.allows, facts)
    if not keys:
        return (True for _ in facts) if _empty(constraint) else map(constraint.allows, facts)
    return _by_labels(keys, constraint.allows, facts)


def _empty(constraint: Constraint) -> bool:
    match constraint:
        case QueueNodes():
            return True
        case Selected(affinity=affinity):
            return affinity is None
        case Reachable(affinities=affinities):
            return not affinities
    return False


def _by_labels(
    keys: tuple[str, ...], allows: Callable[[NodeFacts], bool], facts: Iterable[NodeFacts]
) -> Iterable[bool]:
    known: dict[tuple[str | None, ...], bool] = {}
    for fact in facts:
        get = fact.labels.get
        values = tuple([get(key) for key in keys])
        answer = known.get(values)
        if answer is None:
            answer = known[values] = allows(fact)
        yield answer
