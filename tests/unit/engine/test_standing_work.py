"""What rules about pods cost a cycle before the first gang has its turn: small steps, and only for what changed."""

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.engine.work import Meter, finish
from t9ksched.model.gang import Gang, Member, Neighbours
from t9ksched.model.labels import LabelSelector, Requirement
from t9ksched.model.podrules import Peers, PodRules, PodTerm
from tests.builders import node, pod_class, queue, table, view
from tests.counting import pieces

HOST = "kubernetes.io/hostname"
A_STEP = 150_000
"""Units of work, about one to two milliseconds."""
LINES_A_STEP = 20_000
"""Lines of Python, about as much."""


def term(app: str) -> PodTerm:
    return PodTerm((Peers(LabelSelector((Requirement("app", "In", (app,)),)), ("test",)),), HOST)


def near(app: str, count: int, pods: int = 1) -> list[Gang]:
    """Gangs that all want to be near other pods."""
    found = []
    for at in range(count):
        of = replace(pod_class(cpu=9), rules=PodRules(together=(term(f"{app}-{at}"),)))
        labels = (("app", f"{app}-{at % 100}"),)
        members = tuple(Member(f"{app}-{at}-{m}", f"test/{app}-{at}-{m}", "", of, labels) for m in range(pods))
        found.append(Gang(f"{app}-{at}", f"test/{app}-{at}", "q", created=at, waiting=members, total=pods))
    return found


def apart(count: int, nodes: int) -> list[Neighbours]:
    """Deployments that keep apart by host, with a pod on each node."""
    where = tuple((f"n{at:04}", 1) for at in range(nodes))
    return [Neighbours("test", (("app", f"d-{at}"),), where, (term(f"d-{at}"),)) for at in range(count)]


def seen(gangs: list[Gang], groups: list[Neighbours], nodes: int = 50) -> View:
    found = view(table([node(f"n{at:04}", cpu=4) for at in range(nodes)]), gangs, {"q": queue()})
    return replace(found, neighbours=tuple(groups))


def steps(given: View, memory: Memory) -> Iterator[int]:
    """The work of each step in which it is found out what stands where."""
    meter, spent = Meter(), 0
    for _ in memory.standing(given, meter):
        yield meter.spent - spent
        spent = meter.spent
    yield meter.spent - spent


SCENES = {
    "many gangs": seen(near("g", 2000), []),
    "many terms for each pod": seen(near("g", 400), [], 5),
    "many groups of pods": seen(near("g", 20), apart(300, 50)),
    "pods on many nodes": seen(near("g", 20), apart(3, 3000), 3000),
    "a gang of many pods": seen(near("g", 2, pods=20_000), []),
    "many gangs of many pods": seen(near("g", 60, pods=900), []),
}


@pytest.mark.parametrize("given", SCENES.values(), ids=SCENES)
def test_no_step_is_long(given: View) -> None:
    found = list(steps(given, Memory()))
    assert max(found) <= A_STEP
    assert sum(found) >= 10_000, "the work is counted"


@pytest.mark.parametrize("given", SCENES.values(), ids=SCENES)
def test_no_step_runs_many_lines(given: View) -> None:
    found, _ = pieces(Memory().standing(given, Meter()))
    assert max(found) <= LINES_A_STEP, "whatever is counted as work"


def test_no_step_is_long_where_gangs_come_and_go_at_both_ends() -> None:
    plain = [structs.replace(one, waiting=()) for one in near("g", 20_000)]
    memory = Memory()
    finish(memory.standing(seen(plain[1:], apart(1, 3)), Meter()))
    assert max(steps(seen(plain[:-1], apart(1, 3)), memory)) <= A_STEP
    found, _ = pieces(memory.standing(seen(plain[1:], apart(1, 3)), Meter()))
    assert max(found) <= LINES_A_STEP


def test_a_cycle_costs_what_changed() -> None:
    gangs, groups = near("g", 1000), apart(60, 300)
    memory = Memory()
    first = sum(steps(seen(gangs, groups, 300), memory))
    assert sum(steps(seen(gangs, groups, 300), memory)) * 100 < first
    moved = structs.replace(groups[7], nodes=groups[7].nodes[1:])
    assert sum(steps(seen(gangs, [*groups[:7], moved, *groups[8:]], 300), memory)) * 20 < first
    assert sum(steps(seen([*gangs, *near("new", 1)], groups, 300), memory)) * 20 < first


def test_terms_are_matched_through_labels() -> None:
    matched = 0
    matches = PodTerm.matches

    def count(self: PodTerm, *args: object) -> bool:
        nonlocal matched
        matched += 1
        return matches(self, *args)  # type: ignore[arg-type]

    with patch.object(PodTerm, "matches", count):
        plan(seen(near("g", 500), apart(60, 20)), Policy(), 0)
    assert matched <= 2 * 560, "each pod is asked about the terms of its own label"


def test_memory_grows_with_pods_and_not_with_terms_times_nodes() -> None:
    memory = Memory()
    list(steps(seen(near("g", 500), apart(2, 40), 3000), memory))
    kept = memory._standing
    numbers = sum(len(one) for standing in kept._standing.values() for one in standing._numbers)
    assert numbers == 2 * 2 * 40, "counts and holders of the two terms that select placed pods"
    assert len(kept._standing) == 502
    list(steps(seen([], [], 3000), memory))
    kept = memory._standing
    assert [*kept._standing, *kept._kinds, *kept._terms.all] == []
