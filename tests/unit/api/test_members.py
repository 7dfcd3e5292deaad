"""Who may use a queue, asked through the doors: members, submission, access reviews, queue life."""

import pytest

from tests.unit.api.world import Client, World, pytorch

QUEUES, JOBS = "/apis/v1/admin/queues", "/apis/v1/workloads"
REVIEWS = "/apis/v1/access-reviews"
NOBODY = {"everyone": False, "users": [], "groups": [], "maxPriority": None}


@pytest.fixture(autouse=True)
async def queue(world: World) -> None:
    await world.admin("POST", QUEUES, {"name": "a100"})


async def test_a_new_queue_is_for_administrators_only(world: World) -> None:
    assert (await world.admin("GET", f"{QUEUES}/a100/members")).body == NOBODY
    refused = await world.user("POST", JOBS, pytorch())
    assert (refused.status, refused.body["code"]) == (403, "QueueNotPermitted")
    assert refused.paths == ["spec.scheduler.t9kScheduler.queue"]
    assert refused.body["remedy"]
    assert world.kube.objects == {}
    assert (await world.admin("POST", JOBS, pytorch())).status == 201


async def test_members_come_and_go(world: World) -> None:
    before = await world.admin("GET", f"{QUEUES}/a100/members")
    put = await world.admin("PUT", f"{QUEUES}/a100/members", {"users": ["ann"]}, If_Match=before.headers["ETag"])
    assert put.body == NOBODY | {"users": ["ann"]}
    stale = await world.admin("PUT", f"{QUEUES}/a100/members", {}, If_Match=before.headers["ETag"])
    assert (stale.status, stale.body["code"]) == (412, "PreconditionFailed")
    made = await world.user("POST", JOBS, pytorch())
    assert made.status == 201
    accepted = await world.store.acceptances.get(made.job["uid"])
    assert accepted is not None
    assert (accepted.submitter, accepted.permitted_by, accepted.groups) == ("ann", "user:ann", [])
    await world.admin("PUT", f"{QUEUES}/a100/members", {})
    assert (await world.user("POST", JOBS, pytorch("late"))).status == 403
    assert (await world.admin("PUT", f"{QUEUES}/nope/members", {})).body["code"] == "QueueNotFound"


async def test_members_travel_with_creation_and_change(world: World) -> None:
    made = await world.admin("POST", QUEUES, {"name": "q", "members": {"groups": ["ml"], "maxPriority": 5}})
    assert made.body["members"] == NOBODY | {"groups": ["ml"], "maxPriority": 5}
    kept = await world.admin("PATCH", f"{QUEUES}/q", {"spec": {"priority": 1}})
    assert kept.body["members"] == made.body["members"]
    changed = await world.admin("PATCH", f"{QUEUES}/q", {"members": {"everyone": True}})
    assert changed.body["members"] == NOBODY | {"everyone": True}
    refused = await world.admin("PATCH", f"{QUEUES}/q", {"members": {"everyone": "yes"}})
    assert (refused.status, refused.paths) == (422, ["members.everyone"])


@pytest.mark.parametrize(("priority", "status"), [(10, 201), (11, 422)])
async def test_priority_above_the_maximum(world: World, priority: int, status: int) -> None:
    await world.admin("PUT", f"{QUEUES}/a100/members", {"users": ["ann"], "maxPriority": 10})
    job = pytorch()
    job["spec"]["scheduler"]["t9kScheduler"]["priority"] = priority
    answer = await world.user("POST", JOBS, job)
    assert answer.status == status
    if status == 422:
        assert answer.body["code"] == "PriorityAboveMaximum"
        assert answer.paths == ["spec.scheduler.t9kScheduler.priority"]
        by_query = await world.user("POST", f"{JOBS}?priority=50", pytorch())
        assert by_query.paths == ["priority"]


async def test_a_group_from_the_token(world: World) -> None:
    await world.admin("PUT", f"{QUEUES}/a100/members", {"groups": ["ml"]})
    body = {"name": "bob", "groups": ["ml", "ops"]}
    bob = Client(
        world.user.url, world.user.session, (await world.admin("POST", "/apis/v1/admin/tokens", body)).body["token"]
    )
    made = await bob("POST", JOBS, pytorch())
    assert made.status == 201
    accepted = await world.store.acceptances.get(made.job["uid"])
    assert accepted is not None
    assert (accepted.permitted_by, accepted.groups) == ("group:ml", ["ml", "ops"])
    assert (await world.user("POST", JOBS, pytorch("x"))).status == 403


async def test_a_namespace_that_the_selector_matches(world: World) -> None:
    selector = {"matchLabels": {"team": "ml"}}
    await world.admin("PATCH", f"{QUEUES}/a100", {"spec": {"namespaceSelector": selector}})
    world.kube.namespace_meta["ml"] = {"labels": {"team": "ml"}}
    assert (await world.user("POST", f"{JOBS}?namespace=ml", pytorch())).status == 201
    assert (await world.user("POST", f"{JOBS}?namespace=default", pytorch())).status == 403
    assert [one["name"] for one in (await world.user("GET", "/apis/v1/queues")).body["items"]] == ["default"]
    shown = (await world.user("GET", "/apis/v1/queues?namespace=ml")).body["items"]
    assert [(one["name"], one["access"]["rule"]) for one in shown] == [
        ("a100", "namespaceSelector"),
        ("default", "everyone"),
    ]


async def test_the_namespaces_owner_is_permitted(world: World) -> None:
    await world.admin("PUT", f"{QUEUES}/a100/members", {"users": ["eve"]})
    world.kube.namespace_meta["ml"] = {"annotations": {"tensorstack.dev/owner": "eve"}}
    assert (await world.user("POST", f"{JOBS}?namespace=ml", pytorch())).status == 201
    assert (await world.user("POST", f"{JOBS}?namespace=default", pytorch())).status == 403


