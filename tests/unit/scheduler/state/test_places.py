"""To which group a bound pod belongs, in which role, and which queue pays: what is on record wins over labels."""

from collections import Counter
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.model import names
from t9ksched.model.pod import OwnerReference
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.bindings import CardBinding
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, group, node, pod, state_with

QUEUES: dict[str, Any] = {"q": {}, "other": {}}


def row(
    uid: str, group: str | None, *, node: str = "n1", role: str = "", queue: str = "q", job: str = ""
) -> CardBinding:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return CardBinding(
        pod_uid=uid,
        namespace="ns",
        name=uid.removeprefix("pod-"),
        node=node,
        cards=[],
        honoured=False,
        at=at,
        group_name=group,
        role=role if group is not None else None,
        queue=queue if group is not None else None,
        job_uid=job or None,
    )


def place(state: ClusterState, name: str) -> tuple[str, str, str]:
    record = state.pods[f"pod-{name}"]
    charge = state.charges.get(record.uid)
    assert record.gang is not None
    assert charge is not None
    assert charge.queue == record.gang.queue
    return "" if record.gang.virtual else record.gang.name, record.role, charge.queue


CASES: dict[str, tuple[Any, CardBinding, tuple[str, str, str]]] = {
    "out of its group": (pod("p", queue="other", node="n1"), row("pod-p", "g"), ("g", "", "q")),
    "into a group": (pod("p", group="g", node="n1"), row("pod-p", "", queue="other"), ("", "", "other")),
    "another group": (pod("p", group="h", node="n1"), row("pod-p", "g"), ("g", "", "q")),
    "another role": (pod("p", group="g", node="n1"), row("pod-p", "g", role="lead"), ("g", "lead", "q")),
    "another queue": (pod("p", queue="other", node="n1"), row("pod-p", ""), ("", "", "q")),
    "a group that is gone": (pod("p", group="h", node="n1"), row("pod-p", "gone"), ("gone", "", "q")),
    "nothing on record": (pod("p", group="h", node="n1"), row("pod-p", None), ("h", "", "other")),
    "on record on another node": (pod("p", group="h", node="n1"), row("pod-p", "g", node="n2"), ("h", "", "other")),
}


@pytest.mark.parametrize("late", [False, True], ids=["read first", "read after the pods"])
@pytest.mark.parametrize(("seen", "written", "counts"), CASES.values(), ids=CASES)
def test_what_is_on_record_counts(seen: Any, written: CardBinding, counts: tuple[str, str, str], late: bool) -> None:
    state = state_with(node("n1"), node("n2"), queues=QUEUES)
    if not late:
        state.places.restore({"pod-p": written})
    state.upsert_group(group("g", 1))
    state.upsert_group(group("h", 1, queue="other"))
    state.upsert_pod(seen)
    if late:
        state.places.restore({"pod-p": written})
    assert place(state, "p") == counts
    assert [uid for gang in state.gangs.values() for uid in gang.members] == ["pod-p"], "it is in one group"
    used = {queue: amounts.get(GPU) for queue, amounts in state.charges.queue_used.items() if amounts.get(GPU)}
    assert used == {counts[2]: 1}
    state.settle()
    state.remove_pod("pod-p")
    assert not any(amounts.get(GPU) for amounts in state.charges.queue_used.values())


def test_a_pod_whose_binding_is_seen_late_goes_where_it_was_bound_for() -> None:
    """A former leader's request was still on its way, and the label was edited before it arrived."""
    state = state_with(node("n1"), queues=QUEUES)
    state.places.restore({"pod-p": row("pod-p", "g")})
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("p", queue="other"))
    state.upsert_pod(pod("p", queue="other", node="n1"))
    assert place(state, "p") == ("g", "", "q")


def test_what_is_not_on_record_is_found_once() -> None:
    state = state_with(node("n1"), queues=QUEUES)
    state.places.restore({"pod-known": row("pod-known", "g", job="group-g"), "pod-old": row("pod-old", None)})
    state.upsert_group(group("g", 1))
    state.places.restore({"pod-jobless": row("pod-jobless", "g")})
    for name in ("known", "jobless", "old", "new"):
        state.upsert_pod(pod(name, group="g", node="n1"))
    state.upsert_pod(pod("waits", group="g"))
    assert [record.name for record in state.places.take_missing()] == ["jobless", "old", "new"]
    assert not [*state.places.take_missing()]


