"""How good forecasts are, as REST tells administrators, and managers of their queues."""

from t9ksched.model.forecast import Basis, Forecast
from t9ksched.store.forecasts import Forecasted
from tests.unit.api.world import World

PATH = "/apis/v1/forecast-accuracy"
SECOND = 1_000_000_000


def started(uid: str, queue: str, at: int, first: Basis = "plan", last: Basis = "plan") -> Forecasted:
    """It started at that second; the first forecast was from 0 to 100, the last one from 90 to 110."""
    ends = []
    for basis, earliest, latest in ((first, 0, 100), (last, 90, 110)):
        known = basis != "unknown"
        ends.append(Forecast(1, known * earliest * SECOND, known * latest * SECOND, basis))
    return Forecasted(uid=uid, queue=queue, first=ends[0], last=ends[1], started_at=at * SECOND, settled_at=at * SECOND)


async def test_first_and_last_forecasts_are_judged(world: World) -> None:
    told = [started("a", "a100", 60), started("b", "other", 105), started("c", "a100", 95, first="unknown")]
    await world.store.forecasts.put(told)
    found = (await world.admin("GET", PATH)).body
    assert set(found) == {
        "jobs",
        "unknown",
        "startedByLatest",
        "startedInInterval",
        "medianWidthSeconds",
        "medianErrorSeconds",
        "p90ErrorSeconds",
        "byBasis",
    }
    assert (found["jobs"], found["unknown"], found["startedByLatest"], found["startedInInterval"]) == (3, 1, 1, 1)
    assert (found["medianWidthSeconds"], found["medianErrorSeconds"], found["p90ErrorSeconds"]) == (100, 5, 40)
    assert set(found["byBasis"]) == {"plan"}
    last = (await world.admin("GET", f"{PATH}?which=last")).body
    assert (last["jobs"], last["unknown"], last["startedByLatest"], last["startedInInterval"]) == (3, 0, 3, 2)
    assert (await world.admin("GET", f"{PATH}?which=best")).status == 422
