"""The state: events come twice, late and in any order; each pod is charged once; refusals give room back."""

from datetime import UTC, datetime
from typing import Any

from t9ksched.admission.access import Members
from t9ksched.engine.planner import Assignment, plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.cards import CardGrant
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.volumes.claims import Claim, PersistentVolume
from t9ksched.store.acceptances import Acceptance
from tests.feeds import taken

GPU = "nvidia.com/gpu"
NOW = 1_700_000_000_000_000_000
CREATED = "2026-01-01T00:00:00Z"


def node(name: str = "n1", gpus: int = 8, uid: str = "", **spec: Any) -> Any:
    return decode_node(
        {
            "metadata": {"name": name, "uid": uid or f"node-{name}", "labels": {"kubernetes.io/hostname": name}},
            "spec": spec,
            "status": {
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus)},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def pod(
    name: str,
    gpus: int = 1,
    *,
    group: str = "",
    queue: str = "",
    node: str = "",
    phase: str = "Pending",
    uid: str = "",
    ours: bool = True,
    deleting: bool = False,
    cards: str = "",
    volumes: list[Any] | None = None,
    **spec: Any,
) -> Any:
    labels = {names.GROUP_LABEL: group} if group else {}
    if queue:
        labels[names.QUEUE_LABEL] = queue
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"pod-{name}",
        "labels": labels,
        "creationTimestamp": CREATED,
        "annotations": {f"{names.GPU_INDEX_PREFIX}main": cards} if cards else {},
    }
    if deleting:
        meta["deletionTimestamp"] = CREATED
    amounts = {"cpu": "1", GPU: str(gpus)} if gpus else {"cpu": "1"}
    return decode_pod(
        {
            "metadata": meta,
            "spec": {
                "schedulerName": names.SCHEDULER_NAME if ours else "default-scheduler",
                "nodeName": node,
                "volumes": volumes or [],
                "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
                **spec,
            },
            "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "True"}] if node else []},
        }
    )


def group(name: str, min_member: int, uid: str = "", queue: str = "q", **spec: Any) -> PodGroupObject:
    return decoder(PodGroupObject)(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": uid or f"group-{name}", "creationTimestamp": CREATED},
            "spec": {"minMember": min_member, "queue": queue, **spec},
        }
    )


def state_with(*nodes: Any, queues: dict[str, Any] | None = None) -> ClusterState:
    state = ClusterState()
    queues = queues or {"q": {}, "default": {}}
    state.set_queues(Queue(name, parse_queue_spec(spec)) for name, spec in queues.items())
    state.permit(dict.fromkeys(queues, Members(everyone=True)))
    for item in nodes or (node(),):
        state.upsert_node(item)
    return state


def decide(state: ClusterState) -> list[Assignment]:
    decided = plan(state.view(NOW), Policy(), NOW)
    done: list[Assignment] = []
    for uid in dict.fromkeys(assignment.gang for assignment in decided.assignments):
        done += state.assume(uid, [a for a in decided.assignments if a.gang == uid], NOW)
    return done


def used_cards(state: ClusterState, name: str = "n1") -> int:
    return state.nodes.used(name).get(GPU, 0)


def test_a_gang_is_charged_when_assumed_and_once_when_seen_bound() -> None:
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 2, group="g"))
    done = decide(state)
    assert sorted(a.pod for a in done) == ["pod-a", "pod-b"]
    assert used_cards(state) == 4
    assert state.charges.queue_used["q"][GPU] == 4
    for a in done:
        cards = ",".join(map(str, a.cards[0][2]))
        bound = pod(a.pod.removeprefix("pod-"), 2, group="g", node=a.node, cards=cards)
        state.upsert_pod(bound)
        state.upsert_pod(bound)
    assert used_cards(state) == 4
    assert state.nodes.cards_used("n1") == CardGrant.of({GPU: range(4)})
    assert decide(state) == []


def test_pods_before_their_group_wait_for_it() -> None:
    state = state_with()
    state.upsert_pod(pod("a", group="g"))
    assert decide(state) == []
    (gang,) = state.pending
    assert "does not exist" in gang.reasons[0].message
    state.upsert_group(group("g", 1))
    assert len(decide(state)) == 1


