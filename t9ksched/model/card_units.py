"""What one unit of a resource is on a node: a whole card, a MIG slice of a profile, a turn or a part of a shared card.

All may be called `nvidia.com/gpu`, and a node may be laid out anew while pods hold some. What such a pod has is
what its unit was when it was given: two whole cards are not two slices. As long as it runs, amounts of the node do not
tell which cards are free. The same holds where a card is shared among more or fewer than before, or in another way.
"""

import re
from functools import lru_cache
from typing import Final

from t9ksched.model.card_models import card_model
from t9ksched.model.card_size import CORES
from t9ksched.model.card_slices import replicas
from t9ksched.model.cards import CardGrant
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.resources import is_accelerator, is_card_resource

WHOLE: Final = "card"
"""Such words are kept in SQL (`store/bindings.py`); `_words` has those for people."""
_PART: Final = "part"
_SLICE_OF: Final = "slice"
_TURN: Final = "turn"
_MPS: Final = "mps"
_ONE: Final = "one"
_FOR_PEOPLE: Final = {
    WHOLE: "a whole card",
    _PART: "a part of a card",
    _SLICE_OF: "a MIG slice",
    _TURN: "a turn on a card",
    _MPS: "a part of a card by MPS",
    _ONE: "one",
}
_SLICE: Final = re.compile(r"-MIG-(?P<profile>[^-]+)")
_SHARED: Final = ".shared"
_NVIDIA: Final = ("nvidia.com/", "vke.volcengine.com/", "aliyun.com/gpu", "koordinator.sh/gpu")
"""Names under which cards of NVIDIA are offered."""
Units = tuple[tuple[str, str], ...]
"""By resource, what one of it is: a word, with `:` what it is of, and with `@` among how many it is shared."""


def units(facts: NodeFacts | None, pod_class: PodClass, cards: CardGrant) -> Units:
    """What a pod with these cards has in one of each accelerator that it asks for, as far as that is known. Cards by
    index are what they are wherever they stand, also on a node that is not known yet (None).
    """
    if not pod_class.accelerated:
        return ()
    if pod_class.accelerators == (resources := cards.resources) and not cards.parts:
        return _whole(resources)  # which is usual
    found = dict.fromkeys(cards.undivided.resources, WHOLE)
    if facts is not None and _settled(facts) and not facts.cards.divided:
        for name in pod_class.accelerators:
            if name not in found and (unit := _unit(facts, name)):
                found[name] = unit
    for part in cards.parts:
        found[part.resource] = WHOLE if part.cores == CORES else _PART
    return tuple(sorted(found.items()))


@lru_cache(maxsize=256)
def _whole(resources: tuple[str, ...]) -> Units:
    return tuple((name, WHOLE) for name in resources)


def reshaped(facts: NodeFacts, had: Units) -> str:
    """Why what a pod holds is not what its node offers now, in words; empty where it is, or that is not known.

    Nodes that give cards by index are left out: there it is looked at card by card.
    """
    if not had or facts.honours or not _settled(facts):
        return ""
    for name, was in had:
        if facts.allocatable.get(name):
            unit = _unit(facts, name)
            if unit and unit != was:
                return f"one {name}, which it holds, was {_words(was)} and is {_words(unit)} of node {facts.name} now"
        elif others := sorted(other for other in facts.allocatable if other != name and _alike(facts, name, other)):
            return f"node {facts.name} offers no {name} any more, which it holds, and offers {others[0]} instead"
    return ""


def _settled(facts: NodeFacts) -> bool:
    """Whether labels and amounts of a node belong together."""
    return facts.unready is None or facts.unready.layout


def _unit(facts: NodeFacts, resource: str) -> str:
    """Empty where nothing is offered."""
    if not facts.allocatable.get(resource):
        return ""
    sharers = replicas(facts.labels, resource, facts.layout)
    if not is_card_resource(resource.removesuffix(_SHARED)):
        what = f"{_ONE}:{resource}"  # the name says which slice
    elif facts.layout == "MIGSingle":
        found = _SLICE.search(card_model(facts.labels) or "")
        what = f"{_SLICE_OF}:{found['profile']}" if found else _SLICE_OF
    elif facts.layout == "MPS":
        what = _MPS
    elif facts.layout == "TimeSliced" or resource.endswith(_SHARED):
        what = _TURN
    else:
        return WHOLE
    return f"{what}@{sharers}" if sharers > 1 else what


def _words(unit: str) -> str:
    what, _, sharers = unit.partition("@")
    kind, _, of = what.partition(":")
    words = f"{_FOR_PEOPLE.get(kind, kind)} {of}".strip()
    return f"{words}, shared by {sharers}" if sharers else words


def _alike(facts: NodeFacts, one: str, other: str) -> bool:
    """Whether the node offers the other resource, and both are names of the same cards."""
    if not facts.allocatable.get(other) or not is_accelerator(other):
        return False
    if one.startswith(_NVIDIA) or other.startswith(_NVIDIA):
        return one.startswith(_NVIDIA) and other.startswith(_NVIDIA)
    return one.partition("/")[0] == other.partition("/")[0]
