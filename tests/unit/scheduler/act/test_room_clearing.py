"""When the room of a reservation is cleared, and of what; the evictions themselves are recorded here."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from t9ksched.engine.victims.room_clearing import Leaving
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import nanoseconds, parse_moment
from t9ksched.scheduler.act.preemption import Evictor
from t9ksched.scheduler.act.room_clearing import RoomClearing
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.store.advance_reservations import Ended, ReservationRecord
from t9ksched.store.job_overrides import PREEMPTION, SCHEDULING, Stop
from tests.unit.scheduler.planning import runs
from tests.unit.scheduler.state.test_advance_conflicts import TIMES, cluster, on
from tests.unit.scheduler.state.test_state import NOW, pod

BEGIN = nanoseconds(parse_moment(TIMES["from"]))
SECOND = 1_000_000_000


class Scene:
    """Node n1 has a job of the queue that it is reserved for, one of another, and a pod of another scheduler."""

    def __init__(self) -> None:
        pods = (on("n1", "own", queue="mine"), on("n1", "a"), pod("daemon", ours=False, node="n1"))
        self.state = cluster(*pods)
        runs(self.state, NOW, *pods[:2])
        self.now = BEGIN
        evictor = Evictor(Mock(), self.state, Mock(), lambda: self.now, AsyncMock())
        self.done: list[tuple[list[str], str, str]] = []
        evictor.clear = self.clear  # type: ignore[method-assign]
        self.clearing = RoomClearing(self.state, evictor, lambda: self.now, lambda: 60)
        self.reserve()

    def clear(self, victims: list[Leaving], reservation: str, why: str, most_grace: int) -> int:
        self.done.append(([pod.name for one in victims for pod in one.pods], reservation, why))
        return len(victims)

    def reserve(self, ended: bool = False, **fields: Any) -> None:
        raw = {"name": "r", "nodes": {"names": ["n1"]}, "for": {"queues": ["mine"]}, "onConflict": "Preempt"}
        one, made = parse_reservation(raw | TIMES | fields), datetime(2029, 1, 1, tzinfo=UTC)
        early = Ended(one.begins, "Released") if ended else None
        record = ReservationRecord("r", "uid", one.to_dict(), ("n1",), early, 1, "root", made, made)
        self.state.advance.take([KnownReservation(record, one)])

    async def sweep(self, later: int = 0) -> list[list[str]]:
        """Whose pods are evicted now."""
        self.now += later * SECOND
        self.done.clear()
        await self.clearing.sweep()
        return [names for names, _, _ in self.done]


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_whom_it_is_not_for_goes_from_its_beginning_to_its_end(scene: Scene) -> None:
    scene.now = BEGIN - SECOND
    assert await scene.sweep() == []
    assert await scene.sweep(1) == [["ns/a"]]
    assert scene.done[0][1:] == ("r", f"reservation 'r' has the room from {TIMES['from']} to {TIMES['to']}")
    assert await scene.sweep(3600) == [["ns/a"]], "until it is gone"
    assert await scene.sweep(3600) == [], "it is over"


@pytest.mark.parametrize("fields", [{"onConflict": "Wait"}, {"onConflict": "Refuse"}, {"ended": True}])
async def test_what_is_not_to_preempt_or_was_released_evicts_nothing(scene: Scene, fields: dict[str, Any]) -> None:
    scene.reserve(**fields)
    assert await scene.sweep() == []


async def test_nothing_is_evicted_while_it_is_stopped_or_the_database_is_away(scene: Scene) -> None:
    stop = Stop(PREEMPTION, None, "root", datetime.now(UTC))
    scene.state.obey((stop,))
    assert await scene.sweep() == []
    scene.state.obey((Stop(SCHEDULING, None, "root", datetime.now(UTC)),))
    assert await scene.sweep() == [["ns/a"]], "maintenance goes on while no job is started"
    scene.state.outage.unread = True
    assert await scene.sweep() == []


async def test_clear_room_is_looked_at_again_after_a_moment(scene: Scene) -> None:
    scene.state.remove_pod("pod-a")
    assert await scene.sweep() == []
    scene.reserve(**{"for": "maintenance"})
    assert await scene.sweep(4) == []
    assert await scene.sweep(1) == [["ns/own"]], "the administrator changed whom it is for"
