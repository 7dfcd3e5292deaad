"""Who may join a group is asked again whenever that may have changed: queues, owners, records, decisions taken back."""

import pytest
from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.kube.resources import REPLICASETS
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from tests.feeds import taken
from tests.unit.scheduler.state.test_admission_gate import LATER
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod
from tests.unit.scheduler.state.test_waking import owned, replica_set

ANN, BOTH = Members(users=frozenset({"ann"})), Members(users=frozenset({"ann", "bob"}))


def cluster(**queues: Members) -> ClusterState:
    state = ClusterState()
    state.set_queues(Queue(name, parse_queue_spec({})) for name in queues)
    state.permit(queues)
    state.upsert_node(node())
    return state


def record(uid: str, submitter: str | None, kind: str = "Job", group: str | None = None) -> Acceptance:
    return Acceptance(uid=uid, kind=kind, namespace="ns", name=uid, submitter=submitter, group_name=group)


def strangers(state: ClusterState) -> list[str]:
    state.settle()
    return [one.uid for one in state.membership.strangers(state.gangs["ns", "g"])]


def deployments_group() -> PodGroupObject:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    meta = {"name": "g", "namespace": "ns", "uid": "group-g", "ownerReferences": [reference]}
    return decoder(PodGroupObject)({"metadata": meta, "spec": {"minMember": 2, "queue": "q"}})


@pytest.mark.parametrize("how", ["refused", "withdrawn"])
def test_a_member_whose_binding_did_not_happen(how: str) -> None:
    state = cluster(q=BOTH)
    state.accept(record("group-g", "ann", "PodGroup"))
    state.accept(record("pod-a", "bob", "Pod", "g"))
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("a", group="g"))
    assert len(decide(state)) == 1
    state.permit({"q": ANN})
    assert strangers(state) == [], "its binding is under way"
    why = Reason(Code.BIND_REFUSED, "no")
    if how == "refused":
        state.refuse("pod-a", why, NOW, keep_place=True)
    else:
        state.withdraw(["pod-a"], why)
    assert strangers(state) == ["pod-a"]


def test_an_owner_of_which_is_recorded_who_submitted_it() -> None:
    state = cluster(q=ANN)
    state.accept(record("group-g", "ann", "PodGroup"))
    state.accept(record("pod-a", "ann", "Pod", "g"))
    state.upsert_group(group("g", 2))
    state.upsert_pod(owned(pod("a", group="g"), "Thing", "thing"))
    assert strangers(state) == []
    state.accept(record("thing", "bob", "Thing"))
    assert strangers(state) == ["pod-a"]
    assert state.pods["pod-a"].unpermitted[0].code == Code.NOT_PERMITTED


@pytest.mark.parametrize("seen_first", ["group", "replica set"])
def test_an_owner_between_that_comes_goes_and_is_adopted(seen_first: str) -> None:
    state = cluster(q=ANN)
    if seen_first == "group":
        state.upsert_group(deployments_group())
    state.owners.upsert_replicated(replica_set(above="web"), REPLICASETS)
    if seen_first != "group":
        state.upsert_group(deployments_group())
    state.upsert_pod(owned(pod("a", group="g"), "ReplicaSet", "rs"))
    assert strangers(state) == []
    state.remove_owner("rs")
    assert strangers(state) == ["pod-a"], "as a scheduler that starts now finds it"
    state.owners.upsert_replicated(replica_set(), REPLICASETS)
    assert strangers(state) == ["pod-a"]
    state.owners.upsert_replicated(replica_set(above="web"), REPLICASETS)
    assert strangers(state) == [], "the Deployment adopted the ReplicaSet, and nothing else changed"
    assert state.owners.controllers("web") == ("web", "rs")
    state.owners.upsert_replicated(replica_set(), REPLICASETS)
    assert strangers(state) == ["pod-a"]
    assert state.owners.controllers("web") == ("web",)


