"""Forecasts in SQL: the first stays, the last is replaced, and those of jobs that started are read by queue and age."""

import pytest
from msgspec import structs

from t9ksched.model.forecast import Forecast, Outcome
from t9ksched.store import Store, schema
from t9ksched.store.forecasts import Forecasted
from t9ksched.store.instance import LeadershipLost

NOW = 1_790_000_000_123_456_789
SAID = Forecast(NOW, NOW + 1, NOW + 2, "plan")
LATER = Forecast(NOW + 5, NOW + 6, NOW + 7, "learned")


def job(uid: str, queue: str = "q", started: int = 0, settled: int = 0) -> Forecasted:
    return Forecasted(uid=uid, queue=queue, first=SAID, last=SAID, started_at=started, settled_at=settled)


async def waiting(store: Store) -> list[Forecasted]:
    return [one async for piece in store.forecasts.waiting() for one in piece]


async def test_the_first_forecast_stays_as_it_was_written(store: Store) -> None:
    await store.forecasts.put([job("a"), job("b")])
    await store.forecasts.put([structs.replace(job("a"), first=LATER, last=LATER)])
    assert await waiting(store) == [structs.replace(job("a"), last=LATER), job("b")]


async def test_jobs_that_are_settled_wait_no_more(store: Store) -> None:
    await store.forecasts.put([job(f"j{number:04}") for number in range(1005)])
    await store.forecasts.put([job("j0000", started=NOW, settled=NOW), job("j0001", settled=NOW)])
    assert [one.uid for one in await waiting(store)] == [f"j{number:04}" for number in range(2, 1005)]


async def test_outcomes_are_of_jobs_that_started_the_latest_first(store: Store) -> None:
    await store.forecasts.put([job("waits"), job("gone", settled=NOW)])
    done = [job("a", "q", NOW + 1, NOW + 1), job("b", "r", NOW + 2, NOW + 2), job("c", "q", NOW + 3, NOW + 3)]
    await store.forecasts.put([structs.replace(one, last=LATER) for one in done])
    found = await store.forecasts.outcomes(most=10)
    assert found == [Outcome(SAID, NOW + 3), Outcome(SAID, NOW + 2), Outcome(SAID, NOW + 1)]
    assert await store.forecasts.outcomes(last=True, most=1) == [Outcome(LATER, NOW + 3)]
    assert [one.started for one in await store.forecasts.outcomes(queues={"r", "s"}, most=10)] == [NOW + 2]
    assert await store.forecasts.outcomes(queues=(), most=10) == []


async def test_settled_jobs_leave_with_history(store: Store) -> None:
    await store.forecasts.put([job("waits"), job("old", started=1, settled=NOW - 1), job("new", settled=NOW)])
    assert await store.forecasts.purge(NOW) == 1
    assert await store.forecasts.purge(NOW) == 0
    assert [one.uid for one in await waiting(store)] == ["waits"]
    assert await store.forecasts.purge(NOW + 1) == 1


async def test_a_former_leader_writes_nothing(store: Store) -> None:
    epoch = await store.instances.lead("http://one", "one")
    former = store.fenced(lambda: epoch)
    await former.forecasts.put([job("a")])
    await store.instances.lead("http://two", "two")
    with pytest.raises(LeadershipLost):
        await former.forecasts.put([job("b")])
    assert await waiting(store) == [job("a")]


async def test_the_table_goes_with_its_rows_and_comes_back_empty(address: str) -> None:
    async with await Store.open(address) as store:
        await store.forecasts.put([job("a"), job("b", started=NOW, settled=NOW)])
    before = schema.revisions()[schema.revisions().index("0017") - 1]
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await waiting(store) == []
        await store.forecasts.put([job("a")])
        assert await waiting(store) == [job("a")]
