"""A pod that names a group is a member only if it may join; else it counts in nothing, and says why it waits."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.admission.access import Members
from t9ksched.kube.resources import STATEFULSETS
from t9ksched.model.pod import Metadata, OwnerReference
from t9ksched.model.reasons import Code
from t9ksched.scheduler.report.groupstatus import group_status
from t9ksched.scheduler.report.job_shape import job_shape
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.state.edits import ignored
from t9ksched.scheduler.state.limits import limit_asked
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from tests.unit.scheduler.state.test_admission_gate import LATER, accepted, cluster, owned_group, owned_pod
from tests.unit.scheduler.state.test_state import NOW, decide, pod

ANN = Members(users=frozenset({"ann"}))
BOTH = Members(users=frozenset({"ann", "bob"}))


def by(uid: str, submitter: str | None) -> Acceptance:
    return accepted(uid, submitter, permitted_by="user")


def told(state: ClusterState, uid: str) -> dict[str, Any]:
    view = observed_job(state, uid)
    assert view is not None
    return job_shape(view, state)


def members(state: ClusterState) -> set[str]:
    state.settle()
    return {record.name for record in state.gangs["ns", "g"].members.values()}


def status(state: ClusterState) -> dict[str, Any]:
    state.settle()
    return group_status(state.gangs["ns", "g"], {}, state.charges, "now", lambda: "id")


def test_a_stranger_counts_in_nothing_and_says_why_it_waits() -> None:
    state = cluster(ANN)
    state.accept(by("job", "ann"))
    state.upsert_group(owned_group(minimum=2))
    state.upsert_pod(owned_pod("a"))
    state.upsert_pod(owned_pod("stranger", owner=""))
    shown = status(state)
    assert shown["conditions"][0]["message"] == "1 of 2 members exist"
    assert (shown["conditions"][0]["status"], shown["pending"]) == ("False", 1)
    assert decide(state) == []
    state.view(LATER)
    job, alone = told(state, "job"), told(state, "pod-stranger")
    assert (job["members"]["total"], job["gpus"], job["submitter"]) == (1, 1, "ann")
    assert (alone["kind"], alone["submitter"], alone["reason"]["code"]) == ("Pod", None, "SubmitterUnknown")
    assert "names the PodGroup ns/g and may not join it: that is the group of MPIJob/job" in alone["reason"]["message"]
    assert state.counts.pods["q"]["Pending"] == 1


def test_a_stranger_whose_label_names_no_group_any_more_waits_for_itself() -> None:
    """Until then no edit of it is told: its reason says why it may not join."""
    state = cluster(Members(everyone=True))
    state.accept(by("job", "ann"))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("stranger", owner=""))
    for now in (NOW, LATER):
        state.view(now)
    record = state.pods["pod-stranger"]
    assert record.gang is not None
    assert record.gang.kept_out is not None
    assert ignored(record.gang) == ()
    state.upsert_pod(pod("stranger", queue="q"))
    assert (record.outside, record.unpermitted) == (None, ())
    assert state.membership.strangers(state.gangs["ns", "g"]) == []
    assert [one.pod for one in decide(state)] == ["pod-stranger"]


def test_the_group_of_a_stranger_has_a_submitter() -> None:
    """While none of its own members waits, a stranger's reason is none of the group's."""
    state = cluster(ANN)
    state.accept(by("job", "ann"))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("a"))
    decide(state)
    state.upsert_pod(owned_pod("a", node="n1", phase="Running"))
    state.upsert_pod(owned_pod("stranger", owner=""))
    state.view(NOW)
    state.view(LATER)
    gang = state.gangs["ns", "g"]
    assert (gang.reasons, gang.unpermitted, gang in state.pending) == ((), None, False)
    assert told(state, "job")["submitter"] == "ann"


def test_what_a_stranger_asks_for_is_not_asked_for_by_the_group() -> None:
    state = cluster(ANN)
    state.accept(by("group-g", "ann"))
    state.upsert_group(owned_group(owner=""))
    state.accept(by("pod-a", "ann"))
    state.upsert_pod(owned_pod("a", owner=""))
    strange = owned_pod("b", owner="")
    strange.metadata.annotations = {"scheduler.tensorstack.dev/time-limit": "1m"}
    state.upsert_pod(strange)
    assert limit_asked(state, state.gangs["ns", "g"]).seconds is None


@pytest.mark.parametrize(
    ("group", "its", "queue", "member"),
    [
        # Of a group made by hand: who submitted it, who the pod, who may use the queue.
        ("ann", "ann", ANN, True),
        ("ann", "ann", Members(), True),  # the group as a whole is refused, and says so
        ("ann", "bob", ANN, False),
        ("ann", "bob", BOTH, True),
        ("ann", None, ANN, False),
        ("ann", None, Members(everyone=True), True),
        (None, "bob", ANN, False),
        (None, "ann", ANN, True),
        (None, None, Members(), True),  # one standing: the namespace decides about both
    ],
)
def test_who_may_join_a_group_made_by_hand(group: str | None, its: str | None, queue: Members, member: bool) -> None:
    state = cluster(queue)
    for uid, submitter in (("group-g", group), ("pod-p", its)):
        if submitter:
            state.accept(by(uid, submitter))
    state.upsert_group(owned_group(owner=""))
    state.upsert_pod(owned_pod("p", owner=""))
    assert members(state) == ({"p"} if member else set())
    state.view(NOW)
    state.view(LATER)
    reasons = {reason.code for gang in state.gangs.values() for reason in gang.reasons}
    if not member:
        assert reasons == {Code.NOT_PERMITTED if its else Code.SUBMITTER_UNKNOWN}


@pytest.mark.parametrize(
    ("job", "its", "owner", "member"),
    [
        # Of a job's group: who submitted the job, who the pod, what owns the pod.
        ("ann", None, "job", True),
        (None, None, "job", True),
        ("ann", "ann", "", True),
        ("ann", "bob", "", False),
        ("ann", None, "", False),
        (None, None, "", False),
        ("ann", None, "another", False),
    ],
)
def test_who_may_join_the_group_of_a_job(job: str | None, its: str | None, owner: str, member: bool) -> None:
    state = cluster(Members(everyone=True))
    for uid, submitter in (("job", job), ("pod-p", its)):
        if submitter:
            state.accept(by(uid, submitter))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("p", owner=owner))
    assert members(state) == ({"p"} if member else set()), "whichever user may use the queue"


def test_owners_between_a_pod_and_the_job_are_followed_and_unknown_kinds_believed_without_a_submitter() -> None:
    state = cluster(Members(everyone=True))
    state.upsert_group(owned_group())
    for name, kind, above in (("below", "StatefulSet", "job"), ("strange", "StatefulSet", "another")):
        made = owned_pod(name, owner="")
        made.metadata.owner_references = [OwnerReference(kind=kind, name=name, uid=name, controller=True)]
        state.upsert_pod(made)
        assert name not in members(state)
        reference = OwnerReference(kind="BeamJob", name=above, uid=above, controller=True)
        meta = Metadata(namespace="ns", name=name, uid=name, owner_references=[reference])
        template = {"template": {"spec": {"schedulerName": "t9k-scheduler"}}}
        state.owners.upsert_replicated(JobObject(metadata=meta, kind=kind, spec=template), STATEFULSETS)
    assert members(state) == {"below"}
    unknown = owned_pod("unknown", owner="")
    unknown.metadata.owner_references = [OwnerReference(kind="FlinkCluster", name="f", uid="f", controller=True)]
    state.upsert_pod(unknown)
    assert members(state) == {"below", "unknown"}
    state.accept(by("job", "ann"))
    assert members(state) == {"below"}, "it is another's, or unknown"


def test_strangers_and_groups_come_and_go() -> None:
    state = cluster(ANN)
    state.accept(by("group-g", "ann"))
    state.upsert_pod(owned_pod("p", owner=""))
    assert members(state) == {"p"}, "it names a group that is not there"
    group = owned_group(owner="")
    state.upsert_group(group)
    assert members(state) == set()
    state.view(NOW)
    state.view(LATER)
    assert told(state, "pod-p")["reason"]["code"] == "SubmitterUnknown"
    state.remove_group(group)
    assert members(state) == {"p"}
    assert observed_job(state, "pod-p") is None
    state.view(LATER)
    assert [reason.code for reason in state.gangs["ns", "g"].reasons] == [Code.GANG_INCOMPLETE]
    state.upsert_group(group)
    state.view(LATER)
    state.remove_pod("pod-p")
    state.settle()
    assert not state.membership.strangers(state.gangs["ns", "g"])
    assert observed_job(state, "pod-p") is None
    assert not state.counts.pods["q"]["Pending"]


def test_what_has_a_place_stays_a_member() -> None:
    state = cluster(BOTH)
    state.accept(by("group-g", "ann"))
    state.upsert_group(owned_group(owner=""))
    for name in ("a", "b"):
        state.accept(by(f"pod-{name}", "bob"))
        state.upsert_pod(owned_pod(name, owner=""))
    assert members(state) == {"a", "b"}
    state.upsert_pod(owned_pod("a", owner="", node="n1", phase="Running"))
    state.permit({"q": ANN})
    assert members(state) == {"a"}, "it runs; the other one waits"
    again = cluster(ANN)
    again.accept(by("group-g", "ann"))
    again.upsert_group(owned_group(owner=""))
    again.upsert_pod(owned_pod("a", owner="", node="n1", phase="Running"))
    assert members(again) == {"a"}, "so it is after a restart"


def test_no_pod_is_a_stranger_before_the_database_was_read() -> None:
    state = cluster(ANN)
    state.outage.unread = True
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("a"))
    state.upsert_pod(owned_pod("stranger", owner=""))
    assert members(state) == {"a", "stranger"}
    state.outage.unread = False
    assert members(state) == {"a"}


def viewed(state: ClusterState) -> None:
    state.view(NOW)
    state.view(LATER)


EVENTS: dict[str, Callable[[ClusterState], None]] = {
    "group": lambda state: state.upsert_group(owned_group(minimum=2)),
    "mine": lambda state: state.upsert_pod(owned_pod("mine")),
    "too": lambda state: state.upsert_pod(owned_pod("too", owner="")),
    "stranger": lambda state: state.upsert_pod(owned_pod("stranger", owner="")),
    "other": lambda state: state.upsert_pod(owned_pod("other", owner="elsewhere")),
    "job accepted": lambda state: state.accept(by("job", "ann")),
    "pod accepted": lambda state: state.accept(by("pod-too", "ann")),
    "other accepted": lambda state: state.accept(by("pod-other", "bob")),
    "looked": lambda state: state.settle(),
    "viewed": viewed,
}


@given(st.permutations(sorted(EVENTS)))
def test_the_order_in_which_things_are_seen_decides_nothing(order: list[str]) -> None:
    state = cluster(BOTH)
    for name in order:
        EVENTS[name](state)
    assert members(state) == {"mine", "too"}
    viewed(state)
    assert observed_job(state, "pod-stranger") is not None
    assert observed_job(state, "elsewhere") is not None, "the job of the other one"
    assert observed_job(state, "pod-too") is None
    assert told(state, "job")["members"]["total"] == 2
    assert state.counts.pods["q"]["Pending"] == 3, "with the other one, who was submitted to that queue"
    assert status(state)["conditions"][0]["status"] == "True"


def test_a_pod_without_a_group_is_no_stranger() -> None:
    state = cluster(Members(everyone=True))
    state.upsert_pod(pod("p", queue="q"))
    assert len(decide(state)) == 1
