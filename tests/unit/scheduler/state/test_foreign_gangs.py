"""Objects of other projects stand for PodGroups, in whatever order the watches tell of them and of their pods."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.model.names import GANG_ANNOTATION, QUEUE_LABEL, SCHEDULER_NAME
from t9ksched.model.pod import OwnerReference
from t9ksched.scheduler.observe.informers import decoder, job_upsert, owner_upsert
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.places import Place
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.workloads.registry import KINDS
from tests.unit.scheduler.state.test_state import NOW, decide, pod, state_with

Object = dict[str, Any]
JOBSET, JOB, SET = KINDS["JobSet"], KINDS["Job"], KINDS["StatefulSet"]
TEMPLATE = {"spec": {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "main", "image": "x"}]}}
LABELS = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "w"}


def seen(name: str, spec: Object, owner: tuple[str, str, str] | None = None, **meta: Any) -> JobObject:
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **meta}
    if owner is not None:
        api_version, kind, above = owner
        own = {"apiVersion": api_version, "kind": kind, "name": above, "uid": f"uid-{above}", "controller": True}
        metadata["ownerReferences"] = [own]
    return decoder(JobObject)({"metadata": metadata, "spec": spec})


def jobset(replicas: int = 2, pods: int = 2, **spec: Any) -> JobObject:
    job = {"spec": {"parallelism": pods, "completions": pods, "template": TEMPLATE}}
    entries = [{"name": "w", "replicas": replicas, "template": job}]
    return seen("train", {"replicatedJobs": entries, **spec}, labels={QUEUE_LABEL: "q"})


def job(number: int) -> JobObject:
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": TEMPLATE}
    return seen(f"train-w-{number}", spec, (JOBSET.api_version, "JobSet", "train"))


def member(number: int, index: int, **more: Any) -> Any:
    made = pod(f"train-w-{number}-{index}", **more)
    made.metadata.labels = dict(LABELS)
    made.metadata.owner_references = [
        OwnerReference("batch/v1", "Job", f"train-w-{number}", f"uid-train-w-{number}", True)
    ]
    return made


def events(state: ClusterState) -> list[Callable[[], None]]:
    sets, jobs = job_upsert(state, JOBSET.resource), job_upsert(state, JOB.resource)
    return [
        lambda: sets(jobset()),
        *(lambda number=number: jobs(job(number)) for number in range(2)),  # type: ignore[misc]
        *(
            lambda number=number, index=index: state.upsert_pod(member(number, index))  # type: ignore[misc]
            for number in range(2)
            for index in range(2)
        ),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_in_any_order_nothing_starts_before_all_are_there(seed: int) -> None:
    state = state_with()
    order = events(state)
    random.Random(seed).shuffle(order)
    for event in order[:-1]:
        event()
        assert decide(state) == []
    order[-1]()
    assert len(decide(state)) == 4
    (gang,) = state.groups_of("uid-train")
    assert (gang.name, gang.queue, gang.spec.roles) == ("JobSet/train", "q", (("w", 4),))
    assert [one.kind for one in state.jobs.values()] == ["JobSet"]
    assert state.gangs.keys() == {("ns", "JobSet/train")}


def test_a_pod_whose_owner_never_comes_says_so() -> None:
    state = state_with()
    lonely = member(0, 0)
    lonely.metadata.owner_references = [OwnerReference(JOBSET.api_version, "JobSet", "gone", "uid-gone", True)]
    state.upsert_pod(lonely)
    assert decide(state) == []
    state.view(NOW + 2 * NAMING_NS)
    (gang,) = state.pending
    assert "the JobSet ns/gone, which is not known here" in gang.reasons[0].message
    job_upsert(state, JOBSET.resource)(seen("gone", jobset(1, 1).spec))
    assert len(decide(state)) == 1
    state.remove_pod(lonely.metadata.uid)
    assert state.foreign.held == {}


def test_a_kind_that_may_not_be_read_holds_nothing_up() -> None:
    state = state_with()
    state.owners.ask_rights_of(lambda name: name == "JobSet")
    state.upsert_pod(member(0, 0))
    job_upsert(state, JOB.resource)(job(0))
    assert len(decide(state)) == 1
    assert [one.kind for one in state.jobs.values()] == ["Job"]


def test_what_it_asks_for_now_counts_until_it_runs() -> None:
    state = state_with()
    for event in events(state):
        event()
    sets = job_upsert(state, JOBSET.resource)
    sets(jobset(replicas=3))
    assert decide(state) == []
    sets(jobset(replicas=1))
    assert len(decide(state)) == 4
    for number in range(2):
        for index in range(2):
            state.upsert_pod(member(number, index, node="n1", phase="Running"))
    state.settle()
    (gang,) = state.groups_of("uid-train")
    assert gang.ran
    sets(jobset(replicas=5))
    assert gang.minimum.members == 2


def test_groups_in_order_are_gangs_of_their_own() -> None:
    state = state_with()
    job_upsert(state, JOBSET.resource)(jobset(startupPolicy={"startupPolicyOrder": "InOrder"}))
    job_upsert(state, JOB.resource)(job(0))
    for index in range(2):
        state.upsert_pod(member(0, index))
    assert [gang.name for gang in state.groups_of("uid-train")] == ["JobSet/train[w]"]


def test_it_is_gone_with_its_pods() -> None:
    state = state_with()
    for event in events(state):
        event()
    decide(state)
    state.remove_job("uid-train")
    assert [gang.uid for gang in state.gangs.values()] == [""]
    late = member(1, 2)
    state.upsert_pod(late)
    assert decide(state) == []
    for number in range(2):
        for index in range(2):
            state.remove_pod(f"pod-train-w-{number}-{index}")
    state.remove_pod(late.metadata.uid)
    assert state.gangs == {}
    assert state.foreign._makers == {}


def alone(index: int, kind: str, name: str, label: str) -> Any:
    made = pod(f"{name}-{index}", queue="q")
    made.metadata.labels = {**(made.metadata.labels or {}), label: str(index)}
    made.metadata.owner_references = [OwnerReference("x/v1", kind, name, f"uid-{name}", True)]
    return made


def test_an_indexed_job_is_a_gang_while_it_says_so() -> None:
    state = state_with()
    jobs = job_upsert(state, JOB.resource)
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": TEMPLATE}
    pods = [alone(index, "Job", "sum", "batch.kubernetes.io/job-completion-index") for index in range(2)]
    state.upsert_pod(pods[0])
    assert decide(state) == []
    jobs(seen("sum", spec, annotations={GANG_ANNOTATION: "true"}))
    state.upsert_pod(pods[1])
    assert decide(state) == []
    assert [gang.name for gang in state.pending] == ["Job/sum"]
    jobs(seen("sum", spec))
    assert len(decide(state)) == 2
    assert all(gang.virtual for gang in state.gangs.values())


def test_a_set_whose_pods_come_one_after_the_other_cannot_start_whole() -> None:
    state = state_with()
    sets = owner_upsert(state, SET.resource)
    spec = {"replicas": 2, "podManagementPolicy": "OrderedReady", "template": TEMPLATE}
    sets(seen("db", spec, annotations={GANG_ANNOTATION: "true"}))
    state.upsert_pod(alone(0, "StatefulSet", "db", "statefulset.kubernetes.io/pod-name"))
    assert decide(state) == []
    (gang,) = state.pending
    assert "its spec.podManagementPolicy is OrderedReady, not Parallel" in gang.reasons[0].message
    sets(seen("db", {**spec, "podManagementPolicy": "Parallel", "replicas": 1}, annotations={GANG_ANNOTATION: "true"}))
    assert len(decide(state)) == 1


LWS, CLUSTER, RAY_JOB, TRAIN = (KINDS[name] for name in ("LeaderWorkerSet", "RayCluster", "RayJob", "TrainJob"))


def part(name: str, owner: tuple[str, str, str], **labels: str) -> Any:
    made = pod(name)
    made.metadata.labels = labels
    api_version, kind, above = owner
    made.metadata.owner_references = [OwnerReference(api_version, kind, above, f"uid-{above}", True)]
    return made


def lws_events(state: ClusterState, groups: int = 2, size: int = 3) -> list[Callable[[], None]]:
    """A set of groups: leaders by one StatefulSet, the workers of each by another that the leader's pod owns."""
    sets, kinds = owner_upsert(state, SET.resource), job_upsert(state, LWS.resource)
    spec = {"replicas": groups, "leaderWorkerTemplate": {"size": size, "workerTemplate": TEMPLATE}}
    found: list[Callable[[], None]] = [
        lambda: kinds(seen("llm", spec, labels={QUEUE_LABEL: "q"})),
        lambda: sets(
            seen("llm-leaders", {"replicas": groups, "template": TEMPLATE}, (LWS.api_version, LWS.name, "llm"))
        ),
    ]

    def labels(group: int, index: int) -> dict[str, str]:
        begin = "leaderworkerset.sigs.k8s.io"
        return {f"{begin}/name": "llm", f"{begin}/group-index": str(group), f"{begin}/worker-index": str(index)}

    def leader(group: int) -> None:
        made = part(f"llm-{group}", ("apps/v1", "StatefulSet", "llm-leaders"), **labels(group, 0))
        made.metadata.uid = f"uid-llm-{group}"
        state.upsert_pod(made)

    for group in range(groups):
        found.append(lambda group=group: leader(group))  # type: ignore[misc]
        above = ("v1", "Pod", f"llm-{group}")
        workers = seen(f"llm-{group}-workers", {"replicas": size - 1, "template": TEMPLATE}, above)
        found.append(lambda workers=workers: sets(workers))  # type: ignore[misc]
        for index in range(1, size):
            own = ("apps/v1", "StatefulSet", f"llm-{group}-workers")
            worker = part(f"llm-{group}-{index}", own, **labels(group, index))
            found.append(lambda worker=worker: state.upsert_pod(worker))  # type: ignore[misc]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_each_group_of_leader_and_workers_starts_whole_in_any_order(seed: int) -> None:
    state = state_with()
    order = lws_events(state)
    random.Random(seed).shuffle(order)
    started: set[str] = set()
    for event in order:
        event()
        done = decide(state)
        for group in {one.pod.rpartition("llm-")[2][0] for one in done}:
            assert len([one for one in done if one.pod.rpartition("llm-")[2][0] == group]) == 3
            started.add(group)
    assert started == {"0", "1"}
    gangs = state.groups_of("uid-llm")
    assert sorted(gang.name for gang in gangs) == ["LeaderWorkerSet/llm[0]", "LeaderWorkerSet/llm[1]"]
    assert [one.kind for one in state.jobs.values()] == ["LeaderWorkerSet"]


