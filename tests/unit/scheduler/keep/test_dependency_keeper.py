"""Jobs that wait for others: which job a name means, what ends the wait, and what is never waited for again."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock, patch

import pytest

from t9ksched.kube.errors import ApiError
from t9ksched.model import names
from t9ksched.model.reasons import Code
from t9ksched.scheduler.keep.dependency_end import DependencyEnd
from t9ksched.scheduler.keep.dependency_keeper import DependencyKeeper
from t9ksched.scheduler.report.job_phase import phase
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.state.asks import Asks
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.objects import nanoseconds
from t9ksched.store.dependencies import Waited
from t9ksched.store.errors import StoreError
from tests.unit.scheduler.state.test_start_times import owned
from tests.unit.scheduler.state.test_state import CREATED, group, pod, state_with

SECOND = 1_000_000_000
CAME = nanoseconds(CREATED)


class Rows:
    """The tables in memory; `away` is a database that does not answer."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Waited] = {}
        self.jobs_gone: dict[str, tuple[str, str]] = {}
        self.away = False
        self.asked = 0
        self.dependencies = self.jobs = self

    def _answer(self) -> None:
        self.asked += 1
        if self.away:
            raise StoreError("away")

    async def put(self, rows: list[Waited]) -> None:
        self._answer()
        self.kept |= {(row.uid, row.target): row for row in rows}

    async def forget(self, uids: Any) -> None:
        self._answer()
        self.kept = {key: row for key, row in self.kept.items() if key[0] not in uids}

    async def all(self) -> list[Waited]:
        self._answer()
        return list(self.kept.values())

    async def get(self, uid: str) -> Any:
        self._answer()
        return next((Mock(uid=uid, phase=phase) for uid_, phase in self.jobs_gone.values() if uid_ == uid), None)

    async def elements(self, namespace: str, kind: str, array: str, since: Any) -> Any:
        self._answer()
        return [
            SimpleNamespace(uid=uid, phase=phase, kind=kind, name=name.partition("/")[2], deleted_at=since)
            for name, (uid, phase) in self.jobs_gone.items()
            if name.startswith(f"{kind}/{array}-")
        ]

    async def gone(self, namespace: str, kind: str, name: str, since: Any) -> Any:
        self._answer()
        found = self.jobs_gone.get(f"{kind}/{name}")
        return found and Mock(uid=found[0], phase=found[1], deleted_at=since)


class Played:
    """Batch Jobs with a pod each, and the keeper of what they wait for."""

    def __init__(self) -> None:
        self.now = CAME + 5 * SECOND
        self.rows = Rows()
        self.start()

    def start(self) -> None:
        """A scheduler that knows nothing yet but what is in SQL."""
        self.state = state_with()
        self.stopper = Mock()
        self.stopper.highest = AsyncMock(side_effect=lambda one: (None, {"metadata": {"uid": one.owner.uid}}))
        self.stopper.stop = AsyncMock()
        self.recorder = Mock()
        end = DependencyEnd(self.state, self.stopper, self.recorder)
        self.keeper = DependencyKeeper(self.state, self.rows, end, lambda: self.now)  # type: ignore[arg-type]

    def job(self, name: str, phase: str = "", after: str = "", cancel: str = "", uid: str = "", at: int = CAME) -> str:
        uid = uid or name
        asks = Asks(after=after, cancel=cancel)
        self.state.upsert_job(JobRecord(uid, "batch/v1", "Job", "ns", name, at, "q", 0, phase, asks=asks))
        if not phase:
            made = owned(pod(f"{uid}-p", queue="q"), uid)
            made.metadata.annotations = {names.AFTER_ANNOTATION: after} if after else {}
            self.state.upsert_pod(made)
        return uid

    def remove(self, name: str) -> None:
        for record in list(self.state.pods.values()):
            if record.name == f"{name}-p":
                self.state.remove_pod(record.uid)
        self.state.remove_job(name)

    async def starts(self) -> list[str]:
        """The jobs that the engine is asked for, after the keeper looked."""
        self.state.view(self.now)
        await self.keeper.sweep()
        await self.keeper.sweep()
        return [gang.name.removeprefix("ns/").removesuffix("-p") for gang in self.state.view(self.now).gangs]

    def why(self, name: str) -> str:
        (gang,) = self.state.gangs_of_owner(name)
        (reason,) = gang.reasons
        assert reason.code is Code.DEPENDENCY_NOT_MET
        return reason.message


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.mark.parametrize(
    ("phase", "ok", "anyhow"),
    [
        ("Pending", "it waits for Job/a to succeed, which is Pending", "it waits for Job/a to end, which is Pending"),
        ("Running", "it waits for Job/a to succeed, which is Running", "it waits for Job/a to end, which is Running"),
        ("Succeeded", "", ""),
        ("Failed", "it can never start: it waits for others to succeed, and Job/a failed", ""),
    ],
)
async def test_the_condition_says_which_end_is_waited_for(played: Played, phase: str, ok: str, anyhow: str) -> None:
    played.job("a", phase)
    played.job("b", after="Job/a")
    played.job("c", after="Job/a:any")
    started = await played.starts()
    assert [name for name in started if name in "bc"] == [one for one, why in (("b", ok), ("c", anyhow)) if not why]
    for name, why in (("b", ok), ("c", anyhow)):
        if why:
            assert played.why(name) == why


