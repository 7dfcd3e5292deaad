"""Tokens: shown once, stored hashed, worthless once revoked."""

import asyncio

import pytest
from sqlalchemy import text

from t9ksched.store import Store
from t9ksched.store.errors import RowExists, RowMissing
from t9ksched.store.tokens import LastAdmin


async def test_the_admin_token_is_made_once(store: Store) -> None:
    plaintext = await store.tokens.ensure_admin()
    assert plaintext is not None
    assert await store.tokens.ensure_admin() is None
    found = await store.tokens.authenticate(plaintext)
    assert found is not None
    assert (found.name, found.role) == ("admin", "admin")


async def test_of_processes_starting_together_one_makes_it(store: Store) -> None:
    made = await asyncio.gather(*(store.tokens.ensure_admin() for _ in range(6)))
    assert len([one for one in made if one]) == 1


async def test_a_given_secret_is_used(store: Store) -> None:
    assert await store.tokens.ensure_admin("brought-along") == "brought-along"
    assert await store.tokens.authenticate("brought-along") is not None


async def test_the_plaintext_is_not_in_the_database(store: Store) -> None:
    plaintext = await store.tokens.create("ci")
    async with store.database.read() as connection:
        rows = (await connection.execute(text("SELECT * FROM api_token"))).all()
    assert plaintext not in str(rows)
    assert plaintext.removeprefix("t9k_") not in str(rows)


@pytest.mark.parametrize("wrong", ["", "t9k_", "admin", "t9k_" + "x" * 43])
async def test_wrong_tokens(store: Store, wrong: str) -> None:
    await store.tokens.create("ci")
    assert await store.tokens.authenticate(wrong) is None


async def test_use_is_noted(store: Store) -> None:
    plaintext = await store.tokens.create("ci")
    assert (await store.tokens.list())[0].last_used_at is None
    await store.tokens.authenticate(plaintext)
    used = (await store.tokens.list())[0].last_used_at
    assert used is not None
    await store.tokens.authenticate(plaintext)
    assert (await store.tokens.list())[0].last_used_at == used, "written at most once a minute"


async def test_revoke(store: Store) -> None:
    await store.tokens.ensure_admin()
    plaintext = await store.tokens.create("ci")
    with pytest.raises(RowExists, match="'ci' exists already"):
        await store.tokens.create("ci")
    await store.tokens.revoke("ci")
    assert await store.tokens.authenticate(plaintext) is None
    with pytest.raises(RowMissing, match="no token 'ci'"):
        await store.tokens.revoke("ci")


async def test_the_last_administrator_stays(store: Store) -> None:
    await store.tokens.ensure_admin()
    with pytest.raises(LastAdmin, match="last administrator"):
        await store.tokens.revoke("admin")
    await store.tokens.create("second", "admin", owner="ann")
    await store.tokens.revoke("admin")
    assert [(token.name, token.owner) for token in await store.tokens.list()] == [("second", "ann")]
