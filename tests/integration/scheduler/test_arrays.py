"""Job arrays on a cluster: how many elements run at once, also across a restart, and who waits for the whole."""

from collections import Counter
from typing import Any

from t9ksched.kube.resources import JOBS, PODS
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_dependencies import batch_job, done
from tests.integration.scheduler.test_endings import shown
from tests.integration.world import World

Object = dict[str, Any]


def element(world: World, at: int, queue: str, most: int, run: str = "1") -> Object:
    job = batch_job(world, f"sweep-{at}", queue, run=run, **{names.ARRAY_ANNOTATION: f"sweep[{at}]%{most}"})
    job["metadata"]["labels"] = {names.ARRAY_LABEL: "sweep"}
    return job


async def most_at_once(world: World, last: str) -> int:
    """How many pods had a node at once and had not ended, until that Job is complete."""
    most = 0
    there: dict[str, str] = {}
    listed = await world.client.list(PODS, world.namespace)
    async for event in world.client.watch(PODS, world.namespace, resource_version=listed.resource_version, timeout=60):
        pod = event.object
        if event.type == "BOOKMARK":
            continue
        runs = bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") in ("Pending", "Running")
        there[pod["metadata"]["name"]] = "runs" if runs and event.type != "DELETED" else "no"
        most = max(most, Counter(there.values())["runs"])
        if done(await world.client.get(JOBS, last, world.namespace)):
            break
    return most


async def limited(service: SchedulerService, world: World, name: str) -> str:
    told = await shown(service, world, f"Job/{name}", lambda job: (job["reason"] or {}).get("code") == "ArrayLimit")
    return str(told["reason"]["message"])


async def test_no_more_elements_run_at_once_than_the_array_says(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(*(element(world, at, queue, 2) for at in range(5)), batch_job(world, "beside", queue))
        await world.create(batch_job(world, "report", queue, "Job/sweep"))
        assert (await limited(service, world, "sweep-4")).startswith("at most 2 elements of its array 'sweep' run at")
        await world.until(JOBS, "beside", done)
        most = await most_at_once(world, "report")
    for at in range(5):
        assert done(await world.client.get(JOBS, f"sweep-{at}", world.namespace))
    assert most == 2


async def test_a_restart_counts_what_runs(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(*(element(world, at, queue, 2, run="600") for at in range(3)))
        await limited(service, world, "sweep-2")
        for first in ("sweep-0", "sweep-1"):  # which have their places, and may not be bound yet
            await shown(service, world, f"Job/{first}", lambda job: job["phase"] == "Running")
        bound = await world.bound()
        assert len(bound) == 2
    async with start() as service:
        assert (await limited(service, world, "sweep-2")).endswith("run at once, and as many run or come first")
        assert await world.bound() == bound
        patch = {"metadata": {"annotations": {names.ARRAY_ANNOTATION: "sweep[2]%3"}}}
        await world.client.patch(JOBS, "sweep-2", world.namespace, patch)
        (last,) = [
            pod["metadata"]["name"]
            for pod in (await world.client.list(PODS, world.namespace)).items
            if pod["metadata"]["name"] not in bound
        ]
        await world.running(last)
