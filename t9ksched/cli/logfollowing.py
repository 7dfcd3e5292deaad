"""Follows the logs of several pods of a job at once: a thread for each, and one queue from which lines are taken."""

import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from queue import Empty, Queue
from typing import Final

from t9ksched.cli.failure import Failure
from t9ksched.client.carrying import carry_out, lines
from t9ksched.client.errors import NotFound
from t9ksched.client.logs import LogWish, Waits, follow, pods
from t9ksched.client.models import Job, Listed, LogLine, Pod
from t9ksched.client.operations import Operations, Retries
from t9ksched.client.sending import Transport
from t9ksched.client.targets import Target

MOST_FOLLOWED: Final = 48
"""Pods at a time: the service has 64 logs open for a user."""
_LOOK_SECONDS: Final = 2.0
_AHEAD: Final = 1000
"""Lines that are read before they are printed."""


class SeveralLogs:
    """The logs of the pods of these ranks, or of every pod there is or will be, until the job is over.

    Args:
        transport: sends requests.
        target: the job.
        wish: what of each log is wanted.
        ranks: None for every pod.
        on_wait: is told of what is waited for.
    """

    def __init__(
        self, transport: Transport, target: Target, wish: LogWish, ranks: Collection[int] | None, on_wait: Waits
    ) -> None:
        self._transport = transport
        self._target = target
        self._wish = wish
        self._ranks = ranks
        self._on_wait = on_wait
        self._operations = Operations(transport.server, Retries())
        self._queue: Queue[LogLine | Exception | None] = Queue(_AHEAD)
        self._followed: set[int | None] = set()
        self._busy = 0

    def lines(self) -> Iterator[LogLine]:
        """The lines in the order in which they come.

        Raises:
            Failure: there are too many pods.
            ClientError: as following one log.
        """
        looked = float("-inf")
        over = False
        while True:
            if not over and time.monotonic() - looked >= _LOOK_SECONDS:
                over = self._look()
                looked = time.monotonic()
            if over and not self._busy:
                return
            try:
                found = self._queue.get(timeout=_LOOK_SECONDS / 4)
            except Empty:
                continue
            if found is None:
                self._busy -= 1
            elif isinstance(found, Exception):
                raise found
            else:
                yield found

    def _look(self) -> bool:
        """Follow pods that are new; whether the job is over."""
        name, namespace = str(self._target), self._target.namespace
        try:
            job = carry_out(self._transport, self._operations.job(name, namespace))
            found: Listed[Pod] = carry_out(self._transport, pods(self._operations, job, None))
        except NotFound:
            if not self._followed:
                raise
            return True
        if not found and not self._followed:
            self._tell(job)
            if job.finished:
                self._follow(None)  # the service says why there is nothing
        there = {one.rank for one in found if one.rank is not None}
        if found and found[0].rank is None and self._ranks is None and found[0].part:
            self._follow(None)
        for rank in sorted(there if self._ranks is None else self._ranks):
            self._follow(rank)
        return job.finished

    def _tell(self, job: Job) -> None:
        self._on_wait(job, None)

    def _follow(self, rank: int | None) -> None:
        """Follow the pod of that rank, or the launcher, unless it is followed already."""
        if rank in self._followed:
            return
        if len(self._followed) >= MOST_FOLLOWED:
            raise Failure(
                f"{self._target} has more than {MOST_FOLLOWED} pods: so many logs are not followed at once.",
                remedy="Choose some of them: --rank 0-7",
            )
        self._followed.add(rank)
        self._busy += 1
        wish = replace(self._wish, rank=rank, on_wait=self._on_wait)
        threading.Thread(target=self._read, args=(wish,), name=f"log-{rank}", daemon=True).start()

    def _read(self, wish: LogWish) -> None:
        try:
            operation = follow(self._operations, str(self._target), self._target.namespace, wish)
            for line in lines(self._transport, operation):
                self._queue.put(line)
        except Exception as error:
            self._queue.put(error)
        finally:
            self._queue.put(None)
