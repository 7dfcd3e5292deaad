"""What jobs wait for, in SQL; and the jobs that are asked for by their names once they are gone."""

from datetime import timedelta

from msgspec import structs

from t9ksched.model.names import ARRAY_LABEL
from t9ksched.store import Store, schema
from t9ksched.store.dependencies import Waited
from t9ksched.store.jobs import JobRecord
from tests.unit.store.test_jobs import AT, SHAPE, record

ROWS = [
    Waited(uid="a", target="Job/x", target_uid="x1", met_at=5),
    Waited(uid="a", target="Job/y"),
    Waited(uid="b", target="Job/x", target_uid="x2"),
]


async def test_rows_are_written_over_and_forgotten_with_the_job_that_waited(store: Store) -> None:
    await store.dependencies.put(ROWS)
    assert await store.dependencies.all() == ROWS
    later = structs.replace(ROWS[1], target_uid="y1", met_at=7)
    await store.dependencies.put([later])
    assert await store.dependencies.all() == [ROWS[0], later, ROWS[2]]
    await store.dependencies.forget(["a", "nobody"])
    assert await store.dependencies.all() == [ROWS[2]]
    await store.dependencies.forget([])
    await store.dependencies.put([])


async def test_the_table_comes_and_goes(address: str) -> None:
    async with await Store.open(address) as store:
        await store.dependencies.put(ROWS)
        await store.jobs.put_many([record(0)])
    before = schema.revisions()[schema.revisions().index("0031") - 1]
    schema.downgrade(address, before)
    assert schema.current(address) == before
    async with await Store.open(address) as store:
        assert await store.dependencies.all() == []
        assert [job.uid for job in await store.jobs.list()] == ["u000"]


async def test_of_a_name_the_job_that_went_first_since_then(store: Store) -> None:
    rows = [structs.replace(record(at), name="prep") for at in range(4)]
    await store.jobs.put_many(rows)
    for at, uid in enumerate(["u002", "u000", "u001"]):
        await store.jobs.mark_deleted([uid], AT + timedelta(hours=at))
    job = rows[0]

    async def gone(hours: float, name: str = "prep") -> str | None:
        found = await store.jobs.gone(job.namespace, job.kind, name, AT + timedelta(hours=hours))
        return found and found.uid

    assert [await gone(hours) for hours in (-1, 0, 0.5, 1.5, 2.5)] == ["u002", "u002", "u000", "u001", None]
    assert await gone(0, "other") is None
    found = await store.jobs.get("u003")
    assert found is not None
    assert (found.name, found.deleted_at) == ("prep", None)
    assert await store.jobs.get("nobody") is None


async def test_elements_of_an_array_are_found_by_its_label_and_their_names(store: Store) -> None:
    def element(at: int, name: str, array: str | None) -> JobRecord:
        shape = SHAPE | ({} if array is None else {"labels": {ARRAY_LABEL: array}})
        return structs.replace(record(at), name=name, shape=shape)

    await store.jobs.put_many(
        [
            element(0, "a_b-0", "a_b"),
            element(1, "a_b-1", "a_b"),
            element(2, "a_b-2", None),
            element(3, "axb-3", "a_b"),
            element(4, "a_b-c-4", "a_b-c"),
        ]
    )
    await store.jobs.mark_deleted(["u001"], AT)
    job = record(0)

    async def found(hours: int | None) -> list[str]:
        since = None if hours is None else AT + timedelta(hours=hours)
        return [row.uid for row in await store.jobs.elements(job.namespace, job.kind, "a_b", since)]

    assert [await found(hours) for hours in (None, -1, 0, 1)] == [["u000"], ["u001"], ["u001"], []]
