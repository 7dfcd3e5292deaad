"""How a pod ended, as text for users: its exit code or signal, the reason, and the program's last message.

The structs are the parts of a pod's status that are read. Of several containers that failed the first one counts, init
containers first, because the failure of the others usually follows from it.
"""

import signal
from collections.abc import Iterable
from typing import Final

import msgspec

MOST_SAID: Final = 300
"""Characters of a program's last message that are kept; its end tells more than its beginning."""
COMING: Final = ("PodInitializing", "ContainerCreating")
"""Why a container does not run yet, with nothing wrong."""
_PLAIN: Final = ("", "Error", "Completed")
"""Reasons of a container's end that say no more than its exit code."""
_FIRST_SIGNAL: Final = 128


class Terminated(msgspec.Struct, gc=False, rename="camel"):
    """The end of a container."""

    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    finished_at: str | None = None


class Waits(msgspec.Struct, gc=False):
    """Why a container does not run."""

    reason: str | None = None
    message: str | None = None


class ContainerState(msgspec.Struct, gc=False):
    """The state of a container, as far as it ended or does not run."""

    terminated: Terminated | None = None
    waiting: Waits | None = None


class ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    """A container with its state now and before it was started anew."""

    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    ready: bool = False


def hindrance(containers: Iterable[ContainerStatus]) -> tuple[str, str] | None:
    """What keeps a pod with these containers from running, as its node says: a word such as `ErrImagePull`, and a
    sentence; None where nothing is wrong.
    """
    for status in containers:
        waits = status.state.waiting if status.state is not None else None
        if waits is not None and waits.reason and waits.reason not in COMING:
            return waits.reason, shorten(waits.message or f"container {status.name} does not run")
    return None


class Ending(msgspec.Struct, frozen=True):
    """How a pod ended, such as `ended with exit code 137 (SIGKILL), OOMKilled`, and what was said last, if anything."""

    how: str
    said: str = ""

    @property
    def last_words(self) -> str:
        """What was said last as the end of a sentence, empty if nothing was."""
        return f"; its last message: {self.said}" if self.said else ""


def ending(reason: str, message: str, containers: Iterable[ContainerStatus]) -> Ending:
    """How a failed pod ended.

    Args:
        reason: of the pod's status, such as `Evicted`.
        message: of the pod's status.
        containers: its init containers, then the others.
    """
    statuses = tuple(containers)
    for status in statuses:
        end = status.state.terminated if status.state is not None else None
        if end is None or not (end.exit_code or end.signal):
            continue
        how = f"ended with {_code(end)}"
        if len(statuses) > 1:
            how = f"{how} in container {status.name}"
        named = [each for each in (end.reason or "", reason) if each not in _PLAIN]
        return Ending(", ".join(dict.fromkeys((how, *named))), shorten(end.message or message))
    return Ending(f"failed ({reason})" if reason else "failed", shorten(message))


def shorten(message: str) -> str:
    """A message in one line, at most its last `MOST_SAID` characters."""
    line = " | ".join(part for each in message.splitlines() if (part := each.strip()))
    return line if len(line) <= MOST_SAID else f"…{line[-MOST_SAID:]}"


def _code(end: Terminated) -> str:
    number = end.signal or max(0, end.exit_code - _FIRST_SIGNAL)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = ""
    if end.signal and not end.exit_code:
        return f"signal {end.signal}" + (f" ({name})" if name else "")
    return f"exit code {end.exit_code}" + (f" ({name})" if name else "")
