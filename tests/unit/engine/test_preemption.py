"""Preemption as tables: who runs, who waits, who has to go."""

from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy, Preemption
from t9ksched.engine.victims import every_set
from t9ksched.engine.victims.eligibility import eligible
from t9ksched.engine.victims.victim_table import surplus
from t9ksched.engine.view import View, dump, load
from t9ksched.model.gang import Gang, Neighbours, Running
from t9ksched.model.labels import LabelSelector
from t9ksched.model.podrules import Peers, PodRules, PodTerm
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU, gang, node, pod_class, queue, running, view

SECOND = 1_000_000_000
NOW = 1_000 * SECOND
PREEMPT = Policy(actions=("allocate", "preempt"))
ALLOCATE = Policy()


def decide(given: View, policy: Policy = PREEMPT) -> Plan:
    return plan(given, policy, NOW)


def gone(found: Plan) -> list[str]:
    return sorted(one.pod for one in found.evictions)


def codes(found: Plan) -> dict[str, str]:
    return {entry.gang: str(entry.reasons[0].code) for entry in found.waiting}


# --- the worked example of the policy: cluster cpu 300, every pod cpu 50


@dataclass
class World:
    """The example's cluster, kept by hand: `preemptible` and `actions` vary by row."""

    preemptible: dict[str, bool] = field(default_factory=dict)
    policy: Policy = PREEMPT
    pods: dict[str, Running] = field(default_factory=dict)
    waiting: dict[str, Gang] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, priority in (("A1", 2), ("A2", 1), ("A3", 0), ("B1", 0), ("C1", 0), ("D1", 0)):
            self.pods[name] = running(name, name[0], ["n0"], cpu=50, priority=priority)

    def create(self, name: str) -> None:
        self.waiting[name] = gang(name, name[0], cpu=50)

    def ends(self, *names: str) -> None:
        for name in names:
            del self.pods[name]

    def view(self) -> View:
        quotas = {"A": (200, 1), "B": (100, 1), "C": (50, 2), "D": (200, 2)}
        queues = {
            name: queue(quota={"cpu": quota}, priority=priority, preemptible=self.preemptible.get(name, True))
            for name, (quota, priority) in quotas.items()
        }
        return view([node("n0", cpu=300)], self.waiting.values(), queues, running=self.pods.values())

    def cycle(self) -> tuple[list[str], list[str], list[str]]:
        """Deleted, allocated and pending after a cycle, and the one in which the victims are gone."""
        found = decide(self.view(), self.policy)
        victims = sorted({one.gang for one in found.evictions})
        self.ends(*victims)
        if victims:
            given = replace(self.view(), reservations=found.reservations)
            found = decide(given, self.policy)
        placed = sorted({one.gang for one in found.assignments})
        for name in placed:
            at = self.waiting.pop(name)
            self.pods[name] = running(name, at.queue, ["n0"], cpu=50)
        return victims, placed, sorted(self.waiting)


ROWS = {
    "1 B2": (World(), "B2", ([], [], ["B2"])),
    "2 C2": (World(), "C2", ([], [], ["C2"])),
    "3 D2": (World(), "D2", (["A3"], ["D2"], [])),
    "4 D2, allocate only": (World(policy=ALLOCATE), "D2", ([], [], ["D2"])),
    "5 D2, A not preemptible": (World({"A": False}), "D2", (["B1"], ["D2"], [])),
    "6 D2, A and B not preemptible": (World({"A": False, "B": False}), "D2", ([], [], ["D2"])),
}


@pytest.mark.parametrize(("world", "created", "expected"), ROWS.values(), ids=ROWS)
def test_the_worked_example(world: World, created: str, expected: tuple[list[str], list[str], list[str]]) -> None:
    world.create(created)
    assert world.cycle() == expected


def test_the_worked_example_goes_on() -> None:
    world = World()
    world.create("D2")
    assert world.cycle() == (["A3"], ["D2"], [])
    world.create("A3")
    assert world.cycle() == ([], [], ["A3"]), "row 7: A may not take from its equals and betters"
    world.create("B2")
    world.ends("B1")
    assert world.cycle() == ([], ["B2"], ["A3"]), "row 8: B's share is the smaller"


def test_the_worked_example_between_equals() -> None:
    world = World()
    world.ends("A3")
    world.create("C2")
    world.create("D2")
    assert world.cycle() == ([], ["D2"], ["C2"]), "row 9: D's share is the smaller, C is over its quota"


