"""The status of a PodGroup, and the pace at which statuses are written."""

import asyncio
from itertools import count
from typing import Any

import pytest

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.queue import parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.keep.queue_sync import PROJECTED_ANNOTATION, QueueSync, fingerprint
from t9ksched.scheduler.report import status as module
from t9ksched.scheduler.report.groupstatus import group_status
from t9ksched.scheduler.report.queuestatus import QueueStatuses
from t9ksched.scheduler.report.status import Due, StatusWriter
from t9ksched.scheduler.state import other_numbers
from t9ksched.scheduler.state.charges import Charges
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from tests.unit.scheduler.state.test_state import group, pod, state_with


def gang(*phases: str, minimum: int = 2, roles: tuple[tuple[str, int], ...] = ()) -> GangRecord:
    record = GangRecord("ns", "g", "uid", spec=PodGroupSpec(minimum, roles))
    for index, phase in enumerate(phases):
        pod = PodRecord(f"p{index}", "ns", f"p{index}", True, None, phase=phase)
        record.members[pod.uid] = pod
    return record


def status(record: GangRecord, before: dict | None = None, now: str = "t1") -> dict:
    ids = count()
    return group_status(record, before or {}, Charges(NodeTable()), now, lambda: f"id{next(ids)}")


def conditions(found: dict) -> dict[str, tuple[str, str]]:
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in found["conditions"]}


def test_counts_leave_zeros_out() -> None:
    found = status(gang("Pending", "Running", "Running", "Failed"))
    assert {key: found[key] for key in found if key != "conditions"} == {"pending": 1, "running": 2, "failed": 1}


def test_members_must_exist_and_not_have_failed() -> None:
    assert conditions(status(gang("Pending")))["SufficientGroupMember"] == ("False", "InsufficientMemberPod")
    assert conditions(status(gang("Pending", "Failed")))["SufficientGroupMember"][0] == "False"
    assert conditions(status(gang("Pending", "Pending")))["SufficientGroupMember"] == ("True", "SufficientMemberPods")
    short = gang("Pending", "Pending", roles=(("master", 1),))
    assert conditions(status(short))["SufficientGroupMember"][0] == "False"


def test_the_scheduled_condition_tells_why_not() -> None:
    waiting = gang("Pending", "Pending")
    waiting.reasons = (Reason(Code.QUOTA_EXCEEDED, "too much"),)
    (condition,) = (c for c in status(waiting)["conditions"] if c["type"] == "GroupScheduled")
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "QuotaExceeded", "too much")
    waiting.scheduled = True
    assert conditions(status(waiting))["GroupScheduled"] == ("True", "PodGroupScheduled")


def test_that_a_group_was_scheduled_is_not_taken_back_and_its_eviction_says_why_it_waits() -> None:
    lost = gang("Pending", "Pending")
    lost.scheduled, lost.evicted = True, ("GangRecoveryTimeout", "1 of 2 members were left")
    lost.reasons = (Reason(Code.QUOTA_EXCEEDED, "too much"),)
    told = status(lost)
    assert conditions(told)["GroupScheduled"] == ("True", "PodGroupScheduled")
    assert conditions(told)["Evicted"] == ("True", "GangRecoveryTimeout")
    (evicted,) = (c for c in told["conditions"] if c["type"] == "Evicted")
    assert evicted["message"] == "1 of 2 members were left. It waits: too much"
    lost.evicted, lost.reasons = None, ()
    assert conditions(status(lost, told))["Evicted"] == ("False", "PodGroupScheduled")


def test_a_transition_time_moves_only_with_the_status() -> None:
    record = gang("Pending", "Pending")
    first = status(record, now="t1")
    again = status(record, first, now="t2")
    assert again == first
    record.scheduled = True
    third = status(record, again, now="t3")
    times = {c["type"]: c["lastTransitionTime"] for c in third["conditions"]}
    assert times == {"SufficientGroupMember": "t1", "GroupScheduled": "t3"}


def test_an_object_is_due_at_most_once_a_period() -> None:
    due = Due(period=5.0)
    due.add("q", 10.0)
    due.add("q", 11.0)
    assert due.take(10.0) == ["q"]
    due.add("q", 10.5)
    assert due.take(12.0) == []
    assert due.next() == 15.0
    assert due.take(15.0, aside=3.0) == []
    assert due.take(18.0, aside=3.0) == ["q"]
    assert due.next() is None


