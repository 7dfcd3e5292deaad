"""The last gate asks the whole judge about new work, once; what was accepted with an owner goes on."""

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.kube.resources import DEPLOYMENTS, JOBS, REPLICASETS
from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.state import lastgate
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, group, node, pod, state_with

SMALL = {"requests": {"cpu": "1", GPU: "1"}, "limits": {"cpu": "1", GPU: "1"}}


def asking(name: str, resources: dict[str, Any], container: str = "main", **more: Any) -> Any:
    return pod(name, queue=more.pop("queue", "q"), containers=[{"name": container, "resources": resources}], **more)


def quota(**spec: Any) -> dict[str, Any]:
    return {"quota": {"requests": spec.pop("requests")}, **spec}


def reasons(state: ClusterState) -> list[Reason]:
    return [reason for gang in state.gangs.values() for reason in gang.reasons]


def codes(state: ClusterState) -> list[tuple[str, bool]]:
    return [(str(reason.code), reason.refused) for reason in reasons(state)]


def owned(made: Any, kind: str, uid: str) -> Any:
    made.metadata.owner_references = [OwnerReference("apps/v1", kind, uid, uid, True)]
    return made


def replicated(kind: str, uid: str, replicas: int, above: str = "", **resources: Any) -> JobObject:
    meta: dict[str, Any] = {"name": uid, "namespace": "ns", "uid": uid}
    if above:
        meta["ownerReferences"] = [{"kind": "Deployment", "name": above, "uid": above, "controller": True}]
    container = {"name": "main", "image": "x", "resources": {"requests": SMALL["requests"] | resources}}
    container["resources"]["limits"] = {GPU: "1"}
    template = {"spec": {"schedulerName": "t9k-scheduler", "containers": [container]}}
    return decoder(JobObject)({"metadata": meta, "spec": {"replicas": replicas, "template": template}})


def with_deployment(state: ClusterState, replicas: int = 2, **resources: Any) -> None:
    state.owners.upsert_replicated(replicated("Deployment", "web", replicas, **resources), DEPLOYMENTS)
    state.owners.upsert_replicated(replicated("ReplicaSet", "web-1", replicas, "web", **resources), REPLICASETS)


def run(state: ClusterState, *names: str) -> None:
    for name in names:
        state.upsert_pod(owned(pod(name, queue="q", node="n1", phase="Running"), "ReplicaSet", "web-1"))


def waits(state: ClusterState, name: str, gpus: int = 1) -> None:
    state.upsert_pod(owned(pod(name, gpus, queue="q"), "ReplicaSet", "web-1"))


def close(state: ClusterState, **spec: Any) -> None:
    state.set_queues([Queue("q", parse_queue_spec({"closed": True, **spec}))])


@pytest.mark.parametrize(
    ("spec", "resources", "container", "code"),
    [
        (quota(requests={"cpu": "4"}), {}, "main", "InvalidField"),
        (quota(requests={"memory": "4Gi"}), {"requests": {"cpu": "1"}}, "main", "InvalidField"),
        (quota(requests={"cpu": "4"}), {"limits": {"cpu": "1"}}, "main", None),
        (quota(requests={"cpu": "4"}), {"requests": {"cpu": "4"}}, "main", None),
        (quota(requests={"cpu": "4"}), {"requests": {"cpu": "4001m"}}, "main", "OverQuota"),
        (quota(requests={GPU: "0"}), SMALL, "main", "OverQuota"),
        ({"closed": True}, SMALL, "main", "QueueClosed"),
        ({}, SMALL, "c" * 44, "InvalidField"),
        ({}, SMALL, "c" * 43, None),
        ({}, {"requests": {"cpu": "1"}}, "c" * 44, None),
    ],
)
def test_a_pod_by_hand_is_judged_as_at_the_door(
    spec: dict[str, Any], resources: dict[str, Any], container: str, code: str | None
) -> None:
    state = state_with(queues={"q": spec})
    state.upsert_pod(asking("p", resources, container))
    assert bool(decide(state)) is (code is None)
    assert codes(state) == ([] if code is None else [(code, True)])


def test_a_queue_that_drains_is_told_as_such_to_new_work_and_to_what_was_accepted() -> None:
    state = state_with(queues={"q": {}})
    state.upsert_pod(asking("accepted", {"requests": {GPU: "99"}, "limits": {GPU: "99"}}))
    assert not decide(state)
    drains = Queue("q", parse_queue_spec({"closed": True}), draining=True)
    state.set_queues([drains])
    state.upsert_pod(asking("new", SMALL))
    assert not decide(state)
    told = {gang.name: gang.reasons[0] for gang in state.pending}
    assert {name: (str(one.code), one.refused) for name, one in told.items()} == {
        "accepted": ("QueueClosed", False),
        "new": ("QueueClosed", True),
    }
    assert all("is draining" in one.message and one.unblocks for one in told.values())
    state.set_queues([Queue("q", parse_queue_spec({"closed": True}))])
    assert not decide(state)
    (now,) = [gang.reasons[0] for gang in state.pending if gang.name == "new"]
    assert "is closed" in now.message


