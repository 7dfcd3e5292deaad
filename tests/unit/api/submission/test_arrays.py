"""Arrays at submission: one object becomes many jobs, all or none."""

from typing import Any

import pytest

from t9ksched.kube.errors import Unprocessable
from tests.unit.api.world import Json, World, documents, pod, pod_group, pytorch

WORKLOADS = "/apis/v1/workloads"
ARRAY = "scheduler.tensorstack.dev/array"


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})


def index(obj: Json) -> str:
    (container,) = obj["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}["T9K_ARRAY_INDEX"]


async def test_an_object_for_each_index(world: World) -> None:
    made = await world.user("POST", f"{WORKLOADS}?array=1,3-7:2%252", pytorch("sweep"))
    assert made.status == 201, made.body
    assert [job["name"] for job in made.body["items"]] == ["sweep-1", "sweep-3", "sweep-5", "sweep-7"]
    objects = {obj["metadata"]["name"]: obj for obj in world.kube.objects.values()}
    assert {name: index(obj) for name, obj in objects.items()} == {f"sweep-{at}": str(at) for at in (1, 3, 5, 7)}
    assert objects["sweep-3"]["metadata"]["annotations"][ARRAY] == "sweep[3]%2"
    assert {job["labels"][ARRAY] for job in made.body["items"]} == {"sweep"}
    assert len(await world.store.acceptances.all()) == 4
    listed = await world.store.jobs.elements("default", "PyTorchTrainingJob", "sweep")
    assert sorted(row.name for row in listed) == [job["name"] for job in made.body["items"]]
    tried = [call for call in world.kube.calls if call[0] == "dry-run"]
    assert [name for _, _, name in tried] == ["sweep-1"], "the others differ in their numbers only"


async def test_the_name_may_be_generated_and_a_repeat_makes_the_same(world: World) -> None:
    job = pytorch()
    job["metadata"] = {"generateName": "sweep-"}
    first = await world.user("POST", f"{WORKLOADS}?array=0-2", job, Idempotency_Key="k")
    assert first.status == 201, first.body
    names = [one["name"] for one in first.body["items"]]
    stem = names[0].removesuffix("-0")
    assert names == [f"{stem}-{at}" for at in range(3)]
    again = await world.user("POST", f"{WORKLOADS}?array=0-2", job, Idempotency_Key="k")
    assert again.body == first.body
    other = await world.user("POST", f"{WORKLOADS}?array=0-3", job, Idempotency_Key="k")
    assert other.status == 422


@pytest.mark.parametrize(
    ("array", "told"),
    [
        ("0-999999", "has 1000000 elements, and an array has 1000 at most"),
        ("", "'' is no array"),
        ("9-1", "ends before it begins"),
        ("0-9%250", "is no number of 1 or more"),
    ],
)
async def test_what_is_no_array_or_too_large_is_refused(world: World, array: str, told: str) -> None:
    refused = await world.user("POST", f"{WORKLOADS}?array={array}", pytorch())
    assert (refused.status, refused.body["code"], refused.paths) == (422, "InvalidField", ["array"])
    assert told in refused.body["errors"][0]["message"]
    assert not world.kube.objects


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (documents(pytorch("a"), pytorch("b")), "is made of one object, and the request has 2"),
        (pod_group("a"), "not of a PodGroup"),
        (pod("a", ours=False), "names no queue: name one"),
        (pytorch("a.b"), "is no name of an array"),
    ],
)
async def test_of_what_there_is_no_array(world: World, body: Any, told: str) -> None:
    refused = await world.user("POST", f"{WORKLOADS}?array=0-1", body)
    assert (refused.status, refused.paths) == (422, ["array"])
    assert told in refused.body["errors"][0]["message"]
    assert not world.kube.objects


async def test_faults_of_the_object_are_told_once_as_without_an_array(world: World) -> None:
    for change in ({"metadata": {}}, {"spec": {"replicaSpecs": []}}, {"kind": "Nonsense"}, {"kind": 5}):
        body = pytorch("sweep") | change
        alone = await world.user("POST", WORKLOADS, body)
        array = await world.user("POST", f"{WORKLOADS}?array=0-99", body)
        assert (array.status, array.paths) == (alone.status, alone.paths), change
    name = "a" * 62
    assert (await world.user("POST", f"{WORKLOADS}?array=0", pytorch(name))).status in (201, 422)


async def test_one_that_the_cluster_refuses_leaves_none(world: World) -> None:
    world.kube.faults = lambda verb, res, name: (
        Unprocessable(422, "Invalid", "no") if (verb, name) == ("create", "sweep-2") else None
    )
    refused = await world.user("POST", f"{WORKLOADS}?array=0-3", pytorch("sweep"))
    assert refused.status == 422
    assert not world.kube.objects
    assert await world.store.jobs.list() == []


async def test_a_dry_run_creates_nothing(world: World) -> None:
    tried = await world.user("POST", f"{WORKLOADS}?array=0-3&dryRun=true", pytorch("sweep"))
    assert (tried.status, len(tried.body["items"])) == (200, 4)
    assert not world.kube.objects


async def test_an_array_may_be_waited_for_by_those_who_may_see_it(world: World) -> None:
    assert (await world.admin("POST", f"{WORKLOADS}?array=0-1", pytorch("sweep"))).status == 201
    refused = await world.user("POST", f"{WORKLOADS}?after=pj/sweep", pytorch("report"))
    assert "there is no PyTorchTrainingJob/sweep" in refused.body["errors"][0]["message"]
    assert (await world.user("POST", f"{WORKLOADS}?array=2-3", pytorch("sweep"))).status == 201
    assert (await world.user("POST", f"{WORKLOADS}?after=pj/sweep", pytorch("report"))).status == 201


async def test_an_annotation_by_hand_is_read(world: World) -> None:
    refused = await world.user("POST", WORKLOADS, pytorch("a", annotations={ARRAY: "Sweep%0"}))
    assert refused.paths == [f"metadata.annotations[{ARRAY}]"]
    assert (await world.user("POST", WORKLOADS, pytorch("a", annotations={ARRAY: "sweep%4"}))).status == 201
