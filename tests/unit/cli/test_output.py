import io
import re
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from t9ksched.cli.commands.jobs import show
from t9ksched.cli.output import age, ahead, cells_of, print_table, table

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2026-01-02T11:59:15Z", "45s"),
        ("2026-01-02T11:48:00Z", "12m"),
        ("2026-01-02T07:00:00Z", "5h"),
        ("2025-12-30T12:00:00Z", "3d"),
        ("2026-01-02T12:00:05Z", "0s"),
        (None, "–"),
        ("yesterday", "–"),
    ],
)
def test_ages(moment: str | None, text: str) -> None:
    assert age(moment, NOW) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2026-01-02T12:00:45Z", "in 45s"),
        ("2026-01-02T12:12:00Z", "in 12m"),
        ("2026-01-02T13:25:59Z", "in 1h25m"),
        ("2026-01-04T12:59:00Z", "in 2d"),
        ("2026-01-04T17:00:00Z", "in 2d5h"),
        ("2026-01-02T12:00:00Z", "now"),
        ("2026-01-01T12:00:00Z", "now"),
        (None, "–"),
        ("tomorrow", "–"),
    ],
)
def test_times_ahead(moment: str | None, text: str) -> None:
    assert ahead(moment, NOW) == text


NO_WIDTH = ["Cs", "Cc", "Cf", "Co", "Cn", "Mn", "Me"]
CELLS = st.text(st.characters(exclude_categories=NO_WIDTH), max_size=8) | st.sampled_from(
    ["中文", "a\nb", "[bold]x", "é"]
)


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4))
def test_without_a_terminal_a_table_is_the_one_that_rich_prints(rows: list[tuple[str, str, str]]) -> None:
    cells = [(one, Text(other, style="red"), last) for one, other, last in rows]
    made = table(("NAME", "N", "WHAT"), cells, right=("N",))
    ours, rich = Console(file=io.StringIO(), width=240), Console(file=io.StringIO(), width=240)
    print_table(ours, made)
    rich.print(made, crop=False)
    of_rich = rich.file.getvalue().split("\n")  # type: ignore[attr-defined]
    assert ours.file.getvalue() == "\n".join(line.rstrip(" ") for line in of_rich)  # type: ignore[attr-defined]


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4), width=st.integers(45, 90))
def test_a_table_fits_a_terminal_and_loses_nothing(rows: list[tuple[str, str, str]], width: int) -> None:
    out = Console(file=io.StringIO(), width=width, force_terminal=True, _environ={"TERM": "xterm"})
    words = [[" ".join([cell.strip()] * 8).strip() for cell in row] for row in rows]
    print_table(out, table(("NAME", "N", "WHAT"), words))
    printed = re.sub("\x1b\\[[0-9;]*m", "", out.file.getvalue())  # type: ignore[attr-defined]
    assert all(cells_of(line) <= width for line in printed.split("\n"))
    for cell in (cell for row in words for cell in row):
        assert Counter("".join(cell.split())) <= Counter("".join(printed.split()))


def test_a_table_on_a_narrow_terminal_is_never_cut() -> None:
    out = Console(file=io.StringIO(), width=20, force_terminal=True, _environ={"TERM": "xterm"})
    print_table(out, table(("NAME", "WHAT"), [["a-name-longer-than-the-terminal", "spec[0] of it, and no markup"]]))
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert "a-name-longer-than-the-terminal  spec[0] of it, and no markup" in printed


@pytest.mark.parametrize("terminal", [True, False])
def test_why_jobs_wait_is_said_whole(terminal: bool) -> None:
    out = Console(file=io.StringIO(), width=60 if terminal else 240, force_terminal=terminal, _environ={"TERM": "dumb"})
    reason = {"code": "QuotaExceeded", "message": "needs 16, queue 'a100' has 0 of 32 left"}
    show([{"namespace": "default", "kind": "MPIJob", "name": "walk", "phase": "Pending", "reason": reason}], out)
    printed = " ".join(out.file.getvalue().split())  # type: ignore[attr-defined]
    assert "QuotaExceeded: needs 16, queue 'a100' has 0 of 32 left" in printed
    assert ("WHY" in printed) is not terminal
