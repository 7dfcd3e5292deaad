"""Files of recorded jobs, read into jobs in the order of their submission.

* `swf`: the Standard Workload Format of the Parallel Workloads Archive. A job needs as many cards as it asked for
  processors (field 8, else field 5) and has the time that it asked for (field 9) as its limit.
* `muri`: `num_gpu`, `submit_time` in ms, and a run time of `iterations` times `iteration_time` (ms).
* `philly`: `num_gpu`, `submit_time` and `duration` in seconds, `user`.
* `history`: what a service recorded, see `records`.

Jobs without cards or run time cannot be replayed: they are left out and counted. Times begin with the first submission.
"""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from t9ksched.model.errors import Invalid
from t9ksched.simulation.job import Job
from t9ksched.simulation.records import history

SNAPSHOT: Final = "snapshot"
"""The format that is no trace of jobs: see `simulation.snapshot`."""
_MOST_JOBS: Final = 5_000_000
_SWF_FIELDS: Final = 18


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a file, and how many it has beside that have no cards or no run time."""

    jobs: tuple[Job, ...]
    left_out: int = 0


def read(form: str, lines: Iterable[str]) -> Trace:
    """The jobs in these lines of a file.

    Raises:
        Invalid: the format is unknown, or a line is not in it; the path is `format`, or the line's number and field.
    """
    reader = FORMATS.get(form)
    if reader is None:
        known = ", ".join(sorted([*FORMATS, SNAPSHOT]))
        raise Invalid.at("format", f"{form!r} is unknown: the formats are {known}")
    found: list[Job] = []
    left_out = 0
    for job in reader(lines):
        if job.cards <= 0 or job.runs <= 0:
            left_out += 1
        else:
            found.append(job)
        if len(found) > _MOST_JOBS:
            raise Invalid.at("jobs", f"more than {_MOST_JOBS} jobs")
    if not found:
        raise Invalid.at("jobs", "no job in it can be replayed: each needs cards and a run time above 0")
    found.sort(key=lambda job: job.submitted)
    first = found[0].submitted
    return Trace(tuple(replace(job, submitted=job.submitted - first) for job in found), left_out)


def _swf(lines: Iterable[str]) -> Iterator[Job]:
    for number, line in enumerate(lines, start=1):
        text = line.split(";", 1)[0].split()
        if not text:
            continue
        if len(text) < _SWF_FIELDS:
            raise Invalid.at(f"line {number}", f"it has {len(text)} fields: a job has {_SWF_FIELDS}")
        fields = [_number(word, f"line {number}, field {at}") for at, word in enumerate(text, start=1)]
        cards, limit = int(fields[7]), fields[8]
        yield Job(
            name=text[0],
            submitted=fields[1],
            runs=fields[3],
            cards=cards if cards > 0 else int(fields[4]),
            user=text[11],
            limit=limit if limit > 0 else None,
        )


def _muri(lines: Iterable[str]) -> Iterator[Job]:
    for number, row in _rows(lines, ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time")):
        yield Job(
            name=row["job_id"],
            submitted=_field(row, "submit_time", number) / 1000,
            runs=_field(row, "iterations", number) * _field(row, "iteration_time", number) / 1000,
            cards=int(_field(row, "num_gpu", number)),
            priority=int(_field(row, "priority", number)) if row.get("priority") else 0,
        )


def _philly(lines: Iterable[str]) -> Iterator[Job]:
    for number, row in _rows(lines, ("job_id", "num_gpu", "submit_time", "duration")):
        yield Job(
            name=row["job_id"],
            submitted=_field(row, "submit_time", number),
            runs=_field(row, "duration", number),
            cards=int(_field(row, "num_gpu", number)),
            user=row.get("user") or "",
        )


FORMATS: Final[Mapping[str, Callable[[Iterable[str]], Iterator[Job]]]] = {
    "history": history,
    "muri": _muri,
    "philly": _philly,
    "swf": _swf,
}


def _rows(lines: Iterable[str], wanted: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with a header, and the number of the line on which each ends."""
    reader = csv.DictReader(lines, strict=True)
    try:
        missing = [name for name in wanted if name not in (reader.fieldnames or ())]
        if missing:
            raise Invalid.at("line 1", f"the header lacks {', '.join(missing)}")
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise Invalid.at(f"line {reader.reader.line_num}", f"it is no CSV: {error}") from error


def _field(row: Mapping[str, str | None], name: str, line: int) -> float:
    return _number(row.get(name) or "", f"line {line}, {name}")


def _number(text: str, path: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise Invalid.at(path, f"{text!r} must be a number") from None
    if not math.isfinite(found) or abs(found) > _LARGEST:
        raise Invalid.at(path, f"{text!r} must be a number of at most {_LARGEST:.0e}")
    return found


_LARGEST: Final = 1e15
"""Milliseconds of thirty thousand years: sums of times stay inside 64 bits."""
