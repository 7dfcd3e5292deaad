"""Reading what a pod of a job writes, and following it: over breaks, over restarts of its containers, and over to the
pod that takes its place.

Operations yield what those of `operations.py` do, and `LogStream`: the parts of its answer are given to `feed`, the
lines go to the program, and the operation is sent how it ended.
"""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from t9ksched.client.calls import Answer, Call
from t9ksched.client.errors import ClientError, Misunderstood, NotFound, Refused, Unreachable
from t9ksched.client.loglines import LogReader
from t9ksched.client.models import Job, Listed, LogLine, Pod
from t9ksched.client.operations import Operation, Operations
from t9ksched.client.targets import Target, target_of
from t9ksched.model.job import TERMINATING

FIRST_SECONDS: Final = 0.25
LONGEST_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 120.0
_NOT_YET: Final = 409


@dataclass(frozen=True)
class LogStream:
    """A log to be read as it comes."""

    call: Call
    reader: LogReader

    def feed(self, part: bytes) -> list[LogLine]:
        """The lines that end in this part."""
        return self.reader.feed(part)

    def end(self) -> list[LogLine]:
        """What was written last without an end of line, when the answer has ended well."""
        return self.reader.end()


LogOperation = Generator[Call | float | LogStream, Answer | ClientError | None, None]
Waits = Callable[[Job, Pod | None], object]


@dataclass(frozen=True)
class LogWish:
    """What of a log is wanted.

    Attributes:
        rank: of the pod; None for the launcher, else rank 0.
        pod: its name, in place of a rank.
        container: None for the main one.
        tail: so many last lines; of the first pod, when following.
        since: what was written from that moment on, or in so many seconds.
        previous: of the run before its last restart.
        on_wait: is told of the job, and of the pod if there is one, whenever what is waited for changes.
        on_away: is told why once a service that was followed does not answer any more; it is waited for.
    """

    rank: int | None = None
    pod: str | None = None
    container: str | None = None
    tail: int | None = None
    since: datetime | float | None = None
    previous: bool = False
    on_wait: Waits | None = field(default=None, compare=False)
    on_away: Callable[[Unreachable], object] | None = field(default=None, compare=False)

    def query(self) -> dict[str, Any]:
        """The parameters of a request."""
        moment = self.since if isinstance(self.since, datetime) else None
        seconds = None if self.since is None or moment is not None else max(1, round(float(self.since)))  # type: ignore[arg-type]
        return {
            "timestamps": True,
            "container": self.container,
            "tailLines": self.tail,
            "sinceSeconds": seconds,
            "sinceTime": None if moment is None else moment.astimezone().isoformat(),
            "previous": self.previous or None,
        }

    def choose(self, pods: Sequence[Pod]) -> Pod | None:
        """The pod that is meant."""
        if self.pod is not None:
            return next((one for one in pods if one.name == self.pod), None)
        if self.rank is not None:
            return next((one for one in pods if one.rank == self.rank), None)
        return next(iter(pods), None)


def lines(operations: Operations, job: Any, namespace: str | None, wish: LogWish, *, follow_it: bool) -> LogOperation:
    """What a pod of the job has written, or writes.

    Raises:
        ValueError: what is wished contradicts itself.
    """
    if follow_it and wish.previous:
        raise ValueError("the run before the last restart has ended: it cannot be followed")
    if wish.rank is not None and wish.pod is not None:
        raise ValueError("name a rank or a pod, not both")
    return (follow if follow_it else read)(operations, job, namespace, wish)


def pods(operations: Operations, job: Any, namespace: str | None) -> Operation[Listed[Pod]]:
    """The pods of a job."""
    return operations.many(f"{target_of(job, namespace).path}/pods", Pod, {})


def read(operations: Operations, job: Any, namespace: str | None, wish: LogWish) -> LogOperation:
    """What a pod of the job has written.

    Raises:
        Refused: it has no log, or the caller may not read it.
    """
    target = target_of(job, namespace)
    found = yield from _plain(pods(operations, job, namespace))
    chosen = wish.choose(found)
    if chosen is None:  # the service says why
        place = f"{target.path}/pods/{wish.pod}/log" if wish.pod else f"{target.path}/log"
        chosen, call = Pod(name="", uid=""), Call("GET", place, wish.query() | {"rank": wish.rank})
    else:
        call = Call("GET", _address(target, chosen), wish.query())
    ended = yield LogStream(call, LogReader(chosen))
    if isinstance(ended, ClientError):
        raise ended


