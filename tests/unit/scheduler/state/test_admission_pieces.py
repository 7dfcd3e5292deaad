"""What waits is judged in pieces that do not grow with its number; what changes meanwhile is shown as it is at last."""

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock, patch

import pytest

from t9ksched.engine.work import finish
from t9ksched.model.gang import Gang
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.state import admission_pass
from t9ksched.scheduler.state.admission_pass import AdmissionPass
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.standing import Judgement
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import JobControl
from tests.counting import pieces
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

LINES = 60_000
"""About six milliseconds."""


@contextmanager
def looks() -> Iterator[list[str]]:
    """The names of the groups that are looked at meanwhile."""
    found: list[str] = []
    look = AdmissionPass._look

    def count(self: AdmissionPass, record: GangRecord, *rest: Any) -> int:
        found.append(record.name)
        return look(self, record, *rest)

    with patch.object(AdmissionPass, "_look", count):
        yield found


def waiting(pods: int) -> ClusterState:
    state = state_with(node(gpus=8), queues={"q": {}})
    for at in range(pods):
        state.upsert_pod(pod(f"p{at}", queue="q"))
    return state


def test_jobs_that_come_at_once_are_judged_in_pieces_and_so_are_those_that_wait_on() -> None:
    state = waiting(6000)
    for _ in range(2):
        found, gangs = pieces(state.judge(NOW))
        assert len(gangs) == 6000
        assert max(found) <= LINES
        assert sum(found) >= 6000, "all that is done is counted"


def test_only_groups_that_changed_are_judged_again() -> None:
    state = waiting(500)
    finish(state.judge(NOW))
    state.direct({"pod-p7": JobControl("pod-p7", held=True)})
    state.upsert_pod(pod("late", queue="q"))
    judged: list[str] = []
    shown = AdmissionPass._shown

    def show(self: AdmissionPass, record: GangRecord, now: int) -> Judgement:
        judged.append(record.name)
        return shown(self, record, now)

    with patch.object(AdmissionPass, "_shown", show):
        assert len(finish(state.judge(NOW + 1))) == 500
        assert sorted(set(judged)) == ["late", "p7"]
        state.direct({})
        judged.clear()
        state.set_queues([Queue("q", parse_queue_spec({"priority": 2}))])
        assert len(finish(state.judge(NOW + 2))) == 501
        assert len(judged) == 501, "a queue changed, so all are judged"


def test_groups_that_may_start_as_before_are_not_looked_at() -> None:
    state = waiting(500)
    for _ in range(2):
        finish(state.judge(NOW))
    with looks() as looked:
        assert len(finish(state.judge(NOW + 1))) == 500
        assert not looked
        state.upsert_pod(pod("late", queue="q"))
        state.upsert_pod(pod("p7", queue="q", node="n1", phase="Running"))
        state.clocks.reserve("pod-p8", NOW + 1)
        assert len(finish(state.judge(NOW + 2))) == 500
        assert looked == ["p8", "late"]
        for change in (
            lambda: state.set_queues([Queue("q", parse_queue_spec({"priority": 2}))]),
            state.clock_set,
            lambda: state.expect_ends(0, 600),
        ):
            finish(state.judge(NOW + 3))
            looked.clear()
            change()
            finish(state.judge(NOW + 3))
            assert len(looked) == 500, "what changed concerns all"


def test_a_pass_costs_what_changed_and_not_what_waits() -> None:
    spent: list[int] = []
    for many in (500, 5000):
        state = waiting(many)
        state.reservations.promised["pod-p1"] = Mock()
        for _ in range(2):
            finish(state.judge(NOW))
        state.upsert_pod(pod("late", queue="q"))
        state.upsert_pod(pod("p7", queue="q", node="n1", phase="Running"))
        found, gangs = pieces(state.judge(NOW + 1))
        assert len(gangs) == many
        assert list(state.reservations.promised) == ["pod-p1"]
        spent.append(sum(found))
    assert spent[0] == spent[1]


def test_groups_are_looked_at_in_the_order_in_which_they_began_to_wait() -> None:
    state = waiting(3)
    other = state.feed.holding.follow()
    finish(state.judge(NOW))
    for name in ("b", "a"):
        state.upsert_pod(pod(name, queue="q"))
    other.take()
    state.upsert_pod(pod("b", queue="q", labels={"new": "1"}))
    with looks() as looked:
        finish(state.judge(NOW + 1))
    assert looked == ["b", "a"]


def test_groups_that_changed_are_settled_in_pieces() -> None:
    state = waiting(6000)
    found, _ = pieces(state.changes.settling())
    assert len(state._pending) == 6000
    assert max(found) <= LINES


class World:
    """Groups that wait, and what may happen to them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.state = waiting(20)
        self.made = 0
        for at in range(10):
            self.state.upsert_group(group(f"g{at}", 2))
            for member in range(2):
                self.state.upsert_pod(pod(f"g{at}-{member}", group=f"g{at}"))

    def happen(self) -> None:
        rng, state = self.rng, self.state
        name, of = (f"p{rng.randrange(20)}", "") if rng.random() < 0.5 else (f"g{rng.randrange(10)}-0", "g")
        belongs: dict[str, Any] = {"group": name.partition("-")[0]} if of else {"queue": "q"}
        match rng.choice(["gone", "bound", "again", "leaving", "late", "ungrouped", "hold", ""]):
            case "gone":
                state.remove_pod(f"pod-{name}")
            case "bound":
                state.upsert_pod(pod(name, node="n1", phase="Running", **belongs))
            case "again":
                state.upsert_pod(pod(name, **belongs))
            case "leaving":
                state.upsert_pod(pod(name, deleting=True, **belongs))
            case "late":
                self.made += 1
                state.upsert_pod(pod(f"late{self.made}", queue="q"))
            case "ungrouped":
                state.remove_group(group(f"g{rng.randrange(10)}", 2))
            case "hold":
                held = [uid for uid in state.gangs_by_uid if rng.random() < 0.1]
                state.direct({uid: JobControl(uid, held=True) for uid in held})


@pytest.mark.parametrize("seed", range(50))
def test_a_pass_shows_every_group_as_it_is_at_its_end(seed: int) -> None:
    world = World(seed)
    with patch.object(admission_pass, "_WORK_A_STEP", 40):
        steps: Generator[None, None, tuple[Gang, ...]] = world.state.judge(NOW)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found = {gang.uid: gang for gang in end.value}
                break
            for _ in range(world.rng.randrange(3)):
                world.happen()
    again = {gang.uid: gang for gang in pieces(world.state.judge(NOW))[1]}
    for uid, gang in found.items():
        assert again.get(uid) == gang, "what is shown is so"
    world.state.clock_set()
    assert {gang.uid: gang for gang in pieces(world.state.judge(NOW))[1]} == again, "as if all were looked at"


def test_a_group_that_is_forgotten_during_a_pass_is_not_shown() -> None:
    state = waiting(20)
    with patch.object(admission_pass, "_WORK_A_STEP", 40):
        steps = state.judge(NOW)
        next(steps)
        first = state.pods["pod-p0"]
        state.leave_none(first)
        _, gangs = pieces(steps)
    assert len(gangs) == 19
    assert first.uid not in {gang.uid for gang in gangs}
