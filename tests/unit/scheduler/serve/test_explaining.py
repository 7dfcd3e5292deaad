"""Who holds what a job waits for: by quota or by room, cards or cpu, and until when."""

from typing import Any

import msgspec
import pytest

from t9ksched.admission.access import Members
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import OwnerReference, Pod, decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.workloads.registry import KINDS
from tests.kinds import AUTOTUNE, NOTEBOOKS, PYTORCHTRAININGJOBS

NOW = 1_700_000_000_000_000_000
GPU = "nvidia.com/gpu"


def pod(name: str, queue: str = "q", *, node: str = "", start: str = "", ours: bool = True, **requests: Any) -> Pod:
    amounts = {key.replace("gpu", GPU): str(value) for key, value in requests.items()}
    return decode_pod(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {names.QUEUE_LABEL: queue}},
            "spec": {
                "schedulerName": names.SCHEDULER_NAME if ours else "other",
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"requests": amounts}}],
            },
            "status": {
                "phase": "Running" if node else "Pending",
                "startTime": start or None,
                "conditions": [{"type": "PodScheduled", "status": "True"}] if node else [],
            },
        }
    )


@pytest.fixture
def state() -> ClusterState:
    found = ClusterState()
    specs: dict[str, dict[str, Any]] = {
        "q": {"nodeSelector": {"matchLabels": {"pool": "a"}}},
        "short": {"quota": {"requests": {"cpu": "4"}}, "maxDuration": "1h"},
    }
    found.set_queues([Queue(name, parse_queue_spec(spec)) for name, spec in specs.items()])
    found.permit({name: Members(everyone=True) for name in specs})
    for name, pool in (("n0", "a"), ("n1", "a"), ("n2", "b")):
        labels = {"kubernetes.io/hostname": name, "pool": pool}
        status = {
            "allocatable": {"cpu": "8", "pods": "9", GPU: "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        found.upsert_node(decode_node({"metadata": {"name": name, "uid": name, "labels": labels}, "status": status}))
    return found


async def told(state: ClusterState, name: str) -> dict[str, Any]:
    found = plan(state.view(NOW), Policy(), NOW)
    for entry in found.waiting:
        gang = state.gangs_by_uid[entry.gang]
        gang.reasons, gang.position = entry.reasons, entry.position
    view = await JobIndex(state).find("ns", "pod", name)
    assert view is not None
    return await explanation(view, state)


async def test_cards_on_the_queues_nodes(state: ClusterState) -> None:
    state.upsert_pod(pod("large", node="n0", gpu=3, cpu=1))
    state.upsert_pod(pod("small", node="n1", gpu=1, cpu=1))
    state.upsert_pod(pod("foreign", node="n1", gpu=2, cpu=1, ours=False))
    state.upsert_pod(pod("no-cards", node="n1", cpu=1))
    state.upsert_pod(pod("elsewhere", "short", node="n2", gpu=4))
    state.upsert_pod(pod("mine", gpu=4, cpu=1))
    found = await told(state, "mine")
    assert (found["verdict"], found["position"]) == ("Waiting", 1)
    assert [(one["queue"], one["job"], one["gpus"], one["until"]) for one in found["holders"]] == [
        ("q", "ns/Pod/large", 3, None),
        (None, "ns/Pod/foreign", 2, None),
        ("q", "ns/Pod/small", 1, None),
    ]
    assert found["unblocks"]


async def test_cpu_for_a_job_without_cards(state: ClusterState) -> None:
    state.upsert_pod(pod("a", node="n0", cpu=7))
    state.upsert_pod(pod("b", node="n1", cpu=6, gpu=1))
    state.upsert_pod(pod("mine", cpu=3))
    holders = (await told(state, "mine"))["holders"]
    assert [(one["job"], one["gpus"], one["holds"]) for one in holders] == [
        ("ns/Pod/a", 0, {"cpu": "7"}),
        ("ns/Pod/b", 0, {"cpu": "6"}),
    ]


async def test_who_uses_the_quota_and_until_when(state: ClusterState) -> None:
    state.upsert_pod(pod("early", "short", node="n2", cpu=1, start="2023-11-14T22:00:00Z"))
    state.upsert_pod(pod("late", "short", node="n0", cpu=2, start="2023-11-14T22:10:00Z"))
    state.upsert_pod(pod("not-yet", "short", node="n0", cpu=1))
    state.upsert_pod(pod("other", "q", node="n1", cpu=8))
    state.upsert_pod(pod("mine", "short", cpu=1))
    found = await told(state, "mine")
    assert found["reasons"][0]["code"] == "QuotaExceeded"
    assert [(one["job"], one["until"]) for one in found["holders"]] == [
        ("ns/Pod/late", "2023-11-14T23:10:00Z"),
        ("ns/Pod/early", "2023-11-14T23:00:00Z"),
        ("ns/Pod/not-yet", None),
    ]


async def test_a_job_is_over_when_its_last_pod_is(state: ClusterState) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "twins", "uid": "twins", "controller": True}
    for name, start in (("one", "2023-11-14T22:10:00Z"), ("two", "2023-11-14T22:00:00Z")):
        twin = pod(name, "short", node="n2", cpu=2, start=start)
        twin.metadata.owner_references = [msgspec.convert(job, OwnerReference)]
        state.upsert_pod(twin)
    state.upsert_pod(pod("mine", "short", cpu=1))
    (holder,) = (await told(state, "mine"))["holders"]
    assert (holder["job"], holder["holds"], holder["until"]) == ("ns/Job/twins", {"cpu": "4"}, "2023-11-14T23:10:00Z")


async def test_a_running_job_needs_no_other_jobs_room(state: ClusterState) -> None:
    state.upsert_pod(pod("a", node="n0", cpu=7))
    found = await told(state, "a")
    assert (found["verdict"], found["holders"]) == ("Placed", [])


@pytest.mark.parametrize("placed", [True, False])
async def test_a_fault_of_the_spec_is_told(state: ClusterState, placed: bool) -> None:
    fault = "spec.template.spec.containers[0].resources.requests.cpu: 5 is more than the limit 1"
    conditions = [{"type": "Initialized", "status": "False", "reason": "InvalidSpec", "message": fault}]
    book = {
        "metadata": {"name": "lab", "namespace": "ns", "uid": "lab"},
        "spec": {"scheduler": {"t9kScheduler": {"queue": "q"}}},
        "status": {"phase": "Running" if placed else "Pending", "conditions": conditions},
    }
    state.upsert_job(job_record(msgspec.convert(book, JobObject), NOTEBOOKS))
    if placed:
        one = pod("one", node="n0", gpu=1)
        owner = {
            "apiVersion": NOTEBOOKS.api_version,
            "kind": "Notebook",
            "name": "lab",
            "uid": "lab",
            "controller": True,
        }
        one.metadata.owner_references = [msgspec.convert(owner, OwnerReference)]
        state.upsert_pod(one)
    view = await JobIndex(state).find("ns", "notebook", "lab")
    assert view is not None
    found = await explanation(view, state)
    assert found["verdict"] == ("Placed" if placed else "Waiting")
    assert [reason["code"] for reason in found["reasons"]] == ([] if placed else ["InvalidPod"])
    assert [note["message"] for note in found["warnings"]] == [
        f"its spec is not followed until it is corrected: {fault}"
    ]


@pytest.mark.parametrize("now", ["Running", "Pending", "Paused"])
async def test_an_edit_that_the_server_refuses_is_told_also_of_what_runs(state: ClusterState, now: str) -> None:
    refusal = {"type": "Initialized", "status": "False", "reason": "FailedUpdate", "message": "no such document"}
    book = {
        "metadata": {"name": "lab", "namespace": "ns", "uid": "lab"},
        "spec": {"scheduler": {"t9kScheduler": {"queue": "q"}}},
        "status": {"phase": now, "conditions": [refusal]},
    }
    state.upsert_job(job_record(msgspec.convert(book, JobObject), NOTEBOOKS))
    view = await JobIndex(state).find("ns", "notebook", "lab")
    assert view is not None
    found, words = await explanation(view, state), "the API server refuses what it needs: no such document"
    assert (found["job"]["phase"], found["job"]["reason"]["code"]) == (now, "InvalidPod")
    assert found["job"]["reason"]["message"] == words
    assert words in [each["message"] for each in found["reasons" if now == "Pending" else "warnings"]]


async def test_a_service_whose_pods_cannot_be_made_says_why(state: ClusterState) -> None:
    why = "one: there is no MLServiceRuntime 'serve' in this namespace"
    conditions = [{"type": "Initialized", "status": "False", "reason": "RuntimeNotFound", "message": why}]
    net = {
        "metadata": {"name": "net", "namespace": "ns", "uid": "net"},
        "spec": {"scheduler": {"t9kScheduler": {"queue": "q"}}},
        "status": {"phase": "Pending", "conditions": conditions},
    }
    state.upsert_job(job_record(msgspec.convert(net, JobObject), KINDS["MLService"].resource))
    view = await JobIndex(state).find("ns", "mlservice", "net")
    assert view is not None
    found = await explanation(view, state)
    assert [(each["code"], each["message"]) for each in found["reasons"]] == [("InvalidPod", why)]
    assert (found["job"]["reason"]["code"], found["job"]["reason"]["message"]) == ("InvalidPod", why)
    assert found["unblocks"] == []


@pytest.mark.parametrize(("phase", "verdict"), [("Running", "Placed"), ("Pending", "Waiting")])
async def test_a_job_whose_pods_another_scheduler_places_says_so(state: ClusterState, phase: str, verdict: str) -> None:
    book = {"metadata": {"name": "lab", "namespace": "ns", "uid": "lab"}, "spec": {}, "status": {"phase": phase}}
    state.upsert_job(job_record(msgspec.convert(book, JobObject), NOTEBOOKS))
    view = await JobIndex(state).find("ns", "notebook", "lab")
    assert view is not None
    found = await explanation(view, state)
    assert (found["verdict"], len(found["reasons"])) == (verdict, int(phase == "Pending"))
    assert "another one places its pods" in found["warnings"][0]["message"]


@pytest.mark.parametrize("by", ["rules", "their rules", "ports"])
async def test_of_jobs_that_have_room_those_are_named_whose_pods_keep_them_off(state: ClusterState, by: str) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def labelled(of: Pod, *, selects: bool) -> Pod:
        text = msgspec.to_builtins(of)
        text["metadata"]["labels"] |= {"app": "a"}
        if by == "ports":
            text["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        elif selects:
            text["spec"]["affinity"] = apart
        return decode_pod(text)

    for name, node in (("here", "n0"), ("there", "n1")):
        state.upsert_pod(labelled(pod(name, node=node, cpu=1), selects=by == "their rules"))
        state.upsert_pod(pod(f"beside-{name}", node=node, cpu=1, gpu=1))
    state.upsert_pod(labelled(pod("mine", gpu=1, cpu=1), selects=by == "rules"))
    assert [one["job"] for one in (await told(state, "mine"))["holders"]] == ["ns/Pod/here", "ns/Pod/there"]


@pytest.mark.parametrize("by", ["nodeSelector", "affinity"])
async def test_holders_on_nodes_that_the_pods_may_not_use_are_not_named(state: ClusterState, by: str) -> None:
    state.upsert_pod(pod("here", node="n0", gpu=4, cpu=1))
    state.upsert_pod(pod("there", node="n1", gpu=4, cpu=1))
    mine = pod("mine", gpu=4, cpu=1)
    rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    affinity = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    only = {"nodeSelector": {"kubernetes.io/hostname": "n0"}} if by == "nodeSelector" else affinity
    text = msgspec.to_builtins(mine)
    state.upsert_pod(decode_pod(text | {"spec": text["spec"] | only}))
    assert [one["job"] for one in (await told(state, "mine"))["holders"]] == ["ns/Pod/here"]


@pytest.mark.parametrize("runs", [True, False])
async def test_an_experiment_waits_for_what_its_trials_wait_for(state: ClusterState, runs: bool) -> None:
    block = {"t9kScheduler": {"queue": "q"}}
    tune = {
        "metadata": {"name": "hpo", "namespace": "ns", "uid": "hpo"},
        "spec": {"trainingConfig": {"scheduler": block}},
        "status": {"phase": "RUNNING" if runs else "PENDING"},
    }
    above = {"apiVersion": AUTOTUNE.api_version, "kind": AUTOTUNE.kind, "name": "hpo", "uid": "hpo", "controller": True}
    meta = {"name": "hpo-0", "namespace": "ns", "uid": "hpo-0", "ownerReferences": [above]}
    trial = msgspec.convert({"metadata": meta, "spec": {"scheduler": block}}, JobObject)
    state.upsert_job(job_record(msgspec.convert(tune, JobObject), AUTOTUNE))
    state.owners.upsert(trial, PYTORCHTRAININGJOBS, ours=True)
    state.upsert_job(job_record(trial, PYTORCHTRAININGJOBS))
    one = pod("one", gpu=9)
    owner = {
        "apiVersion": PYTORCHTRAININGJOBS.api_version,
        "kind": "PyTorchTrainingJob",
        "name": "hpo-0",
        "uid": "hpo-0",
    }
    one.metadata.owner_references = [msgspec.convert(owner | {"controller": True}, OwnerReference)]
    state.upsert_pod(one)
    state.accept(Acceptance(uid="hpo", kind=AUTOTUNE.kind, namespace="ns", name="hpo", submitter="ann", queue="q"))
    for entry in plan(state.view(NOW), Policy(), NOW).waiting:
        state.gangs_by_uid[entry.gang].reasons = entry.reasons
    index = JobIndex(state)
    view = await index.find("ns", "autotuneexperiment", "hpo")
    trials = await index.find("ns", "pytorchtrainingjob", "hpo-0")
    assert view is not None
    assert trials is not None
    found = await explanation(view, state)
    assert found["verdict"] == ("Placed" if runs else "Waiting")
    assert [reason["code"] for reason in found["reasons"]] == ([] if runs else ["NeverFits"])
    assert (found["job"]["phase"], (await explanation(trials, state))["job"]["submitter"]) == (
        "Running" if runs else "Pending",
        "ann",
    )


async def test_a_job_that_has_just_come_tells_that_it_is_judged_soon(state: ClusterState) -> None:
    state.upsert_pod(pod("p", cpu=1))
    view = await JobIndex(state).find("ns", "pod", "p")
    assert view is not None
    found = await explanation(view, state)
    assert "judged in the next cycle" in found["reasons"][0]["message"]


async def test_a_job_whose_submitter_is_waited_for_tells_that(state: ClusterState) -> None:
    state.permit({"q": Members(users=frozenset({"ann"}))})
    state.upsert_pod(pod("p", cpu=1))
    found = await told(state, "p")
    assert (found["verdict"], found["reasons"][0]["code"]) == ("Waiting", "SubmitterUnknown")
    assert "waited for, 3 s at most" in found["reasons"][0]["message"]
