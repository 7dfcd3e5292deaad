"""Which pods leave reserved room, as tables."""

from collections.abc import Mapping

import pytest

from t9ksched.engine.victims.room_clearing import clear_rooms
from t9ksched.model.gang import Running
from tests.builders import GPU, running


def going(lacks: Mapping[str, int | None], *gangs: Running, **priorities: int) -> list[str]:
    """The pods that go, a gang that goes whole with a `!`; `lacks` in cards."""
    wanted = {node: None if cards is None else {GPU: cards} for node, cards in lacks.items()}
    found = clear_rooms(wanted, gangs, priorities)
    return [pod.uid + "!" * one.whole for one in found for pod in one.pods]


def elastic(name: str, *on: str, least: int = 1, **more: object) -> Running:
    return running(name, on=on, min_member=least, gpu=1, **more)  # type: ignore[arg-type]


CASES: dict[str, tuple[Mapping[str, int | None], list[Running], list[str]]] = {
    "a gang goes whole, wherever its pods are": (
        {"n1": None},
        [running("a", on=["n1", "n2"], gpu=1), running("b", on=["n2"], gpu=1)],
        ["a-0!", "a-1!"],
    ),
    "members above the minimum go alone": ({"n2": None}, [elastic("a", "n1", "n2", "n3")], ["a-1"]),
    "the first member takes all with it": (
        {"n1": None},
        [elastic("a", "n1", "n2", "n3")],
        ["a-0!", "a-1!", "a-2!"],
    ),
    "so does one that the minimum needs": (
        {"n2": None, "n3": None},
        [elastic("a", "n1", "n2", "n3", least=2)],
        ["a-0!", "a-1!", "a-2!"],
    ),
    "and one that the minimum of its role needs": (
        {"n2": None},
        [elastic("a", "n1", "n2", "n3", roles={"w": 2}, role_of=["m", "w", "w"])],
        ["a-0!", "a-1!", "a-2!"],
    ),
    "what is leaving is not evicted again": ({"n1": None}, [elastic("a", "n2", "n1", leaving=[1])], []),
    "room that is kept for a lost member is no pod": ({"n1": None}, [elastic("a", "n2", "n1", least=2, kept=[1])], []),
    "of a part only what is lacking": (
        {"n1": 2},
        [running("a", on=["n1"], gpu=2, created=1), running("b", on=["n1"], gpu=2, created=2)],
        ["b-0!"],
    ),
    "members that can be spared go before gangs": (
        {"n1": 1},
        [elastic("a", "n2", "n1", created=1), running("b", on=["n1"], gpu=1, created=2)],
        ["a-1"],
    ),
    "of the smaller priority first": (
        {"n1": 1},
        [running("a", on=["n1"], gpu=1, priority=5, created=9), running("b", on=["n1"], gpu=1, created=1)],
        ["b-0!"],
    ),
    "a queue's priority counts more": (
        {"n1": 1},
        [running("a", "low", on=["n1"], gpu=1, priority=5), running("b", "high", on=["n1"], gpu=1)],
        ["a-0!"],
    ),
    "a disruption budget counts": (
        {"n1": 1},
        [running("a", on=["n1"], gpu=1, created=1), running("b", on=["n1"], gpu=1, created=2, guarded=True)],
        ["a-0!"],
    ),
    "what became needless stays": (
        {"n1": 1, "n2": 2},
        [
            running("a", on=["n1"], gpu=1, priority=1),
            running("b", on=["n1", "n2"], gpu=2, priority=2),
        ],
        ["b-0!", "b-1!"],
    ),
    "pods without cards give none": ({"n1": 1}, [running("a", on=["n1"], cpu=4)], []),
    "too little is better than nothing": ({"n1": 4}, [running("a", on=["n1"], gpu=1)], ["a-0!"]),
}


@pytest.mark.parametrize(("lacks", "gangs", "expected"), CASES.values(), ids=CASES)
def test_what_goes(lacks: Mapping[str, int | None], gangs: list[Running], expected: list[str]) -> None:
    assert going(lacks, *gangs, low=1, high=9) == expected