def remade(state: ClusterState, queue: str) -> None:
    """Its user deletes PodGroup g and makes another of that name in a queue."""
    state.remove_group(group("g", 1))
    state.upsert_group(group("g", 1, uid="group-anew", queue=queue))


@pytest.mark.parametrize("queue", ["other", "nosuch"])
def test_a_group_made_anew_stays_in_the_queue_that_pays_for_its_members(queue: str) -> None:
    """Else its members would run on in a queue that did not accept them, and their own had room again."""
    state = state_with(node("n1"), queues=QUEUES)
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("p", group="g"))
    (decided,) = decide(state)
    state.upsert_pod(pod("p", group="g", node=decided.node))
    remade(state, queue)
    state.upsert_pod(pod("more", 2, group="g"))
    assert place(state, "p") == ("g", "", "q")
    assert [assignment.pod for assignment in decide(state)] == ["pod-more"]
    assert state.charges.queue_used["q"][GPU] == 3
    gang = state.gangs["ns", "g"]
    assert gang.acceptance is not None
    assert gang.acceptance.queue == "q"


@pytest.mark.parametrize("first", ["rows", "group", "pod"])
def test_a_start_finds_a_group_made_anew_in_the_queue_that_pays(first: str) -> None:
    rows = {"pod-p": row("pod-p", "g")}
    state = state_with(node("n1"), queues=QUEUES)
    steps = {
        "rows": lambda: state.places.restore(rows),
        "group": lambda: state.upsert_group(group("g", 1, uid="group-anew", queue="other")),
        "pod": lambda: state.upsert_pod(pod("p", group="g", node="n1")),
    }
    for step in (first, *(one for one in steps if one != first)):
        steps[step]()
    decide(state)
    assert place(state, "p") == ("g", "", "q")
    assert not state.charges.queue_used.get("other")


ANEW = "group-anew"


def submitted() -> Acceptance:
    """What the service writes down when a user submits the PodGroup that is made anew."""
    return Acceptance(
        uid=ANEW,
        kind="PodGroup",
        namespace="ns",
        name="g",
        group_uid=ANEW,
        group_name="g",
        submitter="bob",
        queue="other",
    )


@pytest.mark.parametrize("started", [False, True], ids=["as submitted", "as started"])
@pytest.mark.parametrize("order", list(permutations(["rows", "acceptance", "group", "pod"])), ids="-".join)
def test_a_group_submitted_anew_is_in_the_queue_that_pays_in_whatever_order_it_is_known(
    order: tuple[str, ...], started: bool
) -> None:
    """Its submission names another queue, which would be charged with what runs, whatever its quota is."""
    recorded = structs.replace(submitted(), replicas=1, began_with=1) if started else submitted()
    state = state_with(node("n1"), queues=QUEUES)
    steps: dict[str, Any] = {
        "rows": lambda: state.places.restore({"pod-p": row("pod-p", "g", job="group-g")}),
        "acceptance": lambda: state.accept(recorded),
        "group": lambda: state.upsert_group(group("g", 1, uid=ANEW, queue="other")),
        "pod": lambda: state.upsert_pod(pod("p", group="g", node="n1")),
    }
    for step in order:
        steps[step]()
    assert place(state, "p") == ("g", "", "q")
    decide(state)
    assert place(state, "p") == ("g", "", "q")
    assert not +Counter(state.charges.queue_used["other"])
    agreed = state.gangs["ns", "g"].acceptance
    assert agreed is not None
    assert agreed == state.acceptances[ANEW]
    assert (agreed.queue, agreed.submitter) == ("q", "bob")
    written = {(one.uid, one.queue, one.submitter, one.replicas) for one in taken(state, "acceptances")}
    assert written == {(ANEW, "q", "bob", 1)}, "the next process reads the same"


