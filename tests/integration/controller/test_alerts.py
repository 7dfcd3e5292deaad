"""Alerts about the controllers on the dev cluster: each reason is caused, and the expression says so; before, none."""

import asyncio

from t9ksched.controller.meters import standby
from t9ksched.controller.service import Controllers
from t9ksched.controller.workqueue import WorkQueue
from t9ksched.devcluster.faults.faults import Rule
from t9ksched.kube.transport.client import Client
from tests import promql
from tests.integration.controller.conftest import Cluster, running
from tests.integration.scheduler.test_alerts import ALERTS
from tests.unit.workloads.builders import notebook

RULES = {name: expression for name, expression in ALERTS.items() if "t9ksched_controller_" in expression}


def holding(before: str, *after: str) -> set[str]:
    """The alerts whose expressions hold after these pages of several pods, of which the first had `before`."""
    database = promql.Database()
    for at in (0.0, 60.0):
        database.scrape(before, at, pod="0")
    for pod, page in enumerate(after):
        database.scrape(page, 120.0, pod=str(pod))
    return {name for name, expression in RULES.items() if promql.evaluate(expression, 120.0, database)}


async def page(service: Controllers) -> str:
    return (await service.metrics(openmetrics=False)).decode()


async def test_no_leader_and_two(account: Client, cluster: Cluster) -> None:
    assert len(RULES) == 4
    waits = standby().decode()
    assert holding(waits, waits, waits) == {"T9kschedNoController"}
    async with running(Controllers(account)) as first:
        assert holding(await page(first), await page(first), waits) == set()
        async with running(Controllers(account)) as second:
            assert holding(waits, await page(first), await page(second)) == {"T9kschedTwoControllers"}


async def test_an_api_server_that_refuses_pods(account: Client, cluster: Cluster) -> None:
    async with running(
        Controllers(cluster.world.faulty(account), queue=WorkQueue(rest=0.01, first=0.01, most=0.1))
    ) as service:
        before = await page(service)
        cluster.world.faults.rules = [Rule(verb="create", resource="pods", status=403)]
        job = await cluster.submit(notebook())
        async with asyncio.timeout(60):
            while not (found := holding(before, await page(service))):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert found == {"T9kschedControllerErrors"}
        cluster.world.faults.rules = []
        await cluster.phase(job, "Running")
        assert service.queue.failing == 0


async def test_workloads_that_wait_for_a_slow_api_server(account: Client, cluster: Cluster) -> None:
    async with running(Controllers(cluster.world.faulty(account))) as service:
        before = await page(service)
        cluster.world.faults.rules = [Rule(verb="create", resource="pods", latency=60.0)]
        for number in range(105):
            one = notebook()
            await cluster.submit({**one, "metadata": {**one["metadata"], "name": f"lab{number}"}})
        async with asyncio.timeout(60):
            while len(service.queue) <= 100:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert holding(before, await page(service)) == {"T9kschedControllersBehind"}
