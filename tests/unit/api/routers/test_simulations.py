"""What-if questions by REST: what the leader is asked, what callers see of its answer, and bad questions."""

import re
from typing import Any

import pytest

from t9ksched.admission.oddities import Vocabulary
from t9ksched.kube.errors import ApiError, Forbidden
from t9ksched.kube.resources import PODS
from t9ksched.workloads.registry import KINDS
from tests.unit.api.world import Client, Json, World, documents, pod, pod_group, pytorch

PATH = "/apis/v1/simulate"
PYTORCH = KINDS["PyTorchTrainingJob"].resource
A100 = {"quota": {"requests": {"nvidia.com/gpu": "8"}}, "ordering": "Strict"}
FOUND: Json = {"verdict": "Starts", "start": "2026-01-01T00:00:00Z", "nodes": ["n1"], "reasons": [], "preempts": []}


@pytest.fixture
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, A100, {"users": ["ann"]})
    await world.store.queues.create("closed", {}, {"closed": True}, {"everyone": True})
    await world.store.queues.create("theirs", {}, {}, {"users": ["bob"]})


async def other(world: World, name: str, role: str, **more: Any) -> Client:
    token = await world.store.tokens.create(name, role, **more)
    return Client(world.user.url, world.user.session, token)


async def test_a_dry_run(world: World, queues: None) -> None:
    world.leader.simulation["jobs"] = [FOUND]
    job = pytorch("train", replicas=1)
    found = await world.user("POST", f"{PATH}?timeLimit=2h&namespace=ml", {"submit": [job], "horizon": "3d"})
    assert found.status == 200
    head = {"namespace": "ml", "kind": "PyTorchTrainingJob", "name": "train"}
    assert found.body == {
        "jobs": [head | FOUND | {"errors": []}],
        "others": [],
        "warnings": [],
        "at": "2026-01-01T00:00:00Z",
        "view": "0",
        "until": "2026-01-08T00:00:00Z",
        "complete": True,
    }
    (asked,) = world.leader.questions
    assert (asked["user"], asked["horizon"]) == ("ann", 3 * 86_400)
    (item,) = asked["items"]
    assert (item["queue"], item["priority"], item["ours"], item["members"]) == ("a100", 0, True, [])
    assert item["object"]["metadata"]["namespace"] == "ml"
    assert item["object"]["metadata"]["annotations"] == {"scheduler.tensorstack.dev/time-limit": "2h"}
    assert world.kube.names() == set()
    assert await world.store.history.list(event="submitted") == []


async def test_a_group_is_asked_about_with_its_pods_and_in_yaml(world: World, queues: None) -> None:
    world.leader.simulation["jobs"] = [FOUND, FOUND]
    submit = [pod("a-0", group="a"), pod_group("a"), pod("a-1", group="a"), pod("foreign", ours=False)]
    found = await world.user("POST", PATH, documents({"submit": submit}))
    assert [job["name"] for job in found.body["jobs"]] == ["a", "foreign"]
    group, foreign = world.leader.questions[0]["items"]
    assert [one["metadata"]["name"] for one in group["members"]] == ["a-0", "a-1"]
    assert (group["queue"], foreign["ours"]) == ("a100", False)


async def test_refused_jobs_are_told_beside_the_others(world: World, queues: None) -> None:
    world.leader.simulation["jobs"] = [FOUND]
    jobs = [
        pytorch("large", replicas=9),
        pytorch("shut", queue="closed"),
        pytorch("fine", replicas=1),
        pytorch("alien", queue="theirs"),
        pytorch("lost", queue="nowhere"),
    ]
    found = await world.user("POST", PATH, {"submit": jobs})
    told = {job["name"]: (job["verdict"], [reason["code"] for reason in job["reasons"]]) for job in found.body["jobs"]}
    assert told == {
        "large": ("Refused", ["OverQuota"]),
        "shut": ("Refused", ["QueueClosed"]),
        "fine": ("Starts", []),
        "alien": ("Refused", ["QueueNotPermitted"]),
        "lost": ("Refused", ["QueueNotFound"]),
    }
    assert len(world.leader.questions[0]["items"]) == 1