# --- who may be a victim

QUEUES = {"low": queue(priority=1), "high": queue(priority=5), "safe": queue(priority=0, preemptible=False)}


@pytest.mark.parametrize(
    ("victim", "rules", "allowed"),
    [
        (running("v", "low"), Preemption(), True),
        (running("v", "high"), Preemption(), False),
        (running("v", "safe"), Preemption(), False),
        (running("v", "gone"), Preemption(), False),
        (running("v", "high", priority=1), Preemption(inside_queue=True), True),
        (running("v", "high", priority=9), Preemption(inside_queue=True), False),
        (running("v", "low", started=NOW - 59 * SECOND), Preemption(minimum_run_seconds=60), False),
        (running("v", "low", started=NOW - 60 * SECOND), Preemption(minimum_run_seconds=60), True),
        (running("v", "low", evictions=3), Preemption(most_evictions_a_day=3), False),
        (running("v", "low", evictions=2), Preemption(most_evictions_a_day=3), True),
    ],
)
def test_eligible(victim: Running, rules: Preemption, allowed: bool) -> None:
    preemptor = gang("p", "high", priority=9)
    assert eligible(preemptor, victim, QUEUES, replace(PREEMPT, preemption=rules), NOW) is allowed
    nodes = [node("n0", cpu=4)]
    group = structs.replace(victim, pods=running("v", "low", ["n0"], cpu=4).pods)
    queues = {**QUEUES, "gone": queue()} if victim.queue != "gone" else QUEUES
    given = view(nodes, [gang("p", "high", priority=9, cpu=4)], {**queues, "gone": queue()}, running=[group])
    given = replace(given, queues={name: state for name, state in given.queues.items() if name != "gone"})
    found = decide(given, replace(PREEMPT, preemption=rules))
    assert gone(found) == (["v-0"] if allowed else [])


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (running("e", on="nnnn", min_member=2), [3, 2]),
        (running("e", on="nnnn", min_member=4), []),
        (running("e", on="nn", min_member=0), [1]),
        (running("e", on="nnnn", min_member=2, roles={"w": 2}, role_of="mwwx"), [3]),
        (running("e", on="nnnn", min_member=2, leaving=[3]), [2]),
        (structs.replace(running("e", on="nn", min_member=2), succeeded=(("", 1),)), [1]),
        (running("e", on="nnn", min_member=2, roles={"l": 1}, role_of="lww", kept=[0]), []),
        (running("e", on="nnnn", min_member=2, roles={"l": 1}, role_of="lwww", kept=[0]), [3]),
        (running("e", on="nnnn", min_member=2, roles={"l": 1}, role_of="wwwl", kept=[3]), [2]),
        (running("e", on="nnn", min_member=1, roles={"l": 1}, role_of="lww", kept=[0]), [2]),
        (running("e", on="nnn", min_member=1, roles={"l": 1}, role_of="lww", kept=[0, 1]), []),
        (running("e", on="nnnn", min_member=2, roles={"l": 1, "w": 3}, role_of="lwww", kept=[0]), []),
        (running("e", on="nnnn", min_member=2, roles={"l": 1}, role_of="wwww", kept=[0]), []),
    ],
    ids=[
        "highest first",
        "none to spare",
        "never rank 0",
        "role minima stay",
        "one leaves already",
        "one succeeded",
        "kept room does not run",
        "above a running minimum",
        "kept room does not go alone",
        "never the first that runs",
        "one that runs",
        "role minima run",
        "room that is not needed is kept",
    ],
)
def test_surplus(group: Running, expected: list[int]) -> None:
    assert surplus(group) == expected


# --- who is chosen

LOW_HIGH = {"low": queue(), "high": queue(priority=1), "mid": queue(priority=1), "top": queue(priority=9)}


def one_each(count: int, gpu: int = 0) -> list[object]:
    return [node(f"n{at}", cpu=8, gpu=gpu) for at in range(count)]


