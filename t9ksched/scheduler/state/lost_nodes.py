"""Nodes that are of no use to a reservation which selects its nodes, and the ones that take their place.

A node that is there and that a job of the reservation holds is kept until the job ends. Maintenance keeps nodes
that are cordoned or not ready, which the work itself may be the cause of, and while it lasts all of them.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from t9ksched.model.advance_reservation import AdvanceReservation, Occurrence
from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.advance_conflicts import EndOf, blockers, lacks_cards, overlaps, unless_evicted

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class LostNode(NamedTuple):
    """A node that is of no use, and why, as a clause about it; `gone` says that there is no such node any more,
    `passing` that it may be of use again by itself.
    """

    node: str
    why: str
    gone: bool = False
    passing: bool = False


def losses(state: "ClusterState", held: KnownReservation, *, in_force: bool) -> list[LostNode]:
    """The nodes that the reservation lost, in their order; `in_force` says whether an occurrence has begun."""
    one = held.reservation
    selector = one.nodes.selector
    if selector is None or (one.maintenance and in_force):
        return []
    used = {node for _, node, _ in state.advance.holding(held)}
    found = []
    for name in held.record.nodes:
        known = state.node_objects.get(name)
        if known is None or known[1].deleting:
            found.append(LostNode(name, "is gone", gone=True))
        elif name in used:
            continue
        elif not selector.matches(known[1].labels):
            found.append(LostNode(name, "no longer has the labels"))
        elif not one.maintenance and (why := _useless(one, known[1])):
            found.append(LostNode(name, why, passing=True))
    return found


def replacements(
    state: "ClusterState",
    held: KnownReservation,
    lost: Sequence[LostNode],
    others: Collection[KnownReservation],
    of: Occurrence,
    now: int,
    end_of: EndOf,
) -> dict[str, str]:
    """Which node takes the place of which lost one, as far as there are some: those first of which nothing is in the
    way, then by name. A node that a job may hold beyond the beginning replaces only one that is gone.
    """
    one, ranked = held.reservation, []
    assert one.nodes.selector is not None, "named nodes are taken as they are"
    for name, (_, facts) in state.node_objects.items():
        useless = facts.deleting or lacks_cards(one, facts) or _useless(one, facts)
        if name in held.record.nodes or useless or not one.nodes.selector.matches(facts.labels):
            continue
        if overlaps(state, one, (name,), others, now, held.ended):
            continue
        in_the_way = bool(blockers(state, one, (name,), of, end_of))
        stays = in_the_way and bool(blockers(state, one, (name,), of, unless_evicted(state, one, end_of)))
        ranked.append((stays, in_the_way, name))
    ranked.sort(reverse=True)
    found = {}
    for loss in sorted(lost, key=lambda each: not each.gone):
        if ranked and (loss.gone or not ranked[-1][0]):
            found[loss.node] = ranked.pop()[2]
    return found


def _useless(one: AdvanceReservation, facts: NodeFacts) -> str:
    """Why the node takes no job of the reservation, as a clause; empty where it does."""
    if not facts.ready:
        return "is not ready"
    if facts.unschedulable:
        return "is cordoned"
    if facts.unready is not None:
        return f"has accelerators that are not ready ({facts.unready})"
    return "has fewer cards than are reserved" if lacks_cards(one, facts) else ""
