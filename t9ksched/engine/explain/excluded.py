"""Why nodes may not run a pod, whatever room they have.

Of a pod that asks for what device plugins offer, the nodes that offer it are looked at: that all others lack it says
nothing, and they may well match otherwise. Where cards are what is wrong it is said in words of cards.
"""

from collections import Counter
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Mask
from t9ksched.engine.explain.inventory import Addition, dra_nodes, kept_out, named_by_state, other_cards, unready_nodes
from t9ksched.engine.explain.words import counted, matching
from t9ksched.engine.placement.card_constraints import (
    CARD_HOLDERS,
    CARD_TYPE,
    CARD_UUID,
    COMPUTE_POLICY,
    DATABASE,
    NOT_PREPARED,
    ONE_EACH,
    OTHER_SYSTEM,
    UNCOUNTED,
    AtMostCards,
    CardsCounted,
    CountsOne,
    GivesParts,
    NotByDra,
    OfCards,
    OfKind,
    OfModel,
    OfPolicy,
    OneEach,
    Prepared,
    UnitCores,
    UnitMemory,
)
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.constraints import Constraint, constraints
from t9ksched.model.card_filter import NO_TYPE, NO_UUID, USE_TYPE, USE_UUID
from t9ksched.model.card_models import card_model
from t9ksched.model.card_worth import levels_on, unbounded
from t9ksched.model.cardchoice import POLICIES
from t9ksched.model.names import MGPU_POLICY
from t9ksched.model.node import NodeFacts
from t9ksched.model.quantity import CARD, CARDS, from_units
from t9ksched.model.reasons import Code, Reason

_WORDS: Final = {
    "queue": "are not nodes of the queue",
    "selector": "do not match the pod's nodeSelector or node affinity",
    "volumes": "cannot reach its volumes",
    "taints": "have taints it does not tolerate",
    "not ready": "are not ready",
    "unschedulable": "are cordoned (unschedulable)",
    "avoided": "are avoided for two minutes after a pod of the job was rejected there",
    OTHER_SYSTEM: "divide cards by a system, or a mode of one, that this scheduler does not use",
    ONE_EACH: "share cards by MPS, which fails a container that asks for more than one",
    UNCOUNTED: "do not use HAMi: elsewhere a container gets no card whose limits do not name nvidia.com/gpu",
    NOT_PREPARED: "have GPUs that are not ready",
    CARD_HOLDERS: "give no cards now",
    DATABASE: "give cards by index, which is written to the database before, and that is away",
}
TRIED_AGAIN: Final = "two minutes have passed since the node rejected a pod of the job, which is tried there again then"
_SINGULAR: Final = {"are": "is", "do": "does", "have": "has", "divide": "divides", "give": "gives", "share": "shares"}
_MOST_NAMED: Final = 3
_CARDS: Final = (
    OfModel | OfKind | OfCards | CountsOne | UnitCores | UnitMemory | OfPolicy | OneEach | GivesParts | AtMostCards
)
"""Constraints of cards that keep pods from nodes for good."""


def offering(column: ClassFit) -> Mask:
    """The nodes that offer every extended resource for which the pod asks, or will when their accelerators are ready,
    or would if DRA did not hand them out; shape (nodes,). All nodes for a pod that asks for none, and where no node
    offers them.
    """
    trial, extended = column.trial, column.pod_class.extended
    found = _offering_now(column)
    if extended:
        found |= ~trial.feasibility.column(NotByDra(extended))
    if column.pod_class.accelerated:
        found |= ~trial.feasibility.column(Prepared())
    return found if found.any() else np.ones_like(found)


def _offering_now(column: ClassFit) -> Mask:
    """The nodes that offer all of it now."""
    trial = column.trial
    found = np.ones(len(column.mask), np.bool_)
    for name in column.pod_class.extended:
        at = trial.resource_rows.get(name)
        found &= False if at is None else trial.nodes.static.allocatable[at] > 0
    return found


def excluded(column: ClassFit) -> bool:
    """Whether no node matches, or none of those that offer what the pod asks for would, not even if none were away."""
    return not column.mask.any() or is_not_offered(column)


def excluded_ever(column: ClassFit) -> bool:
    """The same even if no node were away. Of nodes whose accelerators are not ready it is not known what they will
    offer.
    """
    if column.mask.any():
        return is_not_offered(column)
    if not column.ever.any() or is_not_offered(column):
        return True
    return column.pod_class.accelerated and bool((column.ever & ~column.trial.feasibility.column(Prepared())).any())


def is_not_offered(column: ClassFit) -> bool:
    """Whether none of the nodes that offer what the pod asks for would match, not even if none were away."""
    if not column.pod_class.extended or column.total_ever():
        return False
    now = _offering_now(column)
    return not ((now if now.any() else offering(column)) & column.ever).any()