async def test_no_answer_of_the_cluster_gives_no_right(world: World) -> None:
    from t9ksched.kube.errors import Unreachable
    from t9ksched.kube.resources import NAMESPACES

    await world.admin("PATCH", f"{QUEUES}/a100", {"spec": {"namespaceSelector": {"matchLabels": {"team": "ml"}}}})
    world.kube.namespace_meta["ml"] = {"labels": {"team": "ml"}}
    world.kube.faults = lambda verb, res, name: Unreachable("away") if res == NAMESPACES else None
    assert (await world.user("POST", f"{JOBS}?namespace=ml", pytorch())).status == 403


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ({"queue": "default"}, 200, {"allowed": True, "rule": "everyone", "user": "ann", "maxPriority": 100}),
        ({"queue": "a100"}, 200, {"allowed": False, "rule": None, "code": "QueueNotPermitted", "maxPriority": None}),
        ({"queue": "nope"}, 404, {"code": "QueueNotFound"}),
        ({"queue": "a100", "user": "bob"}, 403, {"code": "Forbidden"}),
        ({"queue": "a100", "groups": ["ml"]}, 403, {"code": "Forbidden"}),
        ({}, 422, {"code": "InvalidField"}),
        ({"queue": "a100", "priority": "high"}, 422, {"code": "InvalidField"}),
        ({"queue": "a100", "groups": [3]}, 422, {"code": "InvalidField"}),
    ],
)
async def test_reviews(world: World, body: dict[str, object], status: int, expected: dict[str, object]) -> None:
    answer = await world.user("POST", REVIEWS, body)
    assert (answer.status, {key: answer.body[key] for key in expected}) == (status, expected)


async def test_reviews_of_others_by_a_manager(world: World) -> None:
    await world.admin("PUT", f"{QUEUES}/a100/members", {"groups": ["ml"], "maxPriority": 3})
    await world.store.tokens.create("bob", groups=["ml"])

    async def ask(**body: object) -> tuple[bool, object, object]:
        told = (await world.admin("POST", REVIEWS, {"queue": "a100", **body})).body
        return told["allowed"], told["rule"], told["code"]

    assert await ask(user="bob") == (True, "group:ml", None)
    assert await ask(user="eve") == (False, None, "QueueNotPermitted")
    assert await ask(user="eve", groups=["ml"], priority=3) == (True, "group:ml", None)
    assert await ask(user="eve", groups=["ml"], priority=4) == (False, "group:ml", "PriorityAboveMaximum")
    assert await ask() == (True, "administrator", None)


async def test_free_and_excess_of_a_quota(world: World) -> None:
    await world.admin("PATCH", f"{QUEUES}/a100", {"spec": {"quota": {"requests": {"cpu": "8", "nvidia.com/gpu": 4}}}})
    world.leader.queue_status["a100"] = {"allocated": {"cpu": "1500m", "nvidia.com/gpu": "6"}}
    status = (await world.admin("GET", f"{QUEUES}/a100")).body["status"]
    assert (status["free"], status["excess"]) == ({"cpu": "6500m", "nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "2"})


async def test_drain_names_what_never_ends(world: World) -> None:
    about = {"namespace": "ml", "queue": "a100", "phase": "Running"}
    world.leader.job_list = [
        about | {"kind": "ReplicaSet", "name": "web-1", "root": "Deployment/web"},
        about | {"kind": "ReplicaSet", "name": "web-2", "root": "Deployment/web"},
        about | {"kind": "Notebook", "name": "lab"},
        about | {"kind": "MPIJob", "name": "walk"},
        about | {"kind": "Notebook", "name": "stopped", "phase": "Succeeded"},
        about | {"kind": "Notebook", "name": "elsewhere", "queue": "a40"},
    ]
    drained = (await world.admin("POST", f"{QUEUES}/a100/actions/drain")).body
    assert [one["path"] for one in drained["warnings"]] == ["ml/Deployment/web", "ml/Notebook/lab"]
    assert "never ends by itself" in drained["warnings"][0]["message"]


async def test_drain_and_open(world: World) -> None:
    drained = (await world.admin("POST", f"{QUEUES}/a100/actions/drain")).body
    assert (drained["spec"]["closed"], drained["draining"]) == (True, True)
    assert (await world.admin("POST", JOBS, pytorch())).body["code"] == "QueueClosed"
    opened = (await world.admin("POST", f"{QUEUES}/a100/actions/open")).body
    assert ("closed" in opened["spec"], opened["draining"]) == (False, False)


@pytest.mark.parametrize("away", [False, True])
async def test_a_queue_in_use_is_deleted_only_when_told_what_becomes_of_its_jobs(world: World, away: bool) -> None:
    made = (await world.admin("POST", JOBS, pytorch())).job
    world.leader.job_list = [made, made | {"name": "done", "phase": "Succeeded"}, made | {"queue": "default"}]
    world.leader.away = away
    refused = await world.admin("DELETE", f"{QUEUES}/a100")
    assert (refused.status, "1 unfinished job" in refused.body["detail"]) == (409, True)
    assert (await world.admin("DELETE", f"{QUEUES}/a100?jobs=maybe")).status == 422
    assert (await world.admin("DELETE", f"{QUEUES}/a100?jobs=cancel")).status == 204
    assert world.kube.objects == {}
    assert await world.store.queues.get("a100") is None


async def test_a_queue_deleted_under_its_jobs(world: World) -> None:
    world.leader.job_list = [(await world.admin("POST", JOBS, pytorch())).job]
    assert (await world.admin("DELETE", f"{QUEUES}/a100?jobs=keep")).status == 204
    assert len(world.kube.objects) == 1
