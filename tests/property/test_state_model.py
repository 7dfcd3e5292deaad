"""Random histories of everything the scheduler's state hears: what it says is what a look at all objects finds."""

import os
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from t9ksched.model.gang import Gang
from t9ksched.scheduler.state.admission_pass import AdmissionPass, _Seen
from t9ksched.scheduler.state.changes import Changes
from t9ksched.scheduler.state.group_events import GroupEvents
from t9ksched.scheduler.state.node_backoff import NodeBackoff
from t9ksched.scheduler.state.standing import Judgement
from t9ksched.scheduler.state.state import ClusterState
from tests.examples import part
from tests.property.statemodel import Model
from tests.property.staterebuilt import compare
from tests.property.stateworld import World

HISTORIES, STEPS = part(int(30 * float(os.environ.get("T9KSCHED_HISTORIES_PART", "1")))), 80


def play(seed: int) -> World:
    world = World(seed)
    model = Model(world)
    try:
        model.check()
        for _ in range(STEPS):
            world.step()
            model.check()
            if world.due():
                world.cycle()
                model.check()
                model.written()
            else:
                assert world.decide() == [], "something could start, and nothing woke the loop"
            if len(world.log) % 10 == 0:
                compare(world)
            due = world.state.next_retry()
            assert due is None or due > world.now, "the loop would look again and again"
    except Exception as error:
        raise AssertionError(f"history {seed}, step {len(world.log)}: {world.log[-5:]}") from error
    return world


def test_the_state_is_what_a_look_at_everything_finds() -> None:
    for seed in range(HISTORIES):
        play(seed)


@pytest.mark.soak
def test_the_state_is_what_a_look_at_everything_finds_in_the_long_run() -> None:
    for seed in range(10_000, 11_500):
        play(seed)


@pytest.mark.parametrize("planning", [False, True])
def test_verdicts_that_stand_are_what_would_be_found_anew(planning: bool) -> None:
    """Also of a group that the pass does not look at, and of one that may not start."""
    stood, as_of_now, new = Counter[bool](), AdmissionPass._as_of_now, World._new

    def made(self: World) -> ClusterState:
        state = new(self)
        if planning:
            state.expect_ends(300, 600)
        return state

    def judged(self: AdmissionPass, seen: _Seen, now: int) -> tuple[Gang, ...]:
        shown = as_of_now(self, seen, now)
        assert self._starting.keys() <= self._state.pending.keys()
        assert self._due.keys() | set(self._standing) == self._state.pending.keys()
        owners, groups = self._state.owners.controllers, self._state.gangs_of_owner
        doubted = {gang for owner in self._doubted for uid in owners(owner) for gang in groups(uid)}
        for record in set(self._standing) - self._due.keys() - doubted:
            kept, ends, reasons = self._standing._kept[record], list(self.ends), record.reasons
            before = record.snapshot() if kept.starts else None
            assert self._starting[record] is before
            record.judged = (0, 0)
            assert self._shown(record, now) == Judgement(before, kept.until, kept.alone)
            assert record.reasons == reasons
            self.ends = ends
            stood[kept.starts] += 1
        return shown

    with patch.object(AdmissionPass, "_as_of_now", judged), patch.object(World, "_new", made):
        for seed in range(part(20)):
            play(seed)
    assert stood[True] > part(300)
    assert stood[False] > part(300)


FAULTS: dict[str, tuple[type, str, Any, int]] = {
    "a queue that a group left keeps its numbers": (
        Changes,
        "count",
        lambda self, gang: (self._state.counts.group(gang), gang.queue)[1],
        1,
    ),
    "a group stays its former owner's": (GroupEvents, "disown", lambda self, gang: None, 4),
    "the loop looks without end while nodes are avoided": (NodeBackoff, "forget", lambda self, now: None, 38),
}
"""What is replaced by what, and a history that showed it when this was written: it is played first."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str) -> None:
    where, name, broken, first = FAULTS[fault]
    with patch.object(where, name, broken), pytest.raises(AssertionError):
        _many(first)


def _many(first: int) -> None:
    for seed in (first, *range(100)):
        play(seed)
