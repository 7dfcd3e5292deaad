"""The demo, as programs and people without a terminal see it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.acceptance.conftest import environment, run


def test_two_demos_at_once_both_end_well() -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda _: run("demo", "-o", "json"), range(2)):
            assert done.code == 0, (done.out, done.err)
            told = done.json
            assert told["ok"] is True
            assert len(told["scenes"]) >= 5
            assert all(scene["ok"] and scene["steps"] for scene in told["scenes"])
            assert told["score"]["gangs"] >= 4
            assert (told["score"]["partialGangs"], told["score"]["doubleCards"]) == (0, 0)


def test_without_a_terminal_it_prints_plain_lines() -> None:
    variables = environment() | {"TERM": "dumb", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "t9ksched", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert "why: InsufficientResources" in done.stdout
    assert "OverQuota" in done.stdout
    assert "0 cards given twice" in done.stdout
    assert "Try next" in done.stdout
