"""What is in the way of an administrators' reservation, and which nodes it gets.

In its way are groups that it is not for and that may still hold its room when it begins, and other reservations of the
same nodes at the same time. Pods of other schedulers, such as those of DaemonSets, are in the way of reserved cards,
not of whole nodes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from t9ksched.model.advance_reservation import AdvanceReservation, Cards, Occurrence
from t9ksched.model.errors import FieldError
from t9ksched.model.node import NodeFacts
from t9ksched.model.overlaps import Timetable, first_overlap, left
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.records import GangRecord, PodRecord

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

EndOf = Callable[[GangRecord], int | None]
"""When a group gives its room back at the latest, in nanoseconds since the epoch; None where nothing enforces it."""


class Blocker(NamedTuple):
    """A group that may still hold reserved room when it is needed, on these nodes, until that moment at the latest."""

    gang: GangRecord
    nodes: tuple[str, ...]
    until: int | None


class Overlap(NamedTuple):
    """Another reservation of some of the nodes, at that time."""

    name: str
    nodes: tuple[str, ...]
    at: Occurrence


def blockers(
    state: "ClusterState", one: AdvanceReservation, nodes: Iterable[str], of: Occurrence, end_of: EndOf
) -> list[Blocker]:
    """The groups in the way of an occurrence on these nodes, in order of their names."""

    def goes(pod: PodRecord, gang: GangRecord) -> bool:
        return _ends_by(end_of(gang), of.begin)

    found: dict[GangRecord, list[str]] = {}
    for node in nodes:
        lacking = lacks(state, one, node, goes)
        if lacking == {}:
            continue
        holding = dict[GangRecord, None]()
        for charge, pod, gang in _ours(state, node):
            held = lacking is None or any(lacking.get(name) and amount for name, amount in charge.pod_class.requests)
            if held and not (admits(state, one, gang) or goes(pod, gang)):
                holding[gang] = None
        for gang in holding:
            found.setdefault(gang, []).append(node)
    return [Blocker(gang, tuple(there), end_of(gang)) for gang, there in sorted(found.items(), key=_by_key)]


def lacks(
    state: "ClusterState", one: AdvanceReservation, node: str, goes: Callable[[PodRecord, GangRecord], bool]
) -> dict[str, int] | None:
    """What groups that a reservation is not for hold of its room on a node, in units by resource: empty where they
    leave it free; None for a whole node that some of them hold. Pods of which `goes` is true do not count.

    Of CPU and memory, what pods of other schedulers leave is enough.
    """
    held, others = Counter[str](), Counter[str]()
    for charge in state.charges.on_node(node):
        pod = state.pods.get(charge.uid)
        gang = pod.gang if pod is not None else None
        if pod is not None and gang is not None:
            if admits(state, one, gang) or goes(pod, gang):
                continue
            if one.cards is None:
                return None
        (others if gang is None else held).update(dict(charge.pod_class.requests))
    if one.cards is None:
        return {}
    has, needs = _has(state, node), {one.cards.resource: one.cards.count}
    cards = has.get(one.cards.resource, 0)
    for name in ("cpu", "memory"):
        part = has.get(name, 0) * min(one.cards.count, cards) // max(cards, 1)
        needs[name] = min(part, max(0, has.get(name, 0) - others[name]))
    short = {name: need - (has.get(name, 0) - others[name] - held[name]) for name, need in needs.items()}
    return {name: amount for name, amount in short.items() if amount > 0 and held[name]}


def _ours(state: "ClusterState", node: str) -> Iterator[tuple[Charge, PodRecord, GangRecord]]:
    """What is charged on the node for pods of groups."""
    for charge in state.charges.on_node(node):
        pod = state.pods.get(charge.uid)
        if pod is not None and pod.gang is not None:
            yield charge, pod, pod.gang


def overlaps(
    state: "ClusterState",
    one: AdvanceReservation,
    nodes: Collection[str],
    others: Iterable[KnownReservation],
    now: int,
    ended: int | None = None,
    before: KnownReservation | None = None,
) -> list[Overlap]:
    """The other reservations that need the same room at the same time. Maintenance may lie over any other one. `ended`
    is when the occurrence began that ended early. Of an edit, `before` is the reservation as it was: what it overlapped
    already does not count.
    """
    found = []
    mine = Timetable(one, ended)
    for other in others:
        theirs = other.reservation
        shared = [node for node in nodes if node in other.record.nodes and not _both(state, one, theirs, node)]
        if theirs.name == one.name or not shared or (one.maintenance and not theirs.maintenance):
            continue
        was = before
        if was is not None and was.reservation.maintenance and not (one.maintenance or theirs.maintenance):
            was = None  # it may lie over that one no longer
        fresh, kept = divided(one, shared, was)
        at = first_overlap(mine, Timetable(theirs, other.ended), now) if fresh else None
        if kept and was is not None:
            again = first_overlap(mine, Timetable(theirs, other.ended), now, Timetable(was.reservation, was.ended))
            fresh += kept if again is not None else []
            at = min((each for each in (at, again) if each is not None), default=None)
        if at is not None:
            found.append(Overlap(theirs.name, tuple(sorted(fresh)), at))
    return found


def divided(
    one: AdvanceReservation, nodes: Iterable[str], before: KnownReservation | None
) -> tuple[list[str], list[str]]:
    """Those of the nodes of which an edit reserves something that was not reserved, and the others, of which no more is
    reserved than before but perhaps at other times. Without `before` all are new.
    """
    fresh, kept = list[str](), list[str]()
    for node in nodes:
        same = before is not None and node in before.record.nodes and not _more(one.cards, before.reservation.cards)
        (kept if same else fresh).append(node)
    return fresh, kept


def _more(cards: Cards | None, before: Cards | None) -> bool:
    """Whether that is more of a node than before; None is all of it."""
    if cards is None or before is None:
        return before is not None
    return cards.resource != before.resource or cards.count > before.count


def new_blockers(
    state: "ClusterState",
    one: AdvanceReservation,
    nodes: Iterable[str],
    of: Occurrence,
    end_of: EndOf,
    before: KnownReservation | None,
) -> list[Blocker]:
    """The groups in the way of what an edit reserves beyond what was reserved `before`; all of them without it."""
    fresh, kept = divided(one, nodes, before)
    found = blockers(state, one, fresh, of, end_of)
    longer = left(of, Timetable(before.reservation, before.ended)) if before is not None else None
    if longer is not None:
        found += blockers(state, one, kept, longer, end_of)
    joined: dict[GangRecord, Blocker] = {}
    for each in found:
        known = joined.get(each.gang)
        there = each.nodes if known is None else tuple(sorted({*known.nodes, *each.nodes}))
        joined[each.gang] = Blocker(each.gang, there, each.until)
    return sorted(joined.values(), key=_by_key)


def choose(
    state: "ClusterState",
    one: AdvanceReservation,
    keep: Collection[str],
    others: Collection[KnownReservation],
    now: int,
    end_of: EndOf,
    ended: int | None = None,
    before: KnownReservation | None = None,
) -> tuple[list[str], list[FieldError]]:
    """The nodes of a reservation, and what is wrong with those that it asks for; `ended` and `before` as in `overlaps`.

    Named nodes are taken as they are. Of those that a selector matches come first the ones to `keep`, then those with
    nothing in the way, or nothing that is not evicted, ready ones, and the first by name. An edit that says nothing new
    of nodes and times leaves the nodes as they are, also those that are lost.
    """
    if before is not None and _same_room(one, before, now, ended):
        return list(before.record.nodes), []
    if one.nodes.selector is None:
        fresh, _ = divided(one, one.nodes.names, before)
        faults = [fault for name in fresh if (fault := _fault(state, one, name)) is not None]
        return list(one.nodes.names), faults
    of = one.current(now, ended)
    assert of is not None, "a reservation that is over gets no nodes"
    ranked = []
    matching = 0
    for name, (_, facts) in sorted(state.node_objects.items()):
        if not _has_place(state, one, name):
            continue
        matching += 1
        if overlaps(state, one, (name,), others, now, ended, before):
            continue
        in_the_way = bool(blockers(state, one, (name,), of, end_of))
        stays = in_the_way and bool(blockers(state, one, (name,), of, unless_evicted(state, one, end_of)))
        useful = facts.ready and (one.maintenance or not facts.unschedulable)
        ranked.append((not useful, stays, in_the_way, name not in keep, name))
    found = sorted(name for *_, name in sorted(ranked)[: one.nodes.count])
    if before is not None and before.reservation.nodes.selector == one.nodes.selector:
        lost = [name for name in before.record.nodes if not _has_place(state, one, name)]
        found = sorted([*found, *lost[: one.nodes.count - len(found)]])  # they stay where there are no others
    if len(found) < one.nodes.count:
        free = f"{len(found)} of {matching} nodes that match" if len(found) < matching else f"{matching} nodes match"
        text = f"asks for {one.nodes.count} nodes: {free}" + (
            " are in no other reservation then" if len(found) < matching else ""
        )
        return found, [FieldError("nodes.count", text)]
    return found, []


def _has_place(state: "ClusterState", one: AdvanceReservation, name: str) -> bool:
    """Whether a node is there that the reservation may choose."""
    known, selector = state.node_objects.get(name), one.nodes.selector
    if known is None or known[1].deleting or (selector is not None and not selector.matches(known[1].labels)):
        return False
    return not lacks_cards(one, known[1])


def _same_room(one: AdvanceReservation, before: KnownReservation, now: int, ended: int | None) -> bool:
    """Whether an edit leaves alone which nodes are reserved, how much of each, and when."""
    was = before.reservation
    times = [(each.begins, each.ends, each.every, each.until, each.time_zone) for each in (one, was)]
    what = [(each.nodes, each.cards) for each in (one, was)]
    return times[0] == times[1] and what[0] == what[1] and one.current(now, ended) == before.present(now)


def taken(state: "ClusterState", one: AdvanceReservation, nodes: Iterable[str]) -> dict[str, int]:
    """What a reservation takes of these nodes in all, in units by resource: whole nodes have everything."""
    found = Counter[str]()
    for node in nodes:
        has = _has(state, node)
        if one.cards is None:
            found.update(dict(has))
            continue
        cards = has.get(one.cards.resource, 0)
        part = min(one.cards.count, cards)
        found[one.cards.resource] += part
        for name in ("cpu", "memory"):
            found[name] += has.get(name, 0) * part // max(cards, 1)
    return dict(found)


def may_evict(state: "ClusterState", one: AdvanceReservation, gang: GangRecord) -> bool:
    """Whether the reservation has the group evicted that is in its way."""
    if one.on_conflict != "Preempt":
        return False
    queue = state.queues.get(gang.queue)
    return one.force or (queue is not None and queue.spec.preemptible)


def unless_evicted(state: "ClusterState", one: AdvanceReservation, end_of: EndOf) -> EndOf:
    """When groups end, if those that the reservation may have evicted are gone at once."""
    return lambda gang: 0 if may_evict(state, one, gang) else end_of(gang)


def admits(state: "ClusterState", one: AdvanceReservation, gang: GangRecord) -> bool:
    """Whether a group may use the reservation."""
    permissions = state.permissions
    return one.admits(gang.queue, permissions.submitter(gang) or "", permissions.groups_of_submitter(gang))


def _ends_by(end: int | None, moment: int) -> bool:
    return end is not None and end <= moment


def _has(state: "ClusterState", node: str) -> Mapping[str, int]:
    known = state.node_objects.get(node)
    return {} if known is None else known[1].allocatable


def _both(state: "ClusterState", one: AdvanceReservation, other: AdvanceReservation, node: str) -> bool:
    """Whether both are for a part of the node, and there is room for both."""
    if one.cards is None or other.cards is None or one.cards.resource != other.cards.resource:
        return False
    return one.cards.count + other.cards.count <= _has(state, node).get(one.cards.resource, 0)


def lacks_cards(one: AdvanceReservation, facts: NodeFacts) -> bool:
    """Whether a node has fewer cards than are reserved of each."""
    return one.cards is not None and facts.allocatable.get(one.cards.resource, 0) < one.cards.count


def _fault(state: "ClusterState", one: AdvanceReservation, name: str) -> FieldError | None:
    known = state.node_objects.get(name)
    if known is None:
        return FieldError("nodes.names", f"there is no node {name!r}")
    if one.cards is not None and lacks_cards(one, known[1]):
        has = known[1].allocatable.get(one.cards.resource, 0)
        return FieldError(
            "cards.count", f"{one.cards.count} is more than node {name!r} has: {has} {one.cards.resource}"
        )
    return None


def _by_key(entry: tuple[GangRecord, Sequence[str]] | Blocker) -> tuple[str, str]:
    return entry[0].key, entry[0].uid
