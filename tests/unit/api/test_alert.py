"""The alert about failures of REST, on requests that fail."""

from pathlib import Path

import yaml

from tests import promql
from tests.unit.api.world import World

RULES = Path(__file__).parents[3] / "deploy/monitoring/rules.yaml"


async def test_failures_are_an_alert(world: World) -> None:
    groups = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    (expression,) = (
        one["expr"] for group in groups for one in group["rules"] if one.get("alert") == "T9kschedRestErrors"
    )

    async def page() -> str:
        return str((await world.admin("GET", "/metrics")).body.decode())

    database = promql.Database()
    for minute in range(3):
        assert (await world.admin("GET", "/apis/v1/timeline")).status == 200
        database.scrape(await page(), minute * 60.0)
    assert promql.evaluate(expression, 120.0, database) == []
    for minute in range(3, 6):
        world.leader.away = True
        assert (await world.admin("GET", "/apis/v1/timeline")).status == 503
        world.leader.away = False
        database.scrape(await page(), minute * 60.0)
    assert promql.evaluate(expression, 300.0, database)
