"""Reservations by administrators: who may start on the room before, during and after, with plans and without."""

from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.explain.reserved import reservation_waits
from t9ksched.engine.policy import Planning, Policy
from t9ksched.model.reasons import Code
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.reserved_room import ReservedRoom
from t9ksched.model.start_windows import StartWindow
from tests.ahead import HOUR, Pool
from tests.builders import GPU, gang, node, pod_class, queue, running, view
from tests.unit.engine.deciding import NOW, decide

QUEUES = {"q": queue(ordering="Backfill"), "eval": queue(ordering="Backfill")}
BOTH = pytest.mark.parametrize("planning", [None, Planning()], ids=["without plans", "with plans"])
FOR_EVAL = {"queues": ("eval",)}


def pool(planning: Planning | None, nodes: int = 2, cards: int = 8) -> Pool:
    return Pool(nodes, cards, planning, QUEUES)


def codes(given: Pool, name: str, hour: float) -> list[Code]:
    found = given.cycle(hour)
    return [reason.code for one in found.waiting if one.gang == name for reason in one.reasons]


@BOTH
@pytest.mark.parametrize(
    ("hours", "hour", "starts"),
    [
        pytest.param(10, 0, True, id="it ends when the reservation begins"),
        pytest.param(11, 0, False, id="it would still run"),
        pytest.param(10, 1, False, id="an hour too late"),
        pytest.param(0, 0, True, id="without an end, long before"),
        pytest.param(0, 5.9, True, id="without an end, just early enough"),
        pytest.param(0, 6, False, id="without an end, in the time before it"),
        pytest.param(1, 12, False, id="while it is in force"),
        pytest.param(100, 20, True, id="when it is over"),
    ],
)
def test_who_starts_on_a_reserved_node(planning: Planning | None, hours: float, hour: float, starts: bool) -> None:
    given = pool(planning, nodes=1)
    given.reserve("r", 10, 20, [0], drain=4)
    given.submit("j", 1, hours, cards=8)
    given.cycle(hour)
    assert ("j" in given.started) is starts


@BOTH
def test_the_other_nodes_are_free(planning: Planning | None) -> None:
    given = pool(planning)
    given.reserve("r", 10, 20, [0])
    given.submit("j", 1, 100, cards=8)
    given.submit("k", 1, 100, cards=8)
    found = given.cycle(0)
    assert [one.node for one in found.assignments] == ["n001"]
    (waiting,) = found.waiting
    code = Code.HELD_FOR_OTHER if planning is None else Code.PLANNED_START
    assert waiting.reasons[0].code == code


@BOTH
def test_maintenance_is_for_none_and_is_told(planning: Planning | None) -> None:
    given = pool(planning, nodes=1)
    given.reserve("firmware", 10, 20, [0])
    given.submit("j", 1, 11, cards=8)
    found = given.cycle(0)
    if planning is None:
        assert "'firmware' begins at 1970-01-01T10:00:00Z" in found.waiting[0].reasons[0].message
    else:
        assert given.planned == {"j": 20}
        given.cycle(20)
        assert given.started == {"j": 20}


@BOTH
@pytest.mark.parametrize(
    ("hours", "hour", "starts"),
    [
        pytest.param(10, 10, True, id="it ends with the reservation"),
        pytest.param(10.5, 10, False, id="it would end after it"),
        pytest.param(0, 12, False, id="nothing ends it"),
        pytest.param(12, 8, True, id="before, and until its end"),
        pytest.param(9, 1, True, id="as any other before it"),
    ],
)
def test_those_it_is_for(planning: Planning | None, hours: float, hour: float, starts: bool) -> None:
    given = pool(planning, nodes=1)
    given.reserve("r", 10, 20, [0], **FOR_EVAL)
    given.submit("j", 1, hours, cards=8, of="eval")
    given.cycle(hour)
    assert ("j" in given.started) is starts


@BOTH
@pytest.mark.parametrize(
    ("fields", "admitted"),
    [({"users": ("ann",)}, True), ({"users": ("bob",)}, False), ({"queues": ("q",)}, True), ({}, False)],
)
def test_whom_it_is_for(planning: Planning | None, fields: dict[str, object], admitted: bool) -> None:
    given = pool(planning, nodes=1)
    given.reserve("r", 0, 20, [0], **fields)
    given.submit("j", 1, 5, cards=8, user="ann")
    given.cycle(1)
    assert ("j" in given.started) is admitted


