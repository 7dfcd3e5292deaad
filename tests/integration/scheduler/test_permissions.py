"""Objects made with kubectl are asked at the last gate who may use their queue, and what runs is left alone."""

from pathlib import Path

from t9ksched.kube.resources import NAMESPACES, PODS, QUEUES
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import until
from tests.integration.world import World


async def test_a_pod_without_submitter_waits_until_the_queue_is_open_to_everyone(
    world: World, start: Start, store: Store
) -> None:
    await world.play(1, 2)
    queue = f"{world.run}-shut"
    await store.queues.create(queue, {}, world.queue_spec)
    async with start() as service:
        await world.create(world.pod("a", 1, queue=queue))
        event = await world.event(names.EVENT_REFUSED, "a")
        assert "its submitter is unknown" in event["message"]
        assert await world.bound() == {}
        await service.sql_writer.flushed()
        (refused,) = await store.history.list(event="refused")
        assert (refused.name, refused.detail["codes"]) == ("a", ["SubmitterUnknown"])
        await store.queues.set_members(queue, {"everyone": True})
        await world.running("a")
        await until(lambda: not service.state.pending)
    accepted = [one for one in await store.acceptances.all() if one.name == "a"]
    assert [one.permitted_by for one in accepted] == ["everyone"]


async def test_a_namespace_is_selected_by_its_labels_as_they_are_now(world: World, start: Start, store: Store) -> None:
    await world.play(1, 2)
    queue = f"{world.run}-team"
    spec = world.queue_spec | {"namespaceSelector": {"matchLabels": {"team": world.run}}}
    await store.queues.create(queue, {}, spec)
    async with start():
        await world.gang("g", 2, 1, queue)
        await world.event(names.EVENT_REFUSED, "g")
        await world.client.patch(NAMESPACES, world.namespace, None, {"metadata": {"labels": {"team": world.run}}})
        await world.running("g-0", "g-1")


async def test_a_submitter_on_record_is_asked_about_and_a_role_too(world: World, start: Start, store: Store) -> None:
    await world.play(1, 2)
    queue = f"{world.run}-users"
    await store.queues.create(queue, {}, world.queue_spec, {"users": ["ann"], "maxPriority": 3})
    async with start() as service:
        for name, submitter in (("anns", "ann"), ("bobs", "bob")):
            uid = (await world.create(world.pod(name, 1, queue=queue)))["metadata"]["uid"]
            row = Acceptance(
                uid=uid, kind="Pod", namespace=world.namespace, name=name, submitter=submitter, queue=queue
            )
            await store.acceptances.put_many([row])
        await world.running("anns")
        event = await world.event(names.EVENT_REFUSED, "bobs")
        assert "'bob' may not use" in event["message"]
        assert set(await world.bound()) == {"anns"}
        (gang,) = service.state.pending
        assert [str(reason.code) for reason in gang.reasons] == ["NotPermitted"]


async def test_an_empty_database_on_a_used_cluster(world: World, start: Start, queue: str, tmp_path: Path) -> None:
    await world.play(1, 4)
    async with start():
        await world.gang("g", 2, 1, queue)
        await world.running("g-0", "g-1")
        await world.until(QUEUES, queue, lambda item: item["metadata"].get("annotations"), names.SYSTEM_NAMESPACE)
    before = await world.bound()
    async with (
        await Store.open(f"sqlite:///{tmp_path}/empty.db") as empty,
        running(SchedulerService(world.client, empty, internal_secret="s" * 20)) as service,
    ):
        await world.create(world.pod("new", 1, queue=queue))
        await world.event(names.EVENT_REFUSED, "new")
        assert await world.bound() == before
        assert (await world.client.get(PODS, "g-0", world.namespace))["status"]["phase"] == "Running"
        kept = await empty.queues.get(queue)
        assert kept is not None, "the queue's object was the last word about it"
        assert (kept.spec["nodeSelector"], kept.members) == (world.queue_spec["nodeSelector"], {})
        await service.sql_writer.flushed()
        await empty.queues.delete(queue)
        await world.until(QUEUES, "default", lambda _: queue not in service.state.queues, names.SYSTEM_NAMESPACE)
        await until(lambda: queue not in service._projection.objects)
        assert await empty.queues.get(queue) is None
