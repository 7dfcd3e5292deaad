"""Gangs that are told to wait by numbers alone are told what their turn would say: `Pool.cycle` gives each its turn."""

import random
from unittest.mock import patch

import pytest

from t9ksched.engine.actions.passed_over import PassedOver
from t9ksched.engine.policy import Planning
from t9ksched.model.reasons import Code
from tests.ahead import Pool
from tests.builders import GPU, queue

QUEUES = {
    "q": queue(ordering="Backfill"),
    "small": queue(quota={GPU: 20}, ordering="Backfill"),
    "high": queue(ordering="Backfill", priority=10),
}


@pytest.mark.parametrize("seed", range(8))
def test_a_long_queue(seed: int) -> None:
    rng, told, few = random.Random(seed), PassedOver.told, Planning(per_queue=2)
    pool = Pool(8, 4, few, QUEUES)
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
    if seed == 0:
        assert codes == {Code.INSUFFICIENT_RESOURCES, Code.HELD_FOR_OTHER, Code.QUOTA_EXCEEDED}