async def test_jobs_are_judged_by_the_queues_as_they_would_be(world: World, queues: None) -> None:
    boss = await other(world, "boss", "manager", queues=["a100"])
    world.leader.simulation["jobs"] = [FOUND]
    larger = {"name": "a100", "spec": {"quota": {"requests": {"nvidia.com/gpu": 64}}, "priority": 7}}
    question = {"submit": [pytorch("large", replicas=9)], "change": {"queues": [larger]}}
    found = await boss("POST", PATH, question)
    assert found.body["jobs"][0]["verdict"] == "Starts"
    spec = {"quota": {"requests": {"nvidia.com/gpu": 64}}, "priority": 7, "ordering": "Strict"}
    assert world.leader.questions[0]["change"] == {"queues": {"a100": spec}}
    again = await boss("POST", PATH, {"submit": [pytorch("large", replicas=9)]})
    assert again.body["jobs"][0]["verdict"] == "Refused", "the queue is as it was"
    assert (await world.admin("GET", "/apis/v1/admin/queues/a100")).body["spec"] == A100


async def test_administrators_ask_about_everything(world: World, queues: None) -> None:
    change = {
        "queues": [{"name": "fresh", "spec": {"priority": 3}}],
        "nodesGone": ["n1"],
        "nodesAdded": [{"name": "n2", "like": "n1"}],
        "policy": {"actions": ["allocate"]},
    }
    world.leader.simulation["jobs"] = [FOUND]
    found = await world.admin("POST", PATH, {"submit": [pytorch("a", queue="fresh")], "change": change})
    assert (found.status, found.body["jobs"][0]["verdict"]) == (200, "Starts")
    assert world.leader.questions[0]["change"] == {
        "queues": {"fresh": {"priority": 3, "ordering": "Backfill"}},
        "nodesGone": ["n1"],
        "nodesAdded": [{"name": "n2", "like": "n1"}],
        "policy": '{"actions": ["allocate"]}',
    }
    text = {"change": {"policy": "actions: [allocate]"}}
    assert (await world.admin("POST", PATH, text)).status == 200
    assert world.leader.questions[1]["change"]["policy"] == "actions: [allocate]"


async def test_what_the_cluster_would_refuse_is_refused(world: World, queues: None) -> None:
    await world.kube.create(PYTORCH, pytorch("taken"), "default")
    await world.kube.create(PODS, pod("a-1", group="a"), "default")
    lost = pytorch("lost", replicas=1)
    lost["metadata"]["namespace"] = "nowhere"
    submit = [pytorch("taken"), lost, pod_group("a"), pod("a-0", group="a"), pod("a-1", group="a"), pytorch("fine")]
    world.leader.simulation["jobs"] = [FOUND]
    found = (await world.user("POST", PATH, {"submit": submit})).body["jobs"]
    told = {job["name"]: (job["verdict"], [one["path"] for one in job["errors"]]) for job in found}
    assert told == {
        "a": ("Refused", ["submit[4].metadata.name"]),
        "taken": ("Refused", ["submit[0].metadata.name"]),
        "lost": ("Refused", ["submit[1].metadata.namespace"]),
        "fine": ("Starts", []),
    }
    codes = {job["name"]: [(one["code"], one["message"]) for one in job["reasons"]] for job in found}
    assert codes["taken"] == [("AlreadyExists", "PyTorchTrainingJob/taken exists already")]
    assert codes["lost"] == [("NotFound", "submit[1].metadata.namespace: there is no namespace 'nowhere'")]
    assert [item["object"]["metadata"]["name"] for item in world.leader.questions[0]["items"]] == ["fine"]
    assert world.kube.names() == {"PyTorchTrainingJob/taken", "Pod/a-1"}, "nothing is created"
    everything = await world.user("POST", f"{PATH}?namespace=nowhere", {"submit": [pytorch("a")]})
    assert everything.body["jobs"][0]["verdict"] == "Refused"


