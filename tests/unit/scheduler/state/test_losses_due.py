"""Of gangs that lost members those are looked at again of which something changed, however many others there are."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from t9ksched.model.cards import NO_CARDS
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.state.losses import Loss
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.refill import Refills
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

SECOND = 1_000_000_000
GANGS = 40
"""Each of two members on two nodes of its own, of which it lost one member."""


def running(gang: int, member: int) -> Any:
    made = pod(f"{gang}-{member}", group=f"g{gang}", node=f"n{gang}-{member}", uid=f"{gang}-{member}")
    made.status.phase = "Running"
    return made


@pytest.fixture
def state() -> ClusterState:
    nodes = (node(f"n{gang}-{member}") for gang in range(GANGS) for member in range(2))
    made = state_with(*nodes, queues={"q": {}})
    for gang in range(GANGS):
        made.upsert_group(group(f"g{gang}", 2))
        for member in range(2):
            made.upsert_pod(running(gang, member))
    made.settle()
    for gang in range(GANGS):
        made.remove_pod(f"{gang}-1")
    return made


@pytest.fixture
def looks() -> Iterator[list[str]]:
    """The gangs that are looked at."""
    found: list[str] = []
    look = Refills._look

    def looked(self: Refills, gang: GangRecord, losses: list[Loss]) -> None:
        found.append(gang.name)
        look(self, gang, losses)

    with patch.object(Refills, "_look", looked):
        yield found


def test_a_gang_is_looked_at_when_something_of_it_changed(state: ClusterState, looks: list[str]) -> None:
    state.follow_losses(NOW)
    assert len(looks) == len(state.refills.reservations) == GANGS
    looks.clear()
    of = state.refills.reservations[0].pod_class

    def changes(what: str) -> list[str]:
        del what, looks[:]
        state.follow_losses(NOW + SECOND)
        state.follow_losses(NOW + SECOND)
        return looks

    assert changes("nothing") == []
    state.upsert_pod(pod("3-new", group="g3", uid="3-new"))
    assert changes("a member is made anew") == ["g3"]
    state.upsert_node(node("n4-1", unschedulable=True))
    assert changes("its node is of no use") == ["g4"]
    for nth in range(8):
        state.charges.charge(f"other-{nth}", "n5-1", of, "", NO_CARDS)
    assert changes("its room is taken") == ["g5"]
    state.reservations.promised["group-g6"] = (Reservation("group-g6", "n6-1", of, ReservationKind.VICTIMS),)
    assert changes("it is promised all that it lacks") == ["g6"]
    state.reservations.refused["p"] = Reservation("group-g7", "n7-1", of, ReservationKind.BINDING)
    assert changes("the place of a refused member is kept") == ["g7"]
    state.gangs["ns", "g8"].unpermitted = Reason(Code.NOT_PERMITTED, "no")
    assert changes("it may not use its queue") == ["g8"]
    homeless = [one for one in state.refills.reservations if not one.node]
    assert [one.owner for one in homeless] == ["group-g4", "group-g5"]


def test_looks_are_taken_in_steps_and_each_gang_is_looked_at_once(state: ClusterState, looks: list[str]) -> None:
    with patch("t9ksched.scheduler.state.refill._A_STEP", 10):
        steps = sum(1 for _ in state.following_losses(NOW))
    assert steps >= GANGS // 10
    assert sorted(looks) == sorted(f"g{gang}" for gang in range(GANGS))
