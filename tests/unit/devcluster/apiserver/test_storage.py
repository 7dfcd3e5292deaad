"""Storage, its history, and its journal, over random histories of writes."""

import asyncio
import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t9ksched.devcluster.apiserver.journal import CannotRecord, CorruptJournal, DirectoryInUse, Journal, replay
from t9ksched.devcluster.apiserver.storage import Collection, Storage, TooOld

State = dict[str, str]
writes = st.lists(st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from(["a/x", "a/y", "a-b/x", "b/x"])))


def write(storage: Storage, name: str, kind: str, key: str) -> bool:
    """One write; False when there is nothing to remove."""
    collection = storage.collection(name)
    if kind == "put":
        storage.put(collection, key, {"metadata": {"name": key}})
    elif key in collection.entries:
        storage.remove(collection, key)
    else:
        return False
    return True


def state(collection: Collection) -> State:
    """What is there: version by key."""
    return {key: entry.object["metadata"]["resourceVersion"] for key, entry in collection.entries.items()}


@given(writes)
def test_versions_grow_and_keys_stay_sorted(history: list[tuple[str, str]]) -> None:
    storage = Storage()
    versions = [storage.version]
    for kind, key in history:
        if write(storage, "pods", kind, key):
            versions.append(storage.version)
    assert versions == sorted(set(versions))
    collection = storage.collection("pods")
    assert collection.keys == sorted(collection.entries)
    assert [entry.key for entry in collection.range("a/")] == [key for key in collection.keys if key.startswith("a/")]


@given(writes, st.data())
def test_a_resumed_watch_ends_with_the_same_state(history: list[tuple[str, str]], data: st.DataObject) -> None:
    storage = Storage()
    collection = storage.collection("pods")
    snapshots = [(storage.version, state(collection))]
    for kind, key in history:
        write(storage, "pods", kind, key)
        snapshots.append((storage.version, state(collection)))
    version, seen = data.draw(st.sampled_from(snapshots))
    seen = dict(seen)
    for change in collection.since(version):
        if change.deleted:
            del seen[change.new.key]
        else:
            seen[change.new.key] = change.new.object["metadata"]["resourceVersion"]
    assert seen == state(collection)


@given(writes)
def test_a_list_at_an_old_version_shows_what_was(history: list[tuple[str, str]]) -> None:
    storage = Storage()
    collection = storage.collection("pods")
    past = {}
    for kind, key in history:
        write(storage, "pods", kind, key)
        past[storage.version] = state(collection)
    for version, was in past.items():
        found = collection.range_at(version, "")
        assert {entry.key: entry.object["metadata"]["resourceVersion"] for entry in found} == was


def test_a_cut_history_is_not_read() -> None:
    storage = Storage()
    collection = storage.collection("pods")
    for number in range(3):
        write(storage, "pods", "put", f"a/{number}")
    before = storage.version - 1
    storage.compact()
    with pytest.raises(TooOld):
        collection.since(before)
    with pytest.raises(TooOld):
        collection.range_at(before, "")
    assert collection.since(storage.version) == []
    assert len(collection.range_at(storage.version, "")) == 3


async def test_waiting_ends_with_a_change_or_with_time() -> None:
    storage = Storage()
    collection = storage.collection("pods")
    waiter = asyncio.create_task(collection.changed(storage.version, 30))
    await asyncio.sleep(0)
    write(storage, "pods", "put", "a/x")
    assert await waiter is True
    assert await collection.changed(storage.version, 0.001) is False


def recorded(history: list[tuple[str, str]], folder: Path) -> tuple[bytes, list[tuple[int, dict[str, State]]]]:
    """The journal of a history, and the state after each of its bytes counts that end a line."""
    journal = Journal(folder)
    storage = journal.open()
    states = [(journal.path.stat().st_size, {"pods": {}, "nodes": {}})]
    for (kind, key), name in zip(history, itertools.cycle(["pods", "nodes"]), strict=False):
        if write(storage, name, kind, key):
            now = {part: state(storage.collection(part)) for part in ("pods", "nodes")}
            states.append((journal.path.stat().st_size, now))
    data = journal.path.read_bytes()
    journal.close()
    return data, states


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=50
)
@given(writes, st.data())
def test_a_journal_cut_at_any_byte_gives_the_state_of_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, str]], data: st.DataObject
) -> None:
    raw, states = recorded(history, tmp_path_factory.mktemp("journal"))
    cut = data.draw(st.integers(min_value=states[0][0], max_value=len(raw)))
    storage = Storage()
    replay(raw[:cut], storage)
    expected = [was for size, was in states if size <= cut][-1]
    assert {name: state(storage.collection(name)) for name in ("pods", "nodes")} == expected


def test_a_reopened_journal_keeps_objects_and_versions_and_forgets_the_history(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    storage = journal.open()
    for kind, key in [("put", "a/x"), ("put", "a/y"), ("put", "a/x"), ("remove", "a/y")]:
        write(storage, "pods", kind, key)
    before, version = state(storage.collection("pods")), storage.version
    journal.close()
    journal = Journal(tmp_path)
    again = journal.open()
    assert state(again.collection("pods")) == before
    assert again.version == version
    assert len(journal.path.read_bytes().splitlines()) == 2, "one line an object, one for the counter"
    with pytest.raises(TooOld):
        again.collection("pods").since(version - 1)
    write(again, "pods", "put", "a/z")
    assert again.version == version + 1
    journal.close()


def test_a_directory_belongs_to_one_process(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(DirectoryInUse, match="another process"):
        Journal(tmp_path)
    journal.open()
    journal.close()
    Journal(tmp_path).close()


def test_damage_inside_a_journal_is_not_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    storage = journal.open()
    write(storage, "pods", "put", "a/x")
    journal.close()
    raw = journal.path.read_bytes()
    journal.path.write_bytes(b"rubbish\n" + raw)
    again = Journal(tmp_path)
    with pytest.raises(CorruptJournal, match="line 1"):
        again.open()


def test_a_write_that_the_disk_does_not_take_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    storage = journal.open()
    write(storage, "pods", "put", "a/x")
    before = journal.path.read_bytes()

    def half(descriptor: int, data: memoryview, real: Callable[[int, memoryview], int] = os.write) -> int:
        if len(data) <= 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:-10])

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", half)
        with pytest.raises(CannotRecord, match="etcdserver: mvcc: database space exceeded"):
            write(storage, "pods", "put", "a/y")
    assert journal.path.read_bytes() == before
    assert set(state(storage.collection("pods"))) == {"a/x"}
    write(storage, "pods", "put", "a/z")
    journal.close()


def test_objects_are_encoded_once() -> None:
    storage = Storage()
    obj: dict[str, Any] = {"metadata": {"name": "x"}}
    entry = storage.put(storage.collection("pods"), "a/x", obj)
    assert entry.raw is entry.raw
    assert entry.raw == b'{"metadata":{"name":"x","resourceVersion":"2"}}'
