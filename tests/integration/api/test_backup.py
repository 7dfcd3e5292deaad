"""What is backed up as the administrator's guide says comes back whole, and goes on from there."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from t9ksched.cli.datadir import lock
from t9ksched.model.forecast import Forecast
from t9ksched.model.notification import EVENTS, Address
from t9ksched.model.podclass import PodClass
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.store import Store, history, schema
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.bindings import CardBinding, Cards
from t9ksched.store.dependencies import Waited
from t9ksched.store.errors import RevisionChanged, StoreError
from t9ksched.store.forecasts import Forecasted
from t9ksched.store.history import Event
from t9ksched.store.job_overrides import SCHEDULING, Stop
from t9ksched.store.jobs import JobRecord
from t9ksched.store.notifications import new_target
from t9ksched.store.outbox import Intent, new_entry
from t9ksched.store.runs import Run
from t9ksched.store.tables import metadata
from tests.acceptance.conftest import run
from tests.postgresql import PostgreSQL, postgresql

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
CARDS: Cards = [("main", "nvidia.com/gpu", (0, 3))]
Picture = dict[str, list[tuple[Any, ...]]]


def backup(address: str, target: Path) -> str:
    """What an administrator types, and the output."""
    done = run("db", "backup", str(target), "--db", address)
    assert done.code == 0, done.err
    return done.out.replace("\n", " ")


async def furnish(store: Store) -> dict[str, str]:
    """Something in every table; the tokens' secrets."""
    secrets = {
        "boss": await store.tokens.create("boss", "manager", queues=["a"], groups=["g"], by="admin"),
        "late": await store.tokens.create("late", expires_at=datetime.now(UTC) + timedelta(days=1), by="admin"),
        "gone": await store.tokens.create("gone", by="admin"),
    }
    secrets["admin"] = await store.tokens.ensure_admin() or ""
    await store.tokens.revoke("gone", by="admin")
    spec = {"priority": 7, "quota": {"requests": {"nvidia.com/gpu": "8", "cpu": "2"}}}
    await store.queues.create("a", {"team": "vision"}, spec, {"users": ["ann", "ünï"], "maxPriority": 3}, by="admin")
    await store.queues.create("b", {}, {}, {"everyone": True}, by="admin")
    await store.queues.edit("b", lambda old: (old.labels, {"closed": True}), draining=True, by="boss")
    await store.queues.create("c", {}, {}, by="admin")
    await store.queues.delete("c", by="admin")
    about: dict[str, Any] = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u1", "queue": "a"}
    accepted = Acceptance(**about, submitter="ann", groups=["g"], priority=3, cards={"nvidia.com/gpu": 2})
    job = JobRecord(**about, phase="Running", submitted_at=NOW, shape={"name": "p", "order": {"z": 1, "a": 2}})
    bound = {"pod": "p", "node": "n1", "cards": {"main": [0, 3]}, "model": "A100", "resource": "nvidia.com/gpu"}
    events = [Event(event=history.SUBMITTED, at=NOW, actor="ann", **about)]
    await store.submissions.put([accepted], [job], events)
    hours = ((history.BOUND, 0, bound), (history.STARTED, 1, {}), (history.RELEASED, 3, {"pod": "p"}))
    await store.history.append_many(
        [Event(event=event, at=NOW + timedelta(hours=at), detail=detail, **about) for event, at, detail in hours]
    )
    still = about | {"uid": "u2", "name": "q"}
    await store.history.append(Event(event=history.BOUND, at=NOW, detail=bound | {"pod": "q"}, **still))
    lab = about | {"uid": "u4", "kind": "Notebook", "name": "lab"}
    idle = {"idleSince": NOW.isoformat()}
    for event, detail in ((history.BOUND, bound), (history.SUSPENDED_IDLE, idle), (history.RELEASED, {"pod": "p"})):
        await store.history.append(Event(event=event, at=NOW + timedelta(hours=1), detail=detail, **lab))
    await store.controls.hold(Event(event=history.JOB_HELD, actor="boss", **about))
    await store.stops.stop(Stop(SCHEDULING, NOW + timedelta(days=9999), "admin", NOW, "new switches"))
    room = PodClass(requests=(("pods", 1),))
    await store.promises.put(
        [Reservation("u1", "n1", room, rank=10, since=10**18, until=2 * 10**18, kind=ReservationKind.VICTIMS)]
    )
    planned = Reservation("u3", "n1", room, rank=10, since=10**18, kind=ReservationKind.PLANNED, firm=True, queue="a")
    await store.planned_starts.put({"u3": (planned, planned)})
    said = Forecast(10**18, 10**18, 2 * 10**18, "plan")
    await store.forecasts.put([Forecasted(uid="u3", queue="a", first=said, last=said)])
    kept = {"name": "night", "nodes": {"names": ["n1"]}, "for": "maintenance"}
    kept |= {"from": "2031-01-07T20:00:00Z", "to": "2031-01-07T22:00:00Z"}
    await store.reservations.create(parse_reservation(kept).to_dict(), ["n1"], await store.changes.head(), by="admin")
    await store.card_cordons.cordon("n1", 3, "XID 79", "boss")
    cards = CardBinding(pod_uid="u2", namespace="default", name="q", node="n1", cards=CARDS, honoured=True, at=NOW)
    await store.bindings.put([cards])
    await store.runs.put([Run(uid="u1", bound_at=10**18, ran_at=10**18, limit=60)])
    await store.repeats.begin("ann", "key", "request", datetime.now(UTC))
    await store.dependencies.put([Waited(uid="u1", target="Job/prep", target_uid="u2")])
    to = Address("webhook", "https://example.org/s3cret", "https://example.org/…")
    await store.notifications.add(new_target(to, "ann", EVENTS), 9, by="ann")
    await store.tell([], [Event(event=history.STARTED, at=NOW + timedelta(hours=1), **about)], [job])
    intent = Intent(kind="Pod", namespace="default", name="r", acceptance=accepted)
    await store.outbox.begin(new_entry("ann", ["g"], [intent], NOW, "key"))
    await store.instances.lead("http://10.0.0.1:1", "first")
    await store.meta.set("key", {"z": 1, "a": [True, None]})
    return secrets


