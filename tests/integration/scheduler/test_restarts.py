"""A job that restarts says how its members ended and when they are back, to `jobs` and to `explain` alike."""

from typing import Any

import pytest

from t9ksched.kube.resources import JOBS
from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_endings import EXIT, RUN, ask, failing, shown
from tests.integration.scheduler.test_endings import controllers as controllers
from tests.integration.world import World
from tests.unit.workloads.builders import pytorch


def told(job: dict[str, Any]) -> str:
    """Why it waits, where its restarts are the reason."""
    reason = job["reason"] or {"message": ""}
    return str(reason["message"]) if job["phase"] == "Pending" and "restart" in reason["message"] else ""


@pytest.mark.cluster
async def test_a_training_job(world: World, start: Start, queue: str, controllers: None) -> None:
    await world.play(1, 8)
    job = pytorch(replicas=2, gpu=1, restart="OnFailure", runPolicy={"backoffLimit": 20})
    async with start() as service:
        await world.create(failing(job, world, queue, 3))
        again = await shown(service, world, "PyTorchTrainingJob/net", lambda job: "doubles" in told(job))
        explained = await ask(service, world, "PyTorchTrainingJob/net/explanation")
    assert "ended with exit code 3" in told(again)
    assert "restarts used of 20" in told(again)
    assert explained["verdict"] in ("Waiting", "Placed")


@pytest.mark.cluster
async def test_a_batch_job(world: World, start: Start, queue: str) -> None:
    """Its controller keeps the pods that failed, and pauses: it has not failed before it says so."""
    await world.play(1, 8)
    meta = {"labels": {names.QUEUE_LABEL: queue}, "annotations": {RUN: "0.2", EXIT: "3"}}
    spec = world.pod("x", 1)["spec"] | {"restartPolicy": "Never"}
    body = {"template": {"metadata": meta, "spec": spec}, "backoffLimit": 20}
    async with start() as service:
        await world.client.create(
            JOBS,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "j", "namespace": world.namespace},
                "spec": body,
            },
            world.namespace,
        )
        again = await shown(service, world, "Job/j", lambda job: job["phase"] == "Failed" or told(job))
        assert again["phase"] == "Pending", again
        assert "of 20" in told(again)
