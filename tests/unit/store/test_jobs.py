"""What a scheduler reads when it starts: everything, however much, piece by piece, the shapes as they were written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import structs

from t9ksched.model.run_times import Likeness
from t9ksched.store import acceptances, jobs, schema
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Visibility
from t9ksched.store.jobs import Gone, JobRecord, JobRow, Matching, Written
from t9ksched.store.store import Store

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SHAPE = {"name": "ä", "members": {"min": 1}, "gpus": 8, "reason": None}


def record(number: int, finished: datetime | None = None) -> JobRecord:
    return JobRecord(
        uid=f"u{number:03}",
        kind="Pod",
        namespace="ns",
        name=f"p{number}",
        queue="q",
        phase="Running",
        submitted_at=AT,
        updated_at=AT,
        finished_at=finished,
        shape=SHAPE,
    )


async def test_jobs_that_are_there_come_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "BATCH", 3)
    await store.jobs.put_many([record(number, AT if number == 4 else None) for number in range(8)])
    await store.jobs.mark_deleted(["u002"], AT)
    pieces = [list(piece) async for piece in store.jobs.written()]
    assert [[one.uid for one in piece] for piece in pieces] == [
        ["u000", "u001", "u003"],
        ["u004", "u005", "u006"],
        ["u007"],
    ]
    shape = msgspec.json.encode(SHAPE).decode()
    assert pieces[0][0] == Written("u000", "Pod", "ns", "p0", "q", "Running", None, shape)
    assert pieces[1][0].finished_at == AT


async def test_a_row_whose_json_was_encoded_before_is_written_as_any_other(store: Store) -> None:
    about = structs.asdict(record(1)) | {"uid": "u002", "shape": msgspec.Raw(msgspec.json.encode(SHAPE))}
    await store.tell([], [], [JobRow(**about, submitter="ann")])
    await store.jobs.put_many([structs.replace(record(1), shape=SHAPE | {"submitter": "ann"})])
    one, other = [text async for piece in store.jobs.written() for text in piece]
    assert other == one._replace(uid="u002", shape=msgspec.json.encode(SHAPE).decode())
    assert (
        len(await store.jobs.page(Matching(users=["ann"]), deleted=False, live_since=None, seen_by=None, limit=9)) == 2
    )


async def test_when_jobs_were_gone_is_noted_of_all_in_one_transaction(store: Store) -> None:
    await store.jobs.put_many([record(number) for number in range(40)])
    times = {f"u{number:03}": AT + timedelta(minutes=number) for number in range(20)}
    transactions = 0

    def count() -> None:
        nonlocal transactions
        transactions += 1

    store.database.after_write(count)
    await store.end({uid: Gone(at) for uid, at in (times | {"unknown": AT}).items()})
    assert transactions == 1
    await store.jobs.mark_deleted(["u000"], AT + timedelta(hours=1))
    gone = {one.uid: one.updated_at for one in await store.jobs.list(deleted=True) if one.updated_at != AT}
    assert gone | {"u000": AT} == times, "the first time counts"
    assert len(await store.jobs.list()) == 20


@pytest.mark.parametrize("name", ["ann", "ä", 'a"b', "a_b", "50%", "a\\b", "oidc:ann@x/y"])
async def test_whose_pods_run_on_in_a_job_sees_it(store: Store, name: str) -> None:
    """Another's name of the same pattern finds nothing."""
    shape = SHAPE | {"submitter": "bob", "formerSubmitters": ["cat", name]}
    await store.jobs.put_many([structs.replace(record(1), shape=shape), record(2)])
    for visibility, found in ((name, ["u001"]), ("bob", ["u001"]), ("axb", []), ("cat,", []), ("nobody", [])):
        assert [one.uid for one in await store.jobs.list(seen_by=Visibility(visibility))] == found, visibility


async def pages_of_ann(store: Store, live_since: datetime | None, *, newest_first: bool) -> list[list[str]]:
    """Her jobs, those that are gone among them, three on a page."""
    pages: list[list[str]] = []
    after: tuple[datetime, str] | None = None
    while True:
        rows = await store.jobs.page(
            Matching(users=("ann",)),
            deleted=True,
            live_since=live_since,
            seen_by=None,
            limit=3,
            newest_first=newest_first,
            after=after,
        )
        if not rows:
            return pages
        pages.append([row.uid for row in rows])
        after = rows[-1].submitted_at, rows[-1].uid


async def test_jobs_of_a_user_come_in_order_be_they_gone_or_there(address: str) -> None:
    """Before the migration that finds those that are gone by it, and after; many were submitted at the same moment."""
    async with await Store.open(address) as store:
        whose = [SHAPE | {"submitter": "bob" if number % 4 == 3 else "ann"} for number in range(12)]
        rows = [structs.replace(record(at), shape=shape) for at, shape in enumerate(whose)]
        later = AT + timedelta(seconds=5)
        await store.jobs.put_many(
            [structs.replace(row, submitted_at=later) if row.uid < "u004" else row for row in rows]
        )
        await store.jobs.mark_deleted(["u000", "u004", "u006", "u009"], AT)
    schema.downgrade(address, schema.revisions()[schema.revisions().index("0030") - 1])
    schema.upgrade(address)
    async with await Store.open(address) as store:
        pages = [["u004", "u005", "u006"], ["u008", "u009", "u010"], ["u000", "u001", "u002"]]
        assert await pages_of_ann(store, None, newest_first=False) == pages
        assert await pages_of_ann(store, None, newest_first=True) == [page[::-1] for page in pages[::-1]]
        assert await pages_of_ann(store, AT, newest_first=False) == [["u004", "u006", "u009"], ["u000", "u001", "u002"]]


