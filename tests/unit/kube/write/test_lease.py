"""Leader election on a clock of the test's own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.kube.errors import Conflict, ServerError
from t9ksched.kube.resources import LEASES
from t9ksched.kube.write import clock as kube_clock
from t9ksched.kube.write.lease import Claim, LeaderElection, Sighting, judge
from t9ksched.model.leadership import Timing
from tests.unit.kube.memory import MemoryPort


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def no_sleep(_: float) -> None:
    pass


def candidate(port: MemoryPort, identity: str, clock: Clock, told: list[bool] | None = None) -> LeaderElection:
    return LeaderElection(
        port,  # type: ignore[arg-type]
        "t9k-scheduler",
        "t9k-system",
        identity,
        clock=kube_clock.Clock(clock, lambda: datetime(2026, 1, 1, tzinfo=UTC), no_sleep),
        timing=Timing.of(6),
        on_change=told.append if told is not None else None,
    )


def lease(port: MemoryPort) -> dict[str, Any]:
    return port.one(LEASES, "t9k-scheduler", "t9k-system")["spec"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("holder", "age", "expected"),
    [
        ("me", 0, Claim.RENEW),
        ("me", 99, Claim.RENEW),
        ("", 0, Claim.TAKE),
        (None, 0, Claim.TAKE),
        ("other", 14.9, Claim.WAIT),
        ("other", 15, Claim.TAKE),
    ],
)
def test_judge(holder: str | None, age: float, expected: Claim) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    assert judge({"spec": spec}, "me", Sighting("v", 100.0), 100.0 + age) is expected


async def test_the_first_takes_it_and_the_second_waits_until_it_lapses() -> None:
    port, clock = MemoryPort(), Clock()
    told: list[bool] = []
    first, second = candidate(port, "a", clock, told), candidate(port, "b", clock)
    assert await first.attempt()
    assert not await second.attempt()
    assert (first.epoch, second.holder) == (1, "a")
    clock.seconds += 4.4
    assert first.holds()
    clock.seconds += 0.2
    assert not first.holds(), "it stops before another may start"
    clock.seconds += 1.3
    assert not await second.attempt()
    clock.seconds += 0.2
    assert await second.attempt()
    assert second.epoch == 2
    assert not await first.attempt()
    assert told == [True, False]
    assert lease(port)["holderIdentity"] == "b"


async def test_renewing_keeps_it_and_changes_no_epoch() -> None:
    port, clock = MemoryPort(), Clock()
    first, second = candidate(port, "a", clock), candidate(port, "b", clock)
    for _ in range(20):
        assert await first.attempt()
        assert not await second.attempt()
        clock.seconds += 1
    assert first.epoch == 1


async def test_a_lease_given_back_is_free_at_once() -> None:
    port, clock = MemoryPort(), Clock()
    first, second = candidate(port, "a", clock), candidate(port, "b", clock)
    await first.attempt()
    await first.release()
    assert not first.holds()
    assert await second.attempt()
    await first.release()
    assert lease(port)["holderIdentity"] == "b", "only the holder gives it back"


async def test_a_restart_under_the_same_name_is_a_new_term() -> None:
    port, clock = MemoryPort(), Clock()
    await candidate(port, "a", clock).attempt()
    again = candidate(port, "a", clock)
    assert await again.attempt()
    assert again.epoch == 2


@pytest.mark.parametrize("failure", [ServerError(500), Conflict(409)])
@pytest.mark.parametrize("verb", ["get", "replace"])
async def test_failing_requests_let_it_end_by_the_clock(verb: str, failure: Exception) -> None:
    port, clock = MemoryPort(), Clock()
    first = candidate(port, "a", clock)
    await first.attempt()
    port.fail[verb] = [failure] * 99  # type: ignore[list-item]
    clock.seconds += 2.5
    assert await first.attempt(), "one failure does not end it"
    clock.seconds += 2.5
    assert not await first.attempt()


async def test_an_answer_counts_for_a_while_whichever_process_leads() -> None:
    port, clock = MemoryPort(), Clock()
    await candidate(port, "other", clock).attempt()
    waiting = candidate(port, "me", clock)
    assert not waiting.heard(30)
    assert not await waiting.attempt()
    assert waiting.heard(30)
    clock.seconds += 20
    port.fail["get"] = [ServerError(500, "", "down")]
    await waiting.attempt()
    assert waiting.heard(30)
    clock.seconds += 11
    assert not waiting.heard(30)


async def test_a_losing_creation_is_no_leadership() -> None:
    port, clock = MemoryPort(), Clock()
    port.fail["create"] = [Conflict(409)]
    assert not await candidate(port, "a", clock).attempt()


async def test_a_write_ends_before_the_lease_may_pass_on() -> None:
    port, clock = MemoryPort(), Clock()
    first, second = candidate(port, "a", clock), candidate(port, "b", clock)
    assert first.left() == Timing.of(6).write_seconds, "before it leads, as at the last moment of a lease"
    await first.attempt()
    await second.attempt()
    while first.holds():
        assert clock.seconds + first.left() < second._sighting.at + 6
        clock.seconds += 0.3


async def test_who_waits_asks_at_the_moment_at_which_the_lease_lapses() -> None:
    port, clock = MemoryPort(), Clock()
    await candidate(port, "a", clock).attempt()
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.seconds += seconds
        if second.holds():
            raise asyncio.CancelledError

    second = candidate(port, "b", clock)
    second._sleep = wait
    began = clock.seconds
    with pytest.raises(asyncio.CancelledError):
        await second.run()
    assert 6 <= sum(waits[:-1]) < 6.2
    assert clock.seconds - began == pytest.approx(sum(waits))


async def test_a_lease_given_back_is_not_taken_again_and_free_only_when_writes_have_ended() -> None:
    port, clock = MemoryPort(), Clock()
    told: list[bool] = []
    first, second = candidate(port, "a", clock, told), candidate(port, "b", clock)
    await first.attempt()
    held: list[str] = []

    async def wait(seconds: float) -> None:
        held.append(lease(port)["holderIdentity"])
        assert not first.holds()
        assert seconds == pytest.approx(5.5)
        clock.seconds += seconds

    first._sleep = wait
    await first.give_back()
    assert held == ["a"]
    assert not await first.attempt()
    assert await second.attempt()
    assert told == [True, False]


@pytest.mark.parametrize("timing", [(15, 15.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0)])
def test_timing_that_cannot_be_safe_is_refused(timing: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="deadline"):
        Timing(*timing)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["attempt", "release", "fail"]), st.floats(0, 12)),
        max_size=60,
    )
)
async def test_never_two_leaders_at_once(moves: list[tuple[int, str, float]]) -> None:
    port, clock = MemoryPort(), Clock()
    all_of_them = [candidate(port, name, clock) for name in "abc"]
    for who, what, seconds in moves:
        if what == "release":
            await all_of_them[who].release()
        else:
            port.fail["replace"] = [ServerError(500)] if what == "fail" else []
            await all_of_them[who].attempt()
        assert sum(one.holds() for one in all_of_them) <= 1
        clock.seconds += seconds
        assert sum(one.holds() for one in all_of_them) <= 1
