"""Nodes as far as scheduling reads them, with the cards they carry."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import structs

from t9ksched.model.card_inventory import INVENTORIES, NOTHING, inventory
from t9ksched.model.card_links import CardLinks, links_of
from t9ksched.model.card_models import card_memory, card_model, named, whole_model
from t9ksched.model.card_requests import SUMS
from t9ksched.model.card_size import CardSize
from t9ksched.model.card_slices import CardLayout, Unit, part_worths, unit
from t9ksched.model.card_systems import misread, taken_back
from t9ksched.model.card_table import CardTable
from t9ksched.model.cardmode import NOT_READY, WHOLE, layout
from t9ksched.model.cards import MOST_INDEXED, CardGrant
from t9ksched.model.dra import NO_OFFERS, Offers, dra_only, handed_out
from t9ksched.model.hami import Registered
from t9ksched.model.names import CARD_MODE_ANNOTATION, CORDONED_CARDS_ANNOTATION, HONOURS_INDEX, PLUGIN_CHOOSES
from t9ksched.model.pod import Metadata, Quantities
from t9ksched.model.quantity import QuantityError, to_units
from t9ksched.model.readiness import Failing, Unready, oversold, unready
from t9ksched.model.resources import is_accelerator, is_card_resource
from t9ksched.model.taints import Taint
from t9ksched.model.whole import whole_number

LARGEST_INDEX: Final = 9999
"""Larger numbers are no indices of cards."""
_NONE: Final[Mapping[int, str]] = {}
_MOST_NAMED: Final = 8
_SHOWN: Final = 40


class TaintField(msgspec.Struct, gc=False):
    """A taint as Kubernetes writes it."""

    key: str = ""
    value: str | None = None
    effect: str = "NoSchedule"


class Condition(msgspec.Struct, gc=False):
    """A condition's type and status."""

    type: str = ""
    status: str = ""


class NodeSpec(msgspec.Struct, gc=False):
    """The part of a node's spec that is read."""

    unschedulable: bool | None = None
    taints: list[TaintField] | None = None


class NodeStatus(msgspec.Struct, gc=False):
    """The part of a node's status that is read."""

    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None
    capacity: Quantities | None = None


class Node(msgspec.Struct, gc=False):
    """A node object as far as scheduling reads it."""

    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