async def test_it_is_not_placed_before_anybody_looked(played: Played) -> None:
    played.job("a", "Succeeded")
    played.job("b", after="Job/a")
    assert played.state.view(played.now).gangs == ()
    assert played.why("b") == "what it waits for is being looked up"
    assert await played.starts() == ["b"]


async def test_all_must_be_met_and_its_age_counts_from_then(played: Played) -> None:
    played.job("a", "Succeeded")
    played.job("b", "Running")
    played.job("c", after="Job/a, Job/b")
    assert await played.starts() == []
    assert played.why("c") == "it waits for Job/b to succeed, which is Running"
    played.now += 60 * SECOND
    played.job("b", "Succeeded")
    await played.starts()
    (gang,) = played.state.view(played.now).gangs
    assert gang.created == played.now


async def test_a_name_without_a_job_is_waited_for(played: Played) -> None:
    played.job("b", after="Job/a")
    assert await played.starts() == []
    assert played.why("b") == "it waits for Job/a to succeed, of which there is none yet"
    played.job("a", "Succeeded", at=CAME + SECOND)
    assert await played.starts() == ["b"]


async def test_a_job_that_was_deleted_before_it_was_seen_is_found_in_the_database(played: Played) -> None:
    played.job("b", after="Job/a:any")
    played.job("c", after="Job/a")
    assert await played.starts() == []
    played.rows.jobs_gone["Job/a"] = "a", "Running"
    asked = played.rows.asked
    assert await played.starts() == [], "it is not asked for in each second"
    assert played.rows.asked == asked
    played.now += 10 * SECOND
    assert await played.starts() == ["b"]
    assert played.why("c").endswith("Job/a was deleted before it succeeded")


