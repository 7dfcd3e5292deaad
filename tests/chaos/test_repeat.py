"""A history repeats to the byte, in any process: no order comes from hashes, addresses or the machine's clock."""

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.history import play

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from tests.chaos.history import play
print(*(play(int(seed)).digest for seed in sys.argv[1:]))
"""


def elsewhere(hash_seed: str, *seeds: int) -> list[str]:
    """The digests of histories that another process plays."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, *map(str, seeds)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_seed_is_one_history_in_every_process() -> None:
    # Nor does it matter what was played before.
    here = [play(seed).digest for seed in (14, 75)]
    assert len(set(here)) == 2
    assert elsewhere("1" if os.environ.get("PYTHONHASHSEED") != "1" else "2", 75, 14) == here[::-1]