async def test_acceptances_come_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptances, "BATCH", 2)
    made = [Acceptance(uid=f"u{n}", kind="Pod", namespace="ns", name=f"p{n}", accepted_at=AT) for n in range(5)]
    await store.acceptances.put_many(made)
    pieces = [piece async for piece in store.acceptances.pieces()]
    assert [len(piece) for piece in pieces] == [2, 2, 1]
    assert [one for piece in pieces for one in piece] == made == await store.acceptances.all()


async def test_what_groups_began_with_comes_and_goes_with_rows_in_the_table(address: str) -> None:
    """Rows of earlier releases say nothing of it, and are left as they are."""
    made = Acceptance(uid="u", kind="PodGroup", namespace="ns", name="g", replicas=3, accepted_at=AT)
    async with await Store.open(address) as store:
        await store.acceptances.put_many([structs.replace(made, began_with=2, began_roles={"lead": 1})])
    schema.downgrade(address, "0013")
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.acceptances.all() == [made]
        await store.acceptances.put_many([structs.replace(made, began_with=2, began_roles={"lead": 1})])
        (found,) = await store.acceptances.all()
        assert (found.began_with, found.began_roles) == (2, {"lead": 1})


async def test_submitters_of_jobs_come_and_go_with_their_column(address: str) -> None:
    """The column is filled from what was written of each job before the upgrade."""
    schema.upgrade(address)
    before = schema.revisions()[schema.revisions().index("0011") - 1]
    async with await Store.open(address) as store:
        shape = {"submitter": "ann"}
        about: dict[str, Any] = {"kind": "Pod", "namespace": "default", "queue": "q", "submitted_at": datetime.now(UTC)}
        one = JobRecord(uid="u1", name="a", shape=shape, **about)
        await store.jobs.put_many([one, JobRecord(uid="u2", name="b", shape={}, **about)])
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.jobs.waiting("submitter", "ann", 10) == 1
        assert await store.jobs.waiting("queue", "q", 10) == 2
        assert await store.jobs.waiting("queue", "q", 1) == 1
        assert await store.jobs.waiting("submitter", "bob", 10) == 0
        for changed in ({"phase": "Running"}, {"deleted_at": datetime.now(UTC)}):
            await store.jobs.put_many([structs.replace(one, **changed)])
            assert await store.jobs.waiting("submitter", "ann", 10) == 0
        assert sorted(job.uid for job in await store.jobs.list(deleted=True)) == ["u1", "u2"]


async def test_run_times_are_of_jobs_that_ran_and_have_ended(store: Store) -> None:
    def ended(uid: str, seconds: float, submitter: str | None = "ann", queue: str | None = "q") -> JobRecord:
        shape = {"submitter": submitter, "gpus": 8, "members": {"total": 2}, "startedAt": "2031-01-07T20:00:00Z"}
        at = datetime(2031, 1, 7, 20, tzinfo=UTC) + timedelta(seconds=seconds)
        return JobRecord(
            uid=uid, kind="Job", namespace="ml", name=uid, queue=queue, submitted_at=at, finished_at=at, shape=shape
        )

    told = [ended("a", 60), ended("b", 90), ended("unknown", 10, None), ended("outside", 10, queue=None)]
    running = structs.replace(ended("running", 10), finished_at=None)
    never = structs.replace(ended("never", 10), shape=told[0].shape | {"startedAt": None})
    await store.jobs.put_many([*told, running, never])
    like = Likeness("ann", "q", "Job", (2, 8))
    assert await store.jobs.run_times(10) == [(like, 90), (like, 60)]
    assert await store.jobs.run_times(1) == [(like, 90)]


async def test_what_is_gone_terminates_no_more_and_its_end_is_told_once(store: Store) -> None:
    await store.jobs.put_many([record(number) for number in range(4)])
    for uid in ("u001", "u002", "u003"):
        await store.jobs.mark_terminating(uid)
    gone = {
        "u000": Gone(AT, "Pending"),
        "u001": Gone(AT, "Running"),
        "u002": Gone(AT, told=False),
        "unknown": Gone(AT, told=False),
    }
    for _ in range(2):
        await store.end(gone)
    found = {one.uid: one.phase for one in await store.jobs.list(deleted=True)}
    assert found == {"u000": "Running", "u001": "Running", "u002": "Pending", "u003": "Terminating"}
    (told,) = await store.history.list()
    assert (told.event, told.uid, told.kind, told.queue, told.actor) == ("deleted", "u002", "Pod", "q", "scheduler")