async def test_where_nothing_may_be_created_the_cluster_is_not_asked(world: World, queues: None) -> None:
    observed = Forbidden(403, "ObserveOnly", "nothing is written")
    world.kube.faults = lambda verb, *_: observed if verb == "dry-run" else None
    world.leader.simulation["jobs"] = [FOUND]
    found = await world.user("POST", PATH, {"submit": [pytorch("a")]})
    assert (found.status, found.body["jobs"][0]["verdict"]) == (200, "Starts")
    world.kube.faults = lambda verb, *_: ApiError(503, "", "away") if verb == "dry-run" else None
    assert (await world.user("POST", PATH, {"submit": [pytorch("a")]})).status == 503


async def test_names_that_nothing_has_are_warnings(world: World, queues: None) -> None:
    job = pytorch("a")
    job["metadata"]["annotations"] = {"scheduler.tensorstack.dev/reservation": "none"}
    world.leader.simulation["jobs"] = [FOUND]
    world.leader.vocabulary = Vocabulary(("cpu", "memory", "nvidia.com/gpu"))
    queue = {"name": "a100", "spec": {"quota": {"requests": {"nvidia.com/gpuu": 8}}}}
    found = await world.admin("POST", PATH, {"submit": [job], "change": {"queues": [queue]}})
    assert {one["path"]: re.split("[:;]", one["message"])[0] for one in found.body["warnings"]} == {
        "submit[0].metadata.annotations[scheduler.tensorstack.dev/reservation]": "there is no reservation 'none'",
        "change.queues[0].spec.quota.requests[nvidia.com/gpuu]": "no node has the resource 'nvidia.com/gpuu'",
    }


async def test_what_is_said_of_objects_needs_some(world: World, queues: None) -> None:
    asked = "namespace=ml&queue=a100&priority=1&timeLimit=2h&startAfter=2090-01-01T00:00:00Z&reservation=r"
    asked += "&after=Job/a&afterCancel=false"
    found = await world.admin("POST", f"{PATH}?{asked}", {"change": {"nodesGone": ["n1"]}})
    assert (found.status, [path.removeprefix("query.") for path in found.paths]) == (
        422,
        ["namespace", "queue", "priority", "timeLimit", "startAfter", "reservation", "after", "afterCancel"],
    )


@pytest.mark.parametrize(
    "change",
    [
        {"queues": [{"name": "theirs", "spec": {}}]},
        {"queues": [{"name": "fresh", "spec": {}}]},
        {"nodesGone": ["n1"]},
        {"nodesAdded": [{"name": "n2", "like": "n1"}]},
        {"policy": "actions: [allocate]"},
    ],
)
async def test_who_may_ask_about_changes(world: World, queues: None, change: Json) -> None:
    boss = await other(world, "boss", "manager", queues=["a100"])
    for client in (world.user, boss):
        found = await client("POST", PATH, {"change": change})
        assert (found.status, found.body["code"]) == (403, "Forbidden")
    assert world.leader.questions == []


