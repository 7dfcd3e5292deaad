"""Results of trials by REST: with the trial's own token, while the trial goes on, and nothing else."""

from typing import Any

import pytest

from t9ksched.workloads.keypair import TOKEN_ANNOTATION, digest_of
from t9ksched.workloads.tuning.trials import RESULTS_ANNOTATION, Results
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.api.world import Client, Json, World, pytorch

TOKEN = "t9kt_" + "a" * 43
ADDRESS = "/apis/v1/workloads/default/{kind}/{name}/results"


async def trial(world: World, name: str = "hpo-0", token: str = TOKEN, **status: Any) -> Json:
    """The job of a trial with that token."""
    job = pytorch(name, namespace="default")
    job["metadata"]["annotations"] = {TOKEN_ANNOTATION: digest_of(token)}
    return await world.kube.create(PYTORCHTRAININGJOBS, {**job, "status": status}, "default")


def sends(world: World, token: str | None = TOKEN) -> Client:
    return Client(world.admin.url, world.admin.session, token)


async def kept(world: World, name: str = "hpo-0") -> Results:
    return Results.of(await world.kube.get(PYTORCHTRAININGJOBS, name, "default"))


async def test_results_are_kept_with_the_job(world: World) -> None:
    await trial(world, phase="Running")
    address = ADDRESS.format(kind="pytorchtrainingjob", name="hpo-0")
    send = sends(world)
    for body in ({"step": 1, "value": 0.5}, {"step": 3, "value": 0.25}, {"step": 1, "value": 2}):
        assert (await send("POST", address, body)).status == 200
    done = await send("POST", address, {"value": 0.125})
    assert (done.status, done.body) == (200, {"steps": 2, "final": 0.125})
    assert await kept(world) == Results(((1, 2.0), (3, 0.25)), 0.125)


@pytest.mark.parametrize(
    ("name", "kind", "token"),
    [
        ("hpo-0", "pytorchtrainingjob", "t9kt_" + "b" * 43),
        ("hpo-1", "pytorchtrainingjob", TOKEN),
        ("none", "pytorchtrainingjob", TOKEN),
        ("hpo-0", "tensorflowtrainingjob", TOKEN),
        ("hpo-0", "pod", TOKEN),
        ("hpo-0", "nothing", TOKEN),
        ("hpo-0", "pytorchtrainingjob", digest_of(TOKEN)),
        ("plain", "pytorchtrainingjob", TOKEN),
        ("ended", "pytorchtrainingjob", TOKEN),
    ],
)
async def test_a_token_is_good_for_its_trial_alone_and_as_long_as_that(
    world: World, name: str, kind: str, token: str
) -> None:
    await trial(world)
    await trial(world, "hpo-1", "t9kt_other")
    await trial(world, "ended", phase="Succeeded")
    await world.kube.create(PYTORCHTRAININGJOBS, pytorch("plain", namespace="default"), "default")
    answer = await sends(world, token)("POST", ADDRESS.format(kind=kind, name=name), {"value": 1})
    assert (answer.status, answer.body["code"]) == (401, "Unauthenticated")
    assert "is not that of a trial" in answer.body["detail"]
    assert [await kept(world, one) for one in ("hpo-0", "hpo-1", "ended")] == [Results()] * 3


async def test_the_token_opens_no_other_address(world: World) -> None:
    await trial(world)
    job = "/apis/v1/workloads/default/pytorchtrainingjob/hpo-0"
    for method, path in (("GET", job), ("DELETE", job), ("GET", "/apis/v1/whoami"), ("POST", f"{job}/actions/pause")):
        assert (await sends(world)(method, path)).status == 401


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "value"),
        ({"value": "0.5"}, "value"),
        ({"value": True}, "value"),
        ({"value": 1, "step": -1}, "step"),
        ({"value": 1, "step": 0.5}, "step"),
        ({"value": 1, "uid": "x"}, "uid"),
    ],
)
async def test_what_is_no_result_is_refused(world: World, body: Json, path: str) -> None:
    await trial(world)
    answer = await sends(world)("POST", ADDRESS.format(kind="pytorchtrainingjob", name="hpo-0"), body)
    assert (answer.status, [fault["path"] for fault in answer.body["errors"]]) == (422, [path])


async def test_there_is_a_most_of_intermediate_results(world: World) -> None:
    await trial(world)
    full = Results(tuple((step, 0.5) for step in range(1000)))
    note = {"metadata": {"annotations": {RESULTS_ANNOTATION: full.written()}}}
    await world.kube.patch(PYTORCHTRAININGJOBS, "hpo-0", "default", note)
    address = ADDRESS.format(kind="pytorchtrainingjob", name="hpo-0")
    assert (await sends(world)("POST", address, {"value": 1, "step": 1000})).status == 422
    assert (await sends(world)("POST", address, {"value": 1, "step": 999})).status == 200
    assert (await sends(world)("POST", address, {"value": 1})).status == 200
