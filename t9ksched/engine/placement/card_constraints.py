"""What of a node's cards makes it allowed for a pod: one small class a constraint, as in `constraints.py`."""

from collections.abc import Iterable
from typing import Final

import msgspec

from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_models import card_model, will_do
from t9ksched.model.card_worth import affordable_on
from t9ksched.model.cardchoice import KINDS, MPS, POLICIES, kind_of, kinds
from t9ksched.model.cardmode import HAMI, NOT_READY, SHARING
from t9ksched.model.dra import NOT_SUPPORTED
from t9ksched.model.labels import LabelSelector
from t9ksched.model.names import MGPU_POLICY
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD

CARD_HOLDERS: Final = "card holders"
DATABASE: Final = "database"
CARD_TYPE: Final = "CardTypeMismatch"
CARD_UUID: Final = "CardUuidMismatch"
ONE_EACH: Final = "one card each"
OTHER_SYSTEM: Final = "another system's parts of cards"
UNCOUNTED: Final = "no number of cards"
CARD_CORE: Final = "CardInsufficientCore"
CARD_MEMORY: Final = "CardInsufficientMemory"
COMPUTE_POLICY: Final = "compute policy"
NOT_PREPARED: Final = "accelerators not ready"
QUOTA: Final = "quota of cards"
_PERCENT: Final = 100


class NotByDra(msgspec.Struct, frozen=True):
    """Nodes where none of these resources stands for devices of DRA, which are not given out yet: a pod that is bound
    without a claim runs there without its device.
    """

    resources: tuple[str, ...]
    label: str = NOT_SUPPORTED

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.by_dra or facts.by_dra.keys().isdisjoint(self.resources)


class Prepared(msgspec.Struct, frozen=True):
    """Nodes whose accelerators are ready; applies to pods that ask for accelerators."""

    label: str = NOT_PREPARED

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.mode != NOT_READY and facts.unready is None


class OfModel(msgspec.Struct, frozen=True):
    """Nodes with cards of a model that will do: at least so many of a resource where a node names the models of single
    cards; else what its labels say of all.
    """

    models: tuple[tuple[str, ...], ...]
    least: tuple[tuple[str, int, str], ...] = ()
    """Of which resource how many for which container."""
    of_containers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """As `CardChoice.of_containers`; where labels say of all cards what they are, all of them must hold."""
    label: str = CARD_TYPE

    def keys(self) -> None:
        """Labels decide, and what nodes register of their cards."""

    def allows(self, facts: NodeFacts) -> bool:
        asked = self.least if facts.cards.divided else ()
        own = dict(self.of_containers)
        single = [
            (facts.models(resource), count, self.models + ((own[name],) if name in own else ()))
            for resource, count, name in asked
            if resource in facts.cards.divided
        ]
        if not single:
            return will_do(card_model(facts.labels) or "", (*self.models, *own.values()))
        return all(sum(will_do(one, wanted) for one in models) >= count for models, count, wanted in single)


class OfCards(msgspec.Struct, frozen=True):
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


class OfKind(msgspec.Struct, frozen=True):
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


class OneEach(msgspec.Struct, frozen=True):
    """Nodes that give a container more than one unit. MPS fails such a container; time slices are counted, as asked."""

    label: str = ONE_EACH

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.mode != MPS


class GivesParts(msgspec.Struct, frozen=True):
    """Nodes that give whole cards, or parts of cards by index, to pods that ask for a part of an `nvidia.com/gpu`. All
    others divide cards in words of a system of their own.
    """

    label: str = OTHER_SYSTEM

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        # Of a node that divides cards and cannot now, another constraint says why.
        return bool(facts.cards.divided) or facts.layout not in SHARING or facts.unready is not None


class CountsOne(msgspec.Struct, frozen=True):
    """Nodes of HAMi, which take a container that names a part of a card, and no number of cards, to ask for one."""

    label: str = UNCOUNTED

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.layout == HAMI


