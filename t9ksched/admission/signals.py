"""A signal before the limit that a job asks for, held against the limits that come from elsewhere.

A limit that stands beside it and is not longer makes the request faulty (`rules.signal_readable`). A queue's
`maxDuration`, an `activeDeadlineSeconds` or the annotation of another object may change until the job runs: there it is
warned about, and the job is ended at its limit without an earlier signal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from t9ksched.model.errors import FieldWarning, child
from t9ksched.model.names import SIGNAL_BEFORE_ANNOTATION, TIME_LIMIT_ANNOTATION
from t9ksched.model.queue import Queue
from t9ksched.model.timelimit import limit_seconds, written


class Annotated(NamedTuple):
    """Annotations of an object or of its pods, where they stand, and the spec beside them."""

    path: str
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]


class _Limit(NamedTuple):
    seconds: int
    what: str


def vain_signals(parts: Sequence[Annotated], queue: Queue | None) -> Iterator[FieldWarning]:
    """Warnings about signals that are not shorter than the shortest limit of a job: of the object itself, first of
    `parts`, of its pods, and of its queue.
    """
    limits = list(_limits(parts, queue))
    for part in parts:
        early = _seconds(part.annotations.get(SIGNAL_BEFORE_ANNOTATION))
        if early is None:
            continue
        beside = _seconds(part.annotations.get(TIME_LIMIT_ANNOTATION))
        if beside is not None and beside <= early:
            continue  # a fault
        shortest = min(limits, default=None)
        if shortest is not None and early >= shortest.seconds:
            text = f"{written(early)} is not shorter than {shortest.what}: the job is told to stop only when it ends"
            yield FieldWarning(child(part.path, SIGNAL_BEFORE_ANNOTATION), text)


def _limits(parts: Sequence[Annotated], queue: Queue | None) -> Iterator[_Limit]:
    for part in parts:
        if (seconds := _seconds(part.annotations.get(TIME_LIMIT_ANNOTATION))) is not None:
            yield _Limit(seconds, f"the time limit of {written(seconds)} in {child(part.path, TIME_LIMIT_ANNOTATION)}")
        policy = part.spec.get("runPolicy")
        for spec in (part.spec, policy if isinstance(policy, Mapping) else {}):
            deadline = spec.get("activeDeadlineSeconds")
            if isinstance(deadline, int) and not isinstance(deadline, bool) and deadline > 0:
                yield _Limit(deadline, f"the activeDeadlineSeconds of {deadline}")
    length = queue.spec.duration if queue is not None else None
    if queue is not None and length is not None:
        text = f"the maxDuration of {queue.spec.max_duration} of the queue {queue.name!r}"
        yield _Limit(int(length.total_seconds()), text)


def _seconds(text: object) -> int | None:
    """A duration in seconds; None for none, and for what cannot be read."""
    try:
        return limit_seconds(str(text)) if text else None
    except ValueError:
        return None
