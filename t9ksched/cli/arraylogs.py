"""Logs of an array: those of its elements, each line with the index of its element in place of a rank."""

import sys
import threading
from collections.abc import Iterator, Sequence
from queue import Empty, Queue
from typing import Any, Final

from msgspec.structs import replace

from t9ksched.cli.arrays import index_of
from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.kinds import Target
from t9ksched.cli.logfollowing import MOST_FOLLOWED
from t9ksched.cli.output import console, paragraph
from t9ksched.client.carrying import lines
from t9ksched.client.errors import NotFound, Refused
from t9ksched.client.logs import LogWish
from t9ksched.client.logs import lines as log_lines
from t9ksched.client.models import LogLine
from t9ksched.client.operations import Operations, Retries

_AHEAD: Final = 1000
"""Lines that are read before they are printed."""


class ArrayLogs:
    """The logs of the first pods of elements.

    Args:
        client: the service.
        array: its name.
        elements: the jobs.
        wish: what of each log is wanted.
    """

    def __init__(self, client: Client, array: Target, elements: Sequence[dict[str, Any]], wish: LogWish) -> None:
        self._client = client
        self._wish = wish
        found = [(index_of(array.name, str(job["name"])), job) for job in elements]
        self._elements = sorted(
            (
                (-1 if index is None else index, Target(array.namespace, str(job["kind"]), str(job["name"])))
                for index, job in found
            ),
            key=lambda one: (one[0], one[1].name),
        )

    def lines(self, *, follow: bool) -> Iterator[LogLine]:
        """The lines: element by element, or as they come. Raises Failure when no element has a log."""
        with self._client.failures("", {}):
            yield from self._followed() if follow else self._read()

    def _read(self) -> Iterator[LogLine]:
        silent: list[Refused] = []
        for index, target in self._elements:
            try:
                yield from self._of(index, target, follow=False)
            except NotFound:
                continue  # it was deleted meanwhile
            except Refused as error:
                if error.code != "Conflict":
                    raise
                silent.append(error)
        if silent and len(silent) == len(self._elements):
            raise silent[0]
        if silent:
            paragraph(console(sys.stderr), f"{len(silent)} elements have no log, such as: {silent[0].detail}")

    def _of(self, index: int, target: Target, *, follow: bool) -> Iterator[LogLine]:
        operations = Operations(self._client.server, Retries() if follow else Retries(times=0))
        operation = log_lines(operations, str(target), target.namespace, self._wish, follow_it=follow)
        for line in lines(self._client.transport, operation):
            yield replace(line, rank=index)

    def _followed(self) -> Iterator[LogLine]:
        """As many elements at a time as the service lets be followed; the next when one is over."""
        ahead: Queue[tuple[int, Target]] = Queue()
        for element in self._elements:
            ahead.put(element)
        found: Queue[LogLine | Exception | None] = Queue(_AHEAD)

        def work() -> None:
            try:
                while True:
                    index, target = ahead.get_nowait()
                    try:
                        for line in self._of(index, target, follow=True):
                            found.put(line)
                    except NotFound:
                        continue
                    except Refused as error:
                        if error.code != "Conflict":  # one that ended and never ran has no log
                            raise
            except Empty:
                found.put(None)
            except Exception as error:
                found.put(error)

        workers = min(MOST_FOLLOWED, len(self._elements))
        for at in range(workers):
            threading.Thread(target=work, name=f"log-{at}", daemon=True).start()
        while workers:
            told = found.get()
            if told is None:
                workers -= 1
            elif isinstance(told, Exception):
                raise told
            else:
                yield told


def check(*, every: bool, ranks: Sequence[int] | None, array: Target) -> None:
    """Check that the first pod of each element is meant.

    Raises:
        Failure: others are.
    """
    if every or ranks is not None:
        raise Failure(
            f"{array} is an array: of its elements the first pods are shown.",
            remedy="Name one element to see its other pods.",
            code=BAD_USAGE,
        )
