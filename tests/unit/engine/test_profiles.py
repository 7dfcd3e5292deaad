"""Profiles that follow changes one by one say what profiles made anew say, and classes of pods on them too."""

import random

import numpy as np
import pytest

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.blocks import NEVER_ENDS, Block, Room
from t9ksched.engine.changes import Changes, joined
from t9ksched.engine.class_steps import ClassSteps
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Policy
from t9ksched.engine.profiles import Profiles
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU, node, pod_class, table
from tests.examples import part

NODES = 40


def some(rng: random.Random, resources: int) -> Changes:
    """What a plan takes and gives back on a few nodes."""
    rows = np.array(rng.sample(range(NODES), rng.randint(1, 4)), np.intp)
    begin = rng.randint(1, 30)
    amounts = np.array([[rng.randint(0, 3) for _ in rows] for _ in range(resources)], np.int64)
    at = np.repeat(np.array([begin, begin + rng.randint(1, 20)], np.int64), len(rows))
    return at, np.concatenate([rows, rows]), np.concatenate([-amounts, amounts], axis=1)


def made(free: Int64s, changes: Changes, owners: Indices) -> Profiles:
    """Profiles with these changes from the beginning."""
    profiles = Profiles(free, 0, changes[1])
    for _ in profiles.change(None, {}, changes, owners):
        pass
    return profiles


def least(free: Int64s, changes: Changes, start: int, until: int) -> Int64s:
    """What `Profiles.least` says, moment by moment."""
    at, rows, amounts = changes
    moments = sorted({start, *(one for one in at.tolist() if start < one < until)})
    found = []
    for moment in moments:
        left = free.copy()
        for change in np.flatnonzero(at <= moment).tolist():
            left[:, rows[change]] += amounts[:, change]
        found.append(left)
    lowest: Int64s = np.minimum.reduce(found)
    return lowest


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("a_slice", [2_048, 7])
def test_changes_one_by_one(seed: int, a_slice: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.engine.profiles._SLICE", a_slice)
    rng = random.Random(seed)
    nodes = table(node(f"n{at:02}", gpu=8, cpu=100) for at in range(NODES))
    trial = Trial(nodes.freeze(), FeasibilityCache(), Policy())
    columns = [trial.column(None, pod_class(cpu=1, memory=0, gpu=cards)) for cards in (1, 2)]
    free = trial.free
    owned = {number: some(rng, len(free)) for number in range(20)}
    changes = joined(len(free), list(owned.values()))
    owners = np.concatenate([np.full(len(one[0]), number, np.intp) for number, one in owned.items()])
    profiles = made(free, changes, owners)
    steps = [ClassSteps(profiles, column) for column in columns]
    for turn in range(60):
        gone = {number: owned.pop(number) for number in rng.sample(sorted(owned), rng.randint(0, 3))}
        came = [(100 * turn + 100 + at, some(rng, len(free))) for at in range(rng.randint(0, 4))]
        # At times one node has very many steps, so that it needs more places.
        came += [(100 * turn + 150 + at, some(rng, len(free))) for at in range(40 if not turn % 20 else 0)]
        owned.update(came)
        if rng.random() < 0.3:
            free[:, rng.randrange(NODES)] -= rng.randint(-1, 1)
            trial.state += 1
        numbers = np.repeat(np.array([at for at, _ in came], np.intp), [len(one[0]) for _, one in came])
        for _ in profiles.change(free, gone, joined(len(free), [one for _, one in came]), numbers):
            pass
        asked = steps if turn % 3 else steps[:1]
        changes = joined(len(free), list(owned.values()))
        fresh = made(free, changes, np.zeros(len(changes[0]), np.intp))
        start, until = sorted(rng.sample(range(50), 2))
        expected = least(free, changes, start, until)
        np.testing.assert_array_equal(profiles.least(start, until), expected)
        rows = np.array(sorted(rng.sample(range(NODES), 3)), np.intp)
        np.testing.assert_array_equal(profiles.least_on(rows, start, until), expected[:, rows])
        for one in asked:
            again = ClassSteps(fresh, one.column)
            for mine, theirs in zip(one.supply(), again.supply(), strict=True):
                np.testing.assert_array_equal(mine, theirs)
            rooms = one.column.rooms(expected)
            np.testing.assert_array_equal(one.open_rows(start, until), np.flatnonzero(rooms))
            for row in np.flatnonzero(rooms).tolist():
                assert one.fit(row, start, until) == rooms[row]
            at, supply = one.supply()
            assert int(one.column.rooms(free).sum()) == supply[0]
            assert at[0] == 0
            assert one.from_now(until) == int(one.column.rooms(least(free, changes, 0, until)).sum())
            assert one.supplied(until) == int(supply[at < until].min())
            assert one.supplied(NEVER_ENDS) == int(supply.min())
    assert GPU in trial.nodes.static.resources


def test_what_does_not_end_gives_nothing_back() -> None:
    nodes = table(node(f"n{at:02}", gpu=8, cpu=100) for at in range(NODES))
    trial = Trial(nodes.freeze(), FeasibilityCache(), Policy())
    rng, free = random.Random(1), trial.free
    owned = [some(rng, len(free)) for _ in range(30)]
    owners = np.repeat(np.arange(30), [len(one[0]) for one in owned])
    profiles = made(free, joined(len(free), owned), owners)
    rest = joined(len(free), [one for number, one in enumerate(owned) if number not in (3, 7)])
    np.testing.assert_array_equal(profiles.least(0, 40, {3, 7}), least(free, rest, 0, 40))


@pytest.mark.parametrize("cards", [1, 2])
def test_where_a_plan_is_left_out_what_may_fit_is_never_denied(cards: int) -> None:
    rng, answers = random.Random(cards), set()
    nodes = table(node(f"n{at:02}", gpu=8, cpu=100) for at in range(NODES))
    trial = Trial(nodes.freeze(), FeasibilityCache(), Policy())
    of = pod_class(cpu=1, memory=0, gpu=cards)
    column, free = trial.column(None, of), trial.free
    for _ in range(part(200)):
        others = joined(len(free), [some(rng, len(free)) for _ in range(rng.randint(20, 120))])
        at, lasts = rng.randint(2, 40), rng.choice((0, *range(1, 25)))
        until = at + lasts if lasts else 0
        places = [rng.randrange(NODES) for _ in range(rng.randint(1, 6))]
        reserved = tuple(
            Reservation("own", f"n{row:02}", of, ReservationKind.PLANNED, since=at, until=until) for row in places
        )
        own = Block(reserved, Room([(column, row, 1) for row in places]))
        laid = joined(len(free), [others, own.changes])
        steps = ClassSteps(made(free, laid, np.arange(len(laid[0]))), column)
        moments = np.array(sorted(rng.sample(range(at), rng.randint(1, min(at, 9)))), np.int64)
        fits = [
            column.rooms(least(free, others, one, one + lasts if lasts else NEVER_ENDS)) for one in moments.tolist()
        ]
        most = max(int(one.sum()) for one in fits)
        assert steps.may_fit(most, moments, lasts, own)
        answers.add(steps.may_fit(most + 1, moments, lasts, own))
        assert not steps.may_fit(most + 200, moments, lasts, own)
    assert False in answers