async def picture(store: Store) -> Picture:
    """Every row of every table."""
    found: Picture = {}
    async with store.database.read() as connection:
        for table in metadata.sorted_tables:
            rows = (await connection.execute(select(table).order_by(*table.primary_key))).all()
            found[table.name] = [tuple(row) for row in rows]
    return found


async def goes_on(store: Store, before: Picture, secrets: dict[str, str]) -> None:
    """The restored database is as good as the old one: who was known is known, and what follows comes after."""
    assert await picture(store) == before
    assert [name for name, rows in before.items() if not rows] == [], "every table had something"
    for name, secret in secrets.items():
        known = await store.tokens.authenticate(secret)
        assert (known.name if known else "gone") == name
    queue = await store.queues.get("a")
    assert queue is not None
    with pytest.raises(RevisionChanged):
        await store.queues.set_members("a", {}, queue.revision - 1)
    head = await store.changes.head()
    edited = await store.queues.set_members("a", {"users": ["bob"]}, queue.revision, by="admin")
    assert edited.revision > head == max(row[0] for row in before["change_log"])
    last = (await store.history.list(newest_first=True, limit=1))[0]
    assert (last.event, last.id > max(row[0] for row in before["history"])) == (history.MEMBERS_CHANGED, True)
    with pytest.raises((StoreError, DBAPIError)):
        async with store.database.write() as connection:
            await connection.execute(text("UPDATE history SET actor = 'nobody'"))
    assert await store.instances.lead("http://10.0.0.2:1", "second") == 2


@pytest.fixture
async def used(tmp_path: Path) -> AsyncIterator[tuple[Store, dict[str, str]]]:
    async with await Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        yield store, await furnish(store)


