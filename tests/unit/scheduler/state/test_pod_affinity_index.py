"""What the state tells the engine about pods around: who is spoken of, and where they stand."""

from typing import Any

import pytest

from t9ksched.admission.access import Members
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.work import finish
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import Pod, decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.namespaces import NamespaceObject
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.state import ClusterState
from tests.counting import Lines

NOW = 1_700_000_000_000_000_000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(name: str, app: str, *, node: str = "", phase: str = "Pending", group: str = "", **spec: Any) -> Pod:
    labels = {"app": app} | ({names.GROUP_LABEL: group} if group else {})
    return decode_pod(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels},
            "spec": {
                "schedulerName": names.SCHEDULER_NAME,
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                **spec,
            },
            "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "True"}] if node else []},
        }
    )


def term(app: str, key: str = "kubernetes.io/hostname", **more: Any) -> dict[str, Any]:
    return {REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}]}


@pytest.fixture
def state() -> ClusterState:
    found = ClusterState()
    found.set_queues([Queue("default", parse_queue_spec({})), Queue("q", parse_queue_spec({}))])
    found.permit({"default": Members(everyone=True), "q": Members(everyone=True)})
    for at in range(4):
        labels = {"kubernetes.io/hostname": f"n{at}", "rack": f"r{at // 2}"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": "4", "pods": "9"}, "conditions": ready}
        found.upsert_node(
            decode_node({"metadata": {"name": f"n{at}", "uid": f"n{at}", "labels": labels}, "status": status})
        )
    return found


def cycle(state: ClusterState) -> Plan:
    found = plan(state.view(NOW), Policy(), NOW)
    for uid in dict.fromkeys(one.gang for one in found.assignments):
        assert state.assume(uid, [one for one in found.assignments if one.gang == uid], NOW)
    return found


def places(found: Plan) -> dict[str, str]:
    return {one.pod: one.node for one in found.assignments}


def test_without_rules_no_pod_is_reported(state: ClusterState) -> None:
    state.upsert_pod(pod("a", "web", node="n0", phase="Running"))
    assert state.view(NOW).neighbours == ()


def test_a_rule_that_comes_later_finds_placed_pods(state: ClusterState) -> None:
    for at in range(3):
        state.upsert_pod(pod(f"web-{at}", "web", node=f"n{at}", phase="Running"))
    state.upsert_pod(pod("other", "other", node="n3", phase="Running"))
    state.upsert_pod(pod("lonely", "lonely", affinity={"podAntiAffinity": term("web")}))
    (told,) = state.view(NOW).neighbours
    assert told.nodes == (("n0", 1), ("n1", 1), ("n2", 1))
    assert places(cycle(state)) == {"lonely": "n3"}


def test_anti_affinity_of_placed_pods_counts(state: ClusterState) -> None:
    against = {"podAntiAffinity": term("web", "rack")}
    state.upsert_pod(pod("lonely", "lonely", node="n0", phase="Running", affinity=against))
    state.upsert_pod(pod("web", "web"))
    assert places(cycle(state)) == {"web": "n2"}
    state.upsert_pod(pod("lonely", "lonely", node="n0", phase="Succeeded", affinity=against))
    state.upsert_pod(pod("web-2", "web"))
    assert state.view(NOW).neighbours == ()


def test_assumed_places_count_before_they_are_seen(state: ClusterState) -> None:
    for name in ("a", "b"):
        state.upsert_pod(pod(name, "x", affinity={"podAntiAffinity": term("x", "rack")}))
    assert len(set(places(cycle(state)).values())) == 2
    state.upsert_pod(pod("c", "x", affinity={"podAntiAffinity": term("x", "rack")}))
    found = cycle(state)
    assert [str(entry.reasons[0].code) for entry in found.waiting] == ["TopologyNotSatisfied"]


def test_a_rule_wakes_up_when_others_come(state: ClusterState) -> None:
    woken: list[int] = []
    state.wake = lambda: woken.append(1)
    state.upsert_pod(pod("client", "client", affinity={"podAffinity": term("server")}))
    assert not places(cycle(state))
    state.upsert_pod(pod("server", "server"))
    woken.clear()
    assert set(places(cycle(state))) == {"server"}
    assert woken, "the client may start now"
    assert set(places(cycle(state))) == {"client"}


def test_a_group_whose_annotation_names_no_level_waits_until_it_is_corrected(state: ClusterState) -> None:
    meta: dict[str, Any] = {"name": "g", "namespace": "ns", "uid": "g"}
    spec = {"minMember": 1, "queue": "q", "topologyPolicy": "Required"}
    state.upsert_pod(pod("p", "x", group="g"))
    for key, starts in ((" ,, ", False), ("rack,", True), ("", True)):
        meta["annotations"] = {names.TOPOLOGY_KEY_ANNOTATION: key}
        state.upsert_group(decoder(PodGroupObject)({"metadata": meta, "spec": spec}))
        assert bool(state.view(NOW).gangs) is starts
        (reason,) = state.gangs_by_uid["g"].reasons if not starts else (None,)
        assert reason is None or (
            "metadata.annotations[scheduler.tensorstack.dev/topology-key]" in reason.message
            and "' ,, ' names no label of nodes" in reason.message
        )


def test_a_group_states_its_levels(state: ClusterState) -> None:
    meta = {
        "name": "g",
        "namespace": "ns",
        "uid": "g",
        "annotations": {names.TOPOLOGY_KEY_ANNOTATION: "kubernetes.io/hostname, rack"},
    }
    spec = {"minMember": 6, "queue": "q", "topologyPolicy": "Required"}
    state.upsert_group(decoder(PodGroupObject)({"metadata": meta, "spec": spec}))
    for at in range(7):
        state.upsert_pod(pod(f"p{at}", "x", group="g"))
    (gang,) = state.view(NOW).gangs
    assert (gang.topology, gang.levels) == ("Required", ("kubernetes.io/hostname", "rack"))
    assert set(places(cycle(state)).values()) == {"n0", "n1"}
    state.upsert_pod(pod("p7", "x", group="g"))
    assert state.view(NOW).gangs[0].nodes == ("n0", "n1")
    assert set(places(cycle(state)).values()) <= {"n0", "n1"}


def namespace(name: str, **labels: str) -> NamespaceObject:
    return decoder(NamespaceObject)({"metadata": {"name": name, "labels": labels}})


def test_namespaces_are_selected_by_any_label(state: ClusterState) -> None:
    woken: list[int] = []
    state.wake = lambda: woken.append(1)
    state.upsert_pod(pod("server", "server", node="n2", phase="Running"))
    near = term("server", namespaceSelector={"matchLabels": {"team": "red"}})
    state.upsert_pod(pod("client", "client", affinity={"podAffinity": near}))
    assert not places(cycle(state)), "nothing is known of the namespace yet"
    state.namespaces.upsert(namespace("ns", team="blue"))
    assert not places(cycle(state))
    woken.clear()
    state.namespaces.upsert(namespace("ns", team="red"))
    assert woken
    state.namespaces.upsert(namespace("ns", team="red"))
    assert len(woken) == 1, "what is known already does not wake the loop"
    assert places(cycle(state)) == {"client": "n2"}
    state.namespaces.remove(namespace("ns"))
    assert state.namespaces.get("ns") is None
    state.upsert_pod(pod("client-2", "client", affinity={"podAffinity": near}))
    assert not places(cycle(state))


def test_every_namespace_has_its_name_as_a_label(state: ClusterState) -> None:
    state.upsert_pod(pod("server", "server", node="n2", phase="Running"))
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}
    state.upsert_pod(pod("client", "client", affinity={"podAffinity": term("server", namespaceSelector=by_name)}))
    assert places(cycle(state)) == {"client": "n2"}