def unrecorded(column: ClassFit) -> Reason | None:
    """The pods must wait for the database on nodes that they may use otherwise; None where they need not."""
    if not column.pod_class.unrecorded:
        return None
    others = [one for one in constraints(column.selector, column.pod_class) if not isinstance(one, CardsCounted)]
    would = np.logical_and.reduce([column.trial.feasibility.column(one) for one in others])
    for _, allows in column.trial.plugins.filters(column.pod_class, column.trial.nodes.static):
        would = would & allows
    match, waits = int(column.mask.sum()), int((would & ~column.mask).sum())
    if not waits:
        return None
    return Reason(
        Code.DATABASE_AWAY,
        f"the database is away, and which cards a pod gets on {counted(waits, 'node')} that would match is written "
        f"there before it is bound, for cards are given by index there; besides, {matching(match)}",
        nodes={"match": match, DATABASE: waits},
        unblocks=("the database answers again",),
    )


def no_node_matches(column: ClassFit) -> Reason:
    """What keeps the pod from which nodes. Each is counted under the first."""
    left = offering(column)
    counts = {"total": len(left), "match": 0}
    parts: list[str] = []
    helps: tuple[str, ...] = ()
    if lacking := len(left) - int(left.sum()):
        counts["resources"] = lacking
        parts.append(f"{lacking} {_verb('have', lacking)} no {' and '.join(column.pod_class.extended)}")
    for constraint in constraints(column.selector, column.pod_class):
        allowed = column.trial.feasibility.column(constraint)
        if isinstance(constraint, UnitCores | UnitMemory):  # what is not ready may be as large; that is said below
            allowed = allowed | ~column.trial.feasibility.column(Prepared())
        keeps = left & allowed
        gone = left & ~keeps
        if gone.any():
            counts[constraint.label] = counts.get(constraint.label, 0) + int(gone.sum())
            words, more = _of(column, constraint, gone, left)
            parts.append(words)
            helps = (*helps, *more)
        left = keeps
    for name, allows in column.trial.plugins.filters(column.pod_class, column.trial.nodes.static):
        if refused := int((left & ~allows).sum()):
            counts[f"plugin {name}"] = refused
            parts.append(f"{refused} {'is' if refused == 1 else 'are'} refused by the plugin {name!r}")
        left = left & allows
    unblocks: tuple[str, ...] = (
        *helps,
        "change what the pod or its queue selects, or make such nodes available",
    )
    if CARD_HOLDERS in counts:
        unblocks = ("the pods end whose cards are not certain", *unblocks)
    if "avoided" in counts:
        unblocks = (TRIED_AGAIN, *unblocks)
    return Reason(
        Code.CARD_TYPE_MISMATCH if CARD_TYPE in counts else Code.NO_NODE_MATCHES,
        f"no node of {counts['total']} may run it: {', '.join(parts)}" if parts else "the cluster has no nodes",
        nodes=counts,
        unblocks=unblocks,
    )


def other_nodes(column: ClassFit) -> list[Addition]:
    """Which nodes would match if the pod took their cards as they are."""
    found = [one for one in constraints(column.selector, column.pod_class) if isinstance(one, _CARDS)]
    away = kept_out(column, _CARDS) if found else None
    if away is None or not away.any():
        return []
    away = away & offering(column)
    if not (away & ~column.trial.feasibility.bare()).any():
        return []
    parts: list[str] = []
    helps: list[str] = []
    counts: dict[str, int] = {}
    for one in found:
        gone = away & ~column.trial.feasibility.column(one)
        if gone.any():
            words, more = _of(column, one, gone, away | (column.mask & offering(column)), more="more ")
            parts.append(words)
            helps += more
            counts[one.label] = counts.get(one.label, 0) + int(gone.sum())
            away = away & ~gone
    return [("; ".join(parts), counts, tuple(helps))]


def _of(
    column: ClassFit, constraint: Constraint, gone: Mask, among: Mask, more: str = ""
) -> tuple[str, tuple[str, ...]]:
    """How many nodes of `among` a constraint excludes and why, in words; and what would help."""
    nodes = int(gone.sum())
    match constraint:
        case NotByDra():
            return dra_nodes(column, gone, int(among.sum()))
        case OfModel() | OfKind():
            return other_cards(column, constraint, gone, among)
        case OfCards():
            return _other_single_cards(column, constraint, gone, among)
        case UnitMemory() | UnitCores():
            return _too_small(column, constraint, gone, among)
        case OfPolicy():
            return _other_policy(column, constraint, gone, more)
        case AtMostCards():
            return _too_dear(column, constraint, gone, more)
    words = f"{nodes} {more}{_verb(_WORDS[constraint.label], nodes)}"
    if constraint.label == NOT_PREPARED:
        states, helps = unready_nodes(column, gone)
        return f"{words}: {states}", helps
    if constraint.label == CARD_HOLDERS:
        found: dict[str, list[str]] = {}
        for facts in _facts(column, gone):
            found.setdefault(facts.why_unsure or "which ones its pods hold is not certain", []).append(facts.name)
        return f"{words}: {named_by_state(found)}", ()
    return words, ()


