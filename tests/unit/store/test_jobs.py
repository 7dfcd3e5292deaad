"""What a scheduler reads when it starts: everything, however much, piece by piece, the shapes as they were written."""

from datetime import UTC, datetime

import msgspec
import pytest

from t9ksched.store import acceptances, jobs
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.jobs import JobRecord, Written
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


async def test_acceptances_come_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptances, "BATCH", 2)
    made = [Acceptance(uid=f"u{n}", kind="Pod", namespace="ns", name=f"p{n}", accepted_at=AT) for n in range(5)]
    await store.acceptances.put_many(made)
    pieces = [piece async for piece in store.acceptances.pieces()]
    assert [len(piece) for piece in pieces] == [2, 2, 1]
    assert [one for piece in pieces for one in piece] == made == await store.acceptances.all()
