"""Which kernel plans run on, and what its tables refuse: machine code reads them without a look."""

import _ctypes
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from t9ksched.engine.kernel import native as natives
from t9ksched.engine.kernel.key_tables import KeyTables, PartColumns
from t9ksched.engine.kernel.native import SWITCH, Native, chosen, native
from t9ksched.engine.kernel.packing_tables import PackingTables
from t9ksched.engine.kernel.reference import Reference
from t9ksched.engine.kernel.tables import ABSENT, MOST_DEMAND, MOST_PLACES, TURN, Comparator, Queues, Run, Stop, Tables
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Planner, plan
from t9ksched.engine.policy import Policy
from tests.builders import gang, node, queue, table, view
from tests.kernels import kernel_named, running

NODES = 70


def no_library(tmp_path: Path) -> dict[str, Path]:
    return {"LIBRARY": tmp_path / "none.so"}


def broken_library(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "broken.so").write_text("no machine code")
    return {"LIBRARY": tmp_path / "broken.so"}


def another_library(tmp_path: Path) -> dict[str, Path]:
    """A library, and not ours."""
    return {"LIBRARY": Path(_ctypes.__file__)}


def another_source(tmp_path: Path) -> dict[str, Path]:
    kernel_named("native")
    (tmp_path / "kernel.c").write_text("/* changed */")
    return {"FOLDER": tmp_path}


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (no_library, "it is not compiled"),
        (broken_library, "it cannot be loaded"),
        (another_library, "it cannot be loaded"),
        (another_source, "it was compiled of other sources"),
    ],
)
def test_without_a_library_of_this_source_plans_run_on_numpy(
    paths: Callable[[Path], dict[str, Path]], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    with patch.multiple(natives, **paths(tmp_path), native=native.__wrapped__):
        found = chosen.__wrapped__()
    assert isinstance(found.kernel, Reference)
    assert found.missing.startswith(why)


@pytest.mark.parametrize(("text", "used"), [(None, True), ("", True), ("1", True), ("0", False)])
def test_a_variable_leaves_the_library_alone(text: str | None, used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_named("native")
    monkeypatch.delenv(SWITCH, raising=False)
    if text is not None:
        monkeypatch.setenv(SWITCH, text)
    found = chosen.__wrapped__()
    assert isinstance(found.kernel, Native if used else Reference)
    assert found.missing == ("" if used else "T9KSCHED_NATIVE=0")


# ---- what the tables refuse


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.int64)


def queues(**other: Any) -> Queues:
    given = {
        "priorities": zeros(2),
        "limited": zeros(2),
        "caps": np.full((2, 1), ABSENT, np.int64),
        "held": zeros(2, 1),
        "measures": zeros(2, 1) + 9,
        "left": np.array([3, 5]),
        "comparators": (Comparator.PRIORITY, Comparator.SHARE),
    }
    return Queues(**given | other)


def tables(**other: Any) -> Tables:
    """A class of one unit of the first resource, and a kind of two such pods."""
    given = {
        "free": zeros(2, NODES) + 9,
        "base": zeros(NODES),
        "idle": np.full((1, NODES), 255, np.uint64),
        "fills": True,
        "queues": queues(),
    }
    made = Tables(**given | other)
    made.add(zeros(NODES), None, np.ones(NODES, np.bool_), [(0, 1)], (0, 1), 0)
    made.add_kind([(0, 2)], [2])
    return made


def add(**other: Any) -> Callable[[], int]:
    given = {"gain": zeros(NODES), "bias": None, "mask": np.ones(NODES, np.bool_), "needs": [(0, 1)], "cards": (0, 1)}
    given["scarcest"] = 0
    return lambda: tables().add(**given | other)


def level(rows: Any, *bounds: int) -> Callable[[], int]:
    return lambda: tables().add_level(np.array(rows), np.array(bounds))


def two_classes(**other: Any) -> Callable[[], int]:
    """A kind of two classes, in tables with a level."""
    made = tables()
    made.add(zeros(NODES), None, ONES, [(0, 1)], None, 0)
    made.add_level(np.arange(4), np.array([0, 2, 4]))
    return lambda: made.add_kind([(0, 1), (1, 1)], [1], **other)


ONES = np.ones(NODES, np.bool_)


def keys(**other: Any) -> Callable[[], KeyTables]:
    given = {"free": zeros(2, NODES), "base": zeros(NODES), "gain": zeros(NODES), "bias": None, "mask": ONES}
    return lambda: KeyTables(**given | {"needs": [(0, 1)], "parts": None} | other)


def parts(**other: Any) -> Callable[[], KeyTables]:
    given = {"count": 1, "cores": 1, "rows": (zeros(3),) * 3, "wanted": zeros(3, NODES), "divide": ONES}
    return lambda: keys(parts=PartColumns(**given | {"everywhere": True} | other))()


def packed(**other: Any) -> Callable[[], PackingTables]:
    of_nodes = dict.fromkeys(("cpu", "memory", "version", "valued", "value"), zeros(NODES))
    of_shapes = dict.fromkeys(("size_of", "shape_cpu", "shape_memory", "shape_cards", "per_core", "per_mib"), zeros(4))
    more = {"cards": zeros(NODES, 8), "size": np.arange(3), "weights": zeros(NODES, 4), "step": zeros(9)}
    scores = dict.fromkeys(("limited", "whole", "full", "half", "unit", "weight"), 1)
    return lambda: PackingTables(**of_nodes | of_shapes | more | scores | other)


def written(points: Any = None, rows: Any = None, key: Any = None) -> Callable[[], object]:
    made = kernel_named("native").keys(keys()())
    assert made is not None
    return lambda: made.write(points, rows, zeros(NODES) if key is None else key)


REFUSED: dict[str, Callable[[], object]] = {
    "free with gaps": lambda: tables(free=(zeros(2, 2 * NODES) + 9)[:, ::2]),
    "free of other nodes": lambda: tables(free=zeros(2, NODES - 1)),
    "free of half numbers": lambda: tables(free=np.zeros((2, NODES), np.int32)),
    "free of fractions": lambda: tables(free=np.zeros((2, NODES))),
    "idle with a sign": lambda: tables(idle=zeros(1, NODES)),
    "base of one number": lambda: tables(base=np.broadcast_to(np.int64(0), (NODES,))),
    "places without a bound": lambda: tables(most_places=MOST_PLACES + 1),
    "gain of other nodes": add(gain=zeros(NODES + 1)),
    "gain of one number": add(gain=np.broadcast_to(np.int64(1), (NODES,))),
    "bias of fractions": add(bias=np.zeros(NODES)),
    "mask of numbers": add(mask=np.ones(NODES, np.int64)),
    "mask of other nodes": add(mask=np.ones(NODES - 1, np.bool_)),
    "a resource beyond": add(needs=[(2, 1)]),
    "a resource before": add(needs=[(-1, 1)]),
    "a need of nothing": add(needs=[(0, 0)]),
    "a card resource beyond": add(cards=(1, 1)),
    "a scarcest resource beyond": add(scarcest=2),
    "a domain of a node beyond": level([0, NODES], 0, 2),
    "a domain of a node before": level([-1], 0, 1),
    "a domain of half numbers": lambda: tables().add_level(np.zeros(1, np.int32), np.array([0, 1])),
    "a domain of no node": level([0, 1], 0, 1, 1, 2),
    "a node of no domain": level([0, 1], 0, 1),
    "a node before all domains": level([0, 1], 1, 2),
    "a level without an end": level([]),
    "a kind within an unknown level": lambda: tables().add_kind([(0, 1)], [1], [0]),
    "a kind of two classes within a level": two_classes(levels=[0]),
    "a kind of two classes that must be together": two_classes(together=True),
    "a kind of an unknown class": lambda: tables().add_kind([(1, 1)], [1]),
    "a kind without pods": lambda: tables().add_kind([(0, 0)], [1]),
    "a kind that pays into other accounts": lambda: tables().add_kind([(0, 1)], [1, 1]),
    "a kind that pays too much": lambda: tables().add_kind([(0, 1)], [MOST_DEMAND]),
    "a kind that is paid": lambda: tables().add_kind([(0, 1)], [-1]),
    "gangs of an unknown kind": lambda: tables().note(0, [1], [1]),
    "more gangs than there are": lambda: tables().note(0, [0] * 4, [1] * 4),
    "gangs with too many pods": lambda: tables().note(0, [0], [MOST_PLACES // 2 + 1]),
    "gangs without pods": lambda: tables().note(0, [0], [0]),
    "a node beyond": lambda: tables().touch([0, NODES]),
    "a node before": lambda: tables().touch([-1]),
    "caps of other accounts": lambda: queues(caps=zeros(2, 2)),
    "priorities of other queues": lambda: queues(priorities=zeros(3)),
    "a longer line": lambda: queues().shrink([4, 5]),
    "lines of other queues": lambda: queues().shrink([3]),
    "a line of less than nothing": lambda: queues().shrink([-1, 5]),
    "keys on free room with gaps": keys(free=zeros(2, 2 * NODES)[:, ::2]),
    "keys with a gain of other nodes": keys(gain=zeros(NODES - 1)),
    "keys with a bias of fractions": keys(bias=np.zeros(NODES)),
    "keys with a mask of numbers": keys(mask=zeros(NODES)),
    "keys of a resource beyond": keys(needs=[(2, 1)]),
    "parts of a resource beyond": parts(rows=(zeros(3), zeros(3), zeros(3) + 2)),
    "parts of cards with unlike columns": parts(rows=(zeros(3), zeros(2), zeros(3))),
    "parts of other nodes": parts(wanted=zeros(3, NODES - 1)),
    "parts where nobody knows": parts(divide=zeros(NODES)),
    "packing of other nodes": packed(memory=zeros(NODES - 1)),
    "packing on cards with gaps": packed(cards=zeros(NODES, 16)[:, ::2]),
    "packing of a size beyond": packed(size_of=zeros(4) + 3),
    "packing of sizes without order": packed(size=np.arange(3)[::-1].copy()),
    "packing with weights of other shapes": packed(weights=zeros(NODES, 5)),
}
WRITTEN: dict[str, dict[str, Any]] = {
    "a row beyond": {"rows": np.array([0, NODES])},
    "a row before": {"rows": np.array([-1])},
    "rows of half numbers": {"rows": np.array([0], np.int32)},
    "points of other nodes": {"points": zeros(NODES - 1)},
    "a key of other nodes": {"key": zeros(NODES - 1)},
}


def test_tables_that_are_right_are_taken() -> None:
    keys()()
    parts()()
    packed()()


@pytest.mark.parametrize("case", WRITTEN)
def test_machine_code_writes_no_keys_but_of_nodes_that_exist(case: str) -> None:
    with pytest.raises(ValueError):
        written(**WRITTEN[case])()


@pytest.mark.parametrize("case", REFUSED)
def test_tables_refuse_what_machine_code_must_not_read(case: str) -> None:
    with pytest.raises(ValueError):
        REFUSED[case]()


@pytest.mark.parametrize("kernel", ["reference", "native"])
def test_a_run_goes_on_until_a_gang_needs_its_turn(kernel: str) -> None:
    given, by = tables(), kernel_named(kernel)
    assert by.run(given) == Run(Stop.NOT_READ, 0, [], [], [], [], [], [], [])
    given.note(0, [TURN, 0], [1, 2])
    given.note(1, [0], [1])
    # The first queue has no share yet, then the second has the smaller one; that has no gang that is read then.
    assert by.run(given) == Run(Stop.NOT_READ, 1, [0, 1], [0, 0], [1, 2], [0, 0], [4, 2], [0, 0], [255, 0b11110000])
    assert given.queues.held.tolist() == [[4], [2]]
    given.queues.shrink([2, 0])
    assert by.run(given).stopped is Stop.NEEDS_ITS_TURN
    assert given.free[:, 0].tolist() == [3, 9]
    assert given.idle[0, :2].tolist() == [0b11000000, 255]


@pytest.mark.parametrize("kernel", ["reference", "native"])
def test_a_kind_goes_to_the_domain_with_room_that_has_least_left(kernel: str) -> None:
    """By the first level that has one; where none has, anywhere, unless it must be together."""
    given, by = tables(), kernel_named(kernel)
    given.free[0] = [1, 1, 2, 3, 2, 4, 5, 5, *[0] * (NODES - 8)]
    narrow = given.add_level(np.array([0, 1, 2]), np.array([0, 1, 2, 3]))
    wide = given.add_level(np.array([1, 4, 2, 3, 0, 5]), np.array([0, 2, 4, 6]))
    should = given.add_kind([(0, 1)], [0], [narrow, wide])
    must = given.add_kind([(0, 1)], [0], [narrow, wide], True)
    # The best gang is the last one: 2 pods fit on node 2, 3 on nodes 1 and 4, 5 on nodes 0 and 5, and 9 in no domain,
    # as 4 do then.
    given.note(1, [must, should, should, should, must], [4, 9, 5, 3, 2])
    given.queues.shrink([0, 5])
    found = by.run(given)
    assert (found.stopped, found.queues) == (Stop.NEEDS_ITS_TURN, [1] * 4)
    assert list(zip(found.rows, found.pods, strict=True)) == [
        *[(2, 2)],
        *[(1, 1), (4, 2)],
        *[(0, 1), (5, 4)],
        *[(3, 3), (6, 5), (7, 1)],
    ]
    assert given.free[0, :8].tolist() == [0, 0, 0, 0, 0, 0, 0, 4]


@pytest.mark.parametrize("queues", [1, 4, 160])
def test_as_many_gangs_are_read_at_once_as_have_started(queues: int) -> None:
    """First 32, then 32 again, 64, and the others; however few each queue has."""
    live = table(node(f"n{at}", gpu=8) for at in range(20))
    waiting = [gang(f"g{at}", f"q{at % queues}") for at in range(160)]
    kernel = Reference()
    with running(kernel, read=(8, 32, 1024)), patch.object(kernel, "run", wraps=kernel.run) as run:
        given = view(live, waiting, {f"q{at}": queue(priority=at) for at in range(queues)})
        assert plan(given, Policy(), 0).stats.placed == 160
    assert run.call_count == 1 + 4


def test_one_step_without_a_library_starts_no_more_than_one_run() -> None:
    live = table(node(f"n{at}", gpu=8) for at in range(50))
    with running(Reference()):
        planner = Planner(view(live, [gang(f"g{at}") for at in range(390)]), Policy(), 0, Memory())
        started = [0]
        while not planner.step(100_000):
            started.append(len(planner.assignments))
    started.append(len(planner.assignments))
    assert started[-1] == 390
    assert max(after - before for before, after in pairwise(started)) <= 128
