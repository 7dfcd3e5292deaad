"""Random histories of workloads, faults and deaths, each audited at every write, at every plan and at rest.

`make test` plays a few that were chosen, or as many as `T9KSCHED_CHAOS_HISTORIES` says from seed `T9KSCHED_CHAOS_FIRST`
on; `make soak` plays 3,000 more (`T9KSCHED_CHAOS_SOAK`), of 2 to 2.5 s of one processor each, and looks for the faults
built in on purpose. A history that fails prints what happened, and `python -m tests.chaos.history SEED` runs it again.
"""

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from tests.chaos.history import Outcome, play
from tests.chaos.mutants import MUTANTS, broken

FIRST = int(os.environ.get("T9KSCHED_CHAOS_FIRST", "0"))
HISTORIES = int(os.environ.get("T9KSCHED_CHAOS_HISTORIES", "0"))
SOAK = int(os.environ.get("T9KSCHED_CHAOS_SOAK", "3000"))
CHOSEN = (11, 14, 18, 25, 30, 40, 42, 44, 54, 58, 60)
"""Of the first 80, a few that together met nearly nine tenths of all kinds of events in an eighth of the time: each was
taken for what it added per second. After a change of the script they are as good as any others.
"""
SEEDS = list(range(FIRST, FIRST + HISTORIES)) if HISTORIES else list(CHOSEN)
CHUNK = 3


@pytest.fixture(scope="module")
def players() -> Iterator[ProcessPoolExecutor]:
    """As many processes as there are processors: each history has one to itself."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def check(outcomes: Iterable[Outcome]) -> None:
    bad = [outcome for outcome in outcomes if outcome.faults]
    assert not bad, "\n\n".join(map(str, bad[:3])) + f"\n\nseeds: {[outcome.seed for outcome in bad]}"


@pytest.mark.parametrize("first", range(0, len(SEEDS), CHUNK))
def test_what_must_hold_holds_in_random_histories(first: int) -> None:
    """In this process: others would read all modules first, which takes as long as two histories."""
    check(map(play, SEEDS[first : first + CHUNK]))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100_000 + FIRST, 100_000 + FIRST + SOAK, 100))
def test_what_must_hold_holds_in_thousands_of_histories(players: ProcessPoolExecutor, first: int) -> None:
    check(players.map(play, range(first, first + 100), chunksize=2))


def noticed(fault: str) -> int | None:
    """The first of the ordinary seeds that turns red by this fault."""
    with broken(fault):
        for seed in range(300):
            if faults := play(seed).faults:
                assert not any("TypeError(" in text for text in faults), "the fault itself is not built in well"
                return seed
    return None


@pytest.fixture(scope="module")
def searches(players: ProcessPoolExecutor, request: pytest.FixtureRequest) -> dict[str, Future[int | None]]:
    """The search for a red history, by fault: all that were asked for at once, one on each processor."""
    params = (getattr(getattr(item, "callspec", None), "params", {}) for item in request.session.items)
    return {one["fault"]: players.submit(noticed, one["fault"]) for one in params if one.get("fault") in MUTANTS}


@pytest.mark.soak
@pytest.mark.parametrize("fault", MUTANTS)
def test_each_fault_built_in_on_purpose_turns_a_history_red(
    searches: dict[str, Future[int | None]], fault: str
) -> None:
    assert searches[fault].result() is not None, f"no history noticed: {fault}"
