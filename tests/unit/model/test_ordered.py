"""Sets that are walked in the order of arrival."""

from t9ksched.model.ordered import OrderedSet


def test_members_are_walked_in_the_order_in_which_they_came() -> None:
    members = OrderedSet(f"m{number * 37 % 101}" for number in range(100))
    members.discard("m37")
    members.add("m0")  # it is there and keeps its place
    members.add("m37")  # it comes anew, last
    expected = [name for number in range(100) if (name := f"m{number * 37 % 101}") != "m37"]
    assert list(members) == [*expected, "m37"]
    assert "m37" in members
    assert "x" not in members
    assert len(members) == 100


def test_it_is_a_set_like_others() -> None:
    members: OrderedSet[str] = OrderedSet(["b", "a"])
    members.update(["c", "a"])
    members |= {"d"}
    assert members == {"a", "b", "c", "d"}
    assert list(members) == ["b", "a", "c", "d"]
    members.discard("x")
    assert repr(OrderedSet(["b", "a"])) == "OrderedSet(['b', 'a'])"
