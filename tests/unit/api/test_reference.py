"""The reference page is the one the code would write."""

from pathlib import Path

from t9ksched.api.reference import render

PAGE = Path(__file__).parents[3] / "docs/reference/rest.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == render(), "run `python -m t9ksched.api.reference > docs/reference/rest.md`"
