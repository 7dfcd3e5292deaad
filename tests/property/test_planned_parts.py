"""Planned starts of parts of cards, in histories in which all end when they were to, or earlier.

The oracle counts card by card: no card is promised beyond what it has at any moment, what runs included; no plan is
later than the first moment at which a pod finds cards beside what was planned before, or is sooner now; and plans are
kept.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.card_size import CORES
from t9ksched.model.cards import CardGrant
from t9ksched.model.podclass import PodClass
from tests.ahead import HOUR, Pool
from tests.builders import divided_node, node, pod_class, shared_class
from tests.property import slots
from tests.property.test_engine import RELAXED

MEMORY, PLACES = 1000, 4
FOREVER = 1e9
SHAPES = [
    shared_class(500, 400, cpu=0, ram=0),
    shared_class(300, 100, cpu=0, ram=0),
    shared_class(600, 600, cpu=0, ram=0),
    shared_class(0, 500, cpu=0, ram=0),
    shared_class(400, 300, cards=2, cpu=0, ram=0),
    shared_class(100, 900, cpu=0, ram=0),
    pod_class(cpu=0, memory=0, gpu=1),
    pod_class(cpu=0, memory=0, gpu=2),
    *slots.unequal(cpu=0, ram=0),
]
Card = tuple[str, int]


def taken(of: PodClass, cards: CardGrant) -> slots.Taken:
    """What a pod takes with these cards, and that this is what it is charged."""
    found = slots.takes(of, [those for _, those in cards.split(of.cards)], MEMORY)
    assert {part.index: (part.cores, part.memory, part.places) for part in cards.parts} == found
    assert [len(those) for _, those in cards.split(of.cards)] == [one.count for one in of.cards]
    return found


@dataclass(frozen=True)
class Use:
    """What a pod of a job holds, or is to hold, from when to when; `kept` are cores that its plan keeps beside."""

    job: str
    begin: float
    end: float
    card: Card
    cores: int
    memory: int
    places: int
    kept: int = 0


class History:
    """A pool of nodes that divide their cards, and one that does not."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.cards: dict[str, int] = {}
        facts = []
        for at in range(rng.randint(1, 2)):
            self.cards[f"d{at}"] = rng.randint(1, 3)
            made = divided_node(f"d{at}", self.cards[f"d{at}"], memory=MEMORY, places=PLACES, cpu=1000, pods=1000)
            facts.append(made)
        self.whole = rng.random() < 0.3
        if self.whole:
            labels = {"nvidia.com/gpu.memory": str(MEMORY)}
            facts.append(node("w", gpu=rng.randint(1, 2), cpu=1000, pods=1000, labels=labels))
        self.pool = Pool(facts=facts)
        self.runs: dict[str, float] = {}
        self.hour = 0.0
        self._nth = 0

    def step(self) -> None:
        rng, pool = self.rng, self.pool
        before = dict(pool.planned)
        came = None
        if rng.random() < 0.7:
            self._nth += 1
            came = f"j{self._nth:02}"
            hours = rng.choice([0, 1, 2, 3, 5, 8]) if rng.random() < 0.9 else 0
            self.runs[came] = max(hours - rng.choice([0, 0, 0, 1]), 0.5) if hours else FOREVER
            pool.submit(came, rng.choice([1, 1, 1, 2, 3]), hours, of_class=rng.choice(SHAPES))
        else:
            # No further than the first end or the first start: what is due then is to happen then.
            moments = [self._end(name) for name in pool.running] + list(pool.planned.values())
            self.hour = min([self.hour + rng.choice([0.25, 1, 2]), *(at for at in moments if at > self.hour)])
            for name in sorted(pool.running):
                if self._end(name) <= self.hour:
                    pool.end(name)
        uses = list(self.uses()) if came is not None else []
        pool.cycle(self.hour)
        self.check()
        for name, at in before.items():
            if name in pool.waiting:
                assert pool.planned.get(name, FOREVER) <= at, f"{name} was to start at {at}: {pool.planned}"
            else:
                assert pool.started[name] <= at
        if came is not None and not self.whole:
            # An older job whose plan is sooner now goes first, be it to cards that were free for the one that came.
            sooner = {name for name, at in before.items() if self._start(name) < at}
            stay = (one for one in uses if one.job not in sooner)
            self.first(came, [*stay, *(one for one in self.uses() if one.job in sooner)])

    def _start(self, name: str) -> float:
        return self.pool.started[name] if name in self.pool.started else self.pool.planned[name]

    def _end(self, name: str) -> float:
        return self.pool.started[name] + self.runs[name]

    def uses(self) -> Iterator[Use]:
        """What running jobs have until they end, and what plans take."""
        for name in self.pool.running:
            of, at, places = self.pool.job(name)
            end = (at + of.lasts) / HOUR if of.lasts else FOREVER
            for where, grant in places:
                assert bool(grant.parts) == (where in self.cards)
                for index, amounts in taken(of.waiting[0].pod_class, grant).items() if grant.parts else ():
                    yield Use(name, at / HOUR, end, (where, index), *amounts)
        for one in self.pool.plans:
            assert bool(one.cards.parts) == (one.node in self.cards)
            end = one.until / HOUR if one.until else FOREVER
            for index, amounts in taken(one.pod_class, one.cards).items() if one.cards.parts else ():
                # A part without cores needs a card with some left: its plan keeps a thousandth.
                kept = int(not amounts[0])
                yield Use(one.owner, one.since / HOUR, end, (one.node, index), *amounts, kept)

    def check(self) -> None:
        """No card has more owners at any moment than it has room for."""
        uses = list(self.uses())
        for moment in {one.begin for one in uses}:
            for card in {one.card for one in uses}:
                here = [one for one in uses if one.card == card and one.begin <= moment < one.end]
                assert card[1] < self.cards[card[0]]
                # A job may itself take the last of the cores: its pods come in the order in which they were planned.
                jobs = {one.job: 0 for one in here}
                for one in here:
                    jobs[one.job] += one.cores
                kept = sum(not jobs[name] for name in {one.job for one in here if one.kept})
                assert sum(jobs.values()) + kept <= CORES, f"{card} at {moment}"
                assert sum(one.memory for one in here) <= MEMORY, f"{card} at {moment}"
                assert sum(one.places for one in here) <= PLACES

    def first(self, name: str, uses: list[Use]) -> None:
        """A job of one pod starts, or is to start, no later than it could beside what has its cards before it."""
        pool = self.pool
        waits = pool.waiting.get(name)
        if waits is None or len(waits.waiting) > 1:
            return
        lasts = waits.lasts / HOUR or FOREVER
        least = None
        for at in sorted({self.hour, *(one.end for one in uses if self.hour < one.end < FOREVER)}):
            if self._fits(waits.waiting[0].pod_class, at, at + lasts, uses):
                least = at
                break
        # Other plans may have moved, so that it is even earlier.
        if least is not None and least > self.hour and len(pool.planned) < 10:
            assert pool.planned.get(name, FOREVER) <= least, f"{name} could start at {least}: {pool.planned}"

    def _fits(self, of: PodClass, begin: float, end: float, uses: list[Use]) -> bool:
        for where, cards in self.cards.items():
            moments = [
                [self._left((where, index), at, uses) for index in range(cards)]
                for at in self._moments(begin, end, uses)
            ]
            if any(all(slots.has_room(of, way, left, MEMORY) for left in moments) for way in slots.ways(of, cards)):
                return True
        return False

    @staticmethod
    def _moments(begin: float, end: float, uses: list[Use]) -> list[float]:
        return [begin, *(one.begin for one in uses if begin < one.begin < end)]

    @staticmethod
    def _left(card: Card, at: float, uses: list[Use]) -> tuple[int, int, int]:
        here = [one for one in uses if one.card == card and one.begin <= at < one.end]
        return (
            CORES - sum(one.cores + one.kept for one in here),
            MEMORY - sum(one.memory for one in here),
            PLACES - sum(one.places for one in here),
        )


@given(st.randoms(use_true_random=True), st.integers(5, 30))
@settings(RELAXED, max_examples=40)
def test_no_card_is_promised_twice_and_plans_are_kept(rng: random.Random, steps: int) -> None:
    history = History(rng)
    for _ in range(steps):
        history.step()


@pytest.mark.parametrize("seed", [44, 48, 71, 96, 193, 2633221, 3000102])
def test_a_job_starts_on_the_cards_that_were_planned_for_it(seed: int) -> None:
    """In these histories other cards would do for a gang with unequal containers, and are planned for later jobs; or a
    pod takes the last of the cores of a card after another that needs none, but a card with some left."""
    history = History(random.Random(seed))
    for _ in range(30):
        history.step()


def test_a_plan_that_is_sooner_now_may_have_the_cards_of_the_job_that_came() -> None:
    """The older job moves to cards that are free from hour 4 on; the one that came would have had one of them at 8."""
    history = History(random.Random(497502))
    for _ in range(8):
        history.step()
