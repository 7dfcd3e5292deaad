"""The last gate: who may use a queue, whatever created the group; what runs is left alone."""

from typing import Any

import pytest
from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.admission.identity import OWNER_ANNOTATION
from t9ksched.model.names import RESERVATION_ANNOTATION, SUBMISSION_ANNOTATION
from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.namespaces import NamespaceObject
from t9ksched.scheduler.state.objects import JobObject, PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.registry import KINDS
from tests.feeds import taken
from tests.unit.scheduler.state.test_advance_book import known
from tests.unit.scheduler.state.test_state import NOW, decide, node, pod

LATER = NOW + NAMING_NS
SELECTED = {"namespaceSelector": {"matchLabels": {"team": "nlp"}}}


def cluster(members: Members, spec: dict[str, Any] | None = None) -> ClusterState:
    state = ClusterState()
    state.set_queues([Queue("q", parse_queue_spec(spec or {}))])
    state.permit({"q": members})
    state.upsert_node(node())
    return state


def space(state: ClusterState, labels: dict[str, str] | None = None, owner: str = "") -> None:
    meta = {"name": "ns", "labels": labels or {}, "annotations": {OWNER_ANNOTATION: owner} if owner else {}}
    state.namespaces.upsert(decoder(NamespaceObject)({"metadata": meta}))


def owned_group(name: str = "g", owner: str = "job", minimum: int = 1, **spec: Any) -> PodGroupObject:
    reference = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob", "name": owner, "uid": owner}
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"group-{name}"}
    if owner:
        meta["ownerReferences"] = [reference | {"controller": True}]
    return decoder(PodGroupObject)({"metadata": meta, "spec": {"minMember": minimum, "queue": "q", **spec}})


def owned_pod(name: str, owner: str = "job", **more: Any) -> Any:
    made = pod(name, group="g", **more)
    if owner:
        made.metadata.owner_references = [OwnerReference(kind="MPIJob", name=owner, uid=owner, controller=True)]
    return made


def accepted(uid: str, submitter: str | None = "ann", **more: Any) -> Acceptance:
    return Acceptance(uid=uid, kind="MPIJob", namespace="ns", name=uid, submitter=submitter, queue="q", **more)


def outcome(state: ClusterState, now: int = LATER) -> tuple[bool, set[Code]]:
    """Whether anything starts, and why the rest waits."""
    state.view(NOW)
    gangs = state.view(now).gangs
    told = {reason.code for gang in state.gangs.values() for reason in gang.reasons}
    return bool(gangs), told


@pytest.mark.parametrize(
    ("members", "spec", "submitter", "labels", "owner", "code"),
    [
        (Members(), {}, None, {}, "", Code.SUBMITTER_UNKNOWN),
        (Members(), {}, "ann", {}, "", Code.NOT_PERMITTED),
        (Members(users=frozenset({"ann"})), {}, "ann", {}, "", None),
        (Members(users=frozenset({"ann"})), {}, None, {}, "", Code.SUBMITTER_UNKNOWN),
        (Members(users=frozenset({"ann"})), {}, "bob", {}, "ann", None),
        (Members(groups=frozenset({"lab"})), {}, "ann", {}, "", None),
        (Members(groups=frozenset({"lab"})), {}, None, {}, "olga", None),
        (Members(groups=frozenset({"others"})), {}, "ann", {}, "olga", Code.NOT_PERMITTED),
        (Members(everyone=True), {}, None, {}, "", None),
        (Members(), SELECTED, None, {"team": "nlp"}, "", None),
        (Members(), SELECTED, None, {"team": "cv"}, "", Code.SUBMITTER_UNKNOWN),
        (Members(), {"namespaceSelector": {}}, "ann", {"team": "nlp"}, "", Code.NOT_PERMITTED),
    ],
)
def test_who_may(
    members: Members, spec: dict[str, Any], submitter: str | None, labels: dict[str, str], owner: str, code: Code | None
) -> None:
    state = cluster(members, spec)
    space(state, labels, owner)
    state.group({"olga": frozenset({"lab"})})
    if submitter:
        state.accept(accepted("job", submitter, groups=["lab"], permitted_by=f"user:{submitter}"))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("p"))
    assert outcome(state) == (code is None, set() if code is None else {code})


def test_roles_count_as_recorded_and_a_managers_only_over_the_managed_queue() -> None:
    for role, queue, allowed in (("administrator", "x", False), ("administrator", "q", True), ("manager", "q", True)):
        state = cluster(Members())
        made = accepted("job", "root", permitted_by=role)
        state.accept(structs.replace(made, queue=queue, kind="Notebook"))  # a kind that may move to another queue
        state.upsert_group(owned_group())
        state.upsert_pod(owned_pod("p"))
        assert outcome(state)[0] is allowed, (role, queue)


def test_a_job_stays_in_the_queue_that_was_agreed_with_it() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    state.accept(structs.replace(accepted("job"), queue="x"))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("p"))
    assert [gang.queue for gang in state.view(NOW).gangs] == ["x"], "though its PodGroup names another one since"


