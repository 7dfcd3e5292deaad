"""A group that goes on getting members keeps the kind of cards that it has."""

from typing import Any

from t9ksched.model import names
from tests.unit.scheduler.state.test_state import decide, group, node, pod, state_with


def any_kind(name: str) -> Any:
    made = pod(name, group="g")
    made.metadata.annotations = {names.GPU_MODE_ANNOTATION: "any"}
    return made


def test_later_members_get_cards_of_the_same_kind() -> None:
    slices = node("slices")
    slices.metadata.labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
    state = state_with(node("whole", gpus=3), slices)
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(any_kind(name))
    assert [one.node for one in decide(state)] == ["whole", "whole"]
    for name in ("c", "d"):
        state.upsert_pod(any_kind(name))
    assert [one.node for one in decide(state)] == ["whole"]
    (gang,) = state.view(0).gangs
    assert gang.card_nodes == (("", "whole"),)
    assert decide(state) == [], "slices are free, and of another kind"
