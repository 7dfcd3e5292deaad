"""The limiter before a server that shares its time among what it works on, in virtual time."""

import heapq
import itertools
import random
from dataclasses import dataclass, field

import pytest

from t9ksched.serving.overload import STALL_SECONDS, ConcurrencyLimiter, State, Ticket

CALLERS, SECONDS, STEP = 16, 8.0, 0.002
NEVER = (-1.0, -1.0)


@dataclass
class Seen:
    """Seconds from the arrival to the answer, or to the refusal."""

    served: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    def part(self, of: list[float], percent: int) -> float:
        """That so many of a hundred are not above."""
        return sorted(of)[len(of) * percent // 100] if of else 0.0


def load(
    factor: float,
    rate: float = 100.0,
    away: float = 0.01,
    seed: int = 1,
    *,
    after: float = 0.0,
    still: tuple[float, float] = NEVER,
) -> Seen:
    """A server that does `rate` requests a second, each after waiting `away` seconds for others, under so much load.

    What arrived before `after` is not told. In the time of `still` it works on none.
    """
    dice, limiter, seen = random.Random(seed), ConcurrencyLimiter(64), Seen()
    moments = itertools.accumulate(dice.expovariate(rate * factor) for _ in itertools.count())
    arrivals = list(itertools.takewhile(lambda at: at < SECONDS, moments))
    arrived: dict[Ticket, float] = {}
    working: dict[Ticket, float] = {}
    elsewhere: list[tuple[float, int, Ticket]] = []
    waiting: list[Ticket] = []
    number, now = itertools.count(), 0.0
    arrivals.reverse()

    def tell(told: list[float], at: float) -> None:
        if at >= after:
            told.append(now - at)

    def begin(ticket: Ticket) -> None:
        heapq.heappush(elsewhere, (now + away, next(number), ticket))
        working[ticket] = dice.expovariate(rate)

    while arrivals or working or waiting:
        now += STEP
        while arrivals and arrivals[-1] <= now:
            at = arrivals.pop()
            ticket = limiter.arrive(f"caller {dice.randrange(CALLERS)}", dice.choice(("GET a", "POST b")), at)
            arrived[ticket] = at
            if ticket.state is State.RUNNING:
                begin(ticket)
            elif ticket.state is State.WAITING:
                waiting.append(ticket)
            else:
                tell(seen.refused, now)
        while elsewhere and elsewhere[0][0] <= now:
            heapq.heappop(elsewhere)
        blocked = {ticket for _, _, ticket in elsewhere}
        stands = still[0] <= now < still[1]
        busy = [ticket for ticket in working if ticket not in blocked and not stands]
        for ticket in busy:
            working[ticket] -= STEP / len(busy)
        for ticket in [one for one in busy if working[one] <= 0]:
            del working[ticket]
            limiter.leave(ticket, now)
            tell(seen.served, arrived[ticket])
        for ticket in list(waiting):
            if ticket.state is State.WAITING and now - arrived[ticket] > ticket.patience:
                limiter.leave(ticket, now)
            if ticket.state is not State.WAITING:
                waiting.remove(ticket)
                if ticket.state is State.RUNNING:
                    begin(ticket)
                else:
                    tell(seen.refused, arrived[ticket])
    return seen


@pytest.mark.parametrize(("rate", "factor", "away"), [(100.0, 3.0, 0.01), (100.0, 10.0, 0.01), (100.0, 3.0, 0.2)])
def test_the_excess_is_refused_at_once_and_the_rest_is_served_in_time(rate: float, factor: float, away: float) -> None:
    """A server of which each request takes a hundredth of a second of its time."""
    seen = load(factor, rate, away, after=STALL_SECONDS)
    assert len(seen.served) > 0.8 * rate * (SECONDS - STALL_SECONDS)
    assert seen.part(seen.served, 99) < 1.2
    assert seen.part(seen.refused, 99) < 0.1


def test_what_can_be_served_is_not_refused() -> None:
    seen = load(0.7)
    assert not seen.refused
    assert seen.part(seen.served, 99) < 0.5


def test_a_server_that_stands_still_for_a_moment_refuses_nothing() -> None:
    seen = load(0.5, still=(4.0, 5.0))
    assert not seen.refused
    assert max(seen.served) > 1.0, "it did stand still"