@pytest.mark.parametrize("first", ["group", "acceptance"])
def test_a_group_submitted_anew_is_in_the_queue_that_pays_while_the_scheduler_runs(first: str) -> None:
    state = state_with(node("n1"), queues=QUEUES)
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("p", group="g"))
    (decided,) = decide(state)
    state.upsert_pod(pod("p", group="g", node=decided.node))
    state.remove_group(group("g", 1))
    if first == "acceptance":
        state.accept(submitted())
    state.upsert_group(group("g", 1, uid=ANEW, queue="other"))
    state.accept(submitted())
    assert place(state, "p") == ("g", "", "q")
    decide(state)
    state.accept(submitted())  # told again
    assert place(state, "p") == ("g", "", "q")
    assert state.acceptances[ANEW].queue == "q"


@pytest.mark.parametrize("ends", ["gone", "succeeds"])
def test_a_group_submitted_anew_that_may_not_use_the_queue_that_pays_is_in_its_own_after_that(ends: str) -> None:
    state = state_with(node("n1"), queues=QUEUES)
    state.permit({"other": Members(everyone=True)})
    state.places.restore({"pod-p": row("pod-p", "g", job="group-g")})
    state.accept(submitted())
    state.upsert_group(group("g", 1, uid=ANEW, queue="other"))
    state.upsert_pod(pod("p", group="g", node="n1"))
    state.upsert_pod(pod("new", group="g"))
    assert decide(state) == []
    gang = state.gangs["ns", "g"]
    assert (gang.queue, gang.acceptance) == ("q", None)
    if ends == "gone":
        state.remove_pod("pod-p")
    else:
        state.upsert_pod(pod("p", group="g", node="n1", phase="Succeeded"))
    assert [assignment.pod for assignment in decide(state)] == ["pod-new"]
    assert place(state, "new") == ("g", "", "other")
    assert gang.acceptance == state.acceptances[ANEW]


def test_without_placed_members_a_group_made_anew_is_in_its_own_queue() -> None:
    state = state_with(node("n1"), queues=QUEUES)
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("p", group="g"))
    (decided,) = decide(state)
    state.upsert_pod(pod("p", group="g", node=decided.node))
    state.remove_group(group("g", 1))
    state.permit({})  # the new one may not be accepted
    state.upsert_group(group("g", 1, uid="group-anew", queue="other"))
    decide(state)
    state.remove_pod("pod-p")
    state.permit(dict.fromkeys(QUEUES, Members(everyone=True)))
    state.upsert_pod(pod("new", group="g"))
    assert [assignment.pod for assignment in decide(state)] == ["pod-new"]
    assert place(state, "new") == ("g", "", "other")


def roles(state: ClusterState) -> dict[str, str]:
    return {record.name: record.role for record in state.pods.values()}


def member(name: str, role: str, **more: Any) -> Any:
    made = pod(name, group="g", **more)
    made.metadata.labels[names.ROLE_LABEL] = role
    return made


def with_roles() -> ClusterState:
    state = state_with(node("n1"), queues=QUEUES)
    state.upsert_group(group("g", 2, roles=[{"name": "lead", "minMember": 1}, {"name": "worker", "minMember": 1}]))
    return state


def test_the_role_of_a_pod_that_waits_is_what_its_label_says_now() -> None:
    woken: list[str] = []
    state = with_roles()
    state.wake = lambda: woken.append("x")
    for name in ("a", "b"):
        state.upsert_pod(member(name, "worker"))
    assert decide(state) == []
    woken.clear()
    state.upsert_pod(member("a", "lead"))
    assert woken, "the gang has its roles now, and no cycle would run"
    assert roles(state) == {"a": "lead", "b": "worker"}
    assert len(decide(state)) == 2
    state.upsert_pod(member("a", "worker"))
    assert roles(state) == {"a": "lead", "b": "worker"}, "it keeps the role in which its place was chosen"
    state.upsert_pod(member("a", "worker", node="n1"))
    assert roles(state) == {"a": "lead", "b": "worker"}


