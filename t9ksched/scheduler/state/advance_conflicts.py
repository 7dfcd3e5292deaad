"""What is in the way of an administrators' reservation, and which nodes it gets.

In its way are groups that it is not for and that may still hold its room when it begins, and other reservations of the
same nodes at the same time. Pods of other schedulers, such as those of DaemonSets, are in the way of reserved cards,
not of whole nodes.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from t9ksched.model.advance_reservation import AdvanceReservation, Occurrence, overlap
from t9ksched.model.errors import FieldError
from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.records import GangRecord

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
    found: dict[GangRecord, list[str]] = {}
    for node in nodes:
        holding, charged = dict[GangRecord, None](), 0
        resource = one.cards.resource if one.cards is not None else ""
        for charge in state.charges.on_node(node):
            pod = state.pods.get(charge.uid)
            gang = pod.gang if pod is not None else None
            if gang is not None and (_admits(state, one, gang) or _ends_by(end_of(gang), of.begin)):
                continue
            charged += dict(charge.pod_class.requests).get(resource, 0)
            if gang is not None:
                holding[gang] = None
        if one.cards is not None and _has(state, node, resource) - charged >= one.cards.count:
            continue
        for gang in holding:
            found.setdefault(gang, []).append(node)
    return [Blocker(gang, tuple(there), end_of(gang)) for gang, there in sorted(found.items(), key=_by_key)]


def overlaps(
    state: "ClusterState", one: AdvanceReservation, nodes: Collection[str], others: Iterable[KnownReservation], now: int
) -> list[Overlap]:
    """The other reservations that need the same room at the same time. Maintenance may lie over any other one."""
    found = []
    for other in others:
        theirs = other.reservation
        shared = [node for node in nodes if node in other.record.nodes and not _both(state, one, theirs, node)]
        if theirs.name == one.name or not shared or (one.maintenance and not theirs.maintenance):
            continue
        if (at := overlap(one, theirs, now)) is not None:
            found.append(Overlap(theirs.name, tuple(shared), at))
    return found


def choose(
    state: "ClusterState",
    one: AdvanceReservation,
    keep: Collection[str],
    others: Collection[KnownReservation],
    now: int,
    end_of: EndOf,
) -> tuple[list[str], list[FieldError]]:
    """The nodes of a reservation, and what is wrong with those that it asks for.

    Named nodes are taken as they are. Of those that a selector matches come first the ones to `keep`, then those with
    nothing in the way, ready ones, and the first by name.
    """
    if one.nodes.selector is None:
        faults = [fault for name in one.nodes.names if (fault := _fault(state, one, name)) is not None]
        return list(one.nodes.names), faults
    of = one.current(now)
    assert of is not None, "a reservation that is over gets no nodes"
    ranked = []
    matching = 0
    for name, (_, facts) in sorted(state.node_objects.items()):
        if facts.deleting or not one.nodes.selector.matches(facts.labels) or _lacks_cards(one, facts):
            continue
        matching += 1
        if overlaps(state, one, (name,), others, now):
            continue
        in_the_way = bool(blockers(state, one, (name,), of, end_of))
        useful = facts.ready and (one.maintenance or not facts.unschedulable)
        ranked.append((not useful, in_the_way, name not in keep, name))
    found = sorted(name for *_, name in sorted(ranked)[: one.nodes.count])
    if len(found) < one.nodes.count:
        free = f"{len(found)} of {matching} nodes that match" if len(found) < matching else f"{matching} nodes match"
        text = f"asks for {one.nodes.count} nodes: {free}" + (
            " are in no other reservation then" if len(found) < matching else ""
        )
        return found, [FieldError("nodes.count", text)]
    return found, []


def lost(state: "ClusterState", held: KnownReservation) -> list[str]:
    """The nodes of a reservation that are gone, or not ready with nothing on them of those it is for."""
    used = {node for _, node, _ in state.advance.holding(held)}
    found = []
    for name in held.record.nodes:
        known = state.node_objects.get(name)
        if known is None or known[1].deleting or not (known[1].ready or name in used):
            found.append(name)
    return found


def _admits(state: "ClusterState", one: AdvanceReservation, gang: GangRecord) -> bool:
    permissions = state.permissions
    return one.admits(gang.queue, permissions.submitter(gang) or "", permissions.groups_of_submitter(gang))


def _ends_by(end: int | None, moment: int) -> bool:
    return end is not None and end <= moment


def _has(state: "ClusterState", node: str, resource: str) -> int:
    known = state.node_objects.get(node)
    return 0 if known is None else known[1].allocatable.get(resource, 0)


def _both(state: "ClusterState", one: AdvanceReservation, other: AdvanceReservation, node: str) -> bool:
    """Whether both are for a part of the node, and there is room for both."""
    if one.cards is None or other.cards is None or one.cards.resource != other.cards.resource:
        return False
    return one.cards.count + other.cards.count <= _has(state, node, one.cards.resource)


def _lacks_cards(one: AdvanceReservation, facts: NodeFacts) -> bool:
    return one.cards is not None and facts.allocatable.get(one.cards.resource, 0) < one.cards.count


def _fault(state: "ClusterState", one: AdvanceReservation, name: str) -> FieldError | None:
    known = state.node_objects.get(name)
    if known is None:
        return FieldError("nodes.names", f"there is no node {name!r}")
    if one.cards is not None and _lacks_cards(one, known[1]):
        has = known[1].allocatable.get(one.cards.resource, 0)
        return FieldError(
            "cards.count", f"{one.cards.count} is more than node {name!r} has: {has} {one.cards.resource}"
        )
    return None


def _by_key(entry: tuple[GangRecord, Sequence[str]]) -> tuple[str, str]:
    return entry[0].key, entry[0].uid
