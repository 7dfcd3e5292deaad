"""Edits after acceptance do not count, and are told: once as an event, and in the explanation."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest

from t9ksched.model import names
from t9ksched.model.pod import OwnerReference
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.act.gang_timeouts import GangTimeouts
from t9ksched.scheduler.report.groupstatus import group_status
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.state.edits import ignored
from t9ksched.store.acceptances import Acceptance
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with


def relabelled(made: Any, **labels: str) -> Any:
    more = {f"{names.SCHEDULER_GROUP}/{key}": value for key, value in labels.items()}
    made.metadata.labels = made.metadata.labels | more
    return made


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda: relabelled(pod("p", queue="q"), queue="other"), "it was accepted in 'q' and stays there"),
        (lambda: relabelled(pod("p", queue="q"), **{"group-name": "g"}), "came without a group and stays alone"),
    ],
)
async def test_labels_of_a_pod(change: Any, told: str) -> None:
    state = state_with(queues={"q": {}, "other": {}})
    state.upsert_pod(pod("p", 9, queue="q"))
    decide(state)
    gang = state.gangs_by_uid["pod-p"]
    assert ignored(gang) == ()
    taken(state, "jobs")
    state.upsert_pod(change())
    (text,) = ignored(gang)
    assert told in text
    assert "pod-p" in taken(state, "jobs"), "or no event would be written"
    assert gang.queue == "q"
    view = observed_job(state, "pod-p")
    assert view is not None
    assert [one["message"] for one in (await explanation(view, state))["warnings"]] == [text]


def test_a_group_and_its_members() -> None:
    state = state_with(queues={"q": {}, "other": {}})
    state.upsert_group(group("g", 2, priority=3))
    state.upsert_pod(relabelled(pod("a", group="g"), role="worker"))
    state.upsert_pod(relabelled(pod("b", group="g"), queue="other"))
    decide(state)
    gang = state.gangs_by_uid["group-g"]
    (text,) = ignored(gang)
    assert "its group g is in queue 'q': the group's counts" in text
    state.upsert_group(group("g", 2, queue="other", priority=9))
    state.upsert_pod(relabelled(pod("a", group="g"), role="ps"))
    state.upsert_pod(relabelled(pod("b", group="g"), **{"group-name": "h"}))
    found = ignored(gang)
    assert [text.split(":")[0] for text in found] == [
        "the PodGroup g names queue 'other'",
        "the PodGroup g asks for priority 9",
        f"the label {names.ROLE_LABEL} of pod a says 'ps'",
        f"the label {names.GROUP_LABEL} of pod b says 'h'",
    ]
    assert (gang.queue, gang.priority) == ("q", 3)


def test_after_a_restart_a_pod_is_still_in_the_group_that_it_was_accepted_with() -> None:
    before = state_with()
    before.upsert_pod(pod("p", queue="q"))
    decide(before)
    state = state_with()
    state.accept(before.acceptances["pod-p"])
    state.upsert_group(group("g", 1))
    state.upsert_pod(relabelled(pod("p", queue="q"), **{"group-name": "g"}))
    assert state.gangs_by_uid["pod-p"].virtual


def accepted(uid: str, kind: str, **more: Any) -> Acceptance:
    return Acceptance(uid=uid, kind=kind, namespace="ns", name=uid, accepted_at=datetime.fromtimestamp(0, UTC), **more)


@pytest.mark.parametrize("first", [{}, {"shut": {"closed": True}}], ids=["an unknown queue", "a closed one"])
def test_a_pod_that_was_never_accepted_is_in_the_queue_that_its_label_names(first: Any) -> None:
    state = state_with(queues={"q": {}} | first)
    woken: list[bool] = []
    state.upsert_pod(pod("p", queue="shut"))
    assert decide(state) == []
    state.wake = lambda: woken.append(True)
    state.upsert_pod(relabelled(pod("p", queue="shut"), queue="q"))
    gang = state.gangs_by_uid["pod-p"]
    assert (woken, gang.queue, ignored(gang)) == ([True], "q", ())
    assert [one.pod for one in decide(state)] == ["pod-p"]
    state.upsert_pod(relabelled(pod("p", queue="q"), queue="shut"))
    (text,) = ignored(gang)
    assert "it was accepted in 'q' and stays there" in text


def test_a_pod_of_an_accepted_owner_stays_in_the_queue_of_that() -> None:
    state = state_with(queues={"q": {"quota": {"requests": {"nvidia.com/gpu": "8"}}}, "other": {}})
    made = pod("p", 8, queue="q")
    made.metadata.owner_references = [OwnerReference("batch/v1", "Job", "j", "job", True)]
    state.accept(accepted("job", "Job", queue="q"))
    state.upsert_pod(made)
    state.view(NOW)
    state.upsert_pod(relabelled(made, queue="other"))
    state.view(NOW)
    assert state.gangs_by_uid["pod-p"].queue == "q"


def test_a_pod_that_waits_is_in_the_group_that_its_label_names() -> None:
    """As after a restart; what was accepted with the former group is not accepted with it."""
    state = state_with(queues={"q": {}, "shut": {"closed": True}})
    state.upsert_group(group("g", 3))
    state.upsert_group(group("h", 1, queue="shut"))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g"))
    assert decide(state) == []
    state.pods["pod-b"].accepted = True
    state.upsert_pod(relabelled(pod("b", group="g"), **{"group-name": "h"}))
    g, h = state.gangs["ns", "g"], state.gangs["ns", "h"]
    assert (list(g.members), list(h.members)) == (["pod-a"], ["pod-b"])
    assert ignored(g) == ignored(h) == ()
    assert decide(state) == []
    (reason,) = h.reasons
    assert reason.code == Code.QUEUE_CLOSED
    state.upsert_pod(pod("b", queue="q"))
    alone = state.pods["pod-b"].gang
    assert alone is not None
    assert (alone.virtual, alone.queue, list(h.members)) == (True, "q", [])
    assert [one.pod for one in decide(state)] == ["pod-b"]
    state.upsert_pod(relabelled(pod("b", queue="q"), **{"group-name": "g"}))
    assert state.pods["pod-b"].gang is alone
    assert "it came without a group and stays alone" in ignored(alone)[0]


def test_a_member_whose_binding_was_refused_is_where_its_label_says_by_then() -> None:
    state = state_with(node("n1"))
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("a", group="g"))
    assert len(decide(state)) == 1
    state.upsert_pod(relabelled(pod("a", group="g"), **{"group-name": "h"}))
    assert list(state.gangs["ns", "g"].members) == ["pod-a"]
    state.refuse("pod-a", Reason(Code.BIND_REFUSED, "not now"), NOW, keep_place=False)
    state.view(NOW)
    assert list(state.gangs["ns", "h"].members) == ["pod-a"]
    assert state.gangs["ns", "g"].members == {}


def owned(made: Any, controller: str) -> Any:
    """The same object with that PodGroup as its controller; with none if it is empty."""
    reference = OwnerReference(names.SCHEDULER_API, "PodGroup", controller, f"group-{controller}", True)
    made.metadata.owner_references = [reference] if controller else None
    return made


CLAIMED: dict[str, tuple[Any, Any, str]] = {
    "a pod that waits": (lambda: pod("p", queue="q"), "upsert_pod", "pod-p"),
    "a pod that runs": (lambda: pod("p", queue="q", node="n1"), "upsert_pod", "pod-p"),
    "a group": (lambda: group("p", 1), "upsert_group", "group-p"),
}


@pytest.mark.parametrize("when", ["it is running", "it starts", "acceptances are read late"])
@pytest.mark.parametrize(("made", "upsert", "uid"), CLAIMED.values(), ids=CLAIMED)
def test_what_came_without_a_controller_stays_a_job_of_its_own(made: Any, upsert: Any, uid: str, when: str) -> None:
    """Its job would be taken for one that is gone, and it would count as a part of another's."""
    state = state_with(node("n1"))
    getattr(state, upsert)(made())
    if uid == "group-p":
        state.upsert_pod(pod("a", group="p"))
    state.accept_running(NOW)
    decide(state)
    agreed = state.acceptances[uid]
    if when != "it is running":
        state = state_with(node("n1"))
    if when == "it starts":
        state.accept(agreed)
    state.upsert_group(group("g", 1))
    getattr(state, upsert)(owned(made(), "g"))
    if when == "acceptances are read late":
        assert state.gangs_of_owner("group-g"), "nothing else is known yet"
        state.accept(agreed)
    gang = state.gangs_by_uid[uid]
    assert gang.owner is None
    assert not state.gangs_of_owner("group-g")
    assert observed_job(state, uid) is not None
    assert uid in taken(state, "jobs")
    (text,) = ignored(gang)
    assert "names PodGroup/g as its controller" in text
    getattr(state, upsert)(owned(made(), ""))
    assert ignored(gang) == ()