class UnitCores(msgspec.Struct, frozen=True):
    """Nodes of which one unit has these cores, in thousandths of a card: a whole card has all, a slice or a time slice
    its part. Where cards are divided by index, room is counted card by card anyway.
    """

    cores: int
    label: str = CARD_CORE

    def keys(self) -> None:
        """Labels decide, and whether cards are divided."""

    def allows(self, facts: NodeFacts) -> bool:
        return bool(facts.cards.divided) or facts.unit.cores >= self.cores


class UnitMemory(msgspec.Struct, frozen=True):
    """Nodes of which one unit has this memory, in MiB, and such a part of a card's: a whole card, a slice, or the equal
    part of a card that a client of MPS has.
    """

    memory: int
    percent: int
    label: str = CARD_MEMORY

    def keys(self) -> None:
        """Labels decide, and whether cards are divided."""

    def allows(self, facts: NodeFacts) -> bool:
        if facts.cards.divided:
            return True
        has = facts.unit_memory or 0
        return has >= self.memory and facts.unit.memory * _PERCENT >= self.percent * CARD


class OfPolicy(msgspec.Struct, frozen=True):
    """Nodes of mGPU that share the cores of a card in this way; applies to pods that ask for parts of cards."""

    policy: str
    label: str = COMPUTE_POLICY

    def keys(self) -> tuple[str, ...]:
        return (MGPU_POLICY,)

    def allows(self, facts: NodeFacts) -> bool:
        return (facts.labels.get(MGPU_POLICY) or POLICIES[0]) == self.policy


class AtMostCards(msgspec.Struct, frozen=True):
    """Nodes on which a pod of this class, which takes only cards that its queue can pay for, finds enough of them;
    amounts are in parts of `CARD`.
    """

    pod_class: PodClass
    most: int
    label: str = QUOTA

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return affordable_on(self.pod_class, facts.card_layout, self.most)


class CardsKnown(msgspec.Struct, frozen=True):
    """Nodes where the holder of each card is on record."""

    label: str = CARD_HOLDERS

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.unsure


class CardsCounted(msgspec.Struct, frozen=True):
    """Nodes whose cards are given by number: nothing must be written down before."""

    label: str = DATABASE

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.honours


CardConstraint = (
    NotByDra
    | Prepared
    | OfModel
    | OfCards
    | OfKind
    | OneEach
    | GivesParts
    | CountsOne
    | UnitCores
    | UnitMemory
    | OfPolicy
    | AtMostCards
    | CardsKnown
    | CardsCounted
)


def of_cards(selector: LabelSelector | None, pod_class: PodClass) -> Iterable[CardConstraint]:
    """The constraints of the cards that pods of this class ask for in a queue."""
    choice = pod_class.choice
    # Several containers may have parts of one card.
    least = tuple((name, max(one.count for one in pod_class.cards_of(name))) for name in pod_class.card_counts)
    if choice is not None and (choice.models or choice.of_containers):
        each = tuple(dict.fromkeys((one.resource, one.count, one.container) for one in pod_class.cards))
        yield OfModel(choice.models, each, choice.of_containers)
    if choice is not None and choice.only is not None:
        if choice.only.types or choice.only.no_types:
            yield OfCards(choice.only, least, CARD_TYPE)
        if choice.only.uuids or choice.only.no_uuids:
            yield OfCards(choice.only, least, CARD_UUID)
    wanted = kinds(choice, pod_class.plain, pod_class.node_selector, pod_class.node_affinity, selector)
    if wanted != KINDS:
        yield OfKind(wanted, pod_class.plain)
    crowded = choice is not None and choice.crowded
    if crowded or pod_class.several:
        yield OneEach()
    if (one := pod_class.least_unit) is not None:
        yield GivesParts()
        if pod_class.implied:
            yield CountsOne()
        yield UnitCores(one.cores)
        yield UnitMemory(one.memory, one.percent)
    if pod_class.policy:
        yield OfPolicy(pod_class.policy)
    if choice is not None and choice.most_cards:
        yield AtMostCards(pod_class, choice.most_cards)
