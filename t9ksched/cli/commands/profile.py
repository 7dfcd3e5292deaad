"""`t9ksched profile`: what is left out of `run` again and again, under a name."""

from pathlib import Path
from typing import Annotated, Any

import typer

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.jobwords import Words, with_words
from t9ksched.cli.options import DataDirOption, OutputOption
from t9ksched.cli.output import Output, console, print_json, print_table, program, table
from t9ksched.client.errors import ClientError
from t9ksched.client.known import default_data_dir
from t9ksched.client.profiles import WORDS, Profile, Profiles

app = typer.Typer(no_args_is_help=True, help="Keep what `run` is to fill in where you leave it out.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the profile; `default` is used by itself.")]


@app.command("set")
@with_words
def set_(
    context: typer.Context,
    words: Words,
    name: NameArgument,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="OPTION", help="Leave this option out again; repeatable.")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Set options of a profile; others that it has stay as they are."""
    profiles = _profiles(data_dir)
    gone = [_word(option) for option in unset or ()]
    if not words and not gone:
        help_ = f"{program()} profile set --help"
        raise Failure("Nothing is set.", remedy=f"Name options, such as --image or --queue: {help_}", code=BAD_USAGE)
    try:
        before = profiles.all().get(name, {})
        profile = {word: value for word, value in (before | words).items() if word not in gone}
        profiles.put(name, profile)
    except ClientError as error:
        raise Failure(f"{error}.") from None
    except ValueError as error:
        raise Failure(f"{error}.", code=BAD_USAGE) from None
    console().print(f"profile {name}: {_options(profile)}")


@app.command("list")
def list_(data_dir: DataDirOption = None, output: OutputOption = Output.table) -> None:
    """List the profiles with their options."""
    try:
        known = _profiles(data_dir).all()
    except ClientError as error:
        raise Failure(f"{error}.") from None
    if output is Output.json:
        print_json({"items": [{"name": name, "options": profile} for name, profile in known.items()]})
    elif known:
        print_table(console(), table(("NAME", "OPTIONS"), [[name, _options(one)] for name, one in known.items()]))
    else:
        console().print(f"No profiles. Make one: {program()} profile set default --queue QUEUE --image IMAGE")


@app.command("show")
def show(name: NameArgument, data_dir: DataDirOption = None, output: OutputOption = Output.table) -> None:
    """Show the options of a profile, one a line."""
    profile = _found(data_dir, name)
    if output is Output.json:
        print_json({"name": name, "options": profile})
        return
    for option in _each(profile):
        console().print(option, highlight=False, markup=False)


@app.command("delete")
def delete(name: NameArgument, data_dir: DataDirOption = None) -> None:
    """Forget a profile."""
    _found(data_dir, name)
    _profiles(data_dir).drop(name)
    console().print(f"profile {name} is forgotten")


def used(name: str | None, data_dir: Path | None) -> Profile:
    """The profile that fills what is left out. Raises Failure when the one that is named does not exist."""
    try:
        return _profiles(data_dir).used(name)
    except ClientError as error:
        raise Failure(f"{error}.", code=BAD_USAGE) from None


def _profiles(data_dir: Path | None) -> Profiles:
    return Profiles(data_dir or default_data_dir())


def _found(data_dir: Path | None, name: str) -> Profile:
    try:
        return _profiles(data_dir).get(name)
    except ClientError as error:
        raise Failure(f"{error}.") from None


def _word(option: str) -> str:
    """The word of an option, as `--time-limit` or `time-limit`."""
    bare = option.removeprefix("--").replace("-", "_")
    word = {"mount": "mounts", "annotation": "annotations"}.get(bare, bare)
    if word not in WORDS:
        raise Failure(f"--unset {option}: a profile has no such option.", code=BAD_USAGE)
    return word


def _options(profile: Profile) -> str:
    return " ".join(_each(profile)) or "nothing"


def _each(profile: Profile) -> list[str]:
    """The options as one would type them. Values of variables may be secret, and are not shown."""
    found: list[str] = []
    for word in WORDS:
        value: Any = profile.get(word)
        option = f"--{word.replace('_', '-')}"
        if word == "env":
            found += [f"--env {name}" if text is None else f"--env {name}=…" for name, text in (value or {}).items()]
        elif word == "annotations":
            found += [f"--annotation {key}={text}" for key, text in (value or {}).items()]
        elif word == "mounts":
            found += [f"--mount {text}" for text in value or ()]
        elif word == "torchrun":
            found += [option] if value else []
        elif value is not None:
            found.append(f"{option} {value}")
    return found