def test_a_finished_or_deleted_pod_gives_its_room_back() -> None:
    state = state_with()
    state.upsert_pod(pod("a", 3, queue="q", node="n1", cards="0,1,2"))
    state.upsert_pod(pod("b", 2, queue="q", node="n1", cards="3,4"))
    assert used_cards(state) == 5
    state.upsert_pod(pod("a", 3, queue="q", node="n1", phase="Succeeded", cards="0,1,2"))
    assert used_cards(state) == 2
    state.remove_pod("pod-b")
    assert used_cards(state) == 0
    assert state.charges.queue_used["q"][GPU] == 0


def test_a_terminating_bound_pod_keeps_its_cards_until_it_is_gone() -> None:
    state = state_with()
    state.upsert_pod(pod("a", 8, queue="q", node="n1", deleting=True))
    state.upsert_pod(pod("b", 1, queue="q"))
    assert decide(state) == []
    state.remove_pod("pod-a")
    assert len(decide(state)) == 1


def test_foreign_pods_are_charged_and_never_planned() -> None:
    state = state_with()
    state.upsert_pod(pod("x", 7, node="n1", ours=False))
    state.upsert_pod(pod("waiting-elsewhere", 1, ours=False))
    state.upsert_pod(pod("a", 2, queue="q"))
    assert decide(state) == []
    assert used_cards(state) == 7
    assert not any(state.charges.queue_used.values())


def test_cards_that_a_node_gave_to_a_foreign_pod_are_not_given_again() -> None:
    state = state_with()
    foreign = pod("x", 4, node="n1", ours=False)
    state.upsert_pod(foreign)
    foreign.metadata.annotations[f"{names.GPU_INDEX_PREFIX}main"] = "0,1,2,3"  # told a moment after it was bound
    state.upsert_pod(foreign)
    assert used_cards(state) == 4
    state.upsert_pod(pod("a", 4, queue="q"))
    (assignment,) = plan(state.view(NOW), Policy(), NOW).assignments
    assert state.assume("pod-a", [assignment], NOW)
    assert state.charges.get("pod-a").cards == CardGrant.of({GPU: range(4, 8)})
    state.remove_pod("pod-x")
    assert used_cards(state) == 4


def test_pods_seen_before_their_node_are_charged_when_it_comes() -> None:
    state = state_with(node("other"))
    state.upsert_pod(pod("a", 8, queue="q", node="n1"))
    state.upsert_node(node("n1"))
    assert used_cards(state) == 8
    state.remove_node("n1")
    state.upsert_node(node("n1"))
    assert used_cards(state) == 8
    state.remove_node("n1")
    state.remove_pod("pod-a")
    state.upsert_node(node("n1"))
    assert used_cards(state) == 0


def test_a_node_made_anew_under_its_old_name_refuses_old_decisions() -> None:
    state = state_with()
    state.upsert_pod(pod("a", 1, queue="q"))
    decided = plan(state.view(NOW), Policy(), NOW)
    state.upsert_node(node("n1", gpus=4, uid="another"))
    assert state.assume("pod-a", decided.assignments, NOW) == []
    assert used_cards(state) == 0


def test_a_decision_is_dropped_whole_when_one_member_went_away() -> None:
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g"))
    decided = plan(state.view(NOW), Policy(), NOW)
    state.remove_pod("pod-b")
    assert state.assume("group-g", decided.assignments, NOW) == []
    assert used_cards(state) == 0


def test_a_decision_is_dropped_when_a_foreign_pod_took_the_room() -> None:
    state = state_with()
    state.upsert_pod(pod("a", 2, queue="q"))
    decided = plan(state.view(NOW), Policy(), NOW)
    state.upsert_pod(pod("x", 7, node="n1", ours=False))
    assert state.assume("pod-a", decided.assignments, NOW) == []


def test_a_refused_member_rests_its_place_held_for_its_gang() -> None:
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 4, group="g"))
    decide(state)
    state.refuse("pod-b", Reason(Code.BIND_REFUSED, "no"), NOW, keep_place=True)
    assert used_cards(state) == 4
    state.upsert_pod(pod("thief", 1, queue="q"))
    assert decide(state) == [], "the room is held for the gang"
    later = NOW + 2_000_000_000
    placed = plan(state.view(later), Policy(), later).assignments
    assert [a.pod for a in placed] == ["pod-b"]


