"""Marking groups that budgets guard: what is kept from cycle to cycle says the same as a look at everything."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.budgets import Budgets, DisruptionBudget
from t9ksched.scheduler.state.guarded_groups import GuardedGroups
from t9ksched.scheduler.state.records import PodRecord
from tests.counting import Lines

SPACES = ("a", "b")
CLASS = PodClass()


class World:
    """Groups, pods and budgets that change at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.budgets = Budgets()
        self.pods: dict[str, PodRecord] = {}
        self.groups: dict[str, Running] = {}
        self.queues = self._queues()
        self.made = 0

    def _queues(self) -> dict[str, Queue]:
        return {name: Queue(name, parse_queue_spec({"priority": self.rng.randrange(3)})) for name in ("p", "q")}

    def _group(self, uid: str) -> Running:
        rng = self.rng
        space = self.groups[uid].name.partition("/")[0] if uid in self.groups else rng.choice(SPACES)
        members = []
        for at in range(rng.randint(1, 3)):
            name = f"{uid}-{at}"
            if name not in self.pods or rng.random() < 0.3:
                self.pods[name] = PodRecord(name, space, name, True, CLASS, labels=self._labels())
            members.append(RunningPod(name, f"{space}/{name}", "", CLASS, "n", leaving=rng.random() < 0.1))
        least = rng.randint(1, len(members))
        queue, priority, age = rng.choice(("p", "q", "none")), rng.randrange(2), rng.randrange(4)
        return Running(uid, f"{space}/{uid}", queue, tuple(members), priority, age, min_member=least)

    def _labels(self) -> dict[str, str]:
        return {"app": self.rng.choice("xyz")}

    def come(self) -> None:
        for _ in range(self.rng.choice((1, 1, 1, 80))):
            self.made += 1
            self.groups[f"g{self.made}"] = self._group(f"g{self.made}")

    def change(self) -> None:
        for uid in self._some():
            self.groups[uid] = self._group(uid)

    def go(self) -> None:
        for uid in self._some():
            del self.groups[uid]

    def _some(self) -> list[str]:
        return self.rng.sample(sorted(self.groups), min(len(self.groups), self.rng.choice((1, 2, 70))))

    def copy(self) -> None:
        """An equal value in place of a group."""
        for uid in self._some():
            self.groups[uid] = structs.replace(self.groups[uid])

    def relabel(self) -> None:
        for uid in self._some():
            self.pods[self.groups[uid].pods[0].uid].labels = self._labels()
            self.budgets.relabelled(uid)

    def budget(self) -> None:
        rng = self.rng
        selectors: list[Any] = [None, {}, {"matchLabels": {"app": rng.choice("xyz")}}, {"matchLabels": "no mapping"}]
        meta = {"name": f"b{rng.randrange(3)}", "namespace": rng.choice(SPACES)}
        spec = {"selector": rng.choice(selectors[1:3] * 3 + selectors)}
        obj = {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": rng.choice((0, 1, 3, 50))}}
        item = decoder(DisruptionBudget)(obj)
        (self.budgets.remove if rng.random() < 0.2 else self.budgets.upsert)(item)

    def requeue(self) -> None:
        self.queues = self._queues()

    def nothing(self) -> None:
        """Two cycles without a change between them."""


def changed(before: Mapping[str, Running], now: Mapping[str, Running]) -> dict[str, Running | None]:
    """The groups that are not the same objects, and None for those that went."""
    fresh = {uid: group for uid, group in now.items() if before.get(uid) is not group}
    return {**dict.fromkeys(before.keys() - now.keys()), **fresh}


CHANGES = ("come", "change", "go", "copy", "relabel", "budget", "budget", "requeue", "nothing")


@given(st.integers(0, 10**9), st.lists(st.sampled_from(CHANGES), min_size=3, max_size=25))
@settings(max_examples=150, deadline=None)
def test_what_is_kept_says_the_same(seed: int, changes: list[str]) -> None:
    world = World(seed)
    kept = GuardedGroups(world.budgets, world.pods)
    told: tuple[Running, ...] = ()
    before: dict[str, Running] = {}
    for change in ("come", "budget", *changes):
        getattr(world, change)()
        other = changed(before, world.groups)
        if world.rng.random() < 0.5:  # some are taken in ahead
            ahead = {uid: other.pop(uid) for uid in list(other)[: world.rng.randrange(len(other) + 1)]}
            kept.take(ahead, world.queues)
        found = kept.mark(other, world.queues)
        before = dict(world.groups)
        assert found == world.budgets.guard(world.groups.values(), world.pods, world.queues)
        if found == told:
            assert found is told, "the engine knows the same groups by identity"
        told = found


def test_a_cycle_looks_only_at_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    for at in range(300):
        world.groups[f"g{at}"] = world._group(f"g{at}")
    for space in SPACES:
        meta = {"name": "all", "namespace": space}
        world.budgets.upsert(decoder(DisruptionBudget)({"metadata": meta, "spec": {"selector": {}}}))
    kept = GuardedGroups(world.budgets, world.pods)
    kept.mark(dict(world.groups), world.queues)
    looked: list[str] = []
    going = Budgets.going

    def look(self: Budgets, group: Running, pods: Mapping[str, PodRecord]) -> list[Mapping[str, str]]:
        looked.append(group.uid)
        return going(self, group, pods)

    monkeypatch.setattr(Budgets, "going", look)
    world.groups["g7"] = world._group("g7")
    world.budgets.relabelled("g9")
    kept.mark({"g7": world.groups["g7"]}, world.queues)
    kept.mark({}, world.queues)
    assert sorted(looked) == ["g7", "g9"]


def test_a_cycle_does_not_go_through_all_groups_of_a_budget() -> None:
    """Counted in lines of Python, with few groups and with many."""

    def lines(count: int) -> int:
        world = World(1)
        for at in range(count):
            uid, labels = f"g{at}", {"app": f"x{at % 20}"}
            world.pods[uid] = PodRecord(uid, "a", uid, True, CLASS, labels=labels)
            world.groups[uid] = Running(uid, f"a/{uid}", "p", (RunningPod(uid, f"a/{uid}", "", CLASS, "n"),))
        for at in range(20):
            budget(world, at, 5)
        kept = GuardedGroups(world.budgets, world.pods)
        kept.mark(dict(world.groups), world.queues)
        budget(world, 3, 4)
        gone = world.groups.pop("g45")
        with Lines() as counted:
            found = kept.mark({gone.uid: None}, world.queues)
        assert found == world.budgets.guard(world.groups.values(), world.pods, world.queues)
        return counted.count

    def budget(world: World, at: int, allowed: int) -> None:
        meta = {"name": f"b{at}", "namespace": "a"}
        spec = {"selector": {"matchLabels": {"app": f"x{at}"}}}
        raw = {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": allowed}}
        world.budgets.upsert(decoder(DisruptionBudget)(raw))

    few, many = lines(400), lines(4000)
    assert many < few + 50
    assert many < 1000
