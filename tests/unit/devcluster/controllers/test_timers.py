"""The heap of timers, on a clock that the test moves."""

import asyncio

from t9ksched.devcluster.controllers.timers import Timers, to_seconds, to_text


class Hand:
    """A clock that a test sets by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_what_is_due_fires_in_order_of_time() -> None:
    clock, fired = Hand(), []
    timers = Timers(clock)
    for when in (130, 110, 120):
        timers.at(when, when, lambda when=when: fired.append(when))
    clock.now = 120.0
    timers.fire()
    assert fired == [110, 120]
    clock.now = 131.0
    timers.fire()
    assert fired == [110, 120, 130]


async def test_a_key_has_one_time_and_can_be_cancelled() -> None:
    clock, fired = Hand(), []
    timers = Timers(clock)
    timers.at(110, "a", lambda: fired.append("early"))
    timers.at(120, "a", lambda: fired.append("late"))
    timers.at(110, "b", lambda: fired.append("b"))
    timers.cancel("b")
    timers.cancel("never set")
    clock.now = 115.0
    timers.fire()
    assert fired == []
    clock.now = 125.0
    timers.fire()
    assert fired == ["late"]


async def test_an_action_may_set_its_own_key_again() -> None:
    clock, fired = Hand(), []
    timers = Timers(clock)

    def again() -> None:
        fired.append(clock.now)
        timers.at(clock.now + 10, "a", again)

    timers.at(100, "a", again)
    timers.fire()
    clock.now = 110.0
    timers.fire()
    timers.stop()
    clock.now = 120.0
    timers.fire()
    assert fired == [100.0, 110.0]


async def test_the_alarm_rings_by_itself() -> None:
    done = asyncio.Event()
    timers = Timers(asyncio.get_running_loop().time)
    timers.at(timers.clock() + 0.01, "a", done.set)
    await asyncio.wait_for(done.wait(), 60)


def test_times_as_kubernetes_writes_them() -> None:
    assert to_text(1_700_000_000.9) == "2023-11-14T22:13:20Z"
    assert to_seconds("2023-11-14T22:13:20Z") == 1_700_000_000
    assert to_seconds(None) is None
    assert to_seconds("soon") is None
