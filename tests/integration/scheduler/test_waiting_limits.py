"""Jobs made past REST count against the limits on waiting jobs, and wait outside their queue beyond them."""

import asyncio
from typing import Any

from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.scheduler.state.waitinglimits import WaitingLimits
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_endings import ask
from tests.integration.world import World


async def explained(service: Any, world: World, name: str) -> tuple[str, Any]:
    """Verdict and reasons of a pod."""
    found = await ask(service, world, f"Pod/{name}/explanation")
    return found["verdict"], [(reason["code"], reason["message"]) for reason in found["reasons"]]


async def written(store: Store, name: str) -> None:
    """Wait until the acceptance of a job is in SQL."""
    async with asyncio.timeout(90):
        while name not in {one.name for one in await store.acceptances.all()}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_what_is_beyond_the_limit_of_its_queue_waits_until_another_starts(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start(waiting=WaitingLimits(None, 1)) as service:
        await world.create(world.pod("runs", 2, queue=queue))
        await world.running("runs")
        for name in ("first", "second"):
            await world.create(world.pod(name, 2, queue=queue))
            await world.event(names.EVENT_WAITING, name)
        assert (await explained(service, world, "first"))[1][0][0] == "InsufficientResources"
        message = f"1 jobs in the queue {queue!r} wait already, and at most 1 may wait"
        assert await explained(service, world, "second") == ("Waiting", [("RateLimited", message)])
        # Written within a second of the acceptance: then "second" would be there as well.
        await written(store, "first")
        assert {one.name for one in await store.acceptances.all()} == {"runs", "first"}
        await world.client.delete(PODS, "runs", world.namespace, grace=0)
        await world.running("first")

        pod = service.state.pod_named(world.namespace, "second")
        assert pod is not None
        gang = pod.gang
        assert gang is not None
        await until(lambda: [str(reason.code) for reason in gang.reasons] == ["InsufficientResources"])
        assert gang.acceptance is not None
