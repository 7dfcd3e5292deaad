"""What the annotations of a pod ask of the simulated kubelet: how long its containers run, how they end, what they
write.
"""

from typing import Any, Final, NamedTuple

from t9ksched.devcluster.names import EXIT_CODE_ANNOTATION, LOG_LINES_ANNOTATION, RUN_SECONDS_ANNOTATION
from t9ksched.model.whole import whole_number

Object = dict[str, Any]
_MOST_LINES: Final = 10_000_000


class BadAnnotation(Exception):
    """An annotation that the kubelet cannot do as it says."""


class Timing(NamedTuple):
    """How many seconds the containers run (None until deleted), and the code they exit with."""

    seconds: float | None
    exit_code: int


def annotations_of(pod: Object) -> dict[str, str]:
    """The annotations, empty where there are none."""
    return pod["metadata"].get("annotations") or {}


def number(pod: Object, annotation: str, default: float) -> float:
    """The number in an annotation, never below 0; the default where there is none."""
    try:
        return max(0.0, float(annotations_of(pod).get(annotation, default)))
    except ValueError:
        return default


def timing(pod: Object) -> Timing:
    """When and how the containers end.

    Raises:
        BadAnnotation: a value is none.
    """
    annotations = annotations_of(pod)
    seconds, code = annotations.get(RUN_SECONDS_ANNOTATION), annotations.get(EXIT_CODE_ANNOTATION, "0")
    try:
        length = None if seconds is None else float(seconds)
    except ValueError:
        length = -1.0
    if length is not None and not 0 <= length < 1e9:
        raise BadAnnotation(f"annotation {RUN_SECONDS_ANNOTATION}: {seconds!r} is not a number of seconds")
    exit_code = whole_number(code)
    if exit_code is None or exit_code > 255:
        raise BadAnnotation(f"annotation {EXIT_CODE_ANNOTATION}: {code!r} is not an exit code from 0 to 255")
    return Timing(length, exit_code)


def run_seconds(pod: Object) -> float | None:
    """How long the containers run; None for until deleted, also where the annotation says nothing sensible."""
    try:
        return timing(pod).seconds
    except BadAnnotation:
        return None


def log_lines(pod: Object) -> tuple[str, ...] | int | None:
    """What each container writes at its start: these lines, or so many lines of progress; None for a line of progress
    a second.
    """
    text = annotations_of(pod).get(LOG_LINES_ANNOTATION)
    if text is None:
        return None
    count = whole_number(text)
    if count is not None:
        return min(count, _MOST_LINES)
    return tuple(text.removesuffix("\n").split("\n"))
