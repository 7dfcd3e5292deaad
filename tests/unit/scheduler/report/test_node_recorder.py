"""History tells when nodes come and go, become ready or not, and take pods or do not, also across leaders."""

import shutil
from pathlib import Path

import pytest

from t9ksched.model.node import decode_node
from t9ksched.scheduler.report.node_recorder import NodeRecorder
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import Store
from t9ksched.store.errors import DatabaseUnreachable
from t9ksched.store.history import Event


class SqlWriter:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def event(self, event: Event) -> None:
        self.events.append(event)


def see(state: ClusterState, name: str, *, ready: bool = True, cordoned: bool = False, labels: int = 0) -> None:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    meta = {"name": name, "uid": name, "labels": {"n": str(labels)}}
    state.node_events.upsert(
        decode_node({"metadata": meta, "spec": {"unschedulable": cordoned}, "status": {"conditions": conditions}})
    )


@pytest.fixture
async def store(sqlite_template: Path, tmp_path: Path) -> Store:
    path = shutil.copy(sqlite_template, tmp_path / "store.db")
    return await Store.open(f"sqlite:///{path}", migrate=False)


async def begun(state: ClusterState, store: Store) -> tuple[NodeRecorder, SqlWriter]:
    writer = SqlWriter()
    recorder = NodeRecorder(state, writer, lambda: 1)  # type: ignore[arg-type]
    await recorder.recall(store.history)
    return recorder, writer


def told(recorder: NodeRecorder, writer: SqlWriter) -> list[tuple[str, str | None]]:
    recorder.note()
    return [(event.event, event.name) for event in writer.events]


async def test_what_changes_is_recorded(store: Store) -> None:
    async with store:
        state = ClusterState()
        see(state, "a")
        recorder, writer = await begun(state, store)
        assert told(recorder, writer) == [], "those that are there at the start are no news"
        see(state, "a", labels=1)
        see(state, "b", ready=False)
        see(state, "a", cordoned=True)
        assert told(recorder, writer) == [("node-added", "b"), ("node-not-ready", "b"), ("node-cordoned", "a")]
        writer.events.clear()
        see(state, "b")
        see(state, "a", ready=False)
        state.node_events.remove("a")
        state.node_events.remove("a")
        assert told(recorder, writer) == [("node-ready", "b"), ("node-removed", "a")]


async def test_what_changed_without_a_leader_is_recorded_by_the_next(store: Store) -> None:
    async with store:
        await store.history.append_many(
            [
                Event(event=event, name=name)
                for event, name in (
                    ("node-not-ready", "a"),
                    ("node-added", "b"),
                    ("node-cordoned", "c"),
                    ("node-cordoned", "d"),
                    ("node-removed", "d"),
                    ("node-not-ready", "e"),
                )
            ]
        )
        state = ClusterState()
        for name in ("a", "c", "d", "new"):
            see(state, name)
        see(state, "e", ready=False)
        recorder, writer = await begun(state, store)
        assert sorted(told(recorder, writer)) == [("node-ready", "a"), ("node-removed", "b"), ("node-uncordoned", "c")]


async def test_without_a_database_it_begins_with_what_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with store:

        async def away(*_: object, **__: object) -> list[Event]:
            raise DatabaseUnreachable("gone")

        monkeypatch.setattr(store.history, "list", away)
        state = ClusterState()
        see(state, "a")
        recorder, writer = await begun(state, store)
        see(state, "a", ready=False)
        assert told(recorder, writer) == [("node-not-ready", "a")]