async def test_names_of_others_are_hidden(world: World, queues: None) -> None:
    def whose(name: str, submitter: str, queue: str) -> Json:
        return {
            "job": f"default/Pod/{name}",
            "namespace": "default",
            "queue": queue,
            "submitter": submitter,
            "formerSubmitters": [],
        }

    times = {"startBefore": None, "startAfter": None, "preempted": True}
    victims = [whose("mine", "ann", "a100") | {"members": 1}, whose("secret", "bob", "theirs") | {"members": 2}]
    unknown = {"job": "default/gone", "namespace": None, "queue": "theirs", "submitter": None, "formerSubmitters": []}
    world.leader.simulation["jobs"] = [FOUND | {"preempts": victims}]
    world.leader.simulation["others"] = [whose("secret", "bob", "theirs") | times, unknown | times]
    question = {"submit": [pytorch("a", replicas=1)]}
    found = (await world.user("POST", PATH, question)).body
    assert found["jobs"][0]["preempts"] == [
        {"job": "default/Pod/mine", "queue": "a100", "members": 1},
        {"job": None, "queue": "theirs", "members": 2},
    ]
    assert found["others"] == [{"job": None, "queue": "theirs"} | times] * 2
    assert "bob" not in str(found)
    boss = await other(world, "boss", "manager", queues=["theirs"])
    seen = (await boss("POST", PATH, {"change": {"queues": [{"name": "theirs"}]}})).body
    assert [one["job"] for one in seen["others"]] == ["default/Pod/secret", "default/gone"]


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, [""]),
        ({"submit": [], "change": {}}, [""]),
        ({"submit": 3}, ["submit"]),
        ({"change": []}, ["change"]),
        ({"sumbit": []}, ["sumbit"]),
        ({"submit": [3]}, ["submit[0]"]),
        ({"submit": [{"kind": "Pod"}]}, ["submit[0].apiVersion"]),
        ({"submit": [{"kind": "Podd"}]}, ["submit[0].kind"]),
        ({"submit": [pytorch("a"), pytorch("B")]}, ["submit[1].metadata.name"]),
        ({"submit": [pytorch("a")], "horizon": "soon"}, ["horizon"]),
        ({"submit": [pytorch("a")], "horizon": 3}, ["horizon"]),
        ({"submit": [pytorch("a")], "horizon": "0"}, ["horizon"]),
        ({"submit": [pytorch("a")], "horizon": "91d"}, ["horizon"]),
        ({"change": {"nodes": []}}, ["change.nodes"]),
        ({"change": {"nodesGone": "n1"}}, ["change.nodesGone"]),
        ({"change": {"policy": 3}}, ["change.policy"]),
        ({"change": {"queues": [3]}}, ["change.queues[0]"]),
        ({"change": {"queues": [{"name": "A"}]}}, ["change.queues[0].name"]),
        ({"change": {"queues": [{"name": "a100"}, {"name": "a100"}]}}, ["change.queues[1].name"]),
        ({"change": {"queues": [{"name": "a100", "sepc": {}}]}}, ["change.queues[0].sepc"]),
        ({"change": {"queues": [{"name": "a100", "spec": {"priority": "x"}}]}}, ["change.queues[0].spec.priority"]),
        ({"change": {"queues": [{"name": "a100", "spec": 3}]}}, ["change.queues[0].spec"]),
    ],
)
async def test_bad_questions(world: World, queues: None, body: Json, paths: list[str]) -> None:
    found = await world.admin("POST", PATH, body)
    assert found.status == 422
    assert found.paths == paths
    assert world.leader.questions == []


async def test_bodies_that_are_no_mapping(world: World) -> None:
    for body in ("[]", "3", "a: b\n---\na: b"):
        found = await world.admin("POST", PATH, body)
        assert (found.status, found.body["code"]) == (400, "Malformed")


async def test_without_a_leader_there_is_no_answer(world: World, queues: None) -> None:
    world.leader.away = True
    found = await world.user("POST", PATH, {"submit": [pytorch("a", replicas=1)]})
    assert (found.status, found.body["code"]) == (503, "NotLeader")


async def test_limits_of_fields_are_told_as_faults_of_the_job(world: World, queues: None) -> None:
    await world.store.queues.create("short", {}, {"maxDuration": "1h"}, {"everyone": True})
    found = await world.user("POST", f"{PATH}?queue=short&timeLimit=2h", {"submit": [pytorch("a")]})
    assert (found.status, found.body["code"]) == (422, "InvalidField")