def test_a_group_by_hand_is_judged_by_what_it_cannot_do_without() -> None:
    state = state_with(queues={"q": quota(requests={GPU: "4"})})
    state.upsert_group(group("g", 3))
    for name in "abc":
        state.upsert_pod(pod(name, 2, group="g"))
    assert not decide(state)
    assert codes(state) == [("OverQuota", True)]
    (reason,) = reasons(state)
    assert (reason.needs, reason.has) == ({GPU: 6}, {GPU: 4})
    state.set_queues([Queue("q", parse_queue_spec(quota(requests={GPU: "6"})))])
    assert len(decide(state)) == 3, "it is asked again when the queue changes"


@pytest.mark.parametrize("order", ["group first", "pods first", "all at once"])
@pytest.mark.parametrize(
    ("spec", "held"),
    [(quota(requests={GPU: "4"}), 0), (quota(requests={GPU: "8"}, overQuota="Reject"), 4)],
    ids=["larger than the quota", "larger than what is left"],
)
def test_a_group_is_not_accepted_before_its_minimum_is_there(order: str, spec: dict[str, Any], held: int) -> None:
    """Whatever order its pods and its PodGroup come in, it is judged by what it cannot do without."""
    state = state_with(queues={"q": spec})
    if held:
        state.upsert_pod(pod("before", held, queue="q", node="n1", phase="Running"))
    if order == "group first":
        state.upsert_group(group("g", 3))
    for name in "abc":
        state.upsert_pod(pod(name, 2, group="g"))
        assert order == "all at once" or not decide(state)
        assert state.gangs["ns", "g"].acceptance is None
    if order != "group first":
        state.upsert_group(group("g", 3))
    assert not decide(state)
    assert codes(state) == [("OverQuota", True)]
    assert reasons(state)[0].needs == {GPU: 6}
    assert state.gangs["ns", "g"].acceptance is None


def test_a_group_whose_minimum_comes_in_pieces_is_accepted_with_the_last() -> None:
    state = state_with(queues={"q": quota(requests={GPU: "6"}, overQuota="Reject")})
    state.upsert_group(group("g", 3))
    for name in "ab":
        state.upsert_pod(pod(name, 2, group="g"))
        assert not decide(state)
        assert not any(refused for _, refused in codes(state))
    state.upsert_pod(pod("c", 2, group="g"))
    assert len(decide(state)) == 3
    accepted = state.acceptances["group-g"]
    assert (accepted.replicas, accepted.cards) == (3, {GPU: 6})


def test_reject_judges_an_owner_once() -> None:
    state = state_with(queues={"q": quota(requests={GPU: "2"}, overQuota="Reject")})
    with_deployment(state, 2)
    waits(state, "a")
    waits(state, "b")
    assert len(decide(state)) == 2
    run(state, "a", "b")
    state.upsert_pod(asking("late", SMALL))
    assert not decide(state)
    assert codes(state) == [("OverQuota", True)]
    state.remove_pod("pod-a")
    state.upsert_pod(asking("later", SMALL))
    assert [one.pod for one in decide(state)] == ["pod-later"]
    waits(state, "a2")
    assert not decide(state)
    told = {gang.name: [(str(one.code), one.refused) for one in gang.reasons] for gang in state.pending}
    assert told["late"] == [("OverQuota", True)]
    assert not any(refused for _, refused in told["a2"]), "a pod of an accepted owner waits"


def test_a_refusal_for_lack_of_room_stands_until_something_of_its_own_changes() -> None:
    spec = quota(requests={GPU: "2"}, overQuota="Reject")
    state = state_with(queues={"q": spec})
    state.upsert_pod(asking("first", SMALL))
    state.upsert_pod(asking("second", SMALL))
    assert len(decide(state)) == 2
    state.upsert_pod(asking("late", SMALL))
    state.upsert_group(group("gang", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 1, group="gang"))
    assert not decide(state)
    told = reasons(state)
    assert {str(reason.code) for reason in told} == {"OverQuota"}
    assert all("when it was judged at " in reason.message and " UTC was 0" in reason.message for reason in told)
    state.remove_pod("pod-first")
    state.remove_pod("pod-second")
    mine = Queue("q", parse_queue_spec(spec))

    other = Queue("other", parse_queue_spec({"closed": True}))
    for change in (
        lambda: state.set_queues([mine, other]),
        lambda: state.set_queues([mine]),
        lambda: state.permit({"q": Members(everyone=True), "other": Members(users=frozenset({"ann"}))}),
        lambda: state.group({"ann": frozenset({"team"})}),
        lambda: state.permissions.changed(),
    ):
        change()
        assert not decide(state)
        assert [reason.message for reason in reasons(state)] == [reason.message for reason in told]
    larger = quota(requests={GPU: "3"}, overQuota="Reject")
    state.set_queues([Queue("q", parse_queue_spec(larger)), other])
    assert decide(state), "its own queue changed: it is asked again"


