"""The list of nodes: how many cards are held, each kind for itself."""

from typing import Any

import pytest

from t9ksched.cli.commands.nodes import held


def _card(resource: str, taken: bool) -> dict[str, Any]:
    return {"resource": resource, "holders": [{"pod": "p"}] if taken else []}


WHOLE = [_card("nvidia.com/gpu", index < 2) for index in range(4)]
SLICES = {"resource": "nvidia.com/mig-1g.5gb", "has": 28, "held": 3}


@pytest.mark.parametrize(
    ("gpus", "counted", "shown"),
    [
        ([], [], "–"),
        (WHOLE, [], "2/4"),
        ([], [SLICES], "3/28"),
        (WHOLE, [SLICES], "2/4, 3/28"),
        ([*WHOLE, _card("amd.com/gpu", True)], [], "2/4, 1/1"),
        ([], [SLICES | {"has": 0, "held": 0}], "–"),
    ],
)
def test_held(gpus: list[dict[str, Any]], counted: list[dict[str, Any]], shown: str) -> None:
    assert held(gpus, counted) == shown