@pytest.mark.parametrize(
    ("groups", "victim"),
    [
        ([running("a", "mid", ["n0"], cpu=8), running("b", "low", ["n1"], cpu=8)], "b-0"),
        ([running("a", "mid", ["n0"], cpu=8), running("b", "high", ["n1", "n2"], cpu=8)], "b-1"),
        ([running("a", "low", ["n0"], cpu=8, priority=2), running("b", "low", ["n1"], cpu=8, priority=3)], "a-0"),
        ([running("a", "low", ["n0"], cpu=8, created=2), running("b", "low", ["n1"], cpu=8, created=1)], "a-0"),
        ([running("a", "low", ["n0"], cpu=8, guarded=True), running("b", "low", ["n1"], cpu=8, priority=5)], "b-0"),
    ],
    ids=["queue priority", "dominant share", "group priority", "youngest", "disruption budget"],
)
def test_order_of_victims(groups: list[Running], victim: str) -> None:
    groups = [structs.replace(group, min_member=1) for group in groups]
    nodes = [node(f"n{at}", cpu=8) for at in range(sum(len(group.pods) for group in groups))]
    assert gone(decide(view(nodes, [gang("p", "top", cpu=8)], LOW_HIGH, running=groups))) == [victim]


def test_a_budget_is_preferred_and_not_absolute() -> None:
    nodes = [node("n0", gpu=4), node("n1", gpu=4)]
    small = [running(f"s{at}", "low", ["n0"], gpu=1, cards=[1 << at]) for at in range(4)]
    large = running("large", "low", ["n1"], gpu=4, cards=[15], guarded=True)
    wants = gang("p", "top", gpu=4)
    free = structs.replace(large, guarded=False)
    assert gone(decide(view(nodes, [wants], LOW_HIGH, running=[*small, free]))) == ["large-0"]
    found = decide(view(nodes, [wants], LOW_HIGH, running=[*small, large]))
    assert gone(found) == [f"s{at}-0" for at in range(4)], "four go rather than one whose budget it would break"
    stays = [structs.replace(one, queue="top") for one in small]
    assert gone(decide(view(nodes, [wants], LOW_HIGH, running=[*stays, large]))) == ["large-0"], (
        "no other victim makes room"
    )
    across = [structs.replace(large, queue="mid"), running("b", "high", ["n0"], gpu=4, cards=[15])]
    assert gone(decide(view(nodes, [wants], LOW_HIGH, running=across))) == ["b-0"], "of queues of one priority, too"


def test_a_gang_goes_whole_or_loses_only_what_it_can_spare() -> None:
    nodes = [node(f"n{at}", cpu=8) for at in range(3)]
    rigid = running("rigid", "low", ["n0", "n1", "n2"], cpu=8)
    wants = gang("p", "top", cpu=8)
    assert gone(decide(view(nodes, [wants], LOW_HIGH, running=[rigid]))) == ["rigid-0", "rigid-1", "rigid-2"]
    elastic = structs.replace(rigid, min_member=1)
    assert gone(decide(view(nodes, [wants], LOW_HIGH, running=[elastic]))) == ["rigid-2"]
    first_only = gang("p", "top", cpu=8, selector={"kubernetes.io/hostname": "n1"})
    assert gone(decide(view(nodes, [first_only], LOW_HIGH, running=[elastic]))) == ["rigid-1", "rigid-2"]


def test_nothing_is_evicted_when_the_preemptor_would_not_fit() -> None:
    """Room on six nodes of 50 is no room for one pod of 100."""
    nodes = [node(f"n{at}", cpu=100) for at in range(6)]
    stays = [running(f"s{at}", "top", [f"n{at}"], cpu=50) for at in range(6)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=50) for at in range(6)]
    found = decide(view(nodes, [gang("p", "high", cpu=100)], LOW_HIGH, running=[*stays, *lows]))
    assert (gone(found), found.reservations, codes(found)) == ([], (), {"p": "InsufficientResources"})
    assert found.stats.searched == 1


def test_a_gang_that_fits_but_for_one_member_evicts_nothing() -> None:
    nodes = [node(f"n{at}", cpu=8) for at in range(3)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=8) for at in range(2)]
    stays = running("s", "top", ["n2"], cpu=8)
    found = decide(view(nodes, [gang("p", "high", pods=3, cpu=8)], LOW_HIGH, running=[*lows, stays]))
    assert gone(found) == []


def test_quota_is_never_raised_by_preemption() -> None:
    queues = {**LOW_HIGH, "top": queue(priority=9, quota={"cpu": 4})}
    low = running("l", "low", ["n0"], cpu=8)
    found = decide(view([node("n0", cpu=8)], [gang("p", "top", cpu=8)], queues, running=[low]))
    assert (gone(found), codes(found)) == ([], {"p": "QuotaExceeded"})