def test_preferences_of_placed_pods_count(state: ClusterState) -> None:
    wish = {"weight": 5, "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "rack"}}
    prefers = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    state.upsert_pod(pod("db", "db", node="n3", phase="Running", affinity=prefers))
    state.upsert_pod(pod("web", "web"))
    assert [weight for weight, _ in state.view(NOW).neighbours[0].preferred_terms] == [5]
    assert places(cycle(state))["web"] in ("n2", "n3")


def test_a_pod_that_begins_to_leave_wakes_spread_gangs(state: ClusterState) -> None:
    woken: list[int] = []
    state.wake = lambda: woken.append(1)
    key = {"maxSkew": 1, "topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}
    running = pod("a", "x", node="n0", phase="Running", topologySpreadConstraints=[key])
    state.upsert_pod(running)
    woken.clear()
    state.upsert_pod(running)
    assert not woken
    running.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    state.upsert_pod(running)
    assert woken
    assert [one.leaving for one in state.view(NOW).neighbours] == [True]


def test_labels_that_change_on_a_placed_pod_count_for_the_rules_of_others(state: ClusterState) -> None:
    state.upsert_pod(pod("server", "web", node="n0", phase="Running"))
    state.upsert_pod(pod("friend", "friend", affinity={"podAffinity": term("db")}))
    assert not places(cycle(state))
    state.upsert_pod(pod("server", "db", node="n0", phase="Running"))
    assert places(cycle(state)) == {"friend": "n0"}
    state.upsert_pod(pod("server", "web", node="n0", phase="Running"))
    state.upsert_pod(pod("lonely", "lonely", affinity={"podAntiAffinity": term("db")}))
    state.upsert_pod(pod("late", "late", affinity={"podAffinity": term("db")}))
    found = cycle(state)
    assert places(found) == {"lonely": "n0"}, "no pod is a db any more"


def test_labels_that_change_on_a_placed_pod_count_where_pods_are_spread(state: ClusterState) -> None:
    for at in range(3):
        state.upsert_pod(pod(f"x-{at}", "y", node=f"n{at}", phase="Running"))
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}]
    for at in range(3):
        state.upsert_pod(pod(f"x-{at}", "x", node=f"n{at}", phase="Running"))
    state.upsert_pod(pod("x-3", "x", topologySpreadConstraints=spread))
    assert places(cycle(state)) == {"x-3": "n3"}