# ---- jobs that name a reservation


@BOTH
def test_who_names_a_reservation_uses_only_that(planning: Planning | None) -> None:
    given = pool(planning)
    given.reserve("r", 10, 20, [1], **FOR_EVAL)
    given.submit("j", 1, 5, cards=8, of="eval", reservation="r")
    assert codes(given, "j", 0)[0] == (Code.START_TIME_NOT_REACHED if planning is None else Code.PLANNED_START)
    if planning is not None:
        assert given.planned == {"j": 10}
    found = given.cycle(10)
    assert [one.node for one in found.assignments] == ["n001"]
    given.submit("k", 1, 5, cards=8, of="eval", reservation="r")
    assert Code.INSUFFICIENT_RESOURCES in codes(given, "k", 10) or given.planned == {"k": 15}
    assert "k" not in given.started, "node n000 is free, and not for it"
    given.end("j")
    given.cycle(15)
    assert given.started["k"] == 15


@BOTH
def test_without_a_limit_it_gets_the_rest(planning: Planning | None) -> None:
    given = pool(planning)
    given.reserve("r", 10, 20, [1], **FOR_EVAL)
    given.submit("j", 1, 0, cards=8, of="eval", reservation="r")
    given.cycle(12)
    assert (given.started, given.limit("j")) == ({"j": 12}, 8)


@pytest.mark.parametrize("hour", [10, 10.001, 15])
def test_the_rest_that_it_gets_ends_before_its_queue_pays_for_the_next(hour: float) -> None:
    given = Pool(10, 1, Planning(), {"q": queue(ordering="Backfill", quota={GPU: 10})})
    given.reserve("r", 10, 20, [0, 1], drain=4, users=("ann",))
    given.submit("whole", 10, 5)
    given.cycle(8)
    given.submit("j", 2, reservation="r", user="ann")
    given.cycle(9)
    assert given.planned == {"whole": 20, "j": 10}
    given.cycle(hour)
    assert given.started == {"j": hour}, "from then until hour 20 it needs less than the whole reservation lasts"
    assert given.planned == {"whole": 20}


def test_a_plan_inside_a_reservation_that_is_in_force_heeds_the_rest_of_it() -> None:
    given = Pool(10, 1, Planning(), {"q": queue(ordering="Backfill", quota={GPU: 10})})
    given.reserve("r", 10, 20, [0, 1], drain=4, users=("ann",))
    given.submit("whole", 10, 5)
    given.submit("first", 2, 2, reservation="r", user="ann")
    given.cycle(11)
    given.submit("j", 2, reservation="r", user="ann")
    given.cycle(12)
    assert given.planned == {"whole": 20, "j": 13}
    given.end("first")
    given.cycle(13)
    assert (given.started, given.limit("j")) == ({"first": 11, "j": 13}, 7)


@BOTH
@pytest.mark.parametrize(
    ("of", "hours", "name", "code"),
    [
        ("q", 5, "r", Code.NOT_PERMITTED),
        ("eval", 5, "other", Code.NOT_PERMITTED),
        ("eval", 11, "r", Code.NEVER_FITS),
    ],
)
def test_who_may_not_use_what_it_names_waits(
    planning: Planning | None, of: str, hours: float, name: str, code: Code
) -> None:
    given = pool(planning)
    given.reserve("r", 10, 20, [1], **FOR_EVAL)
    given.submit("j", 1, hours, cards=8, of=of, reservation=name)
    assert codes(given, "j", 10) == [code]
    assert given.planned == {}
    given.rooms.clear()
    assert codes(given, "j", 11) == [Code.NOT_PERMITTED]


@BOTH
@pytest.mark.parametrize(
    ("pods", "each", "fields", "told"),
    [
        pytest.param(3, 8, {}, (3, 2), id="too many pods"),
        pytest.param(1, 9, {}, (1, 0), id="a pod too large for a node"),
        pytest.param(5, 2, {"cards": (GPU, 4)}, (5, 4), id="more than the part of each node"),
        pytest.param(1, 5, {"cards": (GPU, 4)}, (1, 0), id="a pod larger than the part of a node"),
        pytest.param(4, 2, {"cards": (GPU, 4)}, None, id="just enough"),
    ],
)
def test_what_is_larger_than_the_reservation_never_fits(
    planning: Planning | None, pods: int, each: int, fields: dict[str, object], told: tuple[int, int] | None
) -> None:
    given = pool(planning, nodes=3)
    given.reserve("r", 10, 20, [0, 1], **FOR_EVAL, **fields)
    given.submit("j", pods, 5, cards=each, of="eval", reservation="r")
    for hour in (0, 12):
        (reason,) = given.cycle(hour).waiting[0].reasons if told else [None]
        if told is None:
            given.cycle(hour)
            continue
        assert reason is not None
        assert (reason.code, reason.needs["members"], reason.has["members"]) == (Code.NEVER_FITS, *told)
        assert "the reservation 'r' (2 nodes" in reason.message
    assert ("j" in given.started) is (told is None)