def test_holds_end_at_their_time() -> None:
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, 4, group="g"))
    decide(state)
    state.refuse("pod-b", Reason(Code.BIND_REFUSED, "no"), NOW, keep_place=True)
    assert state.reservations.sweep(NOW) == 0
    assert state.reservations.sweep(NOW + 61_000_000_000) == 1


def test_edits_after_acceptance_are_ignored() -> None:
    state = state_with(queues={"q": {}, "rich": {}, "default": {}})
    state.upsert_group(group("g", 1, queue="q", priority=1))
    state.view(NOW)
    state.upsert_pod(pod("a", group="g"))
    state.view(NOW)
    state.upsert_group(group("g", 1, queue="rich", priority=99))
    (gang,) = state.view(NOW).gangs
    assert (gang.queue, gang.priority) == ("q", 1)
    assert [acceptance.queue for acceptance in taken(state, "acceptances")] == ["q"]
    assert taken(state, "acceptances") == []


def test_a_closed_queue_takes_nothing_new_and_keeps_what_it_has() -> None:
    state = state_with(queues={"q": {}})
    state.upsert_pod(pod("old", 8, queue="q"))
    state.upsert_pod(pod("older", 8, queue="q"))
    assert len(decide(state)) == 1
    state.set_queues([Queue("q", parse_queue_spec({"closed": True}))])
    state.upsert_pod(pod("new", 1, queue="q"))
    running = next(p for p in state.pods.values() if p.assumed)
    state.remove_pod(running.uid)
    done = {a.pod for a in decide(state)}
    assert done == {"pod-old", "pod-older"} - {running.uid}


def test_a_recreated_pod_of_the_same_name_replaces_the_missed_one() -> None:
    state = state_with()
    state.upsert_pod(pod("a", 8, queue="q", node="n1", uid="first"))
    state.upsert_pod(pod("a", 2, queue="q", node="n1", uid="second"))
    assert used_cards(state) == 2
    state.remove_pod("first")
    assert used_cards(state) == 2


