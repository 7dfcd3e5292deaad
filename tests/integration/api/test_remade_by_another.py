"""A PodGroup that is made anew by another user while pods of the one before run: who sees the job, by REST."""

import pytest

from t9ksched.kube.resources import PODGROUPS, ROLEBINDINGS, ROLES
from t9ksched.store.store import Store
from tests.integration.api.test_cancelling import JOBS, of, rest, shown
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World
from tests.unit.api.world import Client

__all__ = ["rest"]
pytestmark = pytest.mark.cluster


async def _may_create(world: World, *users: str) -> None:
    """Let the users make pods and PodGroups in the namespace."""
    rules = [{"apiGroups": ["", PODGROUPS.group], "resources": ["pods", "podgroups"], "verbs": ["create"]}]
    await world.client.create(ROLES, {"metadata": {"name": "users"}, "rules": rules}, world.namespace)
    subjects = [{"apiGroup": ROLES.group, "kind": "User", "name": name} for name in users]
    reference = {"apiGroup": ROLES.group, "kind": "Role", "name": "users"}
    binding = {"metadata": {"name": "users"}, "roleRef": reference, "subjects": subjects}
    await world.client.create(ROLEBINDINGS, binding, world.namespace)


@pytest.mark.parametrize("again", [False, True], ids=["while it leads", "after a restart"])
async def test_whose_pods_run_on_sees_the_job(
    world: World, start: Start, queue: str, store: Store, rest: Client, again: bool
) -> None:
    await world.play(1, 8)
    await _may_create(world, "ann", "bob")
    tokens = [await store.tokens.create(name, "user") for name in ("ann", "bob", "eve")]
    ann, bob, eve = (Client(rest.url, rest.session, token) for token in tokens)
    address = f"{JOBS}/{world.namespace}/PodGroup/net"

    async def sees(one: Client, uid: str) -> tuple[bool, int, int]:
        listed = (await one("GET", JOBS)).body["items"]
        explained = await one("GET", f"{address}/explanation")
        return uid in [job["uid"] for job in listed], (await one("GET", address)).status, explained.status

    async def look() -> None:
        told = await shown(rest, address, lambda job: job["submitter"] == "bob" and job["members"]["running"] == 2)
        uid = told["uid"]
        assert await sees(ann, uid) == await sees(bob, uid) == (True, 200, 200)
        assert told["formerSubmitters"] == ["ann"]
        assert await sees(eve, uid) == (False, 404, 404)

    group, *pods = of("PodGroup", world, queue)
    async with start():
        for obj in (group, *pods):
            assert (await ann("POST", JOBS, obj)).status == 201
        told = await shown(rest, address, lambda job: job["members"]["running"] == 2)
        assert told.get("formerSubmitters") is None
        await world.client.delete(PODGROUPS, "net", world.namespace)
        await world.gone(PODGROUPS, "net")
        assert (await bob("POST", JOBS, group)).status == 201
        if not again:
            await look()
    if again:
        async with start():
            await look()


async def test_whose_pods_wait_sees_the_job(world: World, start: Start, queue: str, store: Store, rest: Client) -> None:
    await world.play(1, 1)
    tokens = [await store.tokens.create(name, "user") for name in ("ann", "bob")]
    ann, bob = (Client(rest.url, rest.session, token) for token in tokens)
    await _may_create(world, "ann", "bob")
    group, *pods = of("PodGroup", world, queue)
    async with start():
        for obj in (group, *pods):
            assert (await ann("POST", JOBS, obj)).status == 201
        address = f"{JOBS}/{world.namespace}/PodGroup/net"
        await shown(rest, address, lambda job: job["phase"] == "Pending" and job["submitter"] == "ann")
        await world.client.delete(PODGROUPS, "net", world.namespace)
        await world.gone(PODGROUPS, "net")
        assert (await bob("POST", JOBS, group)).status == 201
        told = await shown(rest, address, lambda job: job["submitter"] == "bob" and job["members"]["total"] == 2)
        assert told["formerSubmitters"] == ["ann"]
        for one in (ann, bob):
            listed = (await one("GET", JOBS)).body["items"]
            assert told["uid"] in [job["uid"] for job in listed]


async def test_its_queue_pays_for_what_runs_over_a_restart(
    world: World, start: Start, queue: str, store: Store, rest: Client
) -> None:
    await world.play(1, 8)
    small = f"{world.run}-small"
    spec = world.queue_spec | {"quota": {"requests": {"nvidia.com/gpu": "1"}}}
    await store.queues.create(small, {}, spec, {"everyone": True})
    address = f"{JOBS}/{world.namespace}/PodGroup/net"
    group, *pods = of("PodGroup", world, queue)
    async with start():
        for obj in (group, *pods):
            assert (await rest("POST", JOBS, obj)).status == 201
        told = await shown(rest, address, lambda job: job["members"]["running"] == 2)
        before = told["uid"]
        await world.client.delete(PODGROUPS, "net", world.namespace)
        await world.gone(PODGROUPS, "net")
        assert (await rest("POST", JOBS, world.group("net", 2, small))).status == 201
        told = await shown(rest, address, lambda job: job["uid"] != before and job["members"]["running"] == 2)
        assert told["queue"] == queue
    async with start():
        assert (await rest("POST", JOBS, world.pod("net-2", 1, group="net"))).status == 201
        told = await shown(rest, address, lambda job: job["members"]["running"] == 3)
        assert told["queue"] == queue, "the smaller one has no room for that"
    kept = await store.acceptances.get(told["uid"])
    assert kept is not None
    assert kept.queue == queue
