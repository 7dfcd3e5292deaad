"""Migrations: up, down and up again with rows inside; the tables are those the program knows; errors say what to do."""

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import Connection

from t9ksched.packaged import folder
from t9ksched.store import Store, fresh, schema, urls
from t9ksched.store.errors import DatabaseBusy, DatabaseUnreachable, SchemaMismatch, StoreError
from t9ksched.store.history import Event
from t9ksched.store.tables import metadata


@contextmanager
def connect(address: str) -> Iterator[Connection]:
    engine = create_engine(urls.for_sync(urls.parse(address)))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_up_down_up(address: str) -> None:
    assert schema.current(address) is None
    assert schema.upgrade(address) == schema.newest()
    assert schema.upgrade(address) == schema.current(address) == schema.newest()
    assert schema.downgrade(address, "base") == "base"
    with connect(address) as connection:
        assert set(inspect(connection).get_table_names()) <= {"alembic_version"}
    assert schema.upgrade(address) == schema.newest()


async def test_rows_survive_an_upgrade_and_do_not_block_the_way_down(address: str) -> None:
    async with await Store.open(address) as store:
        await store.queues.create("q", {}, {"priority": 5})
        await store.history.append(Event(event="bound"))
        await store.tokens.ensure_admin()
    schema.upgrade(address)
    async with await Store.open(address) as store:
        kept = await store.queues.get("q")
        assert kept is not None
        assert kept.spec == {"priority": 5, "ordering": "Backfill"}
    schema.downgrade(address, "base")
    async with await Store.open(address) as store:
        assert [queue.name for queue in await store.queues.list()] == ["default"]


def test_every_step_goes_down_and_up(address: str) -> None:
    before = "base"
    for revision in schema.revisions():
        assert schema.upgrade(address, revision) == revision
        assert schema.downgrade(address, before) == before
        assert schema.upgrade(address, revision) == schema.current(address) == revision
        before = revision
    assert before == schema.newest()


def test_revisions_are_the_names_of_the_files() -> None:
    scripts = ScriptDirectory(str(folder("migrations")))
    assert schema.revisions() == [script.revision for script in reversed(list(scripts.walk_revisions()))]
    assert schema.newest() == scripts.get_current_head()


def test_a_new_sqlite_database_is_as_migrations_make_it(tmp_path: Path) -> None:
    script = folder("migrations") / "sqlite.sql"
    assert script.read_text() == fresh.written(), "`make reference` writes it anew"
    prepared, migrated = tmp_path / "prepared.db", tmp_path / "migrated.db"
    schema.upgrade(f"sqlite:///{prepared}")
    schema.upgrade(f"sqlite:///{migrated}", schema.newest())
    assert fresh.dump(prepared) == fresh.dump(migrated)
    assert _all_of(prepared) == _all_of(migrated)


def test_migrations_run_where_the_prepared_script_does_not_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _fills(tmp_path / "with_tables.db", schema.newest(), "CREATE TABLE other (id INTEGER)")
    assert not _fills(tmp_path / "older.db", schema.revisions()[-2])
    assert _fills(tmp_path / "new.db", schema.newest())
    (tmp_path / "versions").mkdir()
    monkeypatch.setattr(fresh, "folder", lambda _: tmp_path)
    assert not _fills(tmp_path / "without_script.db", schema.newest())


def _fills(database: Path, revision: str, first: str = "SELECT 1") -> bool:
    with connect(f"sqlite:///{database}") as connection:
        connection.execute(text(first))
        return fresh.fill(connection, revision)


def _all_of(database: Path) -> list[object]:
    with sqlite3.connect(database) as connection:
        made = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
        rows = [
            connection.execute(f'SELECT * FROM "{name}"').fetchall() for kind, name, _, _ in made if kind == "table"
        ]
    connection.close()
    return [made, rows]


def test_tables_are_those_the_program_knows(address: str) -> None:
    schema.upgrade(address)
    with connect(address) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


async def test_a_newer_database_is_left_alone(address: str) -> None:
    schema.upgrade(address)
    with connect(address) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaMismatch, match="newer t9ksched"):
        await Store.open(address)
    with pytest.raises(SchemaMismatch, match="9999"):
        schema.downgrade(address, "base")