def test_a_reservation_without_a_node_that_may_run_it_is_told() -> None:
    wanted = structs.replace(gang("g", "q", of=pod_class(gpu=1)), lasts=50, reservation="r")
    more = [node(name, gpu=8, labels={"pool": name}) for name in ("n0", "n1")]
    given = view(more, [wanted], {"q": queue(selector={"pool": "n1"})})
    room = structs.replace(_reserved(0, NOW + 2000), queues=("q",))
    (waiting,) = decide(replace(given, reserved=(room,))).waiting
    assert waiting.reasons[0].code == Code.NO_NODE_MATCHES
    assert "no node of the reservation 'r' (1 node) may run its pods" in waiting.reasons[0].message


def test_while_a_reserved_node_is_closed_nothing_is_said_of_its_size() -> None:
    wanted = structs.replace(gang("g", "q", 2, of=pod_class(gpu=8)), lasts=50, reservation="r")
    for closed, code in ((False, Code.NEVER_FITS), (True, Code.INSUFFICIENT_RESOURCES)):
        more = [node(name, gpu=8) for name in ("n1", "n2")]
        given = view([node("n0", gpu=8, unschedulable=closed), *more], [wanted])
        room = structs.replace(_reserved(0, NOW + 2000), queues=("q",))
        (waiting,) = decide(replace(given, reserved=(room,))).waiting
        assert waiting.reasons[0].code == code


# ---- a part of each node


@BOTH
def test_a_part_of_a_node_is_reserved(planning: Planning | None) -> None:
    given = pool(planning, nodes=1)
    given.reserve("r", 10, 20, [0], cards=(GPU, 3), **FOR_EVAL)
    given.submit("j", 5, 100, cards=1)
    given.submit("k", 1, 100, cards=1)
    given.cycle(0)
    assert set(given.started) == {"j"}, "five of eight cards are left"
    given.submit("e", 3, 2, cards=1, of="eval")
    given.cycle(12)
    assert set(given.started) == {"j", "e"}


@BOTH
def test_what_jobs_inside_hold_is_not_kept_twice(planning: Planning | None) -> None:
    given = pool(planning, nodes=1)
    given.reserve("r", 0, 20, [0], cards=(GPU, 4), **FOR_EVAL)
    given.submit("e", 3, 5, cards=1, of="eval")
    given.submit("j", 4, 100, cards=1)
    given.submit("k", 1, 100, cards=1)
    given.cycle(1)
    assert set(given.started) == {"e", "j"}, "one card is kept, three are used"
    given.end("e")
    given.cycle(6)
    assert "k" not in given.started, "four cards are kept again"


@BOTH
def test_who_names_a_part_gets_no_more_than_that(planning: Planning | None) -> None:
    given = pool(planning, nodes=1)
    given.reserve("r", 0, 20, [0], cards=(GPU, 4), **FOR_EVAL)
    given.submit("j", 5, 5, cards=1, of="eval", reservation="r")
    given.cycle(1)
    assert given.started == {}
    given.submit("k", 3, 5, cards=1, of="eval", reservation="r")
    given.submit("l", 2, 5, cards=1, of="eval", reservation="r")
    given.submit("m", 1, 5, cards=1, of="eval", reservation="r")
    given.cycle(2)
    assert set(given.started) == {"k", "m"}


