"""Jobs that follow each other under one name, and when the index looks at jobs."""

import asyncio
from itertools import permutations

import pytest

from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.job_record import JobRecord
from tests.unit.scheduler.state.test_state import state_with


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_of_jobs_of_one_name_that_go_one_by_one_the_first_that_is_left_is_found(order: tuple[int, ...]) -> None:
    state = state_with()
    index = JobIndex(state)
    left = [f"uid-{number}" for number in range(3)]
    for uid in left:
        state.upsert_job(JobRecord(uid, "batch/v1", "Job", "ns", "j", 1, "q", 0, ""))
    for gone in order:
        found = await index.find("ns", "JOB", "j")
        assert found is not None
        assert found.uid == left[0]
        assert await index.of(queues=["q"]) == dict.fromkeys(left)
        state.remove_job(f"uid-{gone}")
        left.remove(f"uid-{gone}")
    assert await index.find("ns", "job", "j") is None
    assert not index._named
    assert not index._owned


async def test_at_a_start_the_index_lets_what_waits_be_placed_first_and_a_request_does_not_wait_for_it() -> None:
    state = state_with()
    index = JobIndex(state)
    state.upsert_job(JobRecord("uid", "batch/v1", "Job", "ns", "j", 1, "q", 0, ""))
    running = asyncio.create_task(index.run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not index._entries
    assert await index.all() == ["uid"]
    running.cancel()
