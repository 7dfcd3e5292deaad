"""Views on paper."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from t9ksched.engine.view import Positions, dump, load, load_with_classes, pieces
from t9ksched.model.cards import CardGrant
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU, divided_node, gang, node, pod_class, queue, running, shared_class, table, view


def test_a_view_reads_back_as_it_was_written() -> None:
    live = table([node("b", gpu=4, unusable={GPU: 1}), node("a")])
    live.charge(live.row("b"), pod_class(gpu=1, ports=[80, 443]), CardGrant.packed({GPU: 0b10}))
    shared = pod_class(gpu=1, selector={"x": "y"})
    given = view(
        live,
        [gang("g", pods=2, of=shared), gang("h", of=shared, roles={"": 1})],
        {"q": queue(quota={"cpu": 4}, selector={"pool": "a"}, ordering="Strict")},
        [Reservation("g", "b", shared, ReservationKind.REFILL, cards=CardGrant.of({GPU: [2]}), until=5)],
    )
    again = load(dump(given))
    assert again.gangs == given.gangs
    assert again.reservations == given.reservations
    assert again.queues == given.queues
    assert again.nodes.static.facts == given.nodes.static.facts
    assert again.nodes.ports == given.nodes.ports
    assert again.nodes.free().tolist() == given.nodes.free().tolist()
    first, second = again.gangs[0].waiting
    assert first.pod_class is second.pod_class, "classes are written once and shared when read"


def test_text_that_is_no_view_is_refused_with_its_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"nodes"):
        load(b'{"nodes": 3, "queues": {}, "classes": [], "gangs": [], "holds": []}')


_ELSEWHERE = """
import hashlib, sys
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import dump, load
view = load(sys.stdin.buffer.read())
found = plan(view, Policy(actions=("allocate", "preempt")), 0)
assert found.reservations and found.assignments
sys.stdout.buffer.write(dump(view) + found.to_bytes())
"""


def test_what_is_written_is_the_same_in_every_process() -> None:
    given = view(
        [node(f"n{at}", gpu=4) for at in range(3)],
        [gang("wants", "high", pods=3, gpu=4), gang("fits", "low", cpu=1)],
        {"low": queue(), "high": queue(priority=1)},
        running=[running(f"low-{at}", "low", on=[f"n{at}"], gpu=4) for at in range(3)],
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", _ELSEWHERE],
            input=dump(given),
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_a_large_view_is_written_in_many_pieces() -> None:
    shapes = [pod_class(cpu=1 + at) for at in range(5)]
    gangs = [gang(f"g{at}", pods=2, of=shapes[at % 5]) for at in range(250)]
    made = view([node(f"n{at:03}") for at in range(250)], gangs)
    positions = Positions()
    found = list(pieces(made, positions))
    assert len(found) > 6
    assert b"".join(found) == dump(made)
    assert list(positions.values()) == list(range(5))
    again, classes = load_with_classes(dump(made))
    assert dump(again) == dump(made)
    assert classes == list(positions)


def test_a_dump_says_which_requests_are_for_parts_of_cards() -> None:
    asked = shared_class(500, 8_000)
    seen = view([divided_node("n", 2)], [gang("g", of=asked)])
    assert load(dump(seen)).gangs[0].waiting[0].pod_class == asked
