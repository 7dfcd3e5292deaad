"""What a cycle held goes as soon as its plan was taken: nothing of it waits for the garbage collector."""

import gc
from collections import Counter

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Packing, Planning, Policy
from t9ksched.engine.view import View
from t9ksched.model.cards import CardGrant
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU, gang, node, pod_class, queue, running, view

NOW = 1 << 40
WHOLE, ONE = pod_class(gpu=8), pod_class(gpu=1)
QUEUES = {"low": queue(), "high": queue(priority=1)}


def given() -> View:
    """Twelve of sixteen nodes are full; gangs wait for them, for victims, for one rack, and for a promise, or start."""
    live = NodeTable()
    low = []
    for at in range(16):
        row = live.upsert(node(f"n{at:02}", gpu=8, labels={"rack": f"r{at // 4}"}))
        if at < 12:
            low.append(
                running(f"g{at}", "low", [f"n{at:02}"], of=WHOLE, cards=[255], created=at, leaving=[0] * (at < 2))
            )
            live.charge(row, WHOLE, CardGrant.packed({GPU: 255}))
    waiting = [gang(f"w{at}", "low", 4, of=pod_class(cpu=f"{1000 + at}m", gpu=8), created=at) for at in range(6)]
    waiting += [gang("promised", "high", 1, of=WHOLE, accepted=True), gang("many", "high", 7, of=WHOLE)]
    waiting += [structs.replace(gang("near", "high", 2, of=ONE), topology="Required", levels=("rack",))]
    waiting += [gang(f"s{at}", "high", 1, of=ONE, created=at) for at in range(12)]
    promised = [Reservation("promised", "n00", WHOLE, ReservationKind.VICTIMS, until=1 << 60)]
    return view(live, waiting, QUEUES, running=tuple(low), reservations=promised)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(actions=("allocate", "preempt")),
        Policy(actions=("allocate", "preempt"), planning=Planning()),
        Policy(packing=Packing()),
    ],
    ids=["allocate", "preempt", "planning", "packing"],
)
def test_nothing_of_a_cycle_is_left(policy: Policy) -> None:
    memory, same = Memory(), given()
    plan(same, policy, NOW, memory)
    plan(same, policy, NOW, memory)
    while gc.collect():  # what other tests left may be found in several rounds
        pass
    gc.disable()
    try:
        made = plan(same, policy, NOW, memory)
        assert made.waiting
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("t9ksched."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left
