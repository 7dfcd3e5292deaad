"""Plans are given other places from where the last attempt came to a difference: the same as from the beginning."""

import random
from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.in_turn import InTurn, Moment
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import ExpectedEnd
from tests.builders import gang, node, pod_class, queue, table

HOUR = 3_600_000_000_000
CLASSES = {cards: pod_class(cpu=0, memory=0, gpu=cards) for cards in (1, 2, 3)}
POLICY = Policy(planning=Planning(gangs=1000, per_queue=1000, per_user=1000))


def scene(seed: int) -> View:
    """A full cluster, whose jobs end one by one, and gangs of unlike pods that wait."""
    rng = random.Random(seed)
    nodes = table(node(f"n{at:02}", gpu=4, cpu=100) for at in range(12))
    ends = []
    for at in range(12):
        of = CLASSES[rng.randint(1, 3)]
        for one in range(4 // of.card_counts["nvidia.com/gpu"]):
            nodes.charge(at, of)
            ends.append(ExpectedEnd(f"r{at}-{one}", "q", rng.randint(1, 9) * HOUR, ((f"n{at:02}", of, 1),)))
    waiting = [
        structs.replace(
            gang(f"w{at:02}", "q", rng.randint(1, 9), of=CLASSES[rng.randint(1, 3)], created=at),
            lasts=rng.randint(1, 6) * HOUR,
        )
        for at in range(30)
    ]
    return View(nodes.freeze(), {"q": queue(ordering="Backfill")}, tuple(waiting), expected_ends=tuple(ends))


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5, 7, 8, 9, 10, 11])
def test_resumed_as_from_the_beginning(seed: int) -> None:
    resume, resumed = InTurn.resume, []

    def anew(self: InTurn, free: Int64s, state: int, moment: Moment) -> Moment:
        self.restart()
        return resume(self, free, state, moment)

    def noted(self: InTurn, free: Int64s, state: int, moment: Moment) -> Moment:
        resumed.append(resume(self, free, state, moment))
        return resumed[-1]

    view = scene(seed)
    with patch.object(InTurn, "resume", noted):
        found = plan(view, POLICY, 0)
    with patch.object(InTurn, "resume", anew):
        assert plan(view, POLICY, 0).to_bytes() == found.to_bytes()
    assert len({one.owner for one in found.planned}) > 20
    assert any(moment[0] > 0 for moment in resumed)
