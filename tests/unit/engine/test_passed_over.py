"""Gangs that are told to wait by numbers alone are told what their turn would say: `Pool.cycle` gives each its turn."""

import random
from unittest.mock import patch

import pytest

from t9ksched.engine.actions.passed_over import PassedOver
from t9ksched.engine.policy import Planning, Starvation
from t9ksched.model.reasons import Code
from tests.ahead import Pool
from tests.builders import GPU, pod_class, queue

QUEUES = {
    "q": queue(ordering="Backfill"),
    "small": queue(quota={GPU: 20}, ordering="Backfill"),
    "high": queue(ordering="Backfill", priority=10),
}


@pytest.mark.parametrize(
    "starvation", [None, Starvation(after_seconds=7200, most_held_percent=40)], ids=["", "starving"]
)
@pytest.mark.parametrize("seed", range(8))
def test_a_long_queue(seed: int, starvation: Starvation | None) -> None:
    rng, told, few = random.Random(seed), PassedOver.told, Planning(per_queue=2)
    pool = Pool(8, 4, few, QUEUES, starvation=starvation)
    answers = []

    def noted(self, line):  # type: ignore[no-untyped-def]
        found = yield from told(self, line)
        answers.extend(reasons[0].code for _, reasons in found)
        return found

    with patch.object(PassedOver, "told", noted):
        for hour in range(40):
            for at in range(rng.choice((0, 1, 6))):
                of, pods, cards = rng.choice(sorted(QUEUES)), rng.randint(1, 8), rng.choice((1, 1, 2, 4))
                pool.submit(f"{of}-{hour}-{at}", pods, rng.choice((0, 1, 2, 5, 9)), cards=cards, of=of)
            running = sorted(pool.running)
            for name in running:
                limit = pool.limit(name)
                if hour - pool.started[name] >= (limit or 12) or rng.random() < 0.05:
                    pool.end(name)
            pool.cycle(hour)
    codes = set(answers)
    assert codes
    if seed == 0 and starvation is None:
        assert codes == {Code.INSUFFICIENT_RESOURCES, Code.HELD_FOR_OTHER, Code.QUOTA_EXCEEDED}


def told(pool: Pool, hour: float) -> dict[str, str]:
    return {one.gang: one.reasons[0].message for one in pool.cycle(hour).waiting}


def test_each_is_told_of_its_own_limit() -> None:
    """Gangs that ask for as much find no room alike, with a limit and without one, in one queue and in another."""
    pool = Pool(2, 1, Planning(gangs=1), {"q": queue(ordering="Backfill"), "r": queue(ordering="Backfill")})
    pool.submit("runs", 1, 5)
    pool.cycle(0)
    pool.submit("planned", 2, 1)
    pool.cycle(0)
    for of in ("q", "r"):
        pool.submit(f"{of}-limited", 1, 9, of=of)
        pool.submit(f"{of}-endless", 1, of=of)
    for name, text in told(pool, 0).items():
        assert name == "planned" or ("no time limit" in text) == name.endswith("endless"), text


def test_what_a_queue_is_told_first_is_told_to_that_queue() -> None:
    """Of four cards three are free, and one when it is the turn of the second queue."""
    pool = Pool(1, 4, Planning(gangs=1), {name: queue(ordering="Backfill") for name in ("p", "q", "r")})
    pool.submit("runs", 1, 5, of="p")
    pool.cycle(0)
    pool.submit("planned", 4, 1, of="p")
    pool.cycle(0)
    card = pod_class(cpu=0, memory=0, gpu=1)
    for name, pods in (("q-large", 4), ("q-small", 2), ("r-large", 4)):
        pool.submit(name, pods, 1, of=name[0], of_class=card)
    found = told(pool, 0)
    assert set(pool.started) == {"runs", "q-small"}
    assert "room for 3" in found["q-large"]
    assert "room for 1" in found["r-large"]
