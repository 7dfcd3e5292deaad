"""The policy through random histories: arrivals, ends, lost and changed nodes, edits of queues, preemptions, time.

Every cycle is judged before it is carried out (`tests.property.promises`); a history that fails is shrunk by hypothesis
and its last moment printed as tables. `make soak` plays thousands of longer ones, with fresh dice.
"""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Binpack, Policy, Preemption
from t9ksched.engine.victims import victim_table
from t9ksched.engine.victims.victim_table import surplus
from t9ksched.engine.view import dump, load
from t9ksched.model.gang import Running
from tests.builders import GPU
from tests.property.mutants import MUTANTS, broken
from tests.property.promises import Broken, can_take_up, judge
from tests.property.tables import picture
from tests.property.world import SHAPES, Group, Node, Pod, Queue, Shape, World

ZONES = st.sampled_from(["a", "b"])
QUEUES = st.sampled_from(["high", "mid", "low"])
COMMON = ["card", "pair", "four", "cpu", "web"]
"""Listed before the others, which ask for more than room, so that both come up and failures shrink to these."""
SHAPE = st.one_of(st.sampled_from(COMMON), st.sampled_from(list(SHAPES)))
RARELY = st.sampled_from([False, False, False, False, False, True])
EDITS = st.one_of(
    st.fixed_dictionaries(
        {"quota": st.sampled_from([{}, {GPU: 4}, {"cpu": 6000}, {GPU: 2, "cpu": 12000}, {GPU: 0}, {GPU: 3}])}
    ),
    st.fixed_dictionaries({"priority": st.sampled_from([0, 1, 5])}),
    st.fixed_dictionaries({"ordering": st.sampled_from(["Strict", "BestEffort"])}),
    st.fixed_dictionaries({"zone": st.sampled_from(["", "a"])}),
    st.fixed_dictionaries({"preemptible": st.booleans(), "closed": RARELY}),
)
CHANGES = st.one_of(
    st.fixed_dictionaries({"zone": st.sampled_from(["a", "b"])}),
    st.fixed_dictionaries({"tainted": st.booleans(), "cordoned": RARELY, "ready": RARELY.map(lambda rare: not rare)}),
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """What a user submits."""
    shapes = [draw(SHAPE)] if draw(st.booleans()) else draw(st.lists(SHAPE, min_size=1, max_size=3))
    size = draw(st.integers(1, 4))
    lead = draw(RARELY)
    return {
        "queue": draw(QUEUES),
        "priority": draw(st.integers(0, 2)),
        "members": [(shapes[at % len(shapes)], "lead" if lead and not at else "") for at in range(size)],
        "minimum": max(1, size - draw(st.sampled_from([0, 0, 1, 3]))),
        "roles": {"lead": 1} if lead else {},
        "together": size > 1 and draw(RARELY),
    }


POLICIES = st.sampled_from(
    [
        Policy(actions=("allocate", "preempt")),
        Policy(),
        Policy(actions=("allocate", "preempt"), preemption=Preemption(inside_queue=True)),
        Policy(actions=("allocate", "preempt"), preemption=Preemption(minimum_run_seconds=60, surplus_yields=False)),
        Policy(actions=("allocate", "preempt"), binpack=Binpack(strategy="LeastAllocated")),
    ]
)


class Histories(RuleBasedStateMachine):
    """One world; the memory of the engine lives as long as the world, as it does in the service."""

    only = ""
    """Number of the promise that is looked at; all of them when empty."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.memory = Memory()
        self.policy = Policy()
        self.log: list[str] = []
        self.pace = 1
        self.undecided = 0

    @initialize(
        policy=POLICIES,
        cards=st.lists(st.sampled_from([4, 4, 2, 0]), min_size=1, max_size=4),
        early=st.lists(jobs(), max_size=5),
        small=st.integers(0, 12),
        strict=st.booleans(),
        pace=st.sampled_from([1, 2, 4]),
    )
    def begins(
        self, policy: Policy, cards: list[int], early: list[dict[str, Any]], small: int, strict: bool, pace: int
    ) -> None:
        self.policy, self.pace = policy, pace
        for at, gpu in enumerate(cards):
            self.world.put(Node(f"n{at}", gpu, "ab"[at % 2]))
        for name, priority in (("low", 0), ("mid", 1), ("high", 5)):
            self.world.queues[name] = Queue(name, priority, ordering="Strict" if strict else "BestEffort")
        single = {"members": [("card", "")], "minimum": 1, "roles": {}, "priority": 0, "together": False}
        self.arrive([job | {"queue": "low"} for job in [*early, *[single] * small]])
        self._decide(set())

    def _note(self, text: str) -> None:
        self.log.append(text)

    # --- workloads

    @rule(more=st.lists(jobs(), min_size=1, max_size=4))
    def arrive(self, more: list[dict[str, Any]]) -> None:
        for job in more:
            serial = self.world.serial()
            members = [(SHAPES[name], role) for name, role in job["members"]]
            group = Group(f"g{serial}", created=serial, **{name: of for name, of in job.items() if name != "members"})
            self.world.create(group, members)
            self._note(f"{group.uid} arrives in {group.queue}")

    @precondition(lambda self: self.world.groups)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(list(self.world.groups)))
        self.world.end(uid)
        self._note(f"{uid} ends")

    @precondition(lambda self: any(group.bound() for group in self.world.groups.values()))
    @rule(data=st.data(), rival=st.booleans(), late=st.booleans(), tight=RARELY)
    def member_fails(self, data: st.DataObject, rival: bool, late: bool, tight: bool) -> None:
        """With a rival, a gang of some queue that goes first by priority and age waits for just such a place; `tight`
        is a quota that allows what the queue uses and no more.
        """
        bound = [pod for group in self.world.groups.values() for pod in group.bound()]
        pod = data.draw(st.sampled_from(bound))
        queue = self.world.groups[pod.gang].queue
        if tight:
            quota = {"pods": self.world.charged(queue)["pods"]}
            self.world.queues[queue] = replace(self.world.queues[queue], quota=quota)
            self._note(f"queue {queue} gets {quota}")
        self.world.remove(pod, again=True, late=late)
        self._note(f"{pod.uid} fails and is made anew" + (" later" if late else ""))
        if rival:
            single = {"members": [(pod.shape.name, "")], "minimum": 1, "roles": {}, "together": False}
            self.arrive([single | {"queue": data.draw(st.sampled_from([queue, queue, "high", "low"])), "priority": 3}])
            self._decide(set())

    # --- others, nodes and queues

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data(), kind=st.sampled_from(["queue", "node", "foreign", "ended", "lost", "new"]))
    def something_changes(self, data: st.DataObject, kind: str) -> None:
        world = self.world
        name = data.draw(st.sampled_from(sorted(world.nodes)))
        match kind:
            case "queue":
                queue, edit = data.draw(QUEUES), data.draw(EDITS)
                world.queues[queue] = replace(world.queues[queue], **edit)
                self._note(f"queue {queue} gets {edit}")
            case "node":
                change = data.draw(CHANGES)
                world.put(replace(world.nodes[name], **change))
                self._note(f"node {name} gets {change}")
            case "foreign":
                self._foreign(name, SHAPES[data.draw(SHAPE)])
            case "ended" if world.foreign:
                uid = data.draw(st.sampled_from(sorted(world.foreign)))
                world.remove(world.foreign[uid], again=False)
                self._note(f"foreign {uid} ends")
            case "lost":
                world.lose(name)
                self._note(f"node {name} is lost")
            case "new" if len(world.nodes) < 4:
                world.put(Node(f"n{world.serial()}", data.draw(st.sampled_from([4, 2, 0])), data.draw(ZONES)))
                self._note("a node comes")

    def _foreign(self, name: str, shape: Shape) -> None:
        """A pod of another scheduler is bound, where there is room for it."""
        world, node = self.world, self.world.nodes[name]
        taken, has = world.used(name) + shape.requests(), node.has()
        if any(units > has[resource] for resource, units in taken.items()):
            return
        idle = [at for at in range(node.gpu) if not any(pod.cards >> at & 1 for pod in world.on(name))]
        uid = f"x{world.serial()}"
        pod = world.foreign[uid] = Pod(uid, "", "", shape)
        world.bind(pod, name, sum(1 << at for at in idle[: shape.gpu]))
        self._note(f"foreign {pod.uid}:{shape.name} on {name}")

    # --- time

    @rule(seconds=st.sampled_from([1, 30, 3600]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: any(group.owed for group in self.world.groups.values()))
    @rule()
    def controllers_catch_up(self) -> None:
        self.world.catch_up()
        self._note("controllers make what was lost")

    @precondition(lambda self: any(pod.leaving for pod in self.world.pods()))
    @rule(most=st.integers(1, 9))
    def victims_end(self, most: int) -> None:
        for pod in [pod for pod in self.world.pods() if pod.leaving][:most]:
            self.world.remove(pod, again=True)
            self._note(f"{pod.uid} has ended")

    @rule(refused=st.sets(st.integers(0, 4), max_size=1), again=st.booleans())
    def cycle(self, refused: set[int], again: bool) -> None:
        self._decide(refused)
        if again:  # most cycles find the cluster as the one before left it
            self._decide(set())

    def _decide(self, refused: set[int]) -> None:
        self.undecided = 0
        world = self.world
        view = world.view()
        found = plan(view, self.policy, world.now, self.memory)
        try:
            judge(world, found, self.policy, self.only)
            if self.only in ("", "10"):
                self._repeats(view, found)
            self._promises_are_kept(found)
        except Broken as broken:
            raise Broken(broken.promise, f"{broken.what}\n{picture(world, found, self.log)}") from None
        world.apply(found, refused)
        self._note(f"cycle: {len(found.assignments)} placed, {len(found.evictions)} evicted")

    def _repeats(self, view: object, found: Plan) -> None:
        """The same view, policy and time give the same plan, whatever was remembered; dump and load change nothing."""
        whole = found.to_bytes()
        paper = dump(view)  # type: ignore[arg-type]
        if plan(load(paper), self.policy, self.world.now).to_bytes() != whole:
            raise Broken("10 the same plan again", "a fresh memory and a copy of the view give another plan")
        if dump(load(paper)) != paper:
            raise Broken("10 the same plan again", "a view that was loaded is written differently")

    def _promises_are_kept(self, found: Plan) -> None:
        """Who was promised room starts once it is free, unless it cannot be had any more: then it is given up."""
        world = self.world
        started = {one.gang for one in found.assignments}
        owners = dict.fromkeys(hold.owner for hold in world.holds)
        over = [uid for uid in owners if uid not in started and not world.is_left(uid)]
        for uid in over:  # all by the promises that the plan was made with
            if self.only in ("", "6") and can_take_up(world, found, uid):
                raise Broken("6 room goes to its preemptor", f"{uid} does not start although its victims are gone")
        for uid in over:
            world.give_up(uid)

    @invariant()
    def a_cycle_follows_what_happens(self) -> None:
        """Dice leave whole rules out of a history, `cycle` too: without this, many histories decide next to nothing."""
        self.undecided += 1
        if self.undecided > self.pace:
            self._decide(set())

    @invariant()
    def charges_are_what_pods_hold(self) -> None:
        for name in self.world.nodes:
            if self.world.table.used(name) != dict(+self.world.used(name)):
                raise Broken("1 charges are what pods hold", f"{name}\n{picture(self.world, None, self.log)}")


SETTINGS = settings(deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
Histories.TestCase.settings = settings(SETTINGS, max_examples=80, stateful_step_count=30)
TestHistories = Histories.TestCase


def test_room_kept_until_its_owners_turn_is_no_room_for_those_ahead_of_it() -> None:
    """A gang keeps a port for one lost member and starts with another one; a gang ahead of it waited for that port."""
    world = World()
    world.put(Node("n0", 2, "a"))
    for name, priority in (("low", 0), ("mid", 1)):
        world.queues[name] = Queue(name, priority, quota={"pods": 1} if name == "low" else {})
    ran = {"priority": 0, "minimum": 1, "roles": {}, "ran": True}
    lost = Group("lost", "low", created=1, **ran)
    world.create(lost, [(SHAPES["cpu"], ""), (SHAPES["web"], "")])
    for pod in list(lost.pods.values()):
        world.bind(pod, "n0", 0)
        world.remove(pod, again=True)
    for at, shape in enumerate(("web", "bold"), start=2):
        one = Group(f"g{at}", "mid", priority=0, created=at, minimum=1, roles={})
        world.create(one, [(SHAPES[shape], "")])
    policy = Policy(actions=("allocate", "preempt"))
    found = plan(world.view(), policy, world.now)
    assert [one.gang for one in found.assignments] == ["g3", "lost"]
    judge(world, found, policy)
    world.apply(found, set())
    found = plan(world.view(), policy, world.now)
    assert [one.gang for one in found.assignments] == ["g2"]
    judge(world, found, policy)


def _kept_room_runs(group: Running) -> list[int]:
    return surplus(structs.replace(group, pods=tuple(structs.replace(pod, kept=False) for pod in group.pods)))


def test_no_member_goes_because_room_is_kept_for_another() -> None:
    """A gang lost its lead and keeps its room; another one of its queue waits for just such a place."""
    world = World()
    world.put(Node("n0", 3, "a"))
    world.queues["low"] = Queue("low", 0)
    lost = Group("lost", "low", priority=0, created=1, minimum=2, roles={"lead": 1}, ran=True)
    world.create(lost, [(SHAPES["card"], role) for role in ("lead", "", "")])
    for at, pod in enumerate(list(lost.pods.values())):
        world.bind(pod, "n0", 1 << at)
    world.remove(next(iter(lost.pods.values())), again=True, late=True)
    world.create(Group("next", "low", priority=1, created=2, minimum=1, roles={}), [(SHAPES["card"], "")])
    policy = Policy(actions=("allocate", "preempt"))
    found = plan(world.view(), policy, world.now)
    judge(world, found, policy)
    assert not found.evictions
    with patch.object(victim_table, "surplus", _kept_room_runs):
        wrong = plan(world.view(), policy, world.now)
    with pytest.raises(Broken, match="5 only those who may be victims"):
        judge(world, wrong, policy)


@pytest.mark.parametrize(("seconds", "takes"), [(1, []), (3600, ["grows.3"])])
def test_room_is_its_preemptors_until_the_promise_ends(seconds: int, takes: list[str]) -> None:
    """A victim does not end; another member of its gang, ranked below the preemptor, may have the card beside it."""
    world = World()
    world.put(Node("n0", 2, "a"))
    world.queues = {name: Queue(name, priority) for name, priority in (("low", 0), ("high", 5))}
    grows = Group("grows", "low", priority=0, created=1, minimum=1, roles={}, ran=True)
    world.create(grows, [(SHAPES["card"], "")])
    world.bind(grows.pods["grows.1"], "n0", 1)
    world.create(Group("pair", "high", priority=0, created=2, minimum=1, roles={}), [(SHAPES["pair"], "")])
    policy = Policy(actions=("allocate", "preempt"))
    found = plan(world.view(), policy, world.now)
    assert [(one.pod, one.by) for one in found.evictions] == [("grows.1", "pair")]
    world.apply(found, set())
    world.create(grows, [(SHAPES["card"], "")])
    world.pass_time(seconds)
    found = plan(world.view(), policy, world.now)
    assert [one.pod for one in found.assignments] == takes
    judge(world, found, policy)
    assert not found.evictions


@pytest.mark.soak
class TestLongHistories(Histories.TestCase):  # type: ignore[misc, name-defined]
    """Long ones, many, with fresh dice each time."""

    settings = settings(SETTINGS, max_examples=3_000, stateful_step_count=60, derandomize=False, database=None)


@pytest.mark.soak
@pytest.mark.parametrize("fault", MUTANTS)
def test_each_fault_built_in_on_purpose_breaks_its_promise(fault: str) -> None:
    machine = type("Watched", (Histories,), {"only": MUTANTS[fault].promise})
    dice = settings(SETTINGS, max_examples=5_000, phases=[Phase.generate], derandomize=True, database=None)
    with broken(fault), pytest.raises(Broken) as found:
        run_state_machine_as_test(machine, settings=dice)
    assert found.value.promise.split()[0] == MUTANTS[fault].promise
