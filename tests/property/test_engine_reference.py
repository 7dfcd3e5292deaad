"""The decision of a cycle against a plain reference, line by line: see `reference/`.

What the engine remembers lives as long as the cluster, through several cycles with changes between them.
"""

import os
from collections.abc import Callable
from unittest.mock import patch

import pytest

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.victims import every_set as searching
from tests.property.crowded import Crowded
from tests.property.reference.cycle import Reference
from tests.property.reference.moment import Differs, Unclear
from tests.property.reference.victims import Searched, WithVictims
from tests.property.scenes import NOW, Scene
from tests.property.tainted_domains import TaintedDomains

KINDS: dict[str, tuple[Callable[[int], Scene], type[Reference]]] = {
    "plain": (Scene, Reference),
    "rules about pods": (lambda seed: Scene(seed, ruled=True), Reference),
    "tainted domains": (TaintedDomains, Reference),
    "lost members": (lambda seed: Scene(seed, kept=True), Reference),
    "many pods": (lambda seed: Scene(seed, many=True), Reference),
    "victims": (Crowded, WithVictims),
    "many victims": (lambda seed: Crowded(seed, large=True), WithVictims),
    "victims and rules": (lambda seed: Crowded(seed, ruled=True), WithVictims),
    "victims by search": (Crowded, Searched),
}
CYCLES = 5
PART = float(os.environ.get("T9KSCHED_REFERENCE_PART", "1"))
ORDINARY = {"many pods": 6, "many victims": 10, "victims": 80}
"""How many scenes are compared, 60 where nothing is said; `make soak` goes on from there."""

PARTS = 4
"""Scenes of all kinds take turns, in so many parts: a fault is noticed early."""


def ordinary(kind: str) -> int:
    """How many scenes of a kind are compared each time."""
    return int(PART * ORDINARY.get(kind, 60))


def compare(kind: str, first: int, end: int) -> int:
    """Compare these scenes; how many cycles were decided by rounding."""
    unclear = 0
    make, reference = KINDS[kind]
    every_set = reference is not Searched
    for seed in range(first, end):
        scene, memory = make(seed), Memory()
        for cycle in range(CYCLES):
            view = scene.view()
            with patch.object(searching, "_ALL_SETS", 10 if every_set else -1):
                found = plan(view, scene.policy, NOW, memory)
            try:
                reference(view, scene.policy, NOW).compare(found)
            except Unclear:
                unclear += 1
            except Differs as differs:
                raise AssertionError(f"scene {seed} of {kind}, cycle {cycle}: {differs}") from None
            scene.carry_out(found)
            scene.step()
    return unclear


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_plan_is_the_one_of_the_reference(kind: str, part: int) -> None:
    whole = ordinary(kind)
    assert compare(kind, part * whole // PARTS, (part + 1) * whole // PARTS) <= 2


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_many_plans_are_those_of_the_reference(kind: str) -> None:
    assert compare(kind, ordinary(kind), 20 * ordinary(kind)) < 200
