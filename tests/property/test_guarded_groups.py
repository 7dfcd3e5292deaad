"""Marking groups that budgets guard: what is kept from cycle to cycle says the same as a look at everything."""

import random
from collections.abc import Mapping
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state import budget_orders, guarded_groups
from t9ksched.scheduler.state.budgets import Budgets, DisruptionBudget, rank
from t9ksched.scheduler.state.guarded_groups import GuardedGroups
from t9ksched.scheduler.state.records import PodRecord
from tests.counting import Lines

SPACES = ("a", "b")
CLASS = PodClass()
LABELS: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
"""Pods that are alike have the same object."""
SELECTORS: tuple[Any, ...] = (
    {},
    {"matchLabels": {"app": "x"}},
    {"matchLabels": {"app": "y", "tier": "a"}},
    {"matchLabels": {"tier": "b"}},
    {"matchLabels": {"app": "nobody"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "z"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]},
)


def guarded(world: "World") -> tuple[Running, ...]:
    """What is to be told, by a look at every budget for every pod."""
    found = dict(world.groups)
    left = dict(world.allowed)
    for group in sorted(world.groups.values(), key=lambda group: (rank(group, world.queues), group.uid)):
        space, going = group.name.partition("/")[0], world.budgets.going(group, world.pods)
        needs = {key: sum(map(world.selectors[key].matches, going)) for key in world.selectors if key[0] == space}
        if all(left[key] >= count for key, count in needs.items() if count):
            for key, count in needs.items():
                left[key] -= count
        else:
            found[group.uid] = structs.replace(group, guarded=True)
    return tuple(found[uid] for uid in world.groups)


class World:
    """Groups, pods and budgets that change at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.budgets = Budgets()
        self.selectors: dict[tuple[str, str], LabelSelector] = {}
        self.allowed: dict[tuple[str, str], int] = {}
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
        labels = {"app": self.rng.choice("xyz"), "tier": self.rng.choice("ab")}
        return LABELS.setdefault(tuple(labels.items()), labels) if self.rng.random() < 0.5 else labels

    def come(self) -> None:
        for _ in range(self.rng.choice((1, 1, 1, 80))):
            self.made += 1
            self.groups[f"g{self.made}"] = self._group(f"g{self.made}")

    def change(self) -> None:
        for uid in self._some():
            self.groups[uid] = self._group(uid)

    def move(self) -> None:
        for uid in self._some():
            self.groups[uid] = structs.replace(self.groups[uid], queue=self.rng.choice("pq"))

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
            self.budgets.has_other_labels(uid)

    def budget(self) -> None:
        rng = self.rng
        meta = {"name": f"b{rng.randrange(4)}", "namespace": rng.choice(SPACES)}
        key = (meta["namespace"], meta["name"])
        raw = rng.choice((*SELECTORS, *SELECTORS, None, {"matchLabels": "no mapping"}))
        obj = {"metadata": meta, "spec": {"selector": raw}, "status": {"disruptionsAllowed": rng.choice((0, 1, 3, 50))}}
        item = decoder(DisruptionBudget)(obj)
        gone = rng.random() < 0.2
        (self.budgets.remove if gone else self.budgets.upsert)(item)
        if gone or raw not in SELECTORS:
            self.selectors.pop(key, None)
            self.allowed.pop(key, None)
        else:
            self.selectors[key] = LabelSelector.parse(raw)
            self.allowed[key] = item.status.disruptions_allowed

    def allow(self) -> None:
        """A budget allows another number."""
        for space, name in self.rng.sample(sorted(self.allowed), min(len(self.allowed), 1)):
            requirements = self.selectors[space, name].requirements
            raw = [{"key": one.key, "operator": one.operator, "values": list(one.values)} for one in requirements]
            allowed = self.allowed[space, name] = self.rng.choice((0, 1, 2, 5, 30))
            obj = {"metadata": {"name": name, "namespace": space}, "spec": {"selector": {"matchExpressions": raw}}}
            self.budgets.upsert(decoder(DisruptionBudget)(obj | {"status": {"disruptionsAllowed": allowed}}))

    def requeue(self) -> None:
        self.queues = self._queues()

    def nothing(self) -> None:
        """Two cycles without a change between them."""


def changed(before: Mapping[str, Running], now: Mapping[str, Running]) -> dict[str, Running | None]:
    """The groups that are not the same objects, and None for those that went."""
    fresh = {uid: group for uid, group in now.items() if before.get(uid) is not group}
    return {**dict.fromkeys(before.keys() - now.keys()), **fresh}


CHANGES = ("come", "change", "move", "go", "copy", "relabel", "budget", "budget", "allow", "requeue", "nothing")


@given(st.integers(0, 10**9), st.lists(st.sampled_from(CHANGES), min_size=3, max_size=25))
@settings(max_examples=150, deadline=None)
def test_what_is_kept_says_the_same(seed: int, changes: list[str]) -> None:
    world = World(seed)
    with pytest.MonkeyPatch.context() as patched:
        for name, few in (("_A_SLICE", 5), ("_SELECTED", 3), ("_SHOWN", 4)):
            patched.setattr(guarded_groups, name, few)
        patched.setattr(budget_orders, "_A_SLICE", 5)
        follow(world, changes)


def follow(world: World, changes: list[str]) -> None:
    kept = GuardedGroups(world.budgets, world.pods)
    told: tuple[Running, ...] = ()
    before: dict[str, Running] = {}
    for change in ("come", "budget", *changes):
        getattr(world, change)()
        other = changed(before, world.groups)
        if world.rng.random() < 0.5:  # some are taken in ahead
            ahead = {uid: other.pop(uid) for uid in list(other)[: world.rng.randrange(len(other) + 1)]}
            kept.take(ahead)
            for _ in islice(kept.follow(world.queues), world.rng.randrange(4)):  # not all of it may be done
                if world.rng.random() < 0.5:
                    world.relabel()
                    world.budget()
        if world.rng.random() < 0.1:
            kept.rest()
            world.relabel()
            world.budget()
        found = kept.mark(other, world.queues)
        before = dict(world.groups)
        assert found == guarded(world)
        assert world.budgets.guard(world.groups.values(), world.pods, world.queues) == guarded(world)
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
    world.budgets.has_other_labels("g9")
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
