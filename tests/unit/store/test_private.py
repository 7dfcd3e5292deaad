"""The file of an SQLite database can be read by its owner alone, whatever the folder lets others do."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from t9ksched.store import Store


def modes(folder: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in folder.glob("store.db*")}


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0o022)
    try:
        folder = tmp_path / "open"
        folder.mkdir(mode=0o755)
        yield folder
    finally:
        os.umask(before)


async def test_a_new_file(open_folder: Path) -> None:
    async with await Store.open(f"sqlite:///{open_folder}/store.db") as store:
        await store.meta.set("a", 1)
        assert modes(open_folder) == {0o600}
    assert modes(open_folder) == {0o600}


async def test_a_file_that_others_could_read(open_folder: Path) -> None:
    address = f"sqlite:///{open_folder}/store.db"
    async with await Store.open(address):
        pass
    (open_folder / "store.db").chmod(0o644)
    async with await Store.open(address) as store:
        await store.meta.set("a", 1)
        assert modes(open_folder) == {0o600}
