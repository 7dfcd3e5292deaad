"""Looking at jobs and cancelling them, with the leader there, behind, or away."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from t9ksched.store.jobs import JobRecord
from tests.unit.api.world import Client, Json, World, documents, pod, pod_group, pytorch

WORKLOADS = "/apis/v1/workloads"


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})


def live(name: str, *, uid: str | None = None, **fields: object) -> Json:
    """A job as the leader tells it."""
    known = {
        "uid": uid or name,
        "namespace": "default",
        "kind": "MPIJob",
        "name": name,
        "queue": "a100",
        "phase": "Running",
        "submitter": "ann",
    }
    return known | {"submittedAt": "2031-01-01T00:00:00Z"} | fields


def recorded(name: str, *, age: timedelta = timedelta(0), **fields: object) -> JobRecord:
    at = datetime.now(UTC) - age
    known = {"uid": name, "namespace": "default", "kind": "MPIJob", "name": name, "queue": "a100", "submitted_at": at}
    return JobRecord(**known | {"shape": live(name, phase="Pending")} | fields)


async def names(world: World, query: str = "") -> list[str]:
    return [job["name"] for job in (await world.user("GET", f"{WORKLOADS}{query}")).body["items"]]


async def test_filters(world: World) -> None:
    world.leader.job_list = [live("a"), live("b", queue="a40"), live("c", phase="Pending"), live("d", namespace="ml")]
    assert await names(world) == ["a", "b", "c", "d"]
    assert await names(world, "?queue=a40") == ["b"]
    assert await names(world, "?phase=Pending") == ["c"]
    assert await names(world, "?namespace=ml&queue=a100") == ["d"]


async def test_what_lives_is_the_leaders_word(world: World) -> None:
    """A job just accepted is listed before the leader saw it; one it does not know though it is old is gone."""
    await world.store.jobs.put_many([recorded("known"), recorded("new"), recorded("lost", age=timedelta(minutes=5))])
    await world.store.jobs.put_many([recorded("dead", deleted_at=datetime.now(UTC))])
    world.leader.job_list = [live("known", phase="Succeeded")]
    listed = (await world.user("GET", WORKLOADS)).body["items"]
    assert sorted((job["name"], job["phase"]) for job in listed) == [("known", "Succeeded"), ("new", "Pending")]
    assert sorted(await names(world, "?deleted=true")) == ["dead", "known", "new"]


async def test_a_job_that_is_gone_holds_nothing_and_has_an_end(world: World) -> None:
    counts = {"min": 1, "total": 1, "bound": 1, "running": 1, "succeeded": 0, "failed": 0}
    record = recorded("dead", deleted_at=datetime(2031, 5, 1, tzinfo=UTC))
    await world.store.jobs.put_many([replace(record, shape=record.shape | {"members": counts, "finishedAt": None})])
    (job,) = (await world.user("GET", f"{WORKLOADS}?deleted=true")).body["items"]
    assert (job["members"]["bound"], job["members"]["running"]) == (0, 0)
    assert job["finishedAt"] == job["deletedAt"] == "2031-05-01T00:00:00Z"


async def test_without_a_leader_lists_come_from_the_record(world: World) -> None:
    await world.store.jobs.put_many([recorded("old", age=timedelta(hours=1), phase="Running")])
    world.leader.away = True
    found = await world.user("GET", WORKLOADS)
    assert [(job["name"], job["phase"]) for job in found.body["items"]] == [("old", "Running")]
    assert found.headers["T9ksched-Leader-Age"] == "0"


@pytest.mark.parametrize("kind", ["PyTorchTrainingJob", "pytorchtrainingjob", "pytorchtrainingjobs"])
@pytest.mark.parametrize("away", [False, True])
async def test_one_job_from_its_object(world: World, kind: str, away: bool) -> None:
    await world.user("POST", WORKLOADS, pytorch())
    world.leader.away = away
    found = await world.user("GET", f"{WORKLOADS}/default/{kind}/resnet")
    assert (found.status, found.body["name"], found.body["submitter"], found.body["phase"]) == (
        200,
        "resnet",
        "ann",
        "Pending",
    )
    assert ("T9ksched-Leader-Age" in found.headers) is away


async def test_one_job_from_the_leader(world: World) -> None:
    world.leader.job_list = [live("walk", position=3)]
    assert (await world.user("GET", f"{WORKLOADS}/default/mpijob/walk")).body["position"] == 3


@pytest.mark.parametrize(
    ("path", "code"),
    [("default/mpijob/nope", "NotFound"), ("default/unicorn/x", "UnknownKind"), ("nowhere/pod/x", "NotFound")],
)
@pytest.mark.parametrize("suffix", ["", "/explanation", "/history"])
async def test_unknown_jobs(world: World, path: str, code: str, suffix: str) -> None:
    found = await world.user("GET", f"{WORKLOADS}/{path}{suffix}")
    assert (found.status, found.body["code"]) == (404, code)


async def test_explanations(world: World) -> None:
    world.leader.explanations["default/MPIJob/walk"] = {
        "job": live("walk"),
        "verdict": "Waiting",
        "reasons": [{"code": "Behind"}],
    }
    for kind in ("mpijob", "mj"):
        told = await world.user("GET", f"{WORKLOADS}/default/{kind}/walk/explanation")
        assert told.body["reasons"] == [{"code": "Behind"}]
    await world.user("POST", WORKLOADS, pod("foreign", ours=False))
    foreign = await world.user("GET", f"{WORKLOADS}/default/pod/foreign/explanation")
    assert (foreign.body["verdict"], "default-scheduler" in foreign.body["reasons"][0]["message"]) == ("Waiting", True)
    await world.user("POST", WORKLOADS, pytorch())
    unseen = await world.user("GET", f"{WORKLOADS}/default/pytorchtrainingjob/resnet/explanation")
    assert "has not seen it yet" in unseen.body["reasons"][0]["message"]
    world.leader.away = True
    away = await world.user("GET", f"{WORKLOADS}/default/mpijob/walk/explanation")
    assert (away.status, away.body["code"]) == (503, "NotLeader")


async def test_a_faulty_object_made_past_us_is_still_shown(world: World) -> None:
    await world.user("POST", WORKLOADS, pytorch())
    (obj,) = world.kube.objects.values()
    obj["spec"] = {"replicaSpecs": "nonsense"}
    found = await world.user("GET", f"{WORKLOADS}/default/pytorchtrainingjob/resnet")
    assert (found.status, found.body["name"], found.body["gpus"]) == (200, "resnet", 0)


async def test_cancel(world: World) -> None:
    uid = (await world.user("POST", WORKLOADS, pytorch())).job["uid"]
    gone = await world.user("DELETE", f"{WORKLOADS}/default/pytorchtrainingjob/resnet")
    assert (gone.status, gone.body["uid"]) == (200, uid)
    assert world.kube.objects == {}
    assert [event.event for event in await world.store.history.list(uid=uid)] == [
        "submitted",
        "accepted",
        "job-cancelled",
    ]
    address = f"{WORKLOADS}/default/pytorchtrainingjob/resnet/history"
    told = (await world.user("GET", address)).body["items"]
    assert [(one["event"], one["actor"]) for one in told] == [
        (e, "ann") for e in ("submitted", "accepted", "job-cancelled")
    ]
    assert (await world.user("GET", f"{address}?after={told[0]['id']}&limit=1")).body["items"] == [told[1]]
    again = await world.user("DELETE", f"{WORKLOADS}/default/pytorchtrainingjob/resnet")
    assert (again.status, again.body["code"]) == (404, "NotFound")


async def test_cancelling_a_group_takes_its_own_pods_along(world: World) -> None:
    text = documents(pod_group("g"), pod("p-0", group="g"), pod("p-1", group="g"), pod("other", group="h"))
    await world.user("POST", WORKLOADS, text)
    assert (await world.user("DELETE", f"{WORKLOADS}/default/podgroup/g")).status == 200
    assert world.kube.names() == {"Pod/other"}


async def test_a_user_cancels_only_own_submissions(world: World) -> None:
    await world.admin("POST", WORKLOADS, pytorch())
    refused = await world.user("DELETE", f"{WORKLOADS}/default/pytorchtrainingjob/resnet")
    assert (refused.status, refused.body["code"]) == (404, "NotFound"), "that it exists is not shown"
    assert len(world.kube.objects) == 1
    assert (await world.admin("DELETE", f"{WORKLOADS}/default/pytorchtrainingjob/resnet")).status == 200


async def test_who_submitted_it_sees_it_before_the_leader_knows_whose_it_is(world: World) -> None:
    """The scheduler may see an object before it reads in the database who submitted it."""
    made = (await world.user("POST", WORKLOADS, pytorch())).job
    world.leader.job_list = [made | {"submitter": None}]
    address = f"{WORKLOADS}/default/PyTorchTrainingJob/resnet"
    world.leader.explanations["default/PyTorchTrainingJob/resnet"] = {"job": world.leader.job_list[0], "holders": []}
    other = Client(world.user.url, world.user.session, await world.store.tokens.create("bob"))
    for part in ("", "/explanation"):
        assert (await world.user("GET", address + part)).status == 200
        assert (await other("GET", address + part)).status == 404