def _other_single_cards(column: ClassFit, of: OfCards, gone: Mask, among: Mask) -> tuple[str, tuple[str, ...]]:
    """How many cards annotations of HAMi exclude on nodes that have too few others."""
    by_uuid = of.label == CARD_UUID
    keys = f"{USE_UUID} and {NO_UUID.partition('/')[2]}" if by_uuid else f"{USE_TYPE} and {NO_TYPE.partition('/')[2]}"
    seen: Counter[str] = Counter()
    for facts in _facts(column, gone):
        model = card_model(facts.labels) or ""
        for resource, _ in of.least:
            sizes = facts.cards.divided.get(resource)
            each = (
                [(one.model or model, one.uuid) for one in sizes] if sizes else [(model, "")] * _cards(facts, resource)
            )
            for name, uuid in each:
                if not (of.only.allows(name, uuid) if by_uuid else of.only.of_type(name)):
                    seen[name or "no known model"] += 1
    total = sum(_cards(facts, resource) for facts in _facts(column, among) for resource, _ in of.least)
    has = ", ".join(f"{count} {'is' if count == 1 else 'are'} {name}" for name, count in seen.most_common(_MOST_NAMED))
    what = "" if by_uuid else f", {has}"
    help = f"allow other {'cards' if by_uuid else 'models'} ({keys})"
    return f"{seen.total()}/{total} {of.label}: {keys} leave too few on one node{what}", (help,)


def _too_small(column: ClassFit, of: UnitMemory | UnitCores, gone: Mask, among: Mask) -> tuple[str, tuple[str, ...]]:
    """How many units of nodes that give cards or slices by number are smaller than the part that is asked for."""
    resources = tuple(column.pod_class.card_counts)
    there = _facts(column, gone)
    small = sum(_cards(facts, name) for facts in there for name in resources)
    total = sum(_cards(facts, name) for facts in _facts(column, among) for name in resources)
    if isinstance(of, UnitCores):
        asked, each, help = f"{of.cores / 10:g} % of the cores", [one.unit.cores or None for one in there], "cores"
        known = [f"{cores / 10:g} %" for cores in _largest(each)]
    elif of.memory:
        asked, each, help = f"{of.memory} MiB", [one.unit_memory for one in there], "memory"
        known = [f"{memory} MiB" for memory in _largest(each)]
    else:
        asked, each, help = f"{of.percent} % of the memory", [one.unit.memory for one in there], "memory"
        known = [f"{memory * 100 // CARD} %" for memory in _largest(each)]
    apart = "undivided one " if any(need.of.nodes.any() for need in column.divided) else ""
    best = [f"the largest {apart}has {one}" for one in known]
    if unknown := each.count(None):
        best.append(f"{counted(unknown, 'node')} {_verb('do', unknown)} not say how much theirs have")
    return (
        f"{small}/{total} {of.label}: the pod asks for {asked} of a card, {', '.join(best)}",
        (f"a node with larger ones is added, or ask for less of the {help}",),
    )


def _largest(amounts: list[int | None]) -> list[int]:
    """The largest of those that are known, if there are any."""
    return sorted((one for one in amounts if one is not None), reverse=True)[:1]


def _other_policy(column: ClassFit, of: OfPolicy, gone: Mask, more: str) -> tuple[str, tuple[str, ...]]:
    """By which policies nodes of mGPU share the cores of their cards."""
    there = sorted({facts.labels.get(MGPU_POLICY) or POLICIES[0] for facts in _facts(column, gone)})
    nodes = int(gone.sum())
    words = (
        f"{nodes} {more}{_verb('share', nodes)} the cores of a card by another {COMPUTE_POLICY}:"
        f" {' or '.join(there[:_MOST_NAMED])}, and the pod takes {of.policy}"
    )
    return words, (f"choose the policy of the nodes by the annotation {MGPU_POLICY}",)


def _too_dear(column: ClassFit, of: AtMostCards, gone: Mask, more: str) -> tuple[str, tuple[str, ...]]:
    """On how many nodes the pod would have more of physical cards than its queue can pay for."""
    nodes = int(gone.sum())
    wide = unbounded(of.pod_class)
    amounts = sorted({one for facts in _facts(column, gone) for one in levels_on(wide, facts.card_layout)})
    has = " to ".join(dict.fromkeys(from_units(CARDS, one) for one in (amounts[0], amounts[-1])))
    return (
        f"on {nodes} {more}{'node' if nodes == 1 else 'nodes'} it would count as {has} cards, more than its queue can"
        " pay for",
        ("cards of the queue are given back, or an administrator raises its quota of cards",),
    )


def _facts(column: ClassFit, mask: Mask) -> list[NodeFacts]:
    return [column.trial.nodes.static.facts[row] for row in np.flatnonzero(mask).tolist()]


def _cards(facts: NodeFacts, resource: str) -> int:
    """How many cards of a resource a node has, by index or by number."""
    return facts.cards.counts.get(resource) or facts.allocatable.get(resource, 0)


def _verb(words: str, nodes: int) -> str:
    """Words that begin with a verb, said of so many nodes."""
    verb, space, rest = words.partition(" ")
    return f"{_SINGULAR.get(verb, verb) if nodes == 1 else verb}{space}{rest}"