async def test_without_migration_an_empty_database_is_refused(address: str) -> None:
    with pytest.raises(SchemaMismatch, match="db upgrade"):
        await Store.open(address, migrate=False)
    schema.upgrade(address)
    await (await Store.open(address, migrate=False)).close()


def test_looking_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "mistyped.db"
    address = f"sqlite:///{file}"
    assert schema.current(address) is None
    with pytest.raises(DatabaseUnreachable, match="there is no file"):
        schema.downgrade(address, "base")
    assert not file.exists()


@pytest.mark.parametrize("target", ["nonsense", ""])
def test_unknown_target(address: str, target: str) -> None:
    schema.upgrade(address)
    with pytest.raises(SchemaMismatch, match=f"cannot go down to {target!r}"):
        schema.downgrade(address, target)


async def test_missing_tables_are_named_with_the_remedy(store: Store) -> None:
    async with store.database.write() as connection:
        await connection.execute(text("DROP TABLE queue"))
    with pytest.raises(SchemaMismatch, match="db upgrade"):
        await store.queues.list()


async def test_a_locked_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.store.sqlite_file.BUSY_TIMEOUT_MS", 10)
    address = f"sqlite:///{tmp_path / 'store.db'}"
    async with await Store.open(address) as store:
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy, match="another process"):
            await store.queues.create("q", {}, {})
        other.execute("ROLLBACK")
        other.close()
        await store.queues.create("q", {}, {})


async def test_what_cannot_be_opened_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.store.sqlite_file.BUSY_TIMEOUT_MS", 10)
    path = tmp_path / "store.db"
    schema.upgrade(f"sqlite:///{path}")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy):
            await Store.open(f"sqlite:///{path}", migrate=False)
    assert not (tmp_path / "store.db-wal").exists(), "no process has the file open any more"


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("mysql://h/db", StoreError, "'mysql' are not supported"),
        ("", StoreError, "is empty"),
        ("sqlite://", StoreError, "needs a file"),
        ("sqlite:///:memory:", StoreError, "needs a file"),
        ("sqlite:////nonexistent/folder/x.db", DatabaseUnreachable, "/nonexistent/folder"),
        ("://", StoreError, "cannot be read"),
    ],
)
async def test_bad_addresses(address: str, kind: type[StoreError], message: str) -> None:
    with pytest.raises(kind, match=message):
        await Store.open(address)


async def test_unreachable_server_is_named_without_its_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"postgresql://me:topsecret@127.0.0.1:{taken.getsockname()[1]}/db"
        with pytest.raises(DatabaseUnreachable) as refused:
            await Store.open(address)
    assert "topsecret" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)


async def test_a_backup_of_a_running_sqlite_database_is_whole(tmp_path: Path) -> None:
    """As the administrator's guide says: SQLite's own backup, while the service writes."""
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        await store.queues.create("q", {}, {"priority": 5}, {"users": ["ann"]}, by="root")
        secret = await store.tokens.create("ci")
        source, copy = sqlite3.connect(tmp_path / "store.db"), sqlite3.connect(tmp_path / "copy.db")
        source.backup(copy)
        source.close()
        copy.close()
        await store.queues.create("later", {}, {})
    async with await Store.open(f"sqlite:///{tmp_path / 'copy.db'}") as restored:
        assert [(queue.name, queue.members) for queue in await restored.queues.list()] == [
            ("default", {"everyone": True}),
            ("q", {"users": ["ann"]}),
        ]
        assert await restored.tokens.authenticate(secret) is not None
        assert [event.event for event in await restored.history.list()] == ["queue-created"]
        again = await restored.queues.create("more", {}, {})
        assert again.revision == await restored.changes.head()


async def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is a text file, long enough to have a header of its own" * 10)
    with pytest.raises(DatabaseUnreachable, match="not a database"):
        await Store.open(f"sqlite:///{tmp_path / 'x.db'}")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sqlite:////var/lib/x.db", "sqlite:////var/lib/x.db"),
        ("/var/lib/x.db", "sqlite:////var/lib/x.db"),
        ("postgres://u:p@h:5/d", "postgresql://u:***@h:5/d"),
        ("postgresql+asyncpg://u@h/d?password=p", "postgresql://u@h/d"),
    ],
)
def test_addresses_are_normalised_and_shown_without_secrets(address: str, shown: str) -> None:
    assert urls.shown(urls.parse(address)) == shown
