from pathlib import Path

from t9ksched.cli.kindsreference import with_table
from t9ksched.cli.reference import reference
from t9ksched.cli.settingsreference import meanings, settings_reference
from t9ksched.settings import Settings

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == reference(), "run `make reference`"


def test_the_page_of_settings_is_current_and_leaves_none_out() -> None:
    assert (PAGE.parent / "settings.md").read_text() == settings_reference(), "run `make reference`"
    assert [name for name in Settings.model_fields if not meanings().get(name)] == []


def test_the_table_of_kinds_is_that_of_the_registry() -> None:
    page = (PAGE.parent / "workloads.md").read_text()
    assert page == with_table(page), "run `make reference`"