@dataclass(frozen=True)
class NodeFacts:
    """What placing pods does not change about a node.

    Attributes:
        allocatable: in units by resource.
        cards: the cards that have indices. Only whole cards and cards that are divided by index, and no more of a
            resource than have indices: all others are counted by number (`counted`).
        cordoned: how many take no work of card resources that are counted by number.
        why_cordoned: the cards that take no work by their index, each with the reason that was given, "" for none.
        mode: how it hands out its accelerators (`model.cardmode`); empty when it has none.
        layout: the same, be they ready or not.
        card_mode: `honours-index` when the node gives a container the cards we name, else `plugin-chooses`.
        unready: why its accelerators are not ready; None where they are.
        unsure: a pod on this `honours-index` node holds cards that are on no record, so it may be any of them; or one
            on another node holds cards that the node has laid out anew since. It gives none meanwhile.
        why_unsure: the same in words; empty where it is not said.
        part_worths: of accelerators that are counted by number and are parts of cards, what one unit is of a card, in
            parts of `quantity.CARD`.
        links: how well its cards with indices are linked, those of each resource of which it has as many; None where
            nothing is known.
        links_fault: why what its annotation says of links counts for nothing; else empty.
        by_dra: the resources whose names stand for devices of DRA here, which no pod gets from this scheduler.
        unhealthy: the cards with indices that do not work, as the node says, each with why.
        cards_fault: what the node says of its cards and cannot be read, or followed; else empty.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    deleting: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)
    cards: CardTable = field(default_factory=CardTable)
    card_mode: str = PLUGIN_CHOOSES
    mode: str = ""
    layout: str = ""
    cordoned: Mapping[str, int] = field(default_factory=dict)
    why_cordoned: Mapping[int, str] = field(default_factory=dict)
    part_worths: Mapping[str, int] = field(default_factory=dict)
    unready: Unready | None = None
    unsure: bool = False
    why_unsure: str = ""
    links: CardLinks | None = None
    links_fault: str = ""
    by_dra: Offers = field(default_factory=dict)
    unhealthy: Mapping[int, str] = field(default_factory=dict)
    cards_fault: str = ""

    @property
    def honours(self) -> bool:
        """Whether it gives a container the cards that are named to it."""
        return self.card_mode == HONOURS_INDEX and bool(self.cards.counts)

    @cached_property
    def product(self) -> str:
        """The model that its labels say of its cards; empty where they say none."""
        return whole_model(card_model(self.labels) or "")

    def models(self, resource: str) -> tuple[str, ...]:
        """The model of each card of a resource whose cards are divided, "" for an unknown one; cards that are not there
        left out. Empty for other resources: of their cards labels say the model.
        """
        sizes = self.cards.divided.get(resource, ())
        product = card_model(self.labels) or "" if sizes else ""
        return tuple(one.model or product for one in sizes if one.memory)

    @cached_property
    def card_layout(self) -> CardLayout:
        """All of it that decides how much of its cards a pod has."""
        return CardLayout(
            frozenset(name for name, amount in self.allocatable.items() if amount and is_accelerator(name)),
            frozenset(self.cards.counts),
            tuple(sorted((name, _kinds(sizes)) for name, sizes in self.cards.divided.items())),
            tuple(sorted(self.part_worths.items())),
        )

    @property
    def unit(self) -> Unit:
        """What one `nvidia.com/gpu` has for certain where cards are not divided by index."""
        return unit(self.labels, self.layout or self.mode)

    @property
    def unit_memory(self) -> int | None:
        """The same in MiB of memory; None where the node does not say it."""
        clients, memory = self.unit.clients, card_memory(self.labels)
        return memory // clients if clients and memory is not None else None

    @property
    def accelerated(self) -> bool:
        """Whether it has cards, or parts of cards under any name, be they ready or not."""
        return bool(self.mode or self.cards)

    @property
    def card_count(self) -> int | None:
        """How many cards it has that can be named by an index, be there too many to have them; None while that is not
        known: it has no accelerators, or they are not ready.
        """
        if not self.accelerated or (self.unready is not None and not self.unready.layout):
            return None
        whole = self.allocatable if self.layout == WHOLE else {}
        counts = [*self.cards.counts.values(), *(count for name, count in whole.items() if is_card_resource(name))]
        return max(counts, default=0)

    @property
    def counted(self) -> dict[str, int]:
        """How many it has of accelerators without indices, by resource."""
        return {
            name: amount
            for name, amount in sorted(self.allocatable.items())
            if amount and name not in self.cards and is_accelerator(name) and not (self.cards.divided and name in SUMS)
        }


def _kinds(sizes: Iterable[CardSize]) -> tuple[tuple[CardSize, int], ...]:
    """The different ones, without what tells single cards apart, and how many there are of each."""
    return tuple(Counter(structs.replace(one, uuid="", minor=-1, numa=0) for one in sizes).items())


_decoder = msgspec.json.Decoder(Node)


def decode_node(raw: bytes | Mapping[str, Any]) -> Node:
    """A node from its JSON text or from a plain dict.

    Raises:
        msgspec.ValidationError: a field that is read has the wrong type.
    """
    if isinstance(raw, bytes):
        return _decoder.decode(raw)
    return msgspec.convert(raw, Node)


def card_indices(text: str) -> frozenset[int]:
    """Indices from an annotation such as `"1,5"`; what is no index is left out."""
    found = (whole_number(part.strip()) for part in text.split(","))
    return frozenset(index for index in found if index is not None and index <= LARGEST_INDEX)


def no_cards(text: str, count: int | None, known: Container[int] = ()) -> tuple[str, ...]:
    """The entries of an annotation such as `"1,5"` that name no card, as they are written: what is no index, and
    indices beyond the `count` cards of the node (None: it is not known) but those that are `known` all the same.
    """
    entries = [part.strip() for part in text.split(",")]
    return tuple(each for each in entries if each and not _names_card(each, count, known))


def _names_card(entry: str, count: int | None, known: Container[int]) -> bool:
    index = whole_number(entry)
    if index is None or index > LARGEST_INDEX:
        return False
    return count is None or index < count or index in known


def _cordoned(indices: Iterable[int], cards: Mapping[str, int]) -> dict[str, frozenset[int]]:
    """The cordoned cards by resource; an index names a card of every card resource of the node."""
    found = {resource: frozenset(at for at in indices if at < count) for resource, count in cards.items()}
    return {resource: those for resource, those in found.items() if those}


def _units(amounts: Quantities | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in (amounts or {}).items():
        try:
            found[name] = max(0, to_units(name, value))
        except QuantityError:
            continue
    return found


_CARD_MODES: Final = ("", HONOURS_INDEX, PLUGIN_CHOOSES)
_STRANGE_MODE: Final = f"its annotation {CARD_MODE_ANNOTATION} is"


def node_facts(
    node: Node,
    cordons: Mapping[int, str] = _NONE,
    failing: Sequence[Failing] = (),
    dra: Offers = NO_OFFERS,
    reported: Registered | None = None,
) -> NodeFacts:
    """What the engine needs to know of a node. An allocatable amount that is no quantity counts as absent.

    `cordons` are the cards on record as cordoned, each with its reason, besides those that its annotation names;
    `failing` are validations of the GPU operator that fail on it; `dra` are the resource names that
    could stand for devices of DRA on it; `reported` are its cards where an object of their own says them.
    """
    allocatable = _units(node.status.allocatable)
    annotations = node.metadata.annotations or {}
    labels = node.metadata.labels or {}
    taken = taken_back(labels, allocatable)
    allocatable = taken.left(allocatable) if taken.resources else allocatable
    mode = layout(labels, annotations, allocatable)
    parts = NOTHING
    capacity = _units(node.status.capacity)
    if mode in INVENTORIES:
        parts = inventory(mode, taken.left(capacity), allocatable, annotations, reported)
    by_dra = handed_out(dra, allocatable, divided=bool(parts.divided))
    why_not = taken.unready or unready(labels, allocatable, failing, dra_only(by_dra), annotations)
    why_not = why_not or (oversold(labels, allocatable) if mode == WHOLE else None)
    by_index = mode == WHOLE and (why_not is None or why_not.layout)
    whole = {name: count for name, count in allocatable.items() if by_index and is_card_resource(name) and count}
    cards = {name: count for name, count in whole.items() if count <= MOST_INDEXED}
    if parts.divided:  # devices that are offered whole besides are the same cards
        allocatable = {
            name: amount for name, amount in allocatable.items() if name in parts.divided or not is_card_resource(name)
        }
    elif parts.unread and not parts.fault:  # what is offered whole stays usable, and no part is given
        allocatable = {name: amount for name, amount in allocatable.items() if name not in SUMS}
    why_not = why_not or parts.unready
    cards |= {name: len(sizes) for name, sizes in parts.divided.items()}
    product = card_model(labels) or ""
    divided = {name: named(sizes, product) for name, sizes in parts.divided.items()}
    why = dict.fromkeys(sorted(card_indices(annotations.get(CORDONED_CARDS_ANNOTATION, ""))), "")
    why |= dict(parts.cordoned) | dict(cordons)
    cordoned = _cordoned(why, whole | cards)
    out = frozenset[int]().union(*cordoned.values())
    links, links_fault = links_of(annotations, cards)
    # A system that divides cards gives a container the part of the card that is named to it.
    withdrawn = CardGrant.of({name: those for name, those in cordoned.items() if name in cards})
    if parts.unhealthy:
        withdrawn = withdrawn | CardGrant.of(dict.fromkeys(parts.divided, parts.unhealthy))
    said = annotations.get(CARD_MODE_ANNOTATION, "")
    honours = bool(parts.divided) or said == HONOURS_INDEX
    strange = (
        () if said in _CARD_MODES else (f"{_STRANGE_MODE} {said[:_SHOWN]!r}, none of {', '.join(_CARD_MODES[1:])}",)
    )
    facts = NodeFacts(
        name=node.metadata.name,
        uid=node.metadata.uid,
        labels=labels,
        taints=tuple(Taint(t.key, t.value or "", t.effect) for t in node.spec.taints or ()),
        unschedulable=bool(node.spec.unschedulable),
        ready=any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ()),
        deleting=node.metadata.deletion_timestamp is not None,
        allocatable=allocatable,
        cards=CardTable(cards, withdrawn, divided),
        card_mode=HONOURS_INDEX if honours else PLUGIN_CHOOSES,
        mode=mode if why_not is None else NOT_READY,
        layout=mode,
        unready=why_not,
        cordoned={name: len(those) for name, those in cordoned.items() if name not in cards},
        why_cordoned={index: why[index] for index in sorted(out)},
        part_worths=part_worths(labels, allocatable, mode) if mode not in (WHOLE, "") else {},
        links=links,
        links_fault=links_fault,
        by_dra=by_dra,
        unhealthy=parts.unhealthy,
        cards_fault="; ".join((*taken.words, *parts.unread, *strange, *misread(labels, allocatable, mode, capacity))),
    )
    wrong = no_cards(annotations.get(CORDONED_CARDS_ANNOTATION, ""), facts.card_count, cordons)
    return replace(facts, cards_fault=_and_cordons(facts, wrong)) if wrong else facts


def _and_cordons(facts: NodeFacts, wrong: Sequence[str]) -> str:
    """What it says of its cards and cannot be read, with entries of its annotation of cordoned cards."""
    return "; ".join(filter(None, (facts.cards_fault, misnamed(wrong, facts.card_count))))


def misnamed(wrong: Sequence[str], count: int | None) -> str:
    """Entries of the annotation of cordoned cards that `no_cards` found, in words."""
    listed = ", ".join([*(repr(each[:_SHOWN]) for each in wrong[:_MOST_NAMED]), *("…",) * (len(wrong) > _MOST_NAMED)])
    has = "" if count is None else f" (it has {count}, counted from 0)"
    return f"its annotation {CORDONED_CARDS_ANNOTATION} names {listed}, which is no card of it{has}"
