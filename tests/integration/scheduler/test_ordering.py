"""The ordering of new queues, and of those whose objects an earlier release wrote without saying anything about it."""

from contextlib import suppress
from typing import Any

from sqlalchemy import text

from t9ksched.kube.errors import Conflict
from t9ksched.kube.resources import EVENTS, QUEUES
from t9ksched.model import names
from t9ksched.scheduler.keep.queue_sync import PROJECTED_ANNOTATION, REVISION_ANNOTATION
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store import schema
from t9ksched.store.queues import QueueRecord
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import GPU, World

SYSTEM = names.SYSTEM_NAMESPACE
OLD_SPEC = {"priority": 5, "preemptible": True, "closed": False, "maxDuration": "3d"}
OLD_MARK = "6f33543b2183928c"
"""What a release without a default of `Backfill` wrote as the fingerprint of `OLD_SPEC`."""


def queue_object(name: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": SYSTEM, "annotations": annotations}
    return {"apiVersion": names.SCHEDULER_API, "kind": "Queue", "metadata": metadata, "spec": spec}


def projected(revision: int) -> dict[str, str]:
    return {REVISION_ANNOTATION: str(revision), PROJECTED_ANNOTATION: OLD_MARK}


def marks(item: dict[str, Any]) -> dict[str, str]:
    return dict(item["metadata"].get("annotations") or {})


async def record(store: Store, name: str) -> QueueRecord:
    found = await store.queues.get(name)
    assert found is not None
    return found


async def edited(world: World, name: str) -> list[str]:
    """What the events about edits from outside say of that queue."""
    events = (await world.client.list(EVENTS, SYSTEM)).items
    return [
        event["message"]
        for event in events
        if (event["reason"], event["involvedObject"]["name"]) == (names.EVENT_QUEUE_EDITED_OUTSIDE, name)
    ]


async def replaced(world: World, name: str, spec: dict[str, Any], *, bare: bool = False) -> None:
    """Replace the spec of a Queue object; a `bare` one has no annotations, as in a file."""
    while True:
        item = await world.client.get(QUEUES, name, SYSTEM)
        metadata = item["metadata"] | ({"annotations": {}} if bare else {})
        with suppress(Conflict):  # its status was written meanwhile
            await world.client.replace(QUEUES, item | {"metadata": metadata, "spec": spec})
            return


def acting(service: SchedulerService, name: str) -> str:
    """The ordering by which the scheduler acts."""
    return service._projection._state.queues[name].spec.ordering


async def upgraded(store: Store, address: str, name: str) -> None:
    """The queue's row as a release without that default left it, brought to today's tables."""
    await store.queues.create(name, {}, OLD_SPEC, {"everyone": True})
    schema.downgrade(address, schema.revisions()[schema.revisions().index("0019") - 1])
    async with store.database.write() as connection:
        await connection.execute(text("UPDATE queue SET spec = json_remove(spec, '$.ordering')"))
        await connection.commit()
    schema.upgrade(address)


async def test_an_upgrade_changes_no_queue_and_new_ones_get_the_default(
    world: World, start: Start, store: Store, tmp_path: Any
) -> None:
    old, new, lost = (f"{world.run}-{name}" for name in ("old", "new", "lost"))
    await world.play(1, 4)
    await upgraded(store, f"sqlite:///{tmp_path}/store.db", old)
    before = await record(store, old)
    assert before.spec == OLD_SPEC | {"ordering": "BestEffort"}
    made = await world.client.create(QUEUES, queue_object(old, OLD_SPEC, **projected(before.revision)), SYSTEM)
    # The second one's database is no more: its object is newer than all that the new database has.
    await world.client.create(QUEUES, queue_object(lost, OLD_SPEC, **projected(1000)), SYSTEM)

    async with start() as service:
        await world.create(world.pod("a", 1, queue=old))
        await world.running("a")
        held = {GPU: "1"}
        item = await world.until(
            QUEUES, old, lambda q: held.items() <= (q.get("status") or {}).get("allocated", {}).items(), SYSTEM
        )
        assert (item["spec"], marks(item)) == (made["spec"], marks(made)), "its object was left as it was"
        assert (await record(store, old), acting(service, old)) == (before, "BestEffort")
        assert await edited(world, old) == []
        assert (await record(store, lost)).spec["ordering"] == acting(service, lost) == "BestEffort"

        await world.client.create(QUEUES, queue_object(new, {"priority": 1}), SYSTEM)
        item = await world.until(QUEUES, new, lambda q: marks(q), SYSTEM)
        assert item["spec"]["ordering"] == acting(service, new) == "Backfill"

        # Whatever takes their place without an ordering, with our annotations or without: they keep theirs.
        for name, ordering in ((old, "BestEffort"), (new, "Backfill")):
            for priority, bare in ((7, False), (8, True)):
                await replaced(world, name, {"priority": priority}, bare=bare)

                def written(item: dict[str, Any], priority: int = priority) -> bool:
                    return "ordering" in item["spec"] and item["spec"]["priority"] == priority

                item = await world.until(QUEUES, name, written, SYSTEM)
                assert item["spec"]["ordering"] == acting(service, name) == ordering
                assert (await record(store, name)).spec == {"priority": priority, "ordering": ordering}


async def test_an_object_that_loses_its_ordering_is_no_edit(world: World, start: Start, store: Store) -> None:
    """So it is where an older definition of the kind prunes the field: nothing is written again and again."""
    name = f"{world.run}-q"
    await store.queues.create(name, {}, {"priority": 5}, {"everyone": True})
    async with start() as service:
        item = await world.until(QUEUES, name, lambda q: marks(q), SYSTEM)
        before = await record(store, name)
        await replaced(world, name, {key: item["spec"][key] for key in item["spec"] if key != "ordering"})
        await store.queues.create(f"{name}2", {}, {})
        await world.until(QUEUES, f"{name}2", lambda q: marks(q), SYSTEM)
        assert (await record(store, name), acting(service, name)) == (before, "Backfill")
        assert await edited(world, name) == []
        await world.client.patch(QUEUES, name, SYSTEM, {"spec": {"ordering": "Strict"}})
        await world.event(names.EVENT_QUEUE_EDITED_OUTSIDE, name, SYSTEM)
        assert (await record(store, name)).spec["ordering"] == acting(service, name) == "Strict"