def follow(
    operations: Operations,
    job: Any,
    namespace: str | None,
    wish: LogWish,
    patience: float = PATIENCE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> LogOperation:
    """What a pod of the job writes, until the job is over and nothing more can come.

    Raises:
        Refused: the caller may not read it.
        NotFound: there is no such job.
        Unreachable: the service does not answer at all, or was away for longer than `patience` seconds.
    """
    target = target_of(job, namespace)
    place = _Place(wish, clock)
    while True:
        try:
            known: Job = yield from _plain(operations.one(target.path, Job))
            found = yield from _plain(pods(operations, known, None))
        except NotFound:
            if place.known is None:
                raise
            return  # it was deleted
        except (Refused, Unreachable) as error:
            if place.known is None and isinstance(error, Unreachable):
                raise  # as every other call: nothing was followed yet
            place.broken(error, patience)
            yield place.pause()
            continue
        pod = place.at(known, wish.choose(found))
        if pod is None or place.drained == pod.uid:
            if known.finished and not place.begun:
                yield from read(operations, known, None, wish)  # the service says why there is nothing
            if known.finished or (known.phase == TERMINATING and pod is None):
                return
            yield place.pause()
            continue
        before = place.reader.since
        place.reader.begin()
        ended = yield LogStream(Call("GET", _address(target, pod), place.query()), place.reader)
        if isinstance(ended, ClientError):
            place.broken(ended, patience)
        elif pod.finished:
            place.drained = pod.uid
            continue
        yield place.pause(fresh=place.reader.since != before)


class _Place:
    """Which pod is read, how far, and what was said of it."""

    def __init__(self, wish: LogWish, clock: Callable[[], float]) -> None:
        self._wish = wish
        self._clock = clock
        self._heard = clock()
        self._pause = FIRST_SECONDS
        self._away = False
        self._told: tuple[object, ...] | None = None
        self._first = ""
        self.known: Job | None = None
        self.reader = LogReader(Pod(name="", uid=""))
        self.drained = ""
        """The UID of the pod that had ended when all of its log was read."""

    def at(self, job: Job, pod: Pod | None) -> Pod | None:
        """The pod to be read now; None if there is nothing to read yet."""
        self.known, self._heard, self._away = job, self._clock(), False
        ready = pod is not None and pod.logged
        told = (job.phase, job.reason, ready, pod and (pod.uid, pod.reason))
        if told != self._told and self._wish.on_wait is not None:
            self._wish.on_wait(job, pod)
        self._told = told
        if pod is None or not ready:
            return None
        if pod.uid != self.reader.pod.uid:
            self._first = self._first or pod.uid
            self.reader, self._pause = LogReader(pod), FIRST_SECONDS
        return pod

    def query(self) -> dict[str, Any]:
        """The parameters of the next request: the wish of the first pod, all of later ones, and what is not known."""
        asked = self._wish.query() | {"follow": True}
        if self.reader.since is None and self.reader.pod.uid == self._first:
            return asked
        return asked | {"tailLines": None, "sinceSeconds": None, "sinceTime": self.reader.since}

    @property
    def begun(self) -> bool:
        """Whether a pod was there that had something to read."""
        return bool(self._first)

    def pause(self, *, fresh: bool = False) -> float:
        """How long to wait before the next look; a short while if something new was read."""
        if fresh:
            self._pause = FIRST_SECONDS
        pause, self._pause = self._pause, min(LONGEST_SECONDS, self._pause * 1.5)
        return pause

    def broken(self, error: ClientError, patience: float) -> None:
        """Raise the error where there is no use in another try."""
        if isinstance(error, Misunderstood) or (isinstance(error, Unreachable) and not error.trusted):
            raise error
        if isinstance(error, Refused) and error.status < 500 and error.status not in (_NOT_YET, 404, 408, 429):
            raise error
        if self._clock() - self._heard > patience:
            raise error
        if isinstance(error, Unreachable) and not self._away and self._wish.on_away is not None:
            self._away = True
            self._wish.on_away(error)


def _address(target: Target, pod: Pod) -> str:
    return f"{target.path}/pods/{pod.name}/log"


def _plain(operation: Operation[Any]) -> Generator[Any, Any, Any]:
    """An operation as a part of one with streams."""
    return (yield from operation)
