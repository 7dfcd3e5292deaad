"""Faults put in by chance: how many of them the invariants notice, and that the machinery puts in what it says."""

import ast
import os

import pytest

from tests.mutation.operators import faults, with_fault
from tests.mutation.sample import all_faults, attempt, attempts, listed, sample

SAMPLE = int(os.environ.get("T9KSCHED_MUTATION_SAMPLE", "100"))
SEED = int(os.environ.get("T9KSCHED_MUTATION_SEED", "3"))
LEAST = {"engine": 0.8, "scheduler": 0.8, "admission": 0.8}
"""What part of a room's sample must be killed; a floor below what was measured (ARCHITECTURE.md), not the aim, 0.9."""
PARTS = {"engine": 0.5, "scheduler": 0.8, "admission": 0.1}
"""What part of the sample is taken from each room."""
SOURCE = '''
LIMIT = 3

class Room:
    def fits(self, used: int, more: int) -> bool:
        """Whether it fits."""
        log.info("asked", used=used)
        if used < 0:
            raise ValueError(f"{used + 1} is no room")
        self.asked += 1
        return used + more <= LIMIT and not self.closed
'''


def test_what_is_put_in() -> None:
    assert {fault.key.removeprefix("Room.fits: ") for fault in faults(SOURCE)} == {
        "used < 0 -> used <= 0",
        "0 -> 1",
        "self.asked += 1 -> nothing",
        "1 -> 2",
        "used + more <= LIMIT and (not self.closed) -> used + more <= LIMIT",
        "used + more <= LIMIT and (not self.closed) -> not self.closed",
        "used + more <= LIMIT and (not self.closed) -> used + more <= LIMIT or not self.closed",
        "used + more <= LIMIT -> used + more < LIMIT",
        "used + more -> used - more",
        "not self.closed -> self.closed",
    }


def test_each_fault_changes_one_place() -> None:
    whole = ast.unparse(ast.parse(SOURCE)).splitlines()
    for fault in faults(SOURCE):
        changed = ast.unparse(with_fault(SOURCE, fault.key)).splitlines()
        assert sum(one != other for one, other in zip(whole, changed, strict=True)) == 1, fault.key
    with pytest.raises(KeyError):
        with_fault(SOURCE, "Room.fits: 7 -> 8")


def test_the_survivors_that_are_listed_are_there_still() -> None:
    gone = listed().keys() - set(all_faults())
    assert not gone, "their code has changed: try them again, and take those that are killed now out of survivors.txt"
    reasons = ("equivalent", "speed", "words", "preference")
    assert all(reason.startswith((*reasons, "open")) for reason in listed().values())


@pytest.mark.soak
def test_a_known_fault_is_noticed() -> None:
    outcome = attempt(("t9ksched.engine.ledger", "Ledger.can_charge: needs > has -> needs >= has"))
    assert not outcome.survived, outcome


@pytest.mark.soak
@pytest.mark.parametrize("room", LEAST)
def test_faults_by_chance_are_noticed(room: str) -> None:
    reasons, killed, open_ = listed(), 0, []
    count = max(1, int(PARTS[room] * SAMPLE))
    for outcome in attempts(sample(count, SEED, f"t9ksched.{room}."), os.cpu_count() or 1):
        print(outcome, flush=True)  # noqa: T201
        killed += not outcome.survived
        if outcome.survived and reasons.get((outcome.module, outcome.key), "open").startswith("open"):
            open_.append(f"{outcome.module}|{outcome.key}")
    share = killed / max(1, killed + len(open_))
    print(f"{killed} of {killed + len(open_)} killed, without those that need not be: {share:.0%}")  # noqa: T201
    assert share >= LEAST[room], "\n".join(open_)