async def test_sqlite_while_it_is_written(used: tuple[Store, dict[str, str]], tmp_path: Path) -> None:
    store, secrets = used
    stop = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await store.queues.edit("b", lambda old: ({"n": str(number)}, old.spec), by="admin")  # noqa: B023

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.1)
    told = await asyncio.to_thread(backup, f"sqlite:///{tmp_path}/store.db", tmp_path / "copy.db")
    stop.set()
    await writing
    assert "copy.db" in told
    with sqlite3.connect(tmp_path / "copy.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    async with await Store.open(f"sqlite:///{tmp_path}/copy.db", migrate=False) as copy:
        record, head = await copy.queues.get("b"), await copy.changes.head()
        assert record is not None
        assert record.revision == head, "the last change is there whole: the row, its revision and its record"
        (last,) = await copy.history.list(newest_first=True, limit=1)
        assert last.detail["after"]["labels"] == record.labels
        await goes_on(copy, await picture(copy), secrets)


async def test_sqlite_comes_back_as_it_was(used: tuple[Store, dict[str, str]], tmp_path: Path) -> None:
    store, secrets = used
    before = await picture(store)
    await asyncio.to_thread(backup, f"sqlite:///{tmp_path}/store.db", tmp_path / "copy.db")
    await store.queues.delete("a", by="admin")
    async with await Store.open(f"sqlite:///{tmp_path}/copy.db") as copy:
        await goes_on(copy, before, secrets)


async def test_a_copy_is_private_and_never_written_over(used: tuple[Store, dict[str, str]], tmp_path: Path) -> None:
    address, target = f"sqlite:///{tmp_path}/store.db", tmp_path / "copy.db"
    await asyncio.to_thread(backup, address, target)
    assert target.stat().st_mode & 0o777 == 0o600
    again = await asyncio.to_thread(run, "db", "backup", str(target), "--db", address)
    assert (again.code, "exists already" in again.err) == (1, True)
    missing = await asyncio.to_thread(run, "db", "backup", str(tmp_path / "x"), "--db", f"sqlite:///{tmp_path}/no.db")
    assert (missing.code, "here is no database" in " ".join(missing.err.split())) == (1, True)
    foreign = await asyncio.to_thread(run, "db", "backup", "x", "--db", "postgresql://u:hunter2@host/name")
    assert (foreign.code, "pg_dump" in foreign.err, "hunter2" in foreign.err) == (1, True, False)


@pytest.fixture
async def server() -> AsyncIterator[PostgreSQL]:
    with postgresql() as running:
        yield running


@pytest.mark.postgres
async def test_postgresql_comes_back_as_it_was(server: PostgreSQL) -> None:
    address, restored = server.create("used"), server.create("restored")
    async with await Store.open(address) as store:
        secrets = await furnish(store)
        before = await picture(store)
        dump = await asyncio.to_thread(server.program, "pg_dump", "--format=custom", address)
        await store.queues.delete("a", by="admin")
    await asyncio.to_thread(server.program, "pg_restore", "--no-owner", f"--dbname={restored}", stdin=dump)
    async with await Store.open(restored) as store:
        await goes_on(store, before, secrets)


@pytest.mark.postgres
async def test_sqlite_is_moved_to_postgresql(used: tuple[Store, dict[str, str]], tmp_path: Path, postgres: str) -> None:
    store, secrets = used
    before = await picture(store)
    old = f"sqlite:///{tmp_path}/store.db"
    with lock(tmp_path):  # as a service does
        used_now = await asyncio.to_thread(run, "db", "copy", "--db", old, "--to", postgres)
        assert (used_now.code, "is in use by another t9ksched" in used_now.err) == (1, True)
    done = await asyncio.to_thread(run, "db", "copy", "--db", old, "--to", postgres)
    assert (done.code, f"of {len(metadata.sorted_tables)} tables" in done.out) == (0, True), done.err
    again = await asyncio.to_thread(run, "db", "copy", "--db", old, "--to", postgres)
    assert (again.code, "is in use, its table" in " ".join(again.err.split())) == (1, True)
    back = await asyncio.to_thread(run, "db", "copy", "--db", postgres, "--to", old)
    assert (back.code, "from SQLite to PostgreSQL" in " ".join(back.err.split())) == (1, True)
    async with await Store.open(postgres, migrate=False) as moved:
        await goes_on(moved, before, secrets)
    assert await picture(store) == before


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def test_tables_in_use_are_not_taken_back(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """By the sessions of PostgreSQL, by the leader's heartbeat, by the lock of the data directory; `base` asks."""
    sqlite = kind == "sqlite"
    address = f"sqlite:///{tmp_path}/store.db" if sqlite else str(request.getfixturevalue("postgres"))
    down = ("db", "downgrade", "--db", address)

    async def refused(revision: str, told: str, code: int = 1) -> None:
        done = await asyncio.to_thread(run, *down, revision)
        assert (done.code, told in " ".join(done.err.split())) == (code, True), done.err
        assert schema.current(address) == schema.newest()

    async with await Store.open(address) as store:
        await store.instances.lead("http://a", "me")
        await refused(schema.newest(), "the scheduler me" if sqlite else "other t9ksched processes")
    if sqlite:
        with lock(tmp_path):
            await refused(schema.newest(), "is in use by another t9ksched")
    await refused("base", "--yes", 2)
    assert (await asyncio.to_thread(run, *down, schema.revisions()[-2])).code == 0
    assert (await asyncio.to_thread(run, *down, "base", "--yes")).code == 0
    assert schema.current(address) is None
