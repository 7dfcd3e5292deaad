"""`t9ksched db`: bring a database's tables to this release, or back, say where they are, copy and move it."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from t9ksched.cli.commands.cancel import confirm
from t9ksched.cli.datadir import database_url, lock
from t9ksched.cli.failure import Failure
from t9ksched.cli.foreign import failures
from t9ksched.cli.options import DataDirOption
from t9ksched.cli.output import console
from t9ksched.cli.progress import working
from t9ksched.client.known import default_data_dir

app = typer.Typer(no_args_is_help=True, help="Upgrade, downgrade, inspect and copy the database.")
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--db", envvar="T9KSCHED_DB", metavar="URL", help="The database (default: SQLite in the data directory)."
    ),
]


@app.command("upgrade")
def upgrade(
    revision: Annotated[str, typer.Argument(metavar="REVISION")] = "head",
    db: UrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Bring the tables to a revision (default: the newest)."""
    from t9ksched.store import schema

    address = _address(db, data_dir)
    if revision not in ("head", *schema.revisions()):
        raise Failure(f"There is no revision '{revision}'.", remedy=f"Known are head, {', '.join(schema.revisions())}.")
    with failures(), working():
        schema.upgrade(address, revision)
    _tell(address)


@app.command("downgrade")
def downgrade(
    revision: Annotated[str, typer.Argument(metavar="REVISION", help="Such as 0001; 'base' for no tables at all.")],
    db: UrlOption = None,
    data_dir: DataDirOption = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask before 'base'.")] = False,
) -> None:
    """Take the tables back to a revision, with the services stopped. What newer tables held is lost; with base, all."""
    from t9ksched.store import schema, urls

    address = _address(db, data_dir)
    with failures():
        schema.require_file(address)
        shown = urls.shown(urls.parse(address))
    with _unused(db, data_dir) as owned:
        if revision == "base" and not yes:
            confirm(f"Delete all tables of {shown}, with all queues, jobs, history and usage?")
        with failures(), working():
            schema.downgrade(address, revision, unused=owned is None)  # else the lock has told
    _tell(address)


@app.command("current")
def current(db: UrlOption = None, data_dir: DataDirOption = None) -> None:
    """Say at which revision the tables are, and which one this release needs."""
    _tell(_address(db, data_dir))


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy; it must not exist yet.")],
    db: UrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Copy an SQLite database while it is in use. PostgreSQL has pg_dump."""
    from t9ksched.store.backup import copy

    with failures(), working():
        copy(_address(db, data_dir), file)
    console().print(
        f"The database was copied to {file}. To go back: stop the service, put the copy in place, start it."
    )


@app.command("copy")
def copy_(
    to: Annotated[str, typer.Option("--to", metavar="URL", help="A new, empty PostgreSQL database.")],
    db: UrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Copy an SQLite database into PostgreSQL, with the service stopped."""
    from t9ksched.store.transfer import transfer

    address = _address(db, data_dir)
    with _unused(db, data_dir), failures(), working():
        rows = transfer(address, to)
    console().print(
        f"{sum(rows.values())} rows of {len(rows)} tables were copied. The old database is as it was;"
        " start the service with the new one: T9KSCHED_DB or --db."
    )


def _unused(db: str | None, data_dir: Path | None) -> AbstractContextManager[object]:
    """Owns the data directory of the database, if it is in one; raises Failure while a service does."""
    if db is None:
        return lock(data_dir or default_data_dir())
    path = Path(db.removeprefix("sqlite:///")).expanduser()
    return lock(path.parent) if (path.parent / "lock").is_file() else nullcontext()


def _address(db: str | None, data_dir: Path | None) -> str:
    directory = data_dir or default_data_dir()
    if db is None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return db or database_url(directory)


def _tell(address: str) -> None:
    from t9ksched.store import schema

    with failures():
        schema.require_file(address)
        found, needed = schema.current(address), schema.newest()
    console().print(f"The database is at revision {found or 'none'}; this release needs {needed}.")
