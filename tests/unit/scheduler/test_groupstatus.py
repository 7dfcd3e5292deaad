"""The status of a PodGroup, and the pace at which statuses are written."""

from itertools import count

from t9ksched.engine.nodes import NodeTable
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.charges import Charges
from t9ksched.scheduler.groupstatus import group_status
from t9ksched.scheduler.records import GangRecord, PodRecord
from t9ksched.scheduler.status import Due


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
    assert conditions(status(gang("Pending")))["SufficientGroupMember"] == ("False", "InsufficientMemberPods")
    assert conditions(status(gang("Pending", "Failed")))["SufficientGroupMember"][0] == "False"
    assert conditions(status(gang("Pending", "Pending")))["SufficientGroupMember"] == ("True", "SufficientMemberPods")
    short = gang("Pending", "Pending", roles=(("master", 1),))
    assert conditions(status(short))["SufficientGroupMember"][0] == "False"


def test_the_scheduled_condition_tells_why_not() -> None:
    waiting = gang("Pending", "Pending")
    waiting.reasons = (Reason(Code.QUOTA_EXCEEDED, "too much"),)
    (condition,) = (c for c in status(waiting)["conditions"] if c["type"] == "GroupScheduled")
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "QuotaExceeded", "too much")
    waiting.ran = True
    assert conditions(status(waiting))["GroupScheduled"] == ("True", "PodGroupScheduled")


def test_a_transition_time_moves_only_with_the_status() -> None:
    record = gang("Pending", "Pending")
    first = status(record, now="t1")
    again = status(record, first, now="t2")
    assert again == first
    record.ran = True
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
    assert due.take(15.0) == ["q"]
    assert due.next() is None
