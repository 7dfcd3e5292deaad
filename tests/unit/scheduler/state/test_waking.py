"""What lets something start wakes the loop, and a decision that is not carried out leaves things as they were."""

from typing import Any

from t9ksched.admission.access import Members
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import REPLICASETS
from t9ksched.model.pod import OwnerReference
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.objects import JobObject, PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, PersistentVolume
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import CREATED, NOW, decide, group, node, pod

NO = Reason(Code.BIND_REFUSED, "no")
SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR


class Cluster:
    """A state that counts how often it wakes the loop."""

    def __init__(self, *nodes: Any) -> None:
        self.woken = 0
        self.state = ClusterState(self._wake)
        self.state.set_queues([Queue("q", parse_queue_spec({}))])
        self.state.permit({"q": Members(everyone=True)})
        for one in nodes or (node(),):
            self.state.upsert_node(one)

    def _wake(self) -> None:
        self.woken += 1


def replica_set(name: str = "rs", replicas: int = 2, above: str = "") -> JobObject:
    template = {"spec": {"schedulerName": "t9k-scheduler", "containers": [{"name": "main"}]}}
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name}
    if above:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": above, "uid": above, "controller": True}
        meta["ownerReferences"] = [reference]
    return decoder(JobObject)({"metadata": meta, "spec": {"replicas": replicas, "template": template}})


def owned(made: Any, kind: str, uid: str) -> Any:
    made.metadata.owner_references = [OwnerReference("apps/v1", kind, uid, uid, controller=True)]
    return made


def test_a_member_that_is_deleted_while_it_waits() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_group(group("g", 2))
    state.upsert_pod(pod("a", 9, group="g"))
    for name in ("b", "c"):
        state.upsert_pod(pod(name, group="g"))
    assert decide(state) == [], "the first two do not fit"
    cluster.woken = 0
    state.upsert_pod(pod("a", 9, group="g", deleting=True))
    assert cluster.woken
    assert sorted(one.pod for one in decide(state)) == ["pod-b", "pod-c"], "though a finalizer keeps the other"


def test_a_member_that_leaves_binds_the_others_to_its_place_no_longer() -> None:
    cluster = Cluster(node(gpus=1), node("n2"))
    state = cluster.state
    state.upsert_group(group("g", 1, topologyPolicy="Required"))
    state.upsert_pod(pod("a", group="g", node="n1", cards="0"))
    state.upsert_pod(pod("b", 2, group="g"))
    assert decide(state) == [], "not on the node of the first"
    cluster.woken = 0
    state.upsert_pod(pod("a", group="g", node="n1", cards="0", deleting=True))
    assert cluster.woken
    assert [one.node for one in decide(state)] == ["n2"]


def test_what_runs_of_an_earlier_group_lowers_the_minimum() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_group(group("g", 1, "one"))
    state.upsert_pod(pod("a", group="g", node="n1", cards="0"))
    state.remove_group(group("g", 1, "one"))
    state.upsert_group(group("g", 3, "two"))
    state.upsert_pod(pod("b", group="g"))
    assert decide(state) == []
    cluster.woken = 0
    state.upsert_pod(pod("a", group="g", node="n1", cards="0", phase="Running"))
    state.settle()
    assert cluster.woken
    assert [one.pod for one in decide(state)] == ["pod-b"]


def test_an_owner_that_is_gone_makes_its_lost_pods_no_more() -> None:
    cluster = Cluster()
    state = cluster.state
    state.owners.upsert_replicated(replica_set(replicas=1), REPLICASETS)
    state.upsert_group(group("g", 1))
    state.upsert_pod(owned(pod("a", 8, group="g", node="n1", cards="0,1,2,3,4,5,6,7"), "ReplicaSet", "rs"))
    decide(state)
    state.remove_pod("pod-a")
    state.upsert_pod(pod("b", 8, queue="q"))
    assert decide(state) == [], "the room is kept for the other that its owner makes"
    cluster.woken = 0
    state.remove_owner("rs")
    assert cluster.woken
    assert [one.pod for one in decide(state)] == ["pod-b"]


def test_a_pod_whose_root_is_awaited_is_judged_anew_once_the_owner_between_is_gone() -> None:
    cluster = Cluster()
    state = cluster.state
    state.owners.upsert_replicated(replica_set(above="web"), REPLICASETS)
    state.upsert_pod(owned(pod("a", queue="q"), "ReplicaSet", "rs"))
    assert decide(state) == [], "what its Deployment asks for may be seen in a moment"
    cluster.woken = 0
    state.remove_owner("rs")
    assert cluster.woken
    assert [one.pod for one in decide(state)] == ["pod-a"]


def test_promised_room_replaces_the_place_that_was_kept() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_group(group("g", 1))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 4, group="g"))
    decide(state)
    state.refuse("pod-b", NO, NOW, keep_place=True)
    cluster.woken = 0
    pod_class = state.pods["pod-b"].pod_class
    assert pod_class is not None
    state.reservations.promise([Reservation("group-g", "n1", pod_class, ReservationKind.VICTIMS)], NOW + SECOND)
    assert cluster.woken


