"""Planned starts in SQL: what changed is written, what is over is forgotten, and nothing is lost while it is away."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from t9ksched.model.podclass import PodClass
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.keep.plan_keeper import PlanKeeper
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.planned_starts import Plan

ROOM = PodClass((("cpu", 1000), ("pods", 1)))


def plan(owner: str, since: int, pods: int = 1) -> Plan:
    one = Reservation(owner, "n1", ROOM, ReservationKind.PLANNED, since=since, firm=True, queue="q")
    return (one,) * pods


class Table:
    """The repository in memory; `away` fails before anything is written, `mute` after."""

    def __init__(self) -> None:
        self.rows: dict[str, Plan] = {}
        self.asked: list[tuple[str, list[str]]] = []
        self.away: type[Exception] | None = None
        self.mute: type[Exception] | None = None

    async def put(self, plans: Mapping[str, Plan]) -> None:
        await self._do("put", plans, lambda: self.rows.update(plans))

    async def forget(self, owners: Collection[str]) -> None:
        await self._do("forget", owners, lambda: [self.rows.pop(owner, None) for owner in owners])

    async def all(self) -> dict[str, Plan]:
        return dict(self.rows)

    async def _do(self, what: str, owners: Collection[str], act: Any) -> None:
        self.asked.append((what, sorted(owners)))
        if self.away is not None:
            raise self.away("away")
        act()
        if self.mute is not None:
            raise self.mute("no answer")

    def taken(self) -> list[tuple[str, list[str]]]:
        asked, self.asked = self.asked, []
        return [one for one in asked if one[1]]


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def state() -> ClusterState:
    made = ClusterState()
    made.reservations.planned = {"a": plan("a", 10, 2), "b": plan("b", 20)}
    return made


@pytest.fixture
def keeper(table: Table, state: ClusterState) -> PlanKeeper:
    return PlanKeeper(table, state)  # type: ignore[arg-type]


async def test_what_changed_is_written_once(keeper: PlanKeeper, table: Table, state: ClusterState) -> None:
    book = state.reservations
    await keeper.sweep()
    assert table.taken() == [("put", ["a", "b"])]
    assert table.rows == book.planned
    book.planned = {"a": plan("a", 10, 2), "b": plan("b", 15)}
    await keeper.sweep()
    assert table.taken() == [("put", ["b"])]
    book.planned = {"b": plan("b", 15)}
    await keeper.sweep()
    assert table.taken() == [("forget", ["a"])]
    assert table.rows == book.planned
    await keeper.sweep()
    assert table.taken() == []


@pytest.mark.parametrize("error", [StoreError, TimeoutError])
@pytest.mark.parametrize("how", ["away", "mute"])
async def test_while_the_database_is_away_it_is_tried_again(
    keeper: PlanKeeper, table: Table, state: ClusterState, how: str, error: type[Exception]
) -> None:
    book = state.reservations
    await keeper.sweep()
    setattr(table, how, error)
    for since in (30, 40):
        book.planned = {"b": plan("b", since), "c": plan("c", 5)}
        await keeper.sweep()
    # What may have been written is changed back, or gone, before the database answers.
    book.planned = {"b": plan("b", 20)}
    await keeper.sweep()
    setattr(table, how, None)
    await keeper.sweep()
    assert table.rows == book.planned
    table.taken()
    await keeper.sweep()
    assert table.taken() == []


async def test_a_restart(keeper: PlanKeeper, table: Table, state: ClusterState) -> None:
    await keeper.sweep()
    table.taken()
    after = ClusterState()
    woken: list[bool] = []
    after.reservations._on_change = lambda: woken.append(True)
    after.reservations.planned = {"b": plan("b", 99)}
    keeper = PlanKeeper(table, after)  # type: ignore[arg-type]
    await keeper.restore()
    assert after.reservations.planned == {"a": plan("a", 10, 2), "b": plan("b", 99)}, "one made since is newer"
    assert woken, "what is planned may begin at once"
    await keeper.sweep()
    assert table.taken() == [("put", ["b"])]
    after.reservations.planned = {}
    await keeper.sweep()
    assert table.rows == {}, "those of gangs that are gone are forgotten"


async def test_before_the_database_was_read_nothing_is_written(
    keeper: PlanKeeper, table: Table, state: ClusterState
) -> None:
    state.outage.unread = True
    await keeper.sweep()
    assert table.taken() == []
    state.outage.unread = False
    await keeper.sweep()
    assert table.taken() == [("put", ["a", "b"])]
