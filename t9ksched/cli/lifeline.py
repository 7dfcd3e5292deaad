"""A job that ends with the command that started it, however that ends: a child process watches, which deletes the job
when this process is killed or its terminal is closed.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from t9ksched.cli.client import Client
from t9ksched.cli.failure import Away, Failure
from t9ksched.cli.kinds import Target
from t9ksched.cli.output import console, paragraph

PATIENCE_SECONDS: Final = 600.0
"""How long the child tries to reach a service that is away."""
_PAUSE_SECONDS: Final = 2.0
_DONE: Final = b"."


@contextmanager
def ends_with_us(client: Client, target: Target) -> Iterator[None]:
    """Delete the job when the block is left. Call it before there are threads: it forks."""
    watched, alive = os.pipe()
    if not os.fork():
        os.close(alive)
        _watch(client, target, watched)
    os.close(watched)
    try:
        yield
    finally:
        out = console(sys.stderr)
        try:
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C; the child does it
                if _deleted(client, target):
                    os.write(alive, _DONE)
                    paragraph(out, f"{target} is being deleted")
                else:
                    paragraph(out, f"{target} is deleted as soon as the service answers, within ten minutes")
        finally:
            os.close(alive)


def _deleted(client: Client, target: Target) -> bool:
    """Delete it, if it is still there; False while the service is away."""
    try:
        client.delete(target.path)
    except Away:
        return False
    except Failure as failure:
        if failure.name != "NotFound":
            raise
    return True


def _watch(client: Client, target: Target, watched: int) -> NoReturn:
    """Wait until the parent has ended, and delete the job unless it has done so."""
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        if os.read(watched, 1) != _DONE:
            fresh, until = Client(client.server, client.token), time.monotonic() + PATIENCE_SECONDS
            while not _deleted(fresh, target) and time.monotonic() < until:
                time.sleep(_PAUSE_SECONDS)
        code = 0
    finally:
        os._exit(code)