def test_victims_that_turn_out_superfluous_are_spared() -> None:
    """In order of age the one-card jobs would all go first; one large job makes the room alone."""
    nodes = [node("n0", gpu=8), node("n1", gpu=8)]
    small = [running(f"s{at}", "low", ["n0"], gpu=1, cards=[1 << at], created=100 + at) for at in range(8)]
    large = running("large", "low", ["n1"], gpu=8, cards=[255], created=1)
    found = decide(view(nodes, [gang("p", "top", gpu=8)], LOW_HIGH, running=[*small, large]))
    assert gone(found) == ["large-0"]


def test_two_pods_that_make_room_for_one_together_are_spared_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not every set of victims is looked at, what is not needed in the end is spared."""
    monkeypatch.setattr(every_set, "_ALL_SETS", 0)
    groups = [
        running("halves", "low", ["n0", "n0"], cpu=4, created=2),
        running("threes", "mid", ["n1", "n1", "n1"], cpu=8),
    ]
    queues = {"low": queue(priority=0), "mid": queue(priority=1), "high": queue(priority=2)}
    given = view([node("n0", cpu=8), node("n1", cpu=24)], [gang("w", "high", 3, cpu=8)], queues, running=groups)
    assert {one.gang for one in decide(given).evictions} == {"threes"}


def test_room_is_held_until_the_victims_are_gone() -> None:
    nodes = [node("n0", gpu=8)]
    low = running("low", "low", ["n0"], gpu=8, cards=[255])
    wants = [gang("p", "top", gpu=8, created=1), gang("third", "top", gpu=4, created=2)]
    first = decide(view(nodes, wants, LOW_HIGH, running=[low]))
    assert [(h.owner, h.node, h.kind) for h in first.reservations] == [("p", "n0", ReservationKind.VICTIMS)]
    assert (gone(first), codes(first)) == (["low-0"], {"p": "WaitingForVictims", "third": "InsufficientResources"})
    assert "priority 9" in first.evictions[0].why
    leaving = structs.replace(low, pods=tuple(structs.replace(pod, leaving=True) for pod in low.pods))
    second = decide(view(nodes, wants, LOW_HIGH, first.reservations, [leaving]))
    assert (gone(second), second.reservations) == ([], ()), "one preemption a preemptor"
    assert codes(second) == {"p": "WaitingForVictims", "third": "InsufficientResources"}
    last = decide(view(nodes, wants, LOW_HIGH, first.reservations))
    assert [one.gang for one in last.assignments] == ["p"]
    assert codes(last) == {"third": "InsufficientResources"}


def test_nothing_is_evicted_for_a_gang_that_was_refused_a_moment_ago() -> None:
    """It may take what is free, and one like it that was not refused may evict."""
    low = running("low", "low", ["n0"], gpu=8, cards=[255])
    rests = structs.replace(gang("rests", "top", gpu=8, created=1), evicts_from=NOW + SECOND)
    found = decide(view([node("n0", gpu=8)], [rests], LOW_HIGH, running=[low]))
    assert (gone(found), found.reservations) == ([], ())
    assert codes(found) == {"rests": "BindRefused"}
    assert found.waiting[0].reasons[0].message.endswith("not before 1970-01-01T00:16:41Z")
    like = gang("like", "top", gpu=8, created=2)
    found = decide(view([node("n0", gpu=8)], [rests, like], LOW_HIGH, running=[low]))
    assert (gone(found), codes(found)) == (["low-0"], {"rests": "BindRefused", "like": "WaitingForVictims"})
    assert [one.by for one in found.evictions] == ["like"]
    over = structs.replace(rests, evicts_from=NOW)
    assert gone(decide(view([node("n0", gpu=8)], [over], LOW_HIGH, running=[low]))) == ["low-0"]
    found = decide(view([node("n0", gpu=8), node("n1", gpu=8)], [rests], LOW_HIGH, running=[low]))
    assert [one.node for one in found.assignments] == ["n1"]
    given = view([node("n0", gpu=8)], [rests])
    assert load(dump(given)).gangs == given.gangs


def test_a_gang_with_promised_room_starts_in_what_came_free_although_others_still_leave() -> None:
    """The room of `a` is free, that of `b` is not; the second preemptor's promise does not stop the first."""
    nodes = [node("n0", gpu=2)]
    stays = running("b", "low", ["n0"], gpu=1, cards=[2], leaving=[0])
    held = [Reservation(owner, "n0", pod_class(gpu=1), kind=ReservationKind.VICTIMS) for owner in ("p", "q")]
    wants = [gang("p", "top", gpu=1), gang("q", "top", gpu=1), gang("third", "top", gpu=1)]
    found = decide(view(nodes, wants, LOW_HIGH, held, [stays]))
    assert [(one.gang, one.grant.masks) for one in found.assignments] == [("p", ((GPU, 1),))]
    assert (gone(found), codes(found)) == ([], {"q": "WaitingForVictims", "third": "InsufficientResources"})