def test_claims_decide_where_and_whether() -> None:
    state = state_with(node("n1"), node("n2"))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    state.upsert_pod(pod("a", 1, queue="q", volumes=volumes))
    assert decide(state) == []
    (waiting,) = plan(state.view(NOW), Policy(), NOW).waiting
    assert Code.VOLUME_NOT_BOUND in {reason.code for reason in waiting.reasons}
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]
    volume = {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    state.storage.upsert_volume(decoder(PersistentVolume)(volume))
    claim = {
        "metadata": {"name": "data", "namespace": "ns"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    state.storage.upsert_claim(decoder(Claim)(claim))
    assert [a.node for a in decide(state)] == ["n2"]


def test_gates_wait_and_open() -> None:
    state = state_with()
    state.upsert_pod(pod("a", 1, queue="q", schedulingGates=[{"name": "later"}]))
    assert decide(state) == []
    state.upsert_pod(pod("a", 1, queue="q"))
    assert len(decide(state)) == 1


def test_counts_follow_every_change() -> None:
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g"))
    state.upsert_pod(pod("a", group="g", node="n1", phase="Running"))
    assert state.counts.groups["q"] == 1
    assert (state.counts.pods["q"]["Pending"], state.counts.pods["q"]["Running"]) == (1, 1)
    for uid in ("pod-a", "pod-b"):
        state.remove_pod(uid)
    state.remove_group(group("g", 2))
    assert state.counts.groups["q"] == 0
    assert not any(state.counts.pods["q"].values())
    assert not state.gangs
    assert not state.pending


def test_a_gang_ran_only_once_its_minimum_is_bound() -> None:
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g"))
    decide(state)
    gang = state.gangs_by_uid["group-g"]
    state.settle()
    assert not gang.ran, "decided is not bound"
    state.upsert_pod(pod("a", group="g", node="n1", cards="0"))
    state.settle()
    assert not gang.ran
    state.upsert_pod(pod("b", group="g", node="n1", cards="1"))
    state.settle()
    assert gang.ran


def test_a_group_that_cannot_be_read_is_not_guessed_at() -> None:
    state = state_with()
    state.upsert_group(group("g", 1, roles=[{"name": "a"}, {"name": "a"}]))
    state.upsert_pod(pod("a", group="g"))
    assert decide(state) == []
    (gang,) = state.pending
    assert "named twice" in gang.reasons[0].message
    state.upsert_group(group("g", 1))
    assert len(decide(state)) == 1


def test_our_own_status_of_a_group_does_not_wake_the_loop() -> None:
    """The status of a PodGroup comes back by the watch while its members are being bound."""
    woken: list[str] = []
    state = ClusterState(lambda: woken.append("x"))
    state.upsert_group(group("g", 2))
    state.upsert_pod(pod("g0", group="g"))
    woken.clear()
    told = group("g", 2)
    told.status = {"phase": "Pending"}
    state.upsert_group(told)
    assert woken == []
    assert state.gangs["ns", "g"].status == {"phase": "Pending"}
    state.upsert_group(group("g", 1))
    assert woken, "another minimum may let it start"


class TestWhoPays:
    """Cards are paid by the queue that was agreed, in whatever order its group and its members are seen."""

    @staticmethod
    def used(state: ClusterState) -> dict[str, int]:
        used = {queue: amounts["nvidia.com/gpu"] for queue, amounts in state.charges.queue_used.items()}
        return {queue: amount for queue, amount in used.items() if amount}

    def test_members_seen_before_their_group(self) -> None:
        state = state_with(node())
        state.upsert_pod(pod("g0", 2, group="g", node="n1", phase="Running"))
        assert self.used(state) == {"default": 2}
        state.upsert_group(group("g", 1))
        assert self.used(state) == {"q": 2}
        state.remove_pod("pod-g0")
        assert self.used(state) == {}

    def test_an_agreement_that_is_read_later_counts(self) -> None:
        state = state_with(node())
        state.upsert_group(group("g", 1, queue="default"))
        state.upsert_pod(pod("g0", 2, group="g", node="n1", phase="Running"))
        state.accept(agreed("group-g", "q"))
        assert self.used(state) == {"q": 2}

    def test_members_that_outlive_their_group_are_paid_as_agreed_after_a_restart(self) -> None:
        state = state_with(node())
        state.accept(agreed("group-before", "default", hour=1))
        state.accept(agreed("group-g", "q", hour=2))
        state.upsert_pod(pod("g0", 2, group="g", node="n1", phase="Running", deleting=True))
        state.upsert_pod(pod("h0", 1, group="h", node="n1", phase="Running"))
        assert self.used(state) == {"q": 2, "default": 1}

    def test_members_pay_on_when_their_group_goes(self) -> None:
        state = state_with(node())
        state.upsert_group(group("g", 1))
        state.upsert_pod(pod("g0", 2, group="g", node="n1", phase="Running"))
        state.accept_running(NOW)
        state.remove_group(group("g", 1, queue="default"))
        state.upsert_pod(pod("g0", 2, group="g", node="n1", phase="Running", deleting=True))
        assert self.used(state) == {"q": 2}


def agreed(uid: str, queue: str, hour: int = 0) -> Acceptance:
    """What was agreed with a group named g."""
    return Acceptance(
        uid=uid,
        kind="PodGroup",
        namespace="ns",
        name="g",
        group_uid=uid,
        group_name="g",
        queue=queue,
        accepted_at=datetime(2026, 1, 1, hour, tzinfo=UTC),
    )


def test_what_is_withdrawn_may_rest_before_it_is_decided_about_again() -> None:
    """Else the loop would decide the same at once, and again, while the database is away."""
    state = state_with()
    state.upsert_pod(pod("p", queue="q"))
    assert len(decide(state)) == 1
    later = NOW + 1_000_000_000
    state.withdraw(["pod-p"], Reason(Code.DATABASE_AWAY, "no"), later)
    assert not state.view(NOW).gangs
    assert state.next_retry() == later
    assert [gang.uid for gang in state.view(later).gangs] == ["pod-p"]


def test_a_minimum_raised_right_after_the_start_is_not_the_one_it_began_with() -> None:
    """Nothing has looked at the group between its start and the edit."""
    state = state_with()
    state.upsert_group(group("g", 1))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    state.upsert_group(group("g", 2))
    state.settle()
    gang = state.gangs["ns", "g"]
    assert gang.began_with is not None
    assert gang.began_with.members == 1
