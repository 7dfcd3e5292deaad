"""A thousand nodes and thousands of pods through HTTP, in processes of their own: not one error on the way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.cluster
@pytest.mark.parametrize("pods", [1500, pytest.param(5000, marks=pytest.mark.soak)])
def test_thousands_of_pods_on_a_thousand_nodes(pods: int) -> None:
    command = [sys.executable, "tests/benchmarks/endtoend.py", "--nodes", "1000", "--pods", str(pods)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["refused"], result["cardsGivenTwice"], result["findings"]) == (0, 0, 0), result
