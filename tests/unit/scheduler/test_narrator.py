"""Jobs are written when their phase changes, and less often while only their counts do."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from t9ksched.model.pod import decode_pod
from t9ksched.scheduler import narrator as module
from t9ksched.scheduler.narrator import Narrator
from t9ksched.scheduler.state import ClusterState
from t9ksched.store.jobs import JobRecord, Written


class Journal:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.jobs: list[JobRecord] = []
        self.events: list[str] = []
        self.removed: list[str] = []
        self.backlog = 0

    def job(self, job: JobRecord) -> None:
        self.jobs.append(job)

    def gone(self, uid: str, at: object) -> None:
        self.removed.append(uid)

    def event(self, event: object) -> None:
        self.events.append(event.event)  # type: ignore[attr-defined]


def see(state: ClusterState, *, node: str = "", phase: str = "Pending") -> None:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"schedulerName": "t9k-scheduler", "nodeName": node, "containers": [{"name": "main"}]}
    state.upsert_pod(decode_pod({"metadata": metadata, "spec": spec, "status": {"phase": phase}}))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_phase_is_written_soon_and_counts_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOB_PERIOD", 0.01)
    monkeypatch.setattr(module, "FIRST_PERIOD", 0.05)
    monkeypatch.setattr(module, "COUNTS_PERIOD", 1e9)
    state, journal = ClusterState(), Journal()
    narrator = Narrator(state, journal, None, lambda: 1)  # type: ignore[arg-type]
    task = asyncio.create_task(narrator.run())
    see(state)
    narrator.wake()
    await until(lambda: len(journal.jobs) == 1)
    see(state, node="n1")
    narrator.wake()
    await until(lambda: bool(narrator._later))
    assert len(journal.jobs) == 1, "bound is a count, not a phase"
    see(state, node="n1", phase="Running")
    narrator.wake()
    await until(lambda: len(journal.jobs) == 2)
    assert journal.jobs[-1].shape["members"]["bound"] == 1
    assert journal.events == ["started"]
    assert not narrator._later
    task.cancel()


async def test_what_was_put_off_is_written_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOB_PERIOD", 0.01)
    monkeypatch.setattr(module, "FIRST_PERIOD", 0.05)
    monkeypatch.setattr(module, "COUNTS_PERIOD", 0.2)
    state, journal = ClusterState(), Journal()
    narrator = Narrator(state, journal, None, lambda: 1)  # type: ignore[arg-type]
    task = asyncio.create_task(narrator.run())
    see(state)
    narrator.wake()
    await until(lambda: len(journal.jobs) == 1)
    see(state, node="n1")
    narrator.wake()
    await until(lambda: len(journal.jobs) == 2)
    assert journal.jobs[-1].shape["members"]["bound"] == 1
    task.cancel()


async def test_what_was_written_before_a_restart_is_not_written_again() -> None:
    state, journal = ClusterState(), Journal()
    see(state)
    see(state, node="n1", phase="Running")
    first = Narrator(state, journal, None, lambda: 1)  # type: ignore[arg-type]
    first._tell("u")
    (job,) = journal.jobs
    shape = msgspec.json.encode(job.shape).decode()
    written = Written(job.uid, job.kind, job.namespace, job.name, job.queue, job.phase, job.finished_at, shape)
    gone = written._replace(uid="another")

    second = Narrator(state, journal, None, lambda: 2)  # type: ignore[arg-type]
    state.changed_jobs.clear()
    second.restore([written, gone])
    assert list(state.changed_jobs) == ["u", "another"], "both are looked at"
    for uid in list(state.changed_jobs):
        second._tell(uid)
    assert len(journal.jobs) == 1
    assert journal.events == ["started", "deleted"]
    assert journal.removed == ["another"]
    see(state, node="n1", phase="Failed")
    second._tell("u")
    assert journal.events[2:] == ["finished"]
    assert journal.jobs[-1].phase == "Failed"


async def test_a_new_job_that_has_its_place_soon_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOB_PERIOD", 0.01)
    monkeypatch.setattr(module, "FIRST_PERIOD", 0.3)
    state, journal = ClusterState(), Journal()
    narrator = Narrator(state, journal, None, lambda: 1)  # type: ignore[arg-type]
    task = asyncio.create_task(narrator.run())
    see(state)
    narrator.wake()
    await until(lambda: bool(narrator._later))
    see(state, node="n1")
    narrator.wake()
    await until(lambda: bool(journal.jobs))
    assert [job.shape["members"]["bound"] for job in journal.jobs] == [1]
    task.cancel()


async def test_a_job_that_went_before_it_was_told_is_noted_as_gone() -> None:
    state, journal = ClusterState(), Journal()
    narrator = Narrator(state, journal, None, lambda: 1)  # type: ignore[arg-type]
    see(state)
    state.remove_pod("u")
    narrator._tell("u")
    assert (journal.jobs, journal.removed) == ([], ["u"])