def test_a_group_that_runs_is_found_again_by_what_is_on_record() -> None:
    state = state_with()
    order = lws_events(state, groups=1)
    for event in order:
        event()
    rows = {one.pod: one for one in decide(state)}
    assert len(rows) == 3
    again = state_with()
    again.places._recorded.update(
        {uid: Place("n1", "LeaderWorkerSet/llm[0]", "worker", "q", "uid-llm") for uid in rows}
    )
    for event in lws_events(again, groups=1)[:2]:
        event()
    for uid in rows:
        bound = part(uid.removeprefix("pod-").removeprefix("uid-"), ("v1", "Pod", "none"))
        bound.metadata.labels = state.pods[uid].labels
        bound.metadata.uid, bound.spec.node_name, bound.status.phase = uid, "n1", "Running"
        bound.metadata.owner_references = [state.pods[uid].owner]
        again.upsert_pod(bound)
    for event in lws_events(again, groups=1)[3:4]:
        event()
    again.settle()
    gangs = [gang for gang in again.gangs.values() if gang.members]
    assert [(gang.name, len(gang.members)) for gang in gangs] == [("LeaderWorkerSet/llm[0]", 3)]
    assert gangs[0].uid


def test_the_queue_of_the_topmost_job_counts() -> None:
    state = state_with()
    job_upsert(state, JOBSET.resource)(seen("tj", jobset().spec, (TRAIN.api_version, "TrainJob", "tj-up")))
    job_upsert(state, JOB.resource)(seen("train-w-0", job(0).spec, (JOBSET.api_version, "JobSet", "tj")))
    state.upsert_pod(member(0, 0))
    assert state.pending == {} or all(gang.virtual for gang in state.pending)
    up = seen("tj-up", {"runtimeRef": {"name": "torch"}}, annotations={QUEUE_LABEL: "q"})
    job_upsert(state, TRAIN.resource)(up)
    (gang,) = state.groups_of("uid-tj-up")
    assert (gang.name, gang.queue, len(gang.members)) == ("JobSet/tj", "q", 1)
    assert [(one.kind, one.queue) for one in state.jobs.values()] == [("TrainJob", "q")]