def test_a_name_that_comes_late_lets_it_start_and_nothing_was_said() -> None:
    woken: list[bool] = []
    state = cluster(Members(users=frozenset({"ann"})))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("p"))
    assert not state.view(NOW).gangs
    assert state.next_retry() == LATER
    assert not taken(state, "said")
    state.wake = lambda: woken.append(True)
    state.accept(accepted("job", permitted_by="user:ann"))
    assert woken
    assert [gang.priority for gang in state.view(NOW + 1).gangs] == [0]
    assert state.next_retry() is None


@pytest.mark.parametrize("kind", ["pod", "group", "job"])
def test_a_submitter_that_is_about_to_be_recorded_is_known_from_the_first_view_on(kind: str) -> None:
    """The queue admits a group without a name, but a user's planned starts are counted by it."""
    state = cluster(Members(everyone=True))
    state.expect_ends(900, 600)
    noted = {SUBMISSION_ANNOTATION: "request/0"}
    made = owned_pod("p", owner="") if kind != "job" else owned_pod("p")
    if kind == "pod":
        made = pod("p", queue="q")
        made.metadata.annotations.update(noted)
    else:
        group = owned_group(owner="job" if kind == "job" else "")
        group.metadata.annotations = noted if kind == "group" else None
        state.upsert_group(group)
    if kind == "job":
        state.announced.note("job", noted)
    state.upsert_pod(made)
    assert not state.view(NOW).gangs
    assert (state.next_retry(), taken(state, "acceptances")) == (LATER, [])
    uid = {"pod": "pod-p", "group": "group-g", "job": "job"}[kind]
    state.accept(accepted(uid, permitted_by="everyone"))
    assert [gang.user for gang in state.view(NOW + 1).gangs] == ["ann"]
    assert state.next_retry() is None
    assert {one.submitter for one in taken(state, "acceptances")} <= {"ann"}
    state.accept(accepted(uid, None, permitted_by="everyone"))
    assert state.acceptances[uid].submitter == "ann"


def test_a_submitter_that_is_never_recorded_is_not_waited_for_longer_than_a_moment() -> None:
    state = cluster(Members(everyone=True))
    state.expect_ends(900, 600)
    made = pod("p", queue="q")
    made.metadata.annotations[SUBMISSION_ANNOTATION] = "forged"
    state.upsert_pod(made)
    assert not state.view(NOW).gangs
    assert len(state.view(LATER).gangs) == 1
    assert "pod-p" not in state.announced


def test_members_change_and_the_next_view_knows() -> None:
    state = cluster(Members())
    state.accept(accepted("job"))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("p"))
    assert outcome(state) == (False, {Code.NOT_PERMITTED})
    assert [gang.key for gang in taken(state, "said")] == ["ns/g"]
    state.permit({"q": Members(users=frozenset({"ann"}))})
    assert len(state.view(LATER).gangs) == 1
    state.permit({"q": Members()})
    assert not state.view(LATER).gangs, "what waits stops at the next cycle"


def test_priority_is_clamped_and_the_submitter_is_kept() -> None:
    state = cluster(Members(users=frozenset({"ann"}), max_priority=7))
    state.accept(accepted("job", groups=["lab"], permitted_by="user:ann", priority=90))
    state.upsert_group(owned_group(priority=90))
    state.upsert_pod(owned_pod("p"))
    assert [gang.priority for gang in state.view(NOW).gangs] == [7]
    (made,) = taken(state, "acceptances")
    assert (made.submitter, made.groups, made.permitted_by, made.priority) == ("ann", ["lab"], "user:ann", 7)


def test_what_runs_goes_on_and_is_not_refilled_once_its_user_is_no_member_any_more() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    state.accept(accepted("job", permitted_by="user:ann"))
    state.upsert_group(owned_group(minimum=2))
    for name in ("a", "b"):
        state.upsert_pod(owned_pod(name))
    assert len(decide(state)) == 2
    for name in ("a", "b"):
        state.upsert_pod(owned_pod(name, node="n1", phase="Running"))
    state.settle()
    state.permit({"q": Members()})
    state.remove_pod("pod-b")
    state.upsert_pod(owned_pod("b", uid="again"))
    assert not decide(state)
    (gang,) = state.pending
    assert [(reason.code, reason.refused) for reason in gang.reasons] == [(Code.NOT_PERMITTED, False)]
    state.permit({"q": Members(users=frozenset({"ann"}))})
    assert len(decide(state)) == 1


def with_a_reservation_asked_for() -> ClusterState:
    """A group without an owner asks for a reservation that is for one user."""
    state = cluster(Members(everyone=True))
    state.advance.take([known(**{"for": {"users": ["ann"]}})])
    group = owned_group(owner="")
    group.metadata.annotations = {RESERVATION_ANNOTATION: "r"}
    state.upsert_group(group)
    state.upsert_pod(owned_pod("a", owner=""))
    return state


