"""Jobs that follow each other under one name, and when the index looks at jobs."""

import asyncio
from itertools import permutations

import pytest
from msgspec import structs

from t9ksched.kube.resources import REPLICASETS
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.job_record import JobRecord
from tests.unit.scheduler.state.test_admission_gate import accepted
from tests.unit.scheduler.state.test_state import pod, state_with
from tests.unit.scheduler.state.test_waking import owned, replica_set


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


async def test_a_job_is_found_by_the_submitter_of_its_owner_once_that_is_seen() -> None:
    state = state_with()
    state.accept(structs.replace(accepted("web", "bob"), kind="Deployment"))
    index = JobIndex(state)
    state.upsert_pod(owned(pod("a", queue="q"), "ReplicaSet", "rs"))
    assert not await index.of(submitters=["bob"])
    state.owners.upsert_replicated(replica_set(above="web"), REPLICASETS)
    assert list(await index.of(submitters=["bob"])) == ["rs"]
