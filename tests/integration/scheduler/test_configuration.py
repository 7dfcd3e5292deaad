"""`scheduler.conf` in its ConfigMap: applied while running, refused whole, the last good one stays."""

from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.model import names
from t9ksched.scheduler.configuration import CONFIG_MAP, EVENT_REFUSED, KEY
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_preemption import queues
from tests.integration.world import World

GOOD = """
actions: "allocate,preempt"
tiers:
- plugins:
  - name: basic
  - name: resource
  - name: affinity
  - name: predicates
  - name: binpack
"""
BAD = "actions: allocate, dance\ntiers: []\n"


async def test_a_configuration_applies_while_running(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 1)
    system = names.SYSTEM_NAMESPACE
    async with start() as service:
        await world.create(world.pod("low", 1, queue=f"{world.run}-low"))
        await world.running("low")
        await world.create(world.pod("high", 1, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "high")
        config = {"metadata": {"name": CONFIG_MAP, "namespace": system}, "data": {KEY: BAD}}
        await world.client.create(CONFIGMAPS, config)
        event = await world.event(EVENT_REFUSED, CONFIG_MAP, system)
        assert "line 1" in event["message"]
        assert "dance" in event["message"]
        assert service.loop.policy.actions == ("allocate",)
        assert service.configuration.refused
        await world.client.patch(CONFIGMAPS, CONFIG_MAP, system, {"data": {KEY: GOOD}})
        await world.running("high")
        assert service.loop.policy.actions == ("allocate", "preempt")
        await world.client.delete(CONFIGMAPS, CONFIG_MAP, system)
