"""Nodes that a reservation chose by a selector: which are replaced when they are of no use, by which, and when."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import nanoseconds
from t9ksched.scheduler.keep.reservation_keeper import LOST_AFTER_NS, ReservationKeeper
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history
from t9ksched.store.advance_reservations import Ended, Outcome, ReservationRecord
from t9ksched.store.history import Event
from tests.unit.scheduler.state.test_state import GPU, decide, pod, state_with
from tests.unit.scheduler.state.test_state import node as plain_node

SECOND = 1_000_000_000
BEGIN = datetime(2030, 1, 7, 20, tzinfo=UTC)
BEFORE, DURING = nanoseconds(BEGIN) - 3600 * SECOND, nanoseconds(BEGIN) + 60 * SECOND
LONG = LOST_AFTER_NS


class Rows:
    """The repository in memory."""

    def __init__(self) -> None:
        self.records: dict[str, ReservationRecord] = {}
        self.events: list[Event] = []

    def put(self, reserved: Sequence[str], **fields: Any) -> None:
        times = {"from": "2030-01-07T20:00:00Z", "to": "2030-01-07T22:00:00Z"}
        chosen = {"selector": {"matchLabels": {"pool": "a"}}, "count": len(reserved)}
        raw = {"name": "r", "nodes": chosen, "for": {"queues": ["q"]}, "onConflict": "Wait"} | times | fields
        one = parse_reservation(raw)
        self.records[one.name] = ReservationRecord(
            one.name, f"uid-{one.name}", one.to_dict(), tuple(reserved), None, 1, "root", BEGIN, BEGIN
        )

    async def list(self) -> list[ReservationRecord]:
        return list(self.records.values())

    async def choose(self, name: str, uid: str, nodes: Sequence[str], event: Event) -> bool:
        self.records[name] = replace(self.records[name], nodes=tuple(nodes))
        self.events.append(event)
        return True

    async def end(self, name: str, uid: str, outcome: Outcome, event: Event) -> bool:
        ended = Ended(outcome.begin, outcome.what) if outcome.what != "Over" else self.records[name].ended
        self.records[name] = replace(self.records[name], outcome=outcome, ended=ended)
        self.events.append(event)
        return True

    async def note_use(self, name: str, uid: str, blocked: datetime | None, used_until: datetime | None) -> bool:
        self.records[name] = replace(self.records[name], blocked=blocked, used_until=used_until)
        return True


class Keeping:
    """A keeper on a state with nodes n1, n2 … of a pool, of which n1 and n2 are reserved."""

    def __init__(self, nodes: int = 3, **fields: Any) -> None:
        self.state = state_with(*(node(f"n{at}") for at in range(1, nodes + 1)), queues={"q": {}, "other": {}})
        self.state.outage.unread = False
        self.rows = Rows()
        self.rows.put(["n1", "n2"], **fields)
        self.now = 0
        self.told: list[tuple[str, str]] = []
        self.keeper = self.begin()

    def begin(self) -> ReservationKeeper:
        """A keeper that knows nothing but what is stored."""
        queue = {"apiVersion": "v1", "kind": "Queue", "metadata": {"name": "q"}}
        return ReservationKeeper(self.rows, self.state, self, lambda: {"q": queue}, lambda: self.now)  # type: ignore[arg-type]

    def event(self, item: Any, reason: str, message: str) -> None:
        self.told.append((reason, item["metadata"]["name"]))

    def gang(self, gang: Any, reason: str, message: str) -> None:
        self.told.append((reason, gang.name))

    async def restart(self, now: int) -> None:
        """Another keeper takes over then."""
        self.keeper, self.now = self.begin(), now
        await self.keeper.load()
        await self.keeper.sweep()

    def became(self) -> list[tuple[str, str]]:
        """What became of which occurrence, as history has it."""
        return [(one.event.removeprefix("reservation-"), one.detail["from"]) for one in self.rows.events]

    def runs(self, *pods: Any) -> None:
        for one in pods:
            self.state.upsert_pod(one)
        decide(self.state)

    async def sweep(self, now: int) -> tuple[str, ...]:
        """The reserved nodes, once it was looked at them then."""
        if not self.now:
            await self.keeper.load()
        self.now = now
        await self.keeper.sweep()
        return self.rows.records["r"].nodes


def node(name: str, pool: str = "a", *, ready: bool = True, gpus: int = 8, state: str = "", **spec: Any) -> Any:
    made = plain_node(name, gpus, **spec)
    made.metadata.labels["pool"] = pool
    if state:
        made.metadata.labels["nvidia.com/gpu-driver-upgrade-state"] = state
    made.status.conditions[0].status = "True" if ready else "Unknown"
    return made


def on(name: str, job: str, queue: str = "q") -> Any:
    return pod(job, 1, queue=queue, nodeSelector={"kubernetes.io/hostname": name})


def _deleted(state: ClusterState) -> None:
    state.remove_node("n1")


def _as(**fields: Any) -> Callable[[ClusterState], None]:
    return lambda state: state.upsert_node(node("n1", **fields))


LOST = {
    "is gone": (_deleted, 0),
    "no longer has the labels": (_as(pool="b"), 0),
    "is not ready": (_as(ready=False), LONG),
    "is cordoned": (_as(unschedulable=True), LONG),
    "has accelerators that are not ready": (_as(state="drain-required"), LONG),
}


@pytest.mark.parametrize("now", [BEFORE, DURING], ids=["before", "during"])
@pytest.mark.parametrize("why", LOST)
async def test_what_takes_no_job_is_replaced(why: str, now: int) -> None:
    lose, after = LOST[why]
    keeping = Keeping()
    assert await keeping.sweep(now) == ("n1", "n2")
    lose(keeping.state)
    for since in range(0, after, 60 * SECOND):
        assert await keeping.sweep(now + since) == ("n1", "n2"), "it may come back"
    assert await keeping.sweep(now + after) == ("n2", "n3")
    (event,) = keeping.rows.events
    assert (event.event, event.name) == (history.RESERVATION_NODES_REPLACED, "r")
    assert (event.detail["replaced"], event.detail["nodes"]) == ({"n1": "n3"}, ["n2", "n3"])
    assert event.detail["why"]["n1"].startswith(why)
    assert event.detail["message"].startswith(f"reservation r: node n1 {why}")
    assert keeping.state.advance.known["r"].record.nodes == ("n2", "n3"), "the engine sees it at once"


async def test_its_time_begins_anew_when_it_was_of_use_meanwhile() -> None:
    keeping = Keeping()
    away = node("n1", ready=False)
    for back in (False, True, False):
        keeping.state.upsert_node(node("n1") if back else away)
        assert await keeping.sweep(BEFORE + LONG * (1 + back)) == ("n1", "n2")
    assert await keeping.sweep(BEFORE + 2 * LONG) == ("n2", "n3")


@pytest.mark.parametrize("why", [why for why in LOST if why != "is gone"])
async def test_a_node_that_its_job_holds_is_kept_until_the_job_ends(why: str) -> None:
    keeping = Keeping()
    keeping.runs(on("n1", "mine"))
    LOST[why][0](keeping.state)
    for now in (DURING, DURING + 2 * LONG):
        assert await keeping.sweep(now) == ("n1", "n2")
    keeping.state.remove_pod("pod-mine")
    await keeping.sweep(DURING + 2 * LONG)
    assert await keeping.sweep(DURING + 3 * LONG) == ("n2", "n3")


@pytest.mark.parametrize("why", LOST)
async def test_maintenance_keeps_the_nodes_that_it_is_about(why: str) -> None:
    for now, kept in ((BEFORE, why not in ("is gone", "no longer has the labels")), (DURING, True)):
        keeping = Keeping(**{"for": "maintenance"})
        LOST[why][0](keeping.state)
        await keeping.sweep(now)
        assert await keeping.sweep(now + LONG) == (("n1", "n2") if kept else ("n2", "n3"))


async def test_named_nodes_stay() -> None:
    keeping = Keeping()
    keeping.rows.put(["n1", "n2"], nodes={"names": ["n1", "n2"]})
    _deleted(keeping.state)
    assert await keeping.sweep(BEFORE) == ("n1", "n2")


async def test_as_many_are_replaced_as_there_are_others() -> None:
    keeping = Keeping(3)
    keeping.state.remove_node("n1")
    keeping.state.upsert_node(node("n2", pool="b"))
    assert await keeping.sweep(BEFORE) == ("n2", "n3"), "the one that is gone comes first"
    keeping.state.upsert_node(node("n4"))
    assert await keeping.sweep(BEFORE + 20 * SECOND) == ("n3", "n4")
    assert [event.detail["replaced"] for event in keeping.rows.events] == [{"n1": "n3"}, {"n2": "n4"}]


@pytest.mark.parametrize(
    "useless",
    [
        node("n3", pool="b"),
        node("n3", ready=False),
        node("n3", unschedulable=True),
        node("n3", state="drain-required"),
    ],
)
async def test_no_useless_node_takes_its_place(useless: Any) -> None:
    keeping = Keeping(3)
    keeping.state.upsert_node(useless)
    keeping.state.remove_node("n1")
    assert await keeping.sweep(BEFORE) == ("n1", "n2")
    assert not keeping.rows.events


async def test_a_node_of_another_reservation_does_not_take_its_place() -> None:
    keeping = Keeping(3)
    keeping.rows.put(["n3"], name="other", nodes={"names": ["n3"]})
    keeping.state.remove_node("n1")
    assert await keeping.sweep(BEFORE) == ("n1", "n2")


async def test_the_node_of_which_least_is_in_the_way_takes_its_place() -> None:
    keeping = Keeping(4)
    keeping.runs(on("n3", "theirs", "other"))
    keeping.state.upsert_node(node("n1", pool="b"))
    assert await keeping.sweep(BEFORE) == ("n2", "n4")
    keeping.state.upsert_node(node("n2", pool="b"))
    assert await keeping.sweep(BEFORE + 20 * SECOND) == ("n2", "n4"), "what is there is better than what others hold"
    keeping.state.remove_node("n2")
    assert await keeping.sweep(BEFORE + 40 * SECOND) == ("n3", "n4"), "others hold it, but there is no n2"


async def test_of_cards_a_node_with_too_few_is_replaced() -> None:
    keeping = Keeping(4, cards={"resource": GPU, "count": 4})
    keeping.state.upsert_node(node("n1", gpus=3))
    keeping.state.upsert_node(node("n3", gpus=2))
    await keeping.sweep(BEFORE)
    assert await keeping.sweep(BEFORE + LONG) == ("n2", "n4")


END = nanoseconds(BEGIN) + 7200 * SECOND
DAY = 86_400 * SECOND
FIRST, SECOND_DAY = "2030-01-07T20:00:00Z", "2030-01-08T20:00:00Z"


async def test_one_that_was_used_to_its_end_is_over() -> None:
    keeping = Keeping()
    keeping.runs(on("n1", "mine"))
    for now in (DURING, END - SECOND, END, END + SECOND):
        await keeping.sweep(now)
    assert (keeping.became(), keeping.told) == ([("over", FIRST)], [])
    outcome = keeping.rows.records["r"].outcome
    assert outcome == Outcome(BEGIN, BEGIN + timedelta(hours=2), "Over", BEGIN + timedelta(hours=2))


@pytest.mark.parametrize("restarted", ["", "during", "after", "both"])
async def test_one_of_which_others_held_room_is_missed_also_after_a_restart(restarted: str) -> None:
    keeping = Keeping()
    keeping.runs(on("n1", "theirs", "other"))
    await keeping.sweep(DURING)
    if restarted in ("during", "both"):
        await keeping.restart(DURING + 60 * SECOND)
    if restarted in ("after", "both"):
        await keeping.restart(END + 3600 * SECOND)
    else:
        await keeping.sweep(END)
    await keeping.restart(END + 7200 * SECOND)
    assert keeping.became() == [("missed", FIRST)]
    outcome = keeping.rows.records["r"].outcome
    assert outcome is not None
    assert outcome.at == outcome.end, "whenever it was written down"
    assert keeping.told == [("ReservationMissed", "q")]


async def test_room_that_came_free_before_its_end_was_not_missed() -> None:
    keeping = Keeping(releaseUnusedAfter="0")
    keeping.runs(on("n1", "theirs", "other"))
    await keeping.sweep(DURING)
    keeping.state.remove_pod("pod-theirs")
    await keeping.sweep(DURING + SECOND)
    await keeping.sweep(END)
    assert keeping.became() == [("over", FIRST)]


async def test_one_that_is_released_is_not_told_again_at_its_end() -> None:
    keeping = Keeping(every="daily")
    waits = pod("waits", 100, queue="q")
    waits.metadata.annotations["scheduler.tensorstack.dev/reservation"] = "r"
    keeping.state.upsert_pod(waits)
    await keeping.sweep(DURING)
    decide(keeping.state)
    await keeping.sweep(DURING + 1800 * SECOND)
    assert keeping.became() == [("released", FIRST)]
    assert keeping.told == [("ReservationReleased", "q"), ("ReservationReleased", "waits")]
    await keeping.restart(END + SECOND)
    await keeping.restart(END + DAY)
    assert keeping.became() == [("released", FIRST), ("over", SECOND_DAY)]


MINUTE = 60 * SECOND


async def _restarted(keeping: Keeping, first: int, last: int) -> int | None:
    """The minute of the occurrence in which it was released, if the service restarts each minute."""
    for minute in range(first, last):
        await keeping.restart(nanoseconds(BEGIN) + minute * MINUTE)
        if keeping.became():
            outcome = keeping.rows.records["r"].outcome
            assert outcome is not None
            assert outcome.at == BEGIN + timedelta(minutes=minute), "when it was released, not its end"
            return minute
    return None


async def test_one_that_was_never_used_is_released_in_time_over_restarts() -> None:
    keeping = Keeping(releaseUnusedAfter="10m")
    assert await _restarted(keeping, -5, 60) == 10


async def test_time_while_no_scheduler_ran_counts() -> None:
    keeping = Keeping(releaseUnusedAfter="10m")
    await keeping.sweep(BEFORE)
    await keeping.restart(nanoseconds(BEGIN) + 11 * MINUTE)
    assert keeping.became() == [("released", FIRST)]


@pytest.mark.parametrize("queue", ["q", "other"], ids=["used", "not free"])
async def test_one_that_was_used_is_released_in_time_over_restarts(queue: str) -> None:
    keeping = Keeping(releaseUnusedAfter="10m")
    keeping.runs(on("n1", "one", queue))
    assert await _restarted(keeping, 0, 20) is None
    keeping.state.remove_pod("pod-one")
    await keeping.sweep(nanoseconds(BEGIN) + 20 * MINUTE)
    assert await _restarted(keeping, 21, 60) == 29, "it was last seen in use in minute 19"


async def test_what_left_while_no_scheduler_ran_counts_from_the_restart_once() -> None:
    keeping = Keeping(releaseUnusedAfter="10m")
    keeping.runs(on("n1", "one"))
    assert await _restarted(keeping, 0, 20) is None
    keeping.state.remove_pod("pod-one")
    assert await _restarted(keeping, 20, 60) == 30


async def test_a_change_counts_anew() -> None:
    keeping = Keeping(releaseUnusedAfter="10m")
    assert await _restarted(keeping, 0, 9) is None
    record = keeping.rows.records["r"]
    keeping.rows.records["r"] = replace(record, updated_at=BEGIN + timedelta(minutes=9))
    assert await _restarted(keeping, 9, 60) == 19


async def test_occurrences_that_ended_while_no_scheduler_ran_are_told_once() -> None:
    keeping = Keeping(every="daily")
    await keeping.sweep(BEFORE)
    await keeping.restart(END + 2 * DAY)
    await keeping.restart(END + 2 * DAY + SECOND)
    assert [what for what, _ in keeping.became()] == ["over"] * 3
    await keeping.restart(END + 40 * DAY)
    assert len(keeping.became()) == 3 + 7, "those of the last week"