def test_who_asks_for_a_reservation_waits_a_moment_until_its_submitter_is_known() -> None:
    state = with_a_reservation_asked_for()
    (gang,) = state.gangs.values()
    assert (state.view(NOW).gangs, gang.reasons) == ((), ())
    state.accept(structs.replace(accepted("group-g"), kind="PodGroup"))
    (seen,) = state.view(NOW + 1).gangs
    assert (seen.reservation, state.permissions.submitter(gang)) == ("r", "ann")


def test_who_asks_for_a_reservation_does_not_wait_for_ever_for_its_submitter() -> None:
    state = with_a_reservation_asked_for()
    assert state.view(NOW).gangs == ()
    assert len(state.view(LATER).gangs) == 1
    assert len(state.view(LATER + 1).gangs) == 1


def test_on_a_used_cluster_with_an_empty_database_nothing_unknown_joins() -> None:
    state = cluster(Members())
    group = owned_group(minimum=2)
    group.status = {"conditions": [{"type": "GroupScheduled", "status": "True"}]}
    state.upsert_group(group)
    state.upsert_pod(owned_pod("a", node="n1", phase="Running"))
    state.upsert_pod(owned_pod("b"))
    assert outcome(state) == (False, {Code.SUBMITTER_UNKNOWN})
    (gang,) = state.partial
    assert gang.unpermitted is not None


def test_a_stranger_does_not_join_another_users_group() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    state.accept(accepted("job", permitted_by="user:ann"))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("a"))
    state.upsert_pod(owned_pod("stranger", owner=""))
    state.upsert_pod(owned_pod("other", owner="elsewhere"))
    assert [assignment.pod for assignment in decide(state)] == ["pod-a"]
    waiting = state.pods["pod-stranger"].blocked + state.pods["pod-other"].blocked
    assert [reason.code for reason in waiting] == [Code.SUBMITTER_UNKNOWN] * 2
    state.accept(accepted("pod-stranger", "ann"))
    assert [assignment.pod for assignment in decide(state)] == ["pod-stranger"]


def test_an_owner_in_another_namespace_is_none() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    made = accepted("job", permitted_by="user:ann")
    state.accept(Acceptance(**{name: getattr(made, name) for name in made.__struct_fields__} | {"namespace": "others"}))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("p"))
    assert outcome(state) == (False, {Code.SUBMITTER_UNKNOWN})


def test_who_submitted_an_experiment_submitted_its_trials() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    space(state)
    above = {"apiVersion": "tensorstack.dev/v1beta1", "kind": "AutoTuneExperiment", "name": "hpo", "uid": "hpo"}
    meta = {"name": "job", "namespace": "ns", "uid": "job", "ownerReferences": [above | {"controller": True}]}
    trial = decoder(JobObject)({"metadata": meta, "spec": {}})
    state.owners.upsert(trial, KINDS["PyTorchTrainingJob"].resource, ours=True)
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("a"))
    assert outcome(state) == (False, {Code.SUBMITTER_UNKNOWN})
    state.accept(accepted("hpo"))
    assert outcome(state)[0]
    assert state.owners.works("hpo") == ("job",)
    state.owners.remove("job")
    assert state.owners.works("hpo") == ()


@pytest.mark.parametrize("late", [False, True])
def test_who_submitted_a_workflow_submitted_the_jobs_of_all_its_runs(late: bool) -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    space(state)
    runs = KINDS["WorkflowRun"].resource
    for above, name, kind in (("", "run", runs), ("run", "step", runs), ("step", "job", KINDS["MPIJob"].resource)):
        reference = {
            "apiVersion": runs.api_version,
            "kind": "WorkflowRun",
            "name": above,
            "uid": above,
            "controller": True,
        }
        meta = {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [reference] if above else []}
        state.owners.upsert(decoder(JobObject)({"metadata": meta, "spec": {}}), kind, ours=True)
    if not late:
        state.accept(accepted("run"))
    state.upsert_group(owned_group())
    state.upsert_pod(owned_pod("a"))
    if late:
        assert outcome(state) == (False, {Code.SUBMITTER_UNKNOWN})
        state.accept(accepted("run"))
    assert outcome(state)[0]
    assert state.owners.works("run") == ("step", "job")


def test_runs_that_own_one_another_end_the_search() -> None:
    state = cluster(Members(users=frozenset({"ann"})))
    runs = KINDS["WorkflowRun"].resource
    for above, name in (("a", "b"), ("b", "a")):
        reference = {
            "apiVersion": runs.api_version,
            "kind": "WorkflowRun",
            "name": above,
            "uid": above,
            "controller": True,
        }
        meta = {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [reference]}
        state.owners.upsert(decoder(JobObject)({"metadata": meta, "spec": {}}), runs, ours=True)
    assert set(state.owners.works("a")) == {"a", "b"}
    assert state.owners.maker(OwnerReference(kind="WorkflowRun", name="a", uid="a", controller=True)) is not None
