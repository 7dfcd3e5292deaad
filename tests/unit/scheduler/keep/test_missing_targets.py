"""Thousands of jobs that wait for what is not there cost nothing until it comes."""

from typing import Any

import pytest

from t9ksched.scheduler.keep.dependency_keeper import DependencyKeeper
from t9ksched.scheduler.keep.targets import Targets
from tests.unit.scheduler.keep.test_dependency_keeper import SECOND, Played, element
from tests.unit.scheduler.state.test_admission_pieces import looks
from tests.unit.scheduler.state.test_state import pod

MANY = 50


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """UIDs of the jobs that the keeper looks at."""
    found: list[str] = []
    look = DependencyKeeper._look

    async def counted(self: DependencyKeeper, uid: str) -> None:
        found.append(uid)
        await look(self, uid)

    monkeypatch.setattr(DependencyKeeper, "_look", counted)
    return found


async def waiting(played: Played) -> None:
    """Jobs that wait, each for a Job, a Pod or an array that is not there."""
    for at in range(MANY):
        played.job(f"w{at}", after=f"{('Job', 'Pod')[at % 2]}/t{at}")
    for _ in range(3):
        assert await played.starts() == []


async def test_nothing_is_looked_at_while_nothing_comes(played: Played, looked: list[str]) -> None:
    await waiting(played)
    asked = played.rows.asked
    looked.clear()
    with looks() as judged:
        for _ in range(3):
            played.job("other")
            assert await played.starts() == ["other"]
    assert not looked
    assert set(judged) == {"other-p"}
    assert played.rows.asked == asked


@pytest.mark.parametrize(
    ("waits", "comes"),
    [
        ("w4", lambda played: played.job("t4")),
        ("w5", lambda played: played.state.upsert_pod(pod("t5", queue="q"))),
        ("w6", lambda played: element(played, 0)),
    ],
)
async def test_what_comes_is_found_by_those_who_wait_for_it(
    played: Played, looked: list[str], waits: str, comes: Any
) -> None:
    await waiting(played)
    if waits == "w6":
        played.job("w6", after="Job/sweep", uid="w6")
        await played.starts()
    looked.clear()
    comes(played)
    await played.starts()
    assert set(looked) == {waits}
    await played.starts()  # what came was judged, which is a change
    looked.clear()
    await played.starts()
    assert not looked, "it is known now what is meant"


async def test_the_database_is_asked_ever_more_seldom(played: Played, looked: list[str]) -> None:
    played.job("w", after="Job/t")
    await played.starts()
    asked = []
    for _ in range(1800):
        before = played.rows.asked
        played.now += SECOND
        await played.keeper.sweep()
        asked.append(played.rows.asked > before)
    assert sum(asked[:60]) <= 6
    assert sum(asked[600:]) == 4
    played.rows.jobs_gone["Job/t"] = ("t", "Succeeded")
    played.now += 300 * SECOND
    assert await played.starts() == ["w"]


async def test_nothing_is_kept_of_those_who_wait_no_more(played: Played) -> None:
    await waiting(played)
    for at in range(MANY):
        played.remove(f"w{at}")
    await played.starts()
    targets: Targets = played.keeper._targets
    assert not targets._missing