@pytest.mark.parametrize("how", ["refused", "withdrawn", "does not fit"])
def test_a_pod_that_loses_its_place_before_it_is_bound_has_the_role_of_its_label(how: str) -> None:
    state = with_roles()
    state.upsert_pod(member("a", "lead"))
    state.upsert_pod(member("b", "worker"))
    decided = decide(state)
    reason = Reason(Code.BIND_REFUSED, "no")
    state.upsert_pod(member("a", "worker"))
    if how == "refused":
        state.refuse("pod-a", reason, NOW, keep_place=False)
    elif how == "withdrawn":
        state.withdraw(["pod-a", "pod-b"], reason)
    else:
        state.withdraw(["pod-a"], reason)
        state.upsert_pod(member("a", "lead"))
        state.remove_pod("pod-b")
        assert state.assume("group-g", decided, NOW) == []
        state.upsert_pod(member("a", "worker"))
    assert roles(state)["a"] == "worker"


def test_a_pod_that_another_process_bound_has_the_role_on_record() -> None:
    state = with_roles()
    state.places.restore({"pod-a": row("pod-a", "g", role="lead", job="group-g")})
    state.upsert_pod(member("a", "worker"))
    assert roles(state) == {"a": "worker"}, "what it was to be bound as says nothing while it waits"
    state.upsert_pod(member("a", "other", node="n1"))
    assert roles(state) == {"a": "lead"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_stays_what_it_was_until_it_is_gone(phase: str) -> None:
    """What succeeded counts towards the minimum of its group: a label edited since must not, after a start either."""
    state = with_roles()
    for name, role in (("a", "lead"), ("b", "worker")):
        state.upsert_pod(member(name, role))
    decide(state)
    for name, role in (("a", "lead"), ("b", "worker")):
        state.upsert_pod(member(name, role, node="n1", phase="Running"))
    state.upsert_pod(member("a", "lead", node="n1", phase=phase))
    assert state.cards.over == [], "its row is still needed"
    state = with_roles()
    rows = {"pod-a": row("pod-a", "g", role="lead", job="group-g")}
    state.places.restore(rows)
    state.cards.restore(rows, complete=True)
    state.upsert_pod(pod("a", group="", queue="other", node="n1", phase=phase))
    state.cards.adopt(NOW)
    record = state.pods["pod-a"]
    assert record.gang is state.gangs["ns", "g"]
    assert record.role == "lead"
    assert state.cards.over == []
    state.remove_pod("pod-a")
    assert state.cards.over == ["pod-a"]


def test_cards_that_are_on_record_are_known_though_those_of_a_neighbour_are_not() -> None:
    state = state_with(node("n2"))
    for name, card in (("a", "0"), ("b", "1")):
        state.upsert_pod(pod(name, group="g", node="n1", cards=card))
    honours = node()
    honours.metadata.annotations = {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX}
    state.upsert_node(honours)
    assert state.cards.drifting.keys() == {"pod-a", "pod-b"}, "nothing has been read yet"
    known = structs.replace(row("pod-a", "g"), cards=[("main", GPU, (0,))], honoured=True)
    state.cards.restore({"pod-a": known}, complete=True)
    assert state.cards.drifting.keys() == {"pod-b"}


def test_the_queue_that_paid_for_members_pays_when_their_group_is_gone() -> None:
    state = state_with(queues=QUEUES)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    agreed = Acceptance(uid="job", kind="PyTorchTrainingJob", namespace="ns", name="job", queue="q", accepted_at=at)
    state.accept(agreed)
    made = group("g", 2, queue="other")
    made.metadata.owner_references = [OwnerReference("x/v1", "PyTorchTrainingJob", "job", "job", controller=True)]
    state.upsert_group(made)
    for one in (pod("a", group="g", node="n1", cards="0"), pod("b", 9, group="g")):
        one.metadata.owner_references = made.metadata.owner_references
        state.upsert_pod(one)
    state.view(NOW)
    state.accept(structs.replace(agreed, uid="group-g", kind="PodGroup", name="g", queue="other", group_name="g"))
    gang = state.gangs["ns", "g"]
    assert (gang.queue, gang.agreed) == ("other", "q")
    state.remove_group(made)
    assert gang.queue == "other"
    charge = state.charges.get("pod-a")
    assert charge is not None
    assert charge.queue == "other"
