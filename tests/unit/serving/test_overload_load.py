"""The limiter before a server that shares its time among what it works on, in virtual time."""

import heapq
import itertools
import random
from dataclasses import dataclass, field

import pytest

from t9ksched.serving.overload import WAIT_SECONDS, ConcurrencyLimiter, State, Ticket

CALLERS, SECONDS, STEP = 16, 8.0, 0.002


@dataclass
class Seen:
    """Seconds from the arrival to the answer, or to the refusal."""

    served: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    def part(self, of: list[float], percent: int) -> float:
        """That so many of a hundred are not above."""
        return sorted(of)[len(of) * percent // 100] if of else 0.0


def load(factor: float, rate: float = 100.0, away: float = 0.01, seed: int = 1) -> Seen:
    """A server that does `rate` requests a second, each after waiting `away` seconds for others, under so much load."""
    dice, limiter, seen = random.Random(seed), ConcurrencyLimiter(64), Seen()
    moments = itertools.accumulate(dice.expovariate(rate * factor) for _ in itertools.count())
    arrivals = list(itertools.takewhile(lambda at: at < SECONDS, moments))
    arrived: dict[Ticket, float] = {}
    working: dict[Ticket, float] = {}
    elsewhere: list[tuple[float, int, Ticket]] = []
    waiting: list[Ticket] = []
    number, now = itertools.count(), 0.0
    arrivals.reverse()

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
                seen.refused.append(0.0)
        while elsewhere and elsewhere[0][0] <= now:
            heapq.heappop(elsewhere)
        blocked = {ticket for _, _, ticket in elsewhere}
        busy = [ticket for ticket in working if ticket not in blocked]
        for ticket in busy:
            working[ticket] -= STEP / len(busy)
        for ticket in [one for one in busy if working[one] <= 0]:
            del working[ticket]
            limiter.leave(ticket, now)
            seen.served.append(now - arrived[ticket])
        for ticket in list(waiting):
            if ticket.state is State.WAITING and now - arrived[ticket] > WAIT_SECONDS:
                limiter.leave(ticket, now)
            if ticket.state is not State.WAITING:
                waiting.remove(ticket)
                if ticket.state is State.RUNNING:
                    begin(ticket)
                else:
                    seen.refused.append(now - arrived[ticket])
    return seen


@pytest.mark.parametrize(("rate", "factor", "away"), [(100.0, 3.0, 0.01), (100.0, 10.0, 0.01), (100.0, 3.0, 0.2)])
def test_the_excess_is_refused_at_once_and_the_rest_is_served_in_time(rate: float, factor: float, away: float) -> None:
    """A server of which each request takes a hundredth of a second of its time."""
    seen = load(factor, rate, away)
    assert len(seen.served) > 0.8 * rate * SECONDS
    assert seen.part(seen.served, 99) < 1.0
    assert seen.part(seen.refused, 99) < 0.1


def test_what_can_be_served_is_not_refused() -> None:
    seen = load(0.7)
    assert not seen.refused
    assert seen.part(seen.served, 99) < 0.5
