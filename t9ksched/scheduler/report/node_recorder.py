"""Records in history when nodes come and go, become ready or not, and are cordoned or let take pods again.

What changed while no scheduler led is recorded when one does, for nodes of which something was recorded before.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from t9ksched.model.node import NodeFacts
from t9ksched.scheduler.report.job_recorder import moment
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history as events
from t9ksched.store.errors import StoreError
from t9ksched.store.history import Event, History

_MOST_RECALLED: Final = 10_000
"""Events that are looked at to know what was recorded last of nodes."""


class _NodeSeen(NamedTuple):
    """What a node was like when it was recorded last."""

    ready: bool = True
    schedulable: bool = True

    @classmethod
    def of(cls, facts: NodeFacts) -> "_NodeSeen":
        return cls(facts.ready, not facts.unschedulable)


class NodeRecorder:
    """Writes to history. `clock` gives nanoseconds since the epoch."""

    def __init__(self, state: ClusterState, sql_writer: SqlWriter, clock: Callable[[], int]) -> None:
        self._state = state
        self._sql_writer = sql_writer
        self._clock = clock
        self._changed = state.feed.nodes.follow()
        self._recorded: dict[str, _NodeSeen] = {}

    async def recall(self, history: History) -> None:
        """Begin with the nodes there are now, and with what was recorded of them before."""
        self._changed.take()
        self._recorded = {name: _NodeSeen.of(facts) for name, (_, facts) in self._state.node_objects.items()}
        with suppress(StoreError):
            last = await history.list(events=events.NODE_EVENTS, limit=_MOST_RECALLED, newest_first=True)
            before = _folded(last[::-1])
            self._recorded |= before
            self._state.feed.nodes.note_all(before)

    def note(self) -> None:
        """Record what changed."""
        for name in self._changed.take():
            known, there = self._recorded.get(name), self._state.node_objects.get(name)
            if there is None:
                if known is not None:
                    del self._recorded[name]
                    self._event(events.NODE_REMOVED, name)
                continue
            now = self._recorded[name] = _NodeSeen.of(there[1])
            if known is None:
                self._event(events.NODE_ADDED, name)
                known = _NodeSeen()
            if known.ready != now.ready:
                self._event(events.NODE_READY if now.ready else events.NODE_NOT_READY, name)
            if known.schedulable != now.schedulable:
                self._event(events.NODE_UNCORDONED if now.schedulable else events.NODE_CORDONED, name)

    def _event(self, event: str, name: str) -> None:
        self._sql_writer.event(
            Event(event=event, at=moment(self._clock()), name=name, actor="scheduler", detail={"node": name})
        )


def _folded(told: list[Event]) -> dict[str, _NodeSeen]:
    """What each node was like after these events, oldest first; those that were removed are left out."""
    found: dict[str, _NodeSeen] = {}
    for event in told:
        name = event.name or ""
        seen = found.get(name, _NodeSeen())
        match event.event:
            case events.NODE_REMOVED:
                found.pop(name, None)
            case events.NODE_READY | events.NODE_NOT_READY:
                found[name] = seen._replace(ready=event.event == events.NODE_READY)
            case events.NODE_CORDONED | events.NODE_UNCORDONED:
                found[name] = seen._replace(schedulable=event.event == events.NODE_UNCORDONED)
            case _:
                found[name] = _NodeSeen()
    return found