def test_a_ray_job_is_one_job_over_its_cluster() -> None:
    state = state_with()
    head = {"template": TEMPLATE}
    workers = [{"groupName": "W", "replicas": 2, "template": TEMPLATE}]
    cluster = {"headGroupSpec": head, "workerGroupSpecs": workers}
    job_upsert(state, RAY_JOB.resource)(seen("count", {"rayClusterSpec": cluster}, labels={QUEUE_LABEL: "q"}))
    own = (CLUSTER.api_version, "RayCluster", "count-x")
    for number, group in enumerate(("headgroup", "W")):
        state.upsert_pod(part(f"count-{number}", own, **{"ray.io/cluster": "count-x", "ray.io/group": group}))
        assert decide(state) == []
    job_upsert(state, CLUSTER.resource)(seen("count-x", cluster, (RAY_JOB.api_version, "RayJob", "count")))
    assert decide(state) == []
    state.upsert_pod(part("count-2", own, **{"ray.io/cluster": "count-x", "ray.io/group": "W"}))
    assert len(decide(state)) == 3
    (gang,) = state.groups_of("uid-count")
    assert (gang.queue, gang.spec.roles) == ("q", (("headgroup", 1), ("w", 2)))
    assert [one.kind for one in state.jobs.values()] == ["RayJob"]
