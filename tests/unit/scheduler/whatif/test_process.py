"""Worker processes: they answer, see nothing of our environment, and are ended when they fail or take too long."""

import sys

import pytest

from t9ksched.scheduler.whatif.process import WorkerFailed, answer


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", code)


async def test_a_task_comes_whole_and_the_answer_goes_back() -> None:
    echo = python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])")
    assert await answer(echo, [b"ab", b"", b"cd" * 100_000], 60) == b"dc" * 100_000 + b"ba"


async def test_a_worker_sees_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T9KSCHED_INTERNAL_SECRET", "hidden")
    monkeypatch.delenv("T9KSCHED_NATIVE", raising=False)
    shown = await answer(python("import os; print(dict(os.environ))"), [], 60)
    assert b"hidden" not in shown
    assert b"OPENBLAS_NUM_THREADS" in shown
    assert b"T9KSCHED_" not in shown


async def test_a_worker_plans_on_the_same_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T9KSCHED_NATIVE", "0")
    shown = await answer(python("import os; print(dict(os.environ))"), [], 60)
    assert b"'T9KSCHED_NATIVE': '0'" in shown


@pytest.mark.parametrize(
    ("command", "seconds", "why"),
    [
        (python("import sys; sys.stdin.close(); sys.exit('it is broken')"), 60, "code 1: it is broken"),
        (python("import time; time.sleep(600)"), 0.2, "longer than 0.2 seconds"),
        (("/nothing/there",), 60, "no process can be started"),
    ],
)
async def test_one_that_does_not_answer_says_why(command: tuple[str, ...], seconds: float, why: str) -> None:
    with pytest.raises(WorkerFailed, match=why):
        await answer(command, [b"x" * 1_000_000], seconds)
