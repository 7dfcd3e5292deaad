"""Room and quota that are kept for members that a gang lost."""

from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy, Preemption
from t9ksched.engine.reservations import Reservations
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU, gang, node, pod_class, queue, running, table, view

NOW = 1_000
MEMBER = pod_class(gpu=2)


def kept(where: str, *, until: int = 0) -> Reservation:
    return Reservation("old", where, MEMBER, until=until, kind=ReservationKind.REFILL, queue="q")


def starts(found: Plan) -> list[str]:
    return list(dict.fromkeys(one.gang for one in found.assignments))


@pytest.mark.parametrize(
    ("hold", "used", "started"),
    [
        (kept("n"), 6, []),
        (kept(""), 6, []),
        (kept("n", until=NOW), 6, ["new"]),
        (kept("n"), 4, ["new"]),
    ],
    ids=["its place", "any place", "no longer", "quota for both"],
)
def test_quota_is_kept_as_long_as_room_is(hold: Reservation, used: int, started: list[str]) -> None:
    queues = {"q": queue(quota={GPU: 8}, used={GPU: used})}
    found = plan(view([node("n", gpu=8)], [gang("new", gpu=2)], queues, [hold]), Policy(), NOW)
    assert starts(found) == started


def test_room_that_is_kept_no_longer_costs_nothing_beside_room_that_is() -> None:
    queues = {"q": queue(quota={GPU: 8}, used={GPU: 4})}
    holds = [kept("n"), kept("n", until=NOW)]
    assert starts(plan(view([node("n", gpu=8)], [gang("new", gpu=2)], queues, holds), Policy(), NOW)) == ["new"]


def test_the_gang_itself_may_use_the_quota_that_is_kept_for_it() -> None:
    queues = {"q": queue(quota={GPU: 8}, used={GPU: 6})}
    old = gang("old", of=MEMBER, min_member=4, placed={"": 3}, total=4)
    found = plan(view([node("n", gpu=8)], [gang("new", gpu=2, priority=90), old], queues, [kept("n")]), Policy(), NOW)
    assert starts(found) == ["old"]


def test_a_member_without_a_place_has_the_first_room_before_anything_new_of_its_queue() -> None:
    old = gang("old", members=[], min_member=4, placed={"": 3}, total=3)
    found = plan(
        view([node("n", gpu=2)], [gang("new", gpu=2, priority=90), old], reservations=[kept("")]), Policy(), NOW
    )
    assert [(hold.owner, hold.node) for hold in found.kept] == [("old", "n")]
    assert not starts(found)


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize(("others", "chosen"), [(["z"], "z"), ([], "n")])
def test_a_node_to_avoid_is_chosen_only_if_no_other_fits(replaced: bool, others: list[str], chosen: str) -> None:
    old = gang("old", of=MEMBER, min_member=4, placed={"": 3}, total=4, refilling=True)
    old = old if replaced else structs.replace(old, waiting=())
    hold = replace(kept(""), avoid=("n", "gone"))
    found = plan(view([node(name, gpu=2) for name in ("n", *others)], [old], reservations=[hold]), Policy(), NOW)
    assert [one.node for one in found.assignments] + [one.node for one in found.kept] == [chosen]


@pytest.mark.parametrize("preemptible", [True, False])
def test_only_a_gang_that_may_evict_the_whole_takes_the_room(preemptible: bool) -> None:
    queues = {"q": queue(preemptible=preemptible), "high": queue(priority=9)}
    whole = running("old", on=["n"] * 4, of=MEMBER, min_member=4)  # the last of them is room that is kept
    live = view([node("n", gpu=8)], [gang("urgent", "high", gpu=2)], queues, running=[whole])
    found = plan(live, Policy(actions=("allocate", "preempt")), NOW)
    assert len(found.evictions) == (4 if preemptible else 0)


@pytest.mark.parametrize(("workers", "going"), [(2, []), (3, ["old-3"]), (4, ["old-3", "old-4"])])
@pytest.mark.parametrize("short", ["room", "quota"])
def test_a_member_above_the_minimum_is_one_of_those_that_run(short: str, workers: int, going: list[str]) -> None:
    """The room of a lost lead is kept. It does not run, and is no reason to evict a worker for another gang."""
    roles = ["lead", *["worker"] * workers]
    wants = gang("urgent", pods=max(1, len(going)), gpu=2, priority=90)
    old = running("old", "q", ["n"] * len(roles), of=MEMBER, min_member=2, roles={"lead": 1}, role_of=roles, kept=[0])
    nodes = [node("n", gpu=2 * len(roles)), *([node("m", gpu=8)] if short == "quota" else [])]
    queues = {"q": queue(quota={GPU: 2 * len(roles)} if short == "quota" else {})}
    found = plan(view(nodes, [wants], queues, running=[old]), Policy(actions=("allocate", "preempt")), NOW)
    assert sorted(one.pod for one in found.evictions) == going


def test_room_that_a_gang_took_up_is_not_evicted() -> None:
    policy = Policy(actions=("allocate", "preempt"), preemption=Preemption(inside_queue=True))
    old = gang("old", of=MEMBER, refilling=True, min_member=1)
    lost = running("old", on=["n"], of=MEMBER)
    live = view([node("n", gpu=2)], [gang("urgent", gpu=2, priority=90), old], running=[lost])
    empty = replace(live, nodes=table([node("n", gpu=2)]).freeze(), reservations=(kept("n"),))
    found = plan(empty, policy, NOW)
    assert starts(found) == ["old"]
    assert not found.evictions


def test_what_is_kept_is_charged_in_slices() -> None:
    """Four hundred members lost their places: no step of the cycle adds up what all of them pay."""
    many = 400
    holds = [Reservation(f"g{at}", "", MEMBER, kind=ReservationKind.REFILL, queue="q") for at in range(many)]
    trial = Trial(table([node("n", gpu=8)]).freeze(), FeasibilityCache(), Policy())
    reservations = Reservations(trial)
    steps = sum(1 for _ in reservations.take(holds, NOW))
    assert steps == 2 * (many // 64)
    assert reservations.charged() == {f"g{at}": ("q", dict(MEMBER.requests)) for at in range(many)}
