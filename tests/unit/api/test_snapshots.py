"""Snapshots of the live cluster, as REST passes them on to administrators (`test_matrix` has who may)."""

from tests.unit.api.world import World

PATH = "/apis/v1/admin/snapshot"


async def test_it_is_passed_on_as_the_leader_gives_it(world: World) -> None:
    answer = await world.admin("GET", PATH)
    assert (answer.status, answer.body) == (200, {"snapshot": 1, "expected": {}, "present": {}})
    world.leader.away = True
    assert (await world.admin("GET", PATH)).status == 503
