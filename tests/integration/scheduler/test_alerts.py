"""Alerts and panels on the dev cluster. For each alert the reason is caused, the page is read, and its expression says
so; before, and while all goes well, none does. How long an alert waits is left out here: `tests/unit/monitoring` has
that.
"""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from t9ksched.controller.meters import ControllerMeters
from t9ksched.devcluster.faults.faults import Rule
from t9ksched.kube.resources import CONFIGMAPS, NODES, PODS
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.model import names
from t9ksched.scheduler.decide.configuration import CONFIG_MAP, EVENT_REFUSED, KEY
from t9ksched.scheduler.report.metrics import standby
from t9ksched.scheduler.service import SchedulerService, running
from t9ksched.store import Store
from t9ksched.store.database import Database
from t9ksched.store.job_overrides import SCHEDULING, Stop
from tests import promql
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_drift import offer
from tests.integration.scheduler.test_cards import forge
from tests.integration.world import GPU, World

_DASHBOARDS = Path(__file__).parents[3] / "deploy/monitoring/dashboards"
_RULES = yaml.safe_load((Path(__file__).parents[3] / "deploy/monitoring/rules.yaml").read_text())["spec"]["groups"]
ALERTS = {rule["alert"]: rule["expr"] for group in _RULES for rule in group["rules"] if "alert" in rule}
RECORDS = {rule["record"]: rule["expr"] for group in _RULES for rule in group["rules"] if "record" in rule}
MINUTES = 90
CONTROLLERS = ControllerMeters(()).page(0, 0, {}, {}, openmetrics=False).decode()
"""They work beside the scheduler; `tests/integration/controller` has their alerts."""
TIMED = {"T9kschedCycleSlow", "T9kschedDecisionsLate", "T9kschedBindingSlow", "T9kschedDatabaseSlow"}
"""Of durations, which a busy machine has; left out."""


def active(before: str, after: str) -> set[str]:
    """The alerts whose expressions hold when the first page was read for a minute and the second one since."""
    return holding(before, after) - TIMED


def holding(before: str, after: str) -> set[str]:
    """The same, with those of durations."""
    database = promql.Database()
    for minute in range(MINUTES):
        database.scrape(before if minute < 1 else after, minute * 60.0, pod="a")
        database.scrape(CONTROLLERS, minute * 60.0, pod="c")
    now = (MINUTES - 1) * 60.0
    # What is counted has grown a moment ago: read the pages close to each other.
    close = promql.Database()
    for minute, page in ((-2, before), (-1, before), (0, after)):
        close.scrape(page, now + minute * 60.0, pod="a")
        close.scrape(CONTROLLERS, now + minute * 60.0, pod="c")
    found = set()
    for source in (database, close):
        for name, expression in RECORDS.items():
            for one in promql.evaluate(expression, now, source):
                source.add({**dict(promql.without_name(one.labels)), promql.NAME: name}, now, one.value)
        found |= {name for name, expression in ALERTS.items() if promql.evaluate(expression, now, source)}
    return found


