"""Pods that name a group in the way of another scheduler start together; facts of each way, a row each."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.model.names import GROUP_LABEL, QUEUE_LABEL
from t9ksched.model.pod import OwnerReference
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.edits import ignored
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.workloads.dependencies import read_after
from t9ksched.workloads.podgroups import SYSTEMS, GroupSystem, selector_of, system_titled
from tests.counting import Lines
from tests.unit.scheduler.state.test_state import decide, pod, state_with

Object = dict[str, Any]
BY_NAME = {system.name: system for system in SYSTEMS}
SIG = "pod-group.scheduling.sigs.k8s.io"
# system, labels, annotations, fields of a pod's spec; spec of the object that they name
WAYS: list[Any] = [
    (
        "scheduling.k8s.io",
        {},
        {},
        {"scheduling_group": {"podGroupName": "train"}},
        {"schedulingPolicy": {"gang": {"minCount": 3}}},
    ),
    (
        "workload.scheduling.k8s.io",
        {},
        {},
        {"workload_ref": {"name": "train", "podGroup": "workers"}},
        {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}]},
    ),
    ("volcano.sh", {}, {"scheduling.k8s.io/group-name": "train"}, {}, {"minMember": 3, "queue": "theirs"}),
    ("scheduling.x-k8s.io", {"scheduling.x-k8s.io/pod-group": "train"}, {}, {}, {"minMember": 3}),
    ("scheduling.sigs.k8s.io", {f"{SIG}/name": "train", f"{SIG}/min-available": "3"}, {}, {}, None),
    (
        "kueue.x-k8s.io",
        {"kueue.x-k8s.io/pod-group-name": "train"},
        {"kueue.x-k8s.io/pod-group-total-count": "3"},
        {},
        None,
    ),
]


def named(number: int, way: Any, owner: str = "") -> Any:
    _, labels, annotations, fields, _ = way
    made = pod(f"p{number}", queue="q")
    made.metadata.labels = {**(made.metadata.labels or {}), **labels}
    made.metadata.annotations = dict(annotations)
    for key, value in fields.items():
        setattr(made.spec, key, value)
    if owner:
        made.metadata.owner_references = [OwnerReference("x/v1", "Thing", owner, f"uid-{owner}", True)]
    return made


def group_object(spec: Object, name: str = "train", **meta: Any) -> JobObject:
    return decoder(JobObject)(
        {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **meta}, "spec": spec}
    )


def test_the_table_has_every_way() -> None:
    assert [way[0] for way in WAYS] == [system.name for system in SYSTEMS]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_nothing_starts_before_the_minimum_is_there(way: Any, seed: int) -> None:
    state, system = state_with(), BY_NAME[way[0]]
    events: list[Callable[[], None]] = [
        lambda number=number: state.upsert_pod(named(number, way))
        for number in range(3)  # type: ignore[misc]
    ]
    if way[4] is not None:
        events.append(lambda: state.named_groups.upsert(group_object(way[4]), system))
    random.Random(seed).shuffle(events)
    for event in events[:-1]:
        event()
        assert decide(state) == []
    events[-1]()
    assert len(decide(state)) == 3
    (gang,) = state.gangs.values()
    assert (gang.queue, gang.virtual, gang.owner, gang.minimum.members) == ("q", False, None, 3)
    for number in range(3):
        state.remove_pod(f"pod-p{number}")
    assert (state.gangs, state.named_groups._groups, state.named_groups._pods) == ({}, {}, {})


@pytest.mark.parametrize("way", [way for way in WAYS if way[4] is not None], ids=lambda way: way[0])
def test_a_kind_that_is_not_followed_holds_nothing_up(way: Any) -> None:
    state = state_with()
    state.named_groups.ask_followed(lambda _: False)
    state.upsert_pod(named(0, way))
    assert len(decide(state)) == 1


def taken(state: ClusterState, system: GroupSystem, spec: Object, **meta: Any) -> None:
    state.named_groups.upsert(group_object(spec, **meta), system)


def test_a_group_that_is_no_gang_is_placed_one_by_one() -> None:
    state, way = state_with(), WAYS[0]
    for number in range(2):
        state.upsert_pod(named(number, way))
    taken(state, BY_NAME[way[0]], {"schedulingPolicy": {"gang": {"minCount": 3}}})
    assert decide(state) == []
    taken(state, BY_NAME[way[0]], {"schedulingPolicy": {"basic": {}}})
    assert len(decide(state)) == 2
    assert all(gang.virtual for gang in state.gangs.values())


def test_copies_of_a_group_are_gangs_of_their_own() -> None:
    state, way = state_with(), WAYS[1]
    taken(state, BY_NAME[way[0]], {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]})
    for number in range(3):
        made = named(number, way)
        made.spec.workload_ref = {"name": "train", "podGroup": "workers", "podGroupReplicaKey": str(number // 2)}
        state.upsert_pod(made)
    assert sorted(one.pod for one in decide(state)) == ["pod-p0", "pod-p1"]


def test_an_entry_that_is_missing_is_told() -> None:
    state, way = state_with(), WAYS[1]
    taken(state, BY_NAME[way[0]], {"podGroups": []})
    state.upsert_pod(named(0, way))
    assert decide(state) == []
    (gang,) = state.pending
    assert gang.reasons[0].message == "its pods name the pod group 'workers', which train does not have"


def test_the_queue_of_the_object_counts() -> None:
    state, way = state_with(queues={"q": {}, "mine": {}}), WAYS[3]
    taken(state, BY_NAME[way[0]], {"minMember": 1}, labels={QUEUE_LABEL: "mine"})
    state.upsert_pod(named(0, way))
    assert [gang.queue for gang in state.gangs.values()] == ["mine"]


def test_a_group_of_one_job_is_that_jobs() -> None:
    state, way = state_with(), WAYS[4]
    for number in range(2):
        state.upsert_pod(named(number, way, "a"))
    (gang,) = state.groups_of("uid-a")
    assert gang.name == "train~scheduling.sigs.k8s.io"
    state.upsert_pod(named(2, way, "b"))
    assert gang.owner is None
    assert len(decide(state)) == 3


def test_minima_of_tasks() -> None:
    state, way = state_with(), WAYS[2]
    taken(state, BY_NAME[way[0]], {"minMember": 2, "minTaskMember": {"ps": 1, "worker": 1}})
    for number, task in enumerate(("worker", "worker", "ps")):
        made = named(number, way)
        made.metadata.annotations["volcano.sh/task-spec"] = task
        state.upsert_pod(made)
        assert bool(decide(state)) == (number == 2)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_what_other_systems_do_not_label_is_no_edit(way: Any) -> None:
    """Their pods never had a label of ours; one that says another group later is told."""
    state = state_with()
    for number in range(3):
        state.upsert_pod(named(number, way))
    if way[4] is not None:
        taken(state, BY_NAME[way[0]], way[4])
    assert len(decide(state)) == 3
    (gang,) = state.gangs.values()
    assert ignored(gang) == ()
    edited = named(0, way)
    edited.metadata.labels[GROUP_LABEL] = "other"
    state.upsert_pod(edited)
    (text,) = ignored(gang)
    assert f"says 'other': it stays in {gang.name}" in text


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_the_name_of_a_group_says_its_system_and_the_labels_of_its_pods(way: Any) -> None:
    state, one = state_with(), named(0, way)
    state.upsert_pod(one)
    ((_, name),) = state.gangs
    assert system_titled(name) is BY_NAME[way[0]]
    label, _, value = selector_of(name).partition("=")
    assert not label or one.metadata.labels[label] == value
    (after,) = read_after(f"podgroup/{name}:any")
    assert (after.kind, after.name) == ("PodGroup", name)
    for wrong in (name.upper(), f"{name}x", f"a/b~{name}", f"~{name}", way[0], f"..~{way[0]}"):
        assert system_titled(wrong) is None


def told(way: Any, number: int) -> Any:
    """A pod that says its number in another way."""
    made = named(number, way)
    for place in BY_NAME[way[0]].count:
        (made.metadata.labels if place.kind == "label" else made.metadata.annotations).pop(place.keys[0], None)
    return made


@pytest.mark.parametrize("text", ["two", "-1", "0", "", None])
@pytest.mark.parametrize("way", WAYS[4:], ids=lambda way: way[0])
def test_a_number_that_cannot_be_read_starts_nothing(way: Any, text: str | None) -> None:
    state, place = state_with(), BY_NAME[way[0]].count[0]
    for number in range(2):
        made = told(way, number)
        if text is not None:
            (made.metadata.labels if place.kind == "label" else made.metadata.annotations)[place.keys[0]] = text
        state.upsert_pod(made)
    assert decide(state) == []
    (gang,) = state.pending
    message = gang.reasons[0].message
    assert f"metadata.{place.kind}s[{place.keys[0]}]" in message
    assert (f"'{text}' is no number" if text else "is missing") in message
    # A pod that can be read says it for all.
    state.upsert_pod(named(2, way))
    assert len(decide(state)) == 3


@pytest.mark.parametrize(
    ("way", "spec", "path"),
    [
        (0, {"schedulingPolicy": {"gang": {"minCount": "three"}}}, "spec.schedulingPolicy.gang.minCount"),
        (0, {"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount"),
        (0, {"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
        (1, {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": -1}}}]}, "spec.podGroups[0].policy"),
        (1, {"podGroups": {"name": "workers"}}, "spec.podGroups: must be a list"),
        (2, {"minMember": "3"}, "spec.minMember"),
        (2, {"minMember": 3, "minTaskMember": {"ps": "one"}}, "spec.minTaskMember.ps"),
        (3, {"minMember": -3}, "spec.minMember"),
        (3, {"minMember": True}, "spec.minMember"),
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_read_starts_nothing(way: int, spec: Object, path: str) -> None:
    state = state_with()
    for number in range(2):
        state.upsert_pod(named(number, WAYS[way]))
    taken(state, BY_NAME[WAYS[way][0]], spec)
    assert decide(state) == []
    (gang,) = state.pending
    assert f" train cannot be read: {path}" in gang.reasons[0].message
    taken(
        state,
        BY_NAME[WAYS[way][0]],
        {**WAYS[way][4], "minMember": 0} if way > 1 else {"podGroups": [{"name": "workers"}]},
    )
    assert len(decide(state)) == 2, "without a minimum they are placed one by one"


def test_an_object_that_changes_costs_what_its_own_groups_do() -> None:
    def work(others: int) -> int:
        state, way = state_with(), WAYS[2]
        for number in range(others):
            other = named(number + 1, way)
            other.metadata.annotations["scheduling.k8s.io/group-name"] = f"other-{number}"
            state.upsert_pod(other)
        state.upsert_pod(named(0, way))
        with Lines() as lines:
            taken(state, BY_NAME[way[0]], way[4])
        assert state.gangs["ns", "train~volcano.sh"].minimum.members == 3
        return lines.count

    assert work(200) == work(2)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_a_pod_that_joins_costs_the_same_however_many_others_there_are(way: Any) -> None:
    state = state_with()
    if way[4] is not None:
        taken(state, BY_NAME[way[0]], way[4])
    counts = []
    for number in range(200):
        made = named(number, way, f"owner-{number}")
        with Lines() as lines:
            state.upsert_pod(made)
        counts.append(lines.count)
    *most, _ = sorted(counts[10:])  # in one of them garbage of other tests may go
    assert max(most) <= max(counts[5:10]) + 5
    (gang,) = state.gangs.values()
    assert (len(gang.members), gang.owner) == (200, None)
