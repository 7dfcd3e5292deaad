"""WorkflowRuns on a cluster, their controller played here: pods of their steps are placed and listed as theirs."""

from typing import Any

import pytest

from t9ksched.kube.errors import ApiError
from t9ksched.kube.resources import JOBS
from t9ksched.workloads.registry import KINDS
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_dependencies import batch_job, done, waits
from tests.integration.scheduler.test_endings import RUN, ask, shown
from tests.integration.world import World

Object = dict[str, Any]
RUNS = KINDS["WorkflowRun"].resource


def below(owner: Object) -> list[Object]:
    reference = {"apiVersion": RUNS.api_version, "kind": "WorkflowRun", "controller": True}
    return [reference | {key: owner["metadata"][key] for key in ("name", "uid")}]


async def test_steps_are_placed_and_only_its_controller_ends_the_run(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    block = {"t9kScheduler": {"queue": queue, "priority": 7}}
    run: Object = {
        "apiVersion": RUNS.api_version,
        "kind": "WorkflowRun",
        "metadata": {"name": "night", "namespace": world.namespace},
        "spec": {"scheduler": block, "workflowTemplateRef": "t"},
    }
    async with start() as service:
        made = await world.client.create(RUNS, run)
        await world.create(batch_job(world, "later", queue, "WorkflowRun/night"))
        await shown(service, world, "Job/later", waits)
        told = await ask(service, world, "WorkflowRun/night/explanation")
        assert (told["verdict"], told["reasons"][0]["code"]) == ("Waiting", "GangIncomplete")
        step = world.pod("step", 1, queue=queue, annotations={RUN: "0.2"}, restartPolicy="Never")
        step["metadata"]["ownerReferences"] = below(made)
        await world.create(step)
        found = await shown(service, world, "WorkflowRun/night", lambda job: job["members"]["succeeded"] == 1)
        assert (found["phase"], found["priority"], found["queue"]) == ("Pending", 7, queue)
        assert waits(await ask(service, world, "Job/later")), "a step that ended does not end the run"
        with pytest.raises(ApiError, match="a run keeps its queue: delete it and submit it again"):
            await world.client.patch(
                RUNS, "night", world.namespace, {"spec": {"scheduler": {"t9kScheduler": {"queue": "x"}}}}
            )
        ends = {"type": "Completed", "status": "True", "lastTransitionTime": made["metadata"]["creationTimestamp"]}
        status = {"status": {"phase": "Succeeded", "conditions": [ends]}}
        await world.client.patch(RUNS, "night", world.namespace, status, subresource="status")
        await world.until(JOBS, "later", done)
        assert (await ask(service, world, "WorkflowRun/night"))["phase"] == "Succeeded"
        now = await world.client.get(RUNS, "night", world.namespace)
        assert (now["spec"], now["metadata"].get("annotations")) == (made["spec"], None), "it is never written"
