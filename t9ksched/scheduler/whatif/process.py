"""Worker processes: given a task on stdin, they answer on stdout. They have no other input: no database, no cluster, no
settings, no secret. They give way to all other processes, and what they may take is limited.
"""

import asyncio
import contextlib
import os
import resource
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from t9ksched.engine.kernel.native import SWITCH
from t9ksched.engine.plugins import Factory

ENVIRONMENT: Final = {"PATH": os.defpath, "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""All that a worker sees of the environment, beside `SWITCH`: settings hold secrets."""
_NICE: Final = 10
_MEMORY: Final = 4 << 30
"""Bytes of address space."""
_CPU_SECONDS: Final = 60
"""For a worker whose answer nothing waits for any more."""
_SHOWN: Final = 2000
"""Characters of what a worker says when it fails."""


class WorkerFailed(Exception):
    """A worker could not be started, took too long, or ended without an answer; the text says which."""


async def answer(command: Sequence[str], task: Iterable[bytes], seconds: float) -> bytes:
    """What a worker says of a task that is handed over in pieces; it is ended after so many seconds.

    Raises:
        WorkerFailed: there is no answer.
    """
    process: Process | None = None
    try:
        async with asyncio.timeout(seconds):
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(), cwd="/"
            )
            await _write(process, task)
            out, err = await process.communicate()
    except TimeoutError:
        raise WorkerFailed(f"it took longer than {seconds:g} seconds") from None
    except OSError as error:
        raise WorkerFailed(f"no process can be started: {error}") from None
    finally:
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise WorkerFailed(f"code {process.returncode}: {err.decode(errors='replace')[-_SHOWN:]}")
    return out


def environment() -> dict[str, str]:
    """What a worker sees of the environment."""
    return ENVIRONMENT | {name: text for name, text in os.environ.items() if name == SWITCH}


async def _write(process: Process, task: Iterable[bytes]) -> None:
    """Hand over a task, so that other tasks run in between."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended: its code says why
        for piece in task:
            process.stdin.write(piece)
            await process.stdin.drain()
            await asyncio.sleep(0)
        process.stdin.close()
        await process.stdin.wait_closed()


def found_plugins() -> Mapping[str, Factory]:
    """The factories of installed plugins by name, for a worker."""
    # Most policies use no plugin, and what finds them takes a second to import.
    from t9ksched.scheduler.decide.plugins import installed

    return installed()


def bounded() -> None:
    """Called by a worker: give way to others, and end rather than take too much."""
    os.nice(_NICE)
    for what, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _CPU_SECONDS)):
        with contextlib.suppress(ValueError, OSError):  # not every system knows each
            resource.setrlimit(what, (most, most))
