"""Jobs that wait for others, at submission: what they name is there, and none waits for itself in the end."""

from typing import Any

import pytest

from t9ksched.kube.errors import ServerError
from tests.unit.api.world import Json, World, documents, pod, pytorch

WORKLOADS = "/apis/v1/workloads"
AFTER = "scheduler.tensorstack.dev/after"
CANCEL = "scheduler.tensorstack.dev/after-cancel"
AT = f"metadata.annotations[{AFTER}]"


@pytest.fixture(autouse=True)
async def queues(world: World) -> None:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})


def job(name: str, after: str = "", **meta: Any) -> Json:
    return pytorch(name, **({"annotations": {AFTER: after}} if after else {}), **meta)


def annotations(world: World, name: str) -> Json:
    (found,) = [obj for obj in world.kube.objects.values() if obj["metadata"]["name"] == name]
    return dict(found["metadata"]["annotations"])


async def test_parameters_become_annotations_and_win(world: World) -> None:
    for name in ("prep", "walk"):
        assert (await world.user("POST", WORKLOADS, job(name))).status == 201
    query = "after=pj/prep&after=pj/walk:any,po/own&afterCancel=true"
    made = await world.user("POST", f"{WORKLOADS}?{query}", documents(job("train", "Job/nope"), pod("own")))
    assert made.status == 422, "own waits for itself"
    made = await world.user("POST", f"{WORKLOADS}?{query.replace(',po/own', '')}", job("train", "Job/nope"))
    assert made.status == 201, made.body
    kept = annotations(world, "train")
    assert kept[AFTER] == "PyTorchTrainingJob/prep, PyTorchTrainingJob/walk:any"
    assert kept[CANCEL] == "true"
    assert CANCEL not in annotations(world, "prep")


@pytest.mark.parametrize(
    ("query", "path", "told"),
    [
        ("after=prep", "after", "'prep' names no job"),
        ("after=Job/a:later", "after", "write :ok"),
        ("after=nb/lab", "after", "a Notebook does not end by itself"),
        ("after=Job/gone", AT, "there is no Job/gone in the namespace 'default' that you may see"),
        ("afterCancel=perhaps", "query.afterCancel", "neither true nor false"),
        ("afterCancel=true", "afterCancel", "none waits for another"),
    ],
)
async def test_what_cannot_be_waited_for_is_refused(world: World, query: str, path: str, told: str) -> None:
    for dry in ("", "&dryRun=true"):
        refused = await world.user("POST", f"{WORKLOADS}?{query}{dry}", job("train"))
        assert (refused.status, refused.paths) == (422, [path])
        assert told in refused.body["errors"][0]["message"]
    assert not world.kube.objects


async def test_an_end_that_means_nothing_is_warned_about(world: World) -> None:
    made = await world.user("POST", WORKLOADS, job("train", annotations={CANCEL: "true"}))
    assert [one["path"] for one in made.body["warnings"]] == [f"metadata.annotations[{CANCEL}]"]
    both = job("next", annotations={CANCEL: "true", AFTER: "pj/train"})
    assert (await world.user("POST", WORKLOADS, both)).body["warnings"] == []
    assert (
        await world.user(
            "POST", f"{WORKLOADS}?afterCancel=true", both | {"metadata": both["metadata"] | {"name": "last"}}
        )
    ).status == 201


async def test_another_users_job_is_as_one_that_is_not_there(world: World) -> None:
    assert (await world.admin("POST", WORKLOADS, job("secret"))).status == 201
    texts = []
    for name in ("secret", "nowhere"):
        refused = await world.user("POST", WORKLOADS, job("train", f"pj/{name}"))
        assert (refused.status, refused.body["code"], refused.paths) == (422, "InvalidField", [AT])
        texts.append(refused.body["errors"][0]["message"].replace(name, "x"))
    assert texts[0] == texts[1]
    assert (await world.admin("POST", WORKLOADS, job("train", "pj/secret"))).status == 201


async def test_jobs_of_one_request_may_wait_for_each_other_in_any_order(world: World) -> None:
    made = await world.user("POST", WORKLOADS, documents(job("b", "pj/a"), job("a"), job("c", "pj/a:any, pj/b")))
    assert made.status == 201, made.body
    elsewhere = documents(job("d", "pj/e"), job("e", namespace="ml"))
    refused = await world.user("POST", WORKLOADS, elsewhere)
    assert refused.paths == [f"[0].{AT}"]


@pytest.mark.parametrize(
    ("waits", "told"),
    [
        ({"a": "pj/a"}, "PyTorchTrainingJob/a waits for PyTorchTrainingJob/a"),
        (
            {"a": "pj/c", "b": "pj/a", "c": "pj/b:any"},
            "PyTorchTrainingJob/a waits for PyTorchTrainingJob/c waits for PyTorchTrainingJob/b waits for"
            " PyTorchTrainingJob/a",
        ),
    ],
)
async def test_jobs_that_would_wait_for_one_another_are_refused(world: World, waits: Json, told: str) -> None:
    refused = await world.user("POST", WORKLOADS, documents(*(job(name, after) for name, after in waits.items())))
    assert (refused.status, refused.body["code"]) == (422, "InvalidField")
    assert refused.body["errors"][0]["message"] == f"PyTorchTrainingJob/a would wait for itself: {told}"
    assert not world.kube.objects


async def test_a_cluster_that_does_not_answer_is_no_refusal(world: World) -> None:
    world.kube.faults = lambda verb, res, name: ServerError(500, "Internal", "no") if name == "prep" else None
    answer = await world.user("POST", WORKLOADS, job("train", "pj/prep"))
    assert answer.status == 503
    assert not world.kube.objects


async def test_a_question_about_such_a_job_is_judged_alike(world: World) -> None:
    world.leader.simulation["jobs"] = [
        {"verdict": "Waits", "start": None, "nodes": [], "reasons": [], "preempts": []}
    ] * 2
    asked = await world.user("POST", "/apis/v1/simulate", {"submit": [job("b", "pj/a"), job("a")]})
    assert asked.status == 200, asked.body
    refused = await world.user("POST", "/apis/v1/simulate?after=pj/nope", {"submit": [job("b")]})
    assert refused.status == 422