def test_what_was_never_written_is_due_at_once_on_a_machine_that_has_just_started() -> None:
    due = Due(period=5.0)
    due.add("q", 1.0)
    assert due.take(1.0) == ["q"]


class Port:
    """Remembers the statuses that are written."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    async def patch(self, res: Any, name: str, namespace: str, body: Any, **_: Any) -> None:
        self.written.append(body["status"])


@pytest.mark.parametrize("aside", [3600.0, 0.0], ids=["bindings go first", "but not for long"])
async def test_a_status_lets_bindings_go_first(monkeypatch: pytest.MonkeyPatch, aside: float) -> None:
    monkeypatch.setattr(module, "_ASIDE", aside)
    monkeypatch.setattr(module, "_LOOK_AGAIN", 0.0)
    state = state_with()
    state.upsert_group(group("g", 2))
    port, crowded = Port(), True
    writer = StatusWriter(port, state, lambda _: asyncio.sleep(0), lambda: "t", crowded=lambda: crowded)  # type: ignore[arg-type]
    writing = asyncio.create_task(writer.run())
    await turns()
    assert len(port.written) == (0 if aside else 1)
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g"))
    writer.wake()
    await turns()
    crowded = False
    await turns()
    if aside:
        assert [status.get("pending") for status in port.written] == [2], "what came meanwhile is one write"
    writing.cancel()


async def test_statuses_make_way_when_bindings_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN", 0.0)
    state = state_with()
    for at in range(3 * module._IN_FLIGHT):
        state.upsert_group(group(f"g{at}", 1))
    port = Port()
    writer = StatusWriter(
        port,  # type: ignore[arg-type]
        state,
        lambda _: asyncio.sleep(0),
        lambda: "t",
        crowded=lambda: 0 < len(port.written) < 3 * module._IN_FLIGHT and not over,
    )
    over = False
    writing = asyncio.create_task(writer.run())
    await turns()
    assert len(port.written) == module._IN_FLIGHT
    over = True
    await turns()
    assert len(port.written) == 3 * module._IN_FLIGHT
    writing.cancel()


async def test_other_numbers_are_written_in_turn_though_nothing_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AT_ONCE": 1, "A_SECOND": 1000}.items():
        monkeypatch.setattr(other_numbers, name, value)
    monkeypatch.setattr(module, "GROUP_PERIOD", 0.01)
    state, port = state_with(), Port()
    for at in range(5):
        state.upsert_group(group(f"g{at}", 1))
    writer = StatusWriter(port, state, lambda _: asyncio.sleep(0), lambda: "t")  # type: ignore[arg-type]
    writing = asyncio.create_task(writer.run())
    await turns()
    for free in range(2):
        for gang in state.gangs.values():
            state.progress.waits(gang, (Reason(Code.INSUFFICIENT_RESOURCES, f"best has {free} free"),), None)
        writer.wake()
        async with asyncio.timeout(60):
            while sum(f"{free} free" in str(status) for status in port.written) < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    writing.cancel()


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_an_edit_of_a_queue_object_does_not_wait_for_the_pace_of_statuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, written = state_with(queues={"q": {}}), list[str]()

    async def write(name: str) -> None:
        written.append(name)

    statuses = QueueStatuses(state, lambda: "t")
    projection = QueueSync(None, None, state, None, statuses, None)  # type: ignore[arg-type]
    writer = StatusWriter(Port(), state, write, lambda: "t", groups=False)  # type: ignore[arg-type]
    monkeypatch.setattr(writer, "_queues", Due(3600.0))
    writing = asyncio.create_task(writer.run())

    async def seen(priority: int, note: str = "") -> int:
        """How many writes there were after the watch showed the queue so, as we projected it with priority 1."""
        marks = {PROJECTED_ANNOTATION: fingerprint(parse_queue_spec({"priority": 1})), "note": note}
        projection.upsert({"metadata": {"name": "q", "annotations": marks}, "spec": {"priority": priority}})
        writer.wake()
        await turns()
        return len(written)

    try:
        first = await seen(1)
        assert first == 1
        assert await seen(1, "other") == 1, "what is as projected keeps the pace"
        assert await seen(7) == 2, "an edit acts at once, though the queue was written a moment ago"
        assert await seen(8) == 3
        assert await seen(1) == 3
    finally:
        writing.cancel()
