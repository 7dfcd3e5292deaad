"""Arrays for people: one line for all elements, and following them until all have ended."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from rich.text import Text

from t9ksched.cli.client import Client
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.following import PHASE_STYLES
from t9ksched.cli.kinds import Target
from t9ksched.cli.output import console, paragraph
from t9ksched.model.job import FINISHED
from t9ksched.model.names import ARRAY_LABEL

Json = dict[str, Any]
WAITING: Final = ("Pending", "Resuming", "Paused")
"""Phases of a job that has not started."""
_POLL_SECONDS: Final = 1.0
_WORDS: Final = {"Pending": "wait", "Running": "run", "Succeeded": "succeeded", "Failed": "failed"}
_SECONDS_EACH: Final = 0.2
_LONGEST: Final = 40
"""Characters of ranges that are shown."""
_GONE: Final = "deleted"


@dataclass(frozen=True)
class Chosen:
    """The jobs that a name means; `array` is the name if it is that of an array."""

    jobs: tuple[Json, ...]
    array: Target | None = None

    @property
    def waiting(self) -> tuple[Json, ...]:
        """What a change is about: the job itself, or the elements that wait."""
        return tuple(job for job in self.jobs if self.array is None or job.get("phase") in WAITING)


def chosen(client: Client, target: Target) -> Chosen:
    """The job of that name, or the elements of the array.

    Raises:
        Failure: there is neither.
    """
    try:
        return Chosen((client.get(target.path),))
    except Failure as failure:
        found = elements(client, target.namespace, target.kind, target.name) if failure.name == "NotFound" else []
        if not found:
            raise
        return Chosen(tuple(found), target)


def elements_named(client: Client, target: Target) -> list[Json]:
    """The elements of the array of that name, if no job has it; none where one has, or where nothing has."""
    try:
        client.get(target.path)
    except Failure as failure:
        return elements(client, target.namespace, target.kind, target.name) if failure.name == "NotFound" else []
    return []


def elements_of(obj: Json, text: str) -> list[Json]:
    """The objects that the service makes of one. Raises Failure (bad usage) for a text that names no array."""
    from t9ksched.workloads.arrays import elements as made
    from t9ksched.workloads.arrays import read_array

    try:
        return made(obj, read_array(text))
    except ValueError as error:
        raise Failure(f"--array: {error}", code=BAD_USAGE) from None


def index_of(array: str, name: str) -> int | None:
    """The index of the element of that name; None of what is no element of the array."""
    head, dash, number = name.rpartition("-")
    return int(number) if head == array and dash and number.isdecimal() else None


def ranges(indices: Iterable[int]) -> str:
    """Indices as people write them: `0-7,9,20-99`; cut where that is long."""
    parts: list[list[int]] = []
    for index in sorted(indices):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in parts]
    most = next((at for at in range(1, len(texts)) if len(",".join(texts[: at + 1])) > _LONGEST), len(texts))
    return ",".join(texts[:most]) + (",…" if most < len(texts) else "")


def patient(client: Client, elements: int) -> Client:
    """A client that waits longer for an answer about so many jobs, which are made one after the other."""
    return replace(client, timeout=client.timeout + elements * _SECONDS_EACH)


def named(jobs: Sequence[Json]) -> str:
    """Several elements in one name."""
    first, last = jobs[0], jobs[-1]
    if len(jobs) == 1:
        return f"{first['kind']}/{first['name']}"
    return f"{len(jobs)} jobs, {first['kind']}/{first['name']} to {last['name']},"


def follow(client: Client, jobs: Sequence[Json], *, quiet: bool = False) -> list[Json]:
    """Tell how many elements run and have ended, until all have; the elements then. One that was deleted meanwhile is
    as it was seen last.
    """
    array = (jobs[0].get("labels") or {}).get(ARRAY_LABEL, "")
    seen: dict[str, Json] = {str(job["uid"]): dict(job) for job in jobs}
    told: Counter[str] = Counter()
    there: set[str] = set()
    while True:
        listed = {str(job["uid"]): job for job in elements(client, jobs[0]["namespace"], jobs[0]["kind"], array)}
        there |= listed.keys() & seen.keys()
        seen |= {uid: job for uid, job in listed.items() if uid in seen}
        counts = Counter(
            _GONE if uid in there and uid not in listed and job["phase"] not in FINISHED else str(job["phase"])
            for uid, job in seen.items()
        )
        if counts != told and not quiet:
            tell_counts(array, counts)
        told = counts
        if all(phase in (*FINISHED, _GONE) for phase in counts):
            return list(seen.values())
        time.sleep(_POLL_SECONDS)


class Reached(Protocol):
    """Whether an element is as far as is waited for. Raises Failure when it cannot get there any more."""

    def __call__(self, job: Json, *, there: bool) -> bool: ...


def wait_for_array(
    client: Client, array: Target, jobs: Sequence[Json], reached: Reached, end: float, *, tell: bool
) -> list[Json] | None:
    """The elements once all are as far as is waited for; None when that is not so at the time `end`. With `tell` people
    are told meanwhile how many are how far.
    """
    seen: dict[str, Json] = {str(job["uid"]): dict(job) for job in jobs}
    last: Counter[str] = Counter()
    while True:
        listed = {str(job["uid"]): job for job in elements(client, array.namespace, array.kind, array.name)}
        seen |= {uid: job for uid, job in listed.items() if uid in seen}
        counts = Counter(str(job["phase"]) if uid in listed else _GONE for uid, job in seen.items())
        if tell and counts != last:
            tell_counts(array.name, counts)
        last = counts
        far = [reached(job, there=uid in listed) for uid, job in seen.items()]  # each is asked: one may never get there
        if all(far):
            return list(seen.values())
        if (left := end - time.monotonic()) <= 0:
            return None
        time.sleep(min(_POLL_SECONDS, left))


def elements(client: Client, namespace: str, kind: str, array: str) -> list[Json]:
    """The elements of an array that you may see, page by page."""
    if "~" in array:
        return []  # a group that pods name: no label has such a value
    head = {"namespace": namespace, "kind": kind, "label": f"{ARRAY_LABEL}={array}"}
    found: list[Json] = []
    after: str | None = None
    while True:
        page = client.get("/apis/v1/workloads", **head, limit=1000, **({"continue": after} if after else {}))
        found += page["items"]
        if not (after := page.get("continue")):
            return found


def tell_counts(array: str, counts: Counter[str]) -> None:
    """Say how many elements are how far."""
    line = Text.assemble((f"array {array}", "bold"), ": ")
    order = [*_WORDS, *sorted(counts.keys() - _WORDS.keys())]
    parts = [(f"{counts[phase]} {_WORDS.get(phase, phase)}", phase) for phase in order if counts[phase]]
    for at, (text, phase) in enumerate(parts):
        line.append(f"{', ' if at else ''}").append(text, PHASE_STYLES.get(phase, ""))
    paragraph(console(), line)
