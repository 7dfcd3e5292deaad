"""A verdict on a group that waits stands until something changes that it read; a change costs whom it concerns."""

from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.admission.access import Members
from t9ksched.admission.identity import OWNER_ANNOTATION
from t9ksched.engine.work import finish
from t9ksched.model.pod import Metadata
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code
from t9ksched.scheduler.state import standing
from t9ksched.scheduler.state.namespaces import NamespaceObject
from t9ksched.scheduler.state.node_backoff import TurnedAway
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.waitinglimits import WaitingLimits
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.state.test_admission_pieces import looks
from tests.unit.scheduler.state.test_advance_book import known
from tests.unit.scheduler.state.test_start_times import HOUR, SOON, asking, job, owned
from tests.unit.scheduler.state.test_state import NOW, node, pod, state_with

MANY = 40
NIGHT = {"startWindows": [{"from": "01:00", "to": "05:00"}]}
SOON_NS = 1_700_006_400_000_000_000
GRANT = Members(everyone=True)


def waiting(spec: dict[str, Any] | None = None, make: Callable[[Any], Any] = lambda one: one) -> ClusterState:
    """Half of the groups wait in `q`, of that spec, the others in `r`."""
    state = state_with(queues={"q": spec or {}, "r": spec or {}, "other": {}})
    for at in range(MANY):
        state.upsert_pod(make(pod(f"p{at}", queue="qr"[at % 2])))
    return state


def settled(state: ClusterState) -> ClusterState:
    for _ in range(2):
        finish(state.judge(NOW))
    return state


def looked(state: ClusterState, now: int = NOW) -> int:
    with looks() as found:
        finish(state.judge(now))
    assert len(set(found)) == len(found), "once each"
    return len(found)


def shown(state: ClusterState, now: int = NOW) -> int:
    return len(finish(state.judge(now)))


def queues(state: ClusterState, **specs: dict[str, Any]) -> None:
    state.set_queues([Queue(name, parse_queue_spec(spec)) for name, spec in specs.items()])


def planned() -> ClusterState:
    state = waiting({"maxDuration": "1h"})
    state.expect_ends(300, 600)
    return state


def reserved() -> ClusterState:
    state = waiting()
    state.advance.take([known()])
    return state


def held() -> ClusterState:
    state = waiting()
    state.direct({f"pod-p{at}": JobControl(f"pod-p{at}", held=True) for at in range(MANY)})
    return state


def nobodys() -> ClusterState:
    state = waiting()
    state.permit({})
    finish(state.judge(NOW - 10 * 1_000_000_000))  # its submitter may still become known
    return state


def without_queue() -> ClusterState:
    state = waiting()
    queues(state, other={})
    return state


def deleted() -> ClusterState:
    state = settled(waiting())
    queues(state, other={})
    return state


KINDS: dict[str, tuple[Callable[[], ClusterState], int]] = {
    "for room": (waiting, MANY),
    "starts are planned": (planned, MANY),
    "a reservation is to come": (reserved, MANY),
    "its start window is shut": (lambda: waiting(NIGHT), MANY),
    "its start comes": (lambda: waiting(make=lambda one: asking(one, SOON)), 0),
    "held": (held, 0),
    "its queue is closed": (lambda: waiting({"closed": True}), 0),
    "nobody may use its queue": (nobodys, 0),
    "its queue is not made yet": (without_queue, MANY),
    "its queue was deleted": (deleted, MANY),
}


@pytest.mark.parametrize("kind", KINDS)
def test_while_nothing_changes_nothing_is_judged(kind: str) -> None:
    made, starting = KINDS[kind]
    state = settled(made())
    assert looked(state, NOW + 1) == 0
    assert shown(state, NOW + 1) == starting
    assert looked(state, NOW + 2) == 0


def space(state: ClusterState, name: str, labels: dict[str, str], **notes: str) -> None:
    state.namespaces.upsert(NamespaceObject(Metadata(name, labels=labels, annotations=notes)))


def rejected(state: ClusterState) -> None:
    gang = state.gangs_by_uid["pod-p9"]
    state.node_backoff.avoid(TurnedAway(gang, "p9", "n1", "no card"))
    state.turned_away(NOW)


