"""A history repeats to the byte, in any process: no order comes from hashes, addresses or the machine's clock."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from tests.chaos.history import play
print(*(play(int(seed)).digest for seed in sys.argv[1:]))
"""


def digests(hash_seed: str, *seeds: str) -> list[str]:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, *seeds]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_seed_is_one_history_in_every_process() -> None:
    with ThreadPoolExecutor() as pool:
        # Nor does it matter what was played before.
        first, second = pool.map(digests, ("1", "2"), ("62", "75"), ("75", "62"))
    assert len(set(first)) == 2
    assert first == second[::-1]
