"""What a long list costs: how often its jobs are looked at, and how often it is copied."""

import tracemalloc
from typing import Any

from t9ksched.api.http.paging import Paging
from t9ksched.api.slices import answer_encoded
from tests.unit.api.test_jobs import WORKLOADS, live
from tests.unit.api.world import World

MANY = 300


class Looked(dict[str, Any]):
    """A job that counts how often its fields are asked for."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        Looked.looks += 1
        return super().get(key, default)


async def test_a_list_without_filters_looks_at_each_job_for_its_place_and_whether_it_is_held(world: World) -> None:
    """Four fields are its place, two are by what it may be held, and one shows a user that the job is the user's."""
    jobs = [Looked(live(f"j{number:03}", phase="Pending")) for number in range(MANY)]
    world.leader.job_list = [*jobs]
    assert (await world.admin("POST", f"{WORKLOADS}/default/mpijob/j007/actions/hold")).status == 200
    for client, most in ((world.admin, 6), (world.user, 7)):
        Looked.looks = 0
        listed = (await client("GET", WORKLOADS)).body["items"]
        assert [job["name"] for job in listed] == [job["name"] for job in jobs]
        assert [job["name"] for job in listed if job.get("held")] == ["j007"]
        assert Looked.looks <= most * MANY + 10
    Looked.looks = 0
    assert (await world.admin("GET", f"{WORKLOADS}?phase=Running&namespace=default")).body["items"] == []
    assert Looked.looks <= MANY + 10


def test_a_page_makes_few_keys() -> None:
    made: list[int] = []

    def key(item: int) -> tuple[str, ...]:
        made.append(item)
        return (f"{item:04}",)

    page, more = Paging(10, ("0499",), "").of(range(1000), key)
    assert (page, more is not None) == ([*range(500, 510)], True)
    page, more = Paging(10, ("0500",), "").of(range(999, -1, -1), key, newest_first=True)
    assert (page, more is not None) == ([*range(499, 489, -1)], True)
    assert len(made) < 30


def test_a_long_list_is_copied_once() -> None:
    parts = [b'{"name":"%d"}' % number * 50 for number in range(1000)]
    tracemalloc.start()
    try:
        body = answer_encoded(parts, {"continue": None}).body
        assert tracemalloc.get_traced_memory()[1] < 1.5 * len(body)
    finally:
        tracemalloc.stop()
