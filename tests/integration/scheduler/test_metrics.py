"""The metrics page: what users' dashboards already read, from what is charged."""

import aiohttp

from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.world import GPU, World


async def test_requests_by_node_and_the_secret(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    async with start() as service, aiohttp.ClientSession() as session:
        await world.create(world.pod("a", 2, queue=queue))
        await world.running("a")
        async with session.get(f"{service.address}/metrics") as answer:
            page = await answer.text()
        node = world.nodes[0]
        wanted = f'T9kScheduler_node_resource_requests{{node="{node}",resource="{GPU}",unit="integer"}} 2'
        assert wanted in page.splitlines()
        assert f'T9kScheduler_node_resource_requests{{node="{node}",resource="cpu",unit="core"}} 1' in page
        assert f't9ksched_queue_allocated{{queue="{queue}",resource="{GPU}"}} 2' in page
        async with session.get(f"{service.address}/internal/v1/nodes") as answer:
            assert answer.status == 401
        headers = {"Authorization": f"Bearer {'s' * 20}"}
        async with session.get(f"{service.address}/internal/v1/nodes/{node}", headers=headers) as answer:
            shape = await answer.json()
        assert shape["cardMode"] == names.HONOURS_INDEX
        assert [holder["pod"] for gpu in shape["gpus"] for holder in gpu["holders"]] == ["a", "a"]
