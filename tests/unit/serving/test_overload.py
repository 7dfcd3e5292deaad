"""Who is let in when more comes than can be answered: the limit, the queue, and each caller's share."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.serving.overload import (
    FIRST_SECONDS,
    MOST_SENDING,
    STALL_SECONDS,
    TARGET_SECONDS,
    ConcurrencyLimiter,
    State,
    Ticket,
)

RUNNING, WAITING, SHARE, FULL, LATE = State.RUNNING, State.WAITING, State.SHARE, State.FULL, State.LATE


def arrivals(limiter: ConcurrencyLimiter, callers: str) -> list[Ticket]:
    """One request of each caller named, in that order, at time 0."""
    return [limiter.arrive(caller, "GET /x", 0.0) for caller in callers]


@pytest.mark.parametrize(
    ("callers", "states"),
    [
        ("aaa", [RUNNING] * 3),
        # One caller runs three quarters and waits with as many as the limit; the rest is its own excess.
        ("aaaaaaaaa", [RUNNING] * 3 + [WAITING] * 4 + [SHARE] * 2),
        # Another one always finds a place.
        ("aaaab", [RUNNING] * 3 + [WAITING] + [RUNNING]),
        # The queue is full: who has the longest queue gives way, newest first.
        ("aaaaaaabb", [RUNNING] * 3 + [WAITING] * 3 + [SHARE] + [RUNNING, WAITING]),
        # Many with one request each: none has more than others.
        ("abcdefghij", [RUNNING] * 4 + [WAITING] * 4 + [FULL] * 2),
    ],
)
def test_who_is_let_in(callers: str, states: list[State]) -> None:
    assert [ticket.state for ticket in arrivals(ConcurrencyLimiter(4), callers)] == states


def test_turns_go_to_callers_with_the_fewest_requests() -> None:
    limiter, told = ConcurrencyLimiter(4), Counter[str]()
    first = arrivals(limiter, "aaab")
    waiting = [
        limiter.arrive(caller, "GET /x", 0.0, lambda caller=caller: told.update([caller])) for caller in ("a", "a", "b")
    ]
    limiter.leave(first[0], 0.1)
    assert [ticket.state for ticket in waiting] == [WAITING, WAITING, RUNNING]
    assert told == {"b": 1}
    limiter.leave(first[1], 0.1)
    assert [ticket.state for ticket in waiting] == [RUNNING, WAITING, RUNNING]


def test_no_turn_is_put_off_for_long() -> None:
    """Also not one of a caller who has more that run than those who come later."""
    limiter = ConcurrencyLimiter(4)
    first = arrivals(limiter, "aabb")
    old = limiter.arrive("a", "GET /x", 0.0)
    new = limiter.arrive("c", "GET /x", 0.25)
    limiter.leave(first[3], 0.3)
    assert (old.state, new.state) == (RUNNING, WAITING)


def test_who_waits_too_long_is_refused_and_counted() -> None:
    limiter = ConcurrencyLimiter(4)
    *_, ticket = arrivals(limiter, "aaaa")
    limiter.leave(ticket, 0.3)
    assert (ticket.state, limiter.waiting, limiter.refused[LATE]) == (LATE, 0, 1)


def answer(limiter: ConcurrencyLimiter, took: float, at: float, count: int = 1, blocked: float = 0.0) -> None:
    """Answers of requests that came together."""
    tickets = [limiter.arrive(f"caller {number}", "GET /x", at) for number in range(count)]
    for ticket in tickets:
        limiter.leave(ticket, at + took, blocked)


def test_the_limit_follows_the_answers() -> None:
    limiter = ConcurrencyLimiter(64, least=4)
    answer(limiter, TARGET_SECONDS / 10, 0.0)
    for second in range(1, 30):
        answer(limiter, TARGET_SECONDS * 2, float(second))
    assert limiter.limit == 4
    for second in range(30, 400):
        answer(limiter, TARGET_SECONDS / 10, float(second), count=int(limiter.limit))
    assert limiter.limit > 25


def test_what_always_takes_long_is_not_slow() -> None:
    limiter = ConcurrencyLimiter(64)
    for second in range(30):
        answer(limiter, TARGET_SECONDS * 10, float(second))
    assert limiter.limit == 16


def test_a_slow_sender_delays_no_other_caller() -> None:
    limiter = ConcurrencyLimiter(64)
    answer(limiter, 0.01, 0.0)
    for second in range(1, 30):
        answer(limiter, 20.0, 30.0 * second, blocked=19.99)
    assert limiter.limit == 16


@pytest.mark.parametrize(("pace", "waiting"), [(0.01, 30), (0.1, 3), (1.0, 1)])
def test_as_many_wait_as_get_their_turn_in_time(pace: float, waiting: int) -> None:
    """After a while in which the queue was never empty; the limit itself is at its lowest."""
    limiter, now, known, number = ConcurrencyLimiter(64), 0.0, list[Ticket](), itertools.count()
    for _ in range(400):
        now += pace
        if running := [one for one in known if one.state is RUNNING]:
            known.remove(running[0])
            limiter.leave(running[0], now)
        while (ticket := limiter.arrive(f"caller {next(number)}", "GET /x", now)).state in (RUNNING, WAITING):
            known.append(ticket)
        assert ticket.state is FULL
    assert limiter.waiting == pytest.approx(waiting, abs=2)


def test_no_request_joins_a_queue_that_stands_still() -> None:
    limiter = ConcurrencyLimiter(4)
    running = arrivals(limiter, "abcde")
    limiter.leave(running[0], 0.01)
    assert limiter.arrive("f", "GET /x", 0.02).state is WAITING
    assert limiter.arrive("g", "GET /x", STALL_SECONDS + FIRST_SECONDS).state is FULL


def test_who_sends_slowly_takes_no_place() -> None:
    limiter = ConcurrencyLimiter(4)
    slow = arrivals(limiter, "aaab")
    fast = limiter.arrive("c", "GET /x", 0.0)
    assert limiter.pause(slow[0], 0.1)
    assert fast.state is RUNNING
    limiter.resume(slow[0])
    assert limiter.running == 5
    for ticket in (*slow, fast):
        limiter.leave(ticket, 0.2)
    assert (limiter.running, limiter.waiting) == (0, 0)


def test_few_bodies_of_one_caller_are_awaited() -> None:
    limiter = ConcurrencyLimiter(64)
    slow = arrivals(limiter, "a" * (MOST_SENDING + 1))
    assert [limiter.pause(ticket, 0.1) for ticket in slow] == [True] * MOST_SENDING + [False]
    assert limiter.running == 1
    for ticket in slow[:-1]:
        limiter.resume(ticket)
    for ticket in slow:
        limiter.leave(ticket, 0.2)
    assert limiter.running == 0


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 12))
def test_nothing_is_lost_in_any_order(seed: int, most: int) -> None:
    """Whatever comes and goes, at most the limit runs, and counts come back to zero."""
    limiter, now, rng = ConcurrencyLimiter(most), 0.0, random.Random(seed)
    known: list[Ticket] = []
    for _ in range(150):
        now += rng.random() / 5
        here = [ticket for ticket in known if ticket.state in (RUNNING, WAITING)]
        if here and rng.random() < 0.45:
            gone = rng.choice(here)
            limiter.leave(gone, now)
            known.remove(gone)
        else:
            known.append(limiter.arrive(rng.choice("aaaaabc"), rng.choice(("GET /x", "POST /y")), now))
        states = Counter(ticket.state for ticket in known)
        assert (states[RUNNING], states[WAITING]) == (limiter.running, limiter.waiting)
        assert limiter.running <= most
    for ticket in [ticket for ticket in known if ticket.state in (RUNNING, WAITING)]:
        limiter.leave(ticket, now)
    for ticket in known:
        if ticket.state is RUNNING:
            limiter.leave(ticket, now)
    assert (limiter.running, limiter.waiting) == (0, 0)