def test_a_pod_that_a_controller_made_keeps_its_owner_after_a_restart() -> None:
    before = state_with()
    before.upsert_pod(owned(pod("p", queue="q", node="n1"), "g"))
    before.accept_running(NOW)
    state = state_with()
    for agreed in before.acceptances.values():
        state.accept(agreed)
    state.upsert_pod(owned(pod("p", queue="q", node="n1"), "g"))
    (gang,) = state.gangs_of_owner("group-g")
    assert gang.owner is not None
    assert ignored(gang) == ()


@pytest.mark.parametrize("edit", [{"min_member": 7}, {"min_member": 2, "roles": [{"name": "worker", "minMember": 7}]}])
async def test_a_minimum_raised_while_a_group_runs(edit: dict[str, Any]) -> None:
    state = state_with()
    state.upsert_group(group("g", 1, roles=[{"name": "worker", "minMember": 2}]))
    for name in ("a", "b"):
        state.upsert_pod(relabelled(pod(name, group="g"), role="worker"))
    decide(state)
    for name in ("a", "b"):
        state.upsert_pod(relabelled(pod(name, group="g", node="n1", phase="Running"), role="worker"))
    state.settle()
    gang = state.gangs_by_uid["group-g"]
    assert ignored(gang) == ()
    state.upsert_group(group("g", **edit))
    state.settle()
    (text,) = ignored(gang)
    assert "it runs since it had 2" in text
    assert "7" in text
    view = observed_job(state, "group-g")
    assert view is not None
    explained = await explanation(view, state)
    assert explained["job"]["phase"] == "Running"
    assert explained["job"]["members"]["min"] == 2
    assert explained["verdict"] == "Placed"
    assert [one["message"] for one in explained["warnings"]] == [text]
    (members, *_) = group_status(gang, {}, state.charges, "now", lambda: "id")["conditions"]
    assert (members["status"], members["message"]) == ("True", f"2 members exist. {text}")
    state.upsert_pod(relabelled(pod("a", group="g", node="n1", phase="Failed"), role="worker"))
    (members, *_) = group_status(gang, {}, state.charges, "now", lambda: "id")["conditions"]
    assert (members["status"], members["message"][:18]) == ("False", "1 of 2 members exi")


