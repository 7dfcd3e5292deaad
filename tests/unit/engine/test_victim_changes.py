"""Columns of running groups that were followed are those that are made anew, and only what changed is looked at."""

import random
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from msgspec import structs

from t9ksched.engine.gang_changes import came_and_went
from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.victims import victim_changes
from t9ksched.engine.victims.victim_table import VictimTable, dense_ranks
from t9ksched.engine.work import Meter, finish
from t9ksched.model.gang import Running
from tests.builders import GPU, node, pod_class, running, table, view

COLUMNS = [
    *["sizes", "queue_of", "priority", "started", "evictions", "guarded", "created", "youth", "grace", "ranking"],
    *["row", "staying", "asked", "freed", "group_of", "unit_of"],
    *["unit_group", "unit_size", "is_surplus", "first_unit"],
]
CLASSES = [pod_class(cpu=1 + at % 3, gpu=at % 2) for at in range(5)]


class Cluster:
    """Groups that run, come and go."""

    def __init__(self, seed: int) -> None:
        self.rng, self.came = random.Random(seed), 0
        self.live: NodeTable = table(
            node(f"n{at}", cpu=8, gpu=4, unusable={GPU: 5} if at == 2 else None) for at in range(6)
        )
        self.groups: list[Running] = [self.made() for _ in range(40)]

    def made(self) -> Running:
        rng = self.rng
        self.came += 1
        pods = rng.choice([1, 1, 1, 2, 5])
        return running(
            f"g{rng.randrange(1000)}-{self.came}",
            queue=rng.choice("abcd"),
            on=[f"n{rng.randrange(7)}" for _ in range(pods)],
            of=CLASSES[nth := rng.randrange(5)],
            cards=[rng.randrange(1, 16) if nth % 2 else 0 for _ in range(pods)],
            min_member=rng.randint(1, pods),
            leaving=[at for at in range(pods) if rng.random() < 0.1],
            priority=rng.choice([0, 0, 3]),
            created=rng.randrange(20),
            guarded=rng.random() < 0.1,
        )

    def step(self) -> None:
        rng = self.rng
        for _ in range(rng.choice([0, 1, 1, 2, 4])):
            at = rng.randrange(len(self.groups))
            what = rng.choice(["end", "come", "change", "queue"])
            if what == "end" and len(self.groups) > 20:
                del self.groups[at]
            elif what == "come":
                self.groups.append(self.made())
            elif what == "change":
                self.groups[at] = structs.replace(self.groups[at], guarded=not self.groups[at].guarded)
            else:
                self.groups[at] = structs.replace(self.groups[at], queue=rng.choice("abcde"))


def compare(found: VictimTable, expected: VictimTable) -> None:
    assert list(found.groups) == list(expected.groups)
    pods = range(len(expected.row))
    assert [found.pod(at) for at in pods] == [expected.pod(at) for at in pods]
    assert found.queues == expected.queues
    assert found.above == expected.above
    assert found.simple == expected.simple
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    units = np.arange(len(expected.unit_group))
    assert np.array_equal(found.pods_of(units), expected.pods_of(units))
    assert [found.classes[at] for at in found.kind] == [expected.classes[at] for at in expected.kind]
    assert [found.pays[at] for at in found.kind] == [expected.pays[at] for at in expected.kind]


@pytest.mark.parametrize("seed", range(30))
def test_followed_columns_are_those_made_anew(seed: int) -> None:
    cluster = Cluster(seed)
    static = view(cluster.live, (), {}).nodes.static
    found = finish(VictimTable.of(tuple(cluster.groups), static, Meter()))
    for _ in range(15):
        cluster.step()
        groups = tuple(cluster.groups)
        with patch.object(victim_changes, "_PART", 1):
            found = finish(victim_changes.followed(found, groups, Meter()))
        compare(found, finish(VictimTable.of(groups, static, Meter())))


def test_only_groups_that_changed_are_looked_at() -> None:
    cluster = Cluster(1)
    cluster.groups = [running(f"g{at:05}", on=["n1"], of=CLASSES[at % 5]) for at in range(5000)]
    static, looked = view(cluster.live, (), {}).nodes.static, []

    def fill(self: VictimTable, meter: Meter):  # type: ignore[no-untyped-def]
        looked.append(len(self.source))
        return (yield from original(self, meter))

    original, found = VictimTable.fill, finish(VictimTable.of(tuple(cluster.groups), static, Meter()))
    cluster.groups[17] = structs.replace(cluster.groups[17], guarded=True)
    del cluster.groups[2500]
    cluster.groups.append(running("g9", on=["n2"], of=CLASSES[0]))
    with patch.object(VictimTable, "fill", fill):
        found = finish(victim_changes.followed(found, tuple(cluster.groups), Meter()))
    assert looked == [2]
    compare(found, finish(VictimTable.of(tuple(cluster.groups), static, Meter())))


def changes(before: Sequence[Running], after: Sequence[Running]) -> tuple[list[str], list[str]]:
    came, went = finish(came_and_went(before, after, Meter()))
    return sorted(one.uid for one in came), sorted(one.uid for one in went)


@pytest.mark.parametrize("seed", range(20))
def test_what_came_and_went_is_found_anywhere_among_others(seed: int) -> None:
    rng = random.Random(seed)
    before = [running(f"g{at}", on=["n1"]) for at in range(rng.choice([5, 300, 6000]))]
    after = before.copy()
    came, went = [], []
    for nth in range(rng.choice([1, 3, 40, 600])):
        if len(after) > 3 and rng.random() < 0.5:
            one = after.pop(rng.randrange(len(after)))
            (came if one.uid in came else went).append(one.uid)
            if one.uid in came:
                came = [uid for uid in came if uid != one.uid]
        else:
            after.insert(rng.randrange(len(after) + 1), running(f"new{nth}", on=["n1"]))
            came.append(f"new{nth}")
    assert changes(before, after) == (sorted(came), sorted(went))


def test_queues_and_leaving_pods_are_counted_as_groups_come_and_go() -> None:
    memory, first = Memory(), (running("a", "p", on=["n"]), running("b", "q", on=["n"], leaving=[0]))
    assert memory.queues(first) == {"p", "q"}
    assert memory.leave(first)
    assert memory.queues(first[:1]) == {"p"}
    assert not memory.leave(first[:1])
    assert memory.queues(()) == set()


@pytest.mark.parametrize("span", [1, 5, 1000, 10**12])
def test_dense_ranks_are_positions_among_distinct_values(span: int) -> None:
    values = np.random.default_rng(span).integers(-span, span + 1, 200)
    assert np.array_equal(dense_ranks(values), np.unique(values, return_inverse=True)[1])
    assert not len(dense_ranks(values[:0]))


def test_of_groups_of_one_age_the_first_by_uid_is_the_youngest() -> None:
    groups = [running(f"g{at}", on=["n0"], created=created) for at, created in enumerate([3, 1, 3, 1, 2])]
    static = view(Cluster(0).live, (), {}).nodes.static
    assert finish(VictimTable.of(groups, static, Meter())).youth.tolist() == [4, 1, 3, 0, 2]