def test_an_owner_larger_than_the_quota_is_refused_whole() -> None:
    state = state_with(queues={"q": quota(requests={GPU: "2"})})
    with_deployment(state, 3)
    waits(state, "a")
    assert not decide(state)
    assert codes(state) == [("OverQuota", True)]


def test_replacements_are_accepted_with_their_owner_and_more_is_not() -> None:
    state = state_with()
    with_deployment(state)
    for name in "ab":
        waits(state, name)
    assert len(decide(state)) == 2
    run(state, "a", "b")
    close(state)
    state.remove_pod("pod-a")
    waits(state, "c")
    assert [one.pod for one in decide(state)] == ["pod-c"]
    run(state, "c")
    with_deployment(state, 4)
    waits(state, "d")
    assert not decide(state)
    assert codes(state) == [("QueueClosed", True)]
    state.remove_pod("pod-b")
    assert [one.pod for one in decide(state)] == ["pod-d"], "it takes the place of one that was accepted"
    close(state, closed=False)
    waits(state, "e")
    waits(state, "f")
    assert len(decide(state)) == 2
    assert state.acceptances["web"].replicas == 4


def test_bigger_requests_are_new_work() -> None:
    state = state_with()
    with_deployment(state)
    waits(state, "a")
    waits(state, "b")
    decide(state)
    run(state, "a", "b")
    close(state)
    with_deployment(state, 2, cpu="8")
    state.remove_pod("pod-a")
    waits(state, "big", 2)
    assert not decide(state)
    assert codes(state) == [("QueueClosed", True)]


def test_a_rollout_may_make_new_pods_before_the_old_ones_go() -> None:
    state = state_with()
    with_deployment(state)
    waits(state, "a")
    waits(state, "b")
    decide(state)
    run(state, "a", "b")
    close(state)
    waits(state, "new")
    waits(state, "second")
    assert len(decide(state)) == 1


def test_an_owner_that_moves_is_new_work_in_its_new_queue() -> None:
    state = state_with(queues={"q": {}, "shut": {"closed": True}, "r": {}})
    with_deployment(state)
    waits(state, "a")
    waits(state, "b")
    decide(state)
    state.upsert_pod(owned(pod("x", queue="shut"), "ReplicaSet", "web-1"))
    state.upsert_pod(owned(pod("y", queue="r"), "ReplicaSet", "web-1"))
    assert [one.pod for one in decide(state)] == ["pod-y"]
    assert codes(state) == [("QueueClosed", True)]
    assert state.acceptances["web"].queue == "r"


def test_nothing_is_said_while_its_owner_is_only_about_to_be_seen() -> None:
    state = state_with()
    with_deployment(state)
    waits(state, "a")
    decide(state)
    close(state)
    state.upsert_pod(owned(pod("b", queue="q"), "ReplicaSet", "web-2"))
    assert not decide(state)
    assert codes(state) == []
    assert state.next_retry() == NOW + NAMING_NS
    state.owners.upsert_replicated(replicated("ReplicaSet", "web-2", 2, "web"), REPLICASETS)
    assert [one.pod for one in decide(state)] == ["pod-b"]


def test_what_ran_before_owners_were_recorded_is_accepted_as_it_is() -> None:
    state = state_with(queues={"q": {"closed": True}})
    job = decoder(JobObject)(
        {
            "metadata": {"name": "j", "namespace": "ns", "uid": "j"},
            "spec": {
                "parallelism": 2,
                "template": {"spec": {"schedulerName": "t9k-scheduler", "containers": [{"name": "m", "image": "x"}]}},
            },
        }
    )
    state.upsert_job(job_record(job, JOBS))
    state.owners.upsert(job, JOBS, ours=True)
    state.upsert_pod(owned(pod("a", 0, queue="q", node="n1", phase="Running"), "Job", "j"))
    state.upsert_pod(owned(pod("b", 0, queue="q"), "Job", "j"))
    assert [one.pod for one in decide(state)] == ["pod-b"]
    record = state.acceptances["j"]
    assert (record.replicas, record.started_at is not None) == (2, True)
    state.upsert_pod(owned(pod("c", 0, queue="q"), "Job", "j"))
    assert not decide(state)


