"""What a scheduler did and did not live to write is told by the next one, in order."""

import asyncio
from typing import Any

import pytest

from t9ksched.kube.resources import PODS
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_endings import RUN
from tests.integration.world import World

WHOLE = ["accepted", "admitted", "bound", "started", "finished"]


@pytest.mark.cluster
async def test_a_pod_that_ended_before_any_of_it_was_written_has_its_whole_history(
    world: World, start: Start, store: Store, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.play(1, 8)

    async def lost(*_: Any) -> None:
        """As when the process is killed before it writes."""

    def short(name: str) -> dict[str, Any]:
        pod = world.pod(name, 1, queue=queue, restartPolicy="Never")
        pod["metadata"].setdefault("annotations", {})[RUN] = "0.2"
        return pod

    async def over(name: str) -> None:
        await world.create(short(name))
        await world.until(PODS, name, lambda pod: pod["status"].get("phase") == "Succeeded")

    async with start() as service:
        await over("early")
        await service.sql_writer.flushed()
        monkeypatch.setattr(service.sql_writer._store, "tell", lost)
        await over("late")
    assert not [event for event in await store.history.list() if event.name == "late"]
    async with start() as service:
        await until(lambda: service.state.pod_named(world.namespace, "late") is not None)
        async with asyncio.timeout(30):
            while "finished" not in [event.event for event in await store.history.list(name="late")]:
                await service.sql_writer.flushed()
                await asyncio.sleep(0.05)
    events = await store.history.list(name="late")
    assert [event.event for event in sorted(events, key=lambda event: event.id)] == WHOLE
    assert [event.at for event in events] == sorted(event.at for event in events)
