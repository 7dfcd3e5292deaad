"""What a change of the live cluster would do to what waits and runs."""

from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.plugins import PluginUse
from t9ksched.engine.policy import Planning, Policy, Preemption
from t9ksched.model.quantity import CARDS
from t9ksched.simulation.present import Present, read, written
from t9ksched.simulation.whatif import Change, Effect, Found, what_if
from tests.ahead import HOUR, Pool
from tests.builders import GPU, node, queue
from tests.presents import hours, new, present

WEEK = 168 * HOUR


def ask(made: Present, change: Change) -> Found:
    """What the change does. The question changes nothing."""
    before = b"".join(written(made))
    found = what_if(made, change, WEEK)
    assert b"".join(written(made)) == before
    return found


def effects(found: Found) -> list[tuple[str, float | None, float | None, bool]]:
    """Others, with hours."""

    def hour(one: int | None) -> float | None:
        return None if one is None else one / HOUR

    return [(one.gang, hour(one.before), hour(one.after), one.preempted) for one in found.others]


def begun(planning: Planning | None = Planning()) -> Pool:
    """Six of ten cards are taken for ten hours; b needs eight of them for five hours."""
    pool = Pool(planning=planning)
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    pool.cycle(0)
    return pool


@pytest.mark.parametrize(
    ("pods", "lasts", "start"),
    [(4, 10, 0), (4, 12, 15), (2, 100, 0), (11, 1, None)],
    ids=["beside", "behind", "in what is left", "never"],
)
def test_a_job_that_is_submitted_delays_no_plan(pods: int, lasts: float, start: float | None) -> None:
    found = ask(present(begun()), Change((new("c", pods, lasts),)))
    assert hours(found.outlook).get("c") == start
    assert found.others == ()


def test_without_planning_a_job_that_passes_delays_others() -> None:
    found = ask(present(begun(None)), Change((new("c", 4, 12),)))
    assert hours(found.outlook)["c"] == 0
    assert effects(found) == [("b", 10, 12, False)]


def test_what_is_planned_is_what_then_happens() -> None:
    pool = begun()
    found = ask(present(pool), Change((new("c", 4, 12),)))
    pool.submit("c", 4, 12)
    pool.cycle(0)
    assert pool.planned == {"b": 10, "c": 15} == hours(found.outlook)


def test_a_preemptor_and_its_victim() -> None:
    pool = Pool(planning=None, queues={"low": queue(), "high": queue(priority=10)})
    pool.submit("a", 6, 10, of="low")
    pool.cycle(0)
    pool.submit("b", 4, 10, of="low")
    pool.cycle(1)
    pool.policy = Policy(actions=("allocate", "preempt"), preemption=Preemption())
    found = ask(present(pool, 2), Change((new("u", 3, 2, of="high"),)))
    assert found.outlook.victims == {"u": {"b": 4}}
    assert effects(found) == [("b", 1, 4, True)]


def test_a_job_that_would_be_preempted_anyway_is_no_effect() -> None:
    pool = Pool(planning=None, queues={"low": queue(), "high": queue(priority=10)})
    pool.submit("b", 10, 10, of="low")
    pool.cycle(0)
    pool.policy = Policy(actions=("allocate", "preempt"))
    pool.submit("u", 3, 2, of="high")
    assert effects(ask(present(pool), Change())) == []


def test_nodes_that_come() -> None:
    found = ask(present(begun()), Change(added=tuple(node(f"m{at}", gpu=1, pods=1000) for at in range(4))))
    assert effects(found) == [("b", 10, 0, False)]


def test_nodes_that_go() -> None:
    pool = begun()
    assert pool.on("n000") == ["a"]
    found = ask(present(pool), Change(gone=("n000",)))
    # Its lost member runs again at once on a free node, before anything new, and b still finds eight of nine.
    assert effects(found) == []
    everything = ask(present(pool), Change(gone=tuple(f"n{at:03}" for at in range(3))))
    assert effects(everything) == [("b", 10, None, False)]


