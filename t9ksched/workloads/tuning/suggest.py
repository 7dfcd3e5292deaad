"""What is tried next: by chance, from a grid, or by TPE.

A suggestion depends on the experiment, the number of the trial and, with TPE, on the trials before. TPE is optuna's:
the extra `tune` installs it.
"""

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final

from t9ksched.workloads.tuning.settings import RANDOM, TPE, Tuner
from t9ksched.workloads.tuning.space import Space, Value
from t9ksched.workloads.tuning.trials import Trial

INSTALL: Final = "pip install 't9ksched[tune]'"


def missing_library(tuner: Tuner) -> str:
    """What must be installed before the tuner can suggest anything; empty if nothing."""
    return INSTALL if tuner.name == TPE and find_spec("optuna") is None else ""


def size_of(space: Space, tuner: Tuner) -> int | None:
    """How many trials there are at the most; None without an end."""
    if tuner.name in (RANDOM, TPE):
        return None
    return math.prod(each.points or 1 for each in space)


def suggest(space: Space, tuner: Tuner, experiment: str, number: int, before: Sequence[Trial]) -> Mapping[str, Value]:
    """The parameters of the trial with that number, of the experiment with that UID."""
    seed = _seed(experiment, tuner.seed, number)
    if tuner.name == TPE:
        from t9ksched.workloads.tuning import tpe  # a library that not everyone has, and slow to import

        return tpe.suggest(space, before, seed, tuner)
    if tuner.name == RANDOM:
        chance = random.Random(seed)
        return {each.name: each.drawn(chance) for each in space}
    return _point(space, number)


def _seed(experiment: str, own: int, number: int) -> int:
    text = f"{experiment}/{own}/{number}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def _point(space: Space, number: int) -> Mapping[str, Value]:
    """The point of the grid with that number: the last parameter changes first."""
    found: dict[str, Value] = {}
    for parameter in reversed(space):
        number, index = divmod(number, parameter.points or 1)
        found[parameter.name] = parameter.point(index)
    return {each.name: found[each.name] for each in space}
