"""What the inventory of nodes adds to a reason: cards that are cordoned, not ready, or of another kind."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Final

import numpy as np
from msgspec import structs

from t9ksched.engine.arrays import Mask
from t9ksched.engine.placement.card_constraints import CARD_TYPE, NOT_PREPARED, NotByDra, OfKind, OfModel, Prepared
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.constraints import constraints
from t9ksched.model.card_models import card_model, listed
from t9ksched.model.cardchoice import ANY, SHARED, SLICES, WHOLE_CARDS, kind_of
from t9ksched.model.dra import NOT_SUPPORTED
from t9ksched.model.names import GPU_MODE_ANNOTATION, GPU_MODEL_ANNOTATION
from t9ksched.model.node import NodeFacts
from t9ksched.model.reasons import Reason

CARD_CORDONED: Final = "CardCordoned"
_MOST_NAMED: Final = 3
_KINDS: Final = {WHOLE_CARDS: "whole cards", SLICES: "MIG slices", SHARED: "shared cards"}


Addition = tuple[str, Mapping[str, int], tuple[str, ...]]
"""Words, numbers of nodes by cause, and what would help."""


def with_additions(reason: Reason, away: Sequence[Addition]) -> Reason:
    """The reason, and what of the matching nodes takes no work for now."""
    if not away:
        return reason
    nodes, unblocks = dict(reason.nodes), [*reason.unblocks]
    for _, counts, helps in away:
        nodes.update(counts)
        unblocks += helps
    message = "; ".join([reason.message, *(words for words, _, _ in away)])
    return structs.replace(reason, message=message, nodes=nodes, unblocks=tuple(dict.fromkeys(unblocks)))


def unready_nodes(column: ClassFit, mask: Mask) -> tuple[str, tuple[str, ...]]:
    """Of these nodes, which accelerators are in which state, in words; and what to do, each once."""
    facts = [column.trial.nodes.static.facts[row] for row in np.flatnonzero(mask).tolist()]
    by_state: dict[str, list[str]] = {}
    for one in facts:
        by_state.setdefault(str(one.unready or "the state is not known"), []).append(one.name)
    remedies = dict.fromkeys(f"{one.name}: {one.unready.remedy}" for one in facts[:_MOST_NAMED] if one.unready)
    return _named({state: _listed(names) for state, names in by_state.items()}), tuple(remedies)


def dra_nodes(column: ClassFit, mask: Mask, among: int) -> tuple[str, tuple[str, ...]]:
    """How many of so many nodes hand out by DRA what the pod asks for, which and what, in words; and what to do."""
    by_words: dict[str, list[str]] = {}
    remedies: dict[str, None] = {}
    rows = np.flatnonzero(mask).tolist()
    for row in rows:
        facts = column.trial.nodes.static.facts[row]
        asked = [(name, facts.by_dra[name]) for name in column.pod_class.extended if name in facts.by_dra]
        by_words.setdefault("; ".join(one.words(name) for name, one in asked), []).append(facts.name)
        remedies |= dict.fromkeys(one.remedy(name) for name, one in asked)
    listed = _named({words: _listed(names) for words, names in by_words.items()})
    return f"{len(rows)}/{among} {NOT_SUPPORTED}: {listed}", tuple(remedies)[:_MOST_NAMED]


def other_cards(column: ClassFit, of: OfModel | OfKind, gone: Mask, among: Mask) -> tuple[str, tuple[str, ...]]:
    """How many of the nodes `among` have other cards, which these are, in words; and what to do."""
    facts = column.trial.nodes.static.facts
    bare = column.trial.feasibility.bare()
    rows = np.flatnonzero(gone & ~bare if (gone & ~bare).any() else gone).tolist()
    total = int((among & ~bare).sum()) or int(among.sum())
    if isinstance(of, OfModel):
        own = (f"{' or '.join(any_of)} for container {name}" for name, any_of in of.of_containers)
        asked = " and ".join([*(" or ".join(any_of) for any_of in of.models), *own])
        seen = Counter(_models(facts[row], of) for row in rows)
        what, help = f"the pod asks for {asked}", f"ask for another model ({GPU_MODEL_ANNOTATION})"
    else:
        kinds = " or ".join(_KINDS[kind] for kind in of.kinds)
        seen = Counter(f"{_KINDS[kind_of(facts[row].mode, plain=of.plain)]} ({facts[row].mode})" for row in rows)
        choice = column.pod_class.choice
        settled = choice is not None and choice.settled
        what = f"pods of one role take one kind, now {kinds}" if settled else f"the pod takes {kinds}"
        parts = {kind_of(facts[row].mode, plain=of.plain) for row in rows} & {SLICES, SHARED}
        help = f"allow it by the annotation {GPU_MODE_ANNOTATION}: {'|'.join([*sorted(parts), ANY])}, or select nodes"
        help += " by a label that says so, such as nvidia.com/gpu.product"
        if not parts:
            help = f"change the annotation {GPU_MODE_ANNOTATION}"
    has = ", ".join(f"{count} have {name}" for name, count in seen.most_common(_MOST_NAMED))
    return f"{len(rows)}/{total} {CARD_TYPE}: {what}, {has}", (help,)


def _models(facts: NodeFacts, of: OfModel) -> str:
    """The models of the cards of a node, in words."""
    single = [model for resource in dict.fromkeys(one for one, *_ in of.least) for model in facts.models(resource)]
    return listed(single) if single else card_model(facts.labels) or "cards whose model no label names"


def by_dra(column: ClassFit) -> list[Addition]:
    """Which nodes would match if their devices of DRA were given out."""
    away = kept_out(column, NotByDra | Prepared)  # where DRA hands out all accelerators they are not ready either
    if not away.any():
        return []
    away = away & ~column.trial.feasibility.column(NotByDra(column.pod_class.extended))
    if not away.any():
        return []
    words, remedies = dra_nodes(column, away, int((away | column.mask).sum()))
    return [(words, {NOT_SUPPORTED: int(away.sum())}, remedies)]


def unready(column: ClassFit) -> list[Addition]:
    """Which nodes would match if their accelerators were ready."""
    away = kept_out(column, Prepared)
    if not away.any():
        return []
    words, remedies = unready_nodes(column, away)
    count = int(away.sum())
    has = f"{count} more {'has' if count == 1 else 'have'} GPUs that are not ready: {words}"
    return [(has, {NOT_PREPARED: count}, remedies)]


def kept_out(column: ClassFit, by: type | UnionType) -> Mask:
    """Nodes that match but for constraints of that kind."""
    feasibility, found = column.trial.feasibility, constraints(column.selector, column.pod_class)
    keeps = [feasibility.column(one) for one in found if isinstance(one, by)]
    if all(keep.all() for keep in keeps):
        return np.zeros(len(column.mask), np.bool_)
    others = [feasibility.column(one) for one in found if not isinstance(one, by)]
    away: Mask = np.logical_and.reduce(others) & ~np.logical_and.reduce(keeps)
    for _, allows in column.trial.plugins.filters(column.pod_class, column.trial.nodes.static):
        away = away & allows
    return away


def held_back(facts: NodeFacts) -> str:
    """Why a node gives no cards though they are ready, in words."""
    return f"gives no cards now: {facts.why_unsure or 'which ones its pods hold is not certain'}"


def named_by_state(states: Mapping[str, Sequence[str]]) -> str:
    """Names of nodes by their state: the first few of each."""
    return _named({state: _listed(names) for state, names in states.items()})


def _named(states: Mapping[str, str]) -> str:
    """`a100-0, a100-1 (STATE); a100-2 (STATE)`."""
    shown = [f"{names} ({state})" for state, names in list(states.items())[:_MOST_NAMED]]
    return "; ".join([*shown, "…"] if len(states) > _MOST_NAMED else shown)


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = [f"{len(known) - _MOST_NAMED} more"] if len(known) > _MOST_NAMED else []
    return ", ".join([*known[:_MOST_NAMED], *more])


def cordons(column: ClassFit) -> list[Addition]:
    """Which idle cards on matching nodes take no work because they are cordoned."""
    resources = tuple(column.pod_class.card_counts)
    static = column.trial.nodes.static
    rows = [row for row in static.cordoned_rows if column.mask[row]] if resources else []
    found = [(static.facts[row].name, _idle(column, row, resources)) for row in rows]
    found = [(node, cards) for node, cards in found if cards]
    if not found:
        return []
    named = [f"{', '.join(cards)} of {node}" for node, cards in found[:_MOST_NAMED]]
    more = [f"{len(found) - _MOST_NAMED} nodes more"] if len(found) > _MOST_NAMED else []
    words = f"{len(found)}/{int(column.mask.sum())} {CARD_CORDONED}: {'; '.join([*named, *more])}"
    help = "an administrator uncordons the cards (t9ksched nodes NODE uncordon --gpu I)"
    return [(words, {CARD_CORDONED: len(found)}, (help,))]


def _idle(column: ClassFit, row: int, resources: tuple[str, ...]) -> list[str]:
    """The cordoned cards of a node that nothing holds, in words; where they have no indices, all that are cordoned."""
    nodes = column.trial.nodes
    facts = nodes.static.facts[row]
    idle = facts.cards.withdrawn - nodes.static.cards.grant(nodes.cards_used, row)
    indices = {index for resource in resources for index in idle.indices(resource)}
    if any(facts.cordoned.get(resource) for resource in resources):
        indices |= facts.why_cordoned.keys()
    return [f"card {at}" + (f" ({why})" if (why := facts.why_cordoned.get(at)) else "") for at in sorted(indices)]