def test_no_gang_starts_in_what_came_free_for_another_while_its_own_victim_may_still_stay() -> None:
    """`q` would have its place, `b` would be spared, and `p`, for which `a` went, would wait in vain."""
    nodes = [node("n0", gpu=2)]
    low = running("b", "low", ["n0"], gpu=1, cards=[2], leaving=[0])
    chosen = structs.replace(low, pods=tuple(structs.replace(pod, asked=False) for pod in low.pods))
    held = [
        Reservation("p", "n0", pod_class(gpu=1), kind=ReservationKind.VICTIMS),
        Reservation("q", "n0", pod_class(gpu=1), kind=ReservationKind.VICTIMS),
    ]
    wants = [gang("q", "mid", gpu=1)]
    given = view(nodes, wants, LOW_HIGH, held, [chosen])
    found = decide(given)
    assert (found.assignments, gone(found), codes(found)) == ((), [], {"q": "WaitingForVictims"})
    assert load(dump(given)).running == given.running
    asked = decide(view(nodes, wants, LOW_HIGH, held, [low]))
    assert [one.gang for one in asked.assignments] == ["q"]


SHORT = {
    "who comes first starts": (2, ["n0"], [], ["p"]),
    "who comes first has no use for what is left": (4, ["n0"], [], ["q"]),
    "who comes first waits for room elsewhere": (2, ["n0", "n1"], [0], []),
    "no pod leaves another node any more": (2, ["n0", "n1"], [], ["q"]),
}


@pytest.mark.parametrize(("cards", "on", "leaving", "started"), SHORT.values(), ids=SHORT)
def test_of_what_cannot_all_be_kept_the_gang_served_first_has_what_it_was_promised(
    cards: int, on: list[str], leaving: list[int], started: list[str]
) -> None:
    """A stranger took one card of `n0` before all victims there had ended: three are free, and more are promised."""
    nodes = [node("n0", gpu=4), node("n1", gpu=2)]
    stranger = running("x", "other", ["n0"], gpu=1, cards=[1])
    low = running("low", "low", ["n1"], gpu=2, cards=[3], leaving=leaving)
    held = [Reservation("p", name, pod_class(gpu=cards), kind=ReservationKind.VICTIMS) for name in on]
    held.append(Reservation("q", "n0", pod_class(gpu=2), kind=ReservationKind.VICTIMS))
    wants = [gang("p", "top", len(on), gpu=cards, created=1), gang("q", "top", gpu=2, created=2)]
    found = decide(view(nodes, wants, LOW_HIGH, held, [stranger, low]))
    assert list(dict.fromkeys(one.gang for one in found.assignments)) == started
    assert codes(found) == {name: "WaitingForVictims" for name in ("p", "q") if name not in started}
    assert gone(found) == []


def test_room_that_is_promised_is_no_company_yet_but_keeps_others_off() -> None:
    nodes = [node(f"n{at}", cpu=8) for at in range(2)]
    app = Peers(LabelSelector.parse({"matchLabels": {"app": "p"}}), ("test",))
    term = PodTerm((app,), "kubernetes.io/hostname")
    held = Reservation("p", "n0", replace(pod_class(cpu=1), counted=(term,)), kind=ReservationKind.VICTIMS)
    near = gang("near", of=replace(pod_class(cpu=1), rules=PodRules(together=(term,))))
    away = gang("away", of=replace(pod_class(cpu=1), rules=PodRules(apart=(term,))))
    found = decide(view(nodes, [near, away], reservations=[held]))
    assert codes(found) == {"near": "TopologyNotSatisfied"}
    assert [(one.gang, one.node) for one in found.assignments] == [("away", "n1")]