def test_a_job_that_loses_its_nodes_starts_again_where_there_is_room() -> None:
    pool = Pool(planning=None)
    pool.submit("a", 6, 10)
    pool.submit("b", 4, 3)
    pool.cycle(0)
    places = {where for where, _ in pool.job("a")[2]}
    found = ask(present(pool, 1), Change(gone=(min(places),)))
    assert effects(found) == [("a", 0, 3, False)]
    bare = present(pool, 1)
    bare = replace(bare, occupants=tuple(structs.replace(one, remade=False) for one in bare.occupants))
    assert effects(ask(bare, Change(gone=(min(places),)))) == [("a", 0, None, False)]


def test_a_node_that_goes_gives_its_quota_back() -> None:
    pool = Pool(planning=None, queues={"q": queue(quota={GPU: 6})})
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 2, 1)
    gone = tuple(where for where, _ in pool.job("a")[2])
    made = present(pool)
    made = replace(made, occupants=tuple(structs.replace(one, remade=False) for one in made.occupants))
    assert effects(ask(made, Change(gone=gone))) == [("a", 0, None, False), ("b", 10, 0, False)]


def test_a_queue_with_another_quota_and_a_queue_that_is_new() -> None:
    pool = Pool(planning=None, queues={"q": queue(quota={GPU: 6})})
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 2, 1)
    larger = queue(quota={GPU: 8}).spec
    assert effects(ask(present(pool), Change(queues={"q": larger}))) == [("b", 10, 0, False)]
    found = ask(present(pool), Change((new("c", 2, 1, of="fresh"),), queues={"fresh": queue().spec}))
    assert hours(found.outlook)["c"] == 0


def test_another_policy() -> None:
    pool = Pool(planning=None)
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    pool.submit("c", 4, 20)
    found = ask(present(pool), Change(policy=Policy(planning=Planning())))
    assert effects(found) == [("c", 0, 15, False), ("b", 20, 10, False)]


def test_both_walks_are_compared_as_far_as_the_shorter_one_looked() -> None:
    asked = iter([False, True, False, False, False, False])
    pool = begun(None)
    pool.submit("d", 10, 5)
    found = what_if(present(pool), Change((new("c", 4, 12),)), WEEK, lambda: lambda: next(asked))
    assert not found.outlook.complete
    assert all(one == Effect(one.gang, one.before, None, False) for one in found.others)


def test_plugins_are_made_anew_by_the_reader_from_their_names() -> None:
    class Made:
        def __init__(self, arguments: object) -> None:
            self.arguments = arguments

        def gang_rank(self, gang: object, now: int) -> int:
            return 0

    calm = present(begun())
    use = PluginUse("site", Made({"a": "b"}), 3, (("a", "b"),))
    text = b"".join(written(replace(calm, policy=Policy(gang_order=("site", "basic"), plugins=(use,)))))
    again = read(text, lambda: {"site": Made})
    assert again.policy.plugins == (use,)
    assert isinstance(again.policy.plugins[0].plugin, Made)
    with pytest.raises(ValueError, match="'site' is not installed"):
        read(text, dict)


@pytest.mark.parametrize("resource", [GPU, CARDS])
@pytest.mark.parametrize(("quota", "start"), [(10, 10), (8, 10), (7, None)])
def test_a_quota_that_a_queue_would_have(resource: str, quota: int, start: float | None) -> None:
    """Six cards are held already, although no quota counted them before."""
    spec = queue(quota={resource: quota}, ordering="Backfill").spec
    found = ask(present(begun()), Change(queues={"q": spec}))
    assert hours(found.outlook).get("b") == start


@pytest.mark.parametrize("resource", [GPU, CARDS])
def test_a_quota_is_given_back_by_what_a_node_took_along(resource: str) -> None:
    pool = Pool(queues={"q": queue(ordering="Backfill", quota={resource: 7})})
    pool.submit("a", 6, 10)
    pool.cycle(0)
    found = ask(present(pool), Change((new("c", 1, 1),), gone=("n000",)))
    assert hours(found.outlook)["c"] == 0