async def test_the_job_that_was_there_first_is_meant_though_another_has_its_name_now(played: Played) -> None:
    played.rows.jobs_gone["Job/a"] = "old", "Succeeded"
    played.job("a", "Running", at=CAME + SECOND)
    played.job("b", after="Job/a")
    assert await played.starts() == ["b"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Running"])
async def test_how_it_was_when_it_was_deleted_counts(played: Played, phase: str) -> None:
    played.job("a", "Running")
    played.job("b", after="Job/a")
    played.job("c", after="Job/a:any")
    assert await played.starts() == []
    played.job("a", phase)
    played.remove("a")  # in the same second
    started = await played.starts()
    assert started == (["b", "c"] if phase == "Succeeded" else ["c"])
    assert phase == "Succeeded" or played.why("b").startswith("it can never start")


async def test_what_was_met_stays_met_whatever_becomes_of_the_name(played: Played) -> None:
    played.job("a", "Succeeded")
    played.job("b", after="Job/a")
    assert await played.starts() == ["b"]
    played.remove("a")
    played.job("a", "Failed", uid="a2", at=CAME + SECOND)
    assert await played.starts() == ["b"]
    met = played.rows.kept["b", "Job/a"]
    played.start()
    await played.keeper.restore()
    played.now += 3600 * SECOND
    played.job("a", "Failed", uid="a2", at=CAME + SECOND)
    played.job("b", after="Job/a")
    assert await played.starts() == ["b"]
    assert played.rows.kept["b", "Job/a"] == met
    (gang,) = played.state.view(played.now).gangs
    assert gang.created == met.met_at


async def test_a_restart_remembers_which_job_was_meant(played: Played) -> None:
    played.job("a", "Running")
    played.job("b", after="Job/a")
    await played.starts()
    played.start()
    await played.keeper.restore()
    played.rows.jobs_gone["Job/a"] = "a", "Running"
    played.job("a", "Succeeded", uid="a2", at=CAME + SECOND)
    played.job("b", after="Job/a")
    assert await played.starts() == []
    assert played.why("b").endswith("Job/a was deleted before it succeeded")


async def test_a_restart_means_the_same_job_though_nothing_else_is_known_of_it(played: Played) -> None:
    played.job("a", "Running")
    played.job("b", after="Job/a")
    await played.starts()
    played.start()
    await played.keeper.restore()
    played.job("a", "Succeeded", uid="a2", at=CAME + SECOND)
    played.job("b", after="Job/a")
    assert await played.starts() == []
    assert played.why("b").endswith("Job/a was deleted before it succeeded")


async def test_rows_go_with_the_job_that_waited(played: Played) -> None:
    played.job("a", "Running")
    played.job("b", after="Job/a")
    played.job("c", after="Job/a")
    await played.starts()
    assert set(played.rows.kept) == {("b", "Job/a"), ("c", "Job/a")}
    played.remove("b")
    await played.starts()
    assert set(played.rows.kept) == {("c", "Job/a")}
    played.start()
    await played.keeper.restore()
    await played.starts()
    assert not played.rows.kept, "it went while no scheduler ran"


async def test_another_annotation_counts_from_its_edit_on(played: Played) -> None:
    played.job("a", "Failed")
    played.job("b", after="Job/a")
    assert await played.starts() == []
    played.state.upsert_job(
        JobRecord("b", "batch/v1", "Job", "ns", "b", CAME, "q", 0, "", asks=Asks(after="Job/a:any"))
    )
    assert await played.starts() == ["b"]
    played.state.upsert_job(JobRecord("b", "batch/v1", "Job", "ns", "b", CAME, "q", 0, ""))
    assert await played.starts() == ["b"]


async def test_what_cannot_be_read_is_waited_with_and_told(played: Played) -> None:
    played.job("b", after="prep")
    assert await played.starts() == []
    assert played.why("b").startswith(f"its annotation {names.AFTER_ANNOTATION} cannot be read: 'prep' names no job")


async def test_jobs_that_wait_for_one_another_are_told_until_one_is_edited(played: Played) -> None:
    played.job("a", after="Job/c")
    played.job("b", after="Job/a")
    played.job("c", after="Job/b")
    played.job("d", after="Job/c")
    assert await played.starts() == []
    circle = "it can never start: it waits for itself ("
    assert played.why("a") == circle + "Job/a waits for Job/c waits for Job/b waits for Job/a)"
    assert played.why("b") == circle + "Job/b waits for Job/a waits for Job/c waits for Job/b)"
    assert played.why("d") == "it waits for Job/c to succeed, which is Pending"
    before = dict(played.rows.kept)
    played.start()
    await played.keeper.restore()
    for name, other in (("a", "c"), ("b", "a"), ("c", "b")):
        played.job(name, after=f"Job/{other}")
    assert await played.starts() == []
    assert played.why("c").startswith(circle), "also after a restart"
    assert played.rows.kept.keys() <= before.keys()
    played.job("c", after="")
    assert await played.starts() == ["c"]
    assert played.why("a") == "it waits for Job/c to succeed, which is Pending"


@pytest.mark.parametrize("step", [1, -1], ids=["in order", "the last one first"])
async def test_a_long_chain_is_not_walked_for_each_of_its_jobs(played: Played, step: int) -> None:
    walked = 0
    ahead = DependencyKeeper._ahead

    def counted(self: DependencyKeeper, start: str) -> Iterator[str]:
        nonlocal walked
        for uid in ahead(self, start):
            walked += 1
            yield uid

    jobs = 60
    for at in range(jobs)[::step]:
        played.job(f"j{at}", after=f"Job/j{at - 1}" if at else "")
    with patch.object(DependencyKeeper, "_ahead", counted), patch.object(DependencyKeeper, "_way_back") as way_back:
        assert await played.starts() == ["j0"]
    assert walked <= 2 * jobs
    way_back.assert_not_called()


async def test_jobs_of_a_circle_share_what_is_told_of_it(played: Played) -> None:
    for at in range(4):
        played.job(f"j{at}", after=f"Job/j{(at + 1) % 4}")
    assert await played.starts() == []
    assert len({id(waiter.ring) for waiter in played.keeper._waiters.values()}) == 1
    played.remove("j0")
    await played.starts()
    assert not any(waiter.ring for waiter in played.keeper._waiters.values())


async def test_a_job_that_waits_for_itself(played: Played) -> None:
    played.job("a", after="Job/a")
    assert await played.starts() == []
    assert played.why("a") == "it can never start: it waits for itself (Job/a waits for Job/a)"


async def test_without_the_database_the_wait_goes_on_in_memory(played: Played) -> None:
    played.job("a", "Running")
    played.job("b", after="Job/a")
    played.job("c", after="Job/x:any")
    played.rows.away = True
    assert await played.starts() == []
    played.job("a", "Succeeded")
    assert await played.starts() == ["b"]
    played.rows.away = False
    played.rows.jobs_gone["Job/x"] = "x", "Failed"
    assert set(await played.starts()) == {"b", "c"}
    assert {(uid, row.met_at > 0) for (uid, _), row in played.rows.kept.items()} == {("b", True), ("c", True)}


async def test_groups_and_pods_are_waited_for_too(played: Played) -> None:
    state = played.state
    state.upsert_group(group("g", 1))
    state.upsert_pod(pod("m", group="g", node="n1", phase="Running"))
    state.upsert_pod(pod("p", queue="q"))
    played.job("b", after="pg/g")
    played.job("c", after="pod/p:any")
    assert await played.starts() == ["p"]
    state.upsert_pod(pod("m", group="g", node="n1", phase="Succeeded"))
    state.remove_pod("pod-p")
    assert set(await played.starts()) == {"b", "c"}


async def test_a_group_that_waits_by_its_own_annotation(played: Played) -> None:
    made = group("g", 1)
    made.metadata.annotations = {names.AFTER_ANNOTATION: "Job/a"}
    played.state.upsert_group(made)
    played.state.upsert_pod(pod("m", group="g"))
    played.job("a", "Running")
    assert await played.starts() == []
    played.job("a", "Succeeded")
    assert await played.starts() == ["g"]


@pytest.mark.parametrize(("cancel", "ends"), [("true", True), ("false", False), ("", False)])
async def test_a_job_that_can_never_start_is_ended_where_it_asks_for_that(
    played: Played, cancel: str, ends: bool
) -> None:
    played.job("a", "Running")
    played.job("b", after="Job/a", cancel=cancel)
    await played.starts()
    assert not played.stopper.stop.called
    played.job("a", "Failed")
    await played.starts()
    assert played.stopper.stop.called is ends
    view = observed_job(played.state, "b")
    assert view is not None
    assert phase(view, played.state) == ("Failed" if ends else "Pending")
    if ends:
        (_, target, reason, message), _ = played.stopper.stop.call_args
        assert (target["metadata"]["uid"], reason) == ("b", "DependencyNotMet")
        assert message.endswith(f"Job/a failed; it is ended, as {names.AFTER_CANCEL_ANNOTATION} asks")
        assert played.recorder.ended.call_count == 1


async def test_what_waits_for_a_job_that_was_ended_so_is_told(played: Played) -> None:
    played.job("a", "Failed")
    played.job("b", after="Job/a", cancel="true")
    played.job("c", after="Job/b")
    played.job("d", after="Job/b:any")
    await played.starts()
    assert await played.starts() == ["d"]
    assert played.why("c").endswith("and Job/b failed")


async def test_a_job_that_was_ended_may_start_with_another_annotation(played: Played) -> None:
    played.job("a", "Failed")
    played.job("b", after="Job/a", cancel="true")
    await played.starts()
    played.job("b", after="Job/a:any", cancel="true")
    assert await played.starts() == ["b"]
    view = observed_job(played.state, "b")
    assert view is not None
    assert phase(view, played.state) == "Pending"


async def test_what_has_begun_is_neither_held_up_nor_ended(played: Played) -> None:
    played.job("a", "Failed")
    uid = played.job("b")
    record = next(one for one in played.state.pods.values() if one.owner and one.owner.uid == uid)
    played.state.upsert_pod(owned(pod("b-p", queue="q", node="n1", phase="Running"), uid))
    assert record.node == "n1"
    asks = Asks(after="Job/a", cancel="true")
    played.state.upsert_job(JobRecord("b", "batch/v1", "Job", "ns", "b", CAME, "q", 0, "Running", asks=asks))
    await played.starts()
    assert not played.stopper.stop.called


async def test_what_begins_before_its_wait_can_never_end_is_not_ended(played: Played) -> None:
    played.job("a", "Running")
    uid = played.job("b", after="Job/a", cancel="true")
    await played.starts()
    played.state.upsert_pod(owned(pod("b-p", queue="q", node="n1", phase="Running"), uid))  # another bound it
    played.job("a", "Failed")
    await played.starts()
    assert not played.stopper.stop.called
    played.state.upsert_pod(owned(pod("b-q", queue="q"), uid))
    assert [gang.name for gang in played.state.view(played.now).gangs] == ["ns/b-q"], "a pod beside one that runs"


async def test_an_edit_counts_before_anybody_looked_at_it(played: Played) -> None:
    played.job("a", "Succeeded")
    played.job("b", after="Job/a")
    assert await played.starts() == ["b"]
    asks = Asks(after="Job/other")
    played.state.upsert_job(JobRecord("b", "batch/v1", "Job", "ns", "b", CAME, "q", 0, "", asks=asks))
    assert played.state.view(played.now).gangs == ()


async def test_an_end_that_the_cluster_refuses_is_tried_again(played: Played) -> None:
    played.job("a", "Failed")
    played.job("b", after="Job/a", cancel="true")
    played.stopper.stop.side_effect = ApiError(500, "InternalError", "no")
    await played.starts()
    tried = played.stopper.stop.call_count
    played.stopper.stop.side_effect = None
    await played.starts()
    assert played.stopper.stop.call_count > tried
    assert played.recorder.ended.call_count == 1


def element(played: Played, at: int, phase: str = "", uid: str = "", created: int = CAME) -> None:
    """An element of the array `sweep`."""
    asks = Asks(array=f"sweep[{at}]")
    name = f"sweep-{at}"
    played.state.upsert_job(JobRecord(uid or name, "batch/v1", "Job", "ns", name, created, "q", 0, phase, asks=asks))


async def test_all_elements_of_an_array_are_waited_for(played: Played) -> None:
    for at in range(3):
        element(played, at, "Running")
    played.job("b", after="Job/sweep")
    played.job("c", after="Job/sweep:any")
    assert await played.starts() == []
    assert played.why("b") == "it waits for Job/sweep to succeed: 0 of its 3 elements have"
    element(played, 0, "Succeeded")
    element(played, 1, "Failed")
    assert await played.starts() == []
    assert played.why("b") == "it can never start: it waits for others to succeed, and Job/sweep-1 failed"
    assert played.why("c") == "it waits for Job/sweep to end: 2 of its 3 elements have"
    element(played, 2, "Running")
    played.state.remove_job("sweep-2")
    assert await played.starts() == ["c"]
    assert {(row.target_uid, row.met_at > 0) for row in played.rows.kept.values()} == {("", False), ("", True)}


async def test_an_array_waits_for_an_array_element_by_element(played: Played) -> None:
    for at in range(20):
        element(played, at, "Running")
    for at in range(20):
        played.job(f"next-{at}", after="Job/sweep")
    assert await played.starts() == []
    for at in range(20):
        element(played, at, "Succeeded")
        assert len(await played.starts()) == (20 if at == 19 else 0)


async def test_elements_that_went_while_no_scheduler_ran_are_found_in_the_database(played: Played) -> None:
    element(played, 0, "Running")
    played.job("b", after="Job/sweep")
    await played.starts()
    played.start()
    await played.keeper.restore()
    played.rows.jobs_gone = {"Job/sweep-0": ("sweep-0", "Succeeded"), "Job/sweep-1": ("sweep-1", "Running")}
    played.job("b", after="Job/sweep")
    played.job("c", after="Job/sweep:any")
    assert await played.starts() == ["c"]
    assert played.why("b").endswith("and Job/sweep-1 was deleted before it succeeded")


async def test_elements_that_went_before_a_job_was_created_are_none_of_its(played: Played) -> None:
    for at in range(2):
        element(played, at, "Running")
    played.job("old", after="Job/sweep")
    await played.starts()
    played.state.remove_job("sweep-0")
    await played.starts()
    assert played.why("old").startswith("it can never start")
    played.now += 60 * SECOND
    played.job("new", after="Job/sweep", at=played.now)
    element(played, 0, "Running", uid="again", created=played.now)
    assert await played.starts() == []
    assert played.why("new") == "it waits for Job/sweep to succeed: 0 of its 2 elements have"
    element(played, 0, "Succeeded", uid="again", created=played.now)
    element(played, 1, "Succeeded")
    assert await played.starts() == ["new"]


async def test_a_job_of_the_name_comes_before_an_array(played: Played) -> None:
    element(played, 0, "Running")
    played.job("sweep", "Succeeded")
    played.job("b", after="Job/sweep")
    assert await played.starts() == ["b"]


async def test_arrays_that_wait_for_one_another_are_told(played: Played) -> None:
    for name, other in (("x", "y"), ("y", "x")):
        for at in range(2):
            uid = f"{name}-{at}"
            asks = Asks(array=f"{name}[{at}]", after=f"Job/{other}")
            played.state.upsert_job(JobRecord(uid, "batch/v1", "Job", "ns", uid, CAME, "q", 0, "", asks=asks))
            played.state.upsert_pod(owned(pod(f"{uid}-p", queue="q"), uid))
    assert await played.starts() == []
    for uid in ("x-0", "x-1", "y-0", "y-1"):
        assert played.why(uid).startswith("it can never start: it waits for itself (Job/")
