"""Examples: every command has one, and each names options that there are."""

import shlex

import pytest
from typer.main import get_command

from t9ksched.cli.application import COMMANDS, application
from t9ksched.cli.examples import EXAMPLES, shown
from t9ksched.cli.main import main
from tests.unit.cli.conftest import Call


def test_examples_are_of_commands_that_there_are() -> None:
    assert set(EXAMPLES) <= {one.name for one in COMMANDS if not one.foreign}


@pytest.mark.parametrize("line", [line for name in EXAMPLES for line in shown(name)])
def test_examples_are_read_by_the_program(line: str) -> None:
    place, options = get_command(application()), set[str]()
    for word in shlex.split(line)[1:]:
        if word == "--":
            break
        if word in getattr(place, "commands", {}):
            place = place.commands[word]  # type: ignore[attr-defined]
            options = {name for one in place.params for name in one.opts}
        elif word.startswith("-"):
            assert word in options, line
    assert not getattr(place, "commands", None), f"{line} ends at a group"


def test_help_shows_them_and_whom_commands_are_for(
    call: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = call("jobs", "--help")[1]
    assert "t9ksched jobs -o custom-columns=JOB,WHO:.submitter" in text
    assert "t9ksched submit job.yaml --set spec.replicaSpecs[0].replicas=4 --dry-run" in call("submit", "--help")[1]
    monkeypatch.setattr("sys.argv", ["t9ksched", "--help"])
    with pytest.raises(SystemExit):
        main()
    text = capsys.readouterr().out
    for person in ("Start here", "A user's day", "An administrator's day", "Operations"):
        assert text.count(person) == 2, "once over the commands, once over examples"
