"""A failure must be readable: the last moment of a history as small tables, and the promise that was broken."""

import pytest

from t9ksched.engine.planner import Assignment, Eviction, Plan, Stats, Waiting, plan
from t9ksched.engine.policy import Policy
from t9ksched.model.cards import CardGrant
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU
from tests.property.promises import Broken, judge
from tests.property.tables import picture
from tests.property.world import CLASSES, SHAPES, Group, Node, Pod, Queue, World

PREEMPT = Policy(actions=("allocate", "preempt"))


def small() -> World:
    """Two nodes; one low gang runs on one of them, a high one wants both, a third runs out of quota."""
    world = World()
    world.put(Node("n0", 4, "a"))
    world.put(Node("n1", 4, "b"))
    world.queues = {
        "low": Queue("low", quota={GPU: 4}),
        "high": Queue("high", 5, ordering="Strict", preemptible=False),
    }
    world.create(Group("g1", "low", 0, 1, 1, {}), [(SHAPES["four"], "")])
    world.apply(plan(world.view(), PREEMPT, world.now), set())
    world.create(Group("g2", "high", 1, 2, 2, {"lead": 1}), [(SHAPES["four"], "lead"), (SHAPES["four"], "")])
    world.create(Group("g3", "low", 0, 3, 1, {}), [(SHAPES["card"], "")])
    world.foreign["x9"] = pod = Pod("x9", "", "", SHAPES["web"])
    world.bind(pod, "n1", 0)
    return world


def test_a_moment_as_tables() -> None:
    world = small()
    world.holds = (Reservation("g2", "n1", CLASSES["four"], ReservationKind.VICTIMS),)
    made = Plan(
        assignments=(Assignment("g3", "g3.4", "n1", 1, grant=CardGrant.of({GPU: [1, 3]})),),
        waiting=(Waiting("g2", (Reason(Code.INSUFFICIENT_RESOURCES, "needs more"),)),),
        surplus=(Waiting("g1", (Reason(Code.QUOTA_EXCEEDED, "too much"),)),),
        stats=Stats(),
        evictions=(Eviction("g1", "g1.1", "g2", "why"),),
        reservations=(Reservation("g2", "n0", CLASSES["four"], ReservationKind.VICTIMS),),
    )
    assert (
        picture(world, made, ["g1 arrives in low", "cycle: 1 placed, 0 evicted"])
        == """\
happened: g1 arrives in low; cycle: 1 placed, 0 evicted
NODE  ZONE  CPU  CARDS  STATE  PODS
n0    a     2/8  4/4    -      g1.1:four
n1    b     1/8  0/4    -      x9:web
QUEUE  PRIORITY  QUOTA             USED              ZONE  ORDERING    STATE
low    0         nvidia.com/gpu=4  nvidia.com/gpu=4  -     BestEffort  -
high   5         -                 -                 -     Strict      safe
GANG  QUEUE  PRIORITY  AGE  NEEDS     WAITS                RUNS
g1    low    0         1    1         -                    g1.1@n0
g2    high   1         2    2+1 lead  g2.2:four g2.3:four  -
g3    low    0         3    1         g3.4:card            -
HELD-FOR  ON
g2        n1
DECISION
g3.4 → n1 cards 1,3
g2 waits: InsufficientResources (needs more)
g1 does not grow: QuotaExceeded
g1.1 goes for g2
room on n0 is held for g2"""
    )


def test_a_broken_promise_is_named() -> None:
    world = small()
    found = plan(world.view(), PREEMPT, world.now)
    vain = Plan(found.assignments, found.waiting, found.surplus, found.stats, found.evictions)
    with pytest.raises(Broken, match=r"^6 no victim goes in vain: g2 needs 2 places, 0 are held$"):
        judge(world, vain, PREEMPT)
    with pytest.raises(Broken, match=r"^5 only those who may be victims: g1.1 for g2: its queue is safe$"):
        judge(world, found, Policy())