NEWS: dict[str, tuple[Callable[[ClusterState], object], int]] = {
    "another namespace": (lambda state: space(state, "elsewhere", {"a": "b"}), 0),
    "their namespace": (lambda state: space(state, "ns", {"a": "b"}), MANY),
    "an empty queue": (lambda state: queues(state, q={}, r={}, other={}, new={}), 0),
    "an edit of an empty queue": (lambda state: queues(state, q={}, r={}, other={"priority": 3}), 0),
    "an edit of a queue": (lambda state: queues(state, q={"priority": 3}, r={}, other={}), MANY // 2),
    "members of an empty queue": (lambda state: state.permit({"q": GRANT, "r": GRANT, "other": Members()}), 0),
    "members of a queue": (lambda state: state.permit({"q": Members(), "r": GRANT, "other": GRANT}), MANY // 2),
    "groups of a user": (lambda state: state.group({"ann": frozenset({"team"})}), 0),
    "a node rejected a pod": (rejected, 1),
    "a binding was refused": (lambda state: state.preemption_backoff.refused(state.gangs_by_uid["pod-p9"], NOW), 1),
}


@pytest.mark.parametrize("news", NEWS)
def test_those_are_judged_whom_a_change_concerns(news: str) -> None:
    happens, concerned = NEWS[news]
    state = settled(waiting())
    happens(state)
    assert looked(state) == concerned


def test_groups_of_the_owner_of_a_namespace_concern_what_waits_there() -> None:
    state = waiting()
    space(state, "ns", {}, **{OWNER_ANNOTATION: "ann"})
    state.permit({name: Members(groups=frozenset({"team"})) for name in ("q", "r", "other")})
    finish(state.judge(NOW - HOUR))
    assert shown(settled(state)) == 0
    state.group({"bob": frozenset({"team"})})
    assert looked(state) == 0
    state.group({"ann": frozenset({"team"}), "bob": frozenset({"team"})})
    assert shown(state) == MANY
    settled(state)
    state.group({})
    assert shown(state) == 0, "what was permitted is not any more"


def test_a_queue_that_closes_opens_and_comes_back_decides_at_once() -> None:
    state = settled(without_queue())
    queues(state, q={}, r={"closed": True})
    assert looked(state) == MANY
    assert shown(state) == MANY // 2
    assert {gang.reasons[0].code for gang in state.pending if gang.reasons} == {Code.QUEUE_CLOSED}
    settled(state)
    queues(state, q={}, r={})
    assert looked(state) == MANY // 2
    assert shown(state) == MANY


def test_at_the_moment_that_was_asked_for_those_are_judged_that_asked_for_it() -> None:
    state = settled(waiting(make=lambda one: asking(one, SOON) if one.metadata.name < "p2" else one))
    late = sum(f"p{at}" < "p2" for at in range(MANY))
    assert shown(state) == MANY - late
    assert state.next_retry() == SOON_NS
    assert looked(state, SOON_NS - 1) == 0
    assert looked(state, SOON_NS) == late
    assert shown(state, SOON_NS) == MANY
    assert state.next_retry() is None


def test_a_moment_that_is_asked_for_again_and_again_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "_STALE", 10)
    state = settled(waiting(make=lambda one: asking(one, SOON)))
    for at in range(50):
        state.direct({"pod-p3": JobControl("pod-p3", priority=at)})
        assert looked(state) == 1
    assert len(state.admission_pass._standing._moments) <= 2 * MANY + 10
    assert shown(state, SOON_NS) == MANY


def test_a_place_of_another_group_of_its_owner_ends_the_wait_for_its_moment() -> None:
    state = state_with(node("n1"), queues={"q": {}})
    state.upsert_job(job("Job", SOON))
    state.upsert_pod(owned(asking(pod("a", queue="q"), SOON), "job"))
    assert shown(settled(state)) == 0
    assert looked(state) == 0
    state.upsert_pod(owned(pod("b", queue="q", node="n1", phase="Running"), "job"))
    assert [gang.name for gang in finish(state.judge(NOW))] == ["ns/a"]


def test_windows_wake_the_loop_for_queues_in_which_groups_wait() -> None:
    state = settled(waiting(NIGHT))
    soon = state.next_retry()
    assert soon is not None
    for at in range(MANY):
        state.remove_pod(f"pod-p{at}")
    finish(state.judge(NOW + 1))
    assert state.next_retry() is None


def test_a_refusal_gives_way_to_that_for_too_many_that_wait() -> None:
    state = settled(waiting({"closed": True}))
    state.waiting_jobs.limits = WaitingLimits(per_queue=1)
    finish(state.judge(NOW))
    assert {gang.reasons[0].code for gang in state.pending} == {Code.QUEUE_CLOSED}
    state.upsert_pod(pod("one", queue="other"))
    settled(state)
    assert looked(state) == 0, "another queue is full"
    state.waiting_jobs.limits = WaitingLimits(per_user=1)
    finish(state.judge(NOW))
    assert {reason.code for gang in state.pending for reason in gang.reasons} == {Code.RATE_LIMITED}
    assert looked(state) == 0
    state.remove_pod("pod-one")
    finish(state.judge(NOW))
    assert {gang.reasons[0].code for gang in state.pending} == {Code.QUEUE_CLOSED}
    assert looked(state) == 0


def test_an_owner_of_which_a_pod_went_is_judged_again_and_no_other() -> None:
    state = waiting(make=lambda one: owned(one, "job") if one.metadata.name == "p7" else one)
    state.upsert_job(job("Job"))
    settled(state)
    state.departures["job"] = 0
    assert looked(state) == 0
    state.pod_events.departed(state.pods["pod-p8"])
    assert looked(state) == 0
    state.pod_events.departed(state.pods["pod-p7"])
    assert looked(state) == 1