async def until(holds: Callable[[], Awaitable[set[str]]], alert: str) -> set[str]:
    """What is active once the alert is."""
    async with asyncio.timeout(60):
        while alert not in (found := await holds()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


async def page(service: SchedulerService) -> str:
    return (await service.metrics()).decode()


async def test_none_while_all_goes_well(world: World, start: Start, queue: str) -> None:
    await world.play(2, 8)
    async with start() as service:
        before = await page(service)
        await world.create(*(world.pod(f"a{each}", 1, queue=queue) for each in range(8)))
        await world.running(*(f"a{each}" for each in range(8)))
        after = await page(service)
        assert 't9ksched_binds_total{outcome="bound"} 8' in after
        assert active(before, after) == set()


async def test_panels_have_data(world: World, start: Start, store: Store) -> None:
    """All but those of REST and the controllers, and of what the cluster has none of."""
    await world.play(2, 8)
    name = f"{world.run}-panels"
    await store.queues.create(name, {}, world.queue_spec | {"quota": {"requests": {GPU: "9"}}}, {"everyone": True})
    database = promql.Database()
    async with start() as service:
        database.scrape(await page(service), 0.0)
        await world.create(world.pod("a", 2, queue=name), world.pod("b", 7, queue=name), world.pod("c", 1, queue=name))
        await world.running("a", "b")
        await world.event(names.EVENT_WAITING, "c")
        for minute in (1, 2):
            database.scrape(await page(service), minute * 60.0)
    empty = set()
    for path in sorted(_DASHBOARDS.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"].replace("$queue", ".*")
                others = "t9ksched_api_" in expression or "t9ksched_controller_" in expression
                if not others and not promql.evaluate(expression, 120.0, database):
                    empty.add(panel["title"])
    assert empty == {"Cards out of work"}


def test_a_scheduler_that_waits_to_lead_is_no_leader() -> None:
    waits = standby().decode()
    assert active(waits, waits) == {"T9kschedNoLeader"}


async def test_a_queue_that_is_full(world: World, start: Start, store: Store) -> None:
    await world.play(1, 4)
    name = f"{world.run}-full"
    await store.queues.create(name, {}, world.queue_spec | {"quota": {"requests": {GPU: "1"}}}, {"everyone": True})
    async with start() as service:
        before = await page(service)
        await world.create(world.pod("a", 1, queue=name))
        await world.running("a")
        await world.create(world.pod("b", 1, queue=name))
        await world.event(names.EVENT_WAITING, "b")
        after = await page(service)
        assert f't9ksched_queue_waiting_gangs{{queue="{name}",reason="QuotaExceeded"}} 1' in after
        assert active(before, after) == {"T9kschedQueueFull"}


async def test_a_job_that_waits_while_cards_are_free(world: World, start: Start, queue: str) -> None:
    await world.play(2, 4)
    async with start() as service:
        await world.create(world.pod("a", 2, queue=queue), world.pod("b", 3, queue=queue))
        await world.running("a", "b")
        await world.create(world.pod("c", 4, queue=queue))
        await world.event(names.EVENT_WAITING, "c")
        after = await page(service)
        assert active(after, after) == {"T9kschedWaitingWhileCardsAreFree"}
        assert 'shape="4"} 3' in after, "of no use to it"


async def test_scheduling_that_is_stopped(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 1)
    now = datetime.now(UTC)
    async with start() as service:
        before = await page(service)
        assert active(before, before) == set()
    await store.stops.stop(Stop(SCHEDULING, now + timedelta(hours=1), "ann", now))
    async with start() as service:
        assert active(before, await page(service)) == {"T9kschedStopped"}


async def test_annotations_that_name_other_cards(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8, cardMode=names.HONOURS_INDEX)
    async with start() as service:
        await world.create(world.pod("p", 2, queue=queue))
        await world.running("p")
        before = await page(service)
        await forge(world, "p", "6,7")
        await world.event(names.EVENT_CARD_DRIFT, "p")
        after = await page(service)
        assert active(before, after) == {"T9kschedCardDrift"}
        assert 'state="drift"} 2' in after


async def test_a_card_that_is_gone(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    async with start() as service:
        await world.create(world.pod("a", 2, queue=queue), world.pod("b", 1, queue=queue))
        await world.running("a", "b")
        before = await page(service)
        await offer(world, **{GPU: "2"})

        async def found() -> set[str]:
            return active(before, await page(service))

        assert await until(found, "T9kschedCardsMisheld") <= {"T9kschedCardsMisheld", "T9kschedCardDrift"}
        for pod in ("a", "b"):
            await world.client.delete(PODS, pod, world.namespace, grace=0)
            await world.gone(PODS, pod)


async def test_a_configuration_that_cannot_be_used(world: World, start: Start, queue: str) -> None:
    await world.play(1, 1)
    async with start() as service:
        before = await page(service)
        config = {
            "metadata": {"name": CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE},
            "data": {KEY: "actions: dance"},
        }
        await world.client.create(CONFIGMAPS, config)
        await world.event(EVENT_REFUSED, CONFIG_MAP, names.SYSTEM_NAMESPACE)
        assert active(before, await page(service)) == {"T9kschedConfigurationRefused"}
        await world.client.delete(CONFIGMAPS, CONFIG_MAP, names.SYSTEM_NAMESPACE)


async def test_bindings_that_are_refused_and_an_api_server_that_throttles(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 4)
    async with start() as service:
        before = await page(service)
        assert active(before, before) == set()
        binding = {"verb": "create", "resource": "pods/binding"}
        world.faults.rules = [Rule(**binding, status=403, count=1)]
        await world.create(world.pod("a", 1, queue=queue))
        await world.running("a")
        after = await page(service)
        assert 't9ksched_binds_total{outcome="refused"} 1' in after
        assert "T9kschedBindsRefused" in active(before, after)
        world.faults.rules = [Rule(**binding, status=429, count=5)]
        await world.create(world.pod("b", 1, queue=queue))
        await world.running("b")
        later = await page(service)
        assert 't9ksched_binds_total{outcome="throttled"} 5' in later
        if 't9ksched_kube_requests_total{method="POST",code="429"} 5' in later:  # faults of a server, not of its client
            assert "T9kschedApiServerThrottles" in active(after, later)


async def test_a_gang_that_stays_in_part(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    late = 0
    async with start(clock=lambda: time.time_ns() + late, gang_bind_timeout=100_000) as service:
        before = await page(service)
        binding = {"verb": "create", "resource": "pods/binding"}
        world.faults.rules = [Rule(**binding, count=1, latency=0.001), Rule(**binding, status=403)]
        await world.gang("g", 2, 1, queue)

        async def found() -> set[str]:
            return active(before, await page(service))

        async with asyncio.timeout(60):
            while not service.state.partial:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert "T9kschedGangPartial" not in await found()
        late = 1300 * 1_000_000_000
        await until(found, "T9kschedGangPartial")  # while a binding is tried again, the gang is not in part
        world.faults.rules = []
        await world.running("g-0", "g-1")
        assert "T9kschedGangPartial" not in await found()


async def test_nodes_that_are_not_ready(world: World, start: Start, queue: str) -> None:
    await world.play(2, 4)
    async with start() as service:
        before = await page(service)
        assert active(before, before) == set()
        assert world.agents is not None
        await world.agents.stop()
        away = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await world.client.patch(NODES, world.nodes[0], None, away, subresource="status")

        async def found() -> set[str]:
            return active(before, await page(service))

        assert await until(found, "T9kschedNodesAway") == {"T9kschedNodesAway"}
        assert 'state="away"} 4' in await page(service)


async def test_a_database_that_is_away(world: World, start: Start, queue: str, store: Store, tmp_path: Path) -> None:
    await world.play(1, 4)
    async with start() as service:
        before = await page(service)
    await store.close()
    late = Store(Database(f"sqlite:///{tmp_path / 'nowhere' / 'store.db'}"))
    (tmp_path / "ready").mkdir()
    shutil.copy(tmp_path / "store.db", tmp_path / "ready" / "store.db")
    client = world.faulty(await world.account(SCHEDULER))
    async with running(SchedulerService(client, late, internal_secret="s" * 20)) as service:
        after = await page(service)
        assert "T9kschedDatabaseAway" in active(before, after)
        assert re.search(r't9ksched_database_duration_seconds_count\{kind="\w+",outcome="failed"\} [1-9]', after)
    await late.close()