def test_when_the_promised_node_is_lost_it_may_preempt_again() -> None:
    low = running("low", "low", ["n0"], cpu=8)
    promise = Reservation("p", "lost", pod_class(cpu=8), kind=ReservationKind.VICTIMS)
    found = decide(view([node("n0", cpu=8)], [gang("p", "top", cpu=8)], LOW_HIGH, [promise], [low]))
    assert gone(found) == ["low-0"]


def test_room_that_comes_back_by_itself_is_waited_for() -> None:
    nodes = [node("n0", cpu=8), node("n1", cpu=8)]
    groups = [running("a", "low", ["n0"], cpu=8, leaving=[0]), running("b", "low", ["n1"], cpu=8)]
    found = decide(view(nodes, [gang("p", "top", cpu=8)], LOW_HIGH, running=groups))
    assert (gone(found), codes(found)) == ([], {"p": "InsufficientResources"})


@pytest.mark.parametrize(
    ("waits_first", "victims"), [(0, ["b-0"]), (1, ["a-0", "b-0"]), (2, []), (3, [])], ids=lambda value: str(value)
)
def test_room_that_comes_back_for_one_is_promised_to_no_gang_behind_it(waits_first: int, victims: list[str]) -> None:
    """Each gang of the first queue needs 2 of the 4 cpu that leave; one of the second needs 6 and may evict 4 more.

    The quota of the first queue ends at two gangs: a third one evicts no gang.
    """
    groups = [running("leaves", "mid", ["n0"], cpu=4, leaving=[0])]
    groups += [running(name, "low", ["n0"], cpu=2, created=age) for age, name in enumerate("ab")]
    queues = {"low": queue(), "mid": queue(priority=1), "top": queue(priority=5, quota={"cpu": 4})}
    wants = [gang(f"first-{at}", "top", cpu=2) for at in range(waits_first)]
    found = decide(view([node("n0", cpu=8)], [*wants, gang("second", "mid", cpu=6)], queues, running=groups))
    assert (gone(found), {one.by for one in found.evictions}) == (victims, {"second"} if victims else set())


def test_two_preemptors_take_different_victims() -> None:
    nodes = [node(f"n{at}", cpu=8) for at in range(3)]
    lows = [running(f"l{at}", "low", [f"n{at}"], cpu=8, created=at) for at in range(3)]
    wants = [gang(f"p{at}", "top", cpu=8) for at in range(4)]
    found = decide(view(nodes, wants, LOW_HIGH, running=lows))
    assert {one.by: one.pod for one in found.evictions} == {"p0": "l2-0", "p1": "l1-0", "p2": "l0-0"}
    assert codes(found)["p3"] == "InsufficientResources"


def test_surplus_of_the_queue_yields_to_its_waiting_minimum() -> None:
    nodes = [node(f"n{at}", cpu=8) for at in range(4)]
    elastic = running("e", "q", ["n0", "n1", "n2", "n3"], cpu=8, min_member=2)
    for queues in ({"q": queue()}, {"q": queue(quota={"cpu": 32})}):
        found = decide(view(nodes, [gang("p", "q", pods=2, cpu=8)], queues, running=[elastic]))
        assert gone(found) == ["e-2", "e-3"]
        assert "yield" in found.evictions[0].why
    tight = {"q": queue(quota={"cpu": 32})}
    room = [*nodes, node("n4", cpu=8), node("n5", cpu=8)]
    found = decide(view(room, [gang("p", "q", pods=2, cpu=8)], tight, running=[elastic]))
    assert gone(found) == ["e-2", "e-3"], "its quota is short, not room"
    found = decide(view(nodes, [gang("p", "q", pods=3, cpu=8)], tight, running=[elastic]))
    assert gone(found) == []
    above = gang("p", "q", pods=2, cpu=8, min_member=0)
    assert gone(decide(view(nodes, [above], tight, running=[elastic]))) == [], "no victim for members above a minimum"


