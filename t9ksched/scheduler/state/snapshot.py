"""Takes the view that the engine plans on from the state, without changing the state."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from t9ksched.engine.view import QueueState, View
from t9ksched.model.gang import ExpectedEnd, Gang, Running
from t9ksched.model.quantity import CARDS
from t9ksched.model.reserved_room import ReservedRoom

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


def snapshot(
    state: "ClusterState",
    gangs: Iterable[Gang],
    running: Sequence[Running] = (),
    expected_ends: tuple[ExpectedEnd, ...] = (),
    advance: tuple[ReservedRoom, ...] = (),
) -> View:
    """A frozen view of nodes, queues and reservations, with these waiting gangs. `running` are possible victims, for a
    policy that preempts, `expected_ends` for one that plans starts; `advance` is what administrators reserved.
    """
    counts_cards = any(CARDS in queue.spec.quota for queue in state.queues.values())
    queues = {
        name: QueueState(queue.spec, state.charges.used(name, cards=counts_cards), queue.draining)
        for name, queue in state.queues.items()
    }
    nodes, reserved = state.nodes.freeze(), state.reservations.in_force()
    if not state.affinity_index:
        return View(
            nodes,
            queues,
            tuple(gangs),
            reserved,
            running,
            expected_ends=expected_ends,
            reserved=advance,
            usual=state.usual.shapes(),
        )
    labelled = state.affinity_index.labelled(gangs)
    there, labels = state.affinity_index.present(), state.namespaces.labels
    return View(nodes, queues, labelled, reserved, running, there, labels, expected_ends, advance, state.usual.shapes())
