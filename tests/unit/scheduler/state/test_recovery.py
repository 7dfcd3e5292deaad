"""What the state remembers of things that went wrong: nodes to avoid, promised room that no pod leaves, gangs that
fell."""

import msgspec

from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.report.groupstatus import group_status
from t9ksched.scheduler.state.node_backoff import AVOID_NS
from t9ksched.scheduler.state.preemption_backoff import FIRST_NS
from t9ksched.scheduler.state.reservations import IDLE_PROMISE_NS
from t9ksched.scheduler.state.state import ClusterState
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with, used_cards


def failed(name: str, where: str, reason: str) -> object:
    seen = pod(name, 1, group="g", node=where, phase="Failed")
    return msgspec.structs.replace(seen, status=msgspec.structs.replace(seen.status, reason=reason))


def turned_away(reason: str) -> ClusterState:
    state = state_with(node("n1"), node("n2"))
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("a", 1, group="g", node="n1"))
    state.upsert_pod(failed("a", "n1", reason))
    state.upsert_pod(pod("b", 8, group="g"))
    return state


def test_a_node_that_turned_a_member_away_is_avoided_by_its_gang_for_a_while() -> None:
    state = turned_away("UnexpectedAdmissionError")
    (refused,) = state.turned_away(NOW)
    assert (refused.pod, refused.node) == ("a", "n1")
    assert [gang.evicts_from for gang in state.view(NOW).gangs] == [NOW + FIRST_NS]
    assert [assignment.node for assignment in decide(state)] == ["n2"]
    assert not state.view(NOW).gangs
    assert state.next_retry() == NOW + AVOID_NS == NOW + 120 * 10**9, "as reasons say"
    assert not state.node_backoff.by(refused.gang, NOW + AVOID_NS)


def test_a_pod_that_failed_by_itself_is_not_the_nodes_fault() -> None:
    assert not turned_away("Error").node_backoff.take(NOW)


def test_promised_room_is_given_up_when_no_pod_has_been_leaving_it_for_a_while() -> None:
    state = state_with(node("n1"))
    state.upsert_pod(pod("victim", 8, queue="q", node="n1", deleting=True))
    state.upsert_pod(pod("waits", 4, queue="q"))
    waits = state.pods["pod-waits"]
    assert waits.pod_class is not None
    assert waits.gang is not None
    state.reservations.promise(
        [Reservation(waits.gang.uid, "n1", waits.pod_class, ReservationKind.VICTIMS)], NOW + 3600 * 10**9
    )
    state.end_idle_promises(NOW, evicting=False)
    state.end_idle_promises(NOW + 2 * IDLE_PROMISE_NS, evicting=False)
    assert state.view(NOW).reservations, "the victim is still leaving"
    state.remove_pod("pod-victim")
    state.end_idle_promises(NOW, evicting=False)
    assert state.next_retry() == NOW + IDLE_PROMISE_NS
    state.end_idle_promises(NOW + IDLE_PROMISE_NS, evicting=True)
    assert state.view(NOW).reservations, "an eviction is under way"
    state.end_idle_promises(NOW, evicting=False)
    state.end_idle_promises(NOW + IDLE_PROMISE_NS, evicting=False)
    assert not state.view(NOW).reservations


def test_promised_room_is_kept_while_a_pod_leaves_elsewhere_to_make_quota() -> None:
    state = state_with(node("n1"), node("n2"))
    state.upsert_pod(pod("surplus", 4, queue="q", node="n2", deleting=True))
    state.upsert_pod(pod("waits", 4, queue="q"))
    waits = state.pods["pod-waits"]
    assert waits.pod_class is not None
    assert waits.gang is not None
    state.reservations.promise(
        [Reservation(waits.gang.uid, "n1", waits.pod_class, ReservationKind.VICTIMS)], NOW + 3600 * 10**9
    )
    for later in (0, 1, 2):
        state.end_idle_promises(NOW + later * IDLE_PROMISE_NS, evicting=False)
    assert state.view(NOW).reservations
    state.remove_pod("pod-surplus")
    for later in (3, 4):
        state.end_idle_promises(NOW + later * IDLE_PROMISE_NS, evicting=False)
    assert not state.view(NOW).reservations


def test_a_gang_in_part_is_known_until_it_is_whole_and_starts_again_as_new() -> None:
    state = state_with(node("n1"))
    state.upsert_group(group("g", 2))
    state.upsert_pod(pod("a", 1, group="g", node="n1"))
    (gang,) = state.partial
    state.upsert_pod(pod("b", 1, group="g", node="n1"))
    assert not state.partial
    assert gang.ran
    state.remove_pod("pod-b")
    assert state.partial == [gang]
    state.start_again(gang, "GangRecoveryTimeout", "it lost members")
    state.upsert_group(group("g", 2))
    assert not gang.ran


def test_an_evicted_gang_needs_its_whole_minimum_also_after_a_restart() -> None:
    """`GroupScheduled` stays true for good: what the next scheduler goes by is `Evicted`."""
    state = state_with(node("n1"))
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 1, group="g", node="n1"))
    (gang,) = {record.gang for record in state.pods.values()}
    assert gang is not None
    state.settle()
    state.start_again(gang, "GangRecoveryTimeout", "it lost members")
    status = group_status(gang, {}, state.charges, "t1", lambda: "id")
    successor = state_with(node("n1"))
    successor.upsert_group(msgspec.structs.replace(group("g", 2), status=status))
    successor.upsert_pod(pod("a", 1, group="g", node="n1"))
    (found,) = successor.partial
    assert (found.ran, found.scheduled, found.evicted) == (False, True, ("GangRecoveryTimeout", "it lost members"))
    successor.upsert_pod(pod("b", 1, group="g", node="n1"))
    successor.settle()
    assert (found.ran, found.evicted) == (True, None)


def test_what_runs_without_a_record_of_its_acceptance_is_taken_as_it_is() -> None:
    """The record was lost with the process that made it, or the pod ran before there was a scheduler of ours."""
    state = state_with(node("n1"), queues={"q": {"closed": True}, "other": {}})
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 1, group="g", node="n1"))
    state.upsert_pod(pod("alone", 1, queue="q", node="n1"))
    state.upsert_pod(pod("waits", 1, queue="q"))  # the queue is closed, and it holds nothing
    state.view(NOW)
    assert sorted((one.name, one.queue) for one in taken(state, "acceptances")) == [("alone", "q"), ("g", "q")]
    state.upsert_group(msgspec.structs.replace(group("g", 2), spec={"queue": "other", "minMember": 2}))
    assert state.gangs["ns", "g"].queue == "q"
    state.view(NOW)
    assert not taken(state, "acceptances")


def test_a_pod_that_its_creator_put_on_a_node_is_foreign_and_no_member_of_its_group() -> None:
    state = state_with(node("n1"))
    state.upsert_group(group("g", 2))
    state.upsert_pod(pod("a", 1, group="g"))
    made = pod("sneaks", 2, group="g", node="n1")
    state.upsert_pod(msgspec.structs.replace(made, put_there=True))
    assert used_cards(state) == 2
    assert not state.charges.queue_used["q"]
    assert list(state.gangs["ns", "g"].members) == ["pod-a"]
    assert not decide(state), "the group has one member and needs two"
    assert [(name, where) for _, name, _, where in taken(state, "bypassing")] == [("sneaks", "n1")]