def test_a_gang_gives_up_a_member_for_a_role_it_lost_whatever_else_its_queue_has() -> None:
    nodes = [node("n0", cpu=8), node("n1", cpu=8)]
    workers = running("g", "q", ["n0", "n0"], cpu=4, min_member=1, roles={"lead": 1}, role_of=["w", "w"])
    for name in (
        "a",
        "z",
    ):  # answers about groups are shared by kind, whichever group came first
        other = running(name, "q", ["n1"], cpu=8)
        lost = gang("g", "q", cpu=4, min_member=1, roles={"lead": 1}, placed={"w": 2}, total=3)
        lost = structs.replace(lost, waiting=tuple(structs.replace(one, role="lead") for one in lost.waiting))
        lost = structs.replace(lost, total_roles=(("lead", 1), ("w", 2)))
        found = decide(view(nodes, [lost], running=[workers, other]))
        assert gone(found) == ["g-1"]


def test_cards_that_take_no_new_work_are_not_counted_as_freed() -> None:
    broken = [node("n0", gpu=2, unusable={GPU: 0b01})]
    low = running("l", "low", ["n0", "n0"], gpu=1, cards=[1, 2])
    assert gone(decide(view(broken, [gang("p", "top", gpu=2)], LOW_HIGH, running=[low]))) == []
    assert gone(decide(view(broken, [gang("p", "top", gpu=1)], LOW_HIGH, running=[low]))) == ["l-0", "l-1"]


def test_a_dumped_view_preempts_alike() -> None:
    low = running("low", "low", ["n0", "n0"], gpu=4, cards=[15, 240], role_of=["a", "b"], roles={"a": 1}, started=5)
    low = structs.replace(low, pods=(low.pods[0], structs.replace(low.pods[1], kept=True)))
    given = view([node("n0", gpu=8)], [gang("p", "top", gpu=8)], LOW_HIGH, running=[low])
    again = load(dump(given))
    assert again.running == given.running
    assert decide(again).to_bytes() == decide(given).to_bytes()


def test_unlike_members_preempt_together() -> None:
    nodes = [node("cards", cpu=8, gpu=4), node("plain", cpu=8)]
    groups = [running("a", "low", ["cards"], gpu=4, cards=[15]), running("b", "low", ["plain"], cpu=8)]
    kinds = [pod_class(cpu=8), pod_class(cpu=1, gpu=4)]
    both = (*gang("p", of=kinds[0]).waiting, *gang("w", of=kinds[1]).waiting)
    wants = structs.replace(gang("p", "top"), waiting=both, min_member=2, total=2)
    found = decide(view(nodes, [wants], LOW_HIGH, running=groups))
    assert (gone(found), len(found.reservations)) == (["a-0", "b-0"], 2)


def test_one_rack_is_emptied_for_a_gang_that_must_be_in_one() -> None:
    nodes = [node(f"n{at}", cpu=8, labels={"rack": f"r{at // 2}"}) for at in range(6)]
    groups = [running(f"l{at}", "low", [f"n{at}"], cpu=8, created=10 - at) for at in range(6)]
    wants = structs.replace(gang("p", "top", pods=2, cpu=8), topology="Required", levels=("rack",))
    assert gone(decide(view(nodes, [wants], LOW_HIGH, running=groups))) == ["l0-0", "l1-0"]
    stays = [structs.replace(group, queue="top") if at % 2 else group for at, group in enumerate(groups)]
    assert gone(decide(view(nodes, [wants], LOW_HIGH, running=stays))) == [], "no rack would have room for both"


def test_rules_about_pods_decide_about_victims_too() -> None:
    nodes = [node(f"n{at}", cpu=8, labels={"rack": f"r{at // 2}"}) for at in range(4)]
    groups = [running(f"l{at}", "low", [f"n{at}"], cpu=8, created=10 - at) for at in range(4)]
    peers = Peers(LabelSelector.parse({"matchLabels": {"app": "p"}}), ("test",))

    def apart(pods: int) -> Gang:
        rules = PodRules(apart=(PodTerm((peers,), "rack"),))
        given = gang("p", "top", pods=pods, of=replace(pod_class(cpu=8), rules=rules))
        return structs.replace(
            given, waiting=tuple(structs.replace(one, labels=(("app", "p"),)) for one in given.waiting)
        )

    assert gone(decide(view(nodes, [apart(2)], LOW_HIGH, running=groups))) in ([], ["l0-0", "l2-0"])
    assert gone(decide(view(nodes, [apart(1)], LOW_HIGH, running=groups))) == ["l0-0"]
    assert gone(decide(view(nodes, [apart(3)], LOW_HIGH, running=groups))) == []
    full = view(nodes, [apart(1)], LOW_HIGH, running=groups)
    near = Neighbours("test", (("app", "p"),), (("n0", 1),))
    assert gone(decide(replace(full, neighbours=(near,)))) == ["l2-0"]