def test_labels_that_change_on_a_pod_that_waits_count_for_the_rules_of_placed_pods(state: ClusterState) -> None:
    against = {"podAntiAffinity": term("web")}
    for at in range(4):
        state.upsert_pod(pod(f"lonely-{at}", "lonely", node=f"n{at}", phase="Running", affinity=against))
    state.upsert_pod(pod("late", "web"))
    assert not places(cycle(state))
    state.upsert_pod(pod("late", "other"))
    assert set(places(cycle(state))) == {"late"}
    state.upsert_pod(pod("later", "other"))
    state.upsert_pod(pod("later", "web"))
    assert not places(cycle(state))


def test_labels_that_change_on_an_assumed_pod_count(state: ClusterState) -> None:
    state.upsert_pod(pod("late", "x", nodeSelector={"kubernetes.io/hostname": "n0"}))
    assert places(cycle(state)) == {"late": "n0"}
    state.upsert_pod(pod("late", "web", nodeSelector={"kubernetes.io/hostname": "n0"}))
    state.upsert_pod(pod("friend", "friend", affinity={"podAffinity": term("web")}))
    assert places(cycle(state)) == {"friend": "n0"}


def test_a_changed_label_wakes_up_only_where_there_are_rules(state: ClusterState) -> None:
    state.upsert_pod(pod("server", "web", node="n0", phase="Running"))
    woken: list[int] = []
    state.wake = lambda: woken.append(1)
    state.upsert_pod(pod("server", "db", node="n0", phase="Running"))
    assert not woken
    state.upsert_pod(pod("friend", "friend", affinity={"podAffinity": term("web")}))
    assert not places(cycle(state))
    woken.clear()
    state.upsert_pod(pod("server", "web", node="n0", phase="Running"))
    assert woken, "the friend may start now"


def test_edits_of_membership_labels_change_no_membership(state: ClusterState) -> None:
    """Of a pod that has its place."""
    state.upsert_pod(pod("a", "x", group="g", node="n0"))
    state.upsert_pod(pod("a", "x", group="other", node="n0"))
    (record,) = state.pods.values()
    assert record.gang is not None
    assert record.gang.name == "g"


def test_rules_keep_the_labels_that_a_pod_was_created_with(state: ClusterState) -> None:
    """The API server has written them into the selector when the pod was created."""
    merged = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["old"]}]},
        "matchLabelKeys": ["app"],
    }
    state.upsert_pod(pod("there", "old", node="n2", phase="Running"))
    state.upsert_pod(pod("late", "new", affinity={"podAffinity": {REQUIRED: [merged]}}))
    assert places(cycle(state)) == {"late": "n2"}


def test_waiting_gangs_that_stay_are_not_looked_at(state: ClusterState) -> None:
    def waits(count: int) -> int:
        for at in range(count):
            state.upsert_pod(pod(f"w{at}", "waits"))
        first = state.view(NOW).gangs
        assert len(first) == count + 1
        assert state.view(NOW).gangs is first
        gangs = list(first)
        index = state.affinity_index
        before = index.labelled(gangs)
        with Lines() as counted:
            assert index.labelled(gangs[:3] + gangs[4:-1]) == before[:3] + before[4:-1]
        return counted.count

    state.upsert_pod(pod("ruled", "ruled", affinity={"podAntiAffinity": term("ruled")}))
    few = waits(100)
    assert waits(1000) < few + 50


def test_labels_told_in_steps_are_those_of_the_end(state: ClusterState) -> None:
    state.upsert_pod(pod("ruled", "ruled", affinity={"podAntiAffinity": term("ruled")}))
    for at in range(300):
        state.upsert_pod(pod(f"w{at}", "waits"))
    steps = state.affinity_index.label(finish(state.judge(NOW)))
    next(steps)
    state.upsert_pod(pod("w0", "other"))
    state.upsert_pod(pod("w299", "other"))
    state.remove_pod("w1")
    state.remove_pod("w298")
    assert len(list(steps)) > 1
    found = {one.uid: dict(one.labels)["app"] for gang in state.view(NOW).gangs for one in gang.waiting}
    expected = dict.fromkeys((f"w{at}" for at in range(300)), "waits") | {"w0": "other", "w299": "other"}
    del expected["w1"], expected["w298"]
    assert found == expected | {"ruled": "ruled"}
