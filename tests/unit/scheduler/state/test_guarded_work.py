"""What it costs to know which groups budgets guard: no more than what changed, and little at a time."""

from collections.abc import Callable, Mapping

import pytest

from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.budgets import Budgets, DisruptionBudget
from t9ksched.scheduler.state.guarded_groups import GuardedGroups
from t9ksched.scheduler.state.records import PodRecord
from tests.counting import Lines, pieces

CLASS = PodClass()


class Teams:
    """Single pods of several teams in one namespace, in the queues `p` and `q` by turns, and a budget for each team."""

    def __init__(self, count: int, teams: int, allowed: int = 3) -> None:
        self.budgets = Budgets()
        self.pods: dict[str, PodRecord] = {}
        self.groups: dict[str, Running] = {}
        self.queues = queues(p=0, q=0)
        for at in range(count):
            uid, labels = f"g{at}", {"team": f"t{at % teams}", "name": f"n{at}"}
            self.pods[uid] = PodRecord(uid, "ns", uid, True, CLASS, labels=labels)
            member = RunningPod(uid, f"ns/{uid}", "", CLASS, "n")
            self.groups[uid] = Running(uid, f"ns/{uid}", "pq"[at % 2], (member,), created=at)
        self.kept = GuardedGroups(self.budgets, self.pods)
        self.kept.mark(self.groups, self.queues)
        self._teams, self._allowed = teams, allowed

    def all_come(self) -> None:
        for at in range(self._teams):
            self.budget(f"b{at}", at, self._allowed)

    def budget(self, name: str, team: int | None, allowed: int) -> None:
        selector = {} if team is None else {"matchLabels": {"team": f"t{team}"}}
        raw = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"selector": selector}}
        self.budgets.upsert(decoder(DisruptionBudget)(raw | {"status": {"disruptionsAllowed": allowed}}))

    def mark(self, changed: Mapping[str, Running | None] | None = None) -> list[str]:
        """The UIDs of those that are guarded."""
        found = self.kept.mark(changed or {}, self.queues)
        assert found == self.budgets.guard(self.groups.values(), self.pods, self.queues)
        return [one.uid for one in found if one.guarded]


def queues(**priorities: int) -> dict[str, Queue]:
    return {name: Queue(name, parse_queue_spec({"priority": at})) for name, at in priorities.items()}


def relabel(world: Teams) -> None:
    """A quarter of the pods get another label."""
    for uid in list(world.groups)[::4]:
        world.pods[uid].labels = world.pods[uid].labels | {"version": "2"}
        world.budgets.has_other_labels(uid)


def lines(count: int, teams: int, change: Callable[[Teams], object], allowed: int = 3) -> int:
    """Lines of Python that the next look takes after a change, with every budget there."""
    world = Teams(count, teams, allowed)
    world.all_come()
    world.mark()
    world.budget("first", teams + 1, 0)
    world.mark()
    change(world)
    with Lines() as counted:
        world.kept.mark({}, world.queues)
    world.mark()
    return counted.count


@pytest.mark.parametrize("change", [Teams.all_come, relabel], ids=["all budgets come", "a quarter is relabelled"])
def test_groups_are_not_asked_about_each_budget(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Teams], None]
) -> None:
    asked = 0
    matches = LabelSelector.matches

    def match(self: LabelSelector, labels: Mapping[str, str]) -> bool:
        nonlocal asked
        asked += 1
        return matches(self, labels)

    world = Teams(400, 40)
    if change is relabel:
        world.all_come()
        world.mark()
    change(world)
    with monkeypatch.context() as patched:
        patched.setattr(LabelSelector, "matches", match)
        world.kept.mark({}, world.queues)
    assert asked <= 2 * len(world.groups)
    assert len(world.mark()) == 400 - 3 * 40


@pytest.mark.parametrize(
    "change",
    [
        lambda world: setattr(world, "queues", queues(p=0, q=0, new=7)),
        lambda world: setattr(world, "queues", queues(p=0, q=0)),
        lambda world: world.budget("nothing", 1000, 0),
        lambda world: world.budget("first", 1000, 5),
        lambda world: world.budget("b1", 1, 2),
        lambda world: world.budgets.has_other_labels("g7"),
    ],
    ids=["an empty queue", "equal queues", "selects nothing", "another number of it", "another number", "a label"],
)
def test_what_changes_little_costs_the_same_with_many_groups(change: Callable[[Teams], object]) -> None:
    few, many = lines(200, 20, change), lines(2000, 20, change)
    assert many <= few + 20
    assert many <= 200


def test_a_queue_with_another_priority_has_only_its_groups_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Teams(90, 3)
    world.all_come()
    assert "g0" in world.mark()
    looked: list[str] = []
    going = Budgets.going

    def look(self: Budgets, group: Running, pods: Mapping[str, PodRecord]) -> list[Mapping[str, str]]:
        looked.append(group.uid)
        return going(self, group, pods)

    world.queues = queues(p=5, q=0)
    with monkeypatch.context() as patched:
        patched.setattr(Budgets, "going", look)
        world.kept.mark({}, world.queues)
    assert sorted(looked) == sorted(uid for uid, group in world.groups.items() if group.queue == "p")
    marked = world.mark()
    assert {group.queue for group in world.groups.values() if group.uid not in marked} == {"q"}


@pytest.mark.parametrize(("team", "everyone"), [(3, 20), (10_000, 10_000), (10_000, 0), (3, 10_000)])
def test_a_budget_over_all_teams_does_not_make_all_groups_be_looked_at(team: int, everyone: int) -> None:
    def change(world: Teams) -> None:
        world.budget("all", None, everyone)
        world.mark()
        world.budget("b1", 1, team - 1)

    few, many = lines(200, 10, change, team), lines(2000, 10, change, team)
    assert many <= few + 100


@pytest.mark.parametrize("allowed", [0, 3, 10_000])
def test_many_groups_are_looked_at_in_steps(allowed: int) -> None:
    def largest(count: int) -> int:
        world = Teams(count, 5, allowed)
        world.all_come()
        world.budget("all", None, allowed)
        steps, _ = pieces(world.kept.follow(world.queues))
        with Lines() as rest:
            world.kept.mark({}, world.queues)
        assert rest.count < 100 + count  # the parts are told
        world.mark()
        return max(steps)

    assert largest(4000) <= 1.2 * largest(1500)
