"""What a job waits for, as users write it: `Job/prep, MPIJob/walk:any`.

`:ok`, the default, waits until the named job succeeded; `:any` until it ended, however that was. Both are of the job's
own namespace. Kinds that never end by themselves, and kinds of which the scheduler does not see the end, are refused.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from t9ksched.model.dns import is_subdomain
from t9ksched.workloads.podgroups import system_titled
from t9ksched.workloads.registry import ENDLESS_KINDS, JOBS, KINDS, spelled

OK: Final = "ok"
ANY: Final = "any"
WAITED_FOR: Final = tuple(sorted([*(row.name for row in JOBS if not row.endless), "Pod", "PodGroup"]))
"""Kinds of which the scheduler sees how a job ends."""
_TOLD: Final = (*(name for name in WAITED_FOR if KINDS[name].foreign is None), "jobs of other projects")
MOST: Final = 64
"""So many jobs one job may wait for."""
_SHOWN: Final = 80
_BETWEEN: Final = re.compile(r"[,\s]+")


class Dependency(NamedTuple):
    """One job that another waits for; `condition` is `OK` or `ANY`."""

    kind: str
    name: str
    condition: str = OK

    @property
    def title(self) -> str:
        """The job, for people."""
        return f"{self.kind}/{self.name}"

    def __str__(self) -> str:
        return self.title if self.condition == OK else f"{self.title}:{self.condition}"


def read_after(text: str) -> tuple[Dependency, ...]:
    """The jobs of an annotation, each once; none of an empty text.

    Raises:
        ValueError: a part of it names no job that can be waited for; the message says which, and what to write.
    """
    found: dict[str, Dependency] = {}
    for part in _BETWEEN.split(text.strip()):
        if not part:
            continue
        one = _read(part)
        if found.setdefault(one.title, one) != one:
            raise ValueError(f"{one.title} is there with :ok and with :any: name it once")
    if len(found) > MOST:
        raise ValueError(f"there are {len(found)} jobs to wait for, and a job waits for {MOST} at most")
    return tuple(found.values())


def written(dependencies: Iterable[Dependency]) -> str:
    """As `read_after` reads it."""
    return ", ".join(map(str, dependencies))


def _read(part: str) -> Dependency:
    shown = part if len(part) <= _SHOWN else f"{part[:_SHOWN]}…"
    title, colon, condition = part.partition(":")
    kind, slash, name = title.partition("/")
    if not (kind and slash and (is_subdomain(name) or system_titled(name) is not None)):
        raise ValueError(f"{shown!r} names no job: write KIND/NAME, such as job/prep, with :ok or :any behind it")
    if colon and condition not in (OK, ANY):
        raise ValueError(
            f"{shown!r} ends in {condition!r}: write :ok to wait until it succeeded, :any until it ended anyhow"
        )
    known = spelled(kind)
    if known in ENDLESS_KINDS:
        raise ValueError(f"{shown!r} cannot be waited for: a {known} does not end by itself")
    if known not in WAITED_FOR:
        raise ValueError(f"{shown!r} cannot be waited for: that can be {', '.join(_TOLD)}")
    return Dependency(known, name, condition or OK)


def circle(waits: Mapping[str, Iterable[str]], start: str) -> tuple[str, ...]:
    """The way from a job back to itself, itself first, where each of `waits` waits for those named with it; empty if
    there is none.
    """
    came: dict[str, str] = {}
    ahead = [start]
    while ahead:
        at = ahead.pop()
        for other in waits.get(at, ()):
            if other == start:
                way = [at]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return tuple(reversed(way))
            if other not in came:
                came[other] = at
                ahead.append(other)
    return ()