async def test_a_member_more_of_a_running_group_whose_minimum_was_raised_evicts_nothing() -> None:
    """It waits, and what runs is not taken back because the raised minimum is not reached."""
    state = state_with(node(gpus=2))
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    state.settle()
    while state.accept_running(NOW):
        pass
    state.upsert_group(group("g", 7))
    state.upsert_pod(pod("c", group="g"))
    now = [NOW]
    timeouts = GangTimeouts(Mock(), state, Mock(), Mock(), lambda: now[0])
    for _ in range(3):
        assert decide(state) == []
        assert timeouts.overdue() == []
        now[0] += 3600 * 10**9


def test_a_lost_member_of_a_running_group_whose_minimum_was_raised_is_replaced() -> None:
    state = state_with()
    state.upsert_group(group("g", 3))
    for name in ("a", "b", "c"):
        state.upsert_pod(pod(name, group="g"))
    decide(state)
    for name in ("a", "b", "c"):
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    state.settle()
    state.upsert_group(group("g", 6))
    state.remove_pod("pod-c")
    state.upsert_pod(pod("d", group="g"))
    assert [one.pod for one in decide(state)] == ["pod-d"]


@pytest.mark.parametrize("how", ["read first", "read after the group"])
@pytest.mark.parametrize("owner", ["", "job"])
@pytest.mark.parametrize("status", ["scheduled", "not written yet"])
def test_the_minimum_that_a_group_began_with_is_on_record(how: str, owner: str, status: str) -> None:
    """More pods were accepted than its minimum, or their number stands with its owner: neither says what it was.

    The status of the group may be written later than the record: the process may end in between.
    """

    def anew(**spec: Any) -> Any:
        made = group("g", **spec)
        return owned(made, owner) if owner else made

    def running(name: str, role: str) -> Any:
        return relabelled(pod(name, group="g", node="n1", phase="Running"), role=role)

    roles = [{"name": "lead", "minMember": 1}, {"name": "worker", "minMember": 1}]
    state = state_with()
    state.upsert_group(anew(min_member=2, roles=roles))
    for name, role in (("a", "lead"), ("b", "worker"), ("c", "worker")):
        state.upsert_pod(relabelled(pod(name, group="g"), role=role))
    decide(state)
    for name, role in (("a", "lead"), ("b", "worker"), ("c", "worker")):
        state.upsert_pod(running(name, role))
    state.settle()
    state.accept_running(NOW)
    before = state.gangs_by_uid["group-g"]
    raised = anew(min_member=3, roles=[{"name": "lead", "minMember": 1}, {"name": "worker", "minMember": 2}])
    if status == "scheduled":
        raised.status = {"conditions": [{"type": "GroupScheduled", "status": "True"}]}
    state.upsert_group(raised)
    assert before.minimum == (2, (("lead", 1), ("worker", 1)))
    told = list(ignored(before))

    rows = list(state.acceptances.values())
    state = state_with()
    if how == "read first":
        for row in rows:
            state.accept(row)
    state.upsert_group(raised)
    for name, role in (("a", "lead"), ("b", "worker")):
        state.upsert_pod(running(name, role))
    if how != "read first":
        for row in rows:
            state.accept(row)
    gang = state.gangs_by_uid["group-g"]
    assert gang.minimum == before.minimum
    assert gang.scheduled, "its status says that it has its place"
    assert list(ignored(gang)) == told
    assert gang.complete()
    state.start_again(gang, "Preempted", "by another")
    assert gang.minimum == (3, (("lead", 1), ("worker", 2))), "it starts again with what it asks for now"
    state.accept_running(NOW)
    assert state.acceptances["group-g"].began_with == 0