def test_a_pod_is_anothers_once_the_owner_between_is_gone() -> None:
    state = cluster(q=ANN)
    state.owners.upsert_replicated(replica_set(above="web"), REPLICASETS)
    state.accept(record("web", "ann", "Deployment"))
    state.accept(record("rs", "bob", "ReplicaSet"))
    state.upsert_pod(owned(pod("a", group="g"), "ReplicaSet", "rs"))
    state.settle()
    taken(state, "nameless")
    state.remove_owner("rs")
    assert "ns/g" in taken(state, "nameless"), "or lists would find the job by the former submitter"


def test_the_queue_of_a_group_whose_predecessor_left_nothing() -> None:
    state = cluster(q=ANN, r=BOTH)
    state.accept(record("one", "ann", "PodGroup"))
    state.accept(record("pod-b", "bob", "Pod", "g"))
    state.upsert_group(group("g", 1, "one", queue="q"))
    state.upsert_pod(pod("a", group="g", node="n1", cards="0"))
    state.settle()
    state.remove_group(group("g", 1, "one", queue="q"))
    state.upsert_group(group("g", 2, "two", queue="r"))
    state.upsert_pod(pod("b", group="g"))
    state.upsert_pod(pod("c", 9, group="g"))
    state.view(NOW)
    assert "pod-b" in strangers(state), "the group is in the queue that pays for the first"
    state.remove_pod("pod-a")
    state.view(NOW)
    assert state.gangs["ns", "g"].queue == "r"
    assert "pod-b" not in strangers(state)


def test_a_record_that_the_scheduler_made_of_an_owner_hides_nobody() -> None:
    state = cluster(q=ANN)
    state.accept(record("pod-a", "ann", "ReplicaSet"))
    state.accept(structs.replace(record("rs", None, "ReplicaSet"), queue="q", replicas=1))
    made = owned(pod("a", 9, queue="q"), "ReplicaSet", "rs")
    state.upsert_pod(made)
    assert [gang.uid for gang in state.view(LATER).gangs] == ["pod-a"], "its own submitter may use the queue"


def test_a_pod_that_is_a_job_of_its_own_makes_room_for_another_of_its_owner() -> None:
    state = cluster(q=Members(everyone=True))
    state.upsert_pod(owned(pod("a", queue="q"), "ReplicaSet", "rs"))
    state.departures["rs"] = 0
    state.accept(structs.replace(record("pod-a", "ann", "Pod"), queue="q", replicas=1))
    assert state.departures == {"rs": 1}
    assert state.pods["pod-a"].owner is None


def test_the_controller_that_a_job_of_its_own_names_is_the_one_that_it_has_now() -> None:
    state = cluster(q=Members(everyone=True))
    state.upsert_pod(owned(pod("a", queue="q"), "ReplicaSet", "former"))
    state.upsert_pod(owned(pod("a", queue="q"), "ReplicaSet", "later"))
    assert state.pods["pod-a"].claimed_by == ""
    state.accept(structs.replace(record("pod-a", "ann", "Pod"), queue="q", replicas=1))
    assert state.pods["pod-a"].claimed_by == "ReplicaSet/later"


def test_a_gang_that_was_evicted_is_not_finished_in_a_queue_that_its_user_may_use_no_more() -> None:
    state = cluster(q=ANN)
    state.accept(structs.replace(record("group-g", "ann", "PodGroup"), queue="q", replicas=3))
    state.upsert_group(group("g", 2))
    for name in ("a", "b", "c"):
        state.accept(record(f"pod-{name}", "ann", "Pod", "g"))
        state.upsert_pod(pod(name, 9 if name == "c" else 1, group="g"))
    assert len(decide(state)) == 2
    for name, card in (("a", "0"), ("b", "1")):
        state.upsert_pod(pod(name, group="g", node="n1", cards=card, phase="Running"))
    state.permit({"q": Members(users=frozenset({"bob"}))})
    state.view(NOW)
    gang = state.gangs["ns", "g"]
    assert gang.reasons[0].code == Code.NOT_PERMITTED
    state.start_again(gang, "Preempted", "for another")
    assert state.view(NOW).gangs == (), "its former members are leaving: it does not stand in part"
    assert gang.displaced
