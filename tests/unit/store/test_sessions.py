"""What limits our sessions on PostgreSQL: from the duration of a lease, in one place, at both ends of a connection."""

import asyncio
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.engine import make_url

from t9ksched.model.leadership import LEAST, SKEW, Keepalive, SessionLimits, Timing
from t9ksched.store import Store, urls
from t9ksched.store.errors import DatabaseBusy

LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
SHOWN = text("SELECT setting FROM pg_settings WHERE name = :name")
"""In milliseconds."""


@given(st.integers(LEAST, 600))
def test_a_leaders_transaction_ends_before_its_lease(seconds: int) -> None:
    timing = Timing.of(seconds)
    limits, usual, tcp = SessionLimits.leading(timing), SessionLimits.usual(timing), Keepalive.of(timing)
    assert limits.statement + limits.silent < 1000 * (timing.duration - SKEW)
    assert timing.renew_deadline + timing.write_seconds <= timing.duration
    assert 0 < limits.lock <= limits.statement <= usual.statement
    assert tcp.idle >= 1
    assert tcp.interval >= 1
    assert tcp.unacknowledged <= 1000 * timing.duration


def test_what_the_address_says_wins() -> None:
    url = make_url("postgresql://u@h/d?application_name=mine&keepalives_idle=9&options=-c%20lock_timeout%3D7")
    given = urls.session(url, Timing.of(6))
    assert "application_name" not in given
    assert "keepalives_idle" not in given
    assert given["tcp_user_timeout"] == 6000
    assert given["options"].startswith("-c statement_timeout=30000 -c lock_timeout=6000 ")
    assert given["options"].endswith("-c lock_timeout=7"), "the server takes the last one"


@pytest.mark.postgres
async def test_every_session_has_limits(postgres_with_tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the pool, the one that hears of changes, and the one that asks what was decided."""
    opened: list[dict[str, Any]] = []
    listens = asyncio.Event()
    connect = psycopg.AsyncConnection.connect

    async def noted(*args: Any, **options: Any) -> Any:
        opened.append(options)
        if "connect_timeout" in options and "prepare_threshold" not in options and options.get("autocommit"):
            listens.set()
        return await connect(*args, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", noted)
    async with await Store.open(postgres_with_tables, migrate=False) as store:
        epoch = await store.instances.lead("http://one", "one")
        await store.read_cache.now()
        listening = asyncio.create_task(store.changes.wait(await store.changes.head()))
        async with asyncio.timeout(60):
            await listens.wait()
        listening.cancel()
        expected = urls.session(store.database.url, Timing())
        assert all(expected.items() <= one.items() for one in opened)
        usual = SessionLimits.usual(Timing())
        assert await shown(store) == [usual.statement, usual.lock, usual.silent]
        async with store.fenced(lambda: epoch).database.write() as connection:
            told = [int((await connection.execute(SHOWN, {"name": name})).scalar_one()) for name in LIMITS]
        leading = SessionLimits.leading(Timing())
        assert told == [leading.statement, leading.lock, leading.silent]
        assert await shown(store) == [usual.statement, usual.lock, usual.silent], "only within a leader's transaction"


async def shown(store: Store) -> list[int]:
    async with store.database.read() as connection:
        return [int((await connection.execute(SHOWN, {"name": name})).scalar_one()) for name in LIMITS]


@pytest.mark.postgres
async def test_a_lock_that_is_not_given_is_told_as_busy(postgres_with_tables: str) -> None:
    address = make_url(postgres_with_tables).update_query_dict({"options": "-c lock_timeout=50"})
    async with await Store.open(address.render_as_string(hide_password=False), migrate=False) as store:
        with psycopg.connect(postgres_with_tables) as aside:
            aside.execute("LOCK TABLE meta")
            with pytest.raises(DatabaseBusy, match=r"took too long .*lock timeout") as told:
                await store.meta.set("k", 1)
            assert "SQLite" not in str(told.value)
