"""Many nodes and pods through HTTP, in processes of their own: not one error on the way.

`make test` has hundreds of nodes and pods; `make soak` a thousand nodes and thousands of pods.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("nodes", "pods"), [(300, 600), *(pytest.param(1000, pods, marks=pytest.mark.soak) for pods in (1500, 5000))]
)
def test_many_pods_on_many_nodes(nodes: int, pods: int) -> None:
    command = [sys.executable, "tests/benchmarks/endtoend.py", "--nodes", str(nodes), "--pods", str(pods)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["refused"], result["cardsGivenTwice"], result["findings"]) == (0, 0, 0), result