@BOTH
@pytest.mark.parametrize(("hours", "starts"), [(1, True), (2, False)], ids=["ends with it", "outlasts it"])
def test_who_outlasts_a_part_leaves_it_to_others_until_it_ends(
    planning: Planning | None, hours: float, starts: bool
) -> None:
    """Two cards, one of which is reserved for an hour; the other has a job of an hour. In two hours both are free."""
    given = pool(planning, nodes=1, cards=2)
    given.reserve("r", 0, 1, [0], cards=(GPU, 1), queues=("q",))
    given.submit("other", 1, 1, of="eval")
    given.cycle(0)
    given.submit("own", 1, hours)
    given.cycle(0)
    assert set(given.started) == ({"other", "own"} if starts else {"other"})
    assert planning is None or given.planned == ({} if starts else {"own": 1})


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (
            5,
            "its time limit it would still run when reservation 'r', which is for it, ends at 1970-01-01T04:00:00Z",
        ),
        (0, "no time limit, so it might still run when reservation 'r', which is for it, ends at 1970-01-01T04:00:00Z"),
    ],
)
def test_whom_it_is_for_is_told_when_it_ends(hours: float, text: str) -> None:
    given = pool(None, nodes=1)
    given.reserve("r", 0, 4, [0], queues=("q",))
    given.submit("j", 1, hours)
    (waits,) = given.cycle(0).waiting
    assert text in waits.reasons[0].message


@BOTH
def test_a_job_inside_that_is_overdue_holds_its_part_still(planning: Planning | None) -> None:
    """It is not kept a second time, and others that name the reservation do not get it."""
    given = pool(planning, nodes=1)
    given.reserve("r", 0, 20, [0], cards=(GPU, 4), **FOR_EVAL)
    given.submit("late", 4, 5, cards=1, of="eval")
    given.cycle(0)
    given.submit("named", 1, 5, cards=1, of="eval", reservation="r")
    given.submit("other", 4, 50, cards=1)
    given.cycle(6)
    assert set(given.started) == {"late", "other"}


@BOTH
def test_reserved_cards_that_others_still_hold_are_not_there(planning: Planning | None) -> None:
    given = pool(planning, nodes=1)
    given.submit("before", 6, 100, cards=1)
    given.cycle(0)
    given.reserve("r", 1, 20, [0], cards=(GPU, 4), **FOR_EVAL)
    given.submit("j", 3, 5, cards=1, of="eval", reservation="r")
    given.submit("k", 2, 5, cards=1, of="eval", reservation="r")
    given.cycle(2)
    assert set(given.started) == {"before", "k"}


def test_plans_inside_are_not_kept_twice() -> None:
    given = pool(Planning(), nodes=1)
    given.reserve("r", 10, 20, [0], cards=(GPU, 4), **FOR_EVAL)
    given.submit("e", 4, 5, cards=1, of="eval", reservation="r")
    given.cycle(0)
    assert given.planned == {"e": 10}
    given.submit("j", 4, 100, cards=1)
    given.cycle(1)
    assert given.started == {"j": 1}, "the other four cards are nobody's"


def test_spans_of_one_reservation_are_not_added_up() -> None:
    given = pool(None, nodes=1)
    for day in range(3):
        given.reserve(f"r{day}", 10 + 24 * day, 20 + 24 * day, [0], cards=(GPU, 4), **FOR_EVAL)
    given.submit("j", 4, 100, cards=1)
    given.cycle(0)
    assert given.started == {"j": 0}


@pytest.mark.parametrize(("cpu", "starts"), [(60, True), (61, False)])
def test_cpu_and_memory_are_reserved_in_proportion_to_cards(cpu: int, starts: bool) -> None:
    wanted = structs.replace(gang("g", "q", of=pod_class(cpu=cpu)), lasts=HOUR)
    given = view([node("n0", cpu=96, gpu=8)], [wanted])
    room = structs.replace(_reserved(0, NOW + 2000), cards=(GPU, 3))
    found = decide(replace(given, reserved=(room,)))
    assert bool(found.assignments) is starts, "three of eight parts of the CPU are kept"


# ---- with plans


def test_a_plan_heeds_a_reservation_and_starts_when_that_ends() -> None:
    given = pool(Planning(), nodes=1)
    given.submit("a", 1, 10, cards=8)
    given.cycle(0)
    given.submit("b", 1, 5, cards=8)
    given.cycle(0)
    assert given.planned == {"b": 10}
    given.reserve("r", 12, 20, [0])
    given.cycle(1)
    assert given.planned == {"b": 20}
    given.rooms.clear()
    given.cycle(2)
    assert given.planned == {"b": 10}


