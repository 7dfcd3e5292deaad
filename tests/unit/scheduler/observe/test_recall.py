"""What a start takes for lost, from history and the members that are left."""

import pytest

from t9ksched.model.cards import CardGrant
from t9ksched.scheduler.observe.recall import lost_before
from t9ksched.store.history import BOUND, Event
from tests.unit.scheduler.state.test_places import member, with_roles


def bound(pod: str, node: str, *cards: int) -> Event:
    return Event(event=BOUND, detail={"pod": pod, "node": node, "cards": {"main": list(cards)}})


@pytest.mark.parametrize(
    ("left", "lost", "role"), [("g-w", "g-m", "lead"), ("g-0", "g-1", "lead")], ids=["named apart", "named alike"]
)
def test_a_member_of_whose_role_none_is_left_keeps_its_place(left: str, lost: str, role: str) -> None:
    state = with_roles()
    for name, part in ((left, "worker"), (lost, role)):
        state.upsert_pod(member(name, part, node="n1", phase="Running"))
    state.settle()
    state.remove_pod(f"pod-{lost}")
    (gang,) = state.partial
    assert gang.ran
    events = [bound(lost, "n1", 1), bound(left, "n1", 0)]
    (found,) = lost_before(gang, events)
    assert (found.name, found.node, found.role) == (f"ns/{lost}", "n1", role)
    assert found.cards == CardGrant.of({"nvidia.com/gpu": [1]})
