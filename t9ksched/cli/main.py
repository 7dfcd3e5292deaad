"""The program `t9ksched`: how it starts and how it ends.

Exit codes: 0 done, 1 the request failed, 2 bad usage. Whatever goes wrong is said in a sentence on stderr, never as a
traceback; `T9KSCHED_DEBUG=1` shows the traceback of what we did not foresee.
"""

import errno
import io
import os
import sys

from t9ksched import version
from t9ksched.cli.failure import BAD_USAGE, REQUEST_FAILED, Failure
from t9ksched.cli.heap import loading
from t9ksched.cli.messages import book

SERVER_PACKAGES = frozenset(
    {
        "aiohttp",
        "aiosqlite",
        "alembic",
        "apscheduler",
        "cryptography",
        "fastapi",
        "fastapi_offline",
        "hpack",
        "kubernetes",
        "numpy",
        "psycopg",
        "pydantic",
        "pydantic_settings",
        "sqlalchemy",
        "structlog",
        "uvicorn",
    }
)
"""What the extra `server` of the package adds, as it is imported."""
EXTRAS = {"opentelemetry": "otel", "textual": "top"}
"""What single commands need beyond that, by the extra that adds it."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
"""What writing to a full disk fails with."""
_INTERRUPTED = 130
"""The exit code of what Ctrl-C ended, as shells have it."""


def main() -> None:
    """Run the command line of this process and leave with its exit code."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"t9ksched {version()}\n")
        return
    if os.environ.get("_T9KSCHED_COMPLETE"):
        from t9ksched.cli import completion

        completion.run()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # of a terminal that has no such character
    try:
        with loading():
            from t9ksched.cli.application import application

            program = application(*sys.argv[1:2])
        if (own := book()) is not None:
            from t9ksched.cli.messages.helptexts import run

            run(program, own)
        try:
            program()
        finally:
            sys.stdout.flush()
    except Failure as failure:
        _tell(failure)
        sys.exit(failure.code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)  # before a service began, which stops in order
    except BrokenPipeError:
        # The reader (head, less) went away: nothing more to say, and nothing to flush at exit.
        _drop_output()
        sys.exit(REQUEST_FAILED)
    except Exception as error:
        told = _not_written(error) or _without_service(error)
        if told is None:
            if os.environ.get("T9KSCHED_DEBUG"):
                raise
            told = Failure(
                f"t9ksched did not foresee this: {type(error).__name__}: {error}",
                remedy="Repeat with T9KSCHED_DEBUG=1 in the environment to see where, and report it.",
            )
        _tell(told)
        sys.exit(told.code)


def _drop_output() -> None:
    """What is still to be written goes nowhere: it would fail again at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _not_written(error: Exception) -> Failure | None:
    """The failure of a command whose output finds no room; None of any other error."""
    if not isinstance(error, OSError) or error.errno not in _FULL:
        return None
    _drop_output()
    return Failure(f"What there is to say cannot be written: {error.strerror}.", remedy="Make room, and repeat.")


def _without_service(error: Exception) -> Failure | None:
    """The failure of a command that needs more than what is installed here; None of any other error."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in SERVER_PACKAGES:
        extra, what = "server", "the service"
    elif package in EXTRAS:
        extra, what = EXTRAS[package], package
    else:
        return None
    return Failure(
        f"This command needs {what}, which is not installed here"
        + (f": there is no {package}." if what != package else "."),
        remedy=f"Install it: pip install 't9ksched[{extra}]'",
        code=BAD_USAGE,
    )


def _tell(failure: Failure) -> None:
    from t9ksched.cli.output import print_failure

    print_failure(failure)