def test_plans_that_make_way_leave_what_is_reserved() -> None:
    """When the job inside ends, its part is kept again, and the plan of a job without an end stays off it."""
    given = Pool(4, 2, Planning(), {"q": queue(ordering="Backfill")})
    given.reserve("r", 0, 5, [0], cards=(GPU, 1), drain=0, queues=("q",))
    given.submit("inside", 4, 1)
    given.submit("beside", 4, 1)
    given.submit("endless", 4)
    given.submit("named", 1, 5, reservation="r")
    given.cycle(0)
    assert given.started == {"inside": 0, "beside": 0}
    assert given.planned == {"endless": 1}
    assert sorted(one.node for one in given.plans).count("n000") == 1


@pytest.mark.parametrize("cards", [None, (GPU, 8)], ids=["whole nodes", "cards"])
@pytest.mark.parametrize(
    ("to", "limit", "free"),
    [
        pytest.param(5, 9, 9, id="the reservation is shortened"),
        pytest.param(10, 12, 12, id="the limit is lengthened"),
        pytest.param(10, 0, None, id="nothing ends it any more"),
    ],
)
def test_room_is_free_when_the_job_inside_ends_and_not_before(
    cards: tuple[str, int] | None, to: int, limit: float, free: float | None
) -> None:
    """A job inside may end after its reservation: plans of others, and of a reservation behind it, wait for that."""
    given = pool(Planning(), nodes=1)
    given.reserve("r", 0, 10, [0], cards=cards, **FOR_EVAL)
    given.submit("inside", 1, 9, cards=8, of="eval", reservation="r")
    given.cycle(0)
    given.reserve("r", 0, to, [0], cards=cards, **FOR_EVAL)
    given.limit_anew("inside", limit)
    given.reserve("next", to, 30, [0], cards=cards, **FOR_EVAL)
    given.submit("behind", 1, 3, cards=8, of="eval", reservation="next")
    given.cycle(1)
    assert given.planned == ({} if free is None else {"behind": free})
    del given.rooms["next"]
    given.submit("other", 1, 3, cards=8)
    given.cycle(2)
    assert given.planned == ({} if free is None else {"other": free})
    if free is not None:
        given.end("inside")
        given.cycle(free)
        assert given.started["other"] == free


def test_a_job_without_an_end_is_planned_after_the_reservation() -> None:
    given = pool(Planning(), nodes=1)
    given.reserve("r", 12, 20, [0], drain=4)
    given.submit("a", 1, 10, cards=8)
    given.cycle(0)
    given.submit("b", 1, 0, cards=8)
    given.cycle(0)
    assert given.planned == {"b": 20}


def test_another_passes_before_the_reservation_if_it_ends_in_time() -> None:
    given = pool(Planning(), nodes=1)
    given.reserve("r", 10, 20, [0])
    given.submit("long", 1, 50, cards=8)
    given.submit("short", 1, 9, cards=8)
    given.cycle(0)
    assert given.planned == {"long": 20}
    assert given.started == {"short": 0}


def test_alike_jobs_get_their_own_answers() -> None:
    given = pool(None, nodes=1)
    given.reserve("r", 10, 20, [0], **FOR_EVAL)
    given.submit("a", 1, 11, cards=8, of="q")
    given.submit("b", 1, 9, cards=8, of="q")
    given.submit("c", 1, 0, cards=8, of="q")
    given.cycle(0)
    assert given.started == {"b": 0}
    given.end("b")
    given.rooms["r"] = given.rooms["r"].__class__("r", 0, 20 * HOUR, 0, ("n000",), users=("ann",))
    given.submit("d", 1, 5, cards=8, of="q")
    given.submit("e", 1, 5, cards=8, of="q", user="ann")
    given.cycle(1)
    assert set(given.started) == {"b", "e"}


@BOTH
def test_an_answer_does_not_outlive_the_reservation(planning: Planning | None) -> None:
    given = pool(planning, nodes=1)
    given.reserve("r", 0, 20, [0])
    given.submit("j", 1, 5, cards=8)
    for hour in (1, 2):
        given.cycle(hour)
    assert given.started == {}
    given.rooms.clear()
    given.cycle(3)
    assert given.started == {"j": 3}


def test_a_refusal_that_time_alone_changes_is_not_remembered() -> None:
    """Nothing changes on the nodes: the job would outlast its own reservation too, and then the other one begins."""
    given = pool(None)
    given.reserve("r", 10, 20, [0], **FOR_EVAL)
    given.reserve("own", 0, 12, [1], queues=("q",))
    given.submit("both", 2, 11, cards=8)
    told = [given.cycle(hour).waiting[0].reasons[0].message for hour in (0, 1, 2)]
    assert ["'own'" in one for one in told] == [False, False, True]
    del given.rooms["own"]
    told = [given.cycle(hour).waiting[0].reasons[0].message for hour in (3, 9, 10)]
    assert ["when reservation 'r' begins" in one for one in told] == [True, True, False]


