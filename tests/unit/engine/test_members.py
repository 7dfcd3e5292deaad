"""What is known of the members of a gang without looking at each of them."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.engine.members import OfClass, alike, kinds, with_kinds
from t9ksched.engine.work import Meter, finish
from t9ksched.model.gang import Member
from tests.builders import pod_class

CLASSES = [pod_class(cpu=1), pod_class(cpu=2), pod_class(cpu=1)]
LABELS = [(("app", "a"),), (("app", "b"),)]
WHICH = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 300))


def members(runs: list[tuple[int, int, int]]) -> tuple[Member, ...]:
    each = [(CLASSES[of], LABELS[labels]) for of, labels, pods in runs for _ in range(pods)]
    return tuple(Member(f"u{at}", f"n/{at}", "", of, labels) for at, (of, labels) in enumerate(each))


def counted(some: tuple[Member, ...]) -> dict[tuple[int, int], int]:
    """One by one."""
    found: dict[tuple[int, int], int] = {}
    for one in some:
        key = id(one.pod_class), id(one.labels)
        found[key] = found.get(key, 0) + 1
    return found


@given(st.lists(WHICH, min_size=1, max_size=6))
def test_kinds_are_those_that_counting_finds(runs: list[tuple[int, int, int]]) -> None:
    some = members(runs)
    for given_as in (some, list(some), with_kinds(some)):
        found = finish(kinds(given_as, Meter()))
        assert {(id(one.pod_class), id(one.labels)): one.pods for one in found} == counted(some)
        assert [id(one.labels) for one in found[:1]] == [id(some[0].labels)]
        assert alike(given_as) == (len({id(one.pod_class) for one in some}) == 1)
    assert with_kinds(some) == some


def test_a_part_of_many_members_does_not_know_the_kinds_of_all() -> None:
    some = with_kinds(members([(0, 0, 300), (1, 0, 300)]))
    assert not alike(some)
    assert alike(some[:300])
    assert [one.pods for one in finish(kinds(some[:400], Meter()))] == [300, 100]


def test_members_of_another_class_are_as_if_each_was_made() -> None:
    some = members([(0, 0, 3), (0, 1, 2)])
    other = OfClass(some, CLASSES[1])
    made = tuple(structs.replace(one, pod_class=CLASSES[1]) for one in some)
    assert other == made
    assert tuple(other) == made
    assert (len(other), other[4], other[1:3], hash(other)) == (5, made[4], made[1:3], hash(made))
    assert alike(other)
    assert [(one.pod_class, one.labels, one.pods) for one in finish(kinds(other, Meter()))] == [
        (CLASSES[1], LABELS[0], 3),
        (CLASSES[1], LABELS[1], 2),
    ]
