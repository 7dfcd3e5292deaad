"""A planner that remembers decides as a fresh one does, cycle by cycle: `Pool.cycle` compares the two."""

from t9ksched.engine.policy import Planning
from tests.ahead import Pool


def test_what_a_gang_is_told_that_fails_for_want_of_room_is_told_to_shorter_ones_like_it() -> None:
    """That there is too little room now is so for every gang alike, however long it runs: whether it was found in this
    cycle or in an earlier one, gangs behind it get the same answer.
    """
    pool = Pool(nodes=4, planning=Planning("EASY"))
    pool.submit("runs", 1, 1)
    pool.cycle(0)
    pool.submit("planned", 4, 5)
    pool.submit("long", 4, 9)
    pool.cycle(0)
    assert pool.planned == {"planned": 1}
    pool.cycle(0)
    pool.submit("starts", 1, 1)
    pool.submit("short", 4, 5)
    assert {one.gang for one in pool.cycle(0).assignments} == {"starts"}