def test_the_start_on_record_is_when_the_place_was_chosen() -> None:
    """A kubelet's clock tells whole seconds: a start noted later would change when the pods that told it are gone."""
    state = state_with()
    with_deployment(state)
    waits(state, "a")
    assert len(decide(state)) == 1
    state.accept_running(NOW + 1_500_000_000)
    started = state.acceptances["web"].started_at
    assert started is not None
    assert int(started.timestamp() * 1e9) == NOW


def test_a_row_without_a_count_is_completed_by_what_is_there() -> None:
    state = state_with()
    with_deployment(state)
    waits(state, "a")
    decide(state)
    old = structs.replace(state.acceptances["web"], replicas=None, requests={}, cards={})
    fresh = state_with(queues={"q": {"closed": True}})
    fresh.accept(old)
    with_deployment(fresh)
    waits(fresh, "b")
    assert len(decide(fresh)) == 1
    assert (fresh.acceptances["web"].replicas, fresh.acceptances["web"].cards) == (2, {GPU: 2})


def test_members_decide_before_the_rules() -> None:
    state = ClusterState()
    state.set_queues([Queue("q", parse_queue_spec({"closed": True}))])
    state.permit({"q": Members()})
    state.upsert_node(node())
    state.upsert_pod(asking("p", SMALL))
    state.view(NOW)
    state.view(NOW + NAMING_NS)
    assert codes(state) == [("SubmitterUnknown", True)]


def test_a_hold_of_a_deployment_counts_for_the_replicaset_that_comes_next() -> None:
    state = state_with()
    with_deployment(state, 2)
    state.direct({"web": JobControl("web", held=True, by="ann")})
    waits(state, "a")
    state.owners.upsert_replicated(replicated("ReplicaSet", "web-2", 2, "web"), REPLICASETS)
    state.upsert_pod(owned(pod("b", queue="q"), "ReplicaSet", "web-2"))
    assert not decide(state)
    assert codes(state) == [("SchedulingGated", False)] * 2
    later = JobControl("web", by="ann")
    state.direct({"web": later, "web-2": JobControl("web-2", held=True, at=later.at - timedelta(seconds=1))})
    assert len(decide(state)) == 2, "the later decision counts"


def test_a_group_waits_a_moment_for_the_object_above_it_whose_annotations_count() -> None:
    state = state_with()
    waits(state, "a")
    assert not decide(state)
    assert codes(state) == []
    with_deployment(state, 1)
    assert len(decide(state)) == 1


def test_pods_that_are_alike_are_judged_once() -> None:
    state = state_with(node(gpus=8), queues={"q": {}, "r": {}})
    with patch.object(lastgate, "judge", side_effect=lastgate.judge) as judged:
        for at in range(50):
            state.upsert_pod(pod(f"p{at}", queue="q"))
        assert len(state.view(NOW).gangs) == 50
        assert judged.call_count == 1
        state.upsert_pod(pod("large", 4, queue="q"))
        state.upsert_pod(pod("elsewhere", queue="r"))
        assert len(state.view(NOW).gangs) == 52
        assert judged.call_count == 3
        state.set_queues([Queue("q", parse_queue_spec({"closed": True})), Queue("r", parse_queue_spec({}))])
        state.upsert_pod(pod("late", queue="q"))
        state.view(NOW)
        assert state.gangs_by_uid["pod-late"].reasons[0].code == "QueueClosed"


def test_a_pod_is_not_judged_by_what_is_left_of_an_owner_that_wants_none() -> None:
    """A deployment that was scaled to none needs nothing, whatever the pods ask for that are there still."""
    state = state_with(node(gpus=8), queues={"q": quota(requests={GPU: "2"})})
    with_deployment(state, 0)
    waits(state, "left", 4)
    state.view(NOW)
    assert codes(state) == []
    state.upsert_pod(pod("alone", 4, queue="q"))
    state.view(NOW)
    assert codes(state) == [("OverQuota", True)]


def test_of_pods_alike_one_is_work_for_the_judge() -> None:
    state = state_with(node(gpus=8))
    with patch.object(lastgate, "NewWork", wraps=lastgate.NewWork) as made:
        for number in range(4):
            state.upsert_pod(asking(f"p{number}", SMALL))
        assert len(decide(state)) == 4
        assert made.call_count == 1
        state.upsert_pod(asking("other", SMALL | {"requests": {"cpu": "2", GPU: "1"}}))
        assert len(decide(state)) == 1
        assert made.call_count == 2
