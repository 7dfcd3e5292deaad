"""What a start takes for lost, from history and the members that are left."""

from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from t9ksched.model import names
from t9ksched.model.cards import CardGrant, CardPart
from t9ksched.scheduler.observe.recall import lost_before, recall_losses
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.history import ADMITTED, BOUND, RELEASED, Event
from tests.unit.scheduler.state.test_foreign_parts import CORE, divided
from tests.unit.scheduler.state.test_foreign_parts import pod as sharing
from tests.unit.scheduler.state.test_places import member, with_roles
from tests.unit.scheduler.state.test_state import group, pod, state_with


def bound(pod: str, node: str, *cards: int) -> Event:
    return Event(event=BOUND, detail={"pod": pod, "node": node, "cards": {"main": list(cards)}})


def released(pod: str, *, succeeded: bool = True, role: str = "") -> Event:
    detail = {"pod": pod} | ({"succeeded": True} if succeeded else {}) | ({"role": role} if role else {})
    return Event(event=RELEASED, detail=detail)


def without(name: str) -> ClusterState:
    """A gang of two, of which this member is gone."""
    state = state_with()
    state.upsert_group(group("g", 2))
    for index in range(2):
        state.upsert_pod(pod(f"g-{index}", group="g", node="n1", phase="Running"))
    state.settle()
    state.remove_pod(f"pod-{name}")
    return state


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        ([], True),
        ([released("g-1")], False),
        ([released("g-1", succeeded=False)], True),
        ([released("g-1"), bound("g-1", "n1", 1)], True),
        ([released("g-1"), Event(event=ADMITTED)], True),
    ],
    ids=["deleted", "succeeded", "failed", "succeeded and was made again", "succeeded in an earlier run"],
)
def test_a_member_that_succeeded_in_the_present_run_and_is_gone_is_not_lost(after: list[Event], *, lost: bool) -> None:
    (gang,) = without("g-1").partial
    told = [Event(event=ADMITTED), bound("g-0", "n1", 0), bound("g-1", "n1", 1), *after]
    assert [loss.name for loss in lost_before(gang, reversed(told))] == (["ns/g-1"] if lost else [])


def test_of_a_role_that_has_succeeded_nothing_is_lost_and_of_the_other_what_is_missing() -> None:
    state = state_with()
    roles = [{"name": "lead", "minMember": 1}, {"name": "worker", "minMember": 2}]
    state.upsert_group(group("g", 3, roles=roles))
    for name, role in (("g-m", "lead"), ("g-0", "worker"), ("g-1", "worker")):
        state.upsert_pod(member(name, role, node="n1", phase="Running"))
    state.settle()
    state.remove_pod("pod-g-m")
    state.remove_pod("pod-g-1")
    (gang,) = state.partial
    events = [bound("g-m", "n1", 2), bound("g-1", "n1", 1), bound("g-0", "n1", 0)]
    assert sorted((loss.name, loss.role) for loss in lost_before(gang, events)) == [
        ("ns/g-1", "worker"),
        ("ns/g-m", "lead"),
    ]
    events.insert(0, released("g-m", role="lead"))
    assert [(loss.name, loss.role) for loss in lost_before(gang, events)] == [("ns/g-1", "worker")]


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


async def test_what_a_lost_member_had_of_a_divided_card_follows_from_its_node() -> None:
    state = state_with(divided())
    state.upsert_group(group("g", 2))
    for name, cards in (("g-0", "0"), ("g-1", "1")):
        state.upsert_pod(placed(name, cards))
    state.settle()
    state.remove_pod("g-1")
    history = AsyncMock()
    history.list.return_value = [bound("g-1", "n1", 1), bound("g-0", "n1", 0)]
    with patch.object(state.refills, "remember") as remember:
        await recall_losses(state, history)
    ((_, (loss,)),) = (call.args for call in remember.call_args_list)
    assert loss.cards == CardGrant.of_parts([CardPart(CORE, 1, 600, 300)])


def placed(name: str, cards: str) -> Any:
    made = sharing(name, 60, 300, cards=cards)
    made.spec.node_name = "n1"
    made.status.phase = "Running"
    made.metadata.labels = {names.GROUP_LABEL: "g"}
    return made
