"""What a change of the live cluster would do: the walk with it beside the walk without it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from msgspec import structs

from t9ksched.engine.policy import Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.model.card_worth import held
from t9ksched.model.gang import Gang, RunningPod
from t9ksched.model.node import NodeFacts
from t9ksched.model.quantity import CARDS
from t9ksched.model.queue import QueueSpec
from t9ksched.simulation.outlook import Outlook, outlook
from t9ksched.simulation.places import thawed
from t9ksched.simulation.present import Occupant, Present


@dataclass(frozen=True, slots=True)
class Change:
    """What is different.

    Attributes:
        gangs: groups that are submitted, or that get more members; those of the view with these UIDs are replaced.
        queues: queues with another spec, and new ones, by name.
        gone: names of nodes that go, with the pods on them.
        added: nodes that come, with names that there are not yet.
        policy: None for the one that there is.
        later: of groups that are submitted, before which moment they do not start, by UID.
        turns: of groups that are submitted, of which array each is an element, and how many of it run at once at most.
    """

    gangs: tuple[Gang, ...] = ()
    queues: dict[str, QueueSpec] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    added: tuple[NodeFacts, ...] = ()
    policy: Policy | None = None
    later: dict[str, int] = field(default_factory=dict)
    turns: dict[str, tuple[str, int]] = field(default_factory=dict)


class Effect(msgspec.Struct, frozen=True):
    """A group that is there already, and starts at another time, or loses its places. `gang` is its UID.

    Attributes:
        before, after: when it starts (or started) without the change, and when with it, nanoseconds since the epoch;
            None for not at all, as far as both walks looked.
        preempted: whether it is evicted for another one because of the change.
    """

    gang: str
    before: int | None
    after: int | None
    preempted: bool


class Found(msgspec.Struct, frozen=True):
    """The walk with the change, and what it does to others, those that start first at first."""

    outlook: Outlook
    others: tuple[Effect, ...]


def _none() -> Callable[[], bool]:
    return lambda: False


def what_if(present: Present, change: Change, until: int, limit: Callable[[], Callable[[], bool]] = _none) -> Found:
    """Walk with the change and without it, up to a moment in nanoseconds since the epoch. When a walk begins, `limit`
    gives what it asks after each moment whether that is far enough; what lies after the end of the shorter walk is not
    compared.
    """
    with_it = outlook(changed(present, change), until, limit())
    without = outlook(present, with_it.until, limit())
    return Found(with_it, _effects(present, change, without, with_it))


def changed(present: Present, change: Change) -> Present:
    """The present with the change."""
    view = present.view
    if change.queues:
        queues = dict(view.queues)
        for name, spec in change.queues.items():
            known = queues.get(name, QueueState())
            queues[name] = replace(known, spec=spec)
        if not _counts_cards(view.queues) and _counts_cards(queues):
            queues = _with_cards(queues, view, present.occupants)
        view = replace(view, queues=queues)
    if change.gangs:
        replaced = {gang.uid for gang in change.gangs}
        view = replace(view, gangs=(*(gang for gang in view.gangs if gang.uid not in replaced), *change.gangs))
    occupants = present.occupants
    if change.gone:
        view, occupants = _without_nodes(view, occupants, frozenset(change.gone))
    if change.added:
        nodes = thawed(view.nodes)
        for facts in change.added:
            nodes.upsert(facts)
        view = replace(view, nodes=nodes.freeze())
    later, turns = {**present.later, **change.later}, {**present.turns, **change.turns}
    policy = change.policy or present.policy
    return replace(present, view=view, occupants=occupants, policy=policy, later=later, turns=turns)


def _counts_cards(queues: Mapping[str, QueueState]) -> bool:
    """Whether some quota counts cards."""
    return any(CARDS in state.spec.quota for state in queues.values())


def _with_cards(queues: Mapping[str, QueueState], view: View, occupants: Iterable[Occupant]) -> dict[str, QueueState]:
    """The queues with how many cards their pods have, which views tell only where quotas count them."""
    cards: Counter[str] = Counter()
    for one in occupants:
        cards[one.gang.queue] += sum(_cards(pod, view) for pod in one.pods)
    return {name: replace(state, used={**state.used, CARDS: cards[name]}) for name, state in queues.items()}


def _cards(pod: RunningPod, view: View) -> int:
    """What a pod has of the cards of its node."""
    row = view.nodes.static.index.get(pod.node)
    return held(pod.pod_class, None if row is None else view.nodes.static.facts[row], pod.cards)


def _without_nodes(
    view: View, occupants: Sequence[Occupant], gone: frozenset[str]
) -> tuple[View, tuple[Occupant, ...]]:
    """Nodes go. Groups wait for members that were on them, before anything new, if something makes their pods anew."""
    nodes = thawed(view.nodes)
    for name in gone:
        nodes.remove(name)
    used = {name: Counter(state.used) for name, state in view.queues.items()}
    waiting = {gang.uid: gang for gang in view.gangs}
    staying = []
    for one in occupants:
        lost = [member for member, pod in zip(one.gang.waiting, one.pods, strict=True) if pod.node in gone]
        if not lost:
            staying.append(one)
            continue
        for member in lost:
            used.get(one.gang.queue, Counter()).subtract(dict(member.pod_class.requests))
            if _counts_cards(view.queues):
                pod = next(pod for pod in one.pods if pod.uid == member.uid)
                used.get(one.gang.queue, Counter()).subtract({CARDS: _cards(pod, view)})
        pods = tuple(pod for pod in one.pods if pod.node not in gone)
        left = tuple(member for member, pod in zip(one.gang.waiting, one.pods, strict=True) if pod.node not in gone)
        if pods:
            staying.append(structs.replace(one, gang=structs.replace(one.gang, waiting=left), pods=pods))
        if not one.remade:
            continue
        base = waiting.get(one.gang.uid, one.gang)
        others = base.waiting if one.gang.uid in waiting else ()
        held = Counter(dict(one.gang.placed))
        held.update(pod.role for pod in pods)
        waiting[one.gang.uid] = structs.replace(
            base,
            waiting=(*others, *lost),
            placed=tuple(sorted(held.items())),
            refilling=True,
            ran=True,
            accepted=True,
            nodes=tuple(sorted({pod.node for pod in pods})) if base.topology != "None" else (),
        )
    kept = tuple(one for one in view.reservations if one.kind.planned or one.node not in gone)
    queues = {name: replace(state, used=dict(+used[name])) for name, state in view.queues.items()}
    found = replace(view, nodes=nodes.freeze(), queues=queues, gangs=tuple(waiting.values()), reservations=kept)
    return found, tuple(staying)


def _effects(present: Present, change: Change, without: Outlook, with_it: Outlook) -> tuple[Effect, ...]:
    until = min(without.until, with_it.until)
    lost_nodes = frozenset(change.gone)
    began = {one.gang.uid: one.started for one in present.occupants}
    hit = {one.gang.uid for one in present.occupants if _breaks(one, lost_nodes)}
    new = {gang.uid for gang in change.gangs}

    def start(found: Outlook, uid: str, *, lost: bool) -> int | None:
        """When the group starts, at first or, where it ran and loses its places, again."""
        if uid in began and not lost:
            return began[uid]
        again = found.starts.get(uid)
        return again.at if again is not None and again.at <= until else None

    effects = []
    for uid in dict.fromkeys((*began, *without.starts, *with_it.starts, *with_it.lost)):
        if uid in new:
            continue
        preempted = with_it.lost.get(uid, until + 1) <= until and uid not in without.lost
        before = start(without, uid, lost=uid in without.lost)
        after = start(with_it, uid, lost=uid in with_it.lost or uid in hit)
        if before != after or preempted:
            effects.append(Effect(uid, before, after, preempted))
    effects.sort(key=lambda one: (one.before is None, one.before or 0, one.gang))
    return tuple(effects)


def _breaks(one: Occupant, gone: frozenset[str]) -> bool:
    """Whether a group keeps less than its minimum when these nodes go."""
    left = sum(pod.node not in gone for pod in one.pods) + sum(count for _, count in one.gang.placed)
    return left < min(one.gang.min_member, len(one.pods) + sum(count for _, count in one.gang.placed))