@pytest.mark.parametrize("ordering", ["Strict", "BestEffort"])
def test_a_gang_with_promised_room_starts_although_one_like_it_lacks_the_quota(ordering: str) -> None:
    """The queue pays for the promise: what one ahead of it was told about the quota is not true of it."""
    shape = pod_class(gpu=4)
    ahead, promised = gang("ahead", "high", of=shape, priority=9), gang("promised", "high", of=shape)
    queues = {"high": queue(priority=1, quota={GPU: 4}, ordering=ordering)}  # type: ignore[arg-type]
    room = Reservation("promised", "n0", shape, kind=ReservationKind.VICTIMS)
    found = decide(view([node("n0", gpu=4)], [ahead, promised], queues, [room]))
    assert [one.gang for one in found.assignments] == ["promised"]
    assert [one.gang for one in found.waiting] == ["ahead"]


def test_room_that_is_promised_counts_in_a_queues_share_at_once() -> None:
    """Two queues of one priority take turns at what lower jobs hold, as they do at free room."""
    nodes = [node(f"n{at}", gpu=4) for at in range(4)]
    queues = {"low": queue(), "x": queue(priority=1), "y": queue(priority=1)}
    gangs = [gang(f"{name}{at}", name, gpu=4) for name in "xy" for at in range(3)]
    lows = [running(f"l{at}", "low", [f"n{at}"], gpu=4, cards=[15]) for at in range(4)]
    found = decide(view(nodes, gangs, queues, running=lows))
    assert list(dict.fromkeys(one.by for one in found.evictions)) == ["x0", "y0", "x1", "y1"]


def test_a_gang_that_holds_a_part_finds_victims_for_the_rest_although_one_like_it_finds_none() -> None:
    """A node of the promise was lost: one victim is enough for it, two would be needed for the other."""
    shape = pod_class(gpu=4)
    queues = {"low": queue(), "mid": queue(priority=1)}
    gangs = [gang("ahead", "mid", pods=2, of=shape, priority=9), gang("promised", "mid", pods=2, of=shape)]
    room = Reservation("promised", "n0", shape, kind=ReservationKind.VICTIMS)
    lows = [running("l", "low", ["n1"], gpu=4, cards=[15])]
    found = decide(view([node("n0", gpu=4), node("n1", gpu=4)], gangs, queues, [room], running=lows))
    assert [one.by for one in found.evictions] == ["promised"]
    assert sorted(hold.node for hold in found.reservations) == ["n0", "n1"]


def test_a_gang_with_rules_finds_victims_that_are_also_where_it_may_not_run() -> None:
    peers = Peers(LabelSelector.parse({"matchLabels": {"app": "other"}}), ("test",))
    rules = PodRules(prefer_pods=((1, PodTerm((peers,), "kubernetes.io/hostname")),))
    of = replace(pod_class(gpu=2), node_selector=(("zone", "b"),), rules=rules)
    nodes = [node("n0", gpu=2, labels={"zone": "a"}), node("n1", gpu=2, labels={"zone": "b"})]
    queues = {"low": queue(), "top": queue(priority=5)}
    found = decide(view(nodes, [gang("p", "top", of=of)], queues, running=[running("r", "low", ["n0", "n1"], gpu=2)]))
    assert gone(found) == ["r-0", "r-1"]
    assert [hold.node for hold in found.reservations] == ["n1"]


def test_room_that_was_promised_counts_in_the_share_of_its_queue() -> None:
    """Of two queues of one priority the one with the smaller share is served first, its promises included."""
    waits = gang("waits", "a", gpu=6, created=0)
    late = [gang("a2", "a", gpu=2, created=1), gang("b2", "b", gpu=2, created=2)]
    hold = Reservation("waits", "n0", waits.waiting[0].pod_class, kind=ReservationKind.VICTIMS)
    queues = {"a": queue(), "b": queue(), "low": queue(priority=-1)}
    leaves = running("leaves", "low", ["n0"], gpu=6, leaving=[0])
    nodes = [node("n0", gpu=6), node("n1", gpu=4)]
    busy = running("busy", "b", ["n1"], gpu=2)
    found = decide(view(nodes, [waits, *late], queues, [hold], [leaves, busy]))
    assert [one.gang for one in found.assignments] == ["b2"]