def test_a_decision_that_is_dropped_leaves_the_places_that_were_kept() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_group(group("g", 3))
    for name in ("a", "b", "c"):
        state.upsert_pod(pod(name, 2, group="g"))
    decide(state)
    for uid in ("pod-b", "pod-c"):
        state.refuse(uid, NO, NOW, keep_place=True)
    kept = dict(state.reservations.refused)
    assert len(kept) == 2
    later = NOW + 2 * SECOND
    decided = plan(state.view(later), Policy(), later).assignments
    assert [one.pod for one in decided] == ["pod-b", "pod-c"]
    state.remove_pod("pod-c")
    assert state.assume("group-g", decided, later) == []
    assert state.reservations.refused == {"pod-b": kept["pod-b"]}


def test_a_gang_that_is_evicted_whole_does_not_run_with_the_members_that_leave() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    gang = state.gangs["ns", "g"]
    state.settle()
    assert gang.ran
    cluster.woken = 0
    state.start_again(gang, "Preempted", "for another")  # the watch has not told of the deletions yet
    assert cluster.woken
    state.settle()
    assert not gang.ran
    assert gang.evicted == ("Preempted", "for another")
    assert gang.began_with is None
    for name in ("a", "b"):
        state.remove_pod(f"pod-{name}")
        state.upsert_pod(pod(name, group="g", node="n1", uid=f"again-{name}"))
    state.settle()
    assert gang.ran
    assert gang.evicted is None


def test_a_gang_of_an_earlier_release_is_in_part_once_more_members_are_accepted() -> None:
    state = Cluster().state
    meta = {"name": "g", "namespace": "ns", "uid": "group-g", "creationTimestamp": CREATED}
    status = {"conditions": [{"type": "GroupScheduled", "status": "True"}]}
    made = {"metadata": meta, "spec": {"minMember": 2, "queue": "q"}, "status": status}
    state.upsert_group(decoder(PodGroupObject)(made))
    state.upsert_pod(pod("a", group="g", node="n1"))
    state.view(NOW)
    gang = state.gangs["ns", "g"]
    assert state.partial == [], "as many as were accepted are there"
    state.upsert_pod(pod("b", 9, group="g"))
    state.view(NOW)
    assert gang.minimum.members == 2
    assert state.partial == [gang]


def test_what_the_claims_of_a_pod_mean_is_asked_again_when_its_binding_is_refused() -> None:
    state = Cluster().state
    claim = {
        "metadata": {"name": "data", "namespace": "ns"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    state.storage.upsert_volume(decoder(PersistentVolume)({"metadata": {"name": "pv"}, "spec": {}}))
    state.storage.upsert_claim(decoder(Claim)(claim))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    state.upsert_pod(pod("a", queue="q", volumes=volumes))
    assert len(decide(state)) == 1
    state.storage.remove_claim(decoder(Claim)(claim))
    state.refuse("pod-a", NO, NOW, keep_place=False)
    assert [reason.code for reason in state.pods["pod-a"].unbound] == [Code.VOLUME_NOT_BOUND]


def test_what_waits_is_judged_when_a_start_window_begins_and_when_it_ends() -> None:
    midnight = NOW - NOW % DAY
    windows = [{"from": "20:00", "to": "22:00"}]
    cluster = Cluster()
    state = cluster.state
    state.set_queues([Queue("q", parse_queue_spec({"startWindows": windows})), Queue("r", parse_queue_spec({}))])
    state.permit({"q": Members(everyone=True), "r": Members(everyone=True)})
    state.view(midnight)
    assert state.next_retry() is None, "nothing waits"
    for name, queue in (("a", "q"), ("b", "q"), ("big", "r")):
        state.upsert_pod(pod(name, 9, queue=queue))
    for hour, expected in ((1, 20), (20, 22), (21.5, 22), (22, 44)):
        state.view(midnight + int(hour * HOUR))
        assert state.next_retry() == midnight + expected * HOUR
    cluster.woken = 0
    state.set_queues([Queue("q", parse_queue_spec({})), Queue("r", parse_queue_spec({}))])
    assert cluster.woken
    state.view(midnight)
    assert state.next_retry() is None


def test_users_are_told_of_a_job_once_its_pod_is_bound() -> None:
    cluster = Cluster()
    cluster.state.upsert_pod(pod("p", queue="q"))
    found = plan(cluster.state.view(NOW), Policy(), NOW)
    assert taken(cluster.state, "jobs") == ["pod-p"]
    (placed,) = cluster.state.assume("pod-p", found.assignments, NOW)
    assert taken(cluster.state, "jobs") == []
    assert [gang.uid for gang in taken(cluster.state, "gangs")] == ["pod-p"]
    cluster.state.upsert_pod(pod("p", queue="q", node=placed.node))
    assert taken(cluster.state, "jobs") == ["pod-p"]


def test_what_is_agreed_with_an_owner_wakes_the_loop_for_its_pods_that_name_another_queue() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_pod(owned(pod("a", queue="nowhere"), "GenericJob", "job"))
    state.upsert_group(owned(group("g", 1), "GenericJob", "job"))
    state.upsert_pod(owned(pod("b", group="g"), "GenericJob", "job"))
    woken = cluster.woken
    decided = decide(state)
    assert [one.pod for one in decided] == ["pod-b"], "the other one is looked at first"
    assert cluster.woken > woken
    assert [one.pod for one in decide(state)] == ["pod-a"]
