"""The page of other projects' kinds is current."""

from pathlib import Path

from t9ksched.cli.foreignreference import render

PAGE = Path(__file__).parents[3] / "docs/reference/foreign-jobs.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == render(), "run make reference"