# ---- other ways to get room


def _reserved(begin: int, end: int) -> ReservedRoom:
    return ReservedRoom("r", begin, end, begin, ("n0",))


@pytest.mark.parametrize(("begin", "evicts"), [(NOW + 1000, True), (0, False)])
def test_nobody_is_evicted_for_room_that_is_reserved(begin: int, evicts: bool) -> None:
    high = structs.replace(gang("high", "high", of=pod_class(gpu=8)), lasts=500)
    queues = {"low": queue(priority=1), "high": queue(priority=9)}
    given = view([node("n0", gpu=8)], [high], queues, running=[running("low", "low", ["n0"], of=pod_class(gpu=8))])
    given = replace(given, reserved=(_reserved(begin, NOW + 2000),))
    found = decide(given, Policy(actions=("allocate", "preempt")))
    assert bool(found.evictions) is evicts


def test_victims_are_looked_for_if_one_alike_that_ends_later_finds_none() -> None:
    late, soon = (
        structs.replace(gang(name, "high", of=pod_class(gpu=8)), lasts=lasts)
        for name, lasts in (("late", 5000), ("soon", 500))
    )
    queues = {"low": queue(priority=1), "high": queue(priority=9)}
    low = running("low", "low", ["n0"], of=pod_class(gpu=8))
    given = view([node("n0", gpu=8)], [late, soon], queues, running=[low])
    found = decide(
        replace(given, reserved=(_reserved(NOW + 1000, NOW + 2000),)), Policy(actions=("allocate", "preempt"))
    )
    assert {one.by for one in found.evictions} == {"soon"}


def test_members_above_a_minimum_take_no_reserved_room() -> None:
    grows = structs.replace(gang("g", "q", 4, of=pod_class(gpu=4), min_member=1), lasts=500)
    given = view([node("n0", gpu=8), node("n1", gpu=8)], [grows])
    found = decide(replace(given, reserved=(_reserved(NOW + 100, NOW + 2000),)))
    assert {one.node for one in found.assignments} == {"n1"}
    (short,) = found.surplus
    assert "reservation 'r' begins" in short.reasons[0].message


def test_room_for_a_lost_member_is_not_kept_where_it_is_reserved() -> None:
    old = gang("old", of=pod_class(gpu=2), min_member=2, placed={"": 1}, total=1, members=[])
    hold = Reservation("old", "", pod_class(gpu=2), ReservationKind.REFILL, queue="q")
    given = view([node("n0", gpu=2), node("n1", gpu=2)], [old], reservations=[hold])
    assert [one.node for one in decide(given).kept] == ["n0"]
    assert [one.node for one in decide(replace(given, reserved=(_reserved(0, NOW + 2000),))).kept] == ["n1"]


def test_a_plan_that_cannot_make_way_leaves_nothing_of_the_gang_that_asked() -> None:
    """Job c would fit beside the plan of b by numbers, if nodes were alike to both; it starts when b has ended."""
    window = (StartWindow(begin=2 * 60, end=3 * 60),)
    queues = {"q": queue(ordering="Backfill"), "at 2": queue(ordering="Backfill", start_windows=window)}
    pool = Pool(nodes=2, queues=queues)
    pool.reserve("r", 2, 5, [0], queues=("other",))
    pool.submit("b", 1, 2, of="at 2")
    pool.cycle(1)
    pool.submit("c", 1)
    pool.cycle(1)
    assert pool.planned == {"b": 2, "c": 4}


def test_a_job_that_lasts_a_moment_too_long_is_not_said_to_last_as_long_as_the_reservation() -> None:
    wanted = structs.replace(gang("g", "q"), lasts=HOUR + HOUR // 7200, reservation="r")
    room = structs.replace(_reserved(NOW + HOUR, NOW + 2 * HOUR), queues=("q",))
    reason = reservation_waits(wanted, [room], True, NOW)
    assert reason is not None
    assert (reason.needs, reason.has) == ({"seconds": 3601}, {"seconds": 3600})
    assert "it may run for 1h1s" in reason.message
    assert "lasts 1h:" in reason.message
